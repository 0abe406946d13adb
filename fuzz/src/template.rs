//! Text with `{{ … }}` placeholders in a URL, a header and a body.
//!
//! This file isn't part of the fuzz library: the tests of `crates/protocol` include the library and
//! don't depend on `prony_load`.

use prony_load::LoadSettings;

/// Resolves a load with the text in the URL, in a header and in the body. None of these may panic,
/// and a body without `{{` must be valid. Returns the number of positions in which the text is
/// valid.
pub fn run(data: &[u8]) -> u32 {
    let Ok(text) = std::str::from_utf8(data) else {
        return 0;
    };
    // Nothing is sent, and the address needs no DNS lookup.
    let plain = "http://127.0.0.1:1/";
    let with_query = format!("{plain}?{text}");
    let header = LoadSettings {
        header: vec![format!("X-Text: {text}")],
        ..LoadSettings::default()
    };
    let body = LoadSettings {
        body: Some(text.to_owned()),
        ..LoadSettings::default()
    };
    let loads = [
        (&LoadSettings::default(), with_query.as_str()),
        (&header, plain),
        (&body, plain),
    ];
    let mut valid = 0;
    for (settings, url) in loads {
        match settings.resolve(Some(url)) {
            Ok(_) => valid += 1,
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(
        text.contains("{{") || body.resolve(Some(plain)).is_ok(),
        "{text:?}"
    );
    valid
}
