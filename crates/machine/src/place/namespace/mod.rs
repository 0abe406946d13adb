//! Namespaces (Linux). A service gets separate network, mount, process, host name, IPC and user
//! namespaces, and an address on a veth pair.
//!
//! The network namespace is created when the service is allocated, because the service's files
//! contain its address. The other namespaces exist for the lifetime of the service's first process
//! ([`sandbox_entry`]).
//!
//! ```text
//! host                              namespace prony-<pid>-<n>
//! prony<k>  base + 4k + 1 /30 ───── eth0  base + 4k + 2 /30, route to the whole base
//! ```
//!
//! Each veth pair has a /30 subnet from a /16 network that is free on the host. Forwarding is
//! enabled on these links only, so services in different namespaces reach each other but no other
//! host.

mod emulation;
mod link_loss;
mod netns_handle;
mod netns_thread;
mod network_topology;
mod sandbox_entry;
mod settings;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(crate) use emulation::check as check_emulator;
pub use netns_handle::NetnsHandle;
pub(crate) use network_topology::NetworkTopology;
pub(crate) use sandbox_entry::{enter, join_network};
pub(crate) use settings::sort as sort_settings;

use prony_plan::service::PlaceKind;
use prony_plan::topology::AddressBlock;

use crate::place::PlaceRefused;
use crate::place::subnet::{self, Subnet};
use crate::run_state::{CreatedResource, RemovedResource, RunState};
use crate::system::HostError;
use crate::system::command;
use crate::system::program;
use netns_thread::NETNS_DIR;

/// Returns a private /16 network that is free on this host.
///
/// # Errors
/// [`HostError::Place`] if no such network is free.
pub(crate) fn free_base() -> Result<Ipv4Addr, HostError> {
    subnet::free_base().map_err(|reason| HostError::Place {
        kind: PlaceKind::Namespace,
        reason: reason.to_string(),
    })
}

/// The network namespace of one service, and its link to the host.
#[derive(Debug)]
pub(crate) struct NamespaceSandbox {
    /// Name of the namespace, as listed by `ip netns`.
    name: String,
    /// Address of the service on the link.
    pub(crate) inside: Ipv4Addr,
    /// Address of the host on the link, at which every sandbox of the trial can reach native
    /// services.
    pub(crate) outside: Ipv4Addr,
}

impl NamespaceSandbox {
    /// Creates the namespace `name` and its link, and records both in the run state. The addresses
    /// come from the /16 network at `base`. All services of a trial must use the same `base` to
    /// reach each other.
    ///
    /// # Errors
    /// [`HostError::Place`] if no subnet is free, [`HostError::Command`] if `ip` fails. The run
    /// state then lists the resources created before the error, so that releasing them is possible.
    pub(crate) fn make(
        name: &str,
        base: Ipv4Addr,
        state: &mut RunState,
    ) -> Result<Self, HostError> {
        state.record(&CreatedResource::Namespace {
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

    /// Opens the namespace, so that a process can enter it.
    pub(crate) fn entry(&self) -> Result<NamespaceFd, HostError> {
        let path = Path::new(NETNS_DIR).join(&self.name);
        File::open(&path)
            .map(NamespaceFd)
            .map_err(HostError::file("open", path))
    }
}

/// An open network namespace.
#[derive(Debug)]
pub(crate) struct NamespaceFd(File);

impl NamespaceFd {
    /// Returns the raw file descriptor.
    pub(crate) fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Opens another descriptor for the same namespace.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Runs `work` on a new thread in the namespace, and waits for it to end.
    ///
    /// # Errors
    /// The namespace can't be entered; `work` was not run.
    pub(crate) fn run_inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        netns_thread::run_in_netns(&self.0, work)
    }
}

/// Creates a link with the first free number. One end is created inside the namespace, so the
/// kernel removes the link together with the namespace. The name of the link reserves the subnet,
/// which prevents other runs from using it.
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
                state.record(&CreatedResource::Link {
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
        reason: format!("all subnets of {base}/16 are used by prony's links (remove the links of killed runs; list them with `ip link`)"),
    }))
}

/// Removes a link or a namespace that a run created, if it still exists. A link that now belongs to
/// another run is kept.
pub(crate) fn remove(created: &CreatedResource) -> Result<Option<RemovedResource>, HostError> {
    match created {
        CreatedResource::Link { name, namespace } => {
            let alias = Path::new("/sys/class/net").join(name).join("ifalias");
            let is_of_run =
                || std::fs::read_to_string(&alias).is_ok_and(|text| text.trim_end() == namespace);
            if !is_of_run() {
                return Ok(None);
            }
            match ip(&["link", "del", name]) {
                // The kernel removes the link when the last process in the namespace ends, so the
                // link may be gone already.
                Err(error) if is_of_run() => Err(error),
                _ => Ok(Some(RemovedResource::Link(name.clone()))),
            }
        }
        CreatedResource::Namespace { name } if Path::new(NETNS_DIR).join(name).exists() => {
            ip(&["netns", "del", name])?;
            Ok(Some(RemovedResource::Namespace(name.clone())))
        }
        _ => Ok(None),
    }
}

/// Lists the processes in a network namespace that a run created.
pub(crate) fn processes_in(created: &CreatedResource) -> Vec<i32> {
    let CreatedResource::Namespace { name } = created else {
        return Vec::new();
    };
    let Ok(wanted) = Path::new(NETNS_DIR).join(name).metadata() else {
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

/// Checks that this process may create all namespaces of a sandbox.
///
/// # Errors
/// The missing requirement, with a hint.
pub(crate) fn check_namespaces() -> Result<(), PlaceRefused> {
    check_network()?;
    try_namespaces()
}

/// Checks that this process may create network namespaces and links.
///
/// # Errors
/// The missing requirement, with a hint.
pub(crate) fn check_network() -> Result<(), PlaceRefused> {
    if !rustix::process::geteuid().is_root() {
        return Err(PlaceRefused::NotRoot);
    }
    if program::find("ip", Path::new("/"), None).is_err() {
        return Err(PlaceRefused::NoIp);
    }
    netns_thread::run_in_new_netns(|| ()).map_err(PlaceRefused::NoNetwork)
}

/// Checks that this machine has the command that limits the rate of links.
///
/// # Errors
/// The missing command, with a hint.
pub(crate) fn check_rates() -> Result<(), PlaceRefused> {
    match program::find("tc", Path::new("/"), None) {
        Ok(_) => Ok(()),
        Err(_) => Err(PlaceRefused::NoTc),
    }
}

/// Checks that this machine has the command and the kernel support for random loss on links.
///
/// # Errors
/// The missing command, or the error from the kernel, with a hint.
pub(crate) fn check_losses() -> Result<(), PlaceRefused> {
    if program::find("nft", Path::new("/"), None).is_err() {
        return Err(PlaceRefused::NoNft);
    }
    let tried = netns_thread::run_in_new_netns(link_loss::rehearse);
    tried
        .map_err(PlaceRefused::NoThread)?
        .map_err(PlaceRefused::NoLosses)
}

/// Creates every kind of namespace once, in a forked process that ends immediately.
fn try_namespaces() -> Result<(), PlaceRefused> {
    const KINDS: [(i32, &str); 5] = [
        (libc::CLONE_NEWNET, "network"),
        (libc::CLONE_NEWNS, "mount"),
        (libc::CLONE_NEWPID, "process"),
        (libc::CLONE_NEWUTS | libc::CLONE_NEWIPC, "host-name and IPC"),
        (libc::CLONE_NEWUSER, "user"),
    ];
    let child = crate::system::fork::fork();
    if child == 0 {
        // The forked process makes only calls that are safe after a fork.
        for (number, (kind, _)) in (1..).zip(KINDS) {
            // SAFETY: the call takes no pointers, and this process has one thread.
            if unsafe { libc::unshare(kind) } != 0 {
                // SAFETY: the call ends the forked process immediately.
                unsafe { libc::_exit(number) };
            }
        }
        // SAFETY: the call ends the forked process immediately.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` has room for the wait status.
    if child < 0 || unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(PlaceRefused::NoFork(io::Error::last_os_error()));
    }
    match usize::try_from(libc::WEXITSTATUS(status)) {
        Ok(0) if libc::WIFEXITED(status) => Ok(()),
        Ok(number @ 1..=5) => Err(PlaceRefused::NoNamespace(KINDS[number - 1].1)),
        _ => Err(PlaceRefused::NoNamespaces),
    }
}

/// Runs `work` in a temporary network namespace in which the addresses in `sources` are local.
///
/// # Errors
/// The reason why the namespace can't be prepared; `work` was not run.
pub(crate) fn rehearse<T: Send>(
    sources: &[AddressBlock],
    work: impl FnOnce() -> T + Send,
) -> Result<T, PlaceRefused> {
    let prepared = netns_thread::run_in_new_netns(|| {
        // Commands run in the network namespace of the thread that starts them.
        ip(&["link", "set", "lo", "up"])?;
        for block in sources {
            ip(&["route", "add", "local", &block.to_string(), "dev", "lo"])?;
        }
        Ok::<T, HostError>(work())
    });
    prepared
        .map_err(PlaceRefused::NoThread)?
        .map_err(PlaceRefused::Host)
}

fn ip(args: &[&str]) -> Result<(), HostError> {
    command::run("ip", args).map(drop)
}
