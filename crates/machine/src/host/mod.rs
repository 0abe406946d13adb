//! Access to a machine on which services run.
//!
//! A trial uses a [`Host`] as follows. It [allocates](Host::allocate) the places and addresses of
//! all services, [starts](Host::start) each service, and polls [`alive`](Host::alive) until the
//! service is ready. It takes [samples](Host::sample) during the load. At the end, it
//! [stops](Host::stop) the services in reverse order, and [releases](Host::release) the allocated
//! resources. [`local::LocalHost`] is this machine.

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
pub mod ssh;

use std::collections::BTreeMap;
use std::path::Path;

use prony_plan::service::{AllocatedService, Allocation, PlaceKind, ServiceSpec};
use prony_plan::topology::Topology;
use prony_plan::watch_spec::WatchSpec;

use crate::environment::Environment;
use crate::place::NetnsHandle;
use prony_record::Finding;

use crate::sampling::{SamplingProfile, SamplingRefused};
use crate::telemetry::TelemetrySample;

pub use crate::system::HostError;
pub use exit::{ServiceExit, ServiceStop};
pub(crate) use launch::{LaunchMode, RunningService, launch};
pub(crate) use log::tail;
pub use readiness_probe::{ProbeFailure, ReadinessProbe};

/// A machine that runs services: this one, or a group of machines with agents.
pub trait Host: Send {
    /// Creates the places for all services in a trial and picks their addresses. `wanted` lists the
    /// services in start order.
    ///
    /// One call covers all services, because they must reach each other. For example, if a service
    /// in a namespace starts after a native service, the native service gets an address that is
    /// reachable from the namespace instead of 127.0.0.1. All named places and links of `topology`
    /// are created, including those without a service.
    ///
    /// # Errors
    /// A step failed. Everything that was already created is removed again.
    fn allocate(
        &mut self,
        wanted: &[Allocation],
        topology: &Topology,
    ) -> Result<BTreeMap<String, AllocatedService>, HostError>;

    /// Returns a handle to the network of a named place. Threads of this process, such as those of
    /// the load, can run in it. Returns `None` for other kinds of places, because this process
    /// reaches their services directly.
    ///
    /// # Errors
    /// The place was not allocated, or is on another machine.
    fn netns_handle(&self, place: PlaceKind) -> Result<Option<NetnsHandle>, HostError>;

    /// Writes the service's files and starts the service. Its standard output and standard error go
    /// to `<log_dir>/<service>.log`. Returns once the program is running; the service might not be
    /// ready yet.
    ///
    /// # Errors
    /// [`HostError::NotAllocated`] if [`Host::allocate`] was not called before; other errors if the
    /// start fails.
    fn start(&mut self, spec: &ServiceSpec, log_dir: &Path) -> Result<(), HostError>;

    /// Checks that the service is running. If the main process ended with status 0 and left other
    /// processes, the service is a daemon and counts as running.
    ///
    /// # Errors
    /// Returns the exit status and the last lines of the log.
    fn alive(&mut self, service: &str) -> Result<(), ServiceExit>;

    /// Probes a service once, from within its place. Returns the HTTP status, or `None` if the
    /// probe sends no request.
    ///
    /// # Errors
    /// Returns the reason why the service isn't ready.
    fn probe_readiness(
        &mut self,
        service: &str,
        probe: &ReadinessProbe,
    ) -> Result<Option<u16>, ProbeFailure>;

    /// Returns the last lines of the service's log; empty if it has no log.
    fn log_tail(&self, service: &str, lines: usize) -> String;

    /// Sets the telemetry sources other than the services' processes. Must be called before
    /// services start. Failures are returned by [`Host::take_findings`].
    fn watch(&mut self, watch: WatchSpec);

    /// Reads the resource usage of each running service and of the machine.
    fn sample(&mut self) -> TelemetrySample;

    /// Starts to sample the functions of all running services, if the telemetry of the trial includes
    /// a sampling profile. No sample counts until [`Host::count_samples`]. The calling thread's cores
    /// are those of the threads that read the samples.
    fn begin_profiles(&mut self) {}

    /// Begins or ends a period in which samples of a service's functions count. Without a name, this
    /// applies to all services.
    fn count_samples(&mut self, service: Option<&str>, counting: bool) {
        let _ = (service, counting);
    }

    /// Ends the sampling of a service, and gives names to its functions. Must be called while the
    /// service is running, because its processes know their files. Returns `None` if
    /// [`Host::begin_profiles`] has not been called, or if the telemetry includes no profile.
    fn take_profile(&mut self, service: &str) -> Option<Result<SamplingProfile, SamplingRefused>> {
        let _ = service;
        None
    }

    /// Returns true if a sample showed that a machine of this trial is lost. The load can then be
    /// stopped.
    fn is_lost(&self) -> bool {
        false
    }

    /// Returns the findings that are new since the last call: failures of telemetry, and kernel
    /// messages about the services.
    fn take_findings(&mut self) -> Vec<Finding>;

    /// Measures the cryptographic library that a running service has mapped, and returns a finding
    /// if the library is slow. This takes a few seconds of CPU time for each new library.
    fn examine_crypto(&mut self, spec: &ServiceSpec) -> Option<Finding>;

    /// Sends the stop signal, and kills the whole process tree after a timeout. Does nothing if the
    /// service is not running.
    ///
    /// # Errors
    /// [`HostError::Survived`] if processes outlive SIGKILL.
    fn stop(&mut self, service: &str) -> Result<ServiceStop, HostError>;

    /// Stops all services in reverse start order, and removes everything that was allocated:
    /// namespaces, links, sockets, files. [`Host::allocate`] can be called again afterwards.
    ///
    /// # Errors
    /// Returns the first failure. All other resources are removed nevertheless.
    fn release(&mut self) -> Result<(), HostError>;

    /// Returns facts about the machine, and the programs of the running services.
    fn environment(&mut self) -> Environment;
}
