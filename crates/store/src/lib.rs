//! Versioned objects: list, watch and compare-and-swap over memory or SQLite
