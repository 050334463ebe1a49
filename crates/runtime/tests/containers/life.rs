//! The life of containers.

use crate::harness::Test;

pub(crate) const TESTS: [Test; 0] = [];
