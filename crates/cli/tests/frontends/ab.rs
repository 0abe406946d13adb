//! Compares the output of `prony ab` with ab's.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::programs::{CommandOutput, Origin, command, original, ours, through};
use crate::recorder::Recorder;

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs ab and `prony ab` with the same arguments. Returns ab's result first.
pub(crate) fn both(words: &str, dir: &Path) -> [CommandOutput; 2] {
    let words: Vec<&str> = words.split(' ').collect();
    [original("ab", &words, dir), ours("ab", &words, dir)]
}

/// Typical scripts that users apply to ab's output, and the text that each must print. They are run
/// on the output for 200 requests, 4 at a time, with keep-alive and 1,000 bytes per response.
const SCRIPTS: &[(&str, &str)] = &[
    ("awk '/^Complete requests/ {print $3}'", "200"),
    (
        "grep 'Failed requests' | awk -F: '{gsub(/ /, \"\"); print $2}'",
        "0",
    ),
    (
        "sed -n 's/^Document Length: *\\([0-9]*\\) bytes$/\\1/p'",
        "1000",
    ),
    ("awk '/Concurrency Level/ {print $NF}'", "4"),
    ("awk '/HTML transferred/ {print $3}'", "200000"),
    ("awk '/Keep-Alive requests/ {print $3}'", "200"),
    (
        "grep 'Requests per second' | awk '{print $4}' | grep -c '^[0-9]*\\.[0-9][0-9]$'",
        "1",
    ),
    (
        "grep 'Requests per second' | cut -d: -f2 | cut -d' ' -f6-",
        "[#/sec] (mean)",
    ),
    (
        "grep 'Time per request' | head -1 | cut -c25- | cut -d' ' -f2",
        "[ms]",
    ),
    (
        "grep '(mean, across all concurrent requests)' | cut -d' ' -f1-3",
        "Time per request:",
    ),
    (
        "grep -A1 'Transfer rate' | awk '{print $4, $5}' | head -1",
        "[Kbytes/sec] received",
    ),
    (
        "grep -E '^ +(50|95|99)%' | awk '{print $1}' | xargs",
        "50% 95% 99%",
    ),
    ("awk '/^Percentage of/ {on = 1; next} on' | wc -l", "9"),
    (
        "tail -1 | awk '{print $1, $3, $4}'",
        "100% (longest request)",
    ),
    (
        "sed -n '/^Connection Times/,/^$/p' | grep -E '^[A-Z][a-z]+: ' | awk '{print $1 NF}' | xargs",
        "Connect:6 Processing:6 Waiting:6 Total:6",
    ),
    (
        "awk '/^Connect:|^Processing:/ {print $3 ~ /^[0-9]+$/}' | xargs",
        "1 1",
    ),
    ("head -1 | grep -Eo 'Version [0-9.]+'", "Version 2.3"),
    // Some scripts select lines by number.
    (
        "sed -n '17p;18p' | cut -d: -f1 | xargs",
        "Complete requests Failed requests",
    ),
    ("grep -c .", "36"),
];

#[test]
fn scripts_read_the_same_from_both() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let words = format!("-n 200 -c 4 -k {}", origin.url("/bytes/1000"));
    let [theirs, ours] = both(&words, dir.path()).map(|output| output.expect(0));
    assert_eq!(theirs.err, ours.err, "progress on standard error");
    for (script, expected) in SCRIPTS {
        let without_warnings = |output: &CommandOutput| {
            let is_warning = |line: &&str| {
                line.starts_with("WARNING: The median")
                    || line.starts_with("ERROR: The median")
                    || line.ends_with("reliable.")
            };
            let lines: Vec<&str> = output
                .out
                .lines()
                .filter(|line| !is_warning(line))
                .collect();
            lines.join("\n") + "\n"
        };
        assert_eq!(
            through(script, &without_warnings(&theirs)),
            *expected,
            "{script}: ab itself"
        );
        assert_eq!(
            through(script, &without_warnings(&ours)),
            *expected,
            "{script}: {}",
            ours.out
        );
    }
}

/// Returns the output with each number replaced by a letter, without the first lines and without
/// parts that vary.
fn shape(out: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in out.lines().skip(4) {
        if line.contains("The median and mean") || line.contains("eliable.") {
            continue;
        }
        let mut shape = String::new();
        for letter in line.chars() {
            let letter = if letter.is_ascii_digit() || letter == '.' {
                'N'
            } else {
                letter
            };
            let repeats = matches!(letter, 'N' | ' ') && shape.ends_with(letter);
            if !repeats {
                shape.push(letter);
            }
        }
        lines.push(shape);
    }
    lines
}

/// Returns the lines whose values are the same in every run.
pub(crate) fn exact(out: &str) -> Vec<&str> {
    const NAMES: [&str; 15] = [
        "Server Software",
        "Server Hostname",
        "Server Port",
        "SSL/TLS Protocol",
        "TLS Server Name",
        "Document Path",
        "Document Length",
        "Concurrency Level",
        "Complete requests",
        "Failed requests",
        "Non-2xx responses",
        "Keep-Alive requests",
        "Total transferred",
        "Total body sent",
        "HTML transferred",
    ];
    let is_exact = |line: &&str| NAMES.iter().any(|name| line.contains(&format!("{name}:")));
    out.lines().filter(is_exact).collect()
}

#[test]
fn reports_are_the_same_but_for_their_times() {
    let (origin, secured) = (Origin::start(&[]), Origin::start(&["--tls"]));
    let dir = folder();
    fs::write(dir.path().join("post"), "hello=world").unwrap();
    let at = |path: &str| origin.url(path);
    let tls_at = |path: &str| format!("https://{}{path}", secured.address);
    let named = tls_at("/").replace("127.0.0.1", "localhost");
    for words in [
        at("/"),
        format!("-n 30 -c 3 {}", at("/bytes/5000")),
        format!("-kn30 -c3 {}", at("/bytes/5000")),
        format!("-n 200 -q {}", at("/")),
        format!("-n 20 -S {}", at("/")),
        format!("-n 20 -d {}", at("/")),
        format!("-n 20 -d -S -l -i {}", at("/bytes/100")),
        format!("-n 20 -k -i {}", at("/bytes/100")),
        format!(
            "-n 20 -p post -T application/x-www-form-urlencoded {}",
            at("/echo")
        ),
        format!("-n 20 -k -u post {}", at("/echo")),
        format!("-n 20 -m DELETE {}", at("/echo")),
        format!("-t 20 -n 7 {}", at("/")),
        format!("-s 3 -b 65536 -r -n 20 {}", at("/")),
        format!("-n 20 -w {}", at("/")),
        format!("-n 20 -k -p post -x border=1 -y a=b -z c=d {}", at("/echo")),
        format!("-n 10 -v 3 {}", at("/bytes/100")),
        format!("-n 10 -c 2 {}", tls_at("/")),
        format!("-n 10 -k {named}"),
        format!("-n 10 -f TLS1.2 {named}"),
        format!("-n 10 -f TLS1.2 -Z ECDHE-ECDSA-AES128-GCM-SHA256 {named}"),
        format!("-n 10 -I {named}"),
        format!("-n 10 -H Host:other.test {named}"),
    ] {
        let [theirs, ours] = both(&words, dir.path()).map(|output| output.expect(0));
        assert_eq!(
            shape(&theirs.out),
            shape(&ours.out),
            "{words}\n{}",
            ours.out
        );
        assert_eq!(exact(&theirs.out), exact(&ours.out), "{words}");
        assert_eq!(theirs.err, ours.err, "{words}");
    }
}

#[test]
fn statuses_that_are_not_2xx_are_counted_and_so_is_success() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let words = format!("-n 20 -c 2 {}", origin.url("/status/404"));
    let [theirs, ours] = both(&words, dir.path()).map(|output| output.expect(0));
    assert_eq!(exact(&theirs.out), exact(&ours.out));
    let successful = "awk '/Successful requests/ {print $3}'";
    assert_eq!(through(successful, &ours.out), "0");
    // Scripts that extract other figures also work on this output.
    for script in [
        "awk '/Complete requests/ {print $3}'",
        "awk '/Non-2xx/ {print $3}'",
        "grep -c 'requests:'",
    ] {
        let theirs = through(
            script,
            &theirs.out.replace("HTML", "Successful requests:\nHTML"),
        );
        assert_eq!(theirs, through(script, &ours.out), "{script}");
    }
}

#[test]
fn files_are_read_the_same() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let url = origin.url("/delay/3ms");
    // With fewer than fifty requests, ab reads its 99th percentile from beyond the end of its
    // array, so this test sends more.
    let words = ["-n", "100", "-c", "4", "-e", "e.csv", "-g", "g.tsv", &url];
    let [theirs, ours] = [original as fn(&str, &[&str], &Path) -> CommandOutput, ours].map(|run| {
        run("ab", &words, dir.path()).expect(0);
        ["e.csv", "g.tsv"].map(|name| fs::read_to_string(dir.path().join(name)).unwrap())
    });
    let ([their_csv, their_tsv], [our_csv, our_tsv]) = (theirs, ours);
    for (script, expected) in [
        ("head -1", "Percentage served,Time in ms"),
        ("wc -l", "102"),
        ("cut -d, -f1 | sed 1d | sort -nc && echo sorted", "sorted"),
        (
            "cut -d, -f2 | sed '1d;$d' | sort -nc && echo sorted",
            "sorted",
        ),
        ("awk -F, '$1 == 99 {print ($2 >= 3)}'", "1"),
        (
            "sed 1d | grep -c '^[0-9]*,[0-9]*\\.[0-9][0-9][0-9]$'",
            "101",
        ),
    ] {
        for (csv, whose) in [(&their_csv, "ab"), (&our_csv, "prony")] {
            assert_eq!(through(script, csv), expected, "{script}: {whose}\n{csv}");
        }
    }
    for (script, expected) in [
        (
            "head -1 | tr '\\t' ' '",
            "starttime seconds ctime dtime ttime wait",
        ),
        ("wc -l", "101"),
        ("awk -F'\\t' 'NF != 6' | wc -l", "0"),
        // The rows are sorted by total time, as gnuplot scripts expect.
        ("sed 1d | cut -f5 | sort -nc && echo sorted", "sorted"),
        (
            "sed 1d | awk -F'\\t' '$5 < 3 || $6 > $4 || $4 > $5' | wc -l",
            "0",
        ),
        (
            "sed 1d | awk -F'\\t' '{cmd = \"date -d \\\"\" $1 \"\\\" +%s\"; cmd | getline s; close(cmd); if (s != $2) n++} END {print n + 0}'",
            "0",
        ),
    ] {
        for (tsv, whose) in [(&their_tsv, "ab"), (&our_tsv, "prony")] {
            assert_eq!(through(script, tsv), expected, "{script}: {whose}\n{tsv}");
        }
    }
}

#[test]
fn files_that_can_not_be_written_are_reported_before_the_run() {
    let recorder = Recorder::start();
    let dir = folder();
    let url = recorder.url("/");
    for flag in ["-e", "-g"] {
        let output = ours("ab", &[flag, "no/such/folder", &url], dir.path()).expect(1);
        assert!(output.err.contains("no/such/folder"), "{}", output.err);
    }
    assert_eq!(recorder.take(), []);
}

#[test]
fn commands_that_are_wrong_end_with_abs_statuses() {
    let dir = folder();
    for words in [
        "-h",
        "-V",
        "-n 3",
        "http://127.0.0.1",
        "http:///x",
        "a/ b/",
        "http://127.0.0.1/ -n 3",
        "-n 0 http://127.0.0.1/",
        "-n x http://127.0.0.1/",
        "-c 5 http://127.0.0.1/",
        "-i -p none http://127.0.0.1/",
        "-p none http://127.0.0.1/",
        "-n",
        "-c",
    ] {
        let [theirs, ours] = both(words, dir.path());
        assert_eq!(
            theirs.status, ours.status,
            "{words}: {} {}",
            theirs.err, ours.err
        );
        let says_usage = |output: &CommandOutput| output.err.contains("Usage: ab [options]");
        assert_eq!(says_usage(&theirs), says_usage(&ours), "{words}");
        assert_eq!(
            theirs.out.lines().count(),
            ours.out.lines().count(),
            "{words}"
        );
    }
    // Every flag in ab's usage text is also in prony's, with the same argument.
    let [theirs, ours] = both("-h", dir.path());
    let flags = "grep -E '^ +-[a-zA-Z] ' | awk '{print $1}' | sort | xargs";
    assert_eq!(through(flags, &theirs.err), through(flags, &ours.err));
}

#[test]
fn several_instances_start_at_the_same_time() {
    let recorder = Recorder::start();
    let dir = folder();
    let now = || {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
    };
    let moment = (now() + Duration::from_millis(1500)).as_secs_f64();
    let words = [
        "ab",
        "-n",
        "5",
        "--start-at",
        &format!("{moment:.3}"),
        &recorder.url("/"),
    ]
    .map(str::to_owned);
    let words = words.each_ref().map(String::as_str);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_prony"));
    let instances: Vec<Child> = (0..3)
        .map(|_| {
            command(program.clone(), &words, dir.path())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut early = 0;
    while now().as_secs_f64() < moment - 0.1 {
        early += recorder.take().len();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(early, 0, "requests before the moment");
    for instance in instances {
        CommandOutput::from(instance.wait_with_output().unwrap()).expect(0);
    }
    assert_eq!(recorder.take().len(), 15);
    // Requests that are late are reported and not sent in a burst.
    let late = ours(
        "ab",
        &["--start-at", "1000000000", &recorder.url("/")],
        dir.path(),
    )
    .expect(1);
    assert!(late.err.contains("--start-at"), "{}", late.err);
    assert_eq!(recorder.take(), []);
}

#[test]
fn failures_are_counted_once_and_do_not_end_the_run() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let run = |words: &str, status: i32| {
        let words: Vec<&str> = words.split(' ').collect();
        ours("ab", &words, dir.path()).expect(status)
    };
    let counts = "awk '/Complete requests/ {c = $3} /Failed requests/ {f = $3} \
                  /^   .Connect/ {gsub(/[^0-9 ]/, \"\"); d = $1 \" \" $2 \" \" $3 \" \" $4} \
                  /Successful/ {s = $3} END {print c, f, \"(\" d \")\", s}'";
    for (fault, expected) in [
        // ab counts truncated responses as successes.
        ("truncate", "20 20 (0 0 20 0) 0"),
        ("half", "20 20 (0 0 20 0) 0"),
        ("garbage", "20 20 (0 0 0 20) 0"),
        ("close", "20 20 (0 20 0 0) 0"),
        // When a connection is reset, ab stops, or counts the failure twice if -r is given.
        ("reset", "20 20 (0 20 0 0) 0"),
    ] {
        let output = run(
            &format!("-n 20 -c 2 {}", origin.url(&format!("/fault/{fault}"))),
            1,
        );
        assert_eq!(
            through(counts, &output.out),
            expected,
            "{fault}: {}",
            output.out
        );
    }
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let output = run(&format!("-n 10 -c 2 http://{free}/"), 1);
    assert_eq!(through(counts, &output.out), "10 10 (10 0 0 0) 0");
    assert!(output.err.contains("connect_refused"), "{}", output.err);
    let stalls = run(&format!("-s 1 -n 2 -c 2 {}", origin.url("/fault/stall")), 1);
    assert_eq!(through(counts, &stalls.out), "2 2 (0 2 0 0) 0");
}

#[test]
fn a_size_given_in_advance_determines_success() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let url = origin.url("/bytes/2K");
    let good = ours("ab", &["-n", "20", "--expect-size", "2K", &url], dir.path()).expect(0);
    let counts =
        "awk '/^(Document Length|Failed requests|Successful requests)/ {print $3}' | xargs";
    assert_eq!(through(counts, &good.out), "2048 0 20");
    let bad = ours("ab", &["-n", "20", "--expect-size=2047", &url], dir.path()).expect(1);
    assert_eq!(through(counts, &bad.out), "2047 20 0");
}

#[test]
fn unsupported_protocols_and_ciphers_are_refused_by_name() {
    let dir = folder();
    for (flag, value) in [("-f", "SSL3"), ("-f", "TLS1.1"), ("-Z", "AES128-SHA")] {
        let output = ours("ab", &[flag, value, "https://127.0.0.1:1/"], dir.path()).expect(2);
        assert!(
            output.err.contains(value) && output.err.contains(flag),
            "{}",
            output.err
        );
        assert_eq!(output.out, "");
    }
}

#[test]
fn an_interrupt_ends_with_the_results_so_far() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let url = origin.url("/");
    let words = ["ab", "-k", "-n", "100000000", "-c", "2", &url];
    let mut command = command(
        PathBuf::from(env!("CARGO_BIN_EXE_prony")),
        &words,
        dir.path(),
    );
    let child = command.process_group(0).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupted.unwrap().success());
    let output = CommandOutput::from(child.wait_with_output().unwrap()).expect(130);
    let rate = "grep 'Requests per second' | awk '{print ($4 > 0)}'";
    assert_eq!(through(rate, &output.out), "1", "{output:?}");
    assert!(!output.err.contains("Finished"), "{}", output.err);
}

/// nginx on a free port. Dropping this value stops it.
struct Nginx {
    child: Child,
    url: String,
    _dir: TempDir,
}

impl Nginx {
    fn start() -> Nginx {
        let dir = folder();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let root = dir.path().display();
        let config = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;
             events {{}}
             http {{ access_log off; client_body_temp_path {root}/a; proxy_temp_path {root}/b;
               fastcgi_temp_path {root}/c; uwsgi_temp_path {root}/d; scgi_temp_path {root}/e;
               server {{ listen 127.0.0.1:{port}; keepalive_requests 10; root {root}; }} }}"
        );
        fs::write(dir.path().join("nginx.conf"), config).unwrap();
        fs::write(dir.path().join("page"), "x".repeat(3000)).unwrap();
        let child = Command::new("nginx")
            .arg("-c")
            .arg(dir.path().join("nginx.conf"))
            .args(["-p", dir.path().to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("nginx: {error}; `cargo xtask test` installs it"));
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Nginx {
            child,
            url: format!("http://127.0.0.1:{port}/page"),
            _dir: dir,
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_of_note_is_reported_the_same() {
    let nginx = Nginx::start();
    let dir = folder();
    for words in ["-n 40 -c 4", "-n 40 -c 1 -k"] {
        let words = format!("{words} {}", nginx.url);
        let [theirs, ours] = both(&words, dir.path()).map(|output| output.expect(0));
        // nginx closes a connection after ten requests, so the tenth response has no keep-alive.
        assert_eq!(exact(&theirs.out), exact(&ours.out), "{words}");
        assert!(
            ours.out.contains("Server Software:        nginx/"),
            "{}",
            ours.out
        );
    }
}
