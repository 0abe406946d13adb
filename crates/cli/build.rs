//! Rebuilds the binary when a study changes: its files are embedded.

fn main() {
    println!("cargo::rerun-if-changed=../../studies");
}
