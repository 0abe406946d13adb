//! The release binary and processes started from it.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::cargo::build_program;

/// The release binary.
pub(super) struct Prony {
    path: PathBuf,
    /// True if its processes run before all others.
    is_first: bool,
    /// True to repeat experiments less often, where a check supports it.
    is_quick: bool,
}

impl Prony {
    /// Builds the release binary.
    pub(super) fn build(is_quick: bool) -> Result<Prony, String> {
        let path = build_program("prony", &[])?;
        Ok(Prony {
            path,
            is_first: false,
            is_quick,
        })
    }

    /// Returns the binary for checks of single times: where the system allows it, its processes run
    /// before all others, which would otherwise delay them on a busy machine.
    pub(super) fn first(&self) -> Prony {
        let run_first = Command::new("chrt").args(["-f", "1", "true"]).status();
        Prony {
            path: self.path.clone(),
            is_first: run_first.is_ok_and(|status| status.success()),
            is_quick: self.is_quick,
        }
    }

    fn command(&self) -> Command {
        if !self.is_first {
            return Command::new(&self.path);
        }
        let mut command = Command::new("chrt");
        command.args(["-f", "1"]).arg(&self.path);
        command
    }

    /// Returns the number of repetitions: a fifth of all in a quick run.
    pub(super) fn number_of(&self, all: u64) -> u64 {
        if self.is_quick { (all / 5).max(2) } else { all }
    }

    /// Path of the binary.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs prony until it ends. The error contains the command and its output.
    ///
    /// `accepted` lists the exit statuses that count as success.
    pub(super) fn run(&self, args: &[&str], accepted: &[i32]) -> Result<Output, String> {
        let said = |what: String| format!("prony {}: {what}", args.join(" "));
        let output = self
            .command()
            .args(args)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| said(e.to_string()))?;
        if !output.status.code().is_some_and(|c| accepted.contains(&c)) {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(said(format!("{}\n{errors}", output.status)));
        }
        Ok(output)
    }

    /// Starts prony; the process is killed when the returned value is dropped.
    pub(super) fn start(&self, args: &[String]) -> Result<Running, String> {
        self.spawn(args, Stdio::null(), Stdio::inherit())
    }

    /// Like [`Prony::start`], but [`Running::interrupt`] returns the output. Nothing else is
    /// printed.
    pub(super) fn start_captured(&self, args: &[String]) -> Result<Running, String> {
        self.spawn(args, Stdio::piped(), Stdio::null())
    }

    fn spawn(&self, args: &[String], stdout: Stdio, stderr: Stdio) -> Result<Running, String> {
        let child = self
            .command()
            .args(args)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .map_err(|e| format!("prony {}: {e}", args.join(" ")))?;
        Ok(Running(child))
    }

    /// Starts an origin on core 0 with a free port, and waits until it accepts connections.
    pub(super) fn origin(&self, more: &[&str]) -> Result<Origin, String> {
        let address = free_address().map_err(|e| format!("no free port: {e}"))?;
        let listen = address.to_string();
        let args = [&["origin", "--listen", &listen, "--cores", "0"], more].concat();
        let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        let mut origin = Origin {
            process: self.start(&args)?,
            address,
        };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = origin.process.0.try_wait() {
                return Err(format!("prony origin ended with {status}"));
            }
            if started.elapsed() > Duration::from_secs(10) {
                return Err(format!(
                    "prony origin was not listening on {address} after 10 s"
                ));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(origin)
    }
}

/// A running process, killed when dropped.
pub(super) struct Running(pub(super) Child);

impl Running {
    /// ID of the process.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Stops the process as Ctrl-C does, waits until it has ended, and returns its output.
    pub(super) fn interrupt(mut self) -> Result<Vec<u8>, String> {
        let id = self.0.id().to_string();
        let killed = Command::new("kill").args(["-INT", &id]).status();
        if !killed.is_ok_and(|status| status.success()) {
            return Err(format!("kill -INT {id} failed"));
        }
        let mut bytes = Vec::new();
        if let Some(mut output) = self.0.stdout.take() {
            output
                .read_to_end(&mut bytes)
                .map_err(|error| format!("output of prony: {error}"))?;
        }
        Ok(bytes)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running origin, killed when dropped.
pub(super) struct Origin {
    process: Running,
    address: SocketAddr,
}

impl Origin {
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Returns a loopback address that was free a moment ago.
pub(super) fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
