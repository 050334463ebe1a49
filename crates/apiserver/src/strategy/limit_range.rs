//! LimitRange.

use super::Strategy;

pub(crate) struct LimitRanges;

impl Strategy for LimitRanges {}
