//! Writes the stored experiments and records that the tests render. Run `cargo run -p prony-report
//! --example fixtures`, then review the differences. A test compares the committed files with the
//! output of this program. `demo-of-0.1.0` is never rewritten, because it was written by an earlier
//! version.

#[path = "../tests/report/sample_data/mod.rs"]
mod sample_data;

use std::path::Path;

fn main() -> std::io::Result<()> {
    sample_data::write_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"))
}
