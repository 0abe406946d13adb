#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    prony_machine::sampling::fuzzing::perf_map(data);
    prony_machine::sampling::fuzzing::elf(data);
});
