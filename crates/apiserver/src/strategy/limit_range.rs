//! LimitRange.

use super::Strategy;

pub(crate) struct LimitRanges;

impl Strategy for LimitRanges {
    fn creates_on_update(&self) -> bool {
        true
    }
}
