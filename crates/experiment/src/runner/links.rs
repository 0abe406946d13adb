//! What the link between the load and its target carried: how full it was, and how much of it was
//! no payload.

use prony_record::Record;
use prony_stats::{Metric, Values};

use crate::place::topology::Link;
use crate::plan::Resolved;
use crate::service::PlaceKind;
use crate::telemetry::Summary;

/// Traffic of the link that the load loads, bytes a second of Ethernet frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Crossing {
    /// From the target to the load.
    answers_per_s: f64,
    /// From the load to the target.
    requests_per_s: f64,
    /// What it may carry each way, where that is limited.
    limit_per_s: Option<f64>,
}

/// The traffic between the load and its target over the measured part; none where no link of the
/// plan's joins them.
pub(crate) fn crossing(summary: &Summary, resolved: &Resolved) -> Option<Crossing> {
    let target = &resolved.load.service;
    let mut services = resolved.services.iter();
    let target = services.find(|service| service.spec.name == *target)?;
    let (PlaceKind::Named(load), PlaceKind::Named(target)) =
        (resolved.load.place, target.spec.place)
    else {
        return None;
    };
    let places = |link: &Link| link.ends.map(|end| end.place);
    let mut links = resolved.topology.links.iter();
    let link = links.find(|link| [[load, target], [target, load]].contains(&places(link)))?;
    let traffic = summary.links.get(&link.name)?;
    if summary.elapsed_s <= 0.0 {
        return None;
    }
    let mut both = [traffic.forth_bytes, traffic.back_bytes];
    if places(link)[0] != load {
        both.reverse();
    }
    let [requests_per_s, answers_per_s] = both.map(|bytes| bytes as f64 / summary.elapsed_s);
    Some(Crossing {
        answers_per_s,
        requests_per_s,
        limit_per_s: link.rate.map(|rate| rate.bits_per_s as f64 / 8.0),
    })
}

impl Crossing {
    /// The share of its rate that the fuller direction carried; none without a rate.
    pub(crate) fn used_share(self) -> Option<f64> {
        let fuller = self.answers_per_s.max(self.requests_per_s);
        // The bucket lets a little more through at once than its rate allows.
        Some((fuller / self.limit_per_s?).min(1.0))
    }

    /// The metrics that it yields.
    pub(crate) fn values(self, record: &Record) -> Values {
        let mut values = Values::new();
        let totals = &record.totals;
        if let Some(share) = self.used_share() {
            values.insert(Metric::LinkUsedShare, share);
        }
        if totals.elapsed_s <= 0.0 {
            return values;
        }
        let ended_per_s = (totals.ok + totals.failed) as f64 / totals.elapsed_s;
        if ended_per_s > 0.0 {
            let both_per_s = self.answers_per_s + self.requests_per_s;
            values.insert(Metric::LinkBytesPerRequest, both_per_s / ended_per_s);
        }
        let bodies_per_s = totals.body_bytes_in as f64 / totals.elapsed_s;
        // What was counted on the link and by the load belongs to nearly, but not exactly, the same
        // time; without bodies there is no payload to compare with.
        if bodies_per_s > 0.0 && self.answers_per_s > 0.0 {
            let overhead = 1.0 - bodies_per_s / self.answers_per_s;
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
        let crossing = Crossing {
            answers_per_s: 11_000.0,
            requests_per_s: 500.0,
            limit_per_s: Some(12_500.0),
        };
        let mut record = Record::default();
        (record.totals.ok, record.totals.elapsed_s) = (20, 2.0);
        record.totals.body_bytes_in = 20_000;
        let values = crossing.values(&record);
        let near = |metric: Metric, wanted: f64| (values[&metric] - wanted).abs() < 1e-9;
        assert!(near(Metric::LinkUsedShare, 0.88));
        assert!(near(Metric::LinkOverheadShare, 1.0 / 11.0));
        assert!(near(Metric::LinkBytesPerRequest, 1_150.0));
    }

    #[test]
    fn without_a_rate_or_bodies_there_is_less_to_tell() {
        let crossing = Crossing {
            answers_per_s: 11_000.0,
            requests_per_s: 500.0,
            limit_per_s: None,
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
