//! Writes the stored experiments and records that the tests render.
//! `cargo run -p prony-report --example fixtures`, then look at what changed. A test holds the kept
//! files against what this writes; `demo-of-0.1.0` is left as an earlier version wrote it.

#[path = "../tests/sample_data/mod.rs"]
mod sample_data;

use std::path::Path;

fn main() -> std::io::Result<()> {
    sample_data::write_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"))
}
