#![no_main]

#[path = "../src/descriptors.rs"]
mod descriptors;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    descriptors::run(data);
});
