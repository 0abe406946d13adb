//! Runs test programs, several at a time, and kills one that hangs.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::totals::Totals;
use crate::cargo::command;
use crate::ending::Ending;

/// Number of programs that run at the same time. While one program waits, the other can use all
/// cores. With three, a trial of 1 s in a study once ended without a response.
const PROGRAMS_AT_ONCE: usize = 2;

/// Time without output after which a test program counts as hanging. No test takes this long, even
/// on a busy machine.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(300);

/// Interval at which the runner checks whether a program has ended while there is no output.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestProgram {
    /// Path of the source from the workspace root, such as `crates/cli/tests/cli/main.rs`.
    pub(super) source: String,
    pub(super) executable: PathBuf,
    /// Folder of the crate, in which cargo runs its tests.
    pub(super) folder: PathBuf,
}

impl TestProgram {
    /// The command that runs the tests.
    pub(super) fn command(&self) -> Command {
        let mut command = command(&self.executable);
        command.current_dir(&self.folder);
        command
    }
}

/// Runs commands that print test results, and adds up the results. Each command is paired with its
/// name. Its output is printed when it ends.
pub(super) fn run(commands: Vec<(String, Command)>) -> (Ending, Totals) {
    let times = (SILENCE_TIMEOUT, POLL_INTERVAL);
    let mut out = std::io::stdout();
    run_all(commands, &Mutex::new(&mut out), times)
}

/// Implements [`run`]. `times` contains the silence after which a test program counts as hanging,
/// and the interval between checks for the end of a program.
fn run_all(
    commands: Vec<(String, Command)>,
    out: &Mutex<&mut (dyn Write + Send)>,
    times: (Duration, Duration),
) -> (Ending, Totals) {
    let queue = Mutex::new(commands.into_iter());
    let next = || queue.lock().ok()?.next();
    let sum = Mutex::new((Ending::Success, Totals::default()));
    thread::scope(|scope| {
        for _ in 0..PROGRAMS_AT_ONCE {
            scope.spawn(|| {
                while let Some((name, mut command)) = next() {
                    let started = Instant::now();
                    let mut output = Vec::new();
                    let (ending, totals) = follow(&mut command, &mut output, times);
                    if let (Ok(mut out), Ok(mut sum)) = (out.lock(), sum.lock()) {
                        let seconds = started.elapsed().as_secs_f64();
                        let _ = writeln!(out, "== {name}: {totals} after {seconds:.1} s");
                        let _ = out.write_all(&output);
                        sum.1.add(totals);
                        if ending != Ending::Success {
                            let _ = writeln!(out, "== {name} FAILED");
                            sum.0 = Ending::Failed;
                        }
                    }
                }
            });
        }
    });
    sum.into_inner()
        .unwrap_or((Ending::Failed, Totals::default()))
}

/// Runs one command and writes its output to `out`.
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
            let _ = writeln!(out, "{}: {error}", command.get_program().display());
            return (Ending::Failed, totals);
        }
    };
    if let Some(lines) = child.stdout.take().map(lines_of) {
        forward(&lines, &mut child, &mut totals, out, times);
    }
    let succeeded = child.wait().is_ok_and(|status| status.success());
    if succeeded && totals.failed == 0 {
        (Ending::Success, totals)
    } else {
        (Ending::Failed, totals)
    }
}

/// Sends each line through a channel when it arrives. The thread isn't joined, because processes
/// that a killed test program leaves behind may keep the other end of the pipe open.
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

/// Forwards the lines until the end, or until the program hangs and is killed.
fn forward(
    lines: &Receiver<Vec<u8>>,
    child: &mut Child,
    totals: &mut Totals,
    out: &mut dyn Write,
    (silence, look): (Duration, Duration),
) {
    let mut heard = Instant::now();
    loop {
        match lines.recv_timeout(look) {
            Ok(line) => {
                heard = Instant::now();
                let line = String::from_utf8_lossy(&line);
                totals.take(&line);
                let _ = writeln!(out, "{line}");
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                if matches!(child.try_wait(), Ok(Some(_))) {
                    return;
                }
                if heard.elapsed() >= silence {
                    let _ = writeln!(
                        out,
                        "== no test ended for {} s, so the test program is killed; tests that \
                            were still running are listed above as running for over 60 seconds",
                        silence.as_secs()
                    );
                    let _ = child.kill();
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(scripts: &[&str]) -> (Ending, Totals, String) {
        let commands = scripts.iter().map(|script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            ("a test".to_string(), command)
        });
        let times = (Duration::from_millis(200), Duration::from_millis(50));
        // The output isn't printed: the runner of these tests would add it up.
        let mut out = Vec::new();
        let (ending, totals) = run_all(commands.collect(), &Mutex::new(&mut out), times);
        (ending, totals, String::from_utf8(out).unwrap())
    }

    const SAID: &str =
        "echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'";

    #[test]
    fn results_of_all_programs_are_added_up() {
        let (ending, totals, _) = shell(&[SAID, SAID, SAID]);
        assert_eq!((ending, totals.passed), (Ending::Success, 9));
    }

    #[test]
    fn one_failure_fails_the_run_and_the_other_programs_run() {
        let (ending, totals, out) = shell(&["exit 1", SAID]);
        assert_eq!((ending, totals.passed), (Ending::Failed, 3));
        assert!(out.contains("== a test FAILED"), "{out}");
    }

    #[test]
    fn a_program_that_hangs_is_killed_and_the_next_one_runs() {
        // The grandchild keeps standard output open after its parent is killed.
        let hangs = "echo begun; sleep 3 & exec sleep 3600";
        let (ending, totals, out) = shell(&[hangs, SAID, SAID]);
        assert_eq!((ending, totals.passed), (Ending::Failed, 6));
        assert!(
            out.contains("begun\n== no test ended for 0 s, so the test program is killed"),
            "{out}"
        );
    }
}
