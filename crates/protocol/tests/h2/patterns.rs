//! Tests that encoding a request from a pattern has the same result as encoding it completely.

use httlib_hpack::Decoder;
use prony_protocol::h1::{RequestSpec, Version};
use prony_protocol::h2::{ClientSettings, Connection};
use prony_protocol::h2::{EncodedRequest, RequestPattern, RequestScheme};

const MARK: &str = "mark";

fn spec<'a>(path: &'a str, headers: &'a [(String, String)], body: &'a [u8]) -> RequestSpec<'a> {
    RequestSpec {
        method: "POST",
        target: path,
        version: Version::Http11,
        host: "host",
        headers,
        body,
        keep_alive: true,
    }
}

/// Returns the frames of a request's head, and the fields in them.
fn sent(request: &EncodedRequest) -> (Vec<u8>, Vec<String>) {
    let mut connection = Connection::new(ClientSettings::default());
    let mut out = Vec::new();
    connection.take_output(&mut out, |_| b"");
    connection
        .start(request, 0)
        .expect("request can be started");
    let mut out = Vec::new();
    connection.take_output(&mut out, |_| request.body());
    out.truncate(request.head_bytes());
    let (mut block, mut rest) = (Vec::new(), &out[..]);
    while let Some((header, after)) = rest.split_at_checked(9) {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        block.extend_from_slice(&after[..length]);
        rest = &after[length..];
    }
    let mut list = Vec::new();
    let mut decoder = Decoder::with_dynamic_size(0);
    decoder
        .decode(&mut block, &mut list)
        .expect("a valid block");
    let line = |(name, value, _)| {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        format!("{}: {}", text(name), text(value))
    };
    let fields = list.into_iter().map(line).collect();
    (out, fields)
}

fn headers(value: &str) -> Vec<(String, String)> {
    [("X-Fixed", "one"), ("X-Varying", value), ("Accept", "")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

#[test]
fn a_pattern_yields_the_fields_of_a_whole_request() {
    let marked = headers(MARK);
    let marked = spec("/mark", &marked, b"mark");
    let is_varying = |value: &str| value.contains(MARK);
    let pattern = RequestPattern::new(&marked, RequestScheme::Https, is_varying, true).unwrap();
    let values: Vec<&str> = pattern.varying_values().collect();
    assert_eq!(values, ["/mark", "mark"]);
    let mut request = EncodedRequest::default();
    // The same buffers are reused in an order in which they grow and shrink.
    for (length, body) in [
        (1, "b"),
        (127, ""),
        (3, "body"),
        (40_000, "other"),
        (0, "x"),
    ] {
        let (path, value) = (format!("/{}", "p".repeat(length)), "v".repeat(length));
        let write = |number: usize, out: &mut Vec<u8>| {
            let value = [&path, &value][number];
            out.extend_from_slice(value.as_bytes());
        };
        pattern.encode(body.as_bytes(), None, write, &mut request);
        let whole = headers(&value);
        let whole = spec(&path, &whole, body.as_bytes());
        let whole = EncodedRequest::new(&whole, RequestScheme::Https).unwrap();
        let (_, fields) = sent(&request);
        assert_eq!(fields, sent(&whole).1, "{length}");
        assert_eq!(request.body(), whole.body());
        assert_eq!(request.expects(), whole.expects());
    }
}

#[test]
fn one_more_field_follows_the_others() {
    let plain = spec("/", &[], b"");
    let pattern = RequestPattern::new(&plain, RequestScheme::Http, |_| false, false).unwrap();
    let mut request = EncodedRequest::default();
    pattern.encode(b"", Some(("cookie", "a=1")), |_, _| {}, &mut request);
    let (_, mut fields) = sent(&request);
    assert_eq!(fields.pop().as_deref(), Some("cookie: a=1"));
    pattern.encode(b"", None, |_, _| {}, &mut request);
    assert_eq!(sent(&request).1, fields);
}

#[test]
fn a_body_that_varies_has_its_length() {
    let marked = spec("/", &[], b"mark");
    let pattern = RequestPattern::new(&marked, RequestScheme::Http, |_| false, true).unwrap();
    let mut request = EncodedRequest::default();
    for body in ["", "1", "twelve bytes"] {
        pattern.encode(body.as_bytes(), None, |_, _| {}, &mut request);
        let length = format!("content-length: {}", body.len());
        assert!(sent(&request).1.contains(&length), "{body}");
    }
}
