#![no_main]

#[path = "../src/tcp.rs"]
mod tcp;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tcp::run(data);
});
