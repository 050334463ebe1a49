//! Compiles our description of the CRI messages, without `protoc`.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let description = Path::new("proto/runtime.proto");
    println!("cargo::rerun-if-changed={}", description.display());
    let descriptors = protox::compile([description], [Path::new("proto")])?;
    tonic_prost_build::configure()
        // Ordered maps: the same message has the same bytes and the same listing, always.
        .btree_map(".")
        // Values of variables and passwords stay out of debug output; see `redacted.rs`.
        .skip_debug([".runtime.v1.KeyValue", ".runtime.v1.AuthConfig"])
        // A server that leaves a call out answers "unimplemented", as the protocol wants it.
        .generate_default_stubs(true)
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
