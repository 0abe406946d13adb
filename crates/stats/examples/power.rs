//! Prints the table of power in `docs/measurement.md`.
fn main() {}
