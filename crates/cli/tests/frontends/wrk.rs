//! Compares the output of `prony wrk` with wrk's.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::programs::{CommandOutput, Origin, command, original, ours, through};
use crate::recorder::{RecordedRequest, Recorder};

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs wrk and `prony wrk` at the same time, with the same arguments and with `script` as the
/// content of `script.lua`. Returns wrk's result first.
pub(crate) fn both(script: &str, arguments: &[&str]) -> [CommandOutput; 2] {
    let dir = folder();
    fs::write(dir.path().join("script.lua"), script).unwrap();
    thread::scope(|scope| {
        let theirs = scope.spawn(|| original("wrk", arguments, dir.path()));
        let ours = ours("wrk", arguments, dir.path());
        [theirs.join().unwrap(), ours]
    })
}

/// Runs `prony wrk` with `script` as the content of `script.lua`.
pub(crate) fn ours_with(script: &str, arguments: &[&str]) -> CommandOutput {
    let dir = folder();
    fs::write(dir.path().join("script.lua"), script).unwrap();
    ours("wrk", arguments, dir.path())
}

/// Replaces each run of digits with 9 and each run of spaces with one space. Users' scripts depend
/// on nothing else.
pub(crate) fn shape(out: &str) -> String {
    let mut shape = String::new();
    for c in out.chars() {
        let c = if c.is_ascii_digit() { '9' } else { c };
        if !((c == '9' || c == ' ') && shape.ends_with(c)) {
            shape.push(c);
        }
    }
    // The units of times and rates depend on the speed of the machine.
    let units = ["us", "ms", "s", "m", "k", "K", "M", "G", ""];
    for unit in units.iter().filter(|unit| !unit.is_empty()) {
        for behind in [" ", "\n", ",", "B"] {
            shape = shape.replace(&format!("9.9{unit}{behind}"), &format!("9.9{behind}"));
        }
    }
    shape
}

pub(crate) fn number(script: &str, of: &CommandOutput) -> f64 {
    let text = through(script, &of.out);
    let number = text.parse();
    number.unwrap_or_else(|_| panic!("{script}: {text:?} of {of:?}"))
}

pub(crate) const REQUESTS: &str = "awk '/requests in/ {print $1}'";

/// Typical scripts that users apply to wrk's output. Each script must find the same text in the
/// outputs of wrk and `prony wrk`.
#[test]
fn scripts_read_the_same_from_both() {
    let origin = Origin::start(&[]);
    let url = origin.url("/status/503");
    let all = both("", &["-t2", "-c4", "-d1s", "--latency", &url]);
    for output in &all {
        let requests = number(REQUESTS, output);
        assert!(requests > 0.0);
        for (script, expected) in [
            ("awk 'NR == 1 {print $1, $2, $3}'", "Running 1s test"),
            ("awk '/threads and/ {print $1 \" \" $4}'", "2 4"),
            (
                "grep -c -E '^    (Latency|Req/Sec) +[0-9.]+[a-z]* +[0-9.]+[a-zA-Z]* +[0-9.]+[a-zA-Z]* +[0-9.]+%$'",
                "2",
            ),
            (
                "sed -n '/Latency Distribution/,/requests in/p' | awk '/%/ {print $1}' | tr '\\n' ' '",
                "50% 75% 90% 99%",
            ),
            ("awk '/requests in/ {print $2, $3, $6}'", "requests in read"),
            ("grep -c 'Socket errors'; true", "0"),
            ("grep -c -E '^Requests/sec: +[0-9]+\\.[0-9]{2}$'", "1"),
            (
                "grep -c -E '^Transfer/sec: +[0-9]+\\.[0-9]{2}[KMG]?B$'",
                "1",
            ),
        ] {
            assert_eq!(
                through(script, &output.out),
                expected,
                "{script}: {output:?}"
            );
        }
        let not_ok = number("awk '/Non-2xx or 3xx responses:/ {print $5}'", output);
        assert_eq!(not_ok, requests, "{output:?}");
        // The rate was computed from the exact time; the printed time has only two decimals.
        let rate = number("awk '/Requests\\/sec:/ {print $2}'", output);
        let took = number("awk '/requests in/ {print $4 + 0}'", output);
        assert!((rate * took / requests - 1.0).abs() < 0.02, "{output:?}");
    }
    let [theirs, ours] = all.map(|output| output.expect(0));
    assert_eq!(shape(&theirs.out), shape(&ours.out));
    assert_eq!((theirs.err, ours.err), (String::new(), String::new()));
}

#[test]
fn arguments_are_refused_with_wrks_words_and_status() {
    for arguments in [
        &[][..],
        &["-t2"],
        &["-c1", "http://127.0.0.1:9/"],
        &["-d0", "http://127.0.0.1:9/"],
        &["-d1.5s", "http://127.0.0.1:9/"],
        &["-cx", "http://127.0.0.1:9/"],
        &["-z", "http://127.0.0.1:9/"],
        &["--foo", "http://127.0.0.1:9/"],
        &["--t", "1", "http://127.0.0.1:9/"],
        &["-t"],
        &["--script"],
        &["--latency=1", "http://127.0.0.1:9/"],
        &["-h"],
        &["--help"],
        &["127.0.0.1:9"],
        &["ftp:/x"],
    ] {
        let [theirs, ours] = both("", arguments);
        assert_eq!((theirs.status, ours.status), (1, 1), "{arguments:?}");
        assert_eq!(theirs.err, ours.err, "{arguments:?}");
        let mut lines = ours.out.lines();
        for line in theirs.out.lines() {
            assert!(lines.any(|own| own == line), "{arguments:?}: {line:?}");
        }
    }
}

#[test]
fn an_unreachable_server_is_reported_in_wrks_words() {
    // A port that was just released refuses connections.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        "http://no-such-host.invalid/".to_owned(),
    ] {
        for arguments in [&["-d1", &url][..], &["-d1", "-s", "script.lua", &url]] {
            let [theirs, ours] = both("", arguments);
            assert_eq!((theirs.status, ours.status), (1, 1), "{arguments:?}");
            assert_eq!(theirs.out, ours.out);
            // wrk and prony word the rest of this error differently.
            let words = |output: &CommandOutput| {
                output.err.split(' ').take(4).collect::<Vec<_>>().join(" ")
            };
            assert_eq!(words(&theirs), words(&ours), "{arguments:?}");
        }
    }
}

/// Returns the request line, the header lines as a set, and the body.
fn plain(asked: &RecordedRequest) -> (String, BTreeSet<String>, String) {
    let headers = asked.headers.iter().cloned().collect();
    let body = String::from_utf8_lossy(&asked.body).into_owned();
    (asked.line.clone(), headers, body)
}

/// Returns the requests that wrk and `prony wrk` send for a URL with the given path, with
/// additional arguments.
pub(crate) fn asked_by_both(
    script: &str,
    arguments: &[&str],
    path: &str,
) -> [Vec<RecordedRequest>; 2] {
    let dir = folder();
    fs::write(dir.path().join("script.lua"), script).unwrap();
    let asked = |run: fn(&str, &[&str], &Path) -> CommandOutput| {
        let server = Recorder::start();
        let url = server.url(path);
        let first = std::iter::once(&*url);
        let arguments: Vec<&str> = first.chain(arguments.iter().copied()).collect();
        run("wrk", &arguments, dir.path()).expect(0);
        // wrk and prony get different ports, so replace them.
        let mut asked = server.take();
        for header in asked.iter_mut().flat_map(|asked| &mut asked.headers) {
            *header = header.replace(&server.address(), "SERVER");
        }
        asked
    };
    thread::scope(|scope| {
        let theirs = scope.spawn(|| asked(original));
        let ours = asked(ours);
        [theirs.join().unwrap(), ours]
    })
}

#[test]
fn requests_match_those_of_wrk() {
    let post = "
        wrk.method = 'POST'
        wrk.path = '/posted'
        wrk.body = 'a=1&b=2'
        wrk.headers['Content-Type'] = 'application/x-www-form-urlencoded'
    ";
    let init = "
        function init(args) wrk.path = args[1] .. #args .. (args[0] and 'url' or 'none') end
    ";
    let numbered = "
        local n = 0
        function request()
           n = n + 1
           return wrk.format('PUT', '/' .. n, { A = n }, 'body' .. n)
        end
    ";
    let proxied = "
        function request() return wrk.format(nil, 'http://elsewhere/x', { Host = 'h' }) end
    ";
    let twice = ["-H", "X-One: 1", "-H", "X-Two: a: b", "-H", "X-One: 2"];
    let cases = [
        ("", &twice[..]),
        ("", &["-H", "Host: other"]),
        (post, &["-H", "X-One: 1"]),
        (init, &["--", "/from-", "x"]),
        (numbered, &[]),
        (proxied, &[]),
    ];
    thread::scope(|scope| {
        for (script, arguments) in cases {
            scope.spawn(move || {
                let script = format!("function delay() return 200 end\n{script}");
                let always = ["-t1", "-c1", "-d1", "-s", "script.lua"];
                let all = [&always, arguments].concat();
                let [theirs, ours] = asked_by_both(&script, &all, "/path?query");
                let common = theirs.len().min(ours.len());
                assert!(common > 0, "{script}");
                let plain =
                    |all: &[RecordedRequest]| all[..common].iter().map(plain).collect::<Vec<_>>();
                assert_eq!(plain(&theirs), plain(&ours), "{script}");
            });
        }
    });
    // wrk and `prony wrk` also send the same requests without a script.
    let [theirs, ours] = asked_by_both("", &["-t1", "-c1", "-d1", "-H", "A: b"], "/p?q#f");
    assert_eq!(plain(&theirs[0]), plain(&ours[0]));
}

#[test]
fn the_server_saw_printed_and_in_flight_requests() {
    let server = Recorder::start();
    let dir = folder();
    let output = ours("wrk", &["-t2", "-c4", "-d1", &server.url("/")], dir.path()).expect(0);
    let counted = number(REQUESTS, &output) as usize;
    let seen = server.take().len();
    assert!((counted..=counted + 4).contains(&seen), "{counted} {seen}");
}

pub(crate) fn owned((one, other): (&str, &str)) -> (String, String) {
    (one.to_owned(), other.to_owned())
}

#[test]
fn failures_are_reported_where_wrk_reports_them() {
    let origin = Origin::start(&[]);
    for path in ["/fault/truncate", "/fault/reset", "/fault/garbage"] {
        let url = origin.url(path);
        for output in both("", &["-t1", "-c2", "-d1", &url]).map(|output| output.expect(0)) {
            let read = "awk '/Socket errors:/ {print $6 + 0}'";
            assert!(number(read, &output) > 0.0, "{path}: {output:?}");
            let others = "awk '/Socket errors:/ {print $4 + $8 + $10}'";
            assert_eq!(number(others, &output), 0.0, "{path}: {output:?}");
            assert_eq!(number(REQUESTS, &output), 0.0, "{path}: {output:?}");
        }
    }
    // Each late response counts as one timeout. prony also counts responses that never arrive.
    let late = "awk '/Socket errors:/ {print $10}'";
    let url = origin.url("/delay/1300ms");
    for output in
        both("", &["-t1", "-c2", "-d2", "--timeout", "1", &url]).map(|output| output.expect(0))
    {
        assert_eq!(
            (number(REQUESTS, &output), number(late, &output)),
            (2.0, 2.0),
            "{output:?}"
        );
    }
    let output = ours_with(
        "",
        &[
            "-t1",
            "-c3",
            "-d2",
            "--timeout",
            "1",
            &origin.url("/fault/stall"),
        ],
    );
    assert_eq!(number(late, &output.expect(0)), 3.0);
}

/// Runs `prony wrk` until it has printed something, waits, interrupts it, and returns its output.
fn interrupted(script: &str, arguments: &[&str], printed: &str) -> CommandOutput {
    let dir = folder();
    fs::write(dir.path().join("script.lua"), script).unwrap();
    let all = [&["wrk"], arguments].concat();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_prony"));
    let mut child = command(program, &all, dir.path()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut out = String::new();
    while !out.contains(printed) {
        let read = stdout.read_line(&mut out).unwrap();
        assert!(read > 0, "{out}");
    }
    thread::sleep(Duration::from_millis(200));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    stdout.read_to_string(&mut out).unwrap();
    let mut output = CommandOutput::from(child.wait_with_output().unwrap());
    output.out = out;
    output
}

#[test]
fn an_interrupted_run_prints_its_results() {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    let output = interrupted("", &["-t1", "-c2", "-d60", &url], " connections\n").expect(0);
    assert!(output.out.contains("Requests/sec:"), "{output:?}");
    // An endless loop in a script can't delay the end of the run, and `done` is still called.
    let round = "
        local n = 0
        function request()
           n = n + 1
           if n > 20 then print('round') io.stdout:flush() end
           while n > 20 do end
           return wrk.request()
        end
        function done(summary) print('done', summary.requests) end
    ";
    let arguments = ["-t1", "-c2", "-d60", "-s", "script.lua", &url];
    let output = interrupted(round, &arguments, "round\n").expect(1);
    assert_eq!(output.err, "script.lua:6: interrupted\n");
    let done = through("awk '$1 == \"done\" {print $2}'", &output.out);
    assert_eq!(done, through(REQUESTS, &output.out));
}

/// wrk2, a variant of wrk with constant rates, also prints these lines.
#[test]
fn a_rate_prints_wrk2s_spectrum() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let url = origin.url("/");
    let output = ours(
        "wrk",
        &["-t2", "-c4", "-d1", "-R200", "-U", &url],
        dir.path(),
    )
    .expect(0);
    // On a busy machine, the last requests are in flight when the load ends.
    let requests = number(REQUESTS, &output);
    assert!(requests > 0.0 && requests <= 200.0, "{requests}");
    let count = requests.to_string();
    for (script, expected) in [
        (
            "grep -c 'Latency Distribution (HdrHistogram - Recorded Latency)'",
            "1",
        ),
        (
            "grep -c 'Latency Distribution (HdrHistogram - Uncorrected Latency (measured'",
            "1",
        ),
        ("grep -c '^100.000%  '", "2"),
        ("grep -c '^ 99.999%  '", "2"),
        // HdrHistogram's plotters read the format of these lines.
        ("awk '/^#\\[Max/ {print $7 + 0}' | head -1", &count),
        (
            "awk '$4 == \"inf\" {print $2, $3}' | head -1",
            &format!("1.000000 {count}"),
        ),
        ("grep -c '^-*$' | awk '{print ($1 >= 2)}'", "1"),
    ] {
        assert_eq!(
            through(script, &output.out),
            expected,
            "{script}: {output:?}"
        );
    }
}
