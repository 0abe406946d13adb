//! The figures of a trial out of its samples. Pure functions.

use std::collections::BTreeMap;

use super::{ForeignProcess, MemoryKind, NetworkBytes, Sample, ServiceSample, TcpCounters};

/// What one service used between the first and the last sample.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceSummary {
    /// CPU seconds in user mode.
    pub cpu_user_s: f64,
    /// CPU seconds in the kernel.
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
    /// Most open files in a sample.
    pub open_files_max: u64,
    /// Most processes in a sample.
    pub processes_max: u64,
    /// Bytes that its place sent and received in this time.
    pub network: NetworkBytes,
    /// Bits per second that its place sent.
    pub network_sent_bits_per_s: f64,
    /// TCP counters of its place: totals as differences, gauges as at the last sample.
    pub tcp: TcpCounters,
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
    /// In interrupts.
    pub cpu_softirq_s: f64,
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
    /// The foreign process that used most CPU in any one interval between samples.
    pub top_foreign: Option<ForeignProcess>,
    /// Load average at the last sample.
    pub load_average: f64,
    /// TCP counters of the host's own namespace: totals as differences, gauges as at the last sample.
    pub tcp: TcpCounters,
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
    /// Mean cost of a sample, microseconds.
    pub sample_cost_us: f64,
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
    let costs_us: f64 = samples
        .iter()
        .map(|sample| sample.cost.as_secs_f64() * 1e6)
        .sum();
    Some(Summary {
        elapsed_s,
        services,
        host: of_host(first, last, samples, elapsed_s),
        sample_cost_us: costs_us / samples.len() as f64,
    })
}

fn of_service(
    begin: &ServiceSample,
    end: &ServiceSample,
    all: &[&ServiceSample],
    elapsed_s: f64,
) -> ServiceSummary {
    let cpu_user_s = grown(begin.cpu_user_s, end.cpu_user_s);
    let cpu_system_s = grown(begin.cpu_system_s, end.cpu_system_s);
    let sent = end.network.sent.saturating_sub(begin.network.sent);
    let received = end.network.received.saturating_sub(begin.network.received);
    let switches = end.context_switches.saturating_sub(begin.context_switches);
    let memory_sum: f64 = all.iter().map(|sample| sample.memory_bytes as f64).sum();
    let most =
        |of: fn(&ServiceSample) -> u64| all.iter().map(|sample| of(sample)).max().unwrap_or(0);
    ServiceSummary {
        cpu_user_s,
        cpu_system_s,
        cpu_user_percent: 100.0 * cpu_user_s / elapsed_s,
        cpu_system_percent: 100.0 * cpu_system_s / elapsed_s,
        memory_mean_bytes: memory_sum / all.len().max(1) as f64,
        memory_max_bytes: most(|sample| sample.memory_bytes),
        memory_kind: end.memory_kind,
        context_switches_per_s: switches as f64 / elapsed_s,
        open_files_max: most(|sample| sample.open_files),
        processes_max: most(|sample| sample.processes),
        network: NetworkBytes {
            sent,
            received,
            shared: end.network.shared,
        },
        network_sent_bits_per_s: 8.0 * sent as f64 / elapsed_s,
        tcp: tcp_between(&begin.tcp, &end.tcp),
    }
}

fn of_host(first: &Sample, last: &Sample, samples: &[Sample], elapsed_s: f64) -> HostSummary {
    let (begin, end) = (&first.host, &last.host);
    let foreign_cpu_s = grown(begin.foreign_cpu_s, end.foreign_cpu_s);
    let cpu_steal_s = grown(begin.cpu_steal_s, end.cpu_steal_s);
    let generator = |host: &super::HostSample| host.generator_user_s + host.generator_system_s;
    HostSummary {
        cores: end.cores,
        cpu_user_s: grown(begin.cpu_user_s, end.cpu_user_s),
        cpu_system_s: grown(begin.cpu_system_s, end.cpu_system_s),
        cpu_softirq_s: grown(begin.cpu_softirq_s, end.cpu_softirq_s),
        cpu_steal_s,
        cpu_idle_s: grown(begin.cpu_idle_s, end.cpu_idle_s),
        generator_cpu_s: grown(generator(begin), generator(end)),
        foreign_cpu_s,
        foreign_percent: 100.0 * foreign_cpu_s / elapsed_s,
        steal_percent: 100.0 * cpu_steal_s / elapsed_s,
        // The first sample's speaks of a time before it.
        top_foreign: samples[1..]
            .iter()
            .filter_map(|sample| sample.host.top_foreign.as_ref())
            .max_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s))
            .cloned(),
        load_average: end.load_average,
        tcp: tcp_between(&begin.tcp, &end.tcp),
    }
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
        resets_sent: end.resets_sent.saturating_sub(begin.resets_sent),
        established: end.established,
        time_wait: end.time_wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::HostSample;
    use std::time::Duration;

    fn sample(t_s: f64, cpu_s: f64, memory_bytes: u64, switches: u64, top: f64) -> Sample {
        let service = ServiceSample {
            cpu_user_s: cpu_s,
            cpu_system_s: cpu_s / 2.0,
            memory_bytes,
            context_switches: switches,
            network: NetworkBytes {
                sent: 1000 * switches,
                received: 0,
                shared: false,
            },
            tcp: TcpCounters {
                listen_drops: switches,
                time_wait: switches,
                ..TcpCounters::default()
            },
            ..ServiceSample::default()
        };
        let top_foreign = Some(ForeignProcess {
            pid: 9,
            name: format!("{top}"),
            cpu_s: top,
        });
        Sample {
            t_s,
            services: [("web".to_owned(), service)].into(),
            host: HostSample {
                foreign_cpu_s: t_s / 4.0,
                cpu_steal_s: 1.0,
                top_foreign,
                ..HostSample::default()
            },
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
        assert!((web.context_switches_per_s - 20.0).abs() < 1e-9);
        assert!((web.network_sent_bits_per_s - 160_000.0).abs() < 1e-6);
        assert_eq!((web.tcp.listen_drops, web.tcp.time_wait), (40, 50));
        assert!((summary.host.foreign_percent - 25.0).abs() < 1e-9);
        assert!((summary.host.steal_percent).abs() < 1e-9);
        assert_eq!(
            summary.host.top_foreign.unwrap().name,
            "0.5",
            "the first sample's lies before the trial"
        );
        assert!((summary.sample_cost_us - 100.0).abs() < 1e-9);
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
