//! Tests of the requests that a load sends.

use std::io::Write;
use std::sync::{Arc, Mutex};

use prony_load::check_request;
use prony_record::Outcome;
use sha2::{Digest, Sha256};

use crate::harness::{
    Raw, Served, Via, load, load_with, outcomes, read_head, resolve, text, until_gone,
};

/// A server that stores the heads of the requests that it serves.
fn keeping() -> (Raw, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = heads.clone();
    let raw = Raw::new(move |mut stream| {
        while let Some(head) = read_head(&mut stream) {
            kept.lock()
                .unwrap()
                .push(String::from_utf8_lossy(&head).into_owned());
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (raw, heads)
}

#[test]
fn a_request_has_the_given_method_headers_and_body() {
    let (raw, heads) = keeping();
    let words = [
        "-n",
        "1",
        "-c",
        "1",
        "-X",
        "DELETE",
        "-H",
        "Accept: text/html",
        "-H",
        "x-a:b",
    ];
    load_with(&(raw.url() + "page?q=1#part"), &words);
    let heads = heads.lock().unwrap();
    let lines: Vec<_> = heads[0].lines().collect();
    assert_eq!(lines[0], "DELETE /page?q=1 HTTP/1.1");
    assert!(lines[1].starts_with("Host: 127.0.0.1:"), "{}", lines[1]);
    assert!(
        lines.contains(&"Accept: text/html") && lines.contains(&"x-a: b"),
        "{lines:?}"
    );
    assert!(!heads[0].to_lowercase().contains("connection:"));
}

#[test]
fn http_1_0_and_closed_connections_have_the_right_headers() {
    let (raw, heads) = keeping();
    load(&raw.url(), "-n 1 -c 1 --http 1.0");
    load(&raw.url(), "-n 1 -c 1 --http 1.0 --no-keepalive");
    load(&raw.url(), "-n 1 -c 1 --no-keepalive");
    let heads = heads.lock().unwrap();
    assert!(heads[0].starts_with("GET / HTTP/1.0\r\n") && heads[0].contains("keep-alive"));
    assert!(heads[1].starts_with("GET / HTTP/1.0\r\n") && heads[1].contains("Connection: close"));
    assert!(heads[2].starts_with("GET / HTTP/1.1\r\n") && heads[2].contains("Connection: close"));
}

#[test]
fn connections_are_reused_or_not() {
    for via in [Via::Tcp, Via::Unix, Via::Tls, Via::UnixTls] {
        let served = Served::via(via);
        for (words, opened, http) in [
            ("", 4, "1.1"),
            ("--no-keepalive", 40, "1.1"),
            ("--http 1.0", 4, "1.0"),
            ("--http 1.0 --no-keepalive", 40, "1.0"),
        ] {
            let before = served.origin.connections();
            let record = served.load(via, "/", &format!("-n 40 -c 4 {words}"));
            assert_eq!(outcomes(&record), [(Outcome::Ok, 40)], "{via:?} {words}");
            assert_eq!(record.totals.connections_opened, opened, "{via:?} {words}");
            assert_eq!(
                served.origin.connections() - before,
                opened,
                "{via:?} {words}"
            );
            assert_eq!(
                record.negotiated.http.as_deref(),
                Some(http),
                "{via:?} {words}"
            );
            assert_eq!(record.totals.retried, 0);
        }
    }
}

#[test]
fn head_and_statuses_without_a_body_leave_the_connection_usable() {
    let served = Served::clear();
    let list = "/bytes/100 HEAD\n/status/204\n/status/304\n/bytes/100\n/ OPTIONS\n";
    let list = served.file("urls.txt", list);
    let words = format!("-n 50 -c 1 --urls {}", text(&list));
    let record = served.load(Via::Tcp, "/", &words);
    assert_eq!(record.totals.ok, 50);
    assert_eq!(record.totals.connections_opened, 1);
    assert_eq!(record.totals.body_bytes_in, 10 * 100 + 10 * 13);
    assert_eq!(record.load.urls, 5);
}

#[test]
fn lists_name_methods_bodies_and_servers() {
    let (one, two) = (Served::clear(), Served::clear());
    one.file("form", "name=value");
    let other = two.url("/bytes/50");
    let list = format!("# a comment\n/echo POST some text\n\n/echo PUT <form\n{other}\n/\n");
    let list = one.file("urls.txt", list);
    let words = format!("-n 400 -c 8 --urls {}", text(&list));
    for order in ["sequence", "random"] {
        let words = format!("{words} --order {order} --seed 3");
        let before = one.origin.requests();
        let record = one.load(Via::Tcp, "/", &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 400)]);
        if order == "sequence" {
            let bodies = 100 * ("some text".len() + "name=value".len() + 50 + 13) as u64;
            assert_eq!(record.totals.body_bytes_in, bodies);
            assert_eq!(one.origin.requests() - before, 300);
        }
    }
}

#[test]
fn large_bodies_arrive_whole() {
    let body: Vec<u8> = (0..10u32 << 20).map(|at| (at ^ (at >> 8)) as u8).collect();
    let digest: [u8; 32] = Sha256::digest(&body).into();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    for via in [Via::Tcp, Via::Unix, Via::Tls, Via::UnixTls] {
        let served = Served::via(via);
        let file = served.file("body", &body);
        let words = format!(
            "-n 6 -c 2 -X POST --body-file {} --expect-sha256 {hex}",
            text(&file)
        );
        let record = served.load(via, "/echo", &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 6)], "{via:?}");
        assert_eq!(record.totals.connections_opened, 2);
        assert!(record.totals.bytes_out > 6 * (10 << 20));
    }
}

#[test]
fn literal_addresses_of_both_families_and_names() {
    let origin = prony_origin::Origin::start(prony_origin::Config {
        listen: vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()],
        ..prony_origin::Config::default()
    });
    let origin = origin.unwrap();
    for address in origin.addresses() {
        let record = load(&format!("http://{address}/"), "-n 4 -c 2");
        assert_eq!(outcomes(&record), [(Outcome::Ok, 4)], "{address}");
        // The name has several addresses, of which the load uses the one that accepts connections.
        let resolved = format!("example.test:{}:{}", address.port(), address.ip());
        let url = format!("http://example.test:{}/", address.port());
        let record = load_with(&url, &["-n", "4", "-c", "2", "--resolve", &resolved]);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 4)], "{address}");
    }
    let port = origin.addresses()[0].port();
    let record = load(&format!("http://localhost:{port}/"), "-n 4 -c 2");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 4)]);
}

#[test]
fn a_probe_returns_the_response_or_the_reason_for_its_absence() {
    let second = std::time::Duration::from_secs(10);
    let ways = [Via::Tcp, Via::Unix, Via::Tls, Via::UnixTls];
    for (via, http) in ways.into_iter().flat_map(|via| [(via, "1.1"), (via, "2")]) {
        let served = Served::via(via);
        let (socket, ca) = (served.origin.unix_paths()[0].clone(), served.ca());
        let (garbage, truncated) = match http {
            "2" => ("closed_early", "protocol: a body shorter"),
            _ => ("protocol: the response is not HTTP", "truncated"),
        };
        let mut words = vec!["--http", http];
        if matches!(via, Via::Unix | Via::UnixTls) {
            words.extend(["--unix", text(&socket)]);
        }
        if matches!(via, Via::Tls | Via::UnixTls) {
            words.extend(["--ca", text(&ca)]);
        }
        let spec = resolve(&served.url("/chunked/3M"), &words).unwrap();
        let response = check_request(&spec, 0, second).unwrap();
        let body = prony_origin::pattern::first(3 << 20);
        let digest: [u8; 32] = Sha256::digest(&body).into();
        assert_eq!((response.status, response.body.length), (200, 3 << 20));
        assert_eq!(response.body.sha256, digest);
        assert_eq!(response.negotiated.http.as_deref(), Some(http));
        assert!(
            response.request.starts_with("GET http"),
            "{}",
            response.request
        );
        let missing = check_request(&spec, 1, second).unwrap_err().to_string();
        assert!(missing.contains("no request number 1"), "{missing}");
        for (path, reason) in [
            ("/fault/reset", ""),
            ("/fault/close", "closed_early"),
            ("/fault/garbage", garbage),
            ("/fault/truncate", truncated),
        ] {
            let spec = resolve(&served.url(path), &words).unwrap();
            let error = check_request(&spec, 0, second).unwrap_err().to_string();
            assert!(error.contains(reason), "{path} {via:?}: {error}");
        }
        for path in ["/fault/stall", "/fault/stall-body"] {
            let spec = resolve(&served.url(path), &words).unwrap();
            let error = check_request(&spec, 0, std::time::Duration::from_millis(100)).unwrap_err();
            let error = error.to_string();
            assert_eq!(
                error, "no complete response within 100 ms",
                "{path} {via:?}"
            );
        }
    }
}

#[test]
fn a_probe_of_a_server_that_trickles_ends_in_time() {
    let raw = Raw::new(|mut stream| {
        while stream.write_all(b"H").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        until_gone(&mut stream);
    });
    let raw_slow = Raw::new(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    let timeout = std::time::Duration::from_millis(150);
    let spec = resolve(&raw.url(), &[]).unwrap();
    let error = check_request(&spec, 0, timeout).unwrap_err().to_string();
    assert!(error.contains("protocol"), "{error}");
    let spec = resolve(&raw_slow.url(), &[]).unwrap();
    let error = check_request(&spec, 0, timeout).unwrap_err().to_string();
    assert!(
        error.contains("no complete response within 150 ms"),
        "{error}"
    );
}
