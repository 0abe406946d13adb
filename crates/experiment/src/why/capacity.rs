//! CPU that a trial had, and which party used it: services, load, interrupts, neighbours.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::plan::Resolved;
use crate::runner::links::{self, Crossing};
use crate::telemetry::{CoreTimes, HostSummary, Summary};

/// Neighbours that are named for one set of cores at most.
const NEIGHBOURS_MAX: usize = 3;
/// A process that uses less, in percent of one core, is not named.
const NEIGHBOUR_PERCENT_MIN: f64 = 1.0;

/// Cores that the same services may use, and how much of them was used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    /// The services.
    pub services: Vec<String>,
    /// How many cores.
    pub cores: usize,
    /// CPU of these services, percent of one core; with that of the load, where it is tied to one of
    /// these cores too.
    pub percent: f64,
    /// Whether the load may use them too.
    pub with_load: bool,
    /// Who used these cores; `None` where the system reports no times of single cores.
    #[serde(default)]
    pub parties: Option<CoreParties>,
}

/// Who used a set of cores, in percent of one core. The parts add up to 100 for each core.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreParties {
    /// The cores' numbers; none for all cores of a machine.
    pub numbers: Vec<usize>,
    /// How many cores.
    pub cores: usize,
    /// CPU of the experiment's services.
    pub services: f64,
    /// CPU of this prony, or of the agent on that machine: the load generator, where it runs there.
    pub load: f64,
    /// Interrupts, where they are charged to no process.
    pub interrupts: f64,
    /// CPU of all other processes, and of the kernel's own threads.
    pub others: f64,
    /// CPU that the hypervisor gave to other guests.
    pub stolen: f64,
    /// Nobody's.
    pub idle: f64,
    /// The part of it that processes used that could be named; the kernel's threads, which work for
    /// the experiment, too, are not among them.
    pub named: f64,
    /// The busiest of the other processes.
    pub neighbours: Vec<Neighbour>,
}

/// A process that has nothing to do with the experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its id.
    pub pid: i32,
    /// Its short name.
    pub name: String,
    /// Its CPU, percent of one core.
    pub percent: f64,
}

/// What a trial could use besides its services' own speed, and how much of it was used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The cores of services that are tied to some; services that share any count together.
    pub tied: Vec<CoreUse>,
    /// The cores that the load is tied to, where no service may use them.
    #[serde(default)]
    pub load_cores: Option<CoreParties>,
    /// Cores of the machine.
    pub machine_cores: usize,
    /// CPU of the machine that nobody used, percent of one core.
    pub idle_percent: f64,
    /// Who used the machine of the target; `None` where a server of unknown processes runs on it.
    #[serde(default)]
    pub machine: Option<CoreParties>,
    /// Whether processes on the machine of the target are charged for interrupts
    /// ([`HostSample::softirq_included`](crate::telemetry::HostSample::softirq_included)).
    #[serde(default)]
    pub softirq_included: Option<bool>,
    /// How much of its link's rate the fuller direction carried, as a share; none without a link
    /// that is limited.
    #[serde(default)]
    pub link_share: Option<f64>,
}

impl CoreParties {
    /// The share of the cores' time that somebody used, 0 to 1.
    pub(crate) fn used_share(&self) -> f64 {
        1.0 - self.idle / 100.0 / self.cores.max(1) as f64
    }

    /// CPU that the experiment could not have: other processes' and other guests'.
    pub(crate) fn lost_percent(&self) -> f64 {
        self.others + self.stolen
    }

    /// The share of these cores that named processes and other guests took, 0 to 1.
    pub(crate) fn taken_share(&self) -> f64 {
        (self.named.min(self.others) + self.stolen) / 100.0 / self.cores.max(1) as f64
    }
}

/// A core with its machine's name: those of different machines have the same numbers.
type CoreOf<'a> = (Option<&'a str>, usize);

/// Services, and the load, that share cores.
#[derive(Default)]
struct Group<'a> {
    cores: BTreeSet<CoreOf<'a>>,
    services: Vec<String>,
    services_percent: f64,
    has_load: bool,
}

/// Reads the capacity that a trial had out of its telemetry.
pub(crate) fn capacity(summary: &Summary, resolved: &Resolved) -> Capacity {
    let reading = Reading::new(summary, resolved);
    let groups = reading.groups();
    let load_cores = groups.iter().find(|group| group.services.is_empty());
    let load_cores = load_cores.and_then(|group| reading.parties_of_group(group));
    let tied = groups.iter().filter(|group| !group.services.is_empty());
    let tied = tied.map(|group| CoreUse {
        services: group.services.clone(),
        cores: group.cores.len(),
        percent: group.services_percent
            + match group.has_load {
                true => reading.load_percent,
                false => 0.0,
            },
        with_load: group.has_load || (reading.load_is_free && group.is_here()),
        parties: reading.parties_of_group(group),
    });
    let target = &resolved.load.service;
    let machine = match summary.services.get(target) {
        Some(_) => summary.machine_of(target),
        None => &summary.host,
    };
    Capacity {
        tied: tied.collect(),
        load_cores,
        machine_cores: machine.cores,
        idle_percent: percent(machine.cpu_idle_s, summary.elapsed_s),
        machine: reading.parties_of_machine(machine),
        softirq_included: machine.softirq_included,
        link_share: links::crossing(summary, resolved).and_then(Crossing::used_share),
    }
}

fn percent(cpu_s: f64, elapsed_s: f64) -> f64 {
    match elapsed_s > 0.0 {
        true => 100.0 * cpu_s / elapsed_s,
        false => 0.0,
    }
}

impl Group<'_> {
    /// Whether its cores are those of this machine.
    fn is_here(&self) -> bool {
        self.cores.iter().any(|(host, _)| host.is_none())
    }
}

/// A trial's telemetry with what the plan says of cores.
struct Reading<'a> {
    summary: &'a Summary,
    resolved: &'a Resolved,
    load_percent: f64,
    /// Whether the load is made here and tied to no cores.
    load_is_free: bool,
}

impl<'a> Reading<'a> {
    fn new(summary: &'a Summary, resolved: &'a Resolved) -> Self {
        let load = &resolved.load;
        Self {
            summary,
            resolved,
            load_percent: percent(summary.host.generator_cpu_s, summary.elapsed_s),
            load_is_free: load.agents.is_none() && load.flags.cores.is_none(),
        }
    }

    /// What shares any core is one group: who is short of it can't be told from the sums.
    fn groups(&self) -> Vec<Group<'a>> {
        let mut groups = Vec::new();
        for service in &self.resolved.services {
            let spec = &service.spec;
            let Some(seen) = self.summary.services.get(&spec.name) else {
                continue;
            };
            let host = seen.host.as_deref();
            let group = Group {
                cores: spec.cores.iter().map(|&core| (host, core)).collect(),
                services: vec![spec.name.clone()],
                services_percent: seen.cpu_user_percent + seen.cpu_system_percent,
                has_load: false,
            };
            join(&mut groups, group);
        }
        let load = &self.resolved.load;
        if let (None, Some(cores)) = (&load.agents, &load.flags.cores) {
            let group = Group {
                cores: cores.0.iter().map(|&core| (None, core)).collect(),
                has_load: true,
                ..Group::default()
            };
            join(&mut groups, group);
        }
        groups
    }

    fn parties_of_group(&self, group: &Group<'_>) -> Option<CoreParties> {
        let (host, _) = *group.cores.first()?;
        let mut remote = self
            .resolved
            .services
            .iter()
            .filter(|it| it.remote.is_some());
        // A server that somebody else started may be any of the processes on these cores.
        if !remote.all(|it| self.summary.services.contains_key(&it.spec.name)) {
            return None;
        }
        let machine = match host {
            None => &self.summary.host,
            Some(name) => self.summary.hosts.get(name)?,
        };
        let numbers: Vec<usize> = group.cores.iter().map(|(_, core)| *core).collect();
        let times = numbers.iter().map(|core| machine.core_times.get(core));
        let times: Vec<&CoreTimes> = times.collect::<Option<_>>()?;
        let mut parties = CoreParties {
            services: group.services_percent,
            load: if group.has_load {
                self.load_percent
            } else {
                0.0
            },
            ..of_times(times.into_iter(), machine.softirq_included)
        };
        parties.meet(neighbours(machine, Some(&numbers), self.summary.elapsed_s));
        parties.numbers = numbers;
        let named = parties.named;
        let rest = parties.settle();
        // What may run anywhere may have run here: time that no neighbour used is taken for its.
        let free_load = match self.load_is_free && host.is_none() {
            true => self.load_percent,
            false => 0.0,
        };
        let unnamed = (rest - named).max(0.0);
        let of_load = unnamed.min(free_load);
        let of_services = (unnamed - of_load).min(self.free_services_percent(host));
        parties.load += of_load;
        parties.services += of_services;
        parties.others -= of_load + of_services;
        Some(parties)
    }

    /// CPU of the services on a machine that may use all of its cores.
    fn free_services_percent(&self, host: Option<&str>) -> f64 {
        let free = self.resolved.services.iter();
        let free = free.filter(|service| service.spec.cores.is_empty());
        let seen = free.filter_map(|service| self.summary.services.get(&service.spec.name));
        seen.filter(|seen| seen.host.as_deref() == host)
            .map(|seen| seen.cpu_user_percent + seen.cpu_system_percent)
            .sum()
    }

    fn parties_of_machine(&self, machine: &HostSummary) -> Option<CoreParties> {
        let is_it = |other: &HostSummary| std::ptr::eq(other, machine);
        let is_watched = |name: &String| self.summary.services.contains_key(name);
        let mut remote = self
            .resolved
            .services
            .iter()
            .filter(|it| it.remote.is_some());
        if machine.cores == 0 || !remote.all(|service| is_watched(&service.spec.name)) {
            return None;
        }
        // Of agents that share a machine, each other's processes are not told from strangers'.
        if machine.core_times.is_empty()
            && !is_it(&self.summary.host)
            && machine.foreign_cpu_s == 0.0
        {
            return None;
        }
        let services = self.summary.services.iter();
        let services = services.filter(|(name, _)| is_it(self.summary.machine_of(name)));
        let all = CoreTimes {
            user_s: machine.cpu_user_s,
            system_s: machine.cpu_system_s,
            softirq_s: machine.cpu_softirq_s,
            irq_s: machine.cpu_irq_s,
            steal_s: machine.cpu_steal_s,
            idle_s: machine.cpu_idle_s,
        };
        let mut parties = CoreParties {
            services: services
                .map(|(_, seen)| seen.cpu_user_percent + seen.cpu_system_percent)
                .sum(),
            load: percent(machine.generator_cpu_s, self.summary.elapsed_s),
            ..of_times(std::iter::once(&all), machine.softirq_included)
        };
        parties.meet(neighbours(machine, None, self.summary.elapsed_s));
        // The sum over all cores came as that of one.
        parties.cores = machine.cores;
        let cores = machine.cores as f64;
        parties.interrupts *= cores;
        parties.stolen *= cores;
        parties.idle *= cores;
        parties.settle();
        Some(parties)
    }
}

impl CoreParties {
    /// Takes in the processes that could be named, of which only the busiest stay named.
    fn meet(&mut self, mut neighbours: Vec<Neighbour>) {
        self.named = neighbours.iter().map(|it| it.percent).sum();
        neighbours.retain(|it| it.percent >= NEIGHBOUR_PERCENT_MIN);
        neighbours.truncate(NEIGHBOURS_MAX);
        self.neighbours = neighbours;
    }

    /// Makes the other processes what the parties that were measured leave of the cores; yields it.
    /// Services are measured more finely than cores, so that a little may be missing: then it is
    /// missing from the idle time.
    fn settle(&mut self) -> f64 {
        let known = self.services + self.load + self.interrupts + self.stolen + self.idle;
        let rest = 100.0 * self.cores as f64 - known;
        self.others = rest.max(0.0);
        self.idle = (self.idle + rest.min(0.0)).max(0.0);
        self.others
    }
}

/// Joins a group with those that share a core with it. A group without cores is none.
fn join<'a>(groups: &mut Vec<Group<'a>>, mut group: Group<'a>) {
    if group.cores.is_empty() {
        return;
    }
    let touching = groups.extract_if(.., |other| !other.cores.is_disjoint(&group.cores));
    let mut services = Vec::new();
    let mut cores = BTreeSet::new();
    for other in touching {
        cores.extend(other.cores);
        services.extend(other.services);
        group.services_percent += other.services_percent;
        group.has_load |= other.has_load;
    }
    services.append(&mut group.services);
    group.services = services;
    group.cores.append(&mut cores);
    groups.push(group);
}

/// The parts that the kernel counts for cores themselves, in percent of one core.
fn of_times<'a>(
    times: impl Iterator<Item = &'a CoreTimes>,
    softirq_included: Option<bool>,
) -> CoreParties {
    let mut parties = CoreParties::default();
    for core in times {
        let interrupts_s = core.softirq_s + core.irq_s;
        let busy_s = core.user_s + core.system_s + interrupts_s;
        // The kernel's own sum: the clock's may differ by a tick.
        let all_s = busy_s + core.steal_s + core.idle_s;
        parties.cores += 1;
        parties.idle += percent(core.idle_s, all_s);
        parties.stolen += percent(core.steal_s, all_s);
        // Where it isn't known, interrupts are taken to be in the processes' time: counted once.
        if softirq_included == Some(false) {
            parties.interrupts += percent(interrupts_s, all_s);
        }
    }
    parties
}

/// The other processes that could be named, on some cores or on all, the busiest first.
fn neighbours(machine: &HostSummary, on: Option<&[usize]>, elapsed_s: f64) -> Vec<Neighbour> {
    let there = machine.foreign.iter().map(|process| {
        let cpu_s = match on {
            None => process.cpu_s,
            Some(cores) => {
                let on_core = cores.iter().filter_map(|core| process.by_core.get(core));
                on_core.sum()
            }
        };
        Neighbour {
            pid: process.pid,
            name: process.name.clone(),
            percent: percent(cpu_s, elapsed_s),
        }
    });
    let mut all: Vec<Neighbour> = there.collect();
    all.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    all
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
