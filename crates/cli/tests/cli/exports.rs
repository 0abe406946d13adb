//! `--otlp`, `--remote-write`, `--dashboard` and `--hdr`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use prony_record::Distribution;

use crate::metrics::answer;
use crate::running::{Origin, Running, Workdir, closed_url};

/// Starts Prometheus, which receives remote writes. Returns the process and its address.
fn prometheus(workdir: &Workdir) -> (Running, String) {
    workdir.write("prometheus.yml", "global: {}\n");
    let mut command = Command::new("prometheus");
    command
        .arg(format!(
            "--config.file={}",
            workdir.path("prometheus.yml").display()
        ))
        .arg(format!(
            "--storage.tsdb.path={}",
            workdir.path("data").display()
        ))
        .args(["--web.listen-address=127.0.0.1:0", "--log.format=json"])
        .arg("--web.enable-remote-write-receiver")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut server = Running::start(command);
    let line = server.wait_for("Listening on");
    let line: serde_json::Value = serde_json::from_str(line.trim()).unwrap();
    let address = line["address"].as_str().unwrap().to_owned();
    server.wait_for("Server is ready to receive web requests");
    (server, address)
}

/// Value of a metric in Prometheus.
fn queried(address: &str, query: &str) -> String {
    let path = format!("/api/v1/query?query={query}");
    let response = answer(address, &format!("GET {path}"));
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let value = &body["data"]["result"][0]["value"][1];
    value
        .as_str()
        .unwrap_or_else(|| panic!("{query}: {body}"))
        .to_owned()
}

#[test]
fn prometheus_has_the_whole_load_in_the_end() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let (_server, address) = prometheus(&workdir);
    let (to, url) = (format!("http://{address}/api/v1/write"), origin.url("/"));
    let args = [
        "load",
        "-c",
        "2",
        "-n",
        "300",
        "--progress",
        "none",
        "--remote-write",
        &to,
        &url,
    ];
    let output = workdir.run(&args).expect(0);
    assert_eq!(output.err, "");
    let requests = "prony_requests_total%7Boutcome%3D%22ok%22,job%3D%22prony%22%7D";
    assert_eq!(queried(&address, requests), "300");
    let times = "prony_response_time_seconds_bucket%7Ble%3D%22%2BInf%22%7D";
    assert_eq!(queried(&address, times), "300");
}

/// Receives one request, responds with this, and returns the request.
fn received(listener: &TcpListener, response: &str) -> String {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(&stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).unwrap();
        let line = head.lines().last().unwrap_or_default().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (&stream).write_all(response.as_bytes()).unwrap();
    head + &String::from_utf8_lossy(&body)
}

#[test]
fn a_collector_receives_the_headers_and_the_metrics() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", listener.local_addr().unwrap());
    let request =
        thread::spawn(move || received(&listener, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    let url = origin.url("/");
    let args = ["load", "-n", "10", "--otlp", &collector, &url];
    let mut command = workdir.command(&args);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b,X-Other=1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let request = request.join().unwrap().to_lowercase();
    assert!(
        request.starts_with("post /v1/metrics http/1.1\r\n"),
        "{request}"
    );
    for part in [
        "content-type: application/x-protobuf\r\n",
        "x-key: a b\r\n",
        "x-other: 1\r\n",
        "prony_response_time_seconds",
        "service.instance.id",
    ] {
        assert!(request.contains(part), "{part}: {request}");
    }
}

#[test]
fn an_endpoint_that_fails_is_counted_and_changes_no_result() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let (closed, url) = (closed_url(), origin.url("/"));
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = refusing.local_addr().unwrap();
    // Credentials of the URL must not be printed.
    let status = format!("http://user:secret@{at}/api/v1/write");
    let served = thread::spawn(move || {
        let response = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
        received(&refusing, response)
    });
    let args = [
        "load",
        "-n",
        "10",
        "--otlp",
        &closed,
        "--remote-write",
        &status,
        "--json",
        "r.json",
        &url,
    ];
    let output = workdir.run(&args).expect(0);
    assert_eq!(workdir.json("r.json")["totals"]["ok"], 10);
    let err = &output.err;
    assert!(
        err.contains("--otlp ") && err.contains("Connection refused"),
        "{err}"
    );
    assert!(err.contains("503") && !err.contains("secret"), "{err}");
    assert_eq!(err.matches("1 of 1 exports failed").count(), 2, "{err}");
    let request = served.join().unwrap().to_lowercase();
    assert!(
        request.contains("authorization: basic dxnlcjpzzwnyzxq="),
        "{request}"
    );
}

#[test]
fn an_endpoint_that_hangs_is_given_up() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}", hanging.local_addr().unwrap());
    let url = origin.url("/");
    let args = ["load", "-n", "10", "--otlp", &collector, &url];
    let output = workdir.run(&args).expect(0);
    assert!(output.out.contains("10 requests: 10 ok"), "{}", output.out);
    assert!(output.err.contains("timeout"), "{}", output.err);
}

#[test]
fn what_can_not_be_an_endpoint_is_refused_before_the_load() {
    let workdir = Workdir::new();
    for (option, value, error) in [
        (
            "--otlp",
            "ftp://localhost",
            "expected http://HOST or https://HOST",
        ),
        (
            "--otlp",
            "localhost:4318",
            "expected http://HOST or https://HOST",
        ),
        ("--remote-write", "http://", "--remote-write"),
        (
            "--export-interval",
            "5s",
            "applies to --otlp and --remote-write",
        ),
    ] {
        let args = ["load", "-n", "1", option, value, "http://127.0.0.1:1/"];
        let output = workdir.run(&args).expect(2);
        assert!(
            output.err.contains(error),
            "{option} {value}: {}",
            output.err
        );
    }
    let mut command = workdir.command(&["load", "--otlp", "http://[::1]:1", "http://[::1]:1/"]);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "no value");
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("OTEL_EXPORTER_OTLP_HEADERS"), "{err}");
}

#[test]
fn the_dashboard_shows_the_running_load_and_then_its_report() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/delay/1ms");
    let args = [
        "load",
        "-d",
        "10m",
        "-c",
        "1",
        "--progress",
        "none",
        "--dashboard",
        ":0",
        &url,
    ];
    let mut command = workdir.command(&args);
    command.stdout(Stdio::null());
    let mut load = Running::start(command);
    let line = load.wait_for("prony: dashboard at ");
    let address = line
        .trim()
        .trim_start_matches("prony: dashboard at http://");
    let address = address.trim_end_matches('/').to_owned();
    let get = |path: &str| answer(&address, &format!("GET {path}"));
    let page = get("/");
    assert!(page.contains("<script src=\"live.js\">"), "{page}");
    assert!(
        page.contains("script-src 'self'; connect-src 'self'"),
        "{page}"
    );
    assert!(get("/live.js").contains("Content-Type: text/javascript"));
    assert!(get("/other").starts_with("HTTP/1.0 404"));
    let state = || {
        let text = get("/state");
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<serde_json::Value>(body).unwrap()
    };
    // The first half seconds have no charts yet.
    while !get("/report").contains("Heat map of response times") {
        assert_eq!(state()["over"], false);
        thread::sleep(Duration::from_millis(50));
    }
    let text = state()["text"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("running · ") && text.contains("req/s"),
        "{text}"
    );
    load.signal(rustix::process::Signal::INT);
    let mut last = serde_json::Value::Null;
    // The final report stays available for a moment, since somebody has just looked.
    while last["over"] != true {
        last = state();
    }
    assert!(get("/report").contains("1 connection"));
    assert_eq!(load.end().status, 130);
}

#[test]
fn hdr_files_have_every_response_time() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = [
        "load", "-n", "500", "-c", "1", "--hdr", "r.hlog", "--json", "r.json", &url,
    ];
    workdir.run(&args).expect(0);
    let log = workdir.read("r.hlog");
    let intervals = log
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let counts = intervals.map(|line| {
        let encoded = line.rsplit(',').next().unwrap();
        Distribution::decode(encoded).unwrap().count()
    });
    assert_eq!(counts.sum::<u64>(), 500, "{log}");
    let output = workdir
        .run(&["report", "r.json", "--hdr", "r.hgrm"])
        .expect(0);
    assert_eq!(output.out, "");
    let table = workdir.read("r.hgrm");
    let rows = table.lines().filter(|line| line.starts_with(' '));
    let rows: Vec<Vec<&str>> = rows
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.first().unwrap()[1], "0.000000000000");
    let last = rows.last().unwrap();
    assert_eq!(&last[1..], ["1.000000000000", "500"], "{table}");
    let totals = rows.iter().map(|row| row[2].parse::<u64>().unwrap());
    assert!(totals.is_sorted(), "{table}");
    let times = rows.iter().map(|row| row[0].parse::<f64>().unwrap());
    assert!(times.is_sorted(), "{table}");
}
