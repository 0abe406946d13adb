//! Arbitrary requests: each valid one must be encoded as exactly one request with the given
//! content.

use prony_protocol::h1::{RequestSpec, Version, encode_request};

/// Encodes an arbitrary request. The first byte determines the version and keepalive. The other
/// bytes are parts separated by `|`: method, target, host, body, then header names and values.
pub fn run(data: &[u8]) {
    let Some((&choice, parts)) = data.split_first() else {
        return;
    };
    let Ok(parts) = std::str::from_utf8(parts) else {
        return;
    };
    let mut parts = parts.split('|');
    let [method, target, host, body] = [(); 4].map(|()| parts.next().unwrap_or_default());
    let mut headers = Vec::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        headers.push((name.to_owned(), value.to_owned()));
    }
    let version = if choice & 1 == 0 {
        Version::Http11
    } else {
        Version::Http10
    };
    let (keep_alive, body) = (choice & 2 == 0, body.as_bytes());
    check(&RequestSpec {
        method,
        target,
        version,
        host,
        headers: &headers,
        body,
        keep_alive,
    });
}

fn check(spec: &RequestSpec) {
    let bytes = match encode_request(spec) {
        Ok(bytes) => bytes,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let end = find(&bytes, b"\r\n\r\n").expect("the request must contain the end of its head");
    let (head, body) = (&bytes[..end], &bytes[end + 4..]);
    let head = std::str::from_utf8(head).expect("the head must be UTF-8");

    let mut lines = head.split("\r\n");
    let start: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let version = if spec.version == Version::Http10 {
        "HTTP/1.0"
    } else {
        "HTTP/1.1"
    };
    assert_eq!(start, [spec.method, spec.target, version]);

    let fields: Vec<(&str, &str)> = lines
        .map(|line| line.split_once(": ").expect("a name and a value"))
        .collect();
    assert!(!head.contains('\0') && !head.replace("\r\n", "").contains(['\r', '\n']));
    for (name, value) in spec.headers {
        let value = value.trim_matches([' ', '\t']);
        let has_default = ["user-agent", "accept"].contains(&&*name.to_ascii_lowercase());
        let is_sent = |(own, got): &(&str, &str)| own.eq_ignore_ascii_case(name) && *got == value;
        assert!((has_default && value.is_empty()) != fields.iter().any(is_sent));
    }
    let count = |name: &str| {
        fields
            .iter()
            .filter(|(own, _)| own.eq_ignore_ascii_case(name))
            .count()
    };
    assert_eq!(count("host"), 1);
    check_body(
        spec,
        body,
        count("content-length"),
        count("transfer-encoding"),
        &fields,
    );
}

fn check_body(
    spec: &RequestSpec,
    body: &[u8],
    lengths: usize,
    codings: usize,
    fields: &[(&str, &str)],
) {
    match (lengths, codings) {
        (0, 0) => assert!(body.is_empty() && spec.body.is_empty()),
        (1, 0) => {
            assert_eq!(body, spec.body);
            let named = |(name, _): &&(&str, &str)| name.eq_ignore_ascii_case("content-length");
            let (_, value) = fields.iter().find(named).expect("it was counted");
            assert_eq!(value.parse(), Ok(body.len()));
        }
        (0, 1) => {
            assert!(body.ends_with(b"0\r\n\r\n"));
            assert!(find(body, spec.body).is_some());
        }
        _ => panic!("{lengths} Content-Length and {codings} Transfer-Encoding fields"),
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    (0..=bytes.len().checked_sub(part.len())?).find(|&at| bytes[at..].starts_with(part))
}
