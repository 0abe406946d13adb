//! Runs a program for its answer, for a bounded time.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The most that is kept of an answer, in bytes.
const LONGEST: u64 = 1 << 20;

/// What a program printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) status: String,
    pub(super) success: bool,
}

/// Starts the command and waits for its end; a program that stays longer than `within` is killed.
///
/// # Errors
/// The system's words where it can't be started, or that it took too long.
pub(super) fn answer(mut command: Command, within: Duration) -> Result<Answered, String> {
    let spawned = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = spawned.map_err(|error| error.to_string())?;
    let (sender, receiver) = mpsc::channel();
    let out = child.stdout.take().map(|pipe| heard(pipe, sender.clone()));
    let err = child.stderr.take().map(|pipe| heard(pipe, sender));
    // A pipe each; both are closed once the program has ended.
    for _ in 0..2 {
        if receiver.recv_timeout(within).is_err() {
            end(&mut child);
            return Err(format!("it did not end within {} s", within.as_secs()));
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let text = |thread: Option<std::thread::JoinHandle<String>>| {
        let joined = thread.map(std::thread::JoinHandle::join);
        joined.and_then(Result::ok).unwrap_or_default()
    };
    Ok(Answered {
        out: text(out),
        err: text(err),
        status: status.to_string(),
        success: status.success(),
    })
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn heard(
    pipe: impl Read + Send + 'static,
    done: mpsc::Sender<()>,
) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a failure is said, too.
        let _ = pipe.take(LONGEST).read_to_end(&mut bytes);
        let _ = done.send(());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, within: Duration) -> Result<Answered, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        answer(command, within)
    }

    #[test]
    fn both_outputs_and_the_status_are_told() {
        let said = shell("echo a; echo b >&2; exit 3", Duration::from_secs(20)).unwrap();
        assert_eq!((said.out.as_str(), said.err.as_str()), ("a\n", "b\n"));
        assert!(!said.success && said.status.contains('3'), "{said:?}");
    }

    #[test]
    fn what_stays_is_ended_and_what_is_missing_is_said() {
        let late = shell("exec sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert!(late.contains("did not end"), "{late}");
        assert!(answer(Command::new("/no/such"), Duration::from_secs(1)).is_err());
    }
}
