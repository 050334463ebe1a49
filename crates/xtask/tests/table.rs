//! The checked-in table is what the facts give.

use std::path::Path;

#[test]
fn the_checked_in_table_follows_from_the_facts() {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema");
    let made = xtask::make_table(&schema.join("facts")).expect("the facts are complete");
    let checked_in = std::fs::read(schema.join("src/table.bin")).expect("the table is checked in");
    assert!(made == checked_in, "table.bin is stale: run `cargo run -p xtask`");
}
