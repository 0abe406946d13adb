//! Rule: the pure crates (`protocol`, `tcp`, `stats`, `wording`, `plan` and `report`) use no clock, no
//! socket, no thread and no process. All of them except `plan` and `report` also use no file.

use super::complaint::Complaint;
use super::layers::PURE;
use super::source::{Name, Sources};

/// Paths that no pure crate may use, each with a description.
const NOWHERE: &[(&[&str], &str)] = &[
    (&["std", "net"], "a socket"),
    (&["std", "os", "unix", "net"], "a socket"),
    (&["std", "time", "Instant"], "a clock"),
    (&["std", "time", "SystemTime"], "a clock"),
    (&["std", "time", "UNIX_EPOCH"], "a clock"),
    (&["tokio"], "a socket"),
    (&["mio"], "a socket"),
    (&["polling"], "a socket"),
    (&["socket2"], "a socket"),
    (&["std", "thread"], "a thread"),
    (&["std", "process"], "a process"),
];

/// Paths that only the crates in [`FILE_READERS`] may use.
const FILES: &[(&[&str], &str)] = &[(&["std", "fs"], "a file")];

/// Pure crates whose input is in files: a plan and the files that it names, and stored results.
const FILE_READERS: &[&str] = &["plan", "report"];

/// Names of types that imply a clock or a socket, whatever their path.
const TYPES: &[(&str, &str)] = &[
    ("Instant", "a clock"),
    ("SystemTime", "a clock"),
    ("TcpStream", "a socket"),
    ("TcpListener", "a socket"),
    ("UdpSocket", "a socket"),
    ("UnixStream", "a socket"),
    ("UnixListener", "a socket"),
    ("UnixDatagram", "a socket"),
];

/// Checks the sources of the pure crates, except for their `tests` folders.
pub(super) fn check(sources: &Sources) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, source) in &sources.files {
        let Some(name) = PURE
            .iter()
            .find(|c| path.starts_with(&format!("crates/{c}/src/")))
        else {
            continue;
        };
        for named in &source.paths {
            if let Some(what) = impurity(name, named) {
                let text = format!("{name} must not use {what}: {}", named.segments.join("::"));
                complaints.push(Complaint::new(path, named.line, text));
            }
        }
    }
    complaints.dedup();
    complaints
}

fn impurity(name: &str, named: &Name) -> Option<&'static str> {
    let starts = |path: &[&str]| {
        // A single segment such as `polling` may be a variable.
        named.segments.len() > 1
            && named.segments.len() >= path.len()
            && named.segments.iter().zip(path).all(|(a, b)| a == b)
    };
    let files = if FILE_READERS.contains(&name) {
        &[]
    } else {
        FILES
    };
    NOWHERE
        .iter()
        .chain(files)
        .find(|(path, _)| starts(path))
        .map(|(_, what)| *what)
        .or_else(|| {
            let types = TYPES
                .iter()
                .find(|(t, _)| named.segments.iter().any(|s| s == t));
            types.map(|(_, what)| *what)
        })
}

#[cfg(test)]
mod tests {
    use super::super::complaint::printed;
    use super::super::source;
    use super::*;
    use crate::tree::Tree;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        printed(&check(&source::parse_all(&Tree::of(&[(path, text)]))))
    }

    #[test]
    fn clocks_and_sockets_are_found_by_path_and_by_name() {
        for text in [
            "use std::time::Instant;",
            "use std::time::{Duration, SystemTime};",
            "fn f() { std::net::TcpStream::connect(a) }",
            "use std::{fmt, net};",
            "use std::os::unix::net::UnixStream;",
            "use tokio::io;",
            "fn f(at: Instant) {}",
        ] {
            assert!(
                !complaints("crates/stats/src/a.rs", text).is_empty(),
                "{text}"
            );
        }
        let seen = complaints("crates/protocol/src/a.rs", "\n\nuse std::time::Instant;");
        assert_eq!(
            seen,
            ["crates/protocol/src/a.rs:3: protocol must not use a clock: std::time::Instant"]
        );
    }

    #[test]
    fn durations_words_and_own_names_are_fine() {
        for text in [
            "use std::time::Duration;",
            "// std::time::Instant\nconst A: &str = \"TcpStream\";",
            "fn f(polling: u8, net: u8) -> u8 { polling + net }",
            "use std::fmt;",
        ] {
            assert!(
                complaints("crates/protocol/src/a.rs", text).is_empty(),
                "{text}"
            );
        }
    }

    #[test]
    fn threads_and_files_belong_in_no_arithmetic() {
        let text = "fn f() { std::thread::spawn(g) }";
        assert_eq!(complaints("crates/protocol/src/a.rs", text).len(), 1);
        assert_eq!(complaints("crates/stats/src/a.rs", "use std::fs;").len(), 1);
        assert!(complaints("crates/report/src/a.rs", "use std::fs;").is_empty());
        assert!(complaints("crates/plan/src/a.rs", "use std::fs;").is_empty());
        assert_eq!(complaints("crates/plan/src/a.rs", text).len(), 1);
    }

    #[test]
    fn other_crates_and_tests_are_free() {
        assert!(complaints("crates/load/src/a.rs", "use std::time::Instant;").is_empty());
        assert!(complaints("crates/stats/tests/a.rs", "use std::time::Instant;").is_empty());
    }
}
