//! The figures of a trial out of its samples. Pure functions.

use std::collections::BTreeMap;

use crate::place::topology::LinkTraffic;

use super::{
    CoreTimes, Hardware, HostSample, Interface, IoCounters, MemoryKind, NetworkBytes, Sample,
    ServiceSample, TcpCounters,
};

/// What one service used between the first and the last sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceSummary {
    /// The agent on whose machine it runs; none where that is this one.
    pub host: Option<String>,
    /// CPU seconds, from the finest source there is.
    pub cpu_s: f64,
    /// The part of them in user mode, in the proportion that the kernel's ticks have.
    pub cpu_user_s: f64,
    /// The part of them in the kernel, in the same way.
    pub cpu_system_s: f64,
    /// CPU in user mode, percent of one core.
    pub cpu_user_percent: f64,
    /// CPU in the kernel, percent of one core.
    pub cpu_system_percent: f64,
    /// Mean of the samples' memory, bytes.
    pub memory_mean_bytes: f64,
    /// Largest of the samples' memory, bytes.
    pub memory_max_bytes: u64,
    /// What the memory figures count.
    pub memory_kind: MemoryKind,
    /// Context switches per second.
    pub context_switches_per_s: f64,
    /// Those among them in which a thread lost its core.
    pub involuntary_switches_per_s: f64,
    /// Most open files in a sample.
    pub open_files_max: u64,
    /// Most processes in a sample.
    pub processes_max: u64,
    /// Bytes that its place sent and received in this time.
    pub network: NetworkBytes,
    /// Bits per second that its place sent.
    pub network_sent_bits_per_s: f64,
    /// Traffic of each interface of its own network namespace in this time.
    pub interfaces: BTreeMap<String, Interface>,
    /// TCP counters of its place: totals as differences, gauges as at the last sample.
    pub tcp: TcpCounters,
    /// What the processor counted for it in this time.
    pub hardware: Option<Hardware>,
    /// Its input and output in this time.
    pub io: Option<IoCounters>,
}

/// What the machine used between the first and the last sample, in CPU seconds over all cores.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostSummary {
    /// Cores online.
    pub cores: usize,
    /// In user mode.
    pub cpu_user_s: f64,
    /// In the kernel, for processes.
    pub cpu_system_s: f64,
    /// In soft interrupts.
    pub cpu_softirq_s: f64,
    /// In hard interrupts.
    pub cpu_irq_s: f64,
    /// Taken by other guests of the hypervisor.
    pub cpu_steal_s: f64,
    /// Idle.
    pub cpu_idle_s: f64,
    /// Of this process.
    pub generator_cpu_s: f64,
    /// Of what is neither a service nor this process, never below zero.
    pub foreign_cpu_s: f64,
    /// The same, percent of one core.
    pub foreign_percent: f64,
    /// Stolen CPU, percent of one core.
    pub steal_percent: f64,
    /// The foreign processes that used most CPU between the samples, most first.
    pub foreign: Vec<ForeignUse>,
    /// Each core by its number; none where the system reports only their sum.
    pub core_times: BTreeMap<usize, CoreTimes>,
    /// Whether processes are charged for interrupts; see [`HostSample::softirq_included`].
    pub softirq_included: Option<bool>,
    /// Mean of the samples' memory in use, bytes.
    pub memory_used_mean_bytes: f64,
    /// Context switches of all cores per second.
    pub context_switches_per_s: f64,
    /// Most open files in a sample.
    pub open_files_max: u64,
    /// Load average at the last sample.
    pub load_average: f64,
    /// Traffic of each interface of its own network namespace in this time.
    pub interfaces: BTreeMap<String, Interface>,
    /// TCP counters of the host's own namespace: totals as differences, gauges as at the last sample.
    pub tcp: TcpCounters,
    /// What the processor counted on all cores in this time.
    pub hardware: Option<Hardware>,
}

/// CPU time of one process that is neither prony nor one of its services.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ForeignUse {
    /// Its id.
    pub pid: i32,
    /// Its short name.
    pub name: String,
    /// CPU seconds in all.
    pub cpu_s: f64,
    /// The same by the core that it was last seen on, as far as that is known.
    pub by_core: BTreeMap<usize, f64>,
}

/// The figures of one trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Seconds between the first and the last sample.
    pub elapsed_s: f64,
    /// The services that were there in the first and the last sample.
    pub services: BTreeMap<String, ServiceSummary>,
    /// The machine.
    pub host: HostSummary,
    /// The machine elsewhere, where it answered at the beginning and the end.
    pub remote: Option<HostSummary>,
    /// The other machines of the plan's services, those that were there at the beginning and the end.
    pub hosts: BTreeMap<String, HostSummary>,
    /// What each link between named places carried in this time.
    pub links: BTreeMap<String, LinkTraffic>,
    /// Mean cost of a sample, microseconds.
    pub sample_cost_us: f64,
}

impl Summary {
    /// The machine on which a service runs, as far as it was watched.
    #[must_use]
    pub fn machine_of(&self, service: &str) -> &HostSummary {
        let host = self.services.get(service).and_then(|it| it.host.as_ref());
        let elsewhere = host.and_then(|host| self.hosts.get(host));
        elsewhere.or(self.remote.as_ref()).unwrap_or(&self.host)
    }

    /// This machine, and those on which agents run services.
    pub fn machines(&self) -> impl Iterator<Item = &HostSummary> {
        std::iter::once(&self.host).chain(self.hosts.values())
    }
}

/// Summarises samples in the order in which they were taken; `None` unless there are two at
/// different times.
#[must_use]
pub fn summary(samples: &[Sample]) -> Option<Summary> {
    let (first, last) = (samples.first()?, samples.last()?);
    let elapsed_s = last.t_s - first.t_s;
    if elapsed_s <= 0.0 {
        return None;
    }
    let services = last
        .services
        .iter()
        .filter_map(|(name, end)| {
            let begin = first.services.get(name)?;
            let all: Vec<&ServiceSample> = samples
                .iter()
                .filter_map(|sample| sample.services.get(name))
                .collect();
            Some((name.clone(), of_service(begin, end, &all, elapsed_s)))
        })
        .collect();
    let links = last.links.iter().filter_map(|(name, end)| {
        let begin = first.links.get(name)?;
        Some((name.clone(), end.since(begin)))
    });
    let costs_us: f64 = samples
        .iter()
        .map(|sample| sample.cost.as_secs_f64() * 1e6)
        .sum();
    let own: Vec<&HostSample> = samples.iter().map(|sample| &sample.host).collect();
    let remotes: Vec<&HostSample> = samples
        .iter()
        .filter_map(|sample| sample.remote.as_ref())
        .collect();
    let others = last
        .hosts
        .keys()
        .filter(|name| first.hosts.contains_key(*name));
    let hosts = others.map(|name| {
        let all = samples.iter().filter_map(|sample| sample.hosts.get(name));
        (name.clone(), of_host(&all.collect::<Vec<_>>(), elapsed_s))
    });
    let whole = first.remote.is_some() && last.remote.is_some();
    Some(Summary {
        elapsed_s,
        services,
        host: of_host(&own, elapsed_s),
        remote: whole.then(|| of_host(&remotes, elapsed_s)),
        hosts: hosts.collect(),
        links: links.collect(),
        sample_cost_us: costs_us / samples.len() as f64,
    })
}

fn of_service(
    begin: &ServiceSample,
    end: &ServiceSample,
    all: &[&ServiceSample],
    elapsed_s: f64,
) -> ServiceSummary {
    let (cpu_user_s, cpu_system_s) = cpu_between(begin, end);
    let network = network_between(&begin.network, &end.network);
    let per_s =
        |of: fn(&ServiceSample) -> u64| of(end).saturating_sub(of(begin)) as f64 / elapsed_s;
    let most =
        |of: fn(&ServiceSample) -> u64| all.iter().map(|sample| of(sample)).max().unwrap_or(0);
    ServiceSummary {
        host: end.host.clone(),
        cpu_s: cpu_user_s + cpu_system_s,
        cpu_user_s,
        cpu_system_s,
        cpu_user_percent: 100.0 * cpu_user_s / elapsed_s,
        cpu_system_percent: 100.0 * cpu_system_s / elapsed_s,
        memory_mean_bytes: mean(all.iter().map(|sample| sample.memory_bytes)),
        memory_max_bytes: most(|sample| sample.memory_bytes),
        memory_kind: end.memory_kind,
        context_switches_per_s: per_s(ServiceSample::context_switches),
        involuntary_switches_per_s: per_s(|sample| sample.involuntary_switches),
        open_files_max: most(|sample| sample.open_files),
        processes_max: most(|sample| sample.processes),
        network,
        network_sent_bits_per_s: 8.0 * network.sent as f64 / elapsed_s,
        interfaces: interfaces_between(&begin.interfaces, &end.interfaces),
        tcp: tcp_between(&begin.tcp, &end.tcp),
        hardware: hardware_between(begin.hardware, end.hardware),
        io: begin.io.zip(end.io).map(|(begin, end)| IoCounters {
            calls: end.calls.saturating_sub(begin.calls),
            disk_written_bytes: end
                .disk_written_bytes
                .saturating_sub(begin.disk_written_bytes),
        }),
    }
}

/// CPU seconds in user mode and in the kernel: the finest total, divided as the ticks are. A time
/// too short for a tick is divided as all the time since the start was.
fn cpu_between(begin: &ServiceSample, end: &ServiceSample) -> (f64, f64) {
    let user_s = grown(begin.cpu_user_s, end.cpu_user_s);
    let system_s = grown(begin.cpu_system_s, end.cpu_system_s);
    let total_s = grown(begin.cpu_s, end.cpu_s);
    let share = |user_s: f64, system_s: f64| {
        let both_s = user_s + system_s;
        (both_s > 0.0).then(|| user_s / both_s)
    };
    let user_share = share(user_s, system_s)
        .or_else(|| share(end.cpu_user_s, end.cpu_system_s))
        .unwrap_or(1.0);
    (total_s * user_share, total_s * (1.0 - user_share))
}

/// The figures of a machine; `all` is not empty.
fn of_host(all: &[&HostSample], elapsed_s: f64) -> HostSummary {
    let (Some(begin), Some(end)) = (all.first(), all.last()) else {
        return HostSummary::default();
    };
    let foreign_cpu_s = grown(begin.foreign_cpu_s, end.foreign_cpu_s);
    let cpu_steal_s = grown(begin.cpu_steal_s, end.cpu_steal_s);
    let generator = |host: &HostSample| host.generator_user_s + host.generator_system_s;
    let switches = end.context_switches.saturating_sub(begin.context_switches);
    HostSummary {
        cores: end.cores,
        cpu_user_s: grown(begin.cpu_user_s, end.cpu_user_s),
        cpu_system_s: grown(begin.cpu_system_s, end.cpu_system_s),
        cpu_softirq_s: grown(begin.cpu_softirq_s, end.cpu_softirq_s),
        cpu_irq_s: grown(begin.cpu_irq_s, end.cpu_irq_s),
        cpu_steal_s,
        cpu_idle_s: grown(begin.cpu_idle_s, end.cpu_idle_s),
        generator_cpu_s: grown(generator(begin), generator(end)),
        foreign_cpu_s,
        foreign_percent: 100.0 * foreign_cpu_s / elapsed_s,
        steal_percent: 100.0 * cpu_steal_s / elapsed_s,
        // The first sample's are about the time before it.
        foreign: foreign_between(&all[1..]),
        core_times: cores_between(&begin.core_times, &end.core_times),
        softirq_included: end.softirq_included,
        memory_used_mean_bytes: mean(all.iter().map(|host| host.memory_used_bytes)),
        context_switches_per_s: switches as f64 / elapsed_s,
        open_files_max: all.iter().map(|host| host.open_files).max().unwrap_or(0),
        load_average: end.load_average,
        interfaces: interfaces_between(&begin.interfaces, &end.interfaces),
        tcp: tcp_between(&begin.tcp, &end.tcp),
        hardware: hardware_between(begin.hardware, end.hardware),
    }
}

/// The foreign processes of several intervals, most CPU first.
fn foreign_between(intervals: &[&HostSample]) -> Vec<ForeignUse> {
    let mut by_pid: BTreeMap<(i32, &str), ForeignUse> = BTreeMap::new();
    for process in intervals.iter().flat_map(|host| &host.foreign) {
        let used = by_pid.entry((process.pid, &process.name)).or_default();
        used.cpu_s += process.cpu_s;
        if let Some(core) = process.core {
            *used.by_core.entry(core).or_default() += process.cpu_s;
        }
    }
    let named = by_pid.into_iter().map(|((pid, name), used)| ForeignUse {
        pid,
        name: name.to_owned(),
        ..used
    });
    let mut all: Vec<ForeignUse> = named.collect();
    all.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
    all
}

/// A core that was offline at either end is left out.
fn cores_between(
    begin: &BTreeMap<usize, CoreTimes>,
    end: &BTreeMap<usize, CoreTimes>,
) -> BTreeMap<usize, CoreTimes> {
    let of_one = |(core, end): (&usize, &CoreTimes)| {
        let begin = begin.get(core)?;
        let between = CoreTimes {
            user_s: grown(begin.user_s, end.user_s),
            system_s: grown(begin.system_s, end.system_s),
            softirq_s: grown(begin.softirq_s, end.softirq_s),
            irq_s: grown(begin.irq_s, end.irq_s),
            steal_s: grown(begin.steal_s, end.steal_s),
            idle_s: grown(begin.idle_s, end.idle_s),
        };
        Some((*core, between))
    };
    end.iter().filter_map(of_one).collect()
}

fn mean(values: impl ExactSizeIterator<Item = u64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.map(|value| value as f64).sum::<f64>() / count
}

fn network_between(begin: &NetworkBytes, end: &NetworkBytes) -> NetworkBytes {
    NetworkBytes {
        sent: end.sent.saturating_sub(begin.sent),
        received: end.received.saturating_sub(begin.received),
        packets_sent: end.packets_sent.saturating_sub(begin.packets_sent),
        packets_received: end.packets_received.saturating_sub(begin.packets_received),
        shared: end.shared,
    }
}

/// An interface that came meanwhile began with nothing.
fn interfaces_between(
    begin: &BTreeMap<String, Interface>,
    end: &BTreeMap<String, Interface>,
) -> BTreeMap<String, Interface> {
    let of_one = |(name, end): (&String, &Interface)| {
        let begin = begin.get(name).copied().unwrap_or_default();
        let between = Interface {
            sent: end.sent.saturating_sub(begin.sent),
            received: end.received.saturating_sub(begin.received),
            packets_sent: end.packets_sent.saturating_sub(begin.packets_sent),
            packets_received: end.packets_received.saturating_sub(begin.packets_received),
            packets_dropped: end.packets_dropped.saturating_sub(begin.packets_dropped),
        };
        (name.clone(), between)
    };
    end.iter().map(of_one).collect()
}

fn hardware_between(begin: Option<Hardware>, end: Option<Hardware>) -> Option<Hardware> {
    let (begin, end) = (begin?, end?);
    let between = |of: fn(&Hardware) -> Option<u64>| Some(of(&end)?.saturating_sub(of(&begin)?));
    Some(Hardware {
        cycles: between(|hardware| hardware.cycles),
        instructions: between(|hardware| hardware.instructions),
        cache_misses: between(|hardware| hardware.cache_misses),
    })
}

/// The growth of a total. A total may seem to fall by a tick when a process ends while it is read.
fn grown(begin: f64, end: f64) -> f64 {
    (end - begin).max(0.0)
}

fn tcp_between(begin: &TcpCounters, end: &TcpCounters) -> TcpCounters {
    TcpCounters {
        listen_overflows: end.listen_overflows.saturating_sub(begin.listen_overflows),
        listen_drops: end.listen_drops.saturating_sub(begin.listen_drops),
        retransmitted_segments: end
            .retransmitted_segments
            .saturating_sub(begin.retransmitted_segments),
        connects: end.connects.saturating_sub(begin.connects),
        segments_sent: end.segments_sent.saturating_sub(begin.segments_sent),
        resets_sent: end.resets_sent.saturating_sub(begin.resets_sent),
        established_resets: end
            .established_resets
            .saturating_sub(begin.established_resets),
        syn_cookies_sent: end.syn_cookies_sent.saturating_sub(begin.syn_cookies_sent),
        established: end.established,
        time_wait: end.time_wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::ForeignProcess;
    use std::time::Duration;

    fn sample(t_s: f64, cpu_s: f64, memory_bytes: u64, switches: u64, top: f64) -> Sample {
        let service = ServiceSample {
            cpu_s: cpu_s * 1.5,
            cpu_user_s: cpu_s,
            cpu_system_s: cpu_s / 2.0,
            memory_bytes,
            voluntary_switches: switches / 2,
            involuntary_switches: switches / 2,
            network: NetworkBytes {
                sent: 1000 * switches,
                ..NetworkBytes::default()
            },
            hardware: Some(Hardware {
                instructions: Some(7 * switches),
                ..Hardware::default()
            }),
            tcp: TcpCounters {
                listen_drops: switches,
                time_wait: switches,
                ..TcpCounters::default()
            },
            ..ServiceSample::default()
        };
        let foreign = ForeignProcess {
            pid: 9,
            name: "yes".to_owned(),
            cpu_s: top,
            core: Some(switches as usize % 4),
        };
        let core = CoreTimes {
            idle_s: t_s / 2.0,
            ..CoreTimes::default()
        };
        let crossed = LinkTraffic {
            forth_bytes: 100 * switches,
            back_bytes: 7,
            ..LinkTraffic::default()
        };
        Sample {
            t_s,
            services: [("web".to_owned(), service)].into(),
            host: HostSample {
                foreign_cpu_s: t_s / 4.0,
                cpu_steal_s: 1.0,
                foreign: vec![foreign],
                core_times: [(3, core)].into(),
                ..HostSample::default()
            },
            remote: None,
            hosts: BTreeMap::new(),
            links: [("wan".to_owned(), crossed)].into(),
            cost: Duration::from_micros(100),
        }
    }

    #[test]
    fn totals_become_differences_and_rates() {
        let samples = [
            sample(1.0, 5.0, 100, 10, 9.0),
            sample(2.0, 5.1, 300, 30, 0.5),
            sample(3.0, 6.0, 200, 50, 0.1),
        ];
        let summary = summary(&samples).unwrap();
        let web = &summary.services["web"];
        assert!((web.cpu_user_percent - 50.0).abs() < 1e-9);
        assert!((web.cpu_system_percent - 25.0).abs() < 1e-9);
        assert!((web.memory_mean_bytes - 200.0).abs() < 1e-9);
        assert_eq!(web.memory_max_bytes, 300);
        let wan = summary.links["wan"];
        assert_eq!((wan.forth_bytes, wan.back_bytes), (4_000, 0));
        assert!((web.context_switches_per_s - 20.0).abs() < 1e-9);
        assert!((web.involuntary_switches_per_s - 10.0).abs() < 1e-9);
        assert!((web.network_sent_bits_per_s - 160_000.0).abs() < 1e-6);
        let hardware = web.hardware.unwrap();
        assert_eq!((hardware.instructions, hardware.cycles), (Some(280), None));
        assert_eq!(summary.remote, None);
        assert_eq!((web.tcp.listen_drops, web.tcp.time_wait), (40, 50));
        assert!((summary.host.foreign_percent - 25.0).abs() < 1e-9);
        assert!((summary.host.steal_percent).abs() < 1e-9);
        let foreign = &summary.host.foreign[0];
        assert!(
            (foreign.cpu_s - 0.6).abs() < 1e-9,
            "the first sample's time is before the trial"
        );
        assert!((foreign.by_core[&2] - 0.6).abs() < 1e-9);
        assert!((summary.host.core_times[&3].idle_s - 1.0).abs() < 1e-9);
        assert!((summary.sample_cost_us - 100.0).abs() < 1e-9);
    }

    #[test]
    fn the_finest_total_is_divided_as_the_ticks_are() {
        let service = |cpu_s: f64, user_s: f64, system_s: f64| ServiceSample {
            cpu_s,
            cpu_user_s: user_s,
            cpu_system_s: system_s,
            ..ServiceSample::default()
        };
        let near = |(user_s, system_s): (f64, f64), expected: (f64, f64)| {
            assert!((user_s - expected.0).abs() < 1e-9, "{user_s}");
            assert!((system_s - expected.1).abs() < 1e-9, "{system_s}");
        };
        let begin = service(1.0, 0.60, 0.39);
        near(
            cpu_between(&begin, &service(1.044, 0.63, 0.40)),
            (0.033, 0.011),
        );
        // Less than a tick: as before.
        near(
            cpu_between(&service(1.0, 0.75, 0.25), &service(1.004, 0.75, 0.25)),
            (0.003, 0.001),
        );
        near(
            cpu_between(&service(0.0, 0.0, 0.0), &service(0.004, 0.0, 0.0)),
            (0.004, 0.0),
        );
    }

    #[test]
    fn no_summary_without_two_moments() {
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[sample(1.0, 0.0, 0, 0, 0.0)]), None);
    }

    #[test]
    fn a_service_that_came_later_is_left_out() {
        let mut first = sample(0.0, 0.0, 0, 0, 0.0);
        first.services.clear();
        assert!(
            summary(&[first, sample(1.0, 1.0, 1, 1, 0.0)])
                .unwrap()
                .services
                .is_empty()
        );
    }
}
