//! Tests of redirects over real sockets: between hosts, to TLS, in loops, and with HTTP/2.

use std::io::Write;
use std::sync::{Arc, Mutex};

use prony_load::{Control, LoadScope, Permits, run};
use prony_record::Outcome;

use crate::harness::*;

/// Starts a server that redirects every request to `location` and keeps the request heads.
fn redirecting(status: &str, location: String) -> (Raw, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let (kept, status) = (heads.clone(), status.to_owned());
    let server = Raw::new(move |mut stream| {
        while let Some(head) = read_head(&mut stream) {
            kept.lock().unwrap().push(String::from_utf8(head).unwrap());
            let head = format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\n");
            let response = format!("{head}Content-Length: 0\r\n\r\n");
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    });
    (server, heads)
}

#[test]
fn redirects_from_cleartext_to_tls_are_followed() {
    let served = Served::secured();
    let (front, heads) = redirecting("301", served.url("/bytes/100"));
    let ca = served.ca();
    for http in [&["--http", "1.1"][..], &[]] {
        let mut words = vec![
            "-n",
            "40",
            "-c",
            "4",
            "--follow",
            "1",
            "--expect-size",
            "100",
        ];
        words.extend(["--ca", text(&ca), "-H", "Authorization: a"]);
        words.extend(http);
        let record = load_with(&front.url(), &words);
        assert_eq!(
            outcomes(&record),
            [(Outcome::Ok, 40)],
            "{}",
            errors(&record)
        );
        assert_eq!(record.totals.redirected, 40);
        // Each hop needs its own connection, because hops lead to different hosts.
        assert_eq!(record.totals.tls_handshakes, 40);
        assert_eq!(record.totals.body_bytes_in, 4000);
        assert_eq!(record.load.follow, 1);
    }
    let heads = heads.lock().unwrap();
    assert!(
        heads
            .iter()
            .all(|head| head.contains("\r\nAuthorization: a\r\n"))
    );
}

#[test]
fn certificates_are_verified_after_a_redirect() {
    let served = Served::secured();
    let (front, _) = redirecting("302", served.url("/"));
    let record = load(&front.url(), "-n 4 -c 2 --follow 1");
    assert_eq!(outcomes(&record), [(Outcome::Tls, 4)]);
}

#[test]
fn a_redirect_loop_ends_at_the_limit() {
    let (server, heads) = redirecting("307", "/round?and=round".to_owned());
    let record = load(&server.url(), "-n 6 -c 2 --follow 10 -X POST --body x");
    assert_eq!(outcomes(&record), [(Outcome::Ok, 6)]);
    assert_eq!(record.status.into_iter().collect::<Vec<_>>(), [(307, 6)]);
    assert_eq!(record.totals.redirected, 60);
    assert_eq!(record.totals.connections_opened, 2);
    let heads = heads.lock().unwrap();
    let round = heads
        .iter()
        .filter(|head| head.contains("POST /round?and=round HTTP/1.1"));
    assert_eq!((heads.len(), round.count()), (66, 60));
}

#[test]
fn two_hosts_that_redirect_to_each_other() {
    let there = Raw::responding(vec![b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nthere"]);
    let (here, heads) = redirecting("303", there.url());
    let words = "-n 30 -c 3 -t 1 --follow 2 --expect-size 5 -X PUT --body x";
    let record = load(&here.url(), words);
    assert_eq!(
        outcomes(&record),
        [(Outcome::Ok, 30)],
        "{}",
        errors(&record)
    );
    assert_eq!(record.totals.redirected, 30);
    assert!(
        heads
            .lock()
            .unwrap()
            .iter()
            .all(|head| head.starts_with("PUT / "))
    );
}

#[test]
fn redirects_that_cannot_be_followed_are_reported() {
    let (server, _) = redirecting("302", "gopher://127.0.0.1/".to_owned());
    let record = load(&server.url(), "-n 3 -c 1 --follow 5");
    assert_eq!(outcomes(&record), [(Outcome::Redirect, 3)]);
    let reason = "Location: gopher://127.0.0.1/: only http and https can be followed (3×)";
    assert!(errors(&record).contains(reason), "{}", errors(&record));
}

/// Redirects requests for `/redirect` to a host whose name must be looked up, and responds to all
/// other requests.
fn sends_away(stream: &mut std::net::TcpStream, port: u16) {
    while let Some(head) = read_head(stream) {
        let response = if head.starts_with(b"GET /redirect ") {
            format!(
                "HTTP/1.1 302 X\r\nLocation: http://localhost:{port}/\r\nContent-Length: 0\r\n\r\n"
            )
        } else {
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()
        };
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_hanging_lookup_delays_no_other_request() {
    let there = Raw::responding(vec![b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]);
    let port: u16 = there
        .url()
        .trim_end_matches('/')
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let here = Raw::new(move |mut stream| sends_away(&mut stream, port));
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("urls");
    std::fs::write(&list, format!("/redirect\n{}", "/plain\n".repeat(500))).unwrap();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let options = options(&[
        "-n",
        "501",
        "-c",
        "2",
        "--follow",
        "3",
        "--urls",
        text(&list),
    ]);
    // The permission check blocks like a lookup at a name server that doesn't respond.
    let permits = Permits::new(move |name, _| {
        if name == "localhost" {
            let _ = gate.lock().unwrap().recv();
        }
        Ok(())
    });
    let scope = LoadScope {
        shards: None,
        permits: Some(permits),
        ..LoadScope::default()
    };
    let spec = options.resolve_within(Some(&here.url()), &scope).unwrap();
    let control = Control::new(1);
    let record = std::thread::scope(|scope| {
        let load = scope.spawn(|| run(&spec, &control));
        let began = std::time::Instant::now();
        // All requests end, except the one that waits for the lookup.
        while control.counts().0 < 500 && began.elapsed() < std::time::Duration::from_secs(60) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let ended = control.counts().0;
        drop(release);
        assert_eq!(ended, 500, "the lookup blocks the worker");
        load.join().unwrap().unwrap()
    });
    assert_eq!(outcomes(&record), [(Outcome::Ok, 501)]);
    assert_eq!(record.totals.redirected, 1);
}

#[test]
fn locations_that_are_too_long_fail_and_are_not_kept() {
    let location = format!("/{}", "x".repeat(20_000));
    let (server, _) = redirecting("302", location);
    let record = load(&server.url(), "-n 30 -c 3 --follow 5");
    assert_eq!(outcomes(&record), [(Outcome::Redirect, 30)]);
    assert!(
        errors(&record).contains("longer than 8 KiB"),
        "{}",
        errors(&record)
    );
}
