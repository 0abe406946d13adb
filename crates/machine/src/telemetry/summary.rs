//! Summary of a trial's telemetry, computed from its samples. All functions here are pure.

use std::collections::BTreeMap;

use prony_record::{MemoryEvents, Throttling};

use super::difference::{
    cores_between, cpu_between, grown, hardware_between, interfaces_between, memory_events_between,
    network_between, tcp_between, throttling_between, udp_between,
};
use super::{
    CoreTimes, HardwareCounters, HostSample, InterfaceCounters, IoCounters, LinkTraffic,
    MemoryKind, NetworkBytes, ServiceSample, TcpCounters, TelemetrySample, UdpCounters,
};

/// Resource usage of one service between the first and the last sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceSummary {
    /// Name of the agent whose machine runs the service; `None` for this machine.
    pub host: Option<String>,
    /// CPU seconds from the most precise source.
    pub cpu_s: f64,
    /// User part of `cpu_s`, estimated from the ratio of user to kernel clock ticks.
    pub cpu_user_s: f64,
    /// Kernel part of `cpu_s`, estimated from the ratio of user to kernel clock ticks.
    pub cpu_system_s: f64,
    /// User CPU time in percent of one core.
    pub cpu_user_percent: f64,
    /// Kernel CPU time in percent of one core.
    pub cpu_system_percent: f64,
    /// Mean memory of the service in bytes over all samples.
    pub memory_mean_bytes: f64,
    /// Maximum memory of the service in bytes over all samples.
    pub memory_max_bytes: u64,
    /// Definition of the memory sizes in this summary.
    pub memory_kind: MemoryKind,
    /// Context switches per second.
    pub context_switches_per_s: f64,
    /// Involuntary context switches (preemptions) per second.
    pub involuntary_switches_per_s: f64,
    /// Maximum number of open files of the service over all samples.
    pub open_files_max: u64,
    /// Maximum number of processes of the service over all samples.
    pub processes_max: u64,
    /// Traffic on the network of the service's place between the samples.
    pub network: NetworkBytes,
    /// Bits per second that the service's place sent.
    pub network_sent_bits_per_s: f64,
    /// Traffic on each interface in the network namespace of the service's place, between the
    /// samples.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    /// TCP counters of the place's network namespace: the increase of totals between the samples,
    /// and gauges from the last sample.
    pub tcp: TcpCounters,
    /// UDP counters of the place's network namespace: the increase between the samples.
    pub udp: UdpCounters,
    /// Hardware counters of the service: the increase between the samples; `None` if unavailable.
    pub hardware: Option<HardwareCounters>,
    /// I/O of the service between the samples; `None` if the kernel doesn't report it.
    pub io: Option<IoCounters>,
    /// CPU quota of the service's control group between the samples; `None` without a quota.
    pub throttling: Option<Throttling>,
    /// Memory limit of the service's control group between the samples; `None` without a limit.
    pub memory_events: Option<MemoryEvents>,
}

/// Resource usage of a machine between the first and the last sample. CPU seconds are sums over all
/// cores.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostSummary {
    /// Seconds that the machine's cores counted between the samples. In an interleaved block, this
    /// is more than the time to which the usage of services is attributed.
    pub elapsed_s: f64,
    /// Number of online cores.
    pub cores: usize,
    /// CPU seconds in user mode.
    pub cpu_user_s: f64,
    /// CPU seconds in kernel mode on behalf of processes.
    pub cpu_system_s: f64,
    /// CPU seconds in soft interrupts.
    pub cpu_softirq_s: f64,
    /// CPU seconds in hard interrupts.
    pub cpu_irq_s: f64,
    /// CPU seconds that the hypervisor gave to other guests.
    pub cpu_steal_s: f64,
    /// Idle CPU seconds.
    pub cpu_idle_s: f64,
    /// CPU seconds of this process.
    pub generator_cpu_s: f64,
    /// CPU seconds of processes that belong neither to prony nor to a service; never negative.
    pub foreign_cpu_s: f64,
    /// `foreign_cpu_s` in percent of one core.
    pub foreign_percent: f64,
    /// Stolen CPU time in percent of one core.
    pub steal_percent: f64,
    /// Foreign processes that used the most CPU time between the samples, busiest first.
    pub foreign: Vec<ForeignUse>,
    /// CPU times of each core, by core number; empty if the operating system reports only sums.
    pub core_times: BTreeMap<usize, CoreTimes>,
    /// True if the CPU time of processes includes interrupts; see [`HostSample::softirq_included`].
    pub softirq_included: Option<bool>,
    /// Mean used memory in bytes over all samples.
    pub memory_used_mean_bytes: f64,
    /// Context switches of all cores per second.
    pub context_switches_per_s: f64,
    /// Maximum number of open files on the machine over all samples.
    pub open_files_max: u64,
    /// Load average at the last sample.
    pub load_average: f64,
    /// Traffic on each interface in the machine's own network namespace between the samples.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    /// TCP counters of the machine's own network namespace: the increase of totals between the
    /// samples, and gauges from the last sample.
    pub tcp: TcpCounters,
    /// UDP counters of the machine's own network namespace: the increase between the samples.
    pub udp: UdpCounters,
    /// Hardware counters of all cores: the increase between the samples; `None` if unavailable.
    pub hardware: Option<HardwareCounters>,
}

/// CPU time of a process that belongs neither to prony nor to its services.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ForeignUse {
    /// Process ID.
    pub pid: i32,
    /// Process name, as the kernel reports it.
    pub name: String,
    /// Total CPU seconds of the process.
    pub cpu_s: f64,
    /// CPU seconds by the core on which the process last ran, without those for which the core is
    /// unknown.
    pub by_core: BTreeMap<usize, f64>,
}

/// Summary of one trial's telemetry.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TelemetrySummary {
    /// Seconds between the first and the last sample.
    pub elapsed_s: f64,
    /// Summaries of the services that are in both the first and the last sample.
    pub services: BTreeMap<String, ServiceSummary>,
    /// Summary of this machine.
    pub host: HostSummary,
    /// Summary of the machine that is read over ssh, if it responded at the start and at the end.
    pub remote: Option<HostSummary>,
    /// Summaries of the machines of agents that responded at the start and at the end, by agent
    /// name.
    pub hosts: BTreeMap<String, HostSummary>,
    /// Traffic of each link between named places, between the first and the last sample.
    pub links: BTreeMap<String, LinkTraffic>,
    /// Round-trip times of emulated links before the load, in microseconds.
    pub round_trips_us: BTreeMap<String, f64>,
    /// Mean time that it took to read a sample, in microseconds.
    pub sample_cost_us: f64,
}

impl TelemetrySummary {
    /// Returns the summary of the machine that runs a service or, without telemetry of that
    /// machine, the summary of this machine.
    #[must_use]
    pub fn machine_of(&self, service: &str) -> &HostSummary {
        let host = self.services.get(service).and_then(|it| it.host.as_ref());
        let elsewhere = host.and_then(|host| self.hosts.get(host));
        elsewhere.or(self.remote.as_ref()).unwrap_or(&self.host)
    }

    /// Iterates over the summaries of this machine and of the agents' machines.
    pub fn machines(&self) -> impl Iterator<Item = &HostSummary> {
        std::iter::once(&self.host).chain(self.hosts.values())
    }
}

/// Summarizes samples, which must be in the order in which they were taken. Returns `None` unless
/// the last sample is later than the first one.
#[must_use]
pub fn summary(samples: &[TelemetrySample]) -> Option<TelemetrySummary> {
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
    Some(TelemetrySummary {
        elapsed_s,
        services,
        host: of_host(&own, elapsed_s),
        remote: whole.then(|| of_host(&remotes, elapsed_s)),
        hosts: hosts.collect(),
        links: links.collect(),
        round_trips_us: last.round_trips_us.clone(),
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
        udp: udp_between(&begin.udp, &end.udp),
        hardware: hardware_between(begin.hardware, end.hardware),
        io: begin.io.zip(end.io).map(|(begin, end)| IoCounters {
            calls: end.calls.saturating_sub(begin.calls),
            disk_written_bytes: end
                .disk_written_bytes
                .saturating_sub(begin.disk_written_bytes),
        }),
        throttling: throttling_between(begin.throttling, end.throttling),
        memory_events: memory_events_between(begin.memory_events, end.memory_events),
    }
}

/// Summarizes the samples of a machine. `all` must not be empty.
fn of_host(all: &[&HostSample], elapsed_s: f64) -> HostSummary {
    let (Some(begin), Some(end)) = (all.first(), all.last()) else {
        return HostSummary::default();
    };
    let foreign_cpu_s = grown(begin.foreign_cpu_s, end.foreign_cpu_s);
    let cpu_steal_s = grown(begin.cpu_steal_s, end.cpu_steal_s);
    let elapsed_s = counted_s(begin, end).max(elapsed_s);
    let generator = |host: &HostSample| host.generator_user_s + host.generator_system_s;
    let switches = end.context_switches.saturating_sub(begin.context_switches);
    HostSummary {
        elapsed_s,
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
        // Skip the foreign processes of the first sample, because their CPU time was used before
        // that sample.
        foreign: foreign_between(&all[1..]),
        core_times: cores_between(&begin.core_times, &end.core_times),
        softirq_included: end.softirq_included,
        memory_used_mean_bytes: mean(all.iter().map(|host| host.memory_used_bytes)),
        context_switches_per_s: switches as f64 / elapsed_s,
        open_files_max: all.iter().map(|host| host.open_files).max().unwrap_or(0),
        load_average: end.load_average,
        interfaces: interfaces_between(&begin.interfaces, &end.interfaces),
        tcp: tcp_between(&begin.tcp, &end.tcp),
        udp: udp_between(&begin.udp, &end.udp),
        hardware: hardware_between(begin.hardware, end.hardware),
    }
}

/// Returns the time that the cores of a machine counted between two samples, busy or idle; zero if
/// the number of cores is unknown.
fn counted_s(begin: &HostSample, end: &HostSample) -> f64 {
    let all = |host: &HostSample| {
        let busy = host.cpu_user_s + host.cpu_system_s + host.cpu_softirq_s + host.cpu_irq_s;
        busy + host.cpu_steal_s + host.cpu_idle_s
    };
    match end.cores {
        0 => 0.0,
        cores => grown(all(begin), all(end)) / cores as f64,
    }
}

/// Adds up the foreign processes of several intervals, sorted by CPU time in descending order.
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

fn mean(values: impl ExactSizeIterator<Item = u64>) -> f64 {
    let count = values.len().max(1) as f64;
    values.map(|value| value as f64).sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::ForeignProcess;
    use std::time::Duration;

    fn sample(t_s: f64, cpu_s: f64, memory_bytes: u64, switches: u64, top: f64) -> TelemetrySample {
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
            hardware: Some(HardwareCounters {
                instructions: Some(7 * switches),
                ..HardwareCounters::default()
            }),
            tcp: TcpCounters {
                listen_drops: switches,
                time_wait: switches,
                ..TcpCounters::default()
            },
            udp: UdpCounters {
                receive_buffer_drops: 3 * switches,
                ..UdpCounters::default()
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
            forward_bytes: 100 * switches,
            reverse_bytes: 7,
            ..LinkTraffic::default()
        };
        TelemetrySample {
            t_s,
            services: [("web".to_owned(), service)].into(),
            host: HostSample {
                foreign_cpu_s: t_s / 4.0,
                cpu_steal_s: 1.0,
                foreign: vec![foreign],
                core_times: [(3, core)].into(),
                ..HostSample::default()
            },
            links: [("wan".to_owned(), crossed)].into(),
            cost: Duration::from_micros(100),
            ..TelemetrySample::default()
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
        assert_eq!((wan.forward_bytes, wan.reverse_bytes), (4_000, 0));
        assert!((web.context_switches_per_s - 20.0).abs() < 1e-9);
        assert!((web.involuntary_switches_per_s - 10.0).abs() < 1e-9);
        assert!((web.network_sent_bits_per_s - 160_000.0).abs() < 1e-6);
        let hardware = web.hardware.unwrap();
        assert_eq!((hardware.instructions, hardware.cycles), (Some(280), None));
        assert_eq!(summary.remote, None);
        assert_eq!((web.tcp.listen_drops, web.tcp.time_wait), (40, 50));
        assert_eq!(web.udp.receive_buffer_drops, 120);
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
    fn a_machine_never_uses_more_than_all_of_its_cores() {
        // In an interleaved block, the samples are further apart than the time of the load.
        let at = |t_s: f64, busy_s: f64| {
            let mut sample = sample(t_s, 0.0, 0, 0, 0.0);
            sample.host.cores = 2;
            sample.host.cpu_user_s = busy_s;
            sample.host.foreign_cpu_s = busy_s;
            sample
        };
        let summary = summary(&[at(0.0, 0.0), at(1.0, 2.6)]).unwrap();
        assert!((summary.host.foreign_percent - 200.0).abs() < 1e-9);
        assert!((summary.host.elapsed_s - 1.3).abs() < 1e-9);
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
        // Less than one tick passed, so the CPU time is divided in the same proportion as all
        // earlier time.
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
