//! Runs a program with a time limit and returns its output.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Maximum number of bytes kept of standard output and of standard error.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The output and exit status of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProgramOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: String,
    pub(crate) success: bool,
}

/// Starts the command and waits until it exits. A program that runs for longer than `timeout` is
/// killed.
///
/// # Errors
/// The program can't be started, or runs for too long.
pub(crate) fn run_program(
    mut command: Command,
    timeout: Duration,
) -> Result<ProgramOutput, String> {
    let spawned = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(|error| error.to_string())?;
    let (sender, receiver) = mpsc::channel();
    let stdout = child
        .stdout
        .take()
        .map(|pipe| read_pipe(pipe, sender.clone()));
    let stderr = child.stderr.take().map(|pipe| read_pipe(pipe, sender));
    // Standard output and standard error end when the program exits.
    for _ in 0..2 {
        if receiver.recv_timeout(timeout).is_err() {
            kill(&mut child);
            return Err(format!("it did not end within {} s", timeout.as_secs()));
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let text = |thread: Option<std::thread::JoinHandle<String>>| {
        let joined = thread.map(std::thread::JoinHandle::join);
        joined.and_then(Result::ok).unwrap_or_default()
    };
    Ok(ProgramOutput {
        stdout: text(stdout),
        stderr: text(stderr),
        status: status.to_string(),
        success: status.success(),
    })
}

fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Reads a pipe on a new thread and signals `done` at its end.
fn read_pipe(
    pipe: impl Read + Send + 'static,
    done: mpsc::Sender<()>,
) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // If a read fails, the bytes before it are still useful.
        let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        let _ = done.send(());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, timeout: Duration) -> Result<ProgramOutput, String> {
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
    fn long_running_and_missing_programs_are_errors() {
        let late = shell("exec sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert!(late.contains("did not end"), "{late}");
        assert!(run_program(Command::new("/no/such"), Duration::from_secs(1)).is_err());
    }
}
