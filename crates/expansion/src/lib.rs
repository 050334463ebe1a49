//! The $(VAR) language: tokenise once, expand with a lookup, report every reference
