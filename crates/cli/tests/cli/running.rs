//! Runs prony in a temporary folder. An environment variable marks all of its child processes.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Timeout for waits in tests, long enough for a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time in which a process must end its children after a signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Name of an environment variable that all child processes of a test inherit.
const MARK: &str = "PRONY_TEST_MARK";

/// The temporary folder of a test, and the mark of its processes.
pub(crate) struct Workdir {
    dir: tempfile::TempDir,
    mark: String,
}

/// Exit status and output of a command.
pub(crate) struct CommandOutput {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    /// Panics with the whole output unless the exit status is `status`.
    pub(crate) fn expect(self, status: i32) -> CommandOutput {
        assert_eq!(
            self.status, status,
            "stdout:\n{}\nstderr:\n{}",
            self.out, self.err
        );
        self
    }
}

impl Workdir {
    pub(crate) fn new() -> Workdir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Workdir {
            dir: tempfile::tempdir().unwrap(),
            mark: format!("{}-{number}", std::process::id()),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(self.path(name), permissions).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// Returns the sorted names of the entries in the folder.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.dir.path())
    }

    /// Creates a command without starting it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
        command.args(args);
        self.prepare(command)
    }

    /// Creates a command line of a shell without starting it. Standard error goes to standard
    /// output.
    pub(crate) fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1\n{line}")]);
        self.prepare(command)
    }

    fn prepare(&self, mut command: Command) -> Command {
        command
            .current_dir(self.dir.path())
            .env_remove("PRONY_PUBLIC")
            .env_remove("PRONY_CREDS")
            .env_remove("PRONY_NATS")
            .env_remove("PRONY_PROGRESS")
            .env_remove("NO_COLOR")
            .env("COLUMNS", "100")
            .env("XDG_CACHE_HOME", self.path(".cache"))
            .env(MARK, &self.mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command and waits for it to exit.
    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        let output = self.command(args).output().unwrap();
        CommandOutput {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Returns the processes that are still running after commands in this folder started them.
    pub(crate) fn left_running(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.mark);
        let mut left = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(environ) = std::fs::read(entry.path().join("environ")) else {
                continue;
            };
            if environ
                .split(|byte| *byte == 0)
                .any(|variable| variable == mark.as_bytes())
            {
                let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                left.push(String::from_utf8_lossy(&words).replace('\0', " "));
            }
        }
        left
    }

    /// Waits until all processes that commands in this folder started have ended.
    pub(crate) fn wait_until_quiet(&self) {
        let began = Instant::now();
        while !self.left_running().is_empty() {
            assert!(
                began.elapsed() < TEST_TIMEOUT,
                "still running: {:?}",
                self.left_running()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the sorted names of the entries in a folder.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A running command whose standard error is read line by line. Dropping this value kills the
/// command.
pub(crate) struct Running {
    child: Child,
    err: BufReader<ChildStderr>,
    stderr_text: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        let mut child = command.spawn().unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        Running {
            child,
            err,
            stderr_text: String::new(),
        }
    }

    /// Reads standard error until a line contains `text`. Returns that line.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.err.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "ended without \"{text}\":\n{}", self.stderr_text);
            self.stderr_text += &line;
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the command to exit. Returns its whole output.
    pub(crate) fn end(mut self) -> CommandOutput {
        let mut out = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            stdout.read_to_string(&mut out).unwrap();
        }
        self.err.read_to_string(&mut self.stderr_text).unwrap();
        let status: ExitStatus = self.child.wait().unwrap();
        CommandOutput {
            status: status.code().unwrap_or(-1),
            out,
            err: std::mem::take(&mut self.stderr_text),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The command is still running if the test failed. Stop it with a signal, so that it also
        // stops its children.
        if let (Ok(None), Some(pid)) = (
            self.child.try_wait(),
            Pid::from_raw(self.child.id().cast_signed()),
        ) {
            let _ = kill_process(pid, Signal::TERM);
            let began = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < EXIT_TIMEOUT {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `prony origin` on a free port.
pub(crate) struct Origin {
    child: Child,
    /// The lines of standard output, which are the server's addresses.
    pub(crate) addresses: Vec<String>,
}

impl Origin {
    pub(crate) fn start(workdir: &Workdir, args: &[&str]) -> Origin {
        let args: Vec<&str> = ["origin"].iter().chain(args).copied().collect();
        let listeners = args
            .iter()
            .filter(|arg| ["--listen", "--unix"].contains(arg) || arg.starts_with("--quic"))
            .count();
        let mut child = workdir.command(&args).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let addresses = (0..listeners)
            .map(|_| {
                let mut line = String::new();
                out.read_line(&mut line).unwrap();
                line.trim_end().to_owned()
            })
            .collect();
        Origin { child, addresses }
    }

    /// Starts an origin that listens on TCP only.
    pub(crate) fn tcp(workdir: &Workdir) -> Origin {
        Origin::start(workdir, &["--listen", "127.0.0.1:0"])
    }

    /// Returns a URL on the server's first address.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{}", self.addresses[0].trim_end_matches('/'), path)
    }

    /// Stops the server. Returns its exit status.
    pub(crate) fn stop(mut self) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // The command has already ended if the test stopped it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Panics unless the document matches the schema `name` in the folder `schema/`.
pub(crate) fn check_schema(name: &str, document: &serde_json::Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../schema")
        .join(name);
    let schema = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let complaints: Vec<String> = validator
        .iter_errors(document)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert_eq!(complaints, Vec::<String>::new());
}

/// Returns a URL whose address refuses connections.
pub(crate) fn closed_url() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}
