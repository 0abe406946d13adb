//! Tests of every path over HTTP/1.1 and HTTP/1.0.

use std::time::Duration;

use prony_origin::{Config, HELLO, Work, pattern};

use crate::client::{Client, EVERY_WAY, End, Via, clear, get, start, start_for};

#[test]
fn hello_over_every_transport_and_twice_on_a_connection() {
    for via in EVERY_WAY {
        let running = start_for(via);
        let mut client = Client::connect(&running, via);
        for _ in 0..3 {
            let response = client.get("/");
            assert_eq!(response.status, 200, "{via:?}");
            assert_eq!(response.header("content-length"), Some("13"));
            assert_eq!(response.body, HELLO.as_bytes());
        }
        assert_eq!(running.origin.requests(), 3);
        assert_eq!(running.origin.connections(), 1);
    }
}

#[test]
fn pipelined_responses_are_in_order() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    client.send(get("/bytes/5") + &get("/") + &get("/bytes/8"));
    assert_eq!(client.response().body, pattern::first(5));
    assert_eq!(client.response().body, HELLO.as_bytes());
    assert_eq!(client.response().body, pattern::first(8));
}

#[test]
fn bytes_have_the_size_and_the_pattern_they_should() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    for (path, size) in [
        ("/bytes/0", 0),
        ("/bytes/1", 1),
        ("/bytes/10K", 10_240),
        ("/bytes/1M", 1 << 20),
        ("/bytes/3000000", 3_000_000),
        ("/delay/1ms/bytes/20", 20),
        ("/slow/25?over=10ms", 25),
        ("/slow/0?over=10ms", 0),
    ] {
        let response = client.get(path);
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(
            response.header("content-length"),
            Some(size.to_string().as_str()),
            "{path}"
        );
        assert!(response.body == pattern::first(size), "{path}");
    }
}

#[test]
fn a_delay_is_never_shorter_than_asked_for() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    for (path, at_least_ms) in [("/delay/20ms", 20), ("/delay/1500us", 1), ("/delay/0ms", 0)] {
        let start = std::time::Instant::now();
        assert_eq!(client.get(path).body, HELLO.as_bytes(), "{path}");
        assert!(start.elapsed().as_millis() >= at_least_ms, "{path}");
    }
}

#[test]
fn delays_of_many_connections_do_not_add_up_nor_get_lost() {
    let running = clear();
    let mut clients: Vec<_> = (0..50)
        .map(|_| Client::connect(&running, Via::Tcp))
        .collect();
    for (index, client) in clients.iter_mut().enumerate() {
        // Later requests have shorter delays, so their responses are ready first.
        client.send(get(&format!("/delay/{}ms/bytes/{index}", 60 - index)));
    }
    for (index, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().body, pattern::first(index));
    }
}

#[test]
fn chunked_has_several_chunks_and_no_length() {
    let running = clear();
    for size in [0_usize, 1, 5, 1_000, 300_000] {
        let mut client = Client::connect(&running, Via::Tcp);
        client.send(get(&format!("/chunked/{size}")));
        let head = client.head().to_ascii_lowercase();
        assert!(head.contains("transfer-encoding: chunked"), "{head}");
        assert!(!head.contains("content-length"), "{head}");
        let (body, chunks) = read_chunks(&mut client);
        assert!(body == pattern::first(size), "{size}");
        assert!(
            chunks >= size.min(4).min(3),
            "{size} bytes in {chunks} chunks"
        );
        assert_eq!(
            client.get("/").body,
            HELLO.as_bytes(),
            "the connection continues"
        );
    }
}

/// Reads chunks without extensions or trailers. Returns the body and the number of chunks.
fn read_chunks(client: &mut Client) -> (Vec<u8>, usize) {
    let (mut body, mut chunks) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(client.exactly(1));
        }
        let line = String::from_utf8(line).unwrap();
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        body.extend(client.exactly(size));
        assert_eq!(client.exactly(2), b"\r\n");
        if size == 0 {
            return (body, chunks);
        }
        chunks += 1;
    }
}

#[test]
fn status_codes_and_redirects() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    for code in [200_u16, 201, 204, 301, 304, 404, 429, 500, 503, 599] {
        let response = client.get(&format!("/status/{code}"));
        assert_eq!(response.status, code);
        assert_eq!(
            response.body.is_empty(),
            matches!(code, 204 | 304),
            "{code}"
        );
        assert_eq!(
            response.header("location"),
            (code == 301).then_some("/"),
            "{code}"
        );
    }
    let mut next = "/redirect/3".to_string();
    for _ in 0..3 {
        let response = client.get(&next);
        assert_eq!(response.status, 302);
        next = response.header("location").unwrap().to_string();
    }
    assert_eq!(next, "/");
}

#[test]
fn head_has_the_head_and_no_body_on_every_path() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    for (path, length) in [
        ("/", Some("13")),
        ("/bytes/10K", Some("10240")),
        ("/bytes/2M", Some("2097152")),
        ("/slow/20?over=1ms", Some("20")),
        ("/delay/1ms", Some("13")),
        ("/delay/1ms/bytes/9", Some("9")),
        ("/chunked/100", None),
        ("/status/404", Some("11")),
        ("/redirect/1", Some("5")),
        ("/stall?every=1s&for=0s", Some("13")),
    ] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: origin\r\n\r\n"));
        let head = client.head();
        let found = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(found, length, "{path}");
        // A body would be read as the beginning of this response.
        assert_eq!(client.get("/").body, HELLO.as_bytes(), "{path}");
    }
}

#[test]
fn echo_gives_back_method_headers_and_body() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    client.send("PUT /echo HTTP/1.1\r\nHost: origin\r\nA: 1\r\nContent-Length: 5\r\n\r\nhello");
    let response = client.response();
    assert_eq!(response.header("prony-method"), Some("PUT"));
    assert_eq!(response.header("prony-headers"), Some("3"));
    assert_eq!(response.body, b"hello");
    client.send(
        "POST /echo HTTP/1.1\r\nHost: origin\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
    );
    assert_eq!(client.response().body, b"abcdefg");
    assert_eq!(client.get("/echo").body, b"");
}

#[test]
fn echo_asks_for_the_body_when_it_is_expected_to() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    client.send(
        "POST /echo HTTP/1.1\r\nHost: origin\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
    );
    assert!(client.head().starts_with("HTTP/1.1 100 "));
    client.send("ok");
    assert_eq!(client.response().body, b"ok");
}

#[test]
fn echo_has_a_limit() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    client.send("POST /echo HTTP/1.1\r\nHost: o\r\nContent-Length: 99999999\r\n\r\n");
    client.send(vec![b'x'; 1]);
    assert_eq!(client.response().status, 413);
}

#[test]
fn an_unexpected_body_does_not_end_the_connection() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    client.send("POST / HTTP/1.1\r\nHost: origin\r\nContent-Length: 300000\r\n\r\n");
    client.send(vec![b'x'; 300_000]);
    assert_eq!(client.response().body, HELLO.as_bytes());
    assert_eq!(client.get("/").body, HELLO.as_bytes());
}

#[test]
fn close_announces_and_closes() {
    for via in EVERY_WAY {
        let running = start_for(via);
        let mut client = Client::connect(&running, via);
        let response = client.get("/close");
        assert_eq!(response.header("connection"), Some("close"));
        assert_eq!(response.body, HELLO.as_bytes());
        assert_eq!(client.rest(), (vec![], End::Closed), "{via:?}");
    }
}

#[test]
fn http_1_0_closes_unless_asked_to_stay() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let response = client.response();
    assert_eq!(response.header("connection"), Some("keep-alive"));
    assert_eq!(response.body, HELLO.as_bytes());
    client.send("GET /chunked/100 HTTP/1.0\r\n\r\n");
    let head = client.head().to_ascii_lowercase();
    assert!(
        head.starts_with("http/1.0 200") && !head.contains("chunked"),
        "{head}"
    );
    assert_eq!(client.rest(), (pattern::first(100), End::Closed));
}

#[test]
fn unknown_paths_return_the_list_and_bad_numbers_the_reason() {
    let running = clear();
    let mut client = Client::connect(&running, Via::Tcp);
    for path in ["/nothing", "/fault/nothing", "/bytes"] {
        let response = client.get(path);
        assert_eq!(response.status, 404, "{path}");
        let list = String::from_utf8(response.body).unwrap();
        assert!(
            list.contains("/delay/TIME") && list.contains("stall-body"),
            "{list}"
        );
    }
    let response = client.get("/bytes/lots");
    assert_eq!(response.status, 400);
    assert!(
        String::from_utf8(response.body)
            .unwrap()
            .contains("\"lots\" is not a size")
    );
}

#[test]
fn work_is_done_for_each_request_and_changes_no_response() {
    for work in [
        Work::Rounds(10_000),
        Work::CpuTime(std::time::Duration::from_micros(50)),
    ] {
        let running = start(Config {
            work: Some(work),
            ..Config::default()
        });
        let mut client = Client::connect(&running, Via::Tcp);
        for _ in 0..3 {
            assert_eq!(client.get("/").body, HELLO.as_bytes());
        }
    }
}

#[test]
fn a_service_time_serves_one_request_at_a_time() {
    let running = start(Config {
        service_time: Some(Duration::from_millis(20)),
        threads: 2,
        ..Config::default()
    });
    let mut clients: Vec<Client> = (0..5)
        .map(|_| Client::connect(&running, Via::Tcp))
        .collect();
    let began = std::time::Instant::now();
    for client in &mut clients {
        client.send(get("/"));
    }
    for client in &mut clients {
        client.exactly(1);
    }
    // On a busy machine, the responses arrive later, but never earlier.
    assert!(began.elapsed() >= Duration::from_millis(100));
}
