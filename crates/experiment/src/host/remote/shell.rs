//! The shell at the other end of an ssh connection: requests to it, answers from it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::telemetry::RemoteMachine;

/// The parts of an answer by name.
pub(super) type Sections = BTreeMap<String, String>;

/// An answer is no longer than this, in bytes.
const LONGEST_ANSWER: usize = 32 << 20;
/// What ssh said is kept so far, in bytes.
const LONGEST_COMPLAINT: usize = 4 << 10;
/// How long ssh may take to end once its input has.
const END_WITHIN: Duration = Duration::from_millis(500);

/// A running ssh with a shell behind it. Dropped, it ends both.
#[derive(Debug)]
pub(super) struct Shell {
    ssh: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<Result<Sections, String>>,
    complaint: Arc<Mutex<String>>,
}

impl Shell {
    /// Starts ssh and sends the script, one part for each system, which answers once by itself.
    pub(super) fn start(machine: &RemoteMachine, script: &[String]) -> Result<Self, String> {
        let mark = mark();
        let mut ssh = Command::new("ssh")
            .args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"])
            .args(["-o", "ServerAliveInterval=5"])
            .args(&machine.ssh)
            // Whatever shell its user has there can do that.
            .args(["--", &machine.destination, "exec", "/bin/sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("ssh could not be started: {error}"))?;
        let complaint = Arc::new(Mutex::new(String::new()));
        if let Some(errors) = ssh.stderr.take() {
            let complaint = complaint.clone();
            std::thread::spawn(move || keep_complaint(errors, &complaint));
        }
        let (sender, answers) = mpsc::sync_channel(1);
        if let Some(output) = ssh.stdout.take() {
            let mark = mark.clone();
            std::thread::spawn(move || read_answers(output, &mark, &sender));
        }
        let mut shell = Self {
            requests: ssh.stdin.take(),
            ssh,
            answers,
            complaint,
        };
        shell.send(&whole_script(&mark, script))?;
        Ok(shell)
    }

    /// Sends a request; its answer has to be taken before the next one.
    pub(super) fn ask(&mut self, request: &str) -> Result<(), String> {
        self.send(&format!("{request}\n"))
    }

    fn send(&mut self, text: &str) -> Result<(), String> {
        let requests = self.requests.as_mut().ok_or("the connection is closed")?;
        let sent = requests
            .write_all(text.as_bytes())
            .and_then(|()| requests.flush());
        sent.map_err(|_| self.ended())
    }

    /// The next answer.
    pub(super) fn answer(&mut self, within: Duration) -> Result<Sections, String> {
        match self.answers.recv_timeout(within) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                let said = self.said();
                Err(format!("no answer within {} s{said}", within.as_secs()))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    /// The connection has ended; what ssh said about it.
    fn ended(&mut self) -> String {
        let began = Instant::now();
        // Its last words may come a moment after the end of its output.
        while self.said().is_empty() && began.elapsed() < END_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
        format!("the connection has ended{}", self.said())
    }

    /// `: ` and the last line that ssh wrote to its standard error.
    fn said(&self) -> String {
        let complaint = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let last = complaint.lines().rfind(|line| !line.trim().is_empty());
        last.map_or_else(String::new, |line| format!(": {}", line.trim()))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell there ends with its input, and ssh with the shell.
        self.requests = None;
        let began = Instant::now();
        while began.elapsed() < END_WITHIN {
            if matches!(self.ssh.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // It ended just now, or is gone in a moment; either way nothing is left to do.
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

/// What stands before the name of each section: longer than any process's name may be, which is
/// the one thing in an answer that strangers choose.
fn mark() -> String {
    // The standard library's tables are keyed at random, which is all that is wanted here.
    format!("@@{:016x}", RandomState::new().build_hasher().finish())
}

/// The functions of all systems, the greeting, and the loop that answers.
fn whole_script(mark: &str, parts: &[String]) -> String {
    let functions = parts.concat();
    format!(
        "LC_ALL=C; export LC_ALL\n\
         at() {{ echo; echo \"{mark} $1\"; }}\n\
         {functions}\
         at system; system=$(uname -s); echo \"$system\"; at end\n\
         while read -r what rest; do \"${{system}}_$what\" $rest 2>/dev/null; at end; done; exit\n"
    )
}

/// Cuts the output into answers. It ends with the connection, or when nobody wants answers any more.
fn read_answers(output: impl Read, mark: &str, answers: &SyncSender<Result<Sections, String>>) {
    let mut output = BufReader::new(output);
    let mut sections = Sections::new();
    let mut name: Option<String> = None;
    let mut length = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without end is cut off, and the answer with it.
        let limit = LONGEST_ANSWER as u64;
        match (&mut output).take(limit).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(read) => length += read,
        }
        if length > LONGEST_ANSWER {
            let _ = answers.send(Err("its answer is too long".to_owned()));
            return;
        }
        let text = String::from_utf8_lossy(&line);
        match text.strip_prefix(mark).map(str::trim) {
            Some("end") => {
                length = 0;
                name = None;
                if answers.send(Ok(std::mem::take(&mut sections))).is_err() {
                    return;
                }
            }
            Some(next) => {
                sections.entry(next.to_owned()).or_default();
                name = Some(next.to_owned());
            }
            None => {
                if let Some(section) = name.as_ref().and_then(|name| sections.get_mut(name)) {
                    section.push_str(&text);
                }
            }
        }
    }
}

fn keep_complaint(errors: impl Read, complaint: &Mutex<String>) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut errors)
            .take(LONGEST_COMPLAINT as u64)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let mut kept = complaint.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() + line.len() > LONGEST_COMPLAINT {
            kept.clear();
        }
        kept.push_str(&String::from_utf8_lossy(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(output: &str) -> Vec<Result<Sections, String>> {
        let (sender, receiver) = mpsc::sync_channel(16);
        read_answers(output.as_bytes(), "@@7", &sender);
        drop(sender);
        receiver.iter().collect()
    }

    #[test]
    fn answers_are_cut_at_their_marks() {
        let all = answers(
            "motd\n@@7 system\nLinux\n\n@@7 end\n@@7 a\n1\n2\n@@8 b\n@@7 c\n@@7 end\n@@7 d\nlost",
        );
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].as_ref().unwrap()["system"], "Linux\n\n");
        let second = all[1].as_ref().unwrap();
        assert_eq!(second["a"], "1\n2\n@@8 b\n");
        assert_eq!(second["c"], "");
    }

    #[test]
    fn an_endless_answer_ends() {
        let endless = "@@7 a\n".to_owned() + &"x".repeat(LONGEST_ANSWER + 1);
        assert!(answers(&endless)[0].is_err());
    }

    #[test]
    fn a_mark_is_longer_than_a_processes_name() {
        assert!(mark().len() > 16);
        assert_ne!(mark(), mark());
    }

    #[test]
    fn the_script_works_in_a_shell() {
        let part =
            "Linux_echo() { at said; echo \"$@\"; }\nFreeBSD_echo() { Linux_echo \"$@\"; }\n";
        let mut script = whole_script("@@7", &[part.to_owned()]);
        script.push_str("echo a b\n");
        let mut shell = Command::new("sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        // The request is a line of its own, sent when the shell has said that it reads requests.
        let (loop_part, request) = script.rsplit_once("exit\n").unwrap();
        input
            .write_all(format!("{loop_part}exit\n").as_bytes())
            .unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        let mut said = String::new();
        while !said.ends_with("@@7 end\n") {
            assert!(output.read_line(&mut said).unwrap() > 0, "{said}");
        }
        input.write_all(request.as_bytes()).unwrap();
        drop(input);
        output.read_to_string(&mut said).unwrap();
        let (sender, receiver) = mpsc::sync_channel(16);
        read_answers(said.as_bytes(), "@@7", &sender);
        drop(sender);
        let all: Vec<Sections> = receiver.iter().map(Result::unwrap).collect();
        assert_eq!(all.len(), 2, "{said}");
        assert_eq!(all[1]["said"].trim(), "a b");
        assert!(shell.wait().unwrap().success());
    }
}
