//! Network namespaces, removed on drop.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::process::{self, output_of};
use crate::test::install::find_program;

/// Prefix of the names of the benchmark's namespaces, which is followed by the process ID.
const PREFIX: &str = "prony-bench-";

/// Namespaces of this program, by name.
pub(super) struct Namespaces(Vec<String>);

impl Namespaces {
    /// Removes the namespaces of benchmarks that were killed. Fails if this program can't make
    /// namespaces.
    pub(super) fn new() -> Result<Namespaces, String> {
        if !process::is_root() {
            return Err("network namespaces need root".to_owned());
        }
        find_program("ip").ok_or("ip (package iproute2) is not installed")?;
        let listed = output_of(&mut command("ip netns list"))?;
        for name in listed.lines().filter_map(|line| line.split(' ').next()) {
            let owner = name
                .strip_prefix(PREFIX)
                .and_then(|it| it.split('-').next());
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                output_of(&mut command(&format!("ip netns del {name}")))?;
            }
        }
        Ok(Namespaces(Vec::new()))
    }

    /// Adds a namespace, and returns its full name.
    pub(super) fn add(&mut self, name: &str) -> Result<String, String> {
        let name = format!("{PREFIX}{}-{name}", std::process::id());
        output_of(&mut command(&format!("ip netns add {name}")))?;
        self.0.push(name.clone());
        in_namespace(&name, "ip link set lo up")?;
        Ok(name)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            if let Err(problem) = output_of(&mut command(&format!("ip netns del {name}"))) {
                println!("{problem}");
            }
        }
    }
}

/// Runs a command, given as one line, in a namespace.
pub(super) fn in_namespace(name: &str, line: &str) -> Result<(), String> {
    let mut command = command(line);
    enter_on_start(&mut command, name)?;
    output_of(&mut command).map(drop)
}

/// Makes a command run in a namespace.
pub(super) fn enter_on_start(command: &mut Command, name: &str) -> Result<(), String> {
    let namespace = open(name)?;
    // SAFETY: between fork and exec, the closure makes one system call on its own descriptor.
    unsafe { command.pre_exec(move || set_namespace(&namespace)) };
    Ok(())
}

/// Keeps this thread in a namespace until dropped.
pub(super) struct Visit {
    home: File,
}

impl Visit {
    /// Moves this thread into a namespace.
    pub(super) fn to(name: &str) -> Result<Visit, String> {
        let failed = |e: io::Error| format!("network namespace: {e}");
        let home = File::open("/proc/thread-self/ns/net").map_err(failed)?;
        set_namespace(&open(name)?).map_err(failed)?;
        Ok(Visit { home })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        // If this fails, the following rows run in the namespace.
        if let Err(error) = set_namespace(&self.home) {
            println!("the thread stays in a network namespace: {error}");
        }
    }
}

fn open(name: &str) -> Result<File, String> {
    let path = Path::new("/run/netns").join(name);
    File::open(&path).map_err(|e| format!("{}: {e}", path.display()))
}

fn set_namespace(namespace: &File) -> io::Result<()> {
    // SAFETY: a plain system call on an open descriptor, which affects only this thread.
    match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn command(line: &str) -> Command {
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}
