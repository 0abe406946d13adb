#![no_main]

#[path = "../src/journey.rs"]
mod journey;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    journey::run(data);
});
