//! Makes checked-in files: `cargo run -p xtask` writes `crates/schema/src/table.bin` from `crates/schema/facts`,
//! `cargo run -p xtask -- check` only tells whether it is current.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use xtask::{TableError, make_table};

fn main() -> ExitCode {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema");
    let check = std::env::args().nth(1).as_deref() == Some("check");
    match run(&schema, check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(schema: &Path, check: bool) -> Result<(), TableError> {
    let table = make_table(&schema.join("facts"))?;
    let path: PathBuf = schema.join("src/table.bin");
    let io = |source| TableError::File { path: path.clone(), source };
    if check {
        return if std::fs::read(&path).map_err(io)? == table {
            Ok(())
        } else {
            Err(TableError::Stale { path: path.clone() })
        };
    }
    std::fs::write(&path, table).map_err(io)
}
