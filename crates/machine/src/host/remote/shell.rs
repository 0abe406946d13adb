//! The shell at the remote end of an ssh connection: requests and responses.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Sections of a response by name.
pub(in crate::host) type Sections = BTreeMap<String, String>;

/// Maximum length of a response in bytes.
const RESPONSE_BYTES_MAX: usize = 32 << 20;
/// Maximum number of bytes of ssh's standard error that are kept.
const STDERR_BYTES_MAX: usize = 4 << 10;
/// Default time limit for ssh to exit after its standard input was closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit for ssh's standard error after the end of its output.
const COMPLAINT_TIMEOUT: Duration = Duration::from_millis(500);

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

/// Functions of the remote shell for each operating system.
pub(in crate::host) const SYSTEMS: &str = include_str!("systems.sh");

/// The request loop of the remote shell. A request is a number of lines and then these lines, which
/// the shell executes. An empty line is a sign of life and has no response.
const REQUESTS: &str = r#"
at() { echo; echo "$mark $1"; }
sign() { true; }
followed() { true; }
requests() {
  while IFS= read -r count; do
    sign || return
    [ -n "$count" ] || continue
    script=
    while [ "$count" -gt 0 ] && IFS= read -r line; do
      script="$script$line
"
      count=$((count - 1))
    done
    [ "$count" -eq 0 ] || return
    eval "$script" 2>/dev/null
    at end
  done
}
system=$(uname -s)
"#;

/// A machine that ssh can reach.
#[derive(Debug, Clone, Copy)]
pub(in crate::host) struct SshTarget<'a> {
    /// Arguments that precede the destination.
    pub(in crate::host) ssh: &'a [String],
    pub(in crate::host) destination: &'a str,
    /// True if the shell runs as root, through `sudo`.
    pub(in crate::host) sudo: bool,
}

/// A running ssh process with a remote shell. Both end when this value is dropped.
#[derive(Debug)]
pub(in crate::host) struct Shell {
    ssh: Child,
    requests: Arc<Mutex<Option<ChildStdin>>>,
    /// Time limit for ssh to exit after its standard input was closed.
    exit_timeout: Duration,
    responses: Receiver<Result<Sections, RemoteError>>,
    complaint: Arc<Mutex<String>>,
}

impl Shell {
    /// Starts ssh and sends the script, which must print a first response and then call `requests`.
    pub(in crate::host) fn start(target: SshTarget<'_>, script: &str) -> Result<Self, RemoteError> {
        let mark = mark();
        // Every login shell supports `exec`.
        let remote = if target.sudo {
            "exec sudo -n env \"SSH_CONNECTION=$SSH_CONNECTION\" /bin/sh"
        } else {
            "exec /bin/sh"
        };
        let mut ssh = Command::new("ssh")
            .args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"])
            .args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"])
            .args(target.ssh)
            .args(["--", target.destination, remote])
            // Ctrl-C in a terminal must not end the connection before the services.
            .process_group(0)
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
            requests: Arc::new(Mutex::new(ssh.stdin.take())),
            ssh,
            exit_timeout: EXIT_TIMEOUT,
            responses,
            complaint,
        };
        shell.send(whole_script(&mark, script).as_bytes())?;
        Ok(shell)
    }

    /// Sets the time limit for ssh to exit, and with it the remote shell, at the end.
    pub(in crate::host) fn set_exit_timeout(&mut self, timeout: Duration) {
        self.exit_timeout = timeout;
    }

    /// Sends a sign of life at this interval, until the connection ends.
    pub(in crate::host) fn keep_alive(&self, interval: Duration) {
        let requests = Arc::downgrade(&self.requests);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(interval);
                let Some(requests) = requests.upgrade() else {
                    return;
                };
                let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
                let sent = requests.as_mut().map(|it| it.write_all(b"\n"));
                if !matches!(sent, Some(Ok(()))) {
                    return;
                }
            }
        });
    }

    /// Sends a request, a shell script. Its response must be received before the next request is
    /// sent.
    pub(in crate::host) fn request(&mut self, script: &str) -> Result<(), RemoteError> {
        self.request_with(script, &[])
    }

    /// Sends a request that reads `input`.
    pub(in crate::host) fn request_with(
        &mut self,
        script: &str,
        input: &[u8],
    ) -> Result<(), RemoteError> {
        let lines = script.trim_end_matches('\n').split('\n').count();
        let script = script.trim_end_matches('\n');
        let mut bytes = format!("{lines}\n{script}\n").into_bytes();
        bytes.extend(input);
        self.send(&bytes)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), RemoteError> {
        let sent = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            let requests = requests.as_mut().ok_or(RemoteError::Closed)?;
            requests.write_all(bytes).and_then(|()| requests.flush())
        };
        sent.map_err(|_| self.ended())
    }

    /// Waits for the next response.
    pub(in crate::host) fn response(&mut self, within: Duration) -> Result<Sections, RemoteError> {
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
        while self.last_complaint().is_none() && began.elapsed() < COMPLAINT_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = self.last_complaint();
        RemoteError::Ended { said }
    }

    /// Returns the last line of ssh's standard error, with a hint if one is known.
    fn last_complaint(&self) -> Option<String> {
        let complaint = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let last = complaint.lines().rfind(|line| !line.trim().is_empty());
        let last = last?.trim();
        Some(match hint(&complaint) {
            Some(hint) => format!("{last} ({hint})"),
            None => last.to_owned(),
        })
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // When its input is closed, the remote shell ends, and then ssh ends. If the lock is held, a
        // sign of life can't be sent, and ssh must be killed.
        if let Ok(mut requests) = self.requests.try_lock() {
            *requests = None;
        }
        let began = Instant::now();
        while began.elapsed() < self.exit_timeout {
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
    format!("@@{}", token())
}

/// Returns 16 random letters and digits.
pub(in crate::host) fn token() -> String {
    // The standard library's hasher has random keys.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// Returns the complete script: the request loop, the functions for all operating systems, and the
/// caller's part.
fn whole_script(mark: &str, script: &str) -> String {
    format!("mark='{mark}'\n{REQUESTS}\n{SYSTEMS}\n{script}\n")
}

/// Returns a hint for the reason that ssh or `sudo` printed. They report reasons only as text.
fn hint(complaint: &str) -> Option<&'static str> {
    const HINTS: [(&str, &str); 7] = [
        (
            "REMOTE HOST IDENTIFICATION HAS CHANGED",
            "the machine has another key than before; if it was reinstalled, remove the old key \
             with ssh-keygen -R",
        ),
        (
            "Host key verification failed",
            "connect once with ssh in a terminal to confirm the machine's key",
        ),
        (
            "Permission denied (",
            "prony never types a password; set up a key, and add it to ssh-agent if it has a \
             passphrase",
        ),
        (
            "Could not resolve hostname",
            "check the name, or set HostName in the configuration of ssh",
        ),
        (
            "Connection refused",
            "check the address and port, and that an ssh server runs there",
        ),
        (
            "a password is required",
            "allow sudo without a password (NOPASSWD), or log in as root",
        ),
        (
            "sudo: not found",
            "install sudo on that machine, or log in as root without sudo",
        ),
    ];
    let found = HINTS.iter().find(|(text, _)| complaint.contains(text));
    found.map(|(_, hint)| *hint)
}

/// Quotes text as a single word of a shell.
pub(in crate::host) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
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
pub(in crate::host) fn section<'a>(sections: &'a Sections, name: &str) -> &'a str {
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
        let part = "first() { at system; echo \"$system\"; at end; requests; exit; }\nfirst";
        let script = whole_script("@@7", part);
        let mut shell = Command::new("sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        input.write_all(script.as_bytes()).unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        let mut said = String::new();
        // The request is sent after the first response.
        while !said.ends_with("@@7 end\n") {
            assert!(output.read_line(&mut said).unwrap() > 0, "{said}");
        }
        input.write_all(b"\n2\nat said\necho 'a  b'\n\n").unwrap();
        drop(input);
        output.read_to_string(&mut said).unwrap();
        let (sender, receiver) = mpsc::sync_channel(16);
        read_responses(said.as_bytes(), "@@7", &sender);
        drop(sender);
        let all: Vec<Sections> = receiver.iter().map(Result::unwrap).collect();
        assert_eq!(all.len(), 2, "{said}");
        assert_eq!(all[1]["said"].trim(), "a  b");
        assert!(shell.wait().unwrap().success());
    }
}
