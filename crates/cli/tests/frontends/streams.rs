//! Tests of all front ends: closed pipes, full outputs, public servers, and mistyped numbers.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::process::Stdio;

use crate::programs::{CommandOutput, Origin, command, ours};

/// Returns the arguments of a short run for each tool.
fn short(url: &str) -> [(&'static str, Vec<&str>); 4] {
    [
        ("hey", vec!["-n", "4", "-c", "2", url]),
        ("wrk", vec!["-t1", "-c1", "-d1", url]),
        ("ab", vec!["-n", "200", url]),
        ("siege", vec!["-b", "-c1", "-r2", url]),
    ]
}

/// Runs one of the front ends with the given output streams.
fn run(tool: &str, arguments: &[&str], out: Stdio, err: Stdio) -> CommandOutput {
    let dir = tempfile::tempdir().unwrap();
    let all: Vec<&str> = std::iter::once(tool)
        .chain(arguments.iter().copied())
        .collect();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_prony"));
    let mut command = command(program, &all, dir.path());
    command.stdout(out).stderr(err).output().unwrap().into()
}

/// Opens a device on which every write fails.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// Returns a pipe whose read end is closed.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn the_status_reports_results_that_could_not_be_printed() {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    for (tool, arguments) in short(&url) {
        let output = run(tool, &arguments, full().into(), Stdio::piped()).expect(3);
        assert_eq!(
            output.err.matches("standard output: No space left").count(),
            1,
            "{tool}: {output:?}"
        );
    }
    let csv = ["-o", "csv", "-n", "2", "-c", "1", &url];
    run("hey", &csv, full().into(), Stdio::null()).expect(3);
}

#[test]
fn closed_pipes_are_not_failures() {
    let origin = Origin::start(&[]);
    let url = origin.url("/");
    for (tool, arguments) in short(&url) {
        run(tool, &arguments, unread(), Stdio::piped()).expect(0);
        run(tool, &arguments, Stdio::piped(), unread()).expect(0);
        run(tool, &arguments, Stdio::piped(), full().into()).expect(0);
    }
    for help in ["-h", "-V", "-C"] {
        run("siege", &[help], Stdio::null(), full().into()).expect(0);
    }
}

/// Numbers are refused if a run would take hours or need more resources than any machine has.
#[test]
fn impossible_numbers_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let many = "99999999999";
    let url = "http://127.0.0.1:9/";
    for (tool, arguments, expected_text) in [
        ("hey", ["-q", many, "-n", "200"], "-q times -c, "),
        (
            "hey",
            ["-c", many, "-n", many],
            "-c 99999999999: use at most",
        ),
        (
            "ab",
            ["-c", many, "-n", many],
            "-c 99999999999: use at most",
        ),
        (
            "siege",
            ["-b", "-r1", "-c", many],
            "-c 99999999999: use at most",
        ),
        (
            "wrk",
            ["-t1", "-c2", "-R", many],
            "--rate 99999999999: the rate must be above 0 and at most 100000000",
        ),
        (
            "wrk",
            ["-t1", "-c2", "-d", many],
            "at most 1000000000 seconds",
        ),
    ] {
        let output = ours(tool, &[&arguments[..], &[url]].concat(), dir.path());
        assert!(
            output.err.contains(expected_text),
            "{tool} {arguments:?}: {output:?}"
        );
        assert_eq!(
            output.status,
            if tool == "wrk" { 1 } else { 2 },
            "{output:?}"
        );
    }
}

/// 192.0.2.7 is reserved for documentation (RFC 5737).
#[test]
fn a_public_server_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    for (tool, arguments) in short("http://192.0.2.7/") {
        let output = ours(tool, &arguments, dir.path());
        let status = if tool == "wrk" { 1 } else { 2 };
        assert_eq!(output.status, status, "{output:?}");
        assert!(output.err.contains("192.0.2.7 is outside"), "{output:?}");
        assert!(output.err.contains("set PRONY_PUBLIC=1"), "{output:?}");
        assert!(!output.err.contains("--public"), "{output:?}");
    }
}

/// The hint doesn't name flags that a front end lacks.
#[test]
fn a_name_without_address_is_reported_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    for (tool, arguments) in short("http://name.invalid/") {
        let output = ours(tool, &arguments, dir.path());
        assert!(output.err.contains("name.invalid"), "{output:?}");
        assert!(!output.err.contains("--"), "{output:?}");
    }
}
