//! A server process that is started, awaited, and killed with its children when it is dropped.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// Folders that contain servers but are missing from many users' `PATH`.
const EXTRA_PATH: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// Time limit for a server to accept connections.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a server to end after it was signaled.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A port of 127.0.0.1 that is reserved while this value exists.
///
/// The socket is bound but doesn't listen, so the system doesn't assign its port to other
/// processes. A server that requests this port with `SO_REUSEADDR`, as servers do, still gets it.
pub(crate) struct Port {
    pub(crate) number: u16,
    _held: Socket,
}

impl Port {
    pub(crate) fn new() -> Port {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        socket.bind(&any.into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        Port {
            number: address.port(),
            _held: socket,
        }
    }

    fn is_served(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.number)).is_ok()
    }
}

/// Returns the path of a program with one of these names.
///
/// # Panics
///
/// Panics if the program is not installed, because a test that can't run must not pass.
pub(crate) fn program(names: &[&str]) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(EXTRA_PATH.iter().map(PathBuf::from))
        .collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
        .unwrap_or_else(|| {
            panic!(
                "{} is not installed (cargo xtask test installs it)",
                names.join(" or ")
            )
        })
}

/// A running server.
pub(crate) struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts a server and waits until it accepts connections on all of its ports. Its output goes
    /// to `log`.
    pub(crate) fn start(command: &mut Command, log: &Path, ports: &[&Port]) -> Process {
        let name = Path::new(command.get_program()).file_name().unwrap();
        let name = name.to_string_lossy().into_owned();
        let output = File::create(log).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            // The server gets its own process group, so its children can be ended with it.
            .process_group(0);
        // SAFETY: prctl with these arguments only sets a property of the new process; it is safe to
        // call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // The test process may be killed or interrupted by Ctrl-C. The server would keep
                // running, because it is in another process group.
                match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("starting {name}: {error}"));
        let mut process = Process {
            child,
            name,
            log: log.to_owned(),
        };
        process.wait_until_ready(ports);
        process
    }

    fn wait_until_ready(&mut self, ports: &[&Port]) {
        let begun = Instant::now();
        while !ports.iter().all(|port| port.is_served()) {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{} ended with {status}:\n{}", self.name, self.output());
            }
            assert!(
                begun.elapsed() < READY_TIMEOUT,
                "{} accepts no connections:\n{}",
                self.name,
                self.output()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal to the server's first process.
    pub(crate) fn signal(&self, signal: libc::c_int) {
        // SAFETY: a plain system call. The process was not waited for, so its ID is not reused.
        unsafe { libc::kill(self.group(), signal) };
    }

    /// ID of the process group, which is also the ID of the first process.
    pub(crate) fn group(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    /// Returns the last lines of the server's output.
    fn output(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(20)..];
        last.join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let output = self.output();
        if std::thread::panicking() && !output.is_empty() {
            eprintln!("output of {}:\n{output}", self.name);
        }
        self.signal(libc::SIGTERM);
        let asked = Instant::now();
        while let Ok(None) = self.child.try_wait()
            && asked.elapsed() < EXIT_TIMEOUT
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: a plain system call. Any remaining process of the group belongs to this server.
        unsafe { libc::killpg(self.group(), libc::SIGKILL) };
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_ends_with_its_test_even_if_the_test_panics() {
    let (sent, kept) = std::sync::mpsc::channel();
    let owner = std::thread::spawn(move || {
        let server = crate::nginx::start("");
        let url = server.url(crate::server::Transport::Clear, "");
        sent.send((server.group(), url, server.site.root().to_owned()))
            .unwrap();
        // This panics without printing a message.
        std::panic::resume_unwind(Box::new("the test has failed"));
    });
    owner.join().unwrap_err();
    let (group, url, folder) = kept.recv().unwrap();
    // SAFETY: a plain system call that only checks if the group exists.
    assert_eq!(unsafe { libc::killpg(group, 0) }, -1, "a process survived");
    assert!(TcpStream::connect(url.strip_prefix("http://").unwrap()).is_err());
    assert!(!folder.exists());
}
