#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(prony_fuzz::h2::operations::run(data)));
