//! Compares the output of `prony hey` with hey's.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use crate::programs::{CommandOutput, Origin, command, original, ours, through};

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs hey and `prony hey` with the same arguments. Returns hey's result first.
pub(crate) fn both(arguments: &[&str]) -> [CommandOutput; 2] {
    let dir = folder();
    [
        original("hey", arguments, dir.path()).expect(0),
        ours("hey", arguments, dir.path()).expect(0),
    ]
}

/// Typical scripts that users apply to hey's output. Each script must find the same text in the
/// outputs of hey and `prony hey`.
#[test]
fn scripts_read_the_same_from_both() {
    let origin = Origin::start(&[]);
    for (arguments, path, scripts) in [
        (
            &["-n", "60", "-c", "6"][..],
            "/bytes/1000",
            &[
                ("grep -F '[200]' | cut -f2 | cut -d' ' -f1", "60"),
                ("awk '/Total data:/ {print $3}'", "60000"),
                ("awk '/Size\\/request:/ {print $2}'", "1000"),
                ("grep -c ' in [0-9.]* secs$'", "7"),
                ("awk -F'[][]' '/\\|/ {n += $2} END {print n}'", "60"),
                ("sed -n '/^Details/,/^$/p' | grep -c ' secs, '", "5"),
                (
                    "sed -n '/^Response time histogram:/,/^$/p' | grep -c '|'",
                    "11",
                ),
            ][..],
        ),
        (
            &["-n", "12", "-c", "3"],
            "/status/503",
            &[("awk '/\\[503\\]/ {print $2}'", "12")],
        ),
        (
            &["-n", "12", "-c", "3", "-disable-redirects"],
            "/redirect/2",
            &[("awk '/\\[302\\]/ {print $2}'", "12")],
        ),
        (
            &["-n", "12", "-c", "3"],
            "/redirect/9",
            &[("awk '/\\[200\\]/ {print $2}'", "12")],
        ),
        (
            &["-n", "6", "-c", "2"],
            "/bytes/10",
            // All labels of the summary.
            &[("grep -c '^  [A-Z][A-Za-z/ ]*:\t'", "7")],
        ),
    ] {
        let url = origin.url(path);
        let arguments: Vec<&str> = arguments.iter().copied().chain([&*url]).collect();
        let [theirs, ours] = both(&arguments);
        for (script, expected) in scripts {
            assert_eq!(&through(script, &theirs.out), expected, "hey: {script}");
            assert_eq!(&through(script, &ours.out), expected, "prony: {script}");
        }
    }
}

/// Returns the output that starts with `Summary:`, without the figures.
fn shape(out: &str) -> String {
    let summary = &out[out.find("\nSummary:").unwrap()..];
    let mut shape = String::new();
    for line in summary.lines() {
        // hey 0.1.5 prints the `%%` of its format string literally.
        let line = line.trim_end_matches('■').replace("%%", "%");
        let figure = |c: char| c.is_ascii_digit() || c == '.';
        let words = line.split(figure).filter(|word| !word.is_empty());
        shape.push_str(&words.collect::<Vec<_>>().join("#"));
        shape.push('\n');
    }
    shape
}

#[test]
fn the_summary_has_the_same_lines_in_the_same_places() {
    let origin = Origin::start(&[]);
    // With fewer than a hundred requests, hey omits percentiles.
    let [theirs, ours] = both(&["-n", "200", "-c", "4", &origin.url("/bytes/100")]);
    assert_eq!(shape(&ours.out), shape(&theirs.out));
}

#[test]
fn csv_has_the_same_columns_and_as_many_lines() {
    let origin = Origin::start(&[]);
    let [theirs, ours] = both(&[
        "-n",
        "40",
        "-c",
        "4",
        "-o",
        "csv",
        &origin.url("/delay/1ms"),
    ]);
    for script in [
        "head -1",
        "wc -l",
        "tail -n +2 | cut -d, -f7 | sort | uniq -c",
        "awk -F, '{print NF}' | sort -u",
        // The total is at least the sum of its parts, up to rounding to four decimals.
        "awk -F, 'NR > 1 && $1 + 0.0005 < $2 + $4 + $5 + $6' | wc -l",
        "tail -n +2 | grep -vcE '^([0-9]+\\.[0-9]{4},){6}200,[0-9]+\\.[0-9]{4}$' || true",
    ] {
        assert_eq!(
            through(script, &ours.out),
            through(script, &theirs.out),
            "{script}"
        );
    }
}

#[test]
fn a_number_not_divisible_by_the_workers_is_kept() {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    let [theirs, ours] = both(&["-n", "103", "-c", "10", &url]);
    let answers = "awk '/\\[200\\]/ {print $2}'";
    assert_eq!(through(answers, &theirs.out), "100");
    assert_eq!(through(answers, &ours.out), "103");
}

#[test]
fn the_duration_ends_the_run_after_requests_in_flight() {
    let origin = Origin::start(&[]);
    // Each of four workers starts a request at the beginning and after one second, but none after
    // two seconds.
    let [theirs, ours] = both(&["-z", "1500ms", "-c", "4", &origin.url("/delay/1s")]);
    let answers = "awk '/\\[200\\]/ {print $2}'";
    assert_eq!(through(answers, &theirs.out), "8");
    assert_eq!(through(answers, &ours.out), "8");
    assert!(!ours.out.contains("Error distribution"), "{}", ours.out);
}

#[test]
fn a_rate_is_that_of_each_worker() {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    // With 20 requests at 40 per second, the rate must be below 41 per second.
    for output in both(&["-n", "20", "-c", "2", "-q", "20", &url]) {
        let answers = "awk '/\\[200\\]/ {print $2}'";
        assert_eq!(through(answers, &output.out), "20");
        let rate = "awk '/Requests\\/sec:/ {print ($2 < 41)}'";
        assert_eq!(through(rate, &output.out), "1", "{output:?}");
    }
}

#[test]
fn failures_are_counted_by_gos_words_in_both() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let gone = Origin::start(&[]);
    let refused = gone.url("/");
    drop(gone);
    for (url, flags, pattern, theirs_is_right) in [
        (refused, "-t 5", "connection refused", true),
        (origin.url("/fault/close"), "-t 5", "EOF", true),
        (
            origin.url("/delay/3s"),
            "-t 1",
            "Client.Timeout exceeded while awaiting headers",
            true,
        ),
        (
            origin.url("/redirect/10"),
            "-t 5",
            "stopped after 10 redirects",
            true,
        ),
        (
            origin.url("/fault/reset"),
            "-t 5",
            "connection reset by peer",
            true,
        ),
        // hey accepts a truncated body as complete.
        (
            origin.url("/fault/truncate"),
            "-t 5",
            "unexpected EOF",
            false,
        ),
    ] {
        let arguments: Vec<&str> = ["-n", "4", "-c", "2"]
            .into_iter()
            .chain(flags.split(' '))
            .chain([&*url])
            .collect();
        let script = format!(
            "sed -n '/^Error distribution:/,$p' | grep '{pattern}' | \
             awk -F'[][]' '{{n += $2}} END {{print n + 0}}'"
        );
        let theirs = original("hey", &arguments, dir.path()).expect(0);
        let found = through(&script, &theirs.out);
        assert_eq!(found, if theirs_is_right { "4" } else { "0" }, "{theirs:?}");
        // The exit status is 1, because no request succeeded.
        let ours = ours("hey", &arguments, dir.path()).expect(1);
        assert_eq!(through(&script, &ours.out), "4", "{ours:?}");
    }
}

#[test]
fn invalid_arguments_give_the_same_messages() {
    let dir = folder();
    for arguments in [
        "-foo http://127.0.0.1:1/",
        "-n",
        "-n x http://127.0.0.1:1/",
        "-h2=maybe http://127.0.0.1:1/",
        "---n http://127.0.0.1:1/",
        "-z 10 http://127.0.0.1:1/",
        "-n 5 -c 10 http://127.0.0.1:1/",
        "-c 0 -z 1s http://127.0.0.1:1/",
        "-n 0 http://127.0.0.1:1/",
        "-H X http://127.0.0.1:1/",
        "-h X:1 http://127.0.0.1:1/",
        "",
        "-h",
    ] {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let theirs = original("hey", &words, dir.path());
        let ours = ours("hey", &words, dir.path()).expect(2);
        assert!(theirs.status > 0, "{theirs:?}");
        let first =
            |output: &CommandOutput| output.err.lines().next().unwrap_or_default().to_owned();
        assert_eq!(first(&ours), first(&theirs), "{arguments}");
        assert!(
            ours.err.contains("Usage: hey [options...] <url>"),
            "{ours:?}"
        );
        assert_eq!(ours.out, "");
    }
    let help = ours("hey", &["-help"], dir.path()).expect(0);
    assert!(help.err.starts_with("Usage: hey"), "{help:?}");
}

/// Every flag in hey's usage text is accepted, and is in prony's usage text.
#[test]
fn every_flag_of_heys_usage_is_there() {
    let dir = folder();
    let theirs = original("hey", &["-help"], dir.path());
    let ours = ours("hey", &["-help"], dir.path());
    let flags = "grep -oE '^  -[A-Za-z0-9-]+' | tr -d ' ' | sort -u";
    let (theirs, ours) = (through(flags, &theirs.err), through(flags, &ours.err));
    assert!(theirs.lines().count() > 15, "{theirs}");
    for flag in theirs.lines() {
        assert!(ours.lines().any(|own| own == flag), "{flag} in {ours}");
    }
}

#[test]
fn unsupported_flags_are_refused_by_name() {
    let dir = folder();
    for (arguments, expected) in [
        ("-o json http://127.0.0.1:1/", "-o json: "),
        (
            "-x socks5://127.0.0.1:1 http://127.0.0.1:1/",
            "-x: the scheme socks5 is not supported",
        ),
        (
            "-D nothing-here http://127.0.0.1:1/",
            "-D: open nothing-here: ",
        ),
        ("-progress maybe http://127.0.0.1:1/", "-progress maybe: "),
        ("-m CONNECT http://127.0.0.1:1/", "CONNECT"),
        ("http://93.184.216.34/", "PRONY_PUBLIC"),
    ] {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let output = ours("hey", &words, dir.path()).expect(2);
        assert!(output.err.contains(expected), "{arguments}: {output:?}");
        assert_eq!(output.out, "");
    }
}

/// Adds a timestamp to each progress line, as some wrapper scripts do.
const STAMP: &str = r#"awk -v clock="date +%s.%N" '
    BEGIN { clock | getline begun; close(clock) }
    /requests done/ { clock | getline now; close(clock); $0 = sprintf("%.4f %s", now - begun, $0) }
    { print }
'"#;

/// Extracts pairs of seconds and completions, after a line with the expected number of pairs.
const PAIRS: &str = r#"awk '
    BEGIN { printf "[%0.4f, %u],\n", 0, 0 }
    /total requests/ { total = $2 }
    /Total:/ { time = $2 }
    /requests done/ && $2 ~ /^[0-9]+$/ { printf "[%0.4f, %u],\n", $1, $2 - before; before = $2 }
    END { printf "[%0.4f, %u],\n", time, total - before }
'"#;

fn completions(pairs: &str) -> Vec<u64> {
    let pair = |line: &str| {
        let (_, count) = line.trim_matches(['[', ']', ',', ' ']).split_once(", ")?;
        count.trim_end_matches([']', ',']).parse().ok()
    };
    pairs.lines().filter_map(pair).collect()
}

#[test]
fn progress_lines_become_pairs() {
    let origin = Origin::start(&[]);
    let dir = folder();
    // 40 requests of 60 ms each, two at a time, take 1.2 s, which includes two whole half seconds.
    let url = origin.url("/delay/60ms");
    let arguments = ["-n", "40", "-c", "2", "-timeline", "pairs.json", &*url];
    let output = ours("hey", &arguments, dir.path()).expect(0);
    let lines: Vec<&str> = output
        .out
        .lines()
        .take_while(|line| !line.is_empty())
        .collect();
    let (last, counted) = lines.split_last().unwrap();
    assert_eq!(*last, "All requests done.");
    assert!(counted.len() >= 2, "{lines:?}");
    for line in counted {
        let (number, words) = line.split_once(' ').unwrap();
        assert_eq!(words, "requests done.");
        assert!((1..=40).contains(&number.parse::<u32>().unwrap()), "{line}");
    }
    let log = through(
        &format!("(echo 'Performing 40 total requests'; cat) | {STAMP} | {PAIRS}"),
        &output.out,
    );
    let stamped = completions(&log);
    assert_eq!(stamped[0], 0, "{log}");
    assert_eq!(stamped.iter().sum::<u64>(), 40, "{log}");
    assert_eq!(stamped.len(), counted.len() + 2, "{log}");

    let written = fs::read_to_string(dir.path().join("pairs.json")).unwrap();
    let pairs: Vec<(f64, u64)> = serde_json::from_str(&written).unwrap();
    assert_eq!(pairs[0], (0.0, 0));
    assert_eq!(pairs.iter().map(|pair| pair.1).sum::<u64>(), 40);
    assert!(pairs.len() >= 4, "{written}");

    let quiet = ["-n", "2", "-c", "1", "-progress", "none", &*url];
    let quiet = ours("hey", &quiet, dir.path()).expect(0);
    assert!(quiet.out.starts_with("\nSummary:\n"), "{}", quiet.out);
    let csv = ours(
        "hey",
        &["-n", "20", "-c", "2", "-o", "csv", &url],
        dir.path(),
    )
    .expect(0);
    assert!(csv.out.starts_with("response-time,"), "{}", csv.out);
}

/// Returns the number of worker threads of a process.
fn workers(process: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    let names = tasks.filter_map(|task| name(task.unwrap()));
    names.filter(|name| name.starts_with("load-")).count()
}

#[test]
fn an_interrupt_prints_the_results_so_far() {
    let origin = Origin::start(&[]);
    let dir = folder();
    let url = origin.url("/delay/20ms");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_prony"));
    let arguments = ["hey", "-z", "5m", "-c", "3", "-cpus", "1", &url];
    let mut child = command(program, &arguments, dir.path()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    out.read_line(&mut text).unwrap();
    assert!(text.ends_with(" requests done.\n"), "{text}");
    let threads = workers(child.id());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    out.read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert_eq!(threads, 1);
    let answers: u64 = through("awk '/\\[200\\]/ {print $2}'", &text)
        .parse()
        .unwrap();
    assert!(answers > 3, "{text}");
    assert!(!text.contains("All requests done."), "{text}");
}
