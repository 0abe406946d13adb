//! The nouns that the plan, the host and the runner share: a service, where it lives, where it
//! listens.
//!
//! A trial passes through them in this order: the host allocates an [`Endpoint`] for every listener
//! of every service, the plan's templates are rendered with those endpoints into a [`ServiceSpec`],
//! and the host starts that.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a listener is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenKind {
    /// TCP on an address and port that the host picks.
    Tcp,
    /// A UNIX stream socket at a path that the host picks.
    Unix,
}

/// Where a service listens, once the host has picked it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A UNIX socket's path.
    Unix(PathBuf),
}

/// Where a service's processes live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// The host itself.
    Native,
    /// Linux: its own network, mount, process and user namespaces, with an address over a veth
    /// pair.
    Namespace,
    /// FreeBSD: a jail with its own address.
    Jail,
    /// A named place of the plan, by its position in the trial's
    /// [`Topology`](crate::place::topology::Topology): a network of its own, which links join to
    /// others, with the host's files and processes.
    Named(usize),
}

/// What has to exist before a service can be rendered and started: its place and its listeners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The service's name in the plan.
    pub service: String,
    /// The machine, as the plan names it; none is the one that runs the experiment.
    pub host: Option<String>,
    /// Whether somebody on another machine has to reach it: the load, or a service that needs it.
    pub exposed: bool,
    /// Where it will live.
    pub place: PlaceKind,
    /// Its listeners by name; a service with a single unnamed listener calls it `""`.
    pub listen: BTreeMap<String, ListenKind>,
}

/// What a host gave a service: the answer to an [`Allocation`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocated {
    /// One endpoint for each listener asked for, under the same names. In a named place it is the
    /// one that the place itself reaches, on its loopback; who else reaches the service, and at which
    /// address, is the topology's to say.
    pub endpoints: BTreeMap<String, Endpoint>,
    /// The folder in which the service's rendered files will lie, absolute, readable by every user.
    pub files_dir: PathBuf,
}

/// Where processes are found that belong to a service but are not below the one that was started:
/// daemons of another service manager, containers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Follow {
    /// A control group (Linux), by its path below the root of the groups.
    pub cgroup: Option<String>,
    /// A file whose first line is the id of a process; all that descends from it counts, too.
    pub pid_file: Option<PathBuf>,
}

impl Follow {
    /// Whether nothing is followed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cgroup.is_none() && self.pid_file.is_none()
    }
}

/// A service as it will be started: every template rendered, nothing left to decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceSpec {
    /// The service's name in the plan.
    pub name: String,
    /// The program and its arguments, a `wrapper` already put before them.
    pub command: Vec<String>,
    /// How many of these words are the wrapper's; the service's own program comes after them.
    pub wrapper_words: usize,
    /// Variables added to prony's own environment.
    pub env: BTreeMap<String, String>,
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// Rendered files by name, to be written to [`Allocated::files_dir`] before the start. Between
    /// machines they travel apart from the rest.
    #[serde(skip)]
    pub files: BTreeMap<String, Vec<u8>>,
    /// Files that only their owner may read and that no result keeps, by name: private keys.
    #[serde(skip)]
    pub secrets: BTreeMap<String, Vec<u8>>,
    /// The cores it may run on (empty: any).
    pub cores: Vec<usize>,
    /// The place it lives in.
    pub place: PlaceKind,
    /// The signal that asks it to end, by number (default SIGTERM).
    pub stop_signal: i32,
    /// A directory put before the dynamic loader's search path, if any.
    pub library_path: Option<PathBuf>,
    /// The limit of open files, if the plan sets one.
    pub open_files: Option<u64>,
    /// Processes of the service that leave its tree.
    pub follow: Follow,
}
