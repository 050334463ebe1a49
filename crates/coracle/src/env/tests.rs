//! The command's output for whole inputs.
