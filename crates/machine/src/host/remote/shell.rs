//! The shell at the remote end of an ssh connection: requests and responses.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prony_plan::watch_spec::RemoteMachine;

/// Sections of a response by name.
pub(super) type Sections = BTreeMap<String, String>;

/// Maximum length of a response in bytes.
const RESPONSE_BYTES_MAX: usize = 32 << 20;
/// Maximum number of bytes of ssh's standard error that are kept.
const STDERR_BYTES_MAX: usize = 4 << 10;
/// Time limit for ssh to exit after its standard input was closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Reason why a remote machine can't be read.
#[derive(Debug)]
pub(in crate::host) enum RemoteError {
    /// ssh could not be started.
    NotStarted(io::Error),
    /// The connection was closed before.
    Closed,
    /// The connection has ended. `said` is the last line of ssh's standard error.
    Ended { said: Option<String> },
    /// There was no response in time.
    NoResponse {
        within: Duration,
        said: Option<String>,
    },
    /// A response is longer than [`RESPONSE_BYTES_MAX`].
    TooLong,
    /// The remote shell did not report its operating system.
    NoSystem,
    /// The operating system is neither Linux nor FreeBSD.
    UnsupportedSystem(String),
    /// The machine's data can't be read.
    Unreadable,
    /// No visible process listens on the port of a service.
    NoListener { port: u16, service: String },
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = |said: &Option<String>| match said {
            Some(said) => format!(": {said}"),
            None => String::new(),
        };
        match self {
            RemoteError::NotStarted(error) => write!(f, "ssh could not be started: {error}"),
            RemoteError::Closed => f.write_str("the connection is closed"),
            RemoteError::Ended { said } => write!(f, "the connection has ended{}", after(said)),
            RemoteError::NoResponse { within, said } => {
                write!(
                    f,
                    "no response within {} s{}",
                    within.as_secs(),
                    after(said)
                )
            }
            RemoteError::TooLong => f.write_str("the response from the remote shell is too long"),
            RemoteError::NoSystem => {
                f.write_str("the remote shell did not report its operating system")
            }
            RemoteError::UnsupportedSystem(name) => write!(
                f,
                "the operating system {name} is not supported (only Linux and FreeBSD are)"
            ),
            RemoteError::Unreadable => {
                f.write_str("the remote shell can't read the machine's data")
            }
            RemoteError::NoListener { port, service } => write!(
                f,
                "no visible process listens on port {port} of the remote machine (log in as root or \
                 as the server's user, or set pid_file or cgroup of service \"{service}\")"
            ),
        }
    }
}

/// A running ssh process with a remote shell. Both end when this value is dropped.
#[derive(Debug)]
pub(super) struct Shell {
    ssh: Child,
    requests: Option<ChildStdin>,
    responses: Receiver<Result<Sections, RemoteError>>,
    complaint: Arc<Mutex<String>>,
}

impl Shell {
    /// Starts ssh and sends the script, which has one part per operating system. The script sends
    /// its first response without waiting for a request.
    pub(super) fn start(machine: &RemoteMachine, script: &[String]) -> Result<Self, RemoteError> {
        let mark = mark();
        let mut ssh = Command::new("ssh")
            .args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"])
            .args(["-o", "ServerAliveInterval=5"])
            .args(&machine.ssh)
            // Every login shell supports `exec`.
            .args(["--", &machine.destination, "exec", "/bin/sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(RemoteError::NotStarted)?;
        let complaint = Arc::new(Mutex::new(String::new()));
        if let Some(errors) = ssh.stderr.take() {
            let complaint = complaint.clone();
            std::thread::spawn(move || keep_complaint(errors, &complaint));
        }
        let (sender, responses) = mpsc::sync_channel(1);
        if let Some(output) = ssh.stdout.take() {
            let mark = mark.clone();
            std::thread::spawn(move || read_responses(output, &mark, &sender));
        }
        let mut shell = Self {
            requests: ssh.stdin.take(),
            ssh,
            responses,
            complaint,
        };
        shell.send(&whole_script(&mark, script))?;
        Ok(shell)
    }

    /// Sends a request. Its response must be received before the next request is sent.
    pub(super) fn request(&mut self, request: &str) -> Result<(), RemoteError> {
        self.send(&format!("{request}\n"))
    }

    fn send(&mut self, text: &str) -> Result<(), RemoteError> {
        let requests = self.requests.as_mut().ok_or(RemoteError::Closed)?;
        let sent = requests
            .write_all(text.as_bytes())
            .and_then(|()| requests.flush());
        sent.map_err(|_| self.ended())
    }

    /// Waits for the next response.
    pub(super) fn response(&mut self, within: Duration) -> Result<Sections, RemoteError> {
        match self.responses.recv_timeout(within) {
            Ok(response) => response,
            Err(RecvTimeoutError::Timeout) => {
                let said = self.last_complaint();
                Err(RemoteError::NoResponse { within, said })
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
        }
    }

    /// Returns the error for a connection that has ended.
    fn ended(&mut self) -> RemoteError {
        let began = Instant::now();
        // ssh's standard error may arrive shortly after the end of its output.
        while self.last_complaint().is_none() && began.elapsed() < EXIT_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = self.last_complaint();
        RemoteError::Ended { said }
    }

    /// Returns the last line of ssh's standard error.
    fn last_complaint(&self) -> Option<String> {
        let complaint = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let last = complaint.lines().rfind(|line| !line.trim().is_empty());
        last.map(|line| line.trim().to_owned())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // When its input is closed, the remote shell ends, and then ssh ends.
        self.requests = None;
        let began = Instant::now();
        while began.elapsed() < EXIT_TIMEOUT {
            if matches!(self.ssh.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // An error means that ssh has just ended.
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

/// Returns a random prefix for the names of sections. The prefix is longer than a process name,
/// which is the only text in a response that other users can choose.
fn mark() -> String {
    // The standard library's hasher has random keys.
    format!("@@{:016x}", RandomState::new().build_hasher().finish())
}

/// Returns the complete script: the functions for all operating systems, the first response, and
/// the request loop.
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

/// Splits the output into responses until the connection or the receiver is closed.
fn read_responses(
    output: impl Read,
    mark: &str,
    sender: &SyncSender<Result<Sections, RemoteError>>,
) {
    let mut output = BufReader::new(output);
    let mut sections = Sections::new();
    let mut name: Option<String> = None;
    let mut length = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        // Truncate a line that is too long, and drop the rest of the response.
        let limit = RESPONSE_BYTES_MAX as u64;
        match (&mut output).take(limit).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(read) => length += read,
        }
        if length > RESPONSE_BYTES_MAX {
            let _ = sender.send(Err(RemoteError::TooLong));
            return;
        }
        let text = String::from_utf8_lossy(&line);
        match text.strip_prefix(mark).map(str::trim) {
            Some("end") => {
                length = 0;
                name = None;
                if sender.send(Ok(std::mem::take(&mut sections))).is_err() {
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
            .take(STDERR_BYTES_MAX as u64)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let mut kept = complaint.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() + line.len() > STDERR_BYTES_MAX {
            kept.clear();
        }
        kept.push_str(&String::from_utf8_lossy(&line));
    }
}

/// Returns a section of a response; empty if it is missing.
pub(super) fn section<'a>(sections: &'a Sections, name: &str) -> &'a str {
    sections.get(name).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn responses(output: &str) -> Vec<Result<Sections, RemoteError>> {
        let (sender, receiver) = mpsc::sync_channel(16);
        read_responses(output.as_bytes(), "@@7", &sender);
        drop(sender);
        receiver.iter().collect()
    }

    #[test]
    fn responses_are_split_at_their_marks() {
        let all = responses(
            "motd\n@@7 system\nLinux\n\n@@7 end\n@@7 a\n1\n2\n@@8 b\n@@7 c\n@@7 end\n@@7 d\nlost",
        );
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].as_ref().unwrap()["system"], "Linux\n\n");
        let second = all[1].as_ref().unwrap();
        assert_eq!(second["a"], "1\n2\n@@8 b\n");
        assert_eq!(second["c"], "");
    }

    #[test]
    fn an_endless_response_ends() {
        let endless = "@@7 a\n".to_owned() + &"x".repeat(RESPONSE_BYTES_MAX + 1);
        assert!(responses(&endless)[0].is_err());
    }

    #[test]
    fn a_mark_is_longer_than_a_process_name() {
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
        // The request is a separate line, which is sent after the first response.
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
        read_responses(said.as_bytes(), "@@7", &sender);
        drop(sender);
        let all: Vec<Sections> = receiver.iter().map(Result::unwrap).collect();
        assert_eq!(all.len(), 2, "{said}");
        assert_eq!(all[1]["said"].trim(), "a b");
        assert!(shell.wait().unwrap().success());
    }
}
