//! Metrics of a trial, computed from its record and its telemetry.

use prony_load::HttpVersion;
use prony_machine::telemetry::{IoCounters, ServiceSummary, TelemetrySummary};
use prony_plan::ResolvedVariant;
use prony_plan::service::{Endpoint, PlaceKind};
use prony_record::Record;
use prony_stats::capacity::SearchReport;
use prony_stats::{Metric, Values};

use super::links;

/// Minimum duration of a load for CPU metrics: the kernel counts CPU time in ticks of 10 ms.
pub(crate) const CPU_LOAD_S_MIN: f64 = 0.1;

/// Returns the capacity that a search found, or nothing if the search found only a bound. Metrics
/// from telemetry are omitted, because they cover probes at different rates and would not describe
/// any single rate.
pub(crate) fn of_search(search: &SearchReport) -> Values {
    let capacity = search.capacity_per_s();
    let capacity = capacity.map(|per_s| (Metric::capacity_of(search.rate_unit()), per_s));
    capacity.into_iter().collect()
}

/// Returns all metrics of a trial with a single load.
pub(crate) fn all(
    record: &Record,
    telemetry: Option<&TelemetrySummary>,
    resolved: &ResolvedVariant,
) -> Values {
    let mut values = values(record, telemetry, &resolved.load.service);
    if let Some(summary) = telemetry {
        values.extend(upstream(record, summary, resolved));
        let crossing = links::crossing(summary, resolved);
        values.extend(crossing.map_or_else(Default::default, |link| link.values(record)));
    }
    values
}

/// Returns all metrics that were measured in a trial. `target` is the name of the target service.
fn values(record: &Record, telemetry: Option<&TelemetrySummary>, target: &str) -> Values {
    let mut values = prony_stats::of_record(record);
    if let Some(telemetry) = telemetry.filter(|summary| !summary.services.is_empty()) {
        values.extend(of_telemetry(record, telemetry, target));
    }
    values
}

/// Returns the share of quota periods in which the service that was stopped most was stopped.
fn throttled_share(telemetry: &TelemetrySummary) -> f64 {
    let services = telemetry.services.values();
    let shares = services.filter_map(|service| Some(service.throttling?.share()));
    shares.fold(0.0, f64::max)
}

/// Returns the CPU time per request in microseconds, given the CPU time in percent of one core.
/// `None` if the load was too short, or if no request ended.
pub(super) fn cpu_us_per_request(record: &Record, cpu_percent: f64) -> Option<f64> {
    let totals = &record.totals;
    let ended = totals.ok + totals.failed;
    let is_known = ended > 0 && totals.elapsed_s >= CPU_LOAD_S_MIN;
    is_known.then(|| cpu_percent / 100.0 * 1e6 * totals.elapsed_s / ended as f64)
}

/// Returns the metrics that come from telemetry. Telemetry and the load cover slightly different
/// periods, so both are converted to rates.
fn of_telemetry(record: &Record, telemetry: &TelemetrySummary, target: &str) -> Values {
    let mut values = Values::new();
    let sum = |of: fn(&ServiceSummary) -> f64| telemetry.services.values().map(of).sum::<f64>();
    values.insert(Metric::ServerMemoryBytes, sum(|s| s.memory_mean_bytes));
    values.insert(Metric::ServerThrottledShare, throttled_share(telemetry));
    let oom_kills = telemetry.services.values();
    let oom_kills: u64 = oom_kills
        .filter_map(|it| Some(it.memory_events?.oom_kills))
        .sum();
    values.insert(Metric::ServerOomKills, oom_kills as f64);
    if let Some(service) = telemetry.services.get(target) {
        values.insert(Metric::NetworkOutBitsPerS, service.network_sent_bits_per_s);
    }
    if record.totals.elapsed_s < CPU_LOAD_S_MIN || telemetry.elapsed_s <= 0.0 {
        return values;
    }
    let (user, system) = (sum(|s| s.cpu_user_percent), sum(|s| s.cpu_system_percent));
    values.insert(Metric::ServerCpuUserPercent, user);
    values.insert(Metric::ServerCpuSystemPercent, system);
    let throttled_s = |s: &ServiceSummary| s.throttling.map_or(0.0, |it| it.throttled_s);
    let throttled_percent = 100.0 * sum(throttled_s) / telemetry.elapsed_s;
    values.insert(Metric::ServerThrottledPercent, throttled_percent);
    let machine = telemetry.machine_of(target);
    let machine_s = machine.elapsed_s.max(telemetry.elapsed_s);
    let percent = |cpu_s: f64| 100.0 * cpu_s / machine_s;
    values.insert(Metric::MachineUserPercent, percent(machine.cpu_user_s));
    values.insert(Metric::MachineSystemPercent, percent(machine.cpu_system_s));
    values.insert(Metric::MachineIdlePercent, percent(machine.cpu_idle_s));
    let ended = record.totals.ok + record.totals.failed;
    if ended == 0 {
        return values;
    }
    let ended_per_s = ended as f64 / record.totals.elapsed_s;
    let per_request = |per_s: f64| per_s / ended_per_s;
    for (metric, percent) in [
        (Metric::ServerCpuUsPerRequest, user + system),
        (Metric::ServerCpuUserUsPerRequest, user),
        (Metric::ServerCpuSystemUsPerRequest, system),
    ] {
        values.extend(cpu_us_per_request(record, percent).map(|us| (metric, us)));
    }
    // Softirq time is measured for the whole machine that runs the services.
    let softirq_us_per_s = machine.cpu_softirq_s * 1e6 / telemetry.elapsed_s;
    values.insert(
        Metric::HostSoftirqUsPerRequest,
        per_request(softirq_us_per_s),
    );
    let switches_per_s = sum(|s| s.context_switches_per_s);
    values.insert(
        Metric::ContextSwitchesPerRequest,
        per_request(switches_per_s),
    );
    let counted = |n: u64| per_request(n as f64 / telemetry.elapsed_s);
    // Omit sums that lack one of the services, because they would not be comparable.
    let instructions = telemetry.services.values();
    let instructions: Option<u64> = instructions.map(|s| s.hardware?.instructions).sum();
    if let Some(instructions) = instructions {
        values.insert(Metric::InstructionsPerRequest, counted(instructions));
    }
    let hits = |it: &ServiceSummary| it.memory_events.map_or(0, |events| events.limit_hits);
    let hits = telemetry.services.values().map(hits).sum();
    values.insert(Metric::MemoryLimitHitsPerRequest, counted(hits));
    let io: Option<Vec<IoCounters>> = telemetry.services.values().map(|s| s.io).collect();
    if let Some(io) = io {
        let calls = io.iter().map(|io| io.calls).sum();
        let written = io.iter().map(|io| io.disk_written_bytes).sum();
        values.insert(Metric::IoCallsPerRequest, counted(calls));
        values.insert(Metric::DiskWrittenBytesPerRequest, counted(written));
    }
    if let Some(service) = telemetry.services.get(target) {
        let (network, tcp) = (&service.network, &service.tcp);
        // Traffic on a shared interface can't be attributed to this service.
        if !network.shared {
            let bytes = network.sent + network.received;
            values.insert(Metric::LinkBytesPerRequest, counted(bytes));
            let packets = network.packets_sent + network.packets_received;
            values.insert(Metric::PacketsPerRequest, counted(packets));
        }
        values.insert(
            Metric::RetransmitsPerRequest,
            counted(tcp.retransmitted_segments),
        );
        values.insert(Metric::ListenDropsPerRequest, counted(tcp.listen_drops));
        // Without HTTP/3, the datagrams belong to other protocols, such as DNS.
        if record.negotiated.http.as_deref() == Some("3") {
            let drops = service.udp.receive_buffer_drops;
            values.insert(Metric::UdpDropsPerRequest, counted(drops));
        }
    }
    values
}

/// Returns the number of connections that the target opened per request. If the load shares the
/// target's network, the load's connections are subtracted. For a native service, the connections
/// of all processes on the machine are included.
fn upstream(record: &Record, telemetry: &TelemetrySummary, resolved: &ResolvedVariant) -> Values {
    let load = &resolved.load;
    let target = resolved.services.iter();
    let target = target
        .map(|service| &service.spec)
        .find(|spec| spec.name == load.service);
    let seen = telemetry.services.get(&load.service);
    let (Some(target), Some(seen)) = (target, seen) else {
        return Values::new();
    };
    let is_one_network = target.place == load.place && target.place != PlaceKind::Namespace;
    let is_http3 = load.settings.http == Some(HttpVersion::Http3);
    let by_tcp = matches!(load.target_endpoint, Endpoint::Tcp(_)) && !is_http3;
    let own = if is_one_network && by_tcp {
        record.totals.connections_opened
    } else {
        0
    };
    let begun = opened_upstream(record, (seen.tcp.connects, telemetry.elapsed_s), own);
    let begun = begun.map(|each| (Metric::UpstreamConnectionsPerRequest, each));
    begun.into_iter().collect()
}

/// Returns the connections per request, given that `begun` connections were opened in `over_s`
/// seconds and that `own` of them belong to the load.
fn opened_upstream(record: &Record, (begun, over_s): (u64, f64), own: u64) -> Option<f64> {
    let totals = &record.totals;
    let ended = totals.ok + totals.failed;
    if ended == 0 || totals.elapsed_s < CPU_LOAD_S_MIN || over_s <= 0.0 {
        return None;
    }
    let per_request = |n: u64, over_s: f64| n as f64 / over_s * totals.elapsed_s / ended as f64;
    let others = per_request(begun, over_s) - per_request(own, totals.elapsed_s);
    Some(others.max(0.0))
}

#[cfg(test)]
mod tests {
    use prony_machine::telemetry::UdpCounters;

    use super::*;

    #[test]
    fn upstream_connections_are_not_the_loads_own() {
        let mut record = Record::default();
        (record.totals.ok, record.totals.elapsed_s) = (1_000, 2.0);
        // Two of three requests open a connection, and telemetry covers half of the time.
        let opened = |begun, own| opened_upstream(&record, (begun, 1.0), own).unwrap();
        assert!((opened(333, 0) - 0.666).abs() < 1e-9);
        assert!((opened(833, 1_000) - 0.666).abs() < 1e-9);
        assert_eq!(opened(499, 1_000), 0.0, "the two windows are not the same");
        record.totals.elapsed_s = 0.01;
        assert_eq!(opened_upstream(&record, (5, 0.01), 0), None);
    }

    #[test]
    fn instructions_are_counted_for_all_services_or_none() {
        let service = |instructions: Option<u64>| ServiceSummary {
            hardware: instructions.map(|instructions| prony_machine::telemetry::HardwareCounters {
                instructions: Some(instructions),
                ..Default::default()
            }),
            ..ServiceSummary::default()
        };
        let mut record = Record::default();
        (record.totals.started, record.totals.ok) = (100, 100);
        record.totals.elapsed_s = 2.0;
        let per_request = |services: [Option<u64>; 2]| {
            let names = ["web", "app"].map(str::to_owned);
            let summary = TelemetrySummary {
                elapsed_s: 2.0,
                services: names.into_iter().zip(services.map(service)).collect(),
                ..TelemetrySummary::default()
            };
            let values = values(&record, Some(&summary), "web");
            values.get(&Metric::InstructionsPerRequest).copied()
        };
        assert_eq!(per_request([Some(4_000), Some(1_000)]), Some(50.0));
        assert_eq!(per_request([Some(4_000), None]), None);
    }

    #[test]
    fn machine_packets_and_input_and_output_are_values_of_a_trial() {
        let mut service = ServiceSummary {
            io: Some(IoCounters {
                calls: 400,
                disk_written_bytes: 0,
            }),
            ..ServiceSummary::default()
        };
        (
            service.network.packets_sent,
            service.network.packets_received,
        ) = (300, 100);
        let mut summary = TelemetrySummary {
            elapsed_s: 2.0,
            services: [("web".to_owned(), service)].into(),
            ..TelemetrySummary::default()
        };
        (summary.host.cpu_user_s, summary.host.cpu_idle_s) = (1.0, 2.5);
        let mut record = Record::default();
        (record.totals.started, record.totals.ok) = (100, 100);
        record.totals.elapsed_s = 2.0;
        let of = |summary: &TelemetrySummary, metric: Metric| {
            values(&record, Some(summary), "web").get(&metric).copied()
        };
        for (metric, value) in [
            (Metric::MachineUserPercent, 50.0),
            (Metric::MachineSystemPercent, 0.0),
            (Metric::MachineIdlePercent, 125.0),
            (Metric::PacketsPerRequest, 4.0),
            (Metric::IoCallsPerRequest, 4.0),
            (Metric::DiskWrittenBytesPerRequest, 0.0),
        ] {
            assert_eq!(of(&summary, metric), Some(value), "{metric}");
        }
        let web = summary.services.get_mut("web").unwrap();
        (web.io, web.network.shared) = (None, true);
        assert_eq!(of(&summary, Metric::IoCallsPerRequest), None);
        assert_eq!(of(&summary, Metric::PacketsPerRequest), None);
    }

    #[test]
    fn a_total_time_is_that_of_all_requests() {
        let mut record = Record::default();
        (record.totals.started, record.totals.ok) = (300, 300);
        record.totals.elapsed_s = 7.5;
        let total = |record: &Record| {
            values(record, None, "web")
                .get(&Metric::TotalTimeUs)
                .copied()
        };
        assert_eq!(total(&record), None, "it ended by the clock");
        record.load.requests = Some(300);
        assert_eq!(total(&record), Some(7.5e6));
        (record.totals.ok, record.totals.failed) = (299, 1);
        assert_eq!(total(&record), None, "one failed");
    }

    #[test]
    fn a_load_of_a_few_ticks_has_no_cpu_estimate() {
        let service = ServiceSummary {
            cpu_user_percent: 30.0,
            cpu_system_percent: 20.0,
            ..ServiceSummary::default()
        };
        let summary = TelemetrySummary {
            elapsed_s: 2.0,
            services: [("web".to_owned(), service)].into(),
            ..TelemetrySummary::default()
        };
        let mut record = Record::default();
        (record.totals.started, record.totals.ok) = (1_000, 1_000);
        let cpu_us = |record: &Record| {
            let values = values(record, Some(&summary), "web");
            values.get(&Metric::ServerCpuUsPerRequest).copied()
        };
        record.totals.elapsed_s = 2.0;
        assert_eq!(cpu_us(&record), Some(1_000.0));
        record.totals.elapsed_s = 0.003;
        assert_eq!(cpu_us(&record), None);
    }

    #[test]
    fn dropped_datagrams_count_for_http3_only() {
        let service = ServiceSummary {
            udp: UdpCounters {
                receive_buffer_drops: 30,
                ..UdpCounters::default()
            },
            ..ServiceSummary::default()
        };
        let summary = TelemetrySummary {
            elapsed_s: 2.0,
            services: [("web".to_owned(), service)].into(),
            ..TelemetrySummary::default()
        };
        let mut record = Record::default();
        (record.totals.started, record.totals.ok) = (1_000, 1_000);
        record.totals.elapsed_s = 2.0;
        let mut drops = |version: &str| {
            record.negotiated.http = Some(version.to_owned());
            let values = values(&record, Some(&summary), "web");
            values.get(&Metric::UdpDropsPerRequest).copied()
        };
        assert_eq!(drops("2"), None);
        assert_eq!(drops("3"), Some(0.03));
    }
}
