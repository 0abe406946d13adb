//! Tests on a terminal: colors, the live view, and readers that close early.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, ioctl_tiocsctty, kill_process, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::running::{Origin, TEST_TIMEOUT, Workdir};

/// Escape sequence that starts the view: it switches to the alternate screen.
const VIEW_START: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";

/// A pseudoterminal with a simulated user.
pub(crate) struct TerminalUser {
    keys: File,
    /// The program's end of the terminal, kept open so that the test can read its modes after the
    /// program has closed it.
    screen: OwnedFd,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    child: Child,
}

/// Streams of a command that are connected to the terminal.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum TerminalStreams {
    /// All three standard streams.
    All,
    /// All standard streams except standard input.
    NoKeys,
    /// All standard streams except standard output, which is a pipe without a reader.
    NoOutput,
}

impl TerminalUser {
    pub(crate) fn start(
        workdir: &Workdir,
        args: &[&str],
        has: TerminalStreams,
        variables: &[(&str, &str)],
    ) -> TerminalUser {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize {
            ws_col: 100,
            ws_row: 30,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || {
            // The terminal must not become the controlling terminal of the test.
            rustix::fs::open(
                &*name,
                OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .unwrap()
        };
        let screen = open();
        let mut command = workdir.command(args);
        command.env("TERM", "xterm").envs(variables.iter().copied());
        command.stderr(Stdio::from(open()));
        if has != TerminalStreams::NoKeys {
            command.stdin(Stdio::from(open()));
        }
        if has != TerminalStreams::NoOutput {
            command.stdout(Stdio::from(open()));
        }
        // SAFETY: only two system calls are made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // Makes this the program's controlling terminal, so that Ctrl-C and Ctrl-Z reach
                // the program.
                setsid()?;
                ioctl_tiocsctty(std::io::stderr())?;
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        let keys = File::from(master);
        let mut from = keys.try_clone().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let reader = std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut some) {
                kept.lock().unwrap().extend_from_slice(&some[..read]);
            }
        });
        TerminalUser {
            keys,
            screen,
            seen,
            reader,
            child,
        }
    }

    fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !is_so(&self.seen()) {
            assert!(
                began.elapsed() < TEST_TIMEOUT,
                "no {what}: {:?}",
                self.seen()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn echoes(&self) -> bool {
        let modes = tcgetattr(&self.screen).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ISIG));
        let echoes = modes.contains(LocalModes::ECHO);
        assert!(!echoes || modes.contains(LocalModes::ICANON));
        echoes
    }

    /// Returns true if a signal has stopped the program.
    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if began.elapsed() > TEST_TIMEOUT {
                let _ = self.child.kill();
                panic!("it doesn't end: {:?}", self.seen());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the program to exit. Returns its exit status and everything that it drew.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.ended();
        assert!(
            self.echoes(),
            "the view did not restore the terminal's modes"
        );
        // When the other end of a terminal is closed, reading gives an error and not the end of the
        // file.
        let TerminalUser {
            screen,
            reader,
            seen,
            ..
        } = self;
        drop(screen);
        reader.join().unwrap();
        let seen = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
        (status.code(), seen)
    }
}

/// Returns the output of a command on a terminal that isn't its standard input.
fn on_terminal(workdir: &Workdir, args: &[&str], variables: &[(&str, &str)]) -> String {
    TerminalUser::start(workdir, args, TerminalStreams::NoKeys, variables)
        .end()
        .1
}

/// Returns the output after the view was closed for the last time.
#[track_caller]
pub(crate) fn after_the_view(seen: &str) -> &str {
    let (_, after) = seen
        .rsplit_once(GIVEN_BACK)
        .unwrap_or_else(|| panic!("no view: {seen:?}"));
    assert_eq!(
        seen.matches(VIEW_START).count(),
        seen.matches(GIVEN_BACK).count()
    );
    after
}

#[test]
fn color_is_for_terminals_and_can_be_refused() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = ["load", "-n", "5", "-c", "1", &url];
    assert!(on_terminal(&workdir, &args, &[]).contains("\x1b[1m"));
    for refusal in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let seen = on_terminal(&workdir, &args, &[refusal]);
        assert!(
            !seen.contains('\x1b') && seen.contains("5 ok"),
            "{refusal:?}: {seen:?}"
        );
    }
    assert!(on_terminal(&workdir, &args, &[("NO_COLOR", "")]).contains("\x1b[1m"));
}

#[test]
fn the_view_uses_the_alternate_screen_and_restores_the_terminal() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = ["load", "-d", "2s", "-c", "1", "-r", "50", &url];
    let seen = on_terminal(&workdir, &args, &[]);
    let after = after_the_view(&seen);
    assert!(after.contains("100 ok"), "{seen:?}");
    assert!(
        !seen.split_once(VIEW_START).unwrap().0.contains(" ok"),
        "{seen:?}"
    );
    // The key q works only if standard input is a terminal.
    assert!(
        seen.contains("Ctrl-C: stop") && !seen.contains("q or"),
        "{seen:?}"
    );
    let blue = "\x1b[38;5;6";
    assert!(seen.contains(blue), "{seen:?}");
    let plain = on_terminal(&workdir, &args, &[("NO_COLOR", "1")]);
    assert!(
        plain.contains(VIEW_START) && !plain.contains(blue),
        "{plain:?}"
    );
    for how in ["none", "lines"] {
        let other = [&args[..], &["--progress", how]].concat();
        assert!(
            !on_terminal(&workdir, &other, &[]).contains(VIEW_START),
            "{how}"
        );
    }
    assert!(!on_terminal(&workdir, &args, &[("TERM", "dumb")]).contains(VIEW_START));
}

#[test]
fn a_key_ends_a_load_with_its_results() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = ["load", "-d", "60s", "-c", "1", "-r", "50", &url];
    for key in ["q", "\x03"] {
        let mut typist = TerminalUser::start(&workdir, &args, TerminalStreams::All, &[]);
        typist.wait_until("view", |seen| seen.contains("q or Ctrl-C"));
        assert!(!typist.echoes());
        typist.press("zz");
        typist.press(key);
        let (status, seen) = typist.end();
        let after = after_the_view(&seen);
        assert_eq!(status, Some(130), "{seen:?}");
        assert!(after.contains("prony: interrupted"), "{seen:?}");
        assert!(after.contains(" ok"), "{seen:?}");
        assert!(!seen.contains("zz"), "{seen:?}");
    }
}

#[test]
fn a_capacity_search_shows_its_bracket_until_a_key_ends_it() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = ["capacity", "--goal", "p99<10s", "--max-rate", "200", &url];
    let mut typist = TerminalUser::start(&workdir, &args, TerminalStreams::All, &[]);
    // Each word is drawn separately, so the test looks for single words.
    typist.wait_until("bracket", |seen| {
        seen.contains("bracket:") && seen.contains("measuring") && seen.contains('●')
    });
    typist.press("q");
    let (status, seen) = typist.end();
    let after = after_the_view(&seen);
    assert_eq!(status, Some(130), "{seen:?}");
    assert!(after.contains("prony: interrupted"), "{seen:?}");
}

#[test]
fn a_key_ends_an_experiment_and_removes_everything() {
    let workdir = Workdir::new();
    let mut typist =
        TerminalUser::start(&workdir, &["demo", "--out", "d"], TerminalStreams::All, &[]);
    // Each word is drawn separately, and words that haven't changed are not drawn again.
    typist.wait_until("trial", |seen| {
        seen.contains("tcp:") || seen.contains("unix:")
    });
    typist.press("q");
    let (status, seen) = typist.end();
    let after = after_the_view(&seen);
    assert_eq!(status, Some(130), "{seen:?}");
    assert!(after.contains("prony: interrupted"), "{seen:?}");
    assert!(after.contains("prony compare --resume d"), "{seen:?}");
    assert_eq!(workdir.left_running(), Vec::<String>::new());
}

#[test]
fn a_suspended_view_restores_the_terminal_and_returns() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = ["load", "-d", "60s", "-c", "1", "-r", "50", &url];
    let mut typist = TerminalUser::start(&workdir, &args, TerminalStreams::All, &[]);
    typist.wait_until("view", |seen| seen.contains("q or Ctrl-C"));
    typist.press("\x1a");
    typist.wait_until("end of the view", |seen| seen.contains(GIVEN_BACK));
    let began = Instant::now();
    while !typist.is_stopped() {
        assert!(began.elapsed() < TEST_TIMEOUT);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(typist.echoes());
    typist.signal(Signal::CONT);
    typist.wait_until("second view", |seen| seen.matches(VIEW_START).count() == 2);
    typist.signal(Signal::TERM);
    let (status, seen) = typist.end();
    assert_eq!(status, Some(130), "{seen:?}");
    assert!(after_the_view(&seen).contains(" ok"), "{seen:?}");
}

#[test]
fn a_view_leaves_standard_output_to_the_results() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let args = [
        "load", "-d", "1500ms", "-c", "1", "-r", "50", "--json", "-", &url,
    ];
    let mut typist = TerminalUser::start(&workdir, &args, TerminalStreams::NoOutput, &[]);
    let mut out = String::new();
    let mut stdout = typist.child.stdout.take().unwrap();
    stdout.read_to_string(&mut out).unwrap();
    let (status, seen) = typist.end();
    assert_eq!(status, Some(0), "{seen:?}");
    after_the_view(&seen);
    let record: serde_json::Value = serde_json::from_str(&out).unwrap();
    // On a busy machine, the last requests may end after the measured part.
    let ok = record["totals"]["ok"].as_u64();
    assert!(ok.is_some_and(|ok| (1..=75).contains(&ok)), "{ok:?}");
}

#[test]
fn a_reader_that_closes_early_is_not_an_error() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    for args in [
        &["load", "-n", "5", "-c", "1", &url][..],
        &["--help"],
        &["study", "list"],
        &["man"],
    ] {
        let mut child = workdir.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*err), (Some(0), ""), "{args:?}");
    }
}
