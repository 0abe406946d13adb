//! The namespace place (Linux): its own network, mount, process, host-name, IPC and user
//! namespaces, with an address of its own over a veth pair.
//!
//! The network namespace is made when the service is allocated, because its address must be known
//! before the service's files can be rendered; the other namespaces begin and end with the
//! service's first process ([`enter`]).
//!
//! ```text
//! host                              namespace prony-<pid>-<n>
//! prony<k>  base + 4k + 1 /30 ───── eth0  base + 4k + 2 /30, route to the whole base
//! ```
//!
//! Each pair has a /30 out of one /16 that is free on the host. Forwarding is switched on for our
//! links alone, so that services in different namespaces reach each other; nothing leads out.

mod enter;
mod subnet;

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

pub(crate) use enter::enter;
pub(crate) use subnet::Subnet;

use crate::host::HostError;
use crate::host::program;
use crate::host::state::{Made, RunState};
use crate::place::command;
use crate::service::PlaceKind;

/// Where `ip netns` keeps the names.
const NAMES: &str = "/run/netns";

/// A network namespace and its link, made for one service.
#[derive(Debug)]
pub(crate) struct Network {
    /// The namespace's name, as `ip netns` lists it.
    pub(crate) name: String,
    /// The host's end of the link.
    pub(crate) link: String,
    /// The service's address.
    pub(crate) inside: Ipv4Addr,
    /// The host's address on the link.
    pub(crate) outside: Ipv4Addr,
}

impl Network {
    /// Makes a namespace called `name` and its link, recording both in the run's state.
    ///
    /// # Errors
    /// [`HostError::Place`] if no subnet is free, [`HostError::Command`] if `ip` failed. What was
    /// made until then is recorded, so a release removes it.
    pub(crate) fn make(name: &str, state: &mut RunState) -> Result<Self, HostError> {
        state.record(&Made::Namespace {
            name: name.to_owned(),
        })?;
        ip(&["netns", "add", name])?;
        let base = subnet::free_base().map_err(|reason| HostError::Place {
            kind: PlaceKind::Namespace,
            reason,
        })?;
        let (link, subnet) = claim_link(name, base, state)?;
        let (inside, outside) = (subnet.inside(), subnet.outside());
        ip(&["addr", "add", &format!("{outside}/30"), "dev", &link])?;
        ip(&["link", "set", &link, "up"])?;
        ip(&["-n", name, "link", "set", "lo", "up"])?;
        ip(&[
            "-n",
            name,
            "addr",
            "add",
            &format!("{inside}/30"),
            "dev",
            "eth0",
        ])?;
        ip(&["-n", name, "link", "set", "eth0", "up"])?;
        ip(&[
            "-n",
            name,
            "route",
            "add",
            &subnet.base_route(),
            "via",
            &outside.to_string(),
        ])?;
        let forwarding = PathBuf::from(format!("/proc/sys/net/ipv4/conf/{link}/forwarding"));
        std::fs::write(&forwarding, "1").map_err(HostError::file("write", forwarding))?;
        Ok(Self {
            name: name.to_owned(),
            link,
            inside,
            outside,
        })
    }

    /// The namespace as something a process can join.
    pub(crate) fn open(&self) -> Result<File, HostError> {
        let path = Path::new(NAMES).join(&self.name);
        File::open(&path).map_err(HostError::file("open", path))
    }
}

/// Makes the link whose number is free on this host, one end inside the namespace already, so that
/// it dies with the namespace. The link's name is what claims the subnet against other runs.
fn claim_link(
    namespace: &str,
    base: Ipv4Addr,
    state: &mut RunState,
) -> Result<(String, Subnet), HostError> {
    let mut failure = None;
    for subnet in Subnet::all(base) {
        let link = subnet.link_name();
        if Path::new("/sys/class/net").join(&link).exists() {
            continue;
        }
        let args = [
            "link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", namespace,
        ];
        match ip(&args) {
            Ok(()) => {
                ip(&["link", "set", &link, "alias", namespace])?;
                let namespace = namespace.to_owned();
                state.record(&Made::Link {
                    name: link.clone(),
                    namespace,
                })?;
                return Ok((link, subnet));
            }
            Err(HostError::Command { message, .. }) if message.contains("File exists") => {}
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    Err(failure.unwrap_or(HostError::Place {
        kind: PlaceKind::Namespace,
        reason: format!("all subnets of {base}/16 are taken by links of prony's (remove those of dead runs: `ip link`)"),
    }))
}

/// Removes the host's end of the link to a namespace. One that is gone already, or whose name now is
/// another run's, is no error and stays.
pub(crate) fn remove_link(name: &str, namespace: &str) -> Result<bool, HostError> {
    let alias = Path::new("/sys/class/net").join(name).join("ifalias");
    let is_theirs =
        || std::fs::read_to_string(&alias).is_ok_and(|text| text.trim_end() == namespace);
    if !is_theirs() {
        return Ok(false);
    }
    match ip(&["link", "del", name]) {
        // It vanishes by itself when the last process in its namespace ends.
        Err(_) if !is_theirs() => Ok(true),
        result => result.map(|()| true),
    }
}

/// Removes a named network namespace; one that is gone already is no error.
pub(crate) fn remove(name: &str) -> Result<bool, HostError> {
    if !Path::new(NAMES).join(name).exists() {
        return Ok(false);
    }
    ip(&["netns", "del", name]).map(|()| true)
}

/// The processes that live in the network namespace of that name.
pub(crate) fn processes_in(name: &str) -> Vec<i32> {
    use std::os::unix::fs::MetadataExt;
    let Ok(wanted) = Path::new(NAMES).join(name).metadata() else {
        return Vec::new();
    };
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let theirs = Path::new("/proc")
                .join(pid.to_string())
                .join("ns/net")
                .metadata();
            theirs.is_ok_and(|theirs| theirs.ino() == wanted.ino() && theirs.dev() == wanted.dev())
        })
        .collect()
}

/// Whether this process may make such a place, or what is missing and how to mend it.
pub(crate) fn check() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("must be root to make network namespaces (run prony with sudo)".to_owned());
    }
    if program::find("ip", Path::new("/"), None).is_err() {
        return Err("the command `ip` is missing (install the package iproute2: `apt-get install iproute2`)".to_owned());
    }
    try_namespaces()
}

/// Makes every namespace once, in a forked process that ends at once.
fn try_namespaces() -> Result<(), String> {
    const KINDS: [(i32, &str); 5] = [
        (libc::CLONE_NEWNET, "network"),
        (libc::CLONE_NEWNS, "mount"),
        (libc::CLONE_NEWPID, "process"),
        (libc::CLONE_NEWUTS | libc::CLONE_NEWIPC, "host-name and IPC"),
        (libc::CLONE_NEWUSER, "user"),
    ];
    let child = crate::host::fork();
    if child == 0 {
        // Only calls that are safe after a fork.
        for (number, (kind, _)) in (1..).zip(KINDS) {
            // SAFETY: takes no pointers; this process has one thread.
            if unsafe { libc::unshare(kind) } != 0 {
                // SAFETY: ends the forked process at once.
                unsafe { libc::_exit(number) };
            }
        }
        // SAFETY: as above.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` has room for the wait status.
    if child < 0 || unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(format!(
            "could not fork: {}",
            std::io::Error::last_os_error()
        ));
    }
    match usize::try_from(libc::WEXITSTATUS(status)) {
        Ok(0) if libc::WIFEXITED(status) => Ok(()),
        Ok(number @ 1..=5) => Err(format!(
            "the kernel refuses a {} namespace (in a container: run it privileged; otherwise see `sysctl user`)",
            KINDS[number - 1].1
        )),
        _ => Err("the kernel refuses namespaces".to_owned()),
    }
}

fn ip(args: &[&str]) -> Result<(), HostError> {
    command::run("ip", args).map(drop)
}
