//! Simulates hosts with network namespaces, connected by a bridge in another namespace.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Prefix of the namespaces' names. The process ID of the test follows.
const PREFIX: &str = "prony-fleet-test-";

/// Name of the host that has the bridge, the NATS server and the coordinator.
pub(crate) const HUB: &str = "hub";
pub(crate) const HUB_ADDRESS: &str = "10.77.0.1";

/// A network of hosts. Dropping this value removes it.
pub(crate) struct Network {
    prefix: String,
    hosts: Vec<String>,
}

impl Network {
    /// Creates the hub, and hosts with the addresses 10.77.0.2, 10.77.0.3 and so on.
    pub(crate) fn new(hosts: &[&str]) -> Network {
        static SWEPT: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        SWEPT.call_once(sweep);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut network = Network {
            prefix: format!("{PREFIX}{process}-{number}-"),
            hosts: Vec::new(),
        };
        network.add(HUB);
        network.within(HUB, "link add br0 type bridge");
        network.within(HUB, &format!("addr add {HUB_ADDRESS}/24 dev br0"));
        network.within(HUB, "link set br0 up");
        for (number, host) in hosts.iter().enumerate() {
            network.add(host);
            let namespace = network.namespace(host);
            let pair = format!("link add {host} type veth peer name eth0 netns {namespace}");
            network.within(HUB, &pair);
            network.within(HUB, &format!("link set {host} master br0 up"));
            network.within(host, &format!("addr add {}/24 dev eth0", address(number)));
            network.within(host, "link set eth0 up");
        }
        network
    }

    fn add(&mut self, host: &str) {
        ip(&format!("netns add {}", self.namespace(host)));
        self.hosts.push(host.to_owned());
        self.within(host, "link set lo up");
    }

    fn namespace(&self, host: &str) -> String {
        format!("{}{host}", self.prefix)
    }

    fn within(&self, host: &str, words: &str) {
        ip(&format!("-n {} {words}", self.namespace(host)));
    }

    /// Creates a command that runs a program on a host.
    pub(crate) fn command(&self, host: &str, program: &Path) -> Command {
        let mut command = Command::new(find("ip"));
        command.args(["netns", "exec", &self.namespace(host)]);
        command.arg(program);
        command
    }

    /// Brings a host's link up or down.
    pub(crate) fn set_link(&self, host: &str, is_up: bool) {
        let to = if is_up { "up" } else { "down" };
        self.within(HUB, &format!("link set {host} {to}"));
    }

    /// Runs a closure on a thread in a host's namespace.
    pub(crate) fn on<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        let path = Path::new("/run/netns").join(self.namespace(host));
        let namespace = File::open(&path).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: setns takes an open descriptor and no pointers. It affects only this
                // thread and its children.
                let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
                assert_eq!(entered, 0, "{}", std::io::Error::last_os_error());
                work()
            });
            match thread.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in &self.hosts {
            remove(&self.namespace(host));
        }
    }
}

/// Returns the address of a host by its number.
pub(crate) fn address(number: usize) -> String {
    format!("10.77.0.{}", number + 2)
}

/// Kills the processes in a namespace and removes it.
fn remove(namespace: &str) {
    let pids = run(&["netns", "pids", namespace]);
    for pid in String::from_utf8_lossy(&pids.stdout).lines() {
        if let Ok(pid) = pid.trim().parse() {
            // SAFETY: kill takes no pointers. Only the test's processes are in the namespace.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    let _ = run(&["netns", "del", namespace]);
}

/// Removes the namespaces of earlier tests that were killed.
fn sweep() {
    let listed = run(&["netns", "list"]);
    for line in String::from_utf8_lossy(&listed.stdout).lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let process = name
            .strip_prefix(PREFIX)
            .and_then(|it| it.split('-').next());
        let is_left = process.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if is_left {
            remove(name);
        }
    }
}

fn run(words: &[&str]) -> Output {
    Command::new(find("ip")).args(words).output().unwrap()
}

fn ip(words: &str) {
    let output = run(&words.split(' ').collect::<Vec<_>>());
    assert!(
        output.status.success(),
        "these tests create network namespaces, which requires root and iproute2: ip {words}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Returns the path of a system program. Debian installs some programs in folders that only root
/// has in PATH.
pub(crate) fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(more);
    let found = folders.find_map(|folder| Some(folder.join(program)).filter(|it| it.is_file()));
    found.unwrap_or_else(|| panic!("{program} is missing; `cargo xtask test` installs it"))
}
