//! Starts, reloads and stops the process of a NATS server.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::PreparedServer;
use super::error::ServerError;
use super::folder::{CONFIG, FolderLock, LOG, PID};

/// Timeout for the server to listen.
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of one connection attempt while the server is starting.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout for the server to reload its configuration.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the server to exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

impl PreparedServer {
    /// Starts the server, and waits until it listens.
    ///
    /// # Errors
    ///
    /// See [`ServerError`]. On an error, no process is left running.
    pub fn start(&self) -> Result<ServerProcess, ServerError> {
        free_address(self.listen)?;
        let log = self.folder.join(LOG);
        let mut options = fs::OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        let file = options.open(&log);
        let file = file.map_err(|error| ServerError::File(log.clone(), error))?;
        let errors = file
            .try_clone()
            .map_err(|error| ServerError::File(log.clone(), error))?;
        let child = command()
            .arg("--config")
            .arg(self.folder.join(CONFIG))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            // In a separate process group, the server doesn't receive Ctrl-C from a terminal. prony
            // stops it afterwards.
            .process_group(0)
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ServerError::NotInstalled,
                _ => ServerError::Process(error),
            })?;
        let mut server = ServerProcess { child };
        let until = Instant::now() + START_TIMEOUT;
        loop {
            // The log is checked too, because another process may be listening on the port.
            let is_listening = self.log().contains("Listening for client connections")
                && TcpStream::connect_timeout(&local(self.listen), CONNECT_TIMEOUT).is_ok();
            let is_running = server.is_running();
            if is_listening && is_running {
                return Ok(server);
            }
            if !is_running || Instant::now() > until {
                let (listen, log) = (self.listen, self.last_words());
                return Err(ServerError::Ended { listen, log });
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Reloads the configuration of a server that another process runs in this folder, and waits
    /// until the server has done so. Removed users are disconnected; the others stay connected.
    ///
    /// # Errors
    ///
    /// Returns an error if no server is running, or if the server rejects the configuration.
    pub fn reload(&self) -> Result<(), ServerError> {
        let gone = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                "no server is running in this folder",
            )
        };
        // The configuration is reloaded twice, because the exports of a new account take effect
        // only at the second reload (reloadAuthorization in the server's reload.go, 2.9 and 2.10).
        for _ in 0..2 {
            let before = self.readings();
            let pid = running(&self.folder).ok_or_else(|| ServerError::Process(gone()))?;
            kill_process(pid, Signal::HUP).map_err(|error| ServerError::Process(error.into()))?;
            let until = Instant::now() + RELOAD_TIMEOUT;
            while self.readings() == before {
                if Instant::now() > until || running(&self.folder).is_none() {
                    let log = self.last_words();
                    let listen = self.listen;
                    return Err(ServerError::Ended { listen, log });
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Returns the number of reloads so far, from the server's log.
    fn readings(&self) -> usize {
        self.log().matches("Reloaded server configuration").count()
    }

    fn last_words(&self) -> String {
        last_lines(&self.log())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join(LOG)).unwrap_or_default()
    }
}

impl FolderLock {
    /// Stops a server that is still running in this folder because its prony process was killed.
    pub fn end_leftover(&self) {
        let Some(pid) = running(&self.folder) else {
            return;
        };
        // The error is ignored, because the process may be exiting.
        let _ = kill_process(pid, Signal::TERM);
        let until = Instant::now() + STOP_TIMEOUT;
        while running(&self.folder).is_some() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = running(&self.folder).map(|pid| kill_process(pid, Signal::KILL));
    }
}

/// Returns the server process that runs with a folder's configuration.
fn running(folder: &Path) -> Option<Pid> {
    let text = fs::read_to_string(folder.join(PID)).ok()?;
    let pid = Pid::from_raw(text.trim().parse().ok()?)?;
    // The command line is checked, because the process ID may have been reused.
    let config = folder.join(CONFIG);
    let is_it = words(pid).contains(&*config.to_string_lossy());
    is_it.then_some(pid)
}

/// A running server, which stops when this value is dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
}

impl ServerProcess {
    /// Returns the server's process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if the server is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        // On SIGTERM, the server saves its data. The error is ignored, because the server may
        // already have exited.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let until = Instant::now() + STOP_TIMEOUT;
        while self.is_running() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Checks that a server can listen on this address. Replaces port 0 with a free port.
///
/// # Errors
///
/// Returns [`ServerError::Listen`] if it can't.
pub fn free_address(listen: SocketAddr) -> Result<SocketAddr, ServerError> {
    TcpListener::bind(listen)
        .and_then(|listener| listener.local_addr())
        .map_err(|error| ServerError::Listen(listen, error))
}

/// Returns the address at which this machine reaches the server.
pub(super) fn local(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen {
            SocketAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            SocketAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        });
    }
    listen
}

/// Environment variable with the path to nats-server, for installations outside of PATH.
const PROGRAM: &str = "PRONY_NATS_SERVER";

/// Creates a command that starts nats-server. Debian installs it in a folder that is only in root's
/// PATH.
fn command() -> Command {
    if let Some(program) = std::env::var_os(PROGRAM).filter(|it| !it.is_empty()) {
        return Command::new(program);
    }
    let candidates = ["/usr/sbin/nats-server", "/usr/local/sbin/nats-server"];
    let on_path = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join("nats-server").is_file())
    });
    match candidates
        .into_iter()
        .find(|path| Path::new(path).is_file())
    {
        Some(path) if !on_path => Command::new(path),
        _ => Command::new("nats-server"),
    }
}

/// Returns the command line of a process, or an empty string if the process doesn't exist.
fn words(pid: Pid) -> String {
    let pid = pid.as_raw_nonzero().to_string();
    if let Ok(words) = fs::read(format!("/proc/{pid}/cmdline")) {
        return String::from_utf8_lossy(&words).replace('\0', " ");
    }
    let shown = Command::new("ps")
        .args(["-ww", "-o", "args=", "-p", &pid])
        .output();
    let shown = shown.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&shown).into_owned()
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}
