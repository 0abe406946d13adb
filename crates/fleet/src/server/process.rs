//! The process of a NATS server.

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

use super::folder::{CONFIG, LOG, Lock, PID};
use super::{Prepared, ServerError};

/// How long the server may take to listen.
const START: Duration = Duration::from_secs(15);
/// How long it may take to read its configuration again.
const RELOAD: Duration = Duration::from_secs(10);
/// How long it may take to end.
const STOP: Duration = Duration::from_secs(10);

impl Prepared {
    /// Starts the server, and waits until it listens.
    ///
    /// # Errors
    ///
    /// See [`ServerError`]; nothing runs then.
    pub fn start(&self) -> Result<Server, ServerError> {
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
            // A terminal's Ctrl-C is for prony, which ends the server when it has no more use of it.
            .process_group(0)
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ServerError::NotInstalled,
                _ => ServerError::Process(error),
            })?;
        let mut server = Server { child };
        let until = Instant::now() + START;
        loop {
            let is_heard =
                TcpStream::connect_timeout(&local(self.listen), Duration::from_millis(500)).is_ok();
            let is_running = server.is_running();
            if is_heard && is_running {
                return Ok(server);
            }
            if !is_running || Instant::now() > until {
                let (listen, log) = (self.listen, self.last_words());
                return Err(ServerError::Ended { listen, log });
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Has the server that runs on this folder, as another process's, read its configuration again, and
    /// waits until it has. Who it no longer knows is cut off, the others stay connected.
    ///
    /// # Errors
    ///
    /// Where none runs, or it doesn't take it.
    pub fn reload(&self) -> Result<(), ServerError> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "none runs in this folder");
        // What an account that is new in one reading may say to others is set up at the next one
        // (reloadAuthorization in the server's reload.go, 2.9 and 2.10).
        for _ in 0..2 {
            let before = self.readings();
            let pid = running(&self.folder).ok_or_else(|| ServerError::Process(gone()))?;
            kill_process(pid, Signal::HUP).map_err(|error| ServerError::Process(error.into()))?;
            let until = Instant::now() + RELOAD;
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

    /// How often the server says that it has read its configuration again.
    fn readings(&self) -> usize {
        let log = fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
        log.matches("Reloaded server configuration").count()
    }

    fn last_words(&self) -> String {
        last_lines(&fs::read_to_string(self.folder.join(LOG)).unwrap_or_default())
    }
}

impl Lock {
    /// Ends the server that a prony which was killed left behind on this folder.
    pub fn end_leftover(&self) {
        let Some(pid) = running(&self.folder) else {
            return;
        };
        // It may end in this moment by itself.
        let _ = kill_process(pid, Signal::TERM);
        let until = Instant::now() + STOP;
        while running(&self.folder).is_some() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = running(&self.folder).map(|pid| kill_process(pid, Signal::KILL));
    }
}

/// The process that runs with a folder's configuration.
fn running(folder: &Path) -> Option<Pid> {
    let text = fs::read_to_string(folder.join(PID)).ok()?;
    let pid = Pid::from_raw(text.trim().parse().ok()?)?;
    // Its number may be another process's by now.
    let config = folder.join(CONFIG);
    let is_it = words(pid).contains(&*config.to_string_lossy());
    is_it.then_some(pid)
}

/// A server that runs, until this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
}

impl Server {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        // Asked politely it writes down what it holds; it may end in this moment by itself.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let until = Instant::now() + STOP;
        while self.is_running() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a server could listen there now; port 0 becomes one that is free.
///
/// # Errors
///
/// [`ServerError::Listen`].
pub fn free_address(listen: SocketAddr) -> Result<SocketAddr, ServerError> {
    TcpListener::bind(listen)
        .and_then(|listener| listener.local_addr())
        .map_err(|error| ServerError::Listen(listen, error))
}

/// How one that listens there is reached from this machine.
pub(super) fn local(mut listen: SocketAddr) -> SocketAddr {
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen {
            SocketAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            SocketAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        });
    }
    listen
}

/// The variable that names another nats-server than the one on the path.
const PROGRAM: &str = "PRONY_NATS_SERVER";

/// Debian has the server where only root looks.
fn command() -> Command {
    if let Some(program) = std::env::var_os(PROGRAM).filter(|it| !it.is_empty()) {
        return Command::new(program);
    }
    let beside = ["/usr/sbin/nats-server", "/usr/local/sbin/nats-server"];
    let on_path = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join("nats-server").is_file())
    });
    match beside.into_iter().find(|path| Path::new(path).is_file()) {
        Some(path) if !on_path => Command::new(path),
        _ => Command::new("nats-server"),
    }
}

/// The words with which a process was started, as one text; empty where there is no such process.
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
