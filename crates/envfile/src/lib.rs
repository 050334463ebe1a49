//! The env file grammars: bytes in, ordered assignments with positions out
