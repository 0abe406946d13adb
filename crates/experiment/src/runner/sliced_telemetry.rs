//! Telemetry of interleaved blocks. Resource usage during a slice is attributed to the slice's
//! variant.
//!
//! Samples are taken between slices, when no request is in flight. The increase between the samples
//! before and after a slice belongs to the slice's variant. The sums over a variant's slices form
//! samples like those of a variant that runs alone, so all other code can use them as usual.

use std::collections::BTreeMap;

use prony_machine::telemetry::difference::{
    cores_between, grown, hardware_between, interfaces_between, memory_events_between,
    network_between, tcp_between, throttling_between, udp_between,
};
use prony_machine::telemetry::{
    CoreTimes, HardwareCounters, HostSample, InterfaceCounters, IoCounters, NetworkBytes,
    ServiceSample, TcpCounters, TelemetrySample, UdpCounters,
};
use prony_record::{MemoryEvents, Throttling};

use super::scoped_name::ScopedName;

/// Returns a sample with only one variant's services, with their names in the plan.
pub(super) fn sample_of_variant(mut sample: TelemetrySample, variant: usize) -> TelemetrySample {
    let own = |(name, sample): (String, ServiceSample)| {
        let (service, of) = ScopedName::parse(&name)?;
        (of == variant).then(|| (service.to_owned(), sample))
    };
    sample.services = sample.services.into_iter().filter_map(own).collect();
    sample
}

/// Resource usage during one variant's slices, in the form of samples.
#[derive(Debug)]
pub(super) struct SlicedTelemetry {
    variant: usize,
    samples: Vec<TelemetrySample>,
    /// CPU seconds that the variant's services used during other variants' slices.
    idle_cpu_s: f64,
    /// Total duration of the other variants' slices in seconds.
    idle_s: f64,
}

impl SlicedTelemetry {
    /// Creates the telemetry of a variant. `first` is the first sample of the block.
    pub(super) fn new(variant: usize, first: &TelemetrySample) -> SlicedTelemetry {
        let mut first = sample_of_variant(first.clone(), variant);
        first.t_s = 0.0;
        SlicedTelemetry {
            variant,
            samples: vec![first],
            idle_cpu_s: 0.0,
            idle_s: 0.0,
        }
    }

    /// Adds a slice of this variant. The resource usage is later divided by the sum of `length_s`.
    pub(super) fn add(&mut self, before: &TelemetrySample, after: &TelemetrySample, length_s: f64) {
        let Some(last) = self.samples.last() else {
            return;
        };
        let before = sample_of_variant(before.clone(), self.variant);
        let after = sample_of_variant(after.clone(), self.variant);
        let next = TelemetrySample {
            t_s: last.t_s + length_s,
            services: by_name(&last.services, &before.services, &after.services, service),
            host: host(&last.host, &before.host, &after.host),
            ..after
        };
        self.samples.push(next);
    }

    /// Adds a slice of another variant.
    pub(super) fn add_idle(&mut self, before: &TelemetrySample, after: &TelemetrySample) {
        let cpu_s = |sample: &TelemetrySample| {
            let own = sample.services.iter().filter(|(name, _)| {
                ScopedName::parse(name).is_some_and(|(_, variant)| variant == self.variant)
            });
            own.map(|(_, service)| service.cpu_s).sum()
        };
        self.idle_cpu_s += grown(cpu_s(before), cpu_s(after));
        self.idle_s += grown(before.t_s, after.t_s);
    }

    /// Returns the CPU time that the variant's services used during other variants' slices, in
    /// percent of one core.
    pub(super) fn idle_percent(&self) -> Option<f64> {
        (self.idle_s > 0.0).then(|| 100.0 * self.idle_cpu_s / self.idle_s)
    }

    pub(super) fn into_samples(self) -> Vec<TelemetrySample> {
        self.samples
    }
}

/// Applies `sum` to each entry that is contained in all three maps.
fn by_name<T>(
    last: &BTreeMap<String, T>,
    before: &BTreeMap<String, T>,
    after: &BTreeMap<String, T>,
    sum: fn(&T, &T, &T) -> T,
) -> BTreeMap<String, T> {
    let of_one = |(name, after): (&String, &T)| {
        let sum = sum(last.get(name)?, before.get(name)?, after);
        Some((name.clone(), sum))
    };
    after.iter().filter_map(of_one).collect()
}

/// Adds the increase of all totals between `before` and `after` to `last`. Gauges are taken from
/// `after`.
fn service(last: &ServiceSample, before: &ServiceSample, after: &ServiceSample) -> ServiceSample {
    let seconds = |of: fn(&ServiceSample) -> f64| of(last) + grown(of(before), of(after));
    let count = |of: fn(&ServiceSample) -> u64| of(last) + of(after).saturating_sub(of(before));
    let network = network_between(&before.network, &after.network);
    ServiceSample {
        cpu_s: seconds(|it| it.cpu_s),
        cpu_user_s: seconds(|it| it.cpu_user_s),
        cpu_system_s: seconds(|it| it.cpu_system_s),
        voluntary_switches: count(|it| it.voluntary_switches),
        involuntary_switches: count(|it| it.involuntary_switches),
        network: NetworkBytes {
            sent: last.network.sent + network.sent,
            received: last.network.received + network.received,
            packets_sent: last.network.packets_sent + network.packets_sent,
            packets_received: last.network.packets_received + network.packets_received,
            shared: network.shared,
        },
        interfaces: interfaces(&last.interfaces, &before.interfaces, &after.interfaces),
        tcp: tcp(&last.tcp, &before.tcp, &after.tcp),
        udp: udp(&last.udp, &before.udp, &after.udp),
        hardware: hardware(last.hardware, before.hardware, after.hardware),
        io: io(last.io, before.io, after.io),
        throttling: throttling(last.throttling, before.throttling, after.throttling),
        memory_events: memory_events(
            last.memory_events,
            before.memory_events,
            after.memory_events,
        ),
        ..after.clone()
    }
}

fn host(last: &HostSample, before: &HostSample, after: &HostSample) -> HostSample {
    let seconds = |of: fn(&HostSample) -> f64| of(last) + grown(of(before), of(after));
    HostSample {
        cpu_user_s: seconds(|it| it.cpu_user_s),
        cpu_system_s: seconds(|it| it.cpu_system_s),
        cpu_softirq_s: seconds(|it| it.cpu_softirq_s),
        cpu_irq_s: seconds(|it| it.cpu_irq_s),
        cpu_steal_s: seconds(|it| it.cpu_steal_s),
        cpu_idle_s: seconds(|it| it.cpu_idle_s),
        core_times: cores(&last.core_times, &before.core_times, &after.core_times),
        generator_user_s: seconds(|it| it.generator_user_s),
        generator_system_s: seconds(|it| it.generator_system_s),
        // This total can decrease by a few ticks.
        foreign_cpu_s: last.foreign_cpu_s + (after.foreign_cpu_s - before.foreign_cpu_s),
        context_switches: last.context_switches
            + after
                .context_switches
                .saturating_sub(before.context_switches),
        interfaces: interfaces(&last.interfaces, &before.interfaces, &after.interfaces),
        tcp: tcp(&last.tcp, &before.tcp, &after.tcp),
        udp: udp(&last.udp, &before.udp, &after.udp),
        hardware: hardware(last.hardware, before.hardware, after.hardware),
        ..after.clone()
    }
}

fn cores(
    last: &BTreeMap<usize, CoreTimes>,
    before: &BTreeMap<usize, CoreTimes>,
    after: &BTreeMap<usize, CoreTimes>,
) -> BTreeMap<usize, CoreTimes> {
    let growth = cores_between(before, after).into_iter();
    let sum = growth.filter_map(|(core, growth)| {
        let last = last.get(&core)?;
        let sum = CoreTimes {
            user_s: last.user_s + growth.user_s,
            system_s: last.system_s + growth.system_s,
            softirq_s: last.softirq_s + growth.softirq_s,
            irq_s: last.irq_s + growth.irq_s,
            steal_s: last.steal_s + growth.steal_s,
            idle_s: last.idle_s + growth.idle_s,
        };
        Some((core, sum))
    });
    sum.collect()
}

fn interfaces(
    last: &BTreeMap<String, InterfaceCounters>,
    before: &BTreeMap<String, InterfaceCounters>,
    after: &BTreeMap<String, InterfaceCounters>,
) -> BTreeMap<String, InterfaceCounters> {
    let growth = interfaces_between(before, after).into_iter();
    let sum = growth.map(|(name, growth)| {
        let last = last.get(&name).copied().unwrap_or_default();
        let sum = InterfaceCounters {
            sent: last.sent + growth.sent,
            received: last.received + growth.received,
            packets_sent: last.packets_sent + growth.packets_sent,
            packets_received: last.packets_received + growth.packets_received,
            packets_dropped: last.packets_dropped + growth.packets_dropped,
        };
        (name, sum)
    });
    sum.collect()
}

fn tcp(last: &TcpCounters, before: &TcpCounters, after: &TcpCounters) -> TcpCounters {
    let growth = tcp_between(before, after);
    TcpCounters {
        listen_overflows: last.listen_overflows + growth.listen_overflows,
        listen_drops: last.listen_drops + growth.listen_drops,
        retransmitted_segments: last.retransmitted_segments + growth.retransmitted_segments,
        connects: last.connects + growth.connects,
        segments_sent: last.segments_sent + growth.segments_sent,
        resets_sent: last.resets_sent + growth.resets_sent,
        established_resets: last.established_resets + growth.established_resets,
        syn_cookies_sent: last.syn_cookies_sent + growth.syn_cookies_sent,
        ..growth
    }
}

fn udp(last: &UdpCounters, before: &UdpCounters, after: &UdpCounters) -> UdpCounters {
    let growth = udp_between(before, after);
    UdpCounters {
        received: last.received + growth.received,
        sent: last.sent + growth.sent,
        receive_buffer_drops: last.receive_buffer_drops + growth.receive_buffer_drops,
        send_buffer_drops: last.send_buffer_drops + growth.send_buffer_drops,
    }
}

fn hardware(
    last: Option<HardwareCounters>,
    before: Option<HardwareCounters>,
    after: Option<HardwareCounters>,
) -> Option<HardwareCounters> {
    let (last, growth) = (last?, hardware_between(before, after)?);
    let sum = |of: fn(&HardwareCounters) -> Option<u64>| Some(of(&last)? + of(&growth)?);
    Some(HardwareCounters {
        cycles: sum(|it| it.cycles),
        instructions: sum(|it| it.instructions),
        cache_misses: sum(|it| it.cache_misses),
    })
}

fn throttling(
    last: Option<Throttling>,
    before: Option<Throttling>,
    after: Option<Throttling>,
) -> Option<Throttling> {
    Some(last?.and(throttling_between(before, after)?))
}

fn memory_events(
    last: Option<MemoryEvents>,
    before: Option<MemoryEvents>,
    after: Option<MemoryEvents>,
) -> Option<MemoryEvents> {
    Some(last?.and(memory_events_between(before, after)?))
}

fn io(
    last: Option<IoCounters>,
    before: Option<IoCounters>,
    after: Option<IoCounters>,
) -> Option<IoCounters> {
    let (last, before, after) = (last?, before?, after?);
    let written = after
        .disk_written_bytes
        .saturating_sub(before.disk_written_bytes);
    Some(IoCounters {
        calls: last.calls + after.calls.saturating_sub(before.calls),
        disk_written_bytes: last.disk_written_bytes + written,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a sample with the services of two variants, which have used the given CPU seconds.
    fn sample(t_s: f64, cpu_s: [f64; 2], softirq_s: f64) -> TelemetrySample {
        let service = |cpu_s: f64| ServiceSample {
            cpu_s,
            cpu_user_s: cpu_s,
            memory_bytes: 7,
            ..ServiceSample::default()
        };
        let services = cpu_s.iter().enumerate();
        TelemetrySample {
            t_s,
            services: services
                .map(|(variant, cpu_s)| (ScopedName::new("web", variant).0, service(*cpu_s)))
                .collect(),
            host: HostSample {
                cpu_softirq_s: softirq_s,
                ..HostSample::default()
            },
            ..TelemetrySample::default()
        }
    }

    #[test]
    fn usage_belongs_to_the_variant_whose_slice_it_was() {
        let samples = [
            sample(100.0, [5.0, 9.0], 1.0),
            // Slices of the first variant, the second variant, and the first variant again.
            sample(100.3, [5.2, 9.0], 1.1),
            sample(100.6, [5.21, 9.1], 1.4),
            sample(100.9, [5.4, 9.1], 1.5),
        ];
        let mut each = [0, 1].map(|variant| SlicedTelemetry::new(variant, &samples[0]));
        for (slice, of) in [0, 1, 0].into_iter().enumerate() {
            let (before, after) = (&samples[slice], &samples[slice + 1]);
            each[of].add(before, after, 0.25);
            each[1 - of].add_idle(before, after);
        }
        let close = |seen: f64, expected: f64| assert!((seen - expected).abs() < 1e-9, "{seen}");
        let [first, second] = each;
        close(first.idle_percent().unwrap(), 100.0 * 0.01 / 0.3);
        close(second.idle_percent().unwrap(), 0.0);
        for (of, cpu_s, softirq_s, elapsed_s) in [(first, 0.39, 0.2, 0.5), (second, 0.1, 0.3, 0.25)]
        {
            let summary = prony_machine::telemetry::summary(&of.into_samples()).unwrap();
            close(summary.elapsed_s, elapsed_s);
            close(summary.services["web"].cpu_s, cpu_s);
            close(summary.services["web"].memory_mean_bytes, 7.0);
            close(summary.host.cpu_softirq_s, softirq_s);
            assert_eq!(summary.services.len(), 1);
        }
    }
}
