//! Runs `cargo test`, forwards the output of the test programs, and kills one that hangs.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::totals::Totals;
use crate::Ending;

/// Time without output after which a test program counts as hanging. No test takes this long, even
/// on a busy machine.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(300);

/// Interval at which the runner checks if cargo has ended while there is no output.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Runs a command whose tests are already built, and adds up the test results.
pub(super) fn run(command: &mut Command) -> (Ending, Totals) {
    let times = (SILENCE_TIMEOUT, POLL_INTERVAL);
    follow(command, &mut std::io::stdout(), times)
}

/// Implements [`run`]. `times` contains the silence after which a test program counts as hanging,
/// and the interval between checks for the end of cargo.
fn follow(
    command: &mut Command,
    out: &mut dyn Write,
    times: (Duration, Duration),
) -> (Ending, Totals) {
    let mut totals = Totals::default();
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            println!("{}: {error}", command.get_program().display());
            return (Ending::Missing, totals);
        }
    };
    let lines = child.stdout.take().map(lines_of);
    let hung = lines.is_some_and(|lines| forward(&lines, &mut child, &mut totals, out, times));
    match child.wait() {
        Ok(status) if status.success() && totals.failed == 0 && !hung => (Ending::Success, totals),
        Ok(_) => (Ending::Failed, totals),
        Err(error) => {
            println!("{}: {error}", command.get_program().display());
            (Ending::Failed, totals)
        }
    }
}

/// Sends each line when it arrives. The thread isn't joined, because processes that a killed test
/// program leaves behind may keep the other end of the pipe open.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            if !line.is_ok_and(|line| sender.send(line).is_ok()) {
                break;
            }
        }
    });
    lines
}

/// Forwards the lines until the end. Returns true if a test program hung.
fn forward(
    lines: &Receiver<Vec<u8>>,
    child: &mut Child,
    totals: &mut Totals,
    out: &mut dyn Write,
    (silence, look): (Duration, Duration),
) -> bool {
    let mut heard = Instant::now();
    let mut hung = false;
    loop {
        match lines.recv_timeout(look) {
            Ok(line) => {
                heard = Instant::now();
                let line = String::from_utf8_lossy(&line);
                totals.take(&line);
                let _ = writeln!(out, "{line}");
            }
            Err(RecvTimeoutError::Disconnected) => return hung,
            Err(RecvTimeoutError::Timeout) => {
                if matches!(child.try_wait(), Ok(Some(_))) {
                    return hung;
                }
                if heard.elapsed() >= silence {
                    let _ = writeln!(
                        out,
                        "== no test ended for {} s, so the test program is killed; its running \
                            tests are listed above as running for over 60 seconds",
                        silence.as_secs()
                    );
                    kill_runner(child.id());
                    heard = Instant::now();
                    hung = true;
                }
            }
        }
    }
}

/// Kills cargo's current child process. Cargo then continues with the next crate.
fn kill_runner(cargo: u32) {
    let cargo = cargo.to_string();
    let killed = Command::new("pkill").args(["-KILL", "-P", &cargo]).status();
    if !killed.is_ok_and(|status| status.success()) {
        let _ = Command::new("kill").args(["-KILL", &cargo]).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> (Ending, Totals) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let times = (Duration::from_millis(200), Duration::from_millis(50));
        // Discard the output: the runner of these tests would add it up.
        follow(&mut command, &mut std::io::sink(), times)
    }

    #[test]
    fn what_runners_say_is_added_up() {
        let said = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        let (ending, totals) = shell(&format!("echo '{said}'; echo '{said}'"));
        assert_eq!((ending, totals.passed), (Ending::Success, 6));
        assert_eq!(shell("exit 1").0, Ending::Failed);
    }

    #[test]
    fn a_runner_that_hangs_is_killed_and_the_next_one_runs() {
        let said = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        // The grandchild keeps standard output open after its parent is killed.
        let hangs = "sh -c 'sleep 3 & exec sleep 3600'";
        let (ending, totals) = shell(&format!("{hangs}; echo '{said}'"));
        assert_eq!((ending, totals.passed), (Ending::Failed, 3));
    }
}
