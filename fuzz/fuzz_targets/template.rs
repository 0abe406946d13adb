#![no_main]

#[path = "../src/template.rs"]
mod template;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    template::run(data);
});
