//! A veth pair between two network namespaces, which the kernel removes when this program ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::super::process;
use crate::test::install::find_program;

/// Address of the server's end.
pub(super) const SERVER: &str = "10.9.0.2";
/// Source addresses that are not assigned to any interface. The server reaches them through a
/// route.
pub(super) const SOURCES: &str = "10.64.0.1-10.67.13.64";

/// Namespaces of the generator and of this thread, which runs the server.
pub(super) struct Link {
    generator: File,
    /// Original network namespace of this thread.
    home: File,
}

impl Link {
    /// Creates namespaces for the server and the generator with a link between them, and moves this
    /// thread into the server's.
    pub(super) fn new() -> Result<Link, String> {
        if !process::is_root() {
            return Err("network namespaces need root".to_owned());
        }
        for (program, package) in [("ip", "iproute2"), ("ethtool", "ethtool")] {
            find_program(program).ok_or(format!("{program} (package {package}) is missing"))?;
        }
        let text = |e: io::Error| format!("network namespace: {e}");
        let home = own_namespace().map_err(text)?;
        let new_namespace = || unshare().and_then(|()| own_namespace());
        let generator = std::thread::spawn(new_namespace).join();
        let generator = generator.map_err(|_| "a thread panicked")?.map_err(text)?;
        unshare().map_err(text)?;
        let link = Link { generator, home };
        link.configure()?;
        Ok(link)
    }

    fn configure(&self) -> Result<(), String> {
        let near = format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            self.generator.as_raw_fd()
        );
        for words in [
            "ip link set lo up",
            "ip link add far address 02:00:00:00:00:02 type veth peer name near address \
             02:00:00:00:00:01",
            &format!("ip link set near netns {near}"),
            "ip address add 10.9.0.2/16 dev far",
            "ip link set far up",
            // AF_XDP requires frames that fit into a page.
            "ethtool -K far tso off gso off",
        ] {
            run(&mut command(words))?;
        }
        for words in [
            "ip link set lo up",
            "ip address add 10.9.0.1/16 dev near",
            "ip link set near up",
            "sysctl -qw net.ipv4.ip_local_port_range=1024\t65535",
        ] {
            run(self.in_generator(&mut command(words)))?;
        }
        run(&mut command("ip route add 10.64.0.0/14 via 10.9.0.1"))?;
        let local = "ip route add local 10.64.0.0/14 dev lo";
        run(self.in_generator(&mut command(local)))
    }

    /// Makes a command run in the generator's namespace.
    pub(super) fn in_generator<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let namespace = self.generator.as_raw_fd();
        // SAFETY: between fork and exec, the closure makes one system call on a descriptor that is
        // open as long as the link.
        unsafe { command.pre_exec(move || enter(namespace)) }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // If this fails, the following rows run in the server's namespace.
        if let Err(error) = enter(self.home.as_raw_fd()) {
            println!("the thread stays in the link's namespace: {error}");
        }
    }
}

fn command(words: &str) -> Command {
    let mut words = words.split(' ').filter(|word| !word.is_empty());
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output();
    let name = format!("{command:?}");
    let output = output.map_err(|e| format!("{name}: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("{name}: {}", said.trim()))
        }
    }
}

fn own_namespace() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

fn unshare() -> io::Result<()> {
    // SAFETY: a plain system call, which affects only this thread.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

fn enter(namespace: i32) -> io::Result<()> {
    // SAFETY: a plain system call on an open descriptor, which affects only this thread.
    checked(unsafe { libc::setns(namespace, libc::CLONE_NEWNET) })
}

fn checked(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
