#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| drop(prony_fuzz::h3::qpack::run(data)));
