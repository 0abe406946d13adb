//! Metrics of the link between the load generator and its target: utilization and protocol
//! overhead.

use prony_machine::telemetry::TelemetrySummary;
use prony_plan::ResolvedVariant;
use prony_plan::service::PlaceKind;
use prony_plan::topology::NetworkLink;
use prony_record::Record;
use prony_stats::{Metric, Values};

/// Traffic on the link between the load generator and its target during the measured part of a
/// trial, in bytes of Ethernet frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LoadLinkTraffic {
    /// Bytes sent from the target to the load generator.
    responses_bytes: f64,
    /// Bytes sent from the load generator to the target.
    requests_bytes: f64,
    /// Time between the first and the last telemetry sample, in seconds.
    elapsed_s: f64,
    /// Rate limit of each direction in bytes per second; `None` without a limit.
    limit_per_s: Option<f64>,
    /// Round-trip time before the load, in microseconds; `None` if it was not measured.
    round_trip_us: Option<f64>,
}

/// Returns the traffic between the load generator and its target during the measured part; `None`
/// if the plan has no link between them.
pub(crate) fn crossing(
    summary: &TelemetrySummary,
    resolved: &ResolvedVariant,
) -> Option<LoadLinkTraffic> {
    let target = &resolved.load.service;
    let mut services = resolved.services.iter();
    let target = services.find(|service| service.spec.name == *target)?;
    let (PlaceKind::Named(load), PlaceKind::Named(target)) =
        (resolved.load.place, target.spec.place)
    else {
        return None;
    };
    let places = |link: &NetworkLink| link.ends.map(|end| end.place);
    let mut links = resolved.topology.links.iter();
    let link = links.find(|link| [[load, target], [target, load]].contains(&places(link)))?;
    let traffic = summary.links.get(&link.name)?;
    if summary.elapsed_s <= 0.0 {
        return None;
    }
    let mut both = [traffic.forward_bytes, traffic.reverse_bytes];
    if places(link)[0] != load {
        both.reverse();
    }
    let [requests_bytes, responses_bytes] = both.map(|bytes| bytes as f64);
    Some(LoadLinkTraffic {
        responses_bytes,
        requests_bytes,
        elapsed_s: summary.elapsed_s,
        limit_per_s: link.rate.map(|rate| rate.bits_per_s as f64 / 8.0),
        round_trip_us: summary.round_trips_us.get(&link.name).copied(),
    })
}

impl LoadLinkTraffic {
    /// Returns the fraction of the rate limit that is used in the busier direction; `None` without
    /// a rate limit.
    pub(crate) fn used_share(self) -> Option<f64> {
        let most = self.limit_per_s? * self.elapsed_s;
        // The token bucket allows short bursts above the rate.
        Some((self.responses_bytes.max(self.requests_bytes) / most).min(1.0))
    }

    /// Returns the metrics of the link.
    pub(crate) fn values(self, record: &Record) -> Values {
        let round_trip = self.round_trip_us;
        let round_trip = round_trip.map(|us| (Metric::LinkRoundTripUs, us));
        let mut values: Values = round_trip.into_iter().collect();
        let totals = &record.totals;
        if let Some(share) = self.used_share() {
            values.insert(Metric::LinkUsedShare, share);
        }
        let ended = (totals.ok + totals.failed) as f64;
        if ended > 0.0 {
            let both = self.responses_bytes + self.requests_bytes;
            values.insert(Metric::LinkBytesPerRequest, both / ended);
        }
        // The two byte counts differ slightly at the start and the end of a load: body bytes are
        // counted when the response ends, and link bytes when they are sent. Without bodies, the
        // overhead is undefined.
        let bodies = totals.body_bytes_in as f64;
        if bodies > 0.0 && self.responses_bytes > 0.0 {
            let overhead = 1.0 - bodies / self.responses_bytes;
            values.insert(Metric::LinkOverheadShare, overhead.clamp(0.0, 1.0));
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_rate_and_of_the_payload() {
        let crossing = LoadLinkTraffic {
            responses_bytes: 22_000.0,
            requests_bytes: 1_000.0,
            elapsed_s: 2.0,
            limit_per_s: Some(12_500.0),
            round_trip_us: Some(20_100.0),
        };
        let mut record = Record::default();
        (record.totals.ok, record.totals.elapsed_s) = (20, 2.0);
        record.totals.body_bytes_in = 20_000;
        let values = crossing.values(&record);
        let near = |metric: Metric, wanted: f64| (values[&metric] - wanted).abs() < 1e-9;
        assert!(near(Metric::LinkUsedShare, 0.88));
        assert!(near(Metric::LinkOverheadShare, 1.0 / 11.0));
        assert!(near(Metric::LinkBytesPerRequest, 1_150.0));
        assert!(near(Metric::LinkRoundTripUs, 20_100.0));
    }

    #[test]
    fn without_a_rate_or_bodies_only_the_bytes_are_known() {
        let crossing = LoadLinkTraffic {
            responses_bytes: 22_000.0,
            requests_bytes: 1_000.0,
            elapsed_s: 2.0,
            limit_per_s: None,
            round_trip_us: None,
        };
        assert_eq!(crossing.values(&Record::default()), Values::new());
        let mut record = Record::default();
        (record.totals.ok, record.totals.elapsed_s) = (1, 1.0);
        let values = crossing.values(&record);
        assert_eq!(
            Vec::from_iter(values.keys()),
            [&Metric::LinkBytesPerRequest]
        );
    }
}
