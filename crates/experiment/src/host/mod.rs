//! The one door to a machine: places, processes, their figures, and what they leave behind.
//!
//! A trial asks a [`Host`] in this order: [`allocate`](Host::allocate) the places and addresses of
//! all its services at once, [`start`](Host::start) them one by one, poll [`alive`](Host::alive)
//! while they get ready, [`sample`](Host::sample) while the load runs, [`stop`](Host::stop) them in
//! reverse, [`release`](Host::release). [`local::LocalHost`] is this machine.

mod channel;
mod error;
mod examine;
pub mod freebsd;
mod inspect;
mod keeper;
pub mod knock;
mod launch;
#[cfg(target_os = "linux")]
pub(crate) mod linux;
pub mod local;
mod log;
pub mod port;
pub(crate) mod proc_files;
pub mod process;
pub mod program;
mod remote;
pub mod state;
mod watching;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::place::Door;
use crate::place::topology::Topology;
use crate::service::{Allocated, Allocation, PlaceKind, ServiceSpec};
use prony_record::Finding;

use crate::telemetry::{TelemetrySample, WatchSpec};

pub use error::{Exited, HostError};
pub use knock::Knock;

#[cfg(target_os = "linux")]
pub(crate) use {channel::Step, keeper::fork};

#[cfg(target_os = "freebsd")]
pub(crate) use freebsd as system;
#[cfg(target_os = "linux")]
pub(crate) use linux as system;

/// The name that keepers bear among processes; `pkill prony` spares it.
pub(crate) const KEEPER_NAME: &str = "keeper";

/// How a service ended when it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// How its main process ended, in the words of the system (`exit status: 0`); `None` if it had
    /// detached itself from its main process or ended unseen.
    pub status: Option<String>,
    /// Whether it ignored the stop signal for too long and had to be killed.
    pub killed: bool,
    /// From the stop signal until nothing of it was left.
    pub took: Duration,
    /// Bytes cut from the middle of its log, which keeps its head and tail.
    #[serde(default)]
    pub log_bytes_cut: u64,
}

/// A machine on which services run. This machine is one implementation, a remote one another.
pub trait Host: Send {
    /// Makes the places and picks the addresses of all services of one trial, listed in the order
    /// in which they will start.
    ///
    /// They are asked for together because they must reach each other: a native service before one
    /// in a namespace, which may need it, gets an address that is reachable from there instead of
    /// 127.0.0.1. The named places and links of `topology` are made whether or not a service lives
    /// in them.
    ///
    /// # Errors
    /// Nothing is left behind when it fails.
    fn allocate(
        &mut self,
        wanted: &[Allocation],
        topology: &Topology,
    ) -> Result<BTreeMap<String, Allocated>, HostError>;

    /// The way into a named place for threads of this process, such as the load's; `None` for the
    /// other kinds, whose services are reached from where this process is.
    ///
    /// # Errors
    /// The place was not allocated, or its host is another machine.
    fn door(&self, place: PlaceKind) -> Result<Option<Door>, HostError>;

    /// Writes the service's files and starts it; standard output and error go to
    /// `<log_dir>/<service>.log`. It returns once the program has been executed, which says nothing
    /// about readiness.
    ///
    /// # Errors
    /// [`HostError::NotAllocated`] before [`Host::allocate`]; otherwise what stood in the way.
    fn start(&mut self, spec: &ServiceSpec, log_dir: &Path) -> Result<(), HostError>;

    /// Whether the service still runs. A main process that ended with status 0 and left others
    /// behind has become a daemon and counts as running.
    ///
    /// # Errors
    /// How it ended and the last lines of its log.
    fn alive(&mut self, service: &str) -> Result<(), Exited>;

    /// Asks a service something from where it lives, whoever else reaches it.
    ///
    /// # Errors
    /// Why there is no answer yet, in words.
    fn knock(&mut self, service: &str, knock: &Knock) -> Result<Option<u16>, String>;

    /// The last lines of the service's log, empty if there is none.
    fn log_tail(&self, service: &str, lines: usize) -> String;

    /// Says what is to be watched beside the services' process trees, from now on; before they are
    /// started. What can't be watched is a finding, never an error.
    fn watch(&mut self, watch: WatchSpec);

    /// What every running service's process tree and the machine have used by now.
    fn sample(&mut self) -> TelemetrySample;

    /// Whether a machine that this trial needs is gone, as far as the samples showed: its load need not
    /// go on.
    fn is_lost(&self) -> bool {
        false
    }

    /// What could not be watched, and what the system logged about the services, since this was
    /// asked last.
    fn unwatched(&mut self) -> Vec<Finding>;

    /// What is to be said of the cryptography of a service that runs, measured as it has it mapped;
    /// it takes seconds of a core the first time. What can't be told is no finding.
    fn examine_crypto(&mut self, spec: &ServiceSpec) -> Option<Finding>;

    /// Sends the stop signal, waits a bounded time, then kills the whole process tree. A service
    /// that does not run is no error.
    ///
    /// # Errors
    /// [`HostError::Survived`] if processes are left even so.
    fn stop(&mut self, service: &str) -> Result<Stopped, HostError>;

    /// Stops whatever runs, the last started first, and takes down all that was allocated: namespaces, links, sockets,
    /// files. The host can then allocate anew.
    ///
    /// # Errors
    /// The first thing that could not be removed; the rest is removed all the same.
    fn release(&mut self) -> Result<(), HostError>;

    /// The machine as it is now, and the programs of the services that run.
    fn environment(&mut self) -> Environment;
}
