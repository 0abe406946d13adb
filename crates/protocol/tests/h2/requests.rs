//! Tests that another implementation can decode encoded requests.

use httlib_hpack::Decoder;
use prony_protocol::h1::{Expects, RequestError, RequestSpec, Version};
use prony_protocol::h2::{ClientSettings, Connection, EncodedRequest, RequestScheme};

use crate::bodies::h2::frames;

const SPEC: RequestSpec = RequestSpec {
    method: "GET",
    target: "/",
    version: Version::Http11,
    host: "host",
    headers: &[],
    body: b"",
    keep_alive: true,
};

const USER_AGENT: &str = concat!("user-agent: prony/", env!("CARGO_PKG_VERSION"));

/// Returns the fields of a request, one per line.
fn fields(spec: &RequestSpec, scheme: RequestScheme) -> Vec<String> {
    let request = EncodedRequest::new(spec, scheme).expect("a valid request");
    let sent = sent(&request);
    let mut block = sent[9..].to_vec();
    let mut list = Vec::new();
    let mut decoder = Decoder::with_dynamic_size(0);
    decoder
        .decode(&mut block, &mut list)
        .expect("a valid block");
    let line = |(name, value, _)| {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        format!("{}: {}", text(name), text(value))
    };
    list.into_iter().map(line).collect()
}

/// Returns the bytes sent for the head of a request.
fn sent(request: &EncodedRequest) -> Vec<u8> {
    let mut connection = Connection::new(ClientSettings::default());
    let mut out = Vec::new();
    connection.take_output(&mut out, |_| b"");
    connection
        .start(request, 0)
        .expect("request can be started");
    let mut out = Vec::new();
    connection.take_output(&mut out, |_| request.body());
    out.truncate(request.head_bytes());
    out
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_get_has_few_fields_in_order() {
    let expected = [
        ":method: GET",
        ":scheme: https",
        ":authority: host",
        ":path: /",
        USER_AGENT,
        "accept: */*",
    ];
    assert_eq!(fields(&SPEC, RequestScheme::Https), expected);
}

#[test]
fn targets_fill_the_pseudo_headers() {
    let rows: [(&str, &str, &str, &[&str]); 10] = [
        (
            "GET",
            "/a?b=c",
            "h:1",
            &[":scheme: http", ":authority: h:1", ":path: /a?b=c"],
        ),
        ("GET", "/", "", &[":scheme: http", ":path: /"]),
        (
            "OPTIONS",
            "*",
            "h",
            &[":scheme: http", ":authority: h", ":path: *"],
        ),
        (
            "GET",
            "https://o/x",
            "h",
            &[":scheme: https", ":authority: o", ":path: /x"],
        ),
        (
            "GET",
            "http://o:8?q",
            "h",
            &[":scheme: http", ":authority: o:8", ":path: /?q"],
        ),
        (
            "GET",
            "http://o",
            "h",
            &[":scheme: http", ":authority: o", ":path: /"],
        ),
        (
            "OPTIONS",
            "http://o",
            "h",
            &[":scheme: http", ":authority: o", ":path: *"],
        ),
        (
            "OPTIONS",
            "http://o/",
            "h",
            &[":scheme: http", ":authority: o", ":path: /"],
        ),
        (
            "GET",
            "http://me:secret@o/a@b",
            "h",
            &[":scheme: http", ":authority: o", ":path: /a@b"],
        ),
        ("CONNECT", "o:443", "h", &[":authority: o:443"]),
    ];
    for (method, target, host, expected) in rows {
        let spec = RequestSpec {
            method,
            target,
            host,
            ..SPEC
        };
        let fields = fields(&spec, RequestScheme::Http);
        let pseudo: Vec<&String> = fields.iter().filter(|line| line.starts_with(':')).collect();
        assert_eq!(pseudo[0], &format!(":method: {method}"));
        assert_eq!(pseudo[1..], expected.iter().collect::<Vec<_>>(), "{target}");
    }
}

#[test]
fn headers_are_lowered_and_win_over_defaults() {
    let headers = [
        header("Host", "other"),
        header("User-Agent", " me "),
        header("ACCEPT", "text/html"),
        header("X-Own", "1"),
        header("x-own", "2"),
        header("Cookie", "a=b"),
    ];
    let spec = RequestSpec {
        headers: &headers,
        ..SPEC
    };
    let expected = [
        ":method: GET",
        ":scheme: http",
        ":authority: other",
        ":path: /",
        "user-agent: me",
        "accept: text/html",
        "x-own: 1",
        "x-own: 2",
        "cookie: a=b",
    ];
    assert_eq!(fields(&spec, RequestScheme::Http), expected);
}

#[test]
fn an_empty_header_suppresses_its_default() {
    let headers = [header("User-Agent", ""), header("Accept", " ")];
    let spec = RequestSpec {
        headers: &headers,
        ..SPEC
    };
    let fields = fields(&spec, RequestScheme::Http);
    assert!(
        fields.iter().all(|field| field.starts_with(':')),
        "{fields:?}"
    );
}

#[test]
fn connection_specific_fields_are_left_out() {
    let headers = [
        header("Connection", "close, X-Hop"),
        header("Keep-Alive", "5"),
        header("Proxy-Connection", "close"),
        header("Upgrade", "websocket"),
        header("Transfer-Encoding", "chunked"),
        header("X-Hop", "1"),
        header("TE", "gzip"),
        header("te", "trailers"),
    ];
    let spec = RequestSpec {
        method: "POST",
        headers: &headers,
        body: b"abc",
        ..SPEC
    };
    assert_eq!(
        fields(&spec, RequestScheme::Http)[4..],
        [USER_AGENT, "accept: */*", "te: trailers"]
    );
}

#[test]
fn bodies_have_a_length_as_in_http1() {
    let length = |method, body| {
        let spec = RequestSpec {
            method,
            body,
            ..SPEC
        };
        let fields = fields(&spec, RequestScheme::Http);
        fields
            .iter()
            .find_map(|line| line.strip_prefix("content-length: ").map(str::to_owned))
    };
    assert_eq!(length("GET", b""), None);
    assert_eq!(length("GET", b"abc").as_deref(), Some("3"));
    assert_eq!(length("POST", b"").as_deref(), Some("0"));
    assert_eq!(length("DELETE", b""), None);
    let headers = [header("Content-Length", "3")];
    let spec = RequestSpec {
        headers: &headers,
        body: b"abc",
        ..SPEC
    };
    let fields = fields(&spec, RequestScheme::Http);
    assert_eq!(
        fields
            .iter()
            .filter(|line| line.starts_with("content-length"))
            .count(),
        1
    );
}

#[test]
fn methods_determine_the_expected_body() {
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
        let request = EncodedRequest::new(&spec, RequestScheme::Http).expect("valid");
        assert_eq!(request.expects(), expects);
    }
}

#[test]
fn invalid_requests_are_rejected_as_in_http1() {
    let headers = [header("a b", "c")];
    let rows = [
        (
            RequestSpec {
                method: "G T",
                ..SPEC
            },
            RequestError::Method("G T".to_owned()),
        ),
        (
            RequestSpec {
                target: "x",
                ..SPEC
            },
            RequestError::Target("x".to_owned()),
        ),
        (
            RequestSpec {
                host: "a b",
                ..SPEC
            },
            RequestError::Host("a b".to_owned()),
        ),
        (
            RequestSpec {
                headers: &headers,
                ..SPEC
            },
            RequestError::HeaderName("a b".to_owned()),
        ),
    ];
    for (spec, error) in rows {
        assert_eq!(EncodedRequest::new(&spec, RequestScheme::Http), Err(error));
    }
}

#[test]
fn large_heads_continue_in_further_frames() {
    for value_bytes in [16_000, 16_300, 16_384, 40_000, 3 * 16_383 - 60] {
        let headers = [header("x-large", &"~".repeat(value_bytes))];
        let spec = RequestSpec {
            headers: &headers,
            ..SPEC
        };
        let request = EncodedRequest::new(&spec, RequestScheme::Http).expect("valid");
        let sent = sent(&request);
        let lines = frames::describe(&sent);
        let more = lines.len() - 1;
        assert_eq!(
            lines[0],
            if more == 0 {
                "HEADERS 1 END"
            } else {
                "HEADERS 1 END more"
            }
        );
        for (at, line) in lines.iter().enumerate().skip(1) {
            let expected = if at == more {
                "CONTINUATION 1"
            } else {
                "CONTINUATION 1 more"
            };
            assert_eq!(line, expected);
        }
        let mut block = Vec::new();
        let mut rest = sent.as_slice();
        while let Some((header, behind)) = rest.split_first_chunk::<9>() {
            let bytes = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            assert!(bytes <= 16_384);
            block.extend_from_slice(&behind[..bytes]);
            rest = &behind[bytes..];
        }
        let mut list = Vec::new();
        let decoded = Decoder::with_dynamic_size(0).decode(&mut block, &mut list);
        assert!(decoded.is_ok());
        assert_eq!(list.last().map(|field| field.1.len()), Some(value_bytes));
    }
}
