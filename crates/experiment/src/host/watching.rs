//! What a host reads beside its processes: the processor's counters, and the machine elsewhere.

use std::collections::BTreeMap;

use prony_record::{Finding, FindingId, Severity};

use super::remote::Remote;
use super::system::hardware::Group;
#[cfg(target_os = "linux")]
use super::system::kernel_log::KernelLog;
use super::system::{self, Watched};
use crate::telemetry::{
    self, CounterMode, HardwareCounters, RemoteMachine, TelemetrySample, WatchSpec,
};

/// What one trial watches.
#[derive(Debug, Default)]
pub(super) struct Watching {
    watch: WatchSpec,
    cores: BTreeMap<usize, Group>,
    /// Why there are no counters, if they were wanted.
    no_counters: Option<String>,
    remote: Option<Remote>,
    /// The kernel's log since this was made; none where this user may not read it.
    #[cfg(target_os = "linux")]
    kernel_log: Option<KernelLog>,
}

impl Watching {
    /// Watches this from now on. What can go on as it is, counters that run and a connection that
    /// stands, does.
    pub(super) fn set(&mut self, watch: WatchSpec) {
        let wanted = watch.counters == CounterMode::Cores;
        if !wanted {
            self.cores.clear();
        } else if self.cores.is_empty() && self.no_counters.is_none() {
            self.count_cores();
        }
        match &watch.remote {
            None => self.remote = None,
            Some(machine) => {
                let fits = |remote: &Remote| remote.is_of(machine) && remote.works();
                if !self.remote.as_ref().is_some_and(fits) {
                    self.remote = Some(connect(machine, &watch.load_cores));
                }
            }
        }
        self.watch = watch;
    }

    fn count_cores(&mut self) {
        for core in system::online_cores() {
            match Group::of_core(core) {
                Ok(group) => {
                    self.cores.insert(core, group);
                }
                Err(error) => {
                    // Half of the cores would make half a sum.
                    self.cores.clear();
                    self.no_counters = Some(error.to_string());
                    return;
                }
            }
        }
    }

    /// Counters for what the calling thread is about to start, if the plan wants them by process.
    pub(super) fn counters_of_descendants(&mut self) -> Option<Group> {
        if self.watch.counters != CounterMode::Processes {
            return None;
        }
        Group::of_descendants()
            .map_err(|error| self.no_counters = Some(error.to_string()))
            .ok()
    }

    /// How the processor's counters are read, for the environment of results.
    pub(super) fn counters(&self) -> String {
        match (self.watch.counters, &self.no_counters) {
            (CounterMode::Off, _) => "none: not asked for".to_owned(),
            (_, Some(reason)) => format!("none: {reason}"),
            (CounterMode::Cores, None) if self.cores.is_empty() => "none: not asked for".to_owned(),
            (CounterMode::Cores, None) => "by core".to_owned(),
            (CounterMode::Processes, None) => "by process".to_owned(),
        }
    }

    /// The services of this machine that somebody else has started.
    pub(super) fn others(&self) -> impl Iterator<Item = Watched> {
        self.watch
            .others
            .iter()
            .filter(|(_, follow)| !follow.is_empty())
            .map(|(name, follow)| Watched::of_other(name, follow))
    }

    /// Asks the machine elsewhere for its figures, without waiting for them.
    pub(super) fn begin(&mut self) {
        if let Some(remote) = &mut self.remote {
            remote.begin();
        }
    }

    /// Adds to a sample what its processes don't tell. `cores` are those that the plan gives each
    /// service; none where it may run on all.
    pub(super) fn complete(
        &mut self,
        sample: &mut TelemetrySample,
        cores: &BTreeMap<String, Vec<usize>>,
    ) {
        let counts: BTreeMap<usize, HardwareCounters> = self
            .cores
            .iter_mut()
            .map(|(core, group)| (*core, group.read()))
            .collect();
        sample.host.hardware = sum(counts.values().copied());
        for (name, own) in cores {
            let Some(service) = sample.services.get_mut(name) else {
                continue;
            };
            let load = &self.watch.load_cores;
            let is_apart = self.watch.load_is_elsewhere || has_apart(own, load);
            if is_apart && is_alone(name, own, cores) {
                let of_own = own.iter().filter_map(|core| counts.get(core).copied());
                service.hardware = sum(of_own);
            }
        }
        if let Some(remote) = &mut self.remote {
            remote.complete(sample);
        }
    }

    /// Reads the kernel's log from now on.
    #[cfg(target_os = "linux")]
    pub(super) fn begin_kernel_log(&mut self) {
        self.kernel_log = KernelLog::from_now();
    }

    /// Listeners of these services of which the kernel has logged a SYN flood since then.
    #[cfg(target_os = "linux")]
    pub(super) fn syn_floods(&mut self, ports: &BTreeMap<u16, String>) -> Vec<Finding> {
        let floods = self.kernel_log.iter_mut().flat_map(KernelLog::syn_floods);
        let finding = |(port, line): (u16, String)| {
            let text = format!(
                "The listen queue of service \"{}\" was full, and the kernel logged: \"{line}\" \
                 (raise the service's backlog, net.core.somaxconn and net.ipv4.tcp_max_syn_backlog). \
                 The figures show that limit. Unless it is what you compare, change it.",
                ports.get(&port)?
            );
            Some(Finding::new(
                FindingId::ServiceLimit,
                Severity::Warning,
                text,
            ))
        };
        floods.filter_map(finding).collect()
    }

    /// What could not be watched since this was asked last.
    pub(super) fn findings(&mut self) -> Vec<Finding> {
        let lost = self.remote.as_mut().and_then(Remote::take_failure);
        let text = lost.map(|why| {
            format!(
                "The machine of [telemetry] could not be read over ssh: {why}. Its CPU, memory and \
                 network are missing in this trial; the load's own figures stand. Check that `ssh` \
                 works without a prompt and starts a POSIX shell."
            )
        });
        text.map(|text| Finding::new(FindingId::TelemetryLost, Severity::Warning, text))
            .into_iter()
            .collect()
    }
}

/// Connects, with ssh and its readers off the load's cores.
fn connect(machine: &RemoteMachine, load_cores: &[usize]) -> Remote {
    let connecting = || {
        telemetry::keep_off(load_cores);
        Remote::connect(machine)
    };
    let connected = std::thread::scope(|scope| scope.spawn(connecting).join());
    connected.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether others are tied to cores, none of which is among these.
fn has_apart(own: &[usize], others: &[usize]) -> bool {
    !others.is_empty() && others.iter().all(|core| !own.contains(core))
}

/// Whether no other service is meant to run on a service's cores.
fn is_alone(name: &str, own: &[usize], cores: &BTreeMap<String, Vec<usize>>) -> bool {
    let is_apart =
        |(other, theirs): (&String, &Vec<usize>)| other == name || has_apart(own, theirs);
    !own.is_empty() && cores.iter().all(is_apart)
}

/// The sum of several cores' counts; what one of them lacks, the sum lacks.
fn sum(counts: impl Iterator<Item = HardwareCounters>) -> Option<HardwareCounters> {
    let add = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
    counts.reduce(|one, other| HardwareCounters {
        cycles: add(one.cycles, other.cycles),
        instructions: add(one.instructions, other.instructions),
        cache_misses: add(one.cache_misses, other.cache_misses),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_core_lacks_the_sum_lacks() {
        let counts = |cycles: Option<u64>| HardwareCounters {
            cycles,
            instructions: Some(5),
            cache_misses: None,
        };
        let both = sum([counts(Some(1)), counts(Some(2))].into_iter()).unwrap();
        assert_eq!((both.cycles, both.instructions), (Some(3), Some(10)));
        let one = sum([counts(Some(1)), counts(None)].into_iter()).unwrap();
        assert_eq!((one.cycles, one.instructions), (None, Some(10)));
        assert_eq!(sum(std::iter::empty()), None);
    }

    #[test]
    fn only_who_is_alone_on_its_cores_has_their_counts() {
        let cores = |of: &[(&str, &[usize])]| -> BTreeMap<String, Vec<usize>> {
            of.iter()
                .map(|(name, own)| ((*name).to_owned(), own.to_vec()))
                .collect()
        };
        let is_alone = |name: &str, own: &[usize], cores: &BTreeMap<_, _>, load: &[usize]| {
            has_apart(own, load) && super::is_alone(name, own, cores)
        };
        let apart = cores(&[("web", &[0]), ("app", &[1, 2])]);
        assert!(is_alone("web", &[0], &apart, &[3]));
        assert!(is_alone("app", &[1, 2], &apart, &[3]));
        assert!(!is_alone("app", &[1, 2], &apart, &[2]));
        assert!(
            !is_alone("web", &[0], &apart, &[]),
            "the load may run anywhere"
        );
        let free = cores(&[("web", &[0]), ("app", &[])]);
        assert!(
            !is_alone("web", &[0], &free, &[3]),
            "the other one may run anywhere"
        );
        assert!(!is_alone("app", &[], &free, &[3]));
    }
}
