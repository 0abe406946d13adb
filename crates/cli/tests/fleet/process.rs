//! Starts processes for tests, waits for them, and kills them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Timeout for waits in tests, long enough for a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Waits until `look` returns a value.
pub(crate) fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            began.elapsed() < TEST_TIMEOUT,
            "timeout while waiting until {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that is killed when this value is dropped.
pub(crate) struct Process {
    child: Child,
    name: String,
    out: PathBuf,
    err: PathBuf,
}

impl Process {
    /// Starts a process whose output goes to files in a folder.
    pub(crate) fn start(mut command: Command, folder: &Path, name: &str) -> Process {
        let (out, err) = (
            folder.join(format!("{name}.out")),
            folder.join(format!("{name}.err")),
        );
        command
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap());
        let child = command.spawn().unwrap();
        Process {
            child,
            name: name.to_owned(),
            out,
            err,
        }
    }

    /// Returns the standard output so far.
    pub(crate) fn stdout(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap()
    }

    /// Returns the standard error so far.
    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    /// Waits until standard error contains the given text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let began = Instant::now();
        while !self.stderr().contains(text) {
            let ended = self.child.try_wait().unwrap();
            let is_there = ended.is_none() || self.stderr().contains(text);
            assert!(
                is_there && began.elapsed() < TEST_TIMEOUT,
                "{} does not print {text:?}:\n{}",
                self.name,
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills the process and waits until it has exited.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the process to exit. Returns its exit status.
    pub(crate) fn end(&mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(
                began.elapsed() < TEST_TIMEOUT,
                "{} does not end:\n{}",
                self.name,
                self.stderr()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let has_ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if !has_ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            let (out, err) = (self.stdout(), self.stderr());
            eprintln!("-- {}\n{out}{err}", self.name);
        }
    }
}
