//! Tests of the PROXY protocol. The server first reads the header on each connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use prony_record::{Outcome, Record};

use crate::harness::{Raw, load, load_with, outcomes, read_head, text};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

/// Reads a header of version 1.
fn read_line(stream: &mut impl Read) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            break;
        }
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

/// The PROXY headers that servers received, in the order of the connections, each followed by the
/// client's port.
type ReceivedHeaders = Arc<Mutex<Vec<String>>>;

/// A server that expects a header before the first request of each connection, and nowhere else.
fn listening(headers: &ReceivedHeaders, listen: &str) -> Raw {
    let headers = headers.clone();
    Raw::on(listen, move |mut stream| {
        let line = read_line(&mut stream);
        let from = stream.peer_addr().unwrap();
        headers
            .lock()
            .unwrap()
            .push(format!("{line} ({})", from.port()));
        serve(&mut stream);
    })
}

fn serve(stream: &mut TcpStream) {
    while let Some(head) = read_head(stream) {
        let head = String::from_utf8_lossy(&head).into_owned();
        if !head.starts_with("GET ") && !head.starts_with("POST ") {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n");
            continue;
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .map_or(0, |length| length.trim().parse().unwrap());
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).is_err() || stream.write_all(OK).is_err() {
            return;
        }
        assert!(body.iter().all(|&byte| byte == b'x'));
        if head.contains("Connection: close") {
            return;
        }
    }
}

fn load_with_headers(words: &str, listen: &str) -> (Record, Vec<String>, u16) {
    let headers = ReceivedHeaders::default();
    let server = listening(&headers, listen);
    let record = load(&server.url(), words);
    let url = server.url();
    let port = url.trim_end_matches('/').rsplit_once(':').unwrap().1;
    let port = port.parse().unwrap();
    drop(server);
    let headers = headers.lock().unwrap().clone();
    (record, headers, port)
}

#[test]
fn a_connection_sends_its_own_address_once() {
    let words = "-n 60 -c 3 --proxy-protocol v1 --source 127.0.0.7";
    let (record, headers, port) = load_with_headers(words, "127.0.0.1:0");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 60)]);
    assert_eq!(record.load.proxy_protocol.as_deref(), Some("v1"));
    assert_eq!(headers.len(), 3, "{headers:?}");
    for line in headers {
        let (line, from) = line.trim_end_matches(')').split_once(" (").unwrap();
        assert_eq!(
            line,
            format!("PROXY TCP4 127.0.0.7 127.0.0.1 {from} {port}")
        );
    }
}

#[test]
fn given_addresses_are_used_in_turn_for_any_number_of_workers() {
    for threads in [1, 2] {
        let words = format!(
            "-n 60 -c 4 -t {threads} --no-keepalive --proxy-protocol v1 --proxy-source 10.9.0.0/29"
        );
        let (record, headers, port) = load_with_headers(&words, "127.0.0.1:0");
        assert_eq!(outcomes(&record), [(Outcome::Ok, 60)]);
        assert_eq!(headers.len(), 60);
        for n in 1..=6 {
            let of_this = format!("PROXY TCP4 10.9.0.{n} 127.0.0.1 ");
            let lines = headers.iter().filter(|line| line.starts_with(&of_this));
            assert_eq!(lines.count(), 10, "{headers:?}");
        }
        assert!(
            headers
                .iter()
                .all(|line| line.contains(&format!(" {port} (")))
        );
        let sources = record.sources.unwrap();
        assert_eq!((sources.kind.as_str(), sources.used), ("told", 6));
        assert_eq!((sources.connections.least, sources.ok.most), (10, 10));
    }
}

#[test]
fn ipv6_addresses_are_reported_as_ipv6() {
    let words = "-n 4 -c 2 --proxy-protocol v1 --proxy-source fd00:9::1";
    let (record, headers, port) = load_with_headers(words, "[::1]:0");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 4)]);
    let lines = headers.iter().map(|line| line.split_once(" (").unwrap().0);
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    let line = |from| format!("PROXY TCP6 fd00:9::1 ::1 {from} {port}");
    assert_eq!(lines, [line(49_152), line(49_153)]);
}

#[test]
fn a_large_request_follows_the_header_completely() {
    let folder = tempfile::tempdir().unwrap();
    for size in [100, 16_000, 16_384, 17_000, 3 << 20] {
        let file = folder.path().join("body");
        std::fs::write(&file, vec![b'x'; size]).unwrap();
        let headers = ReceivedHeaders::default();
        let server = listening(&headers, "127.0.0.1:0");
        let words = [
            "-n",
            "12",
            "-c",
            "3",
            "--proxy-protocol",
            "v1",
            "-X",
            "POST",
            "--body-file",
        ];
        let record = load_with(&server.url(), &[&words[..], &[text(&file)]].concat());
        assert_eq!(outcomes(&record), [(Outcome::Ok, 12)], "{size}");
        drop(server);
        assert_eq!(headers.lock().unwrap().len(), 3);
    }
}

#[test]
fn version_2_sends_local_on_a_unix_socket_without_given_addresses() {
    let folder = tempfile::tempdir().unwrap();
    for (version, more, begin) in [
        ("v2", "", &b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0GET / "[..]),
        (
            "v2",
            "--proxy-source 10.0.0.1",
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x01\x7f\0\0\x01\xc0\0\0\x50GET / ",
        ),
        ("v1", "", b"PROXY UNKNOWN\r\nGET / "),
    ] {
        let path = folder.path().join("socket");
        let _ = std::fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = vec![0; 4096];
            let length = stream.read(&mut seen).unwrap();
            seen.truncate(length);
            stream.write_all(OK).unwrap();
            seen
        });
        let mut words = vec!["-n", "1", "-c", "1", "--unix", text(&path)];
        words.extend(["--proxy-protocol", version]);
        words.extend(more.split_whitespace());
        let record = load_with("http://localhost/", &words);
        assert_eq!(outcomes(&record), [(Outcome::Ok, 1)], "{version} {more}");
        // The header and the request arrive in one piece.
        let seen = server.join().unwrap();
        assert!(seen.starts_with(begin), "{version} {more}: {seen:?}");
    }
}

#[test]
fn a_request_delayed_by_connects_is_still_reported() {
    let words = "-n 600 -c 300 --proxy-protocol v1 --proxy-source 10.9.0.0/16";
    let (record, headers, _) = load_with_headers(words, "127.0.0.1:0");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 600)]);
    assert_eq!(headers.len(), 300);
    let distinct: std::collections::BTreeSet<_> =
        headers.iter().map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(distinct.len(), 300);
}

#[test]
fn a_retried_request_has_a_header_of_its_own() {
    let headers = ReceivedHeaders::default();
    let noted = headers.clone();
    // The server closes the connection after every third response without announcing it.
    let server = Raw::new(move |mut stream| {
        noted.lock().unwrap().push(read_line(&mut stream));
        for _ in 0..3 {
            match read_head(&mut stream) {
                Some(head) if head.starts_with(b"GET ") => stream.write_all(OK).unwrap(),
                _ => return,
            }
        }
    });
    let words = "-n 60 -c 2 --proxy-protocol v1 --proxy-source 10.9.0.0/24";
    let record = load(&server.url(), words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 60)]);
    drop(server);
    let headers = headers.lock().unwrap().clone();
    assert_eq!(headers.len() as u64, record.totals.connections_opened);
    assert!(headers.len() >= 20, "{headers:?}");
    let distinct: std::collections::BTreeSet<_> = headers.iter().collect();
    assert_eq!(distinct.len(), headers.len(), "{headers:?}");
    assert!(
        headers
            .iter()
            .all(|line| line.starts_with("PROXY TCP4 10.9.0."))
    );
}
