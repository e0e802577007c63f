//! Compiles `proto/paceline/v1` without a protoc: one descriptor set makes the code, serves reflection and the reference page.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use prost::Message;

const FILES: [&str; 3] = ["paceline/v1/common.proto", "paceline/v1/rate_limiter.proto", "paceline/v1/admin.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());

    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;
    let descriptors = compiler.file_descriptor_set();

    let out = Path::new(&env::var("OUT_DIR")?).join("paceline.bin");
    fs::write(out, descriptors.encode_to_vec())?;

    // Ordered maps: the same message always has the same bytes.
    tonic_prost_build::configure()
        .btree_map(".")
        // One type for errors everywhere, so that the helpers for its details work on it.
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .compile_fds(descriptors)?;
    Ok(())
}
