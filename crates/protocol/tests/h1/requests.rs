//! Tests of the encoding and rejection of requests.

use prony_protocol::h1::{RequestError, RequestSpec, Version, asks_to_close, encode_request};

const GET: RequestSpec<'static> = RequestSpec {
    method: "GET",
    target: "/path?query",
    version: Version::Http11,
    host: "example.org:8080",
    headers: &[],
    body: b"",
    keep_alive: true,
};

fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn text(spec: &RequestSpec) -> String {
    String::from_utf8(encode_request(spec).unwrap()).unwrap()
}

fn defaults() -> String {
    format!(
        "Host: example.org:8080\r\nUser-Agent: prony/{}\r\nAccept: */*\r\n",
        env!("CARGO_PKG_VERSION")
    )
}

#[test]
fn a_request_has_only_the_necessary_fields() {
    let defaults = defaults();
    assert_eq!(
        text(&GET),
        format!("GET /path?query HTTP/1.1\r\n{defaults}\r\n")
    );
    let close = RequestSpec {
        keep_alive: false,
        ..GET
    };
    assert_eq!(
        text(&close),
        format!("GET /path?query HTTP/1.1\r\n{defaults}Connection: close\r\n\r\n")
    );
    let old = RequestSpec {
        version: Version::Http10,
        ..GET
    };
    assert_eq!(
        text(&old),
        format!("GET /path?query HTTP/1.0\r\n{defaults}Connection: keep-alive\r\n\r\n")
    );
}

#[test]
fn an_empty_header_suppresses_its_default() {
    let none = headers(&[("user-agent", ""), ("Accept", " "), ("X-Empty", "")]);
    let bare = RequestSpec {
        headers: &none,
        ..GET
    };
    assert_eq!(
        text(&bare),
        "GET /path?query HTTP/1.1\r\nHost: example.org:8080\r\nX-Empty: \r\n\r\n"
    );
}

#[test]
fn a_body_has_its_length() {
    let defaults = defaults();
    let post = RequestSpec {
        method: "POST",
        target: "/",
        body: b"a=b",
        ..GET
    };
    assert_eq!(
        text(&post),
        format!("POST / HTTP/1.1\r\n{defaults}Content-Length: 3\r\n\r\na=b")
    );
    let empty = RequestSpec { body: b"", ..post };
    assert_eq!(
        text(&empty),
        format!("POST / HTTP/1.1\r\n{defaults}Content-Length: 0\r\n\r\n")
    );
    let delete = RequestSpec {
        method: "DELETE",
        ..empty
    };
    assert_eq!(
        text(&delete),
        format!("DELETE / HTTP/1.1\r\n{defaults}\r\n")
    );
    let bytes = RequestSpec {
        body: b"\x00\xff\r\n\r\n",
        ..post
    };
    assert!(
        encode_request(&bytes)
            .unwrap()
            .ends_with(b"Content-Length: 6\r\n\r\n\x00\xff\r\n\r\n")
    );
}

#[test]
fn the_users_headers_win() {
    let own = headers(&[
        ("user-agent", "me"),
        ("HOST", "other"),
        ("accept", "text/x"),
        ("X-A", " 1\t"),
        ("X-A", "2: \u{e4}"),
        ("connection", "keep-alive"),
        ("content-length", "3"),
    ]);
    let spec = RequestSpec {
        method: "PUT",
        target: "/",
        headers: &own,
        body: b"abc",
        keep_alive: false,
        ..GET
    };
    assert_eq!(
        text(&spec),
        "PUT / HTTP/1.1\r\nHost: other\r\nuser-agent: me\r\naccept: text/x\r\nX-A: 1\r\nX-A: 2: \u{e4}\r\n\
         connection: keep-alive\r\ncontent-length: 3\r\n\r\nabc"
    );
}

#[test]
fn a_body_is_sent_as_one_chunk_on_request() {
    let own = headers(&[("Transfer-Encoding", "chunked")]);
    let spec = RequestSpec {
        method: "POST",
        headers: &own,
        body: b"hello, hello, hello",
        ..GET
    };
    assert!(
        text(&spec).ends_with(
            "\r\nTransfer-Encoding: chunked\r\n\r\n13\r\nhello, hello, hello\r\n0\r\n\r\n"
        )
    );
    assert!(!text(&spec).contains("Content-Length"));
    let empty = RequestSpec { body: b"", ..spec };
    assert!(text(&empty).ends_with("chunked\r\n\r\n0\r\n\r\n"));
    let old = RequestSpec {
        version: Version::Http10,
        ..spec
    };
    assert_eq!(
        encode_request(&old),
        Err(RequestError::TransferEncoding("chunked".to_owned()))
    );
}

#[test]
fn each_form_of_target_is_sent() {
    for (method, target) in [
        ("GET", "/"),
        ("GET", "//a"),
        ("GET", "/%20?a=b&c={}\"|"),
        ("GET", "http://example.org/a"),
        ("CONNECT", "example.org:443"),
        ("CONNECT", "[::1]:443"),
        ("OPTIONS", "*"),
        ("OPTIONS", "/"),
        ("M-SEARCH", "/"),
    ] {
        let bytes = text(&RequestSpec {
            method,
            target,
            ..GET
        });
        assert!(
            bytes.starts_with(&format!("{method} {target} HTTP/1.1\r\nHost: ")),
            "{bytes}"
        );
    }
}

#[test]
fn invalid_targets_are_rejected() {
    for (method, target) in [
        ("GET", ""),
        ("GET", "*"),
        ("GET", "a"),
        ("GET", "/a b"),
        ("GET", "/a#b"),
        ("GET", "/\u{e4}"),
        ("GET", "/\r\nX: y"),
        ("GET", "/\0"),
        ("GET", "/\x7f"),
        ("CONNECT", "/"),
        ("CONNECT", "example.org"),
    ] {
        let result = encode_request(&RequestSpec {
            method,
            target,
            ..GET
        });
        assert_eq!(
            result,
            Err(RequestError::Target(target.to_owned())),
            "{method} {target:?}"
        );
    }
}

#[test]
fn invalid_methods_and_hosts_are_rejected() {
    for method in ["", "GE T", "GET\r\n", "G\0T", "G\u{c4}T", "GET:", "GET/"] {
        let result = encode_request(&RequestSpec { method, ..GET });
        assert_eq!(result, Err(RequestError::Method(method.to_owned())));
    }
    for host in ["a b", "a\r\nX: y", "a/b", "a@b", "a\0", "\u{e4}.de"] {
        let result = encode_request(&RequestSpec { host, ..GET });
        assert_eq!(result, Err(RequestError::Host(host.to_owned())));
        let own = headers(&[("Host", host)]);
        assert!(
            encode_request(&RequestSpec {
                headers: &own,
                ..GET
            })
            .is_err()
        );
    }
    for host in ["", "localhost", "127.0.0.1:80", "[::1]:8080", "xn--4ca.de"] {
        assert!(
            encode_request(&RequestSpec { host, ..GET }).is_ok(),
            "{host}"
        );
    }
}

#[test]
fn broken_headers_are_refused_by_name() {
    for name in ["", "A B", "A:", "A\r\n", "\u{e4}", "A\0", " A"] {
        let own = headers(&[("X-Fine", "1"), (name, "2")]);
        let result = encode_request(&RequestSpec {
            headers: &own,
            ..GET
        });
        assert_eq!(result, Err(RequestError::HeaderName(name.to_owned())));
    }
    for value in [
        "a\r\nX: y",
        "a\n",
        "\r",
        "\0",
        "long enough for words \x01 of it",
        "\x7f",
    ] {
        let own = headers(&[("X-Odd", value)]);
        let error = encode_request(&RequestSpec {
            headers: &own,
            ..GET
        })
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the value {value:?} of header X-Odd contains a control character")
        );
    }
    let twice = headers(&[("Host", "a"), ("host", "b")]);
    let result = encode_request(&RequestSpec {
        headers: &twice,
        ..GET
    });
    assert_eq!(result, Err(RequestError::SecondHost));
}

#[test]
fn framing_that_contradicts_the_body_is_refused() {
    let post = RequestSpec {
        method: "POST",
        body: b"abc",
        ..GET
    };
    for given in [
        "2",
        "4",
        "",
        "+3",
        "3 3",
        "-1",
        "three",
        "99999999999999999999999",
    ] {
        let own = headers(&[("Content-Length", given)]);
        let result = encode_request(&RequestSpec {
            headers: &own,
            ..post
        });
        let given = given.to_owned();
        assert_eq!(
            result,
            Err(RequestError::ContentLength {
                given,
                body_bytes: 3
            })
        );
    }
    for given in ["gzip", "gzip, chunked", "", "chunked, chunked", "identity"] {
        let own = headers(&[("Transfer-Encoding", given)]);
        let result = encode_request(&RequestSpec {
            headers: &own,
            ..post
        });
        assert_eq!(
            result,
            Err(RequestError::TransferEncoding(given.to_owned()))
        );
    }
    for pair in [
        [("Content-Length", "3"), ("Content-Length", "3")],
        [("Content-Length", "3"), ("Transfer-Encoding", "chunked")],
        [
            ("Transfer-Encoding", "chunked"),
            ("Transfer-Encoding", "chunked"),
        ],
    ] {
        let own = headers(&pair);
        let result = encode_request(&RequestSpec {
            headers: &own,
            ..post
        });
        assert_eq!(result, Err(RequestError::TwoFramings));
    }
}

#[test]
fn a_request_may_ask_for_the_end_of_its_connection() {
    for (request, asks) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nCONNECTION:\tte , CLOSE\r\n\r\n", true),
        ("GET / HTTP/1.1\nconnection:close\n\n", true),
        ("GET / HTTP/1.1\r\nConnection: closed\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nX-Connection: close\r\n\r\n", false),
        (
            "GET / HTTP/1.1\r\nConnection: te\r\nConnection: close\r\n\r\n",
            true,
        ),
        (
            "POST / HTTP/1.1\r\n\r\nx\r\nConnection: close\r\n\r\n",
            false,
        ),
        ("GET / HTTP/1.0\r\n\r\n", true),
        ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", false),
        (
            "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
            true,
        ),
        ("", false),
        ("no request", false),
    ] {
        assert_eq!(asks_to_close(request.as_bytes()), asks, "{request:?}");
    }
}
