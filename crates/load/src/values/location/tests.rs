use prony_protocol::h1::{RequestSpec, Version, encode_request};
use proptest::prelude::*;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text, None).unwrap()
}

fn led(base: &str, location: &str) -> String {
    match resolve(&url(base), location.as_bytes()) {
        Ok(url) => url.text(),
        Err(error) => error.to_string(),
    }
}

/// Resolves the examples of RFC 3986 §5.4 that apply to http.
#[test]
fn the_examples_of_the_rfc() {
    for (reference, whole) in [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g/"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q"),
        ("g#s", "http://a/b/c/g"),
        ("g?y#s", "http://a/b/c/g?y"),
        (";x", "http://a/b/c/;x"),
        ("g;x", "http://a/b/c/g;x"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../g", "http://a/g"),
        ("../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        ("..g", "http://a/b/c/..g"),
        ("./../g", "http://a/b/g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/../h", "http://a/b/c/h"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
    ] {
        assert_eq!(led("http://a/b/c/d;p?q", reference), whole, "{reference}");
    }
}

#[test]
fn hosts_schemes_and_invalid_characters() {
    let base = "https://[::1]:8443/x/y?z";
    for (location, whole) in [
        ("/a b\u{e4}", "https://[::1]:8443/a%20b%C3%A4"),
        ("HTTP://h:80/../A", "http://h/A"),
        ("https://h:443", "https://h/"),
        ("//h:1/x?//y", "https://h:1/x?//y"),
        ("/x?a={b}|c", "https://[::1]:8443/x?a=%7Bb%7D%7Cc"),
        ("//[::2]:9/", "https://[::2]:9/"),
        ("a//b/./c", "https://[::1]:8443/x/a//b/c"),
    ] {
        assert_eq!(led(base, location), whole);
    }
    for (location, why) in [
        ("mailto:a@b", "only http and https"),
        ("javascript://x", "only http and https"),
        ("http:relative", "no host follows"),
        ("http://", "Location: "),
        ("http://u:p@h/", "password"),
        ("http://h:0/", "port 0"),
        ("http://h:99999/", "port"),
        ("//", "Location: "),
    ] {
        assert!(
            led(base, location).contains(why),
            "{location}: {}",
            led(base, location)
        );
    }
    let long = vec![b'a'; LOCATION_BYTES_MAX + 1];
    let error = resolve(&url(base), &long).unwrap_err().to_string();
    assert!(error.contains("8 KiB") && error.len() < 200);
}

#[test]
fn the_first_location_of_a_head_is_used() {
    let head = b"HTTP/1.1 302 Found\r\nX-Location: /no\r\nLOCATION:\t /a \r\nLocation: /b\r\n";
    assert_eq!(location_of(head), Some(&b"/a"[..]));
    assert_eq!(
        location_of(b"HTTP/2 302\r\nlocation: /c\r\n"),
        Some(&b"/c"[..])
    );
    assert_eq!(location_of(b"HTTP/1.1 302 location: x\r\n"), None);
    assert_eq!(location_of(b"HTTP/1.1 302 F\nLocation:\n"), Some(&b""[..]));
    assert_eq!(location_of(b""), None);
}

#[test]
fn methods_bodies_and_credentials() {
    let headers: Vec<(String, String)> = [
        ("Authorization", "Basic x"),
        ("cookie", "a=b"),
        ("Host", "own"),
        ("Content-Type", "text/plain"),
        ("X-Other", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let (from, same) = (url("http://a/x"), url("http://A:80/y"));
    let names = |status: u16, method, to: &Url| {
        let further = further(status, method, &headers, (&from, to));
        let names: Vec<_> = further
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        (further.method.to_owned(), further.has_body, names.join(" "))
    };
    let all = "Authorization cookie Host Content-Type X-Other";
    let bodiless = "Authorization cookie Host X-Other";
    for (status, method, becomes, has_body) in [
        (301, "POST", "GET", false),
        (302, "POST", "GET", false),
        (303, "POST", "GET", false),
        (303, "PUT", "GET", false),
        (303, "HEAD", "HEAD", true),
        (301, "PUT", "PUT", true),
        (302, "DELETE", "DELETE", true),
        (307, "POST", "POST", true),
        (308, "POST", "POST", true),
        (302, "GET", "GET", true),
    ] {
        let kept = if has_body { all } else { bodiless };
        let expected = (becomes.to_owned(), has_body, kept.to_owned());
        assert_eq!(names(status, method, &same), expected, "{status} {method}");
    }
    for other in ["http://b/", "https://a/", "http://a:81/", "http://x.a/"] {
        let expected = ("POST".to_owned(), true, "Content-Type X-Other".to_owned());
        assert_eq!(names(307, "POST", &url(other)), expected, "{other}");
    }
}

/// Typical parts of a Location, and bytes that are invalid in every URL.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "http",
        "https",
        "HTTP",
        ":",
        "://",
        "//",
        "/",
        "..",
        ".",
        "?",
        "#",
        "@",
        "[",
        "]",
        "%",
        "%2",
        "a",
        "h:80",
        "::1",
        " ",
        "\t",
        "\0",
        "\u{e4}",
        "&",
        "\\",
        ";",
        "127.0.0.1",
        ":0",
        "[::2]:9",
    ];
    let word = proptest::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec());
    prop_oneof![7 => word, 1 => any::<u8>().prop_map(|byte| vec![byte])]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// No Location causes a panic, and every accepted one can be requested.
    #[test]
    fn any_bytes_resolve_or_are_refused(
        pieces in proptest::collection::vec(piece(), 0..9),
        base in proptest::sample::select(vec![
            "http://a/", "https://[::1]:8443/b/c/d?e=/../f", "http://h:9/x//y/",
        ]),
    ) {
        let (base, location) = (url(base), pieces.concat());
        if let Ok(to) = resolve(&base, &location) {
            prop_assert!(to.path.starts_with('/') && to.port > 0 && !to.host.is_empty());
            let spec = RequestSpec {
                method: "GET",
                target: &to.path,
                version: Version::Http11,
                host: &to.host_header(),
                headers: &[],
                body: b"",
                keep_alive: true,
            };
            // A new host may still be impossible to look up or encode.
            prop_assert!(to.host != base.host || encode_request(&spec).is_ok(), "{:?}", to);
            // Resolving the result again returns the same URL.
            prop_assert_eq!(resolve(&base, to.text().as_bytes()), Ok(to));
        }
    }

    /// A plain path is used unchanged and stays on the same host.
    #[test]
    fn a_plain_path_is_used_unchanged(path in "/[a-z0-9]{1,9}(/[a-z0-9_~-]{1,9}){0,4}(\\?[a-z=&/]{0,9})?") {
        let to = resolve(&url("http://h:81/x?y"), path.as_bytes());
        prop_assert_eq!(to.map(|to| to.text()), Ok(format!("http://h:81{path}")));
    }
}
