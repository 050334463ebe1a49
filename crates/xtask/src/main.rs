//! Makes `crates/schema/src/table.bin` from the facts in `crates/schema/facts`.

fn main() {}
