#![no_main]

use prony_frontends::recorded;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(recorded) = recorded::steps(text) {
        let steps = recorded::steps_text(&recorded, "journey.toml");
        assert!(steps.contains("[[step]]"));
    }
});
