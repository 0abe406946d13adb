//! Runs a program with a time limit and returns its output.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Interval at which prony checks if the program has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time limit for the output to end after the program has ended. A process that left the program's
/// process group may keep the pipes open.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes that are kept of standard output, and of standard error.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// The output and exit status of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOutput {
    /// The beginning of standard output.
    pub stdout: String,
    /// The beginning of standard error.
    pub stderr: String,
    /// Description of the exit status.
    pub status: String,
    /// True if the exit status is 0.
    pub success: bool,
}

/// Reason why a program has no output.
#[derive(Debug)]
pub enum ProgramError {
    /// The program could not be started or awaited.
    Io(io::Error),
    /// The program ran longer than this.
    Timeout(Duration),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Io(error) => error.fmt(f),
            ProgramError::Timeout(timeout) => {
                write!(f, "the program did not end within {} s", timeout.as_secs())
            }
        }
    }
}

impl std::error::Error for ProgramError {}

/// Starts a program and waits until it exits. Kills the program's process group when the program
/// ends, or after `timeout`.
///
/// # Errors
/// The program can't be started, or runs for too long.
pub fn run_program(mut command: Command, timeout: Duration) -> Result<ProgramOutput, ProgramError> {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let began = Instant::now();
    let mut child = command.spawn().map_err(ProgramError::Io)?;
    let stdout = child.stdout.take().map(read_in_thread);
    let stderr = child.stderr.take().map(read_in_thread);
    let group = Pid::from_child(&child);
    // NOWAIT leaves the zombie for `wait`, so the process ID can't be reused before the process
    // group is killed.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let ended = loop {
        match waitid(WaitId::Pid(group), look) {
            Ok(Some(_)) => break true,
            Ok(None) if began.elapsed() < timeout => thread::sleep(POLL_INTERVAL),
            _ => break false,
        }
    };
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait().map_err(ProgramError::Io)?;
    if !ended {
        return Err(ProgramError::Timeout(timeout));
    }
    let text = |receiver: Option<Receiver<String>>| {
        let received = receiver.map(|receiver| receiver.recv_timeout(OUTPUT_TIMEOUT));
        received.and_then(Result::ok).unwrap_or_default()
    };
    Ok(ProgramOutput {
        stdout: text(stdout),
        stderr: text(stderr),
        status: status.to_string(),
        success: status.success(),
    })
}

/// Reads a pipe to its end on a new thread, and sends the text to the returned receiver.
fn read_in_thread(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // If reading fails, send the text that was read before the error.
        let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> Result<ProgramOutput, ProgramError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run_program(command, timeout)
    }

    #[test]
    fn both_outputs_and_the_status_are_returned() {
        let output = shell("echo a; echo b >&2; exit 3", Duration::from_secs(20)).unwrap();
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("a\n", "b\n")
        );
        assert!(!output.success && output.status.contains('3'), "{output:?}");
    }

    #[test]
    fn programs_that_print_too_much_or_leave_a_process_are_ended() {
        let stdout = |script| shell(script, Duration::from_secs(20)).map(|output| output.stdout);
        let talker = stdout("head -c 1000000 /dev/zero | tr '\\0' x");
        assert_eq!(talker.unwrap().len(), 64 << 10);
        // The background process would hold the pipe open forever.
        assert_eq!(stdout("sleep 1000 & echo 1").unwrap(), "1\n");
    }

    #[test]
    fn long_running_and_missing_programs_are_errors() {
        let late = shell("exec sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert!(matches!(late, ProgramError::Timeout(_)), "{late}");
        assert!(run_program(Command::new("/no/such"), Duration::from_secs(1)).is_err());
    }
}
