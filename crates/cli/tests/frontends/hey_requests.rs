//! Compares the requests that `prony hey` sends with hey's.

use std::fs;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::hey::folder;
use crate::programs::{Origin, original, ours, through};
use crate::recorder::{RecordedRequest, Recorder};

/// Returns the requests from hey and from `prony hey`, in this order, reduced to the parts that
/// must match.
fn sent(recorder: &Recorder, arguments: &[&str]) -> [RecordedRequest; 2] {
    let mut all = vec!["-n", "1", "-c", "1"];
    all.extend(arguments);
    let dir = folder();
    let both = [
        original("hey", &all, dir.path()),
        ours("hey", &all, dir.path()),
    ];
    for output in &both {
        assert_eq!(output.status, 0, "{output:?}");
    }
    let asked = recorder.take();
    let [mut theirs, mut ours] = <[RecordedRequest; 2]>::try_from(asked).unwrap();
    theirs.headers.sort();
    ours.headers.sort();
    (theirs.connection, ours.connection) = (0, 0);
    [theirs, ours]
}

#[test]
fn requests_are_the_same_flag_by_flag() {
    let recorder = Recorder::start();
    let dir = folder();
    let file = dir.path().join("body");
    fs::write(&file, b"from a file\n\x00\xff").unwrap();
    let file = file.to_str().unwrap();
    for arguments in [
        &[][..],
        &["-m", "post", "-d", "a=b&c", "-T", "application/json"],
        &["-m", "PUT", "-D", file],
        &["-m", "POST"],
        &["-m", "HEAD"],
        &["-m", "OPTIONS"],
        &["-H", "x-own: 1", "-H", "X-Own:2", "-H", "Content-Type: a/b"],
        &["-A", "application/json"],
        &["-host", "example.org"],
        &["-disable-compression"],
        &["-disable-keepalive"],
        &["-H", "Accept-Encoding: br"],
        &["-H", "Range: bytes=0-3"],
        &["-H", "Host: nobody", "-H", "Content-Length: 77"],
        &["-t", "0", "-cpus", "1"],
    ] {
        let url = recorder.url("/path?query=1");
        let arguments: Vec<&str> = arguments.iter().copied().chain([&*url]).collect();
        let [theirs, ours] = sent(&recorder, &arguments);
        assert_eq!(ours, theirs, "{arguments:?}");
    }
}

#[test]
fn a_proxy_is_asked_for_the_whole_url() {
    let recorder = Recorder::start();
    let proxy = format!("http://user:pass@{}", recorder.address());
    let [theirs, ours] = sent(&recorder, &["-x", &proxy, "http://192.168.77.7/some?x"]);
    assert_eq!(ours, theirs);
    assert_eq!(ours.line, "GET http://192.168.77.7/some?x HTTP/1.1");
    // hey's usage text documents `-x HOST:PORT`, but hey itself doesn't accept that form.
    let dir = folder();
    let arguments = [
        "-n",
        "1",
        "-c",
        "1",
        "-x",
        &recorder.address(),
        "http://192.168.77.7/",
    ];
    crate::programs::ours("hey", &arguments, dir.path()).expect(0);
    assert_eq!(recorder.take()[0].line, "GET http://192.168.77.7/ HTTP/1.1");
}

#[test]
fn urls_are_sent_as_go_sends_them() {
    let recorder = Recorder::start();
    let address = recorder.address();
    for url in [
        format!("http://{address}"),
        format!("http://{address}?a=b"),
        format!("http://{address}/a b|c?d=|e{{}}"),
        format!("http://{address}/\u{e4}#part"),
        format!("http://us%40er:pass@{address}//x/../y"),
    ] {
        let [theirs, ours] = sent(&recorder, &[&url]);
        assert_eq!(ours, theirs, "{url}");
    }
}

#[test]
fn what_hey_fails_to_send_is_sent() {
    let recorder = Recorder::start();
    let dir = folder();
    let send = |arguments: &[&str]| {
        let url = recorder.url("/");
        let all: Vec<&str> = ["-n", "1", "-c", "1"]
            .iter()
            .chain(arguments)
            .copied()
            .chain([&*url])
            .collect();
        ours("hey", &all, dir.path()).expect(0);
        recorder.take().remove(0)
    };
    let asked = send(&["-a", "user:secret"]);
    assert_eq!(
        asked.header("authorization"),
        Some("Basic dXNlcjpzZWNyZXQ=")
    );
    let asked = send(&["-H", "User-Agent: me"]);
    assert_eq!(asked.header("user-agent"), Some("me hey/0.0.1"));
    let asked = send(&["-U", "browser"]);
    assert_eq!(asked.header("user-agent"), Some("browser hey/0.0.1"));
}

#[test]
fn connections_are_kept_alive_by_default() {
    let recorder = Recorder::start();
    let dir = folder();
    let connections = |flags: &[&str]| {
        let url = recorder.url("/");
        let mut all = vec!["-n", "12", "-c", "3"];
        all.extend(flags);
        all.push(&url);
        ours("hey", &all, dir.path()).expect(0);
        let asked = recorder.take();
        assert_eq!(asked.len(), 12);
        let used: std::collections::BTreeSet<_> = asked.iter().map(|it| it.connection).collect();
        used.len()
    };
    assert!(connections(&[]) <= 3);
    assert_eq!(connections(&["-disable-keepalive"]), 12);
}

/// Starts a relay that forwards connections to an address and counts them.
fn relay(to: String) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    // The relay's thread ends with the test process, and the threads of a connection end with it.
    thread::spawn(move || {
        for client in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let (client, server) = (client.unwrap(), TcpStream::connect(&to).unwrap());
            let hand_on = |mut from: TcpStream, mut to: TcpStream| {
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            };
            hand_on(client.try_clone().unwrap(), server.try_clone().unwrap());
            hand_on(server, client);
        }
    });
    (port, count)
}

#[test]
fn with_http_2_workers_share_connections() {
    let dir = folder();
    let secure = Origin::start(&["--tls"]);
    let (port, count) = relay(secure.address.clone());
    let connections = |flags: &[&str]| {
        count.store(0, Ordering::SeqCst);
        let url = format!("https://localhost:{port}/delay/10ms");
        let all = ["-n", "240", "-c", "120"].iter().chain(flags).copied();
        let arguments: Vec<&str> = all.chain([&*url]).collect();
        let output = ours("hey", &arguments, dir.path()).expect(0);
        assert_eq!(through("awk '/\\[200\\]/ {print $2}'", &output.out), "240");
        count.load(Ordering::SeqCst)
    };
    // hey opens one connection for the first request, and then two with 60 streams each.
    assert_eq!(connections(&["-h2"]), 3);
    assert!(connections(&[]) > 60);
}

#[test]
fn without_h2_tls_carries_http_1() {
    let origin = Origin::start(&["--tls"]);
    let (url, echo) = (format!("https://{}/", origin.address), origin.url("/"));
    let dir = folder();
    let json = dir.path().join("timeline.json");
    let timeline = json.to_str().unwrap();
    for arguments in [
        &["-n", "130", "-c", "20", &url][..],
        &[
            "-h2=false",
            "-n",
            "130",
            "-c",
            "20",
            "-timeline",
            timeline,
            &url,
        ],
    ] {
        let output = ours("hey", arguments, dir.path()).expect(0);
        let answers = through("awk '/\\[200\\]/ {print $2}'", &output.out);
        assert_eq!(answers, "130", "{arguments:?}: {output:?}");
    }
    assert!(json.is_file());
    let output = ours("hey", &["-n", "2", "-c", "1", &echo], dir.path()).expect(1);
    assert!(
        output.out.contains("Error distribution:\n  [2]\tGet \""),
        "{}",
        output.out
    );
}
