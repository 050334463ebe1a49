//! Defaulting and validation of objects, one file a kind, every error with its field path
