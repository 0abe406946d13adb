//! `--metrics`: reads the metrics of a running load over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::running::{Origin, Running, TEST_TIMEOUT, Workdir};

/// Sends one request and returns the response.
pub(crate) fn answer(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("{request} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_running_load_serves_metrics_and_ends_as_usual() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/delay/1ms");
    let args = [
        "load",
        "-d",
        "5s",
        "-c",
        "1",
        "--progress",
        "none",
        "--metrics",
        ":0",
        "--json",
        "r.json",
        &url,
    ];
    let mut child = workdir
        .command(&args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let at = line
        .trim()
        .strip_prefix("prony: metrics at http://")
        .unwrap();
    let address = at.strip_suffix("/metrics").unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let has_numbers = |text: &str| text.contains("prony_requests_total{outcome=\"ok\"} ");
    // The endpoint may respond before the load has started, so read the metrics until they contain
    // numbers.
    let text = loop {
        let text = answer(address, "GET /metrics");
        if has_numbers(&text) || child.try_wait().unwrap().is_some() {
            break text;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
    assert!(
        text.contains("Content-Type: application/openmetrics-text; version=1.0.0"),
        "{text}"
    );
    assert!(has_numbers(&text), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(answer(address, "GET /").contains("/metrics"));
    assert!(answer(address, "GET /other").starts_with("HTTP/1.0 404"));
    assert!(answer(address, "POST /metrics").starts_with("HTTP/1.0 405"));
    assert!(child.wait().unwrap().success());
    assert!(workdir.json("r.json")["totals"]["ok"].as_u64().unwrap() > 0);
}

#[test]
fn an_unavailable_address_is_refused_before_the_load() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let output = workdir.run(&["load", "--metrics", "port", &url]).expect(2);
    assert!(output.err.contains("--metrics port"), "{}", output.err);
    // The origin already uses this address.
    let taken = url.trim_start_matches("http://").trim_end_matches('/');
    let output = workdir.run(&["load", "--metrics", taken, &url]).expect(3);
    assert!(output.err.contains("--metrics"), "{}", output.err);
}

/// Starts a long load that serves its metrics. Returns the process and the address of the metrics.
fn served(workdir: &Workdir, origin: &Origin) -> (Running, String) {
    let url = origin.url("/delay/1ms");
    let args = ["load", "-d", "10m", "-c", "1", "--metrics", ":0", &url];
    let mut command = workdir.command(&args);
    command.stdout(Stdio::null());
    let mut load = Running::start(command);
    let line = load.wait_for("prony: metrics at ");
    let address = line.trim().trim_start_matches("prony: metrics at http://");
    let address = address.trim_end_matches("/metrics").to_owned();
    (load, address)
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

/// Reads everything that the server sends until it closes the connection.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        // The server closed the connection before it had read the whole request.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection stays open: {error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_served(address: &str) {
    let text = answer(address, "GET /metrics");
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
}

#[test]
fn a_head_without_an_end_is_refused() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let (load, address) = served(&workdir, &origin);
    let mut stream = connect(&address);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").unwrap();
    let piece = vec![b'x'; 1 << 16];
    // Socket buffers hold several megabytes. Any data beyond that would be in the generator's
    // memory.
    let pieces = (0..2_000).take_while(|_| stream.write_all(&piece).is_ok());
    assert!(pieces.count() < 2_000);
    let text = rest(stream);
    assert!(
        text.is_empty() || text.starts_with("HTTP/1.1 431"),
        "{text}"
    );
    is_served(&address);
    load.signal(Signal::INT);
    load.end().expect(130);
}

#[test]
fn a_request_head_that_is_too_slow_is_dropped() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let (load, address) = served(&workdir, &origin);
    let mut stream = connect(&address);
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHos").unwrap();
    let text = rest(stream);
    assert!(!text.contains("200 OK"), "{text}");
    // The server closes a connection on which no request arrives.
    assert_eq!(rest(connect(&address)), "");
    let mut stream = connect(&address);
    stream.write_all(b"nonsense\r\n\r\n").unwrap();
    let text = rest(stream);
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
    is_served(&address);
    load.signal(Signal::INT);
    load.end().expect(130);
}

#[test]
fn idle_connections_use_no_threads_and_block_no_clients() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let (load, address) = served(&workdir, &origin);
    let threads = || {
        let tasks = format!("/proc/{}/task", load.id());
        std::fs::read_dir(tasks).unwrap().count()
    };
    let idle: Vec<TcpStream> = (0..300).map(|_| connect(&address)).collect();
    is_served(&address);
    assert!(threads() < 30, "{} threads", threads());
    // The oldest connections were closed.
    assert_eq!(rest(idle.into_iter().next().unwrap()), "");
    is_served(&address);
    load.signal(Signal::INT);
    load.end().expect(130);
}
