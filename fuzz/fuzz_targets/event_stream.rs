#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| prony_fuzz::event_stream::run(data));
