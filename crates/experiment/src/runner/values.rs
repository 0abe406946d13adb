//! The metrics of a trial, out of its record and its telemetry.

use prony_record::Record;
use prony_stats::{Metric, Values};

use crate::telemetry::Summary;

/// A load shorter than this many seconds is over before the kernel's ticks of 10 ms have told what
/// the services used.
pub(crate) const LEAST_WATCHED_S: f64 = 0.1;

/// The values of every metric that could be measured. `target` is the service that was loaded.
pub(crate) fn values(record: &Record, telemetry: Option<&Summary>, target: &str) -> Values {
    let mut values = Values::new();
    let answered = record.totals.ok;
    let ended = record.totals.ok + record.totals.failed;
    if answered > 0 {
        values.insert(Metric::RatePerS, record.rate.ok_per_s);
        values.insert(Metric::P50Us, record.response_time_us.p50);
        values.insert(Metric::P99Us, record.response_time_us.p99);
    }
    if record.totals.started > 0 {
        let share = record.totals.failed as f64 / record.totals.started as f64;
        values.insert(Metric::FailedShare, share);
    }
    let generator = &record.generator;
    if ended > 0 {
        let cpu_s = generator.cpu_user_s + generator.cpu_system_s;
        values.insert(Metric::GeneratorCpuUsPerRequest, cpu_s * 1e6 / ended as f64);
    }
    let Some(telemetry) = telemetry.filter(|summary| !summary.services.is_empty()) else {
        return values;
    };
    let services = telemetry.services.values();
    let user: f64 = services
        .clone()
        .map(|service| service.cpu_user_percent)
        .sum();
    let system: f64 = services
        .clone()
        .map(|service| service.cpu_system_percent)
        .sum();
    let memory: f64 = services.map(|service| service.memory_mean_bytes).sum();
    values.insert(Metric::ServerMemoryBytes, memory);
    if record.totals.elapsed_s >= LEAST_WATCHED_S {
        values.insert(Metric::ServerCpuUserPercent, user);
        values.insert(Metric::ServerCpuSystemPercent, system);
        if ended > 0 {
            // Both are rates over nearly, but not exactly, the same window.
            let requests_per_s = ended as f64 / record.totals.elapsed_s;
            let cpu_us_per_s = (user + system) / 100.0 * 1e6;
            values.insert(Metric::ServerCpuUsPerRequest, cpu_us_per_s / requests_per_s);
        }
    }
    if let Some(service) = telemetry.services.get(target) {
        values.insert(Metric::NetworkOutBitsPerS, service.network_sent_bits_per_s);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::ServiceSummary;

    #[test]
    fn a_load_of_a_few_ticks_tells_nothing_of_the_cpu() {
        let service = ServiceSummary {
            cpu_user_percent: 30.0,
            cpu_system_percent: 20.0,
            ..ServiceSummary::default()
        };
        let summary = Summary {
            services: [("web".to_owned(), service)].into(),
            ..Summary::default()
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
}
