//! Telemetry of a remote machine over one ssh connection. The machine needs only a POSIX shell.
//!
//! ```text
//! prony ── ssh ── sh: reads one request per line, prints the contents of files or the output of commands
//! ```
//!
//! The remote shell waits for requests and ends with the connection. Pure functions on this machine
//! parse its output ([`linux`], [`freebsd`]). A failure is reported as a finding and never fails a
//! trial.

mod freebsd;
mod linux;
mod shell;

use std::collections::BTreeMap;
use std::time::Duration;

use prony_plan::watch_spec::{RemoteMachine, RemoteService};

use crate::system::process::ProcessTable;
use crate::telemetry::{HostSample, ServiceSample, TelemetrySample};

pub(super) use shell::{RemoteError, Sections, Shell, SshTarget, quoted, section, token};

/// Timeout for the connection and for the first response of the remote shell.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout for the remote shell's responses to requests for telemetry.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Connection to a remote machine, or the reason why the machine can't be read.
#[derive(Debug)]
pub(super) struct RemoteSampler {
    machine: RemoteMachine,
    link: Option<RemoteConnection>,
    failure: Option<RemoteError>,
}

/// Connection to a remote shell that has responded.
#[derive(Debug)]
pub(super) struct RemoteConnection {
    pub(super) shell: Shell,
    pub(super) system: RemoteSystem,
    requested: bool,
    services: BTreeMap<String, TrackedService>,
}

/// Operating system of the remote machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RemoteSystem {
    Linux,
    FreeBsd,
}

impl RemoteSystem {
    /// Returns the processes that listen on a port.
    pub(super) fn holders(self, sections: &Sections, port: u16) -> Vec<i32> {
        match self {
            RemoteSystem::Linux => linux::holders(sections, port),
            RemoteSystem::FreeBsd => freebsd::holders(sections, port),
        }
    }

    /// Returns the operating system that the remote shell has reported.
    fn reported(greeting: &Sections) -> Result<Self, RemoteError> {
        match section(greeting, "system").trim() {
            "Linux" => Ok(RemoteSystem::Linux),
            "FreeBSD" => Ok(RemoteSystem::FreeBsd),
            "" => Err(RemoteError::NoSystem),
            other => Err(RemoteError::UnsupportedSystem(other.to_owned())),
        }
    }
}

/// A service on the remote machine.
#[derive(Debug, Default)]
struct TrackedService {
    /// Processes that were listening on the service's port at the last lookup.
    holders: Vec<i32>,
    history: linux::RemoteServiceHistory,
}

impl RemoteSampler {
    /// Connects to the machine, and waits for the first response of the remote shell.
    pub(super) fn connect(machine: &RemoteMachine) -> Self {
        let (link, failure) = match RemoteConnection::connect(machine) {
            Ok(link) => (Some(link), None),
            Err(why) => (None, Some(why)),
        };
        Self {
            machine: machine.clone(),
            link,
            failure,
        }
    }

    /// Returns true if this sampler reads the machine and the services that `machine` describes.
    pub(super) fn is_of(&self, machine: &RemoteMachine) -> bool {
        self.machine == *machine
    }

    /// Returns true if the connection is open.
    pub(super) fn works(&self) -> bool {
        self.link.is_some()
    }

    /// Returns the reason for a failure once, and `None` afterwards.
    pub(super) fn take_failure(&mut self) -> Option<RemoteError> {
        self.failure.take()
    }

    /// Requests the machine's data without waiting for it.
    pub(super) fn begin(&mut self) {
        let Some(link) = &mut self.link else { return };
        if let Err(why) = link.begin() {
            self.fail(why);
        }
    }

    /// Adds the data of the machine and its services to a sample.
    pub(super) fn complete(&mut self, sample: &mut TelemetrySample) {
        let Some(link) = &mut self.link else { return };
        match link.complete(&self.machine.services) {
            Ok(None) => {}
            Ok(Some((host, services))) => {
                sample.remote = Some(host);
                sample.services.extend(services);
            }
            Err(why) => self.fail(why),
        }
    }

    fn fail(&mut self, why: RemoteError) {
        self.failure = Some(why);
        self.link = None;
    }
}

impl RemoteConnection {
    fn connect(machine: &RemoteMachine) -> Result<Self, RemoteError> {
        let followed = linux::followed(&machine.services);
        let script = format!(
            "{followed}\ntelemetry() {{ at system; echo \"$system\"; at end; requests; exit; }}\n\
             telemetry"
        );
        let target = SshTarget {
            ssh: &machine.ssh,
            destination: &machine.destination,
            sudo: false,
        };
        let mut shell = Shell::start(target, &script)?;
        let greeting = shell.response(CONNECT_TIMEOUT)?;
        Self::greeted(shell, &greeting)
    }

    /// Creates a connection from a shell and its first response.
    pub(super) fn greeted(shell: Shell, greeting: &Sections) -> Result<Self, RemoteError> {
        Ok(Self {
            system: RemoteSystem::reported(greeting)?,
            shell,
            requested: false,
            services: BTreeMap::new(),
        })
    }

    /// Executes a script, and returns its response.
    pub(super) fn run(&mut self, script: &str, within: Duration) -> Result<Sections, RemoteError> {
        self.shell.request(script)?;
        self.shell.response(within)
    }

    /// Changes the services whose processes are followed.
    pub(super) fn follow(
        &mut self,
        services: &BTreeMap<String, RemoteService>,
    ) -> Result<(), RemoteError> {
        self.services.clear();
        self.run(&linux::followed(services), RESPONSE_TIMEOUT)
            .map(drop)
    }

    /// Requests the machine's data without waiting for it.
    pub(super) fn begin(&mut self) -> Result<(), RemoteError> {
        self.shell.request("\"${system}_machine\"")?;
        self.requested = true;
        Ok(())
    }

    /// Returns the requested data of the machine and its services; `None` if it was not requested.
    #[expect(clippy::type_complexity, reason = "the two parts of a sample")]
    pub(super) fn complete(
        &mut self,
        services: &BTreeMap<String, RemoteService>,
    ) -> Result<Option<(HostSample, BTreeMap<String, ServiceSample>)>, RemoteError> {
        if !std::mem::take(&mut self.requested) {
            return Ok(None);
        }
        self.read(services).map(Some)
    }

    fn read(
        &mut self,
        services: &BTreeMap<String, RemoteService>,
    ) -> Result<(HostSample, BTreeMap<String, ServiceSample>), RemoteError> {
        let sections = self.shell.response(RESPONSE_TIMEOUT)?;
        let (host, table) = match self.system {
            RemoteSystem::Linux => linux::machine(&sections),
            RemoteSystem::FreeBsd => freebsd::machine(&sections),
        };
        if host.cores == 0 {
            return Err(RemoteError::Unreadable);
        }
        self.look_up_holders(services, &table)?;
        let mut samples = BTreeMap::new();
        for (name, wanted) in services {
            let mut tracked = self.services.remove(name).unwrap_or_default();
            let members = match self.system {
                RemoteSystem::Linux => {
                    linux::members(name, wanted, &tracked.holders, &sections, &table)
                }
                RemoteSystem::FreeBsd => {
                    freebsd::members(name, &tracked.holders, &sections, &table)
                }
            };
            if members.is_empty() {
                self.services.insert(name.clone(), tracked);
                continue;
            }
            let pids: Vec<String> = members
                .iter()
                .map(|process| process.pid.to_string())
                .collect();
            let word = match self.system {
                RemoteSystem::Linux if tracked.history.wants_memory() => "memory",
                _ => "processes",
            };
            let script = format!("\"${{system}}_{word}\" {}", pids.join(" "));
            let details = self.run(&script, RESPONSE_TIMEOUT)?;
            let mut service = match self.system {
                RemoteSystem::Linux => {
                    let group = linux::group_cpu(name, &sections);
                    tracked.history.sample(&members, &details, group)
                }
                RemoteSystem::FreeBsd => freebsd::service(&members, &details),
            };
            self.services.insert(name.clone(), tracked);
            service.network = outer_traffic(&host);
            service.tcp = host.tcp;
            samples.insert(name.clone(), service);
        }
        Ok((host, samples))
    }

    /// Looks up the listening processes of services that have neither a control group nor a pid
    /// file.
    fn look_up_holders(
        &mut self,
        services: &BTreeMap<String, RemoteService>,
        table: &ProcessTable,
    ) -> Result<(), RemoteError> {
        let lacks =
            |tracked: &TrackedService| tracked.holders.iter().all(|pid| table.get(*pid).is_none());
        let wanted: Vec<(&String, u16)> = services
            .iter()
            .filter(|(_, service)| service.follow.is_empty())
            .filter(|(name, _)| self.services.get(*name).is_none_or(lacks))
            .filter_map(|(name, service)| Some((name, service.port?)))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let sections = self.run("\"${system}_listeners\"", RESPONSE_TIMEOUT)?;
        for (name, port) in wanted {
            let holders = self.system.holders(&sections, port);
            if holders.is_empty() {
                let service = name.clone();
                return Err(RemoteError::NoListener { port, service });
            }
            self.services.entry(name.clone()).or_default().holders = holders;
        }
        Ok(())
    }
}

/// Adds up the traffic of all interfaces except the loopback interface.
fn outer_traffic(host: &HostSample) -> crate::telemetry::NetworkBytes {
    let mut network = crate::system::proc_files::traffic(&host.interfaces, false);
    network.shared = true;
    network
}
