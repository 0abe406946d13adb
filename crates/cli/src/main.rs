//! The prony binary.
fn main() {}
