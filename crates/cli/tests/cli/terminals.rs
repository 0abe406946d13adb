//! Colour, live lines, and readers that leave early.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::running::{Origin, Room};

/// What a command writes to a terminal on both streams.
fn on_terminal(room: &Room, args: &[&str], variables: &[(&str, &str)]) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let open = || {
        let slave = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        Stdio::from(slave)
    };
    let mut command = room.command(args);
    command
        .env("TERM", "xterm")
        .envs(variables.iter().copied())
        .stdout(open())
        .stderr(open());
    let mut child = command.spawn().unwrap();
    // Ours have to be closed, or reading would never end.
    drop(command);
    let mut seen = Vec::new();
    // A terminal that nobody has open any more ends with an error, not with an end of file.
    let _ = File::from(master).read_to_end(&mut seen);
    child.wait().unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn colour_is_for_terminals_and_can_be_refused() {
    let room = Room::new();
    let origin = Origin::tcp(&room);
    let url = origin.url("/");
    let args = ["load", "-n", "5", "-c", "1", &url];
    assert!(on_terminal(&room, &args, &[]).contains("\x1b[1m"));
    for refusal in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let seen = on_terminal(&room, &args, &[refusal]);
        assert!(
            !seen.contains('\x1b') && seen.contains("5 ok"),
            "{refusal:?}: {seen:?}"
        );
    }
    assert!(on_terminal(&room, &args, &[("NO_COLOR", "")]).contains("\x1b[1m"));
}

#[test]
fn a_live_line_is_written_over_and_wiped() {
    let room = Room::new();
    let origin = Origin::tcp(&room);
    let url = origin.url("/");
    let args = ["load", "-d", "3s", "-c", "1", "-r", "50", &url];
    let seen = on_terminal(&room, &args, &[]);
    let live = seen
        .rfind(" left")
        .unwrap_or_else(|| panic!("no live line: {seen:?}"));
    assert!(seen[live..].contains("\r\x1b[K"), "{seen:?}");
    let silent = [&args[..], &["--progress", "none"]].concat();
    assert!(!on_terminal(&room, &silent, &[]).contains(" left"));
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let room = Room::new();
    let origin = Origin::tcp(&room);
    let url = origin.url("/");
    for args in [
        &["load", "-n", "5", "-c", "1", &url][..],
        &["--help"],
        &["study", "list"],
        &["man"],
    ] {
        let mut child = room.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*err), (Some(0), ""), "{args:?}");
    }
}
