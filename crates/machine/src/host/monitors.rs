//! Telemetry sources other than the services' processes: hardware counters, a machine that is read
//! over ssh, and the kernel log.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use prony_plan::watch_spec::{CounterMode, RemoteMachine, WatchSpec};
use prony_record::finding::{ReachedLimit, ServiceLimit, ServiceLimitKind, Subject, TelemetryLost};
use prony_record::{Finding, Severity};

use super::remote::{RemoteError, RemoteSampler};
use crate::sampling::{Listener, SamplingRefused, SamplingSession};
use crate::system::hardware::CounterGroup;
use crate::system::kernel_log::KernelLog;
use crate::system::{self, SampledService};
use crate::telemetry::{HardwareCounters, TelemetrySample};

/// The telemetry sources of one trial.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    watch: WatchSpec,
    cores: BTreeMap<usize, CounterGroup>,
    /// Reason why the requested hardware counters are not available.
    no_counters: Option<String>,
    remote: Option<RemoteSampler>,
    /// Kernel log since the start of the trial; `None` if this user can't read it.
    kernel_log: Option<KernelLog>,
}

impl Monitors {
    /// Changes the telemetry sources. Counters and connections that are already open are kept if
    /// they are still needed.
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
                let fits = |remote: &RemoteSampler| remote.is_of(machine) && remote.works();
                if !self.remote.as_ref().is_some_and(fits) {
                    self.remote = Some(connect(machine, &watch.load_cores));
                }
            }
        }
        self.watch = watch;
    }

    fn count_cores(&mut self) {
        for core in system::online_cores() {
            match CounterGroup::of_core(core) {
                Ok(group) => {
                    self.cores.insert(core, group);
                }
                Err(error) => {
                    // A sum over only some of the cores would be wrong.
                    self.cores.clear();
                    self.no_counters = Some(error.to_string());
                    return;
                }
            }
        }
    }

    /// Opens counters for the processes that the calling thread will start, if the plan requests
    /// counters by process.
    pub(super) fn counters_of_descendants(&mut self) -> Option<CounterGroup> {
        if self.watch.counters != CounterMode::Processes {
            return None;
        }
        CounterGroup::of_descendants()
            .map_err(|error| self.no_counters = Some(error.to_string()))
            .ok()
    }

    /// Prepares to sample the processes that the calling thread will start, if the plan requests a
    /// profile.
    pub(super) fn samples_of_descendants(
        &self,
    ) -> Option<Result<SamplingSession, SamplingRefused>> {
        let rate_hz = self.watch.profile_rate_hz?;
        Some(SamplingSession::of_descendants(rate_hz))
    }

    /// Starts to sample the servers that prony did not start, if the plan requests a profile. Returns
    /// them by name.
    pub(super) fn begin_samples_of_listeners(
        &self,
    ) -> BTreeMap<String, Result<SamplingSession, SamplingRefused>> {
        let Some(rate_hz) = self.watch.profile_rate_hz else {
            return BTreeMap::new();
        };
        let begin = |address: SocketAddr| {
            let mut session = SamplingSession::of_listener(Listener::Tcp(address), rate_hz)?;
            session.begin()?;
            Ok(session)
        };
        let listeners = self.watch.listeners.iter();
        let known = listeners.filter_map(|(name, address)| Some((name, address.parse().ok()?)));
        known
            .map(|(name, address)| (name.clone(), begin(address)))
            .collect()
    }

    /// Describes how hardware counters are read, for `environment.json`.
    pub(super) fn counters(&self) -> String {
        match (self.watch.counters, &self.no_counters) {
            (CounterMode::Off, _) => "none: not requested".to_owned(),
            (_, Some(reason)) => format!("none: {reason}"),
            (CounterMode::Cores, None) if self.cores.is_empty() => "none: not requested".to_owned(),
            (CounterMode::Cores, None) => "by core".to_owned(),
            (CounterMode::Processes, None) => "by process".to_owned(),
        }
    }

    /// Iterates over the services on this machine that prony did not start.
    pub(super) fn external_services(&self) -> impl Iterator<Item = SampledService> {
        self.watch
            .others
            .iter()
            .filter(|(_, follow)| !follow.is_empty())
            .map(|(name, follow)| SampledService::external(name, follow))
    }

    /// Requests the data of the remote machine without waiting for it.
    pub(super) fn begin(&mut self) {
        if let Some(remote) = &mut self.remote {
            remote.begin();
        }
    }

    /// Adds the data of the telemetry sources to a sample. `cores` lists the cores that the plan
    /// assigns to each service; an empty list means any core.
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
            let is_apart = self.watch.load_is_elsewhere || are_disjoint(own, load);
            if is_apart && is_alone(name, own, cores) {
                let of_own = own.iter().filter_map(|core| counts.get(core).copied());
                service.hardware = sum(of_own);
            }
        }
        if let Some(remote) = &mut self.remote {
            remote.complete(sample);
        }
    }

    /// Starts reading the kernel log.
    pub(super) fn begin_kernel_log(&mut self) {
        self.kernel_log = KernelLog::from_now();
    }

    /// Returns findings about SYN floods that the kernel has logged for the given ports.
    pub(super) fn syn_floods(&mut self, ports: &BTreeMap<u16, String>) -> Vec<Finding> {
        let floods = self.kernel_log.iter_mut().flat_map(KernelLog::syn_floods);
        let finding = |(port, line): (u16, String)| {
            let limit = ReachedLimit {
                limit: ServiceLimitKind::ListenQueue,
                line,
                count: 1,
            };
            let reached = ServiceLimit {
                limits: vec![limit],
            };
            let subject = Subject::Service(ports.get(&port)?.clone());
            Some(Finding::about(subject, Severity::Warning, &reached))
        };
        floods.filter_map(finding).collect()
    }

    /// Returns findings about telemetry sources that have failed since the last call.
    pub(super) fn findings(&mut self) -> Vec<Finding> {
        let lost = self.remote.as_mut().and_then(RemoteSampler::take_failure);
        let finding = |reason: RemoteError| {
            let lost = TelemetryLost {
                reason: Some(reason.to_string()),
                looked_in: Vec::new(),
            };
            Finding::of(Severity::Warning, &lost)
        };
        lost.map(finding).into_iter().collect()
    }
}

/// Connects to the remote machine. The ssh process and the threads that read its output avoid the
/// load's cores.
fn connect(machine: &RemoteMachine, load_cores: &[usize]) -> RemoteSampler {
    let connecting = || {
        system::avoid_cores(load_cores);
        RemoteSampler::connect(machine)
    };
    let connected = std::thread::scope(|scope| scope.spawn(connecting).join());
    connected.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns true if `others` is not empty and has no core in common with `own`.
fn are_disjoint(own: &[usize], others: &[usize]) -> bool {
    !others.is_empty() && others.iter().all(|core| !own.contains(core))
}

/// Returns true if no other service is allowed to use this service's cores.
fn is_alone(name: &str, own: &[usize], cores: &BTreeMap<String, Vec<usize>>) -> bool {
    let is_apart =
        |(other, theirs): (&String, &Vec<usize>)| other == name || are_disjoint(own, theirs);
    !own.is_empty() && cores.iter().all(is_apart)
}

/// Adds up the counters of several cores. A counter that is missing on one core is missing from the
/// sum.
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
    fn a_counter_missing_on_one_core_is_missing_from_the_sum() {
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
    fn only_a_service_alone_on_its_cores_gets_their_counts() {
        let cores = |of: &[(&str, &[usize])]| -> BTreeMap<String, Vec<usize>> {
            of.iter()
                .map(|(name, own)| ((*name).to_owned(), own.to_vec()))
                .collect()
        };
        let is_alone = |name: &str, own: &[usize], cores: &BTreeMap<_, _>, load: &[usize]| {
            are_disjoint(own, load) && super::is_alone(name, own, cores)
        };
        let apart = cores(&[("web", &[0]), ("app", &[1, 2])]);
        assert!(is_alone("web", &[0], &apart, &[3]));
        assert!(is_alone("app", &[1, 2], &apart, &[3]));
        assert!(!is_alone("app", &[1, 2], &apart, &[2]));
        assert!(
            !is_alone("web", &[0], &apart, &[]),
            "the load may run on any core"
        );
        let free = cores(&[("web", &[0]), ("app", &[])]);
        assert!(
            !is_alone("web", &[0], &free, &[3]),
            "the other service may run on any core"
        );
        assert!(!is_alone("app", &[], &free, &[3]));
    }
}
