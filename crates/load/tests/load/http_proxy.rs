//! Tests of loads through an HTTP proxy: the requests that it receives, tunnels, and proxies that
//! refuse, misbehave or stall.

use std::io::{Write, copy};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prony_load::{SpecError, check_request};
use prony_record::{Outcome, Record};

use crate::harness::*;

/// The request heads that a proxy received.
type Heads = Arc<Mutex<Vec<String>>>;

/// A proxy that responds to cleartext requests itself, and opens any requested tunnel after sending
/// `connect_response`.
fn proxy(heads: &Heads, connect_response: &'static [u8]) -> Raw {
    let heads = heads.clone();
    Raw::new(move |mut stream| {
        stream.set_nodelay(true).unwrap();
        while let Some(head) = read_head(&mut stream) {
            let head = String::from_utf8(head).unwrap();
            heads.lock().unwrap().push(head.clone());
            let target = head.split(' ').nth(1).unwrap().to_owned();
            if !head.starts_with("CONNECT ") {
                let to = if target.ends_with("/away") {
                    "302 Found\r\nLocation: http://127.0.0.8:8/here"
                } else {
                    "200 OK"
                };
                let response = format!("HTTP/1.1 {to}\r\nContent-Length: 2\r\n\r\nhi");
                if stream.write_all(response.as_bytes()).is_err() {
                    return;
                }
                continue;
            }
            if stream.write_all(connect_response).is_err()
                || !connect_response.starts_with(b"HTTP/1.1 200")
            {
                return;
            }
            let Ok(mut server) = TcpStream::connect(&target) else {
                return;
            };
            let (mut back, mut forth) = (server.try_clone().unwrap(), stream.try_clone().unwrap());
            let returning = std::thread::spawn(move || {
                let _ = copy(&mut back, &mut forth);
                let _ = forth.shutdown(Shutdown::Both);
            });
            let _ = copy(&mut stream, &mut server);
            let _ = server.shutdown(Shutdown::Both);
            returning.join().unwrap();
            return;
        }
    })
}

const MADE: &[u8] = b"HTTP/1.1 200 Connection established\r\nX-Via: test\r\n\r\n";

/// The proxy in the form that `--proxy` takes.
fn authority_of(proxy: &Raw) -> String {
    let url = proxy.url();
    url.trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned()
}

#[test]
fn cleartext_requests_to_a_proxy_have_absolute_urls_and_share_connections() {
    let heads = Heads::default();
    let between = proxy(&heads, MADE);
    let folder = tempfile::tempdir().unwrap();
    let urls = folder.path().join("urls.txt");
    std::fs::write(&urls, "http://127.0.0.9:81/x?y\nhttp://[::1]/\n/z\n").unwrap();
    let with = format!("http://us%40er:p@{}", authority_of(&between));
    let words = [
        "-n",
        "6",
        "-c",
        "1",
        "--proxy",
        &with,
        "--urls",
        text(&urls),
    ];
    let record = load_with("http://127.0.0.7/", &words);
    assert_eq!(outcomes(&record), [(Outcome::Ok, 6)]);
    assert_eq!(record.totals.connections_opened, 1);
    assert_eq!(
        record.load.proxy.as_deref(),
        Some(&authority_of(&between)[..])
    );
    let heads = heads.lock().unwrap();
    for (head, (line, host)) in heads.iter().zip([
        ("GET http://127.0.0.9:81/x?y HTTP/1.1", "127.0.0.9:81"),
        ("GET http://[::1]/ HTTP/1.1", "[::1]"),
        ("GET http://127.0.0.7/z HTTP/1.1", "127.0.0.7"),
    ]) {
        assert!(
            head.starts_with(&format!("{line}\r\nHost: {host}\r\n")),
            "{head}"
        );
        // The header is Base64 for `us@er:p`.
        assert!(
            head.contains("\r\nProxy-Authorization: Basic dXNAZXI6cA==\r\n"),
            "{head}"
        );
    }
}

#[test]
fn redirects_go_through_the_proxy_too() {
    let heads = Heads::default();
    let between = proxy(&heads, MADE);
    let words = format!("-n 3 -c 1 --follow 1 --proxy {}", authority_of(&between));
    let record = load("http://127.0.0.7/away", &words);
    assert_eq!(
        (record.totals.redirected, record.totals.connections_opened),
        (3, 1)
    );
    let heads = heads.lock().unwrap();
    assert!(heads[1].starts_with("GET http://127.0.0.8:8/here HTTP/1.1\r\nHost: 127.0.0.8:8\r\n"));
}

fn through(served: &Served, between: &Raw, words: &str) -> Record {
    let (ca, between) = (served.ca(), authority_of(between));
    let mut all = vec!["--ca", text(&ca), "--proxy", &between];
    all.extend(words.split_whitespace());
    load_with(&served.url("/bytes/5000"), &all)
}

#[test]
fn over_tls_a_proxy_makes_tunnels() {
    let served = Served::secured();
    for (words, http) in [
        ("-n 60 -c 3 --http 1.1", "1.1"),
        ("-n 60 -c 3 --http 2 --streams 5", "2"),
        ("-n 6 -c 3 --http 1.1 --no-keepalive", "1.1"),
        ("-n 20 -c 2 --proxy-protocol v1 --http 1.1", ""),
    ] {
        let heads = Heads::default();
        let between = proxy(&heads, MADE);
        let own = format!("{words} -H Proxy-Authorization:secret");
        let record = through(&served, &between, &own);
        let heads = heads.lock().unwrap();
        if http.is_empty() {
            // The PROXY header precedes everything else, and the proxy reads it.
            assert!(
                heads[0].starts_with("PROXY TCP4 127.0.0.1 "),
                "{}",
                heads[0]
            );
            assert!(heads[0].contains("\r\nCONNECT 127.0.0.1:"));
            continue;
        }
        let asked = record.load.requests.unwrap();
        assert_eq!(outcomes(&record), [(Outcome::Ok, asked)], "{words}");
        assert_eq!(record.negotiated.http.as_deref(), Some(http));
        let opened = record.totals.connections_opened;
        assert_eq!(
            (heads.len() as u64, record.totals.tls_handshakes),
            (opened, opened)
        );
        for head in heads.iter() {
            let address = served.origin.addresses()[0];
            let line = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n");
            assert!(head.starts_with(&line), "{head}");
            assert!(
                head.contains("\r\nProxy-Authorization: secret\r\n"),
                "{head}"
            );
        }
        // The bytes of the tunnel setup don't count as bytes of requests.
        assert!(record.totals.bytes_in >= 5000 * asked);
    }
}

#[test]
fn a_probe_goes_through_the_tunnel() {
    let served = Served::secured();
    let (heads, ca) = (Heads::default(), served.ca());
    let between = proxy(&heads, MADE);
    let spec = resolve(
        &served.url("/bytes/7"),
        &["--ca", text(&ca), "--proxy", &authority_of(&between)],
    );
    let response = check_request(&spec.unwrap(), 0, Duration::from_secs(10)).unwrap();
    assert_eq!((response.status, response.body.length), (200, 7));
    let between = proxy(&heads, b"HTTP/1.1 403 No\r\n\r\n");
    let spec = resolve(&served.url("/"), &["--proxy", &authority_of(&between)]);
    let error = check_request(&spec.unwrap(), 0, Duration::from_secs(10)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "connect_failed: the proxy responded to CONNECT with 403"
    );
}

#[test]
fn a_refused_tunnel_fails_the_connect_with_a_reason() {
    let served = Served::secured();
    for (connect_response, why) in [
        (
            &b"HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno!!"[..],
            "CONNECT with 403",
        ),
        (
            b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\n\r\n",
            "407: it requires credentials",
        ),
        (b"HTTP/1.0 502 Bad\r\n\r\n", "CONNECT with 502"),
        (b"", "without a response to CONNECT"),
        (b"HTTP/1.1 ", "without a response to CONNECT"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nbytes before TLS", "bytes"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "TLS"),
    ] {
        let between = proxy(&Heads::default(), connect_response);
        let record = through(&served, &between, "-n 4 -c 2 --connect-timeout 2s");
        assert_eq!(outcomes(&record), [(Outcome::ConnectFailed, 4)], "{why}");
        let found = errors(&record);
        assert!(
            found.contains(why),
            "{}: {found}",
            connect_response.escape_ascii()
        );
        assert_eq!(record.totals.connections_opened, 0);
    }
}

#[test]
fn a_stalled_proxy_times_out() {
    let served = Served::secured();
    let stalls = Raw::new(|mut stream| until_gone(&mut stream));
    let drips = Raw::new(|mut stream| {
        while stream.write_all(b"HTTP/1.1 100 Wait\r\n\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let floods = Raw::new(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    // What is not ended by the timeout has time for it on a busy machine.
    for (between, outcome, timeout) in [
        (stalls, Outcome::ConnectTimeout, "300ms"),
        (drips, Outcome::ConnectFailed, "60s"),
        (floods, Outcome::ConnectFailed, "60s"),
    ] {
        let words = format!("-n 2 -c 2 --connect-timeout {timeout}");
        let record = through(&served, &between, &words);
        assert_eq!(outcomes(&record), [(outcome, 2)]);
    }
}

#[test]
fn non_local_targets_are_refused_through_a_proxy_too() {
    let refused = |url: &str, words: &[&str]| match resolve(url, words) {
        Err(SpecError::Settings(error)) => error.to_string(),
        Err(other) => panic!("{url} {words:?}: {other}"),
        Ok(_) => panic!("{url} {words:?}: was taken"),
    };
    let near = "127.0.0.1:3128";
    for (url, words, why) in [
        (
            "http://8.8.8.8/",
            ["--proxy", near, "-c", "1"],
            "8.8.8.8 is outside",
        ),
        (
            "https://8.8.8.8/",
            ["--proxy", near, "-c", "1"],
            "8.8.8.8 is outside",
        ),
        (
            "http://127.0.0.1/",
            ["--proxy", "8.8.8.8:1", "-c", "1"],
            "8.8.8.8 is outside",
        ),
        (
            "http://name.invalid/",
            ["--proxy", near, "-c", "1"],
            "which server would receive the load",
        ),
        (
            "http://127.0.0.1/",
            ["--proxy", near, "--http", "2"],
            "--proxy with --http 2",
        ),
    ] {
        let error = refused(url, &words);
        assert!(error.contains(why), "{url} {words:?}: {error}");
    }
    let fixed = ["--proxy", near, "--resolve", "name.invalid:80:10.0.0.1"];
    resolve("http://name.invalid/", &fixed).unwrap();
    let public = ["--proxy", near, "--public"];
    resolve("http://name.invalid/", &public).unwrap();
    let writer = resolve("http://127.0.0.1/", &["--proxy", near])
        .unwrap()
        .writer();
    assert!(writer.request("GET", "http://8.8.8.8/", &[], b"").is_err());
}
