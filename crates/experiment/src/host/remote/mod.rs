//! A machine elsewhere, read over one ssh connection with nothing installed there but a shell.
//!
//! ```text
//! prony ── ssh ── sh: reads a request a line, answers with the texts of files or commands
//! ```
//!
//! The shell there does nothing by itself: it waits for the next request, and ends when the
//! connection does, however that comes. All reading is done here, by pure functions ([`linux`],
//! [`freebsd`]). What goes wrong is remembered as the reason why figures lack; it never fails a
//! trial.

mod freebsd;
mod linux;
mod shell;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::host::process::Table;
use crate::telemetry::{HostSample, RemoteMachine, ServiceSample, TelemetrySample};
use shell::{Sections, Shell};

/// How long the connection may take until the shell there has said what system it is on.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A machine elsewhere, or why it can't be read.
#[derive(Debug)]
pub(super) struct Remote {
    machine: RemoteMachine,
    link: Option<Link>,
    failure: Option<String>,
}

/// A connection that stands.
#[derive(Debug)]
struct Link {
    shell: Shell,
    system: System,
    asked: bool,
    services: BTreeMap<String, Tracked>,
}

/// The systems that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Linux,
    FreeBsd,
}

/// What is remembered of one service there.
#[derive(Debug, Default)]
struct Tracked {
    /// Who listened on its port when that was looked up last.
    holders: Vec<i32>,
    figures: linux::Remembered,
}

impl Remote {
    /// Connects, and waits until the shell there answers.
    pub(super) fn connect(machine: &RemoteMachine) -> Self {
        let (link, failure) = match Link::connect(machine) {
            Ok(link) => (Some(link), None),
            Err(why) => (None, Some(why)),
        };
        Self {
            machine: machine.clone(),
            link,
            failure,
        }
    }

    /// Whether it reads that machine for those services.
    pub(super) fn is_of(&self, machine: &RemoteMachine) -> bool {
        self.machine == *machine
    }

    /// Whether the connection stands.
    pub(super) fn works(&self) -> bool {
        self.link.is_some()
    }

    /// Why figures lack, once.
    pub(super) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// Asks for the machine's figures without waiting for them.
    pub(super) fn begin(&mut self) {
        let Some(link) = &mut self.link else { return };
        match link.shell.ask("machine") {
            Ok(()) => link.asked = true,
            Err(why) => self.fail(why),
        }
    }

    /// Adds the machine and its services to a sample.
    pub(super) fn complete(&mut self, sample: &mut TelemetrySample) {
        let Some(link) = self.link.as_mut().filter(|link| link.asked) else {
            return;
        };
        link.asked = false;
        match link.read(&self.machine) {
            Ok((host, services)) => {
                sample.remote = Some(host);
                sample.services.extend(services);
            }
            Err(why) => self.fail(why),
        }
    }

    fn fail(&mut self, why: String) {
        self.failure = Some(why);
        self.link = None;
    }
}

impl Link {
    fn connect(machine: &RemoteMachine) -> Result<Self, String> {
        let script = [linux::script(machine), freebsd::SCRIPT.to_owned()];
        let mut shell = Shell::start(machine, &script)?;
        let greeting = shell.answer(CONNECT_WITHIN)?;
        let name = greeting.get("system").map_or("", |name| name.trim());
        let system = match name {
            "Linux" => System::Linux,
            "FreeBSD" => System::FreeBsd,
            "" => return Err("the shell there did not say its system".to_owned()),
            other => return Err(format!("{other} can't be read, only Linux and FreeBSD")),
        };
        let services = machine.services.keys();
        Ok(Self {
            shell,
            system,
            asked: false,
            services: services
                .map(|name| (name.clone(), Tracked::default()))
                .collect(),
        })
    }

    fn read(
        &mut self,
        machine: &RemoteMachine,
    ) -> Result<(HostSample, BTreeMap<String, ServiceSample>), String> {
        let sections = self.shell.answer(ANSWER_WITHIN)?;
        let (host, table) = match self.system {
            System::Linux => linux::machine(&sections),
            System::FreeBsd => freebsd::machine(&sections),
        };
        if host.cores == 0 {
            return Err("the shell there can't read its machine's figures".to_owned());
        }
        self.look_up_holders(machine, &table)?;
        let mut samples = BTreeMap::new();
        for (name, wanted) in &machine.services {
            let tracked = self.services.entry(name.clone()).or_default();
            let members = match self.system {
                System::Linux => linux::members(name, wanted, &tracked.holders, &sections, &table),
                System::FreeBsd => freebsd::members(name, &tracked.holders, &sections, &table),
            };
            if members.is_empty() {
                continue;
            }
            let pids: Vec<String> = members
                .iter()
                .map(|process| process.pid.to_string())
                .collect();
            let word = match self.system {
                System::Linux if tracked.figures.wants_memory() => "memory",
                _ => "processes",
            };
            self.shell.ask(&format!("{word} {}", pids.join(" ")))?;
            let details = self.shell.answer(ANSWER_WITHIN)?;
            let mut service = match self.system {
                System::Linux => {
                    let group = linux::group_cpu(name, &sections);
                    tracked.figures.sample(&members, &details, group)
                }
                System::FreeBsd => freebsd::service(&members, &details),
            };
            service.network = outward(&host);
            service.tcp = host.tcp;
            samples.insert(name.clone(), service);
        }
        Ok((host, samples))
    }

    /// Finds who listens where nothing else says which processes are a service's.
    fn look_up_holders(&mut self, machine: &RemoteMachine, table: &Table) -> Result<(), String> {
        let lacks = |tracked: &Tracked| tracked.holders.iter().all(|pid| table.get(*pid).is_none());
        let wanted: Vec<(&String, u16)> = machine
            .services
            .iter()
            .filter(|(_, service)| service.follow.is_empty())
            .filter(|(name, _)| self.services.get(*name).is_none_or(lacks))
            .filter_map(|(name, service)| Some((name, service.port?)))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        self.shell.ask("listeners")?;
        let sections = self.shell.answer(ANSWER_WITHIN)?;
        for (name, port) in wanted {
            let holders = match self.system {
                System::Linux => linux::holders(&sections, port),
                System::FreeBsd => freebsd::holders(&sections, port),
            };
            if holders.is_empty() {
                return Err(format!(
                    "nobody was seen to listen on port {port} there (it takes root, or the user of \
                     the server; service \"{name}\" can name its pid_file or cgroup instead)"
                ));
            }
            self.services.entry(name.clone()).or_default().holders = holders;
        }
        Ok(())
    }
}

/// What the machine sent and received over all interfaces but its loopback.
fn outward(host: &HostSample) -> crate::telemetry::NetworkBytes {
    let mut network = super::proc_files::traffic(&host.interfaces, false);
    network.shared = true;
    network
}

/// A section of an answer; empty where it lacks.
fn section<'a>(sections: &'a Sections, name: &str) -> &'a str {
    sections.get(name).map_or("", String::as_str)
}
