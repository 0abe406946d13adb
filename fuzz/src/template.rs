//! Texts with `{{ … }}` in a URL, a header and a body.
//!
//! Not part of the library, because the tests of `crates/protocol` include that and don't know loads.

use prony_load::LoadSettings;

/// Resolves a load for each place of the text. Each one succeeds or fails with an error; nothing
/// panics. A body without two opening braces is always valid. Returns the number of places in which
/// the text is valid.
pub fn run(data: &[u8]) -> u32 {
    let Ok(text) = std::str::from_utf8(data) else {
        return 0;
    };
    // Nothing is sent, and the address needs no lookup.
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
