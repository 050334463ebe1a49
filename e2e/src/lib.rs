//! Black-box tests of the real binary; everything is below `tests/`.
