//! What the link between the load and its target carried: how full it was, and how much of it was
//! no payload.

use prony_record::Record;
use prony_stats::{Metric, Values};

use crate::place::topology::Link;
use crate::plan::Resolved;
use crate::service::PlaceKind;
use crate::telemetry::TelemetrySummary;

/// Traffic of the link between the load and its target over the measured part, in bytes of Ethernet
/// frames.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Crossing {
    /// From the target to the load.
    answers: f64,
    /// From the load to the target.
    requests: f64,
    /// From the first count to the last, which is a moment after the load's end.
    elapsed_s: f64,
    /// What the link may carry each way in a second, where that is limited.
    limit_per_s: Option<f64>,
}

/// The traffic between the load and its target over the measured part; none where no link of the
/// plan's joins them.
pub(crate) fn crossing(summary: &TelemetrySummary, resolved: &Resolved) -> Option<Crossing> {
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
    let [requests, answers] = both.map(|bytes| bytes as f64);
    Some(Crossing {
        answers,
        requests,
        elapsed_s: summary.elapsed_s,
        limit_per_s: link.rate.map(|rate| rate.bits_per_s as f64 / 8.0),
    })
}

impl Crossing {
    /// The share of its rate that the fuller direction carried; none without a rate.
    pub(crate) fn used_share(self) -> Option<f64> {
        let most = self.limit_per_s? * self.elapsed_s;
        // The bucket lets a little more through at once than its rate allows.
        Some((self.answers.max(self.requests) / most).min(1.0))
    }

    /// The metrics that it yields.
    pub(crate) fn values(self, record: &Record) -> Values {
        let mut values = Values::new();
        let totals = &record.totals;
        if let Some(share) = self.used_share() {
            values.insert(Metric::LinkUsedShare, share);
        }
        let ended = (totals.ok + totals.failed) as f64;
        if ended > 0.0 {
            let both = self.answers + self.requests;
            values.insert(Metric::LinkBytesPerRequest, both / ended);
        }
        // Answers under way at the beginning are whole among the bodies, those under way at the end
        // not at all; on the link it is the part that was sent meanwhile. Without bodies there is no
        // payload to compare with.
        let bodies = totals.body_bytes_in as f64;
        if bodies > 0.0 && self.answers > 0.0 {
            let overhead = 1.0 - bodies / self.answers;
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
            answers: 22_000.0,
            requests: 1_000.0,
            elapsed_s: 2.0,
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
            answers: 22_000.0,
            requests: 1_000.0,
            elapsed_s: 2.0,
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
