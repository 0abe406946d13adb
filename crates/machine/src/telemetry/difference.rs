//! Differences in the totals between two samples.

use std::collections::BTreeMap;

use prony_record::{MemoryEvents, Throttling};

use super::{
    CoreTimes, HardwareCounters, InterfaceCounters, NetworkBytes, ServiceSample, TcpCounters,
    UdpCounters,
};

/// Returns the user and kernel CPU seconds between two samples. Takes the most precise total
/// and splits it into user and kernel time in the ratio of their clock ticks between the samples
/// or, if there were none, of their ticks since the start.
pub(super) fn cpu_between(begin: &ServiceSample, end: &ServiceSample) -> (f64, f64) {
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

/// Returns the CPU times of each core between two samples. A core that was offline in either sample
/// is omitted.
pub fn cores_between(
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

/// Returns the events at a memory limit between two samples; `None` if a sample has no limit.
pub fn memory_events_between(
    begin: Option<MemoryEvents>,
    end: Option<MemoryEvents>,
) -> Option<MemoryEvents> {
    Some(end?.since(&begin?))
}

/// Returns the throttling between two samples; `None` if a sample has no quota.
pub fn throttling_between(
    begin: Option<Throttling>,
    end: Option<Throttling>,
) -> Option<Throttling> {
    Some(end?.since(&begin?))
}

/// Returns the traffic between two samples.
pub fn network_between(begin: &NetworkBytes, end: &NetworkBytes) -> NetworkBytes {
    NetworkBytes {
        sent: end.sent.saturating_sub(begin.sent),
        received: end.received.saturating_sub(begin.received),
        packets_sent: end.packets_sent.saturating_sub(begin.packets_sent),
        packets_received: end.packets_received.saturating_sub(begin.packets_received),
        shared: end.shared,
    }
}

/// Returns the traffic of each interface between two samples. The totals of a new interface start
/// at zero.
pub fn interfaces_between(
    begin: &BTreeMap<String, InterfaceCounters>,
    end: &BTreeMap<String, InterfaceCounters>,
) -> BTreeMap<String, InterfaceCounters> {
    let of_one = |(name, end): (&String, &InterfaceCounters)| {
        let begin = begin.get(name).copied().unwrap_or_default();
        let between = InterfaceCounters {
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

/// Returns the events between two samples; `None` if either sample has no counters.
pub fn hardware_between(
    begin: Option<HardwareCounters>,
    end: Option<HardwareCounters>,
) -> Option<HardwareCounters> {
    let (begin, end) = (begin?, end?);
    let between =
        |of: fn(&HardwareCounters) -> Option<u64>| Some(of(&end)?.saturating_sub(of(&begin)?));
    Some(HardwareCounters {
        cycles: between(|hardware| hardware.cycles),
        instructions: between(|hardware| hardware.instructions),
        cache_misses: between(|hardware| hardware.cache_misses),
    })
}

/// Returns the increase of a total. The result is never negative, although a total can decrease by
/// a tick if a process ends while the totals are being read.
pub fn grown(begin: f64, end: f64) -> f64 {
    (end - begin).max(0.0)
}

/// Returns the increase of the totals between two samples, and the gauges of the later one.
pub fn tcp_between(begin: &TcpCounters, end: &TcpCounters) -> TcpCounters {
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

/// Returns the increase of the totals between two samples.
pub fn udp_between(begin: &UdpCounters, end: &UdpCounters) -> UdpCounters {
    UdpCounters {
        received: end.received.saturating_sub(begin.received),
        sent: end.sent.saturating_sub(begin.sent),
        receive_buffer_drops: end
            .receive_buffer_drops
            .saturating_sub(begin.receive_buffer_drops),
        send_buffer_drops: end
            .send_buffer_drops
            .saturating_sub(begin.send_buffer_drops),
    }
}
