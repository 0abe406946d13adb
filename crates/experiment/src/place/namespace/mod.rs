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
mod settings;
mod site;
mod visit;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(crate) use enter::{enter, join_network};
pub(crate) use settings::sort as sort_settings;
pub(crate) use site::Site;

use crate::host::HostError;
use crate::host::program;
use crate::host::state::{Made, RunState};
use crate::place::command;
use crate::place::subnet::{self, Subnet};
use crate::place::topology::Block;
use crate::service::PlaceKind;
use crate::sweep::Removed;

/// Where `ip netns` keeps the names.
const NAMES: &str = "/run/netns";

/// A private /16 that is free on this host.
///
/// # Errors
/// [`HostError::Place`] if there is none.
pub(crate) fn free_base() -> Result<Ipv4Addr, HostError> {
    subnet::free_base().map_err(|reason| HostError::Place {
        kind: PlaceKind::Namespace,
        reason,
    })
}

/// A network namespace and its link, made for one service.
#[derive(Debug)]
pub(crate) struct Network {
    /// The namespace's name, as `ip netns` lists it.
    name: String,
    /// The service's address.
    pub(crate) inside: Ipv4Addr,
    /// The host's address on the link, at which native services can be reached from any namespace
    /// of prony's.
    pub(crate) outside: Ipv4Addr,
}

impl Network {
    /// The service's network and processes are apart from the host's; its first process is a keeper.
    pub(crate) const IS_APART: bool = true;

    /// Makes a namespace called `name` and its link with addresses out of the /16 at `base`,
    /// recording both in the run's state. All services of a trial share one base, or they would not
    /// reach each other.
    ///
    /// # Errors
    /// [`HostError::Place`] if no subnet is free, [`HostError::Command`] if `ip` failed. What was
    /// made until then is recorded, so a release removes it.
    pub(crate) fn make(
        name: &str,
        base: Ipv4Addr,
        state: &mut RunState,
    ) -> Result<Self, HostError> {
        state.record(&Made::Namespace {
            name: name.to_owned(),
        })?;
        ip(&["netns", "add", name])?;
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
        let network = Self {
            name: name.to_owned(),
            inside,
            outside,
        };
        settings::copy_into(&network.entry()?.0, name)?;
        Ok(network)
    }

    /// The way in, to be held open while a process enters.
    pub(crate) fn entry(&self) -> Result<Entry, HostError> {
        let path = Path::new(NAMES).join(&self.name);
        File::open(&path)
            .map(Entry)
            .map_err(HostError::file("open", path))
    }
}

/// An open network namespace.
#[derive(Debug)]
pub(crate) struct Entry(File);

impl Entry {
    /// The namespace's descriptor.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Another descriptor of the same namespace.
    pub(crate) fn another(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Runs `work` on a thread within the namespace and waits for it.
    ///
    /// # Errors
    /// The namespace can't be entered; `work` has then not begun.
    pub(crate) fn visit<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        visit::visit(&self.0, work)
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

/// Removes a link or a namespace that a run has made. What is gone already is no error, and a link
/// whose name is another run's by now stays.
pub(crate) fn remove(made: &Made) -> Result<Option<Removed>, HostError> {
    match made {
        Made::Link { name, namespace } => {
            let alias = Path::new("/sys/class/net").join(name).join("ifalias");
            let is_theirs =
                || std::fs::read_to_string(&alias).is_ok_and(|text| text.trim_end() == namespace);
            if !is_theirs() {
                return Ok(None);
            }
            match ip(&["link", "del", name]) {
                // It vanishes by itself when the last process in its namespace ends.
                Err(error) if is_theirs() => Err(error),
                _ => Ok(Some(Removed::Link(name.clone()))),
            }
        }
        Made::Namespace { name } if Path::new(NAMES).join(name).exists() => {
            ip(&["netns", "del", name])?;
            Ok(Some(Removed::Namespace(name.clone())))
        }
        _ => Ok(None),
    }
}

/// The processes that live in a network namespace that a run has made.
pub(crate) fn processes_in(made: &Made) -> Vec<i32> {
    let Made::Namespace { name } = made else {
        return Vec::new();
    };
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
    check_network()?;
    try_namespaces()
}

/// Whether this process may make networks of their own and links between them.
pub(crate) fn check_network() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("must be root to make network namespaces (run prony with sudo)".to_owned());
    }
    if program::find("ip", Path::new("/"), None).is_err() {
        return Err("the command `ip` is missing (install the package iproute2: `apt-get install iproute2`)".to_owned());
    }
    visit::visit_new(|| ()).map_err(|error| {
        format!(
            "the kernel refuses a network namespace ({error}; in a container: run it privileged)"
        )
    })
}

/// Whether links can have rates.
pub(crate) fn check_rates() -> Result<(), String> {
    match program::find("tc", Path::new("/"), None) {
        Ok(_) => Ok(()),
        Err(_) => Err("the command `tc` is missing (install the package iproute2, on Fedora iproute-tc: `apt-get install iproute2`)".to_owned()),
    }
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

/// Runs `work` in a new network that ends with it, in which these blocks are local.
pub(crate) fn rehearse<T: Send>(
    sources: &[Block],
    work: impl FnOnce() -> T + Send,
) -> Result<T, String> {
    let prepared = visit::visit_new(|| {
        // A command inherits the network of the thread that starts it.
        ip(&["link", "set", "lo", "up"])?;
        for block in sources {
            ip(&["route", "add", "local", &block.to_string(), "dev", "lo"])?;
        }
        Ok::<T, HostError>(work())
    });
    prepared
        .map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())
}

fn ip(args: &[&str]) -> Result<(), HostError> {
    command::run("ip", args).map(drop)
}
