//! The few system calls that the safe wrappers lack; the only crate with unsafe
