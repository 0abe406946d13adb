//! Access to a machine on which services run.
//!
//! A trial calls a [`Host`] in this order: [`allocate`](Host::allocate) the places and addresses of all
//! services, [`start`](Host::start) each service and poll [`alive`](Host::alive) until it is ready,
//! [`sample`](Host::sample) during the load, [`stop`](Host::stop) the services in reverse order, and
//! [`release`](Host::release). [`local::LocalHost`] is this machine.

mod channel;
mod crypto_findings;
mod exit;
mod keeper;
mod launch;
pub mod local;
mod log;
mod monitors;
pub mod readiness_probe;
mod remote;
mod scoped;

use std::collections::BTreeMap;
use std::path::Path;

use crate::environment::Environment;
use crate::place::NetnsHandle;
use crate::service::{Allocated, Allocation, PlaceKind, ServiceSpec};
use crate::topology::Topology;
use prony_record::Finding;

use crate::telemetry::{TelemetrySample, WatchSpec};

pub use crate::system::HostError;
pub use exit::{ServiceExit, ServiceStop};
pub use readiness_probe::ReadinessProbe;
pub(crate) use scoped::{ScopedHost, SharedHost};

/// A machine on which services run: this one, or a group of machines reached through agents.
pub trait Host: Send {
    /// Creates the places and picks the addresses of all services of a trial, listed in the order of
    /// their starts.
    ///
    /// One call covers all services because they must reach each other. For example, a native service
    /// that starts before a service in a namespace gets an address that is reachable from there, not
    /// 127.0.0.1. All named places and links of `topology` are created, also those without a service.
    ///
    /// # Errors
    /// If any of it fails. Everything that was created is removed again.
    fn allocate(
        &mut self,
        wanted: &[Allocation],
        topology: &Topology,
    ) -> Result<BTreeMap<String, Allocated>, HostError>;

    /// Returns a handle to the network of a named place, in which threads of this process can run, such
    /// as the load's. `None` for other kinds of places: this process reaches their services directly.
    ///
    /// # Errors
    /// If the place was not allocated, or is on another machine.
    fn netns_handle(&self, place: PlaceKind) -> Result<Option<NetnsHandle>, HostError>;

    /// Writes the service's files and starts it. Standard output and error go to
    /// `<log_dir>/<service>.log`. Returns once the program is executed; it may not be ready yet.
    ///
    /// # Errors
    /// [`HostError::NotAllocated`] before [`Host::allocate`]; other errors if the start fails.
    fn start(&mut self, spec: &ServiceSpec, log_dir: &Path) -> Result<(), HostError>;

    /// Checks that the service is running. If the main process ended with status 0 and left other
    /// processes, the service is a daemon and counts as running.
    ///
    /// # Errors
    /// The exit status and the last lines of the log.
    fn alive(&mut self, service: &str) -> Result<(), ServiceExit>;

    /// Probes a service once, from within its own place. Returns the HTTP status, or `None` if the probe
    /// only connects.
    ///
    /// # Errors
    /// Why the service is not ready, as text for the user.
    fn probe_readiness(
        &mut self,
        service: &str,
        probe: &ReadinessProbe,
    ) -> Result<Option<u16>, String>;

    /// Returns the last lines of the service's log; empty if there is none.
    fn log_tail(&self, service: &str, lines: usize) -> String;

    /// Sets what is watched in addition to the services' processes. Must be called before services
    /// start. Failures are reported by [`Host::unwatched`].
    fn watch(&mut self, watch: WatchSpec);

    /// Reads the resource usage of each running service and of the machine.
    fn sample(&mut self) -> TelemetrySample;

    /// Returns true if a sample showed that a machine of this trial is lost, so that the load can stop.
    fn is_lost(&self) -> bool {
        false
    }

    /// Returns the findings since the last call: failures of telemetry, and kernel messages about
    /// the services.
    fn unwatched(&mut self) -> Vec<Finding>;

    /// Measures the cryptographic library that a running service has mapped, and returns a finding if it
    /// is slow. Takes seconds of one core for each new library.
    fn examine_crypto(&mut self, spec: &ServiceSpec) -> Option<Finding>;

    /// Sends the stop signal, and kills the whole process tree after a timeout. Does nothing if the
    /// service is not running.
    ///
    /// # Errors
    /// [`HostError::Survived`] if processes outlive SIGKILL.
    fn stop(&mut self, service: &str) -> Result<ServiceStop, HostError>;

    /// Stops all services, the last started first, and removes everything that was allocated:
    /// namespaces, links, sockets, files. [`Host::allocate`] can be called again afterwards.
    ///
    /// # Errors
    /// The first failure. All other resources are still removed.
    fn release(&mut self) -> Result<(), HostError>;

    /// Returns the facts of the machine, and the programs of the running services.
    fn environment(&mut self) -> Environment;
}
