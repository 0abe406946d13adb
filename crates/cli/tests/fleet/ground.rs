//! Hosts as network namespaces: each has a link to a bridge, which is in one more.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the names of these tests' namespaces begin with; the test's process follows.
const PREFIX: &str = "prony-fleet-test-";

/// Where the bridge is, and with it the NATS server and the coordinator.
pub(crate) const HUB: &str = "hub";
/// The hub's address.
pub(crate) const HUB_ADDRESS: &str = "10.77.0.1";

/// Some hosts, which are gone when this is dropped.
pub(crate) struct Ground {
    prefix: String,
    hosts: Vec<String>,
}

impl Ground {
    /// The hub, and these hosts at 10.77.0.2 and so on.
    pub(crate) fn new(hosts: &[&str]) -> Ground {
        static SWEPT: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        SWEPT.call_once(sweep);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut ground = Ground {
            prefix: format!("{PREFIX}{process}-{number}-"),
            hosts: Vec::new(),
        };
        ground.add(HUB);
        ground.within(HUB, "link add br0 type bridge");
        ground.within(HUB, &format!("addr add {HUB_ADDRESS}/24 dev br0"));
        ground.within(HUB, "link set br0 up");
        for (number, host) in hosts.iter().enumerate() {
            ground.add(host);
            let namespace = ground.namespace(host);
            let pair = format!("link add {host} type veth peer name eth0 netns {namespace}");
            ground.within(HUB, &pair);
            ground.within(HUB, &format!("link set {host} master br0 up"));
            ground.within(host, &format!("addr add {}/24 dev eth0", address(number)));
            ground.within(host, "link set eth0 up");
        }
        ground
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

    /// A program on a host, not yet started; it runs as the process that is started.
    pub(crate) fn command(&self, host: &str, program: &Path) -> Command {
        let mut command = Command::new(find("ip"));
        command.args(["netns", "exec", &self.namespace(host)]);
        command.arg(program);
        command
    }

    /// Takes a host's link down, or up again.
    pub(crate) fn set_link(&self, host: &str, is_up: bool) {
        let to = if is_up { "up" } else { "down" };
        self.within(HUB, &format!("link set {host} {to}"));
    }

    /// Does something on a thread that is on a host.
    pub(crate) fn on<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        let path = Path::new("/run/netns").join(self.namespace(host));
        let namespace = File::open(&path).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: a plain system call on a descriptor that is open, which concerns this thread and
                // what it starts.
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

impl Drop for Ground {
    fn drop(&mut self) {
        for host in &self.hosts {
            remove(&self.namespace(host));
        }
    }
}

/// The address of a host by its number.
pub(crate) fn address(number: usize) -> String {
    format!("10.77.0.{}", number + 2)
}

/// Ends what lives in a namespace, and removes it.
fn remove(namespace: &str) {
    let pids = run(&["netns", "pids", namespace]);
    for pid in String::from_utf8_lossy(&pids.stdout).lines() {
        if let Ok(pid) = pid.trim().parse() {
            // SAFETY: no pointers; only processes of a test's own are in its namespace.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    let _ = run(&["netns", "del", namespace]);
}

/// Removes what tests left that were killed themselves.
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
        "these tests make network namespaces, which wants root and iproute2: ip {words}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A program of the system's; Debian has some where only root looks.
pub(crate) fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(more);
    let found = folders.find_map(|folder| Some(folder.join(program)).filter(|it| it.is_file()));
    found.unwrap_or_else(|| panic!("{program} is missing; `cargo xtask test` installs it"))
}
