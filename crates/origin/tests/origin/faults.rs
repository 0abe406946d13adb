//! Tests of every fault over every transport, as the first request of a connection and as a later
//! one.

use std::io::Write;
use std::net::TcpStream;

use prony_origin::{Config, Fault, HELLO, Origin};

use crate::client::{Client, EVERY_WAY, End, Via, clear, get, start, start_for, with_tls};

struct ExpectedResponse {
    /// Text that the head, or whatever is sent in its place, must contain.
    has: &'static str,
    /// The last bytes of the response.
    tail: &'static str,
    end: End,
}

fn seen(has: &'static str, tail: &'static str, end: End) -> Option<ExpectedResponse> {
    Some(ExpectedResponse { has, tail, end })
}

/// Returns the expected response, or `None` for faults that never end.
fn expected(fault: Fault) -> Option<ExpectedResponse> {
    use End::{Closed, Reset, Silent};
    match fault {
        Fault::Reset => seen("", "", Reset),
        Fault::Close => seen("", "", Closed),
        Fault::Stall => seen("", "", Silent),
        Fault::Truncate => seen("Content-Length: 26", "\r\n\r\nHello, world!", Closed),
        Fault::StallBody => seen("Content-Length: 26", "\r\n\r\nHello, world!", Silent),
        Fault::ResetBody => seen("", "", Reset),
        Fault::Garbage => seen("no HTTP here", "\r\n", Closed),
        Fault::Half => seen("HTTP/1.1 200 OK\r\n", "Content-Ty", Closed),
        Fault::EarlyCloseKeepalive => {
            seen("Connection: keep-alive", "\r\n\r\nHello, world!", Closed)
        }
        Fault::CloseButOpen => seen("Connection: close", "\r\n\r\nHello, world!", Silent),
        Fault::EarlyResponse => seen("Connection: close", "\r\n\r\nHello, world!", Closed),
        Fault::LiesShort => seen("Content-Length: 5\r\n", "\r\n\r\nHello, world!", Silent),
        Fault::Interim => seen(
            "HTTP/1.1 103 ",
            "Content-Length: 13\r\n\r\nHello, world!",
            Silent,
        ),
        Fault::Continue => seen(
            "HTTP/1.1 100 ",
            "Content-Length: 13\r\n\r\nHello, world!",
            Silent,
        ),
        Fault::SlowBody => seen("Content-Length: 13", "\r\n\r\nHello, world!", Silent),
        Fault::Trailers => seen("7;colour=red\r\n", "Content-Length: 99\r\n\r\n", Silent),
        Fault::BadChunk => seen("\r\nzz\r\n", "0\r\n\r\n", Closed),
        Fault::TruncateChunked => seen("chunked\r\n", "d\r\nHello, world!\r\n", Closed),
        Fault::TwoLengths => seen("Content-Length: 5\r\n", "\r\n\r\nHello, world!", Closed),
        Fault::BadLength => seen("Content-Length: 1e1\r\n", "\r\n\r\nHello, world!", Closed),
        Fault::LengthAndChunked => seen("Content-Length: 13\r\n", "0\r\n\r\n", Closed),
        Fault::BadStatus => seen("HTTP/1.1 20000 ", "\r\n\r\nHello, world!", Closed),
        Fault::NoLength => seen("HTTP/1.0 200 ", "\r\n\r\nHello, world!", Closed),
        Fault::NoCloseNotify => seen("HTTP/1.0 200 ", "\r\n\r\nHello, world!", End::Cut),
        Fault::ConnectionError => seen("HTTP/1.1 501 ", "request it over HTTP/3\n", Silent),
        Fault::HugeHead | Fault::ManyHeaders => None,
    }
}

/// Returns the way in which a connection appears to end over this transport.
fn end_on(via: Via, end: End) -> End {
    match end {
        // A UNIX socket has no reset. Over TLS, the end looks like a close without `close_notify`.
        End::Reset if via == Via::Unix => End::Closed,
        End::Reset if via == Via::TlsOverUnix => End::Cut,
        End::Cut if !via.is_tls() => End::Closed,
        end => end,
    }
}

fn check(client: &mut Client, fault: Fault, via: Via, before: usize) {
    let Some(ExpectedResponse { has, tail, end }) = expected(fault) else {
        return;
    };
    let end = end_on(via, end);
    client.send(get(&format!("/fault/{fault}")));
    let what = format!("{fault} after {before} requests over {via:?}");
    if end == End::Silent && !tail.is_empty() {
        // First read the whole response, regardless of the machine's speed, and then wait for
        // silence.
        let mut bytes = Vec::new();
        while !bytes.ends_with(tail.as_bytes()) {
            bytes.extend(client.exactly(1));
        }
        assert!(String::from_utf8_lossy(&bytes).contains(has), "{what}");
    }
    let (bytes, seen_end) = if end == End::Silent {
        client.rest_until_silence()
    } else {
        client.rest()
    };
    assert_eq!(seen_end, end, "{what}");
    if end == End::Silent {
        assert_eq!(bytes, b"", "{what}");
    } else {
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(has), "{what}: {text}");
        assert!(bytes.ends_with(tail.as_bytes()), "{what}: {text}");
    }
}

/// Checks every fault over all given transports concurrently, on connections that have already
/// served `before` requests.
fn check_all(ways: &[Via], before: usize) {
    std::thread::scope(|scope| {
        for &via in ways {
            scope.spawn(move || {
                let running = start_for(via);
                for fault in Fault::all() {
                    let mut client = Client::connect(&running, via);
                    for _ in 0..before {
                        assert_eq!(client.get("/").body, HELLO.as_bytes());
                    }
                    check(&mut client, fault, via, before);
                }
            });
        }
    });
}

#[test]
fn each_fault_behaves_as_documented_over_every_transport() {
    check_all(&EVERY_WAY, 0);
}

#[test]
fn each_fault_works_on_a_later_request_too() {
    check_all(&EVERY_WAY, 2);
}

#[test]
fn a_fault_after_pipelined_requests_waits_for_their_responses() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    client.send(get("/") + &get("/bytes/4") + &get("/fault/close"));
    assert_eq!(client.response().body, HELLO.as_bytes());
    assert_eq!(client.response().body.len(), 4);
    assert_eq!(client.rest(), (vec![], End::Closed));
}

#[test]
fn after_a_fault_an_open_connection_is_served_further() {
    for via in [Via::Tcp, Via::Unix, Via::Tls] {
        let running = start_for(via);
        let mut client = Client::connect(&running, via);
        for path in ["/fault/interim", "/fault/continue"] {
            client.send(get(path));
            assert!(client.head().starts_with("HTTP/1.1 10"));
            assert_eq!(client.response().body, HELLO.as_bytes());
        }
        assert_eq!(client.get("/fault/slow-body").body, HELLO.as_bytes());
        assert_eq!(client.get("/fault/lies-short").body, b"Hello");
        assert_eq!(client.exactly(8), b", world!");
        assert_eq!(client.get("/").body, HELLO.as_bytes());
        assert_eq!(running.origin.requests(), 5);
        assert_eq!(running.origin.connections(), 1);
    }
}

#[test]
fn endless_heads_continue_while_the_client_reads() {
    for via in EVERY_WAY {
        let running = start_for(via);
        for (fault, filling) in [
            (Fault::HugeHead, "aaaaaaaaaa"),
            (Fault::ManyHeaders, "\r\nAnother: header\r\n"),
        ] {
            let mut client = Client::connect(&running, via);
            client.send(get(&format!("/fault/{fault}")));
            let bytes = client.exactly(2 << 20);
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n"));
            assert!(text[1 << 20..].contains(filling));
            assert!(!text.contains("\r\n\r\n"), "the head must not end");
        }
        // The origin still serves requests after the clients of the faults have closed their
        // connections.
        assert_eq!(Client::connect(&running, via).get("/").status, 200);
    }
}

#[test]
fn the_request_body_is_read_before_a_fault() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    client.send("POST /fault/interim HTTP/1.1\r\nHost: origin\r\nContent-Length: 200000\r\n\r\n");
    client.send(vec![b'x'; 200_000]);
    assert!(client.head().starts_with("HTTP/1.1 103"));
    assert_eq!(client.response().body, HELLO.as_bytes());
    assert_eq!(client.get("/").body, HELLO.as_bytes());
}

#[test]
fn an_early_response_does_not_wait_for_the_request_body() {
    for via in EVERY_WAY {
        let running = start_for(via);
        let mut client = Client::connect(&running, via);
        client.send(
            "POST /fault/early-answer HTTP/1.1\r\nHost: o\r\nContent-Length: 1000000\r\n\r\n",
        );
        client.send(b"only the beginning");
        let response = client.response();
        assert_eq!(response.header("connection"), Some("close"));
        assert_eq!(response.body, HELLO.as_bytes());
        assert_eq!(client.rest(), (vec![], End::Closed), "{via:?}");
        // Further input is read and doesn't cause a reset.
        client.send(vec![b'x'; 100_000]);
    }
}

#[test]
fn a_stalled_connection_ends_when_its_client_leaves() {
    let running = with_tls();
    for _ in 0..20 {
        let mut client = Client::connect(&running, Via::Tls);
        client.send(get("/fault/stall"));
    }
    assert_eq!(Client::connect(&running, Via::Tls).get("/").status, 200);
}

#[test]
fn faults_on_accept() {
    use prony_origin::AcceptFault;
    for (fault, end) in [
        (AcceptFault::Reset, End::Reset),
        (AcceptFault::Close, End::Closed),
        (AcceptFault::Ignore, End::Silent),
        (AcceptFault::Never, End::Silent),
    ] {
        let running = start(Config {
            on_accept: Some(fault),
            ..Config::default()
        });
        let mut client = Client::connect(&running, Via::Tcp);
        let seen = if end == End::Silent {
            client.send(get("/"));
            client.rest_until_silence()
        } else {
            client.rest()
        };
        assert_eq!(seen, (vec![], end), "{fault:?}");
        assert_eq!(running.origin.requests(), 0);
    }
}

#[test]
fn a_client_that_sends_garbage_does_not_affect_others() {
    let running = start(Config::default());
    let mut good = Client::connect(&running, Via::Tcp);
    for nonsense in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"GET\r\n\r\n",
        b"\xff\xfe\x00",
        b"PRI * HT",
    ] {
        let mut bad = TcpStream::connect(running.origin.addresses()[0]).unwrap();
        bad.write_all(nonsense).unwrap();
        drop(bad);
        assert_eq!(good.get("/").status, 200);
    }
    // A TLS listener can't parse cleartext.
    let origin: &Origin = &with_tls().origin;
    let mut bad = TcpStream::connect(origin.addresses()[0]).unwrap();
    bad.write_all(get("/").as_bytes()).unwrap();
    assert!(!Client::over(bad).rest().0.starts_with(b"HTTP"));
}
