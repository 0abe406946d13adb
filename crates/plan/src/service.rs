//! Types that the plan, the host and the runner share: a service, its place, and its endpoints.
//!
//! In a trial, the host first allocates an [`Endpoint`] for every listener of every service. With
//! these endpoints, the plan's templates are rendered into [`ServiceSpec`]s, which the host starts.

use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Transport of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenKind {
    /// TCP, on an address and port that the host picks.
    Tcp,
    /// A UNIX stream socket, at a path that the host picks.
    Unix,
    /// UDP, as used by HTTP/3, on an address and port that the host picks.
    Udp,
}

/// Transport protocol of a port. A TCP port and a UDP port with the same number are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Address of a listener, picked by the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// A TCP address.
    Tcp(SocketAddr),
    /// Path of a UNIX socket.
    Unix(PathBuf),
    /// A UDP address.
    Udp(SocketAddr),
}

/// Picks an endpoint for each listener. `address` returns an address whose port is free for all
/// given protocols. `path` returns the path of a UNIX socket.
///
/// HTTP/3 servers usually use the same port number for TCP and UDP. The first UDP listener by name
/// therefore gets the port number of the TCP listener `https`, or of the only TCP listener.
///
/// # Errors
/// The first error of `address` or `path`.
pub fn pick_endpoints<E>(
    listen: &BTreeMap<String, ListenKind>,
    mut address: impl FnMut(&[PortProtocol]) -> Result<SocketAddr, E>,
    mut path: impl FnMut(&str) -> Result<PathBuf, E>,
) -> Result<BTreeMap<String, Endpoint>, E> {
    let (tcp, udp) = shared_port(listen).unzip();
    let mut shared = None;
    let mut endpoints = BTreeMap::new();
    for (name, kind) in listen {
        let shares = tcp == Some(name) || udp == Some(name);
        let mut pick = |protocol| match shared {
            Some(shared) if shares => Ok(shared),
            None if shares => {
                let picked = address(&[PortProtocol::Tcp, PortProtocol::Udp])?;
                shared = Some(picked);
                Ok(picked)
            }
            _ => address(&[protocol]),
        };
        let endpoint = match kind {
            ListenKind::Tcp => Endpoint::Tcp(pick(PortProtocol::Tcp)?),
            ListenKind::Udp => Endpoint::Udp(pick(PortProtocol::Udp)?),
            ListenKind::Unix => Endpoint::Unix(path(name)?),
        };
        endpoints.insert(name.clone(), endpoint);
    }
    Ok(endpoints)
}

/// Returns the TCP listener and the UDP listener that share a port number.
fn shared_port(listen: &BTreeMap<String, ListenKind>) -> Option<(&String, &String)> {
    let of_kind = |wanted| {
        let found = listen.iter().filter(move |(_, kind)| **kind == wanted);
        found.map(|(name, _)| name)
    };
    let https = of_kind(ListenKind::Tcp).find(|name| *name == "https");
    let tcp = https.or_else(|| {
        let mut all = of_kind(ListenKind::Tcp);
        all.next().filter(|_| all.next().is_none())
    })?;
    Some((tcp, of_kind(ListenKind::Udp).next()?))
}

/// Place in which the processes of a service, or the load, run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// The host itself.
    Native,
    /// Separate network, mount, process and user namespaces, with an address on a veth pair.
    Namespace,
    /// A named place of the plan, by its index in the trial's
    /// [`Topology`](crate::topology::Topology). It has a separate network, connected to others by
    /// links, but shares the host's files and processes.
    Named(usize),
}

impl fmt::Display for PlaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Namespace => "namespace",
            Self::Named(_) => "with a name",
        })
    }
}

/// A jail of FreeBSD in which a service runs, on a machine that is reached over ssh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jail {
    /// A jail that exists, by its name.
    Existing(String),
    /// A jail that is created for the service, by its root folder.
    Root(String),
}

impl Jail {
    /// Reads the part of a place after `jail:`: the name of a jail, or the absolute path of its
    /// root.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // `jls` accepts a number as well, but the number of a jail changes when it restarts.
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.starts_with('/') && !text.contains(['\n', '\0']) {
            Some(Self::Root(text.to_owned()))
        } else if text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_name) {
            Some(Self::Existing(text.to_owned()))
        } else {
            None
        }
    }
}

/// Resources of a service (its place and its listeners) that must be allocated before the service
/// can be rendered and started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Name of the service in the plan.
    pub service: String,
    /// Machine that runs the service, as named in the plan; `None` means the machine that runs the
    /// experiment.
    pub host: Option<String>,
    /// True if the load, or a service that needs this one, runs on another machine.
    pub exposed: bool,
    /// Place to create for the service.
    pub place: PlaceKind,
    /// Jail in which the service runs; `None` without one.
    #[serde(default)]
    pub jail: Option<Jail>,
    /// Listeners of the service by name. The name of an unnamed listener is `""`.
    pub listen: BTreeMap<String, ListenKind>,
}

/// Resources that a host allocated for an [`Allocation`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedService {
    /// Endpoint of each listener by name. In a named place, it is the endpoint on the place's
    /// loopback interface. The topology determines the addresses at which other places reach it.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Absolute path of the folder with the service's rendered files. Every user may read it.
    pub files_dir: PathBuf,
}

/// Processes of a service that don't descend from the process that prony started, such as
/// containers or daemons of another service manager.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FollowSpec {
    /// Path of a control group (Linux), relative to the root of the cgroup hierarchy.
    pub cgroup: Option<String>,
    /// File whose first line is a process ID. That process and its descendants are followed.
    pub pid_file: Option<PathBuf>,
}

impl FollowSpec {
    /// Returns true if no process is followed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cgroup.is_none() && self.pid_file.is_none()
    }
}

/// Limits that the kernel enforces on a service's processes together, through a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// CPU time in microseconds per period of [`CPU_PERIOD_US`]; `None` without a limit.
    pub cpu_quota_us: Option<u64>,
    /// Memory in bytes, without swap space; `None` without a limit.
    pub memory_bytes: Option<u64>,
    /// Number of processes and threads; `None` without a limit.
    pub pids: Option<u64>,
}

/// Period of a CPU quota: 100 ms, the default of Linux.
pub const CPU_PERIOD_US: u64 = 100_000;

impl ResourceLimits {
    /// Iterates over the limits that are set, by their keys in the plan, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (LimitKey, u64)> {
        let limits = [
            (LimitKey::Cpu, self.cpu_quota_us),
            (LimitKey::Memory, self.memory_bytes),
            (LimitKey::Pids, self.pids),
        ];
        let set = limits.into_iter();
        set.filter_map(|(key, value)| Some((key, value?)))
    }

    /// Returns true if no limit is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

/// Key of a plan that sets a limit, and the controller that enforces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKey {
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
}

impl LimitKey {
    /// Returns the key, which is also the controller's name in both versions of control groups.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
        }
    }
}

/// Program that runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainerRuntime {
    /// Podman, which needs no daemon.
    Podman,
    /// Docker.
    Docker,
}

impl ContainerRuntime {
    /// All runtimes, in the order in which prony looks for them.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Returns the name of the program.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// Container in which a service runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Name of the image, or the absolute path of an archive that contains it.
    pub image: String,
    /// Program that runs the container; `None` means the first one that is installed.
    pub runtime: Option<ContainerRuntime>,
    /// Volumes, as `PATH:INSIDE` or `PATH:INSIDE:OPTIONS` with absolute paths.
    pub volumes: Vec<String>,
    /// Working directory inside the container; `None` means that of the image.
    pub workdir: Option<String>,
}

impl ContainerSpec {
    /// Returns true if both run the same image with the same program.
    #[must_use]
    pub fn is_same_image(&self, other: &Self) -> bool {
        (&self.image, self.runtime) == (&other.image, other.runtime)
    }

    /// Returns true if `image` is the path of an archive rather than the name of an image.
    #[must_use]
    pub fn is_archive(image: &str) -> bool {
        ["/", "./", "../"]
            .iter()
            .any(|start| image.starts_with(start))
    }
}

/// A service that is ready to start, with all templates rendered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSpec {
    /// Name of the service in the plan.
    pub name: String,
    /// Program and arguments, preceded by the words of `wrapper`. In a container, the arguments of
    /// the image, which may be empty.
    pub command: Vec<String>,
    /// Number of leading words that belong to the wrapper. The service's program follows them.
    pub wrapper_words: usize,
    /// Environment variables, added to prony's environment.
    pub env: BTreeMap<String, String>,
    /// Working directory, an absolute path.
    pub cwd: PathBuf,
    /// Content of rendered files by name. The host writes them to [`AllocatedService::files_dir`] before
    /// it starts the service. For other machines, they are sent separately.
    #[serde(skip)]
    pub files: BTreeMap<String, Vec<u8>>,
    /// Files that only their owner may read and that are not stored with results, such as private
    /// keys.
    #[serde(skip)]
    pub secrets: BTreeMap<String, Vec<u8>>,
    /// Cores that the service may use. If the list is empty, it may use any core.
    pub cores: Vec<usize>,
    /// Place in which the service runs.
    pub place: PlaceKind,
    /// Jail in which the service runs; `None` without one.
    #[serde(default)]
    pub jail: Option<Jail>,
    /// Number of the stop signal (default SIGTERM).
    pub stop_signal: i32,
    /// Folder to prepend to the dynamic loader's search path.
    pub library_path: Option<PathBuf>,
    /// Limit on open files; `None` if the plan sets none.
    pub open_files: Option<u64>,
    /// Limits of the service's control group.
    #[serde(default)]
    pub limits: ResourceLimits,
    /// Container in which the service runs; `None` without one.
    #[serde(default)]
    pub container: Option<ContainerSpec>,
    /// Processes of the service that don't descend from the process that prony started.
    pub follow: FollowSpec,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Picks the endpoints of a service, with ports numbered from 1. If TCP and UDP must share a
    /// port, 100 is added to its number.
    fn picked(listen: &[(&str, ListenKind)]) -> Vec<(String, Endpoint)> {
        let listen = listen
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), *kind))
            .collect();
        let mut port = 0;
        let address = |protocols: &[PortProtocol]| {
            port += 1;
            let both = if protocols.len() == 2 { 100 } else { 0 };
            Ok::<_, ()>(SocketAddr::from(([127, 0, 0, 1], port + both)))
        };
        let path = |name: &str| Ok(PathBuf::from(name));
        let endpoints = pick_endpoints(&listen, address, path).unwrap();
        endpoints.into_iter().collect()
    }

    fn tcp(name: &str, port: u16) -> (String, Endpoint) {
        let endpoint = Endpoint::Tcp(([127, 0, 0, 1], port).into());
        (name.to_owned(), endpoint)
    }

    fn udp(name: &str, port: u16) -> (String, Endpoint) {
        let endpoint = Endpoint::Udp(([127, 0, 0, 1], port).into());
        (name.to_owned(), endpoint)
    }

    #[test]
    fn a_udp_listener_has_the_number_of_the_tcp_listener_that_belongs_to_it() {
        use ListenKind::{Tcp, Udp, Unix};
        assert_eq!(
            picked(&[("https", Tcp), ("quic", Udp)]),
            [tcp("https", 101), udp("quic", 101)]
        );
        assert_eq!(
            picked(&[("h3", Udp), ("http", Tcp), ("https", Tcp)]),
            [udp("h3", 101), tcp("http", 2), tcp("https", 101)]
        );
        assert_eq!(
            picked(&[("dns", Udp), ("quic", Udp), ("web", Tcp)]),
            [udp("dns", 101), udp("quic", 2), tcp("web", 101)]
        );
        // With several TCP listeners and none named `https`, the UDP listener gets a separate port.
        assert_eq!(
            picked(&[("a", Tcp), ("b", Tcp), ("quic", Udp)]),
            [tcp("a", 1), tcp("b", 2), udp("quic", 3)]
        );
        let unix = ("admin".to_owned(), Endpoint::Unix("admin".into()));
        assert_eq!(picked(&[("admin", Unix), ("", Udp)]), [udp("", 1), unix]);
    }
}
