//! Tests of the encoding of requests and patterns. Requests must have the same fields as in HTTP/2.

use httlib_hpack::Decoder;
use prony_protocol::h1::{Expects, RequestError, RequestSpec, Version};
use prony_protocol::h2::{self, RequestScheme};
use prony_protocol::h3::qpack::{self, FieldFault};
use prony_protocol::h3::{EncodedRequest, RequestPattern};

const SPEC: RequestSpec = RequestSpec {
    method: "GET",
    target: "/",
    version: Version::Http11,
    host: "host",
    headers: &[],
    body: b"",
    keep_alive: true,
};

/// Parses a QUIC integer at the start of `bytes` and consumes it.
fn take(bytes: &mut &[u8]) -> usize {
    let (length, first) = (1 << (bytes[0] >> 6), usize::from(bytes[0] & 0x3f));
    let (number, rest) = bytes.split_at(length);
    *bytes = rest;
    let more = number[1..].iter();
    more.fold(first, |number, &byte| number << 8 | usize::from(byte))
}

/// Returns the field lines of a request, and the body.
fn read(request: &EncodedRequest) -> (String, Vec<u8>) {
    let mut rest = request.wire();
    assert_eq!(take(&mut rest), 1, "HEADERS");
    let length = take(&mut rest);
    let (section, mut rest) = rest.split_at(length);
    let mut decoder = qpack::Decoder::new(0, u32::MAX);
    decoder.keep_texts();
    let fields = decoder.decode(0, section).expect("a valid section");
    assert_eq!(fields.list_bytes, u64::from(request.list_bytes()));
    assert_eq!(fields.fault, Some(FieldFault::PseudoHeader));
    let mut body = Vec::new();
    if !rest.is_empty() {
        assert_eq!(take(&mut rest), 0, "DATA");
        let length = take(&mut rest);
        assert_eq!(rest.len(), length);
        body.extend_from_slice(rest);
    }
    assert_eq!(request.body(), body);
    (String::from_utf8_lossy(decoder.lines()).into_owned(), body)
}

/// Returns the field lines of the same request in HTTP/2, decoded by another implementation.
fn lines_in_http2(spec: &RequestSpec, scheme: RequestScheme) -> String {
    let request = h2::EncodedRequest::new(spec, scheme).expect("a valid request");
    let mut connection = h2::Connection::new(h2::ClientSettings::default());
    connection.take_output(&mut Vec::new(), |_| b"");
    connection
        .start(&request, 0)
        .expect("request can be started");
    let mut out = Vec::new();
    connection.take_output(&mut out, |_| request.body());
    let mut block = out[9..request.head_bytes()].to_vec();
    let mut list = Vec::new();
    let mut decoder = Decoder::with_dynamic_size(0);
    decoder
        .decode(&mut block, &mut list)
        .expect("a valid block");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let line = |(name, value, _)| format!("{}: {}\r\n", text(name), text(value));
    list.into_iter().map(line).collect()
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn fields_are_the_same_as_in_http2() {
    let headers = [
        header("Host", "other:8443"),
        header("X-Long-Name-Of-A-Header", &"value ".repeat(200)),
        header("Connection", "x-hop"),
        header("X-Hop", "dropped"),
        header("accept-encoding", "gzip, deflate, br"),
        header("Cookie", ""),
        header("TE", "trailers"),
    ];
    let body = vec![b'x'; 70_000];
    for (method, target, headers, body) in [
        ("GET", "/", &[][..], &b""[..]),
        ("GET", "/path?query", &headers, b""),
        ("HEAD", "https://user@example.com:1/x", &headers, b""),
        ("POST", "/", &[], b"abc"),
        ("PATCH", "/", &headers, &body),
        ("OPTIONS", "*", &[], b""),
        ("CONNECT", "example.com:443", &[], b""),
    ] {
        let spec = RequestSpec {
            method,
            target,
            headers,
            body,
            ..SPEC
        };
        for scheme in [RequestScheme::Http, RequestScheme::Https] {
            let request = EncodedRequest::new(&spec, scheme).expect("a valid request");
            let (lines, sent) = read(&request);
            assert_eq!(lines, lines_in_http2(&spec, scheme));
            assert_eq!(sent, body);
        }
    }
}

#[test]
fn the_bytes_of_a_request() {
    let spec = RequestSpec {
        method: "POST",
        headers: &[header("User-Agent", "~~")],
        body: b"abc",
        ..SPEC
    };
    let request = EncodedRequest::new(&spec, RequestScheme::Https).expect("a valid request");
    let expected: &[&[u8]] = &[
        // HEADERS with POST, https, host, /, accept, user-agent and content-length.
        b"\x01\x13\x00\x00\xd4\xd7\x50\x83\x9c\xe8\x4f\xc1\xdd\x5f\x50\x02~~\x54\x013",
        b"\x00\x03abc",
    ];
    let expected = expected.concat();
    assert_eq!(
        request.wire(),
        expected,
        "{}",
        request.wire().escape_ascii()
    );
    assert_eq!(request.expects(), Expects::Body);
}

#[test]
fn methods_and_invalid_requests() {
    for (method, target, expects) in [
        ("GET", "/", Expects::Body),
        ("HEAD", "/", Expects::NoBody),
        ("CONNECT", "host:1", Expects::Connect),
    ] {
        let spec = RequestSpec {
            method,
            target,
            ..SPEC
        };
        let request = EncodedRequest::new(&spec, RequestScheme::Https).expect("a valid request");
        assert_eq!(request.expects(), expects);
    }
    let spec = RequestSpec {
        method: "a b",
        ..SPEC
    };
    let result = EncodedRequest::new(&spec, RequestScheme::Https);
    assert!(matches!(result, Err(RequestError::Method(_))));
}

#[test]
fn a_pattern_yields_the_fields_of_a_whole_request() {
    const MARK: &str = "mark";
    let headers = |value: &str| [header("X-Fixed", "one"), header("X-Varying", value)];
    let marked = headers(MARK);
    let spec = RequestSpec {
        method: "POST",
        target: "/mark",
        headers: &marked,
        body: b"mark",
        ..SPEC
    };
    let is_varying = |value: &str| value.contains(MARK);
    let pattern = RequestPattern::new(&spec, RequestScheme::Https, is_varying, true);
    let pattern = pattern.expect("a valid request");
    let values: Vec<&str> = pattern.varying_values().collect();
    assert_eq!(values, ["/mark", "mark"]);
    let mut rendered = EncodedRequest::default();
    for length in [0, 1, 40, 126, 127, 20_000, 3] {
        let (path, value) = (format!("/{}", "p".repeat(length)), "~".repeat(length));
        let body = vec![b'b'; length.max(1)];
        let write = |number: usize, out: &mut Vec<u8>| {
            out.extend_from_slice([&path, &value][number].as_bytes());
        };
        pattern.encode(&body, Some(("cookie", "a=b")), write, &mut rendered);
        let headers = headers(&value);
        let whole = RequestSpec {
            target: &path,
            headers: &headers,
            body: &body,
            ..spec
        };
        let whole = EncodedRequest::new(&whole, RequestScheme::Https).expect("a valid request");
        let (lines, sent) = read(&rendered);
        assert_eq!(lines, read(&whole).0 + "cookie: a=b\r\n");
        assert_eq!(sent, body);
    }
    pattern.encode(b"", None, |_, _| {}, &mut rendered);
    assert!(read(&rendered).1.is_empty());
}
