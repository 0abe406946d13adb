//! CPU time of a trial by party: services, load, interrupts, other processes, and other guests of
//! the hypervisor.

use std::collections::BTreeSet;

use prony_machine::telemetry::{CoreTimes, HostSummary, TelemetrySummary};
use prony_plan::ResolvedVariant;
use prony_stats::{CoreParties, Neighbor};
use serde::{Deserialize, Serialize};

use super::links::{self, LoadLinkTraffic};

/// Maximum number of neighbor processes listed for a set of cores.
const NEIGHBORS_MAX: usize = 3;
/// Minimum CPU usage for a process to be listed, in percent of one core.
const NEIGHBOR_PERCENT_MIN: f64 = 1.0;

/// Usage of a set of cores that a group of services shares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    /// Names of the services.
    pub services: Vec<String>,
    /// Number of cores.
    pub cores: usize,
    /// CPU time of the group's services in percent of one core. It includes the load's CPU time if
    /// the load is pinned to one of these cores.
    pub percent: f64,
    /// True if the load may also use these cores.
    pub with_load: bool,
    /// Usage by party; `None` if the operating system doesn't report times per core.
    #[serde(default)]
    pub parties: Option<CoreParties>,
}

/// Usage of the resources that can limit the speed of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// Core usage of pinned services. Services that share a core form one group.
    pub tied: Vec<CoreUse>,
    /// Usage of the cores to which the load is pinned; `None` if it isn't pinned or shares a core
    /// with a pinned service.
    #[serde(default)]
    pub load_cores: Option<CoreParties>,
    /// Number of cores of the machine.
    pub machine_cores: usize,
    /// Idle CPU time of the machine, in percent of one core.
    pub idle_percent: f64,
    /// Usage of the target's machine by party; `None` if a server whose processes are unknown runs
    /// on it.
    #[serde(default)]
    pub machine: Option<CoreParties>,
    /// True if interrupts are charged to processes on the target's machine
    /// ([`HostSample::softirq_included`](prony_machine::telemetry::HostSample::softirq_included)).
    #[serde(default)]
    pub softirq_included: Option<bool>,
    /// Fraction of the link's rate limit that is used in the busier direction; `None` without a
    /// link with a rate limit.
    #[serde(default)]
    pub link_share: Option<f64>,
}

/// A core, with the name of its machine (`None` for this machine), because core numbers are unique
/// only within a machine.
type CoreOf<'a> = (Option<&'a str>, usize);

/// A set of shared cores, with the services, and possibly the load, that use them.
#[derive(Default)]
struct CoreGroup<'a> {
    cores: BTreeSet<CoreOf<'a>>,
    services: Vec<String>,
    services_percent: f64,
    has_load: bool,
}

/// Computes the resource usage of a trial from its telemetry.
pub(crate) fn resource_use(summary: &TelemetrySummary, resolved: &ResolvedVariant) -> ResourceUse {
    let reading = TrialReading::new(summary, resolved);
    let groups = reading.groups();
    let load_cores = groups.iter().find(|group| group.services.is_empty());
    let load_cores = load_cores.and_then(|group| reading.parties_of_group(group));
    let tied = groups.iter().filter(|group| !group.services.is_empty());
    let tied = tied.map(|group| CoreUse {
        services: group.services.clone(),
        cores: group.cores.len(),
        percent: group.services_percent
            + if group.has_load {
                reading.load_percent
            } else {
                0.0
            },
        with_load: group.has_load || (reading.load_is_free && group.is_here()),
        parties: reading.parties_of_group(group),
    });
    let target = &resolved.load.service;
    let machine = match summary.services.get(target) {
        Some(_) => summary.machine_of(target),
        None => &summary.host,
    };
    ResourceUse {
        tied: tied.collect(),
        load_cores,
        machine_cores: machine.cores,
        idle_percent: percent(machine.cpu_idle_s, machine.elapsed_s.max(summary.elapsed_s)),
        machine: reading.parties_of_machine(machine),
        softirq_included: machine.softirq_included,
        link_share: links::crossing(summary, resolved).and_then(LoadLinkTraffic::used_share),
    }
}

fn percent(cpu_s: f64, elapsed_s: f64) -> f64 {
    if elapsed_s > 0.0 {
        100.0 * cpu_s / elapsed_s
    } else {
        0.0
    }
}

impl CoreGroup<'_> {
    /// Returns true if the group's cores are on this machine.
    fn is_here(&self) -> bool {
        self.cores.iter().any(|(host, _)| host.is_none())
    }
}

/// Telemetry of a trial, with the core settings of the plan.
struct TrialReading<'a> {
    summary: &'a TelemetrySummary,
    resolved: &'a ResolvedVariant,
    load_percent: f64,
    /// True if the load runs on this machine and is not pinned to cores.
    load_is_free: bool,
}

impl<'a> TrialReading<'a> {
    fn new(summary: &'a TelemetrySummary, resolved: &'a ResolvedVariant) -> Self {
        let load = &resolved.load;
        Self {
            summary,
            resolved,
            load_percent: percent(summary.host.generator_cpu_s, summary.elapsed_s),
            load_is_free: load.agents.is_none() && load.settings.cores.is_none(),
        }
    }

    /// Groups services that share a core. Within a group, the sums can't show which service lacks
    /// CPU time.
    fn groups(&self) -> Vec<CoreGroup<'a>> {
        let mut groups = Vec::new();
        for service in &self.resolved.services {
            let spec = &service.spec;
            let Some(seen) = self.summary.services.get(&spec.name) else {
                continue;
            };
            let host = seen.host.as_deref();
            let group = CoreGroup {
                cores: spec.cores.iter().map(|&core| (host, core)).collect(),
                services: vec![spec.name.clone()],
                services_percent: seen.cpu_user_percent + seen.cpu_system_percent,
                has_load: false,
            };
            join(&mut groups, group);
        }
        let load = &self.resolved.load;
        if let (None, Some(cores)) = (&load.agents, &load.settings.cores) {
            let group = CoreGroup {
                cores: cores.0.iter().map(|&core| (None, core)).collect(),
                has_load: true,
                ..CoreGroup::default()
            };
            join(&mut groups, group);
        }
        groups
    }

    fn parties_of_group(&self, group: &CoreGroup<'_>) -> Option<CoreParties> {
        let (host, _) = *group.cores.first()?;
        let mut remote = self
            .resolved
            .services
            .iter()
            .filter(|it| it.remote.is_some());
        // If prony did not start a server, any process on these cores may belong to it.
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
        name_neighbors(
            &mut parties,
            neighbors(machine, Some(&numbers), self.machine_s(machine)),
        );
        parties.numbers = numbers;
        let named = parties.named;
        let rest = complete(&mut parties);
        // Unpinned services and an unpinned load may have used these cores, so unexplained CPU time
        // is attributed to them.
        let free_load = if self.load_is_free && host.is_none() {
            self.load_percent
        } else {
            0.0
        };
        let unnamed = (rest - named).max(0.0);
        let of_load = unnamed.min(free_load);
        let of_services = (unnamed - of_load).min(self.free_services_percent(host));
        parties.load += of_load;
        parties.services += of_services;
        parties.others -= of_load + of_services;
        Some(parties)
    }

    /// Returns the time over which a machine's CPU times were read, in seconds.
    fn machine_s(&self, machine: &HostSummary) -> f64 {
        machine.elapsed_s.max(self.summary.elapsed_s)
    }

    /// Returns the CPU time of a machine's services that are not pinned to cores, in percent of one
    /// core.
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
        // If agents share a machine, one agent can't distinguish the processes of another from
        // processes outside the experiment.
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
        name_neighbors(
            &mut parties,
            neighbors(machine, None, self.machine_s(machine)),
        );
        // `of_times` received the sums over all cores as if they were one core, so scale its
        // results.
        parties.cores = machine.cores;
        let cores = machine.cores as f64;
        parties.interrupts *= cores;
        parties.stolen *= cores;
        parties.idle *= cores;
        complete(&mut parties);
        Some(parties)
    }
}

/// Sets the CPU time of the identified processes, and lists the busiest of them.
fn name_neighbors(parties: &mut CoreParties, mut neighbors: Vec<Neighbor>) {
    parties.named = neighbors.iter().map(|it| it.percent).sum();
    neighbors.retain(|it| it.percent >= NEIGHBOR_PERCENT_MIN);
    neighbors.truncate(NEIGHBORS_MAX);
    parties.neighbors = neighbors;
}

/// Sets `others` to the CPU time that the measured parties did not use, and returns it. Services are
/// measured more precisely than cores, so the sum may slightly exceed the time of the cores. The
/// excess is then subtracted from the idle time.
fn complete(parties: &mut CoreParties) -> f64 {
    let known =
        parties.services + parties.load + parties.interrupts + parties.stolen + parties.idle;
    let rest = 100.0 * parties.cores as f64 - known;
    parties.others = rest.max(0.0);
    parties.idle = (parties.idle + rest.min(0.0)).max(0.0);
    parties.others
}

/// Adds a group after merging it with all groups that share a core with it. A group without cores
/// is ignored.
fn join<'a>(groups: &mut Vec<CoreGroup<'a>>, mut group: CoreGroup<'a>) {
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

/// Returns the usage that the kernel counts per core (such as interrupts), in percent of one core.
fn of_times<'a>(
    times: impl Iterator<Item = &'a CoreTimes>,
    softirq_included: Option<bool>,
) -> CoreParties {
    let mut parties = CoreParties::default();
    for core in times {
        let interrupts_s = core.softirq_s + core.irq_s;
        let busy_s = core.user_s + core.system_s + interrupts_s;
        // Sum of the kernel's times, which may differ from the elapsed time by a tick.
        let all_s = busy_s + core.steal_s + core.idle_s;
        parties.cores += 1;
        parties.idle += percent(core.idle_s, all_s);
        parties.stolen += percent(core.steal_s, all_s);
        // If unknown, assume that process times include interrupts. Interrupts are then not counted
        // twice.
        if softirq_included == Some(false) {
            parties.interrupts += percent(interrupts_s, all_s);
        }
    }
    parties
}

/// Returns the identified other processes on the given cores, or on all cores, busiest first.
fn neighbors(machine: &HostSummary, on: Option<&[usize]>, elapsed_s: f64) -> Vec<Neighbor> {
    let there = machine.foreign.iter().map(|process| {
        let cpu_s = match on {
            None => process.cpu_s,
            Some(cores) => {
                let on_core = cores.iter().filter_map(|core| process.by_core.get(core));
                on_core.sum()
            }
        };
        Neighbor {
            pid: process.pid,
            name: process.name.clone(),
            percent: percent(cpu_s, elapsed_s),
        }
    });
    let mut all: Vec<Neighbor> = there.collect();
    all.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    all
}

#[cfg(test)]
#[path = "resource_use_tests.rs"]
mod tests;
