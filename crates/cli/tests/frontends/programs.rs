//! Runs an original tool and prony's front end, each in a given folder, against `prony origin`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Exit status and output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> CommandOutput {
        CommandOutput {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl CommandOutput {
    /// Panics with the whole output unless the exit status is `status`.
    pub(crate) fn expect(self, status: i32) -> CommandOutput {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

/// A `prony origin` server. Dropping this value stops it.
pub(crate) struct Origin {
    child: Child,
    /// Address of the server, `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Origin {
    /// Starts the server on a free port, with additional arguments.
    pub(crate) fn start(arguments: &[&str]) -> Origin {
        let mut child = Command::new(env!("CARGO_BIN_EXE_prony"))
            .args(["origin", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address = line
            .split(|c: char| c.is_whitespace() || c == '/')
            .find(|word| word.starts_with("127.0.0.1:"))
            .unwrap_or_else(|| panic!("no address in {line:?}"))
            .to_owned();
        Origin { child, address }
    }

    /// Returns a cleartext URL on the server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Maximum number of attempts to run an original tool. siege 4 sometimes hangs forever at the end
/// of its run.
const ATTEMPTS: u32 = 3;
/// Seconds after which an original tool is killed.
const ORIGINAL_TIMEOUT_S: &str = "120";
/// Exit status of `timeout` when it has killed the tool.
const KILLED: i32 = 137;
/// Exit status of `timeout` when the tool doesn't exist.
const MISSING: i32 = 127;

/// Runs the original tool `tool` in the folder `dir`, and waits for it to exit.
pub(crate) fn original(tool: &str, arguments: &[&str], dir: &Path) -> CommandOutput {
    let mut all = vec!["--signal=KILL", ORIGINAL_TIMEOUT_S, tool];
    all.extend(arguments);
    for _ in 0..ATTEMPTS {
        let output = command(PathBuf::from("timeout"), &all, dir).output();
        let output = output.unwrap_or_else(|error| panic!("timeout: {error}"));
        match output.status.code() {
            None | Some(KILLED) => {}
            Some(MISSING) => {
                panic!("{tool}: `cargo xtask test` installs it, or your package manager")
            }
            Some(_) => return output.into(),
        }
    }
    panic!("{tool} did not end in {ATTEMPTS} attempts");
}

/// Runs prony's front end `tool` in the folder `dir`, and waits for it to exit.
pub(crate) fn ours(tool: &str, arguments: &[&str], dir: &Path) -> CommandOutput {
    let all: Vec<&str> = std::iter::once(tool)
        .chain(arguments.iter().copied())
        .collect();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_prony"));
    command(program, &all, dir).output().unwrap().into()
}

/// Creates a command without starting it.
pub(crate) fn command(program: PathBuf, arguments: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(dir)
        .env("HOME", dir)
        .env_remove("PRONY_PUBLIC")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a shell script whose input is the output of a tool, as users' scripts do. Returns the
/// output of the script.
pub(crate) fn through(script: &str, output: &str) -> String {
    use std::io::Write;
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    shell
        .stdin
        .take()
        .unwrap()
        .write_all(output.as_bytes())
        .unwrap();
    let output = shell.wait_with_output().unwrap();
    assert!(output.status.success(), "{script}: {:?}", output.status);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
