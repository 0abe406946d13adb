//! An ssh server that a test starts on this machine, which acts as another machine.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use prony_machine::system::port;
use prony_plan::service::PortProtocol;

/// Timeout for every wait. It is long enough for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A process that is killed at the end of the test.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An ssh server with its own keys, on a port that was free before its start.
pub(crate) struct Sshd {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) port: u16,
    pub(crate) process: Killed,
}

pub(crate) fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn server_program() -> PathBuf {
    ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
        .expect("these tests require an ssh server (package openssh-server)")
}

pub(crate) fn free_port() -> u16 {
    port::pick(Ipv4Addr::LOCALHOST.into(), &[PortProtocol::Tcp]).unwrap()
}

impl Sshd {
    pub(crate) fn start() -> Self {
        Self::with("")
    }

    /// Starts a server with further lines in its configuration.
    pub(crate) fn with(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host_key", "user_key"] {
            run(
                "ssh-keygen",
                &["-q", "-t", "ed25519", "-N", "", "-f", &path(key)],
            );
        }
        fs::copy(path("user_key.pub"), path("authorized")).unwrap();
        if run("id", &["-u"]) == "0" {
            // As root, sshd refuses connections without this folder, which Debian creates at boot.
            let _ = fs::create_dir("/run/sshd");
        }
        // Another process may take the port before sshd binds it. In that case, try another port.
        for _ in 0..5 {
            let port = free_port();
            let text = format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
                 StrictModes no\nUsePAM no\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n{config}\n",
                path("host_key"),
                path("authorized"),
            );
            fs::write(path("config"), text).unwrap();
            let log = fs::File::create(path("log")).unwrap();
            let mut process = Command::new(server_program())
                .args(["-D", "-e", "-f", &path("config")])
                .stderr(log)
                .spawn()
                .map(Killed)
                .unwrap();
            // Check sshd's log, because another process may be listening on the port.
            let said = || fs::read_to_string(path("log")).unwrap_or_default();
            let listens = wait_for("the ssh server", || {
                let has_ended = process.0.try_wait().unwrap().is_some();
                let listens = said().contains("Server listening");
                (has_ended || listens).then_some(listens && !has_ended)
            });
            if listens {
                return Self {
                    folder,
                    port,
                    process,
                };
            }
            assert!(said().contains("already in use"), "{}", said());
        }
        panic!("each port was taken before the ssh server bound it");
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Returns the arguments of ssh for this server, of which the last is the destination.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let key = self.folder.path().join("user_key").display().to_string();
        let known_hosts = format!("UserKnownHostsFile={}", self.known_hosts().display());
        let destination = format!("ssh://{}@127.0.0.1:{}", run("id", &["-un"]), self.port);
        let words = [
            "-F",
            "none",
            "-i",
            &key,
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "StrictHostKeyChecking=accept-new",
            "-o",
            &known_hosts,
            "-o",
            "LogLevel=ERROR",
            &destination,
        ];
        words.map(str::to_owned).to_vec()
    }

    /// Returns the client's file of known host keys.
    pub(crate) fn known_hosts(&self) -> PathBuf {
        self.folder.path().join("known_hosts")
    }
}

pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < WAIT_TIMEOUT, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the process IDs of all descendants of a process.
pub(crate) fn sessions_of(root: u32) -> Vec<i32> {
    let mut found = Vec::new();
    let mut next = vec![root.cast_signed()];
    while let Some(pid) = next.pop() {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let text = fs::read_to_string(path).unwrap_or_default();
        let children = text
            .split_whitespace()
            .filter_map(|word| word.parse::<i32>().ok());
        for child in children {
            found.push(child);
            next.push(child);
        }
    }
    found
}
