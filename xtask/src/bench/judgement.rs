//! Judgement of a row's targets by its outcome.

use super::engine::Outcome;
use super::figures::Spread;
use super::targets::{Limit, Reference, Target};
use super::tool::{PEERS, Tool};

/// Result of a target for which there are no runs.
pub(super) const UNMEASURED: &str = "not measured";

/// A target, the measured value, and whether the value meets the target.
#[derive(Debug, PartialEq)]
pub(super) struct Judgement {
    /// Text of the target; `None` if the value is only shown.
    pub(super) target: Option<String>,
    pub(super) measured: String,
    /// True if the target is met; `None` if the value is only shown.
    pub(super) met: Option<bool>,
}

/// Measured median and range, and the text for the table.
fn measured(target: &Target, outcome: &Outcome) -> Option<(Spread, String)> {
    let ratio = |reference: Tool| outcome.ratio(target.measure, target.tool, reference);
    match target.reference {
        None => {
            let spread = outcome.spread(target.measure, target.tool)?;
            let text = target.measure.spread_text(&spread);
            Some((spread, text))
        }
        Some(Reference::Tool(reference)) => {
            let spread = ratio(reference)?;
            Some((spread, spread.text(2)))
        }
        Some(Reference::EveryPeer) => {
            let ratios = PEERS.iter().filter_map(|&peer| Some((peer, ratio(peer)?)));
            let order =
                |(_, a): &(Tool, Spread), (_, b): &(Tool, Spread)| a.median.total_cmp(&b.median);
            let (peer, spread) = match target.limit {
                Some(Limit::AtLeast(_)) => ratios.min_by(order),
                _ => ratios.max_by(order),
            }?;
            Some((spread, format!("{} × {}", spread.text(2), peer.name())))
        }
    }
}

/// Judges a row's outcome. A target without measurements is not met, unless it is optional.
fn judge_target(target: &Target, outcome: &Outcome) -> Judgement {
    let measured = measured(target, outcome);
    let holds = match &measured {
        Some((spread, _)) => target.holds(spread.median),
        None => target.optional || target.limit.is_none(),
    };
    let found = measured.map_or(UNMEASURED.to_owned(), |(_, text)| text);
    let text = target.text();
    Judgement {
        measured: match text {
            Some(_) => found,
            None => format!("{}: {found}", target.measure.name()),
        },
        met: text.is_some().then_some(holds),
        target: text,
    }
}

/// Judges all targets of a row.
pub(super) fn judge(outcome: &Outcome) -> impl Iterator<Item = Judgement> {
    let targets = outcome.row.targets.iter();
    targets.map(|target| judge_target(target, outcome))
}

/// Returns true if the outcome meets every target of its row.
pub(super) fn all_met(outcome: &Outcome) -> bool {
    judge(outcome).all(|judgement| judgement.met != Some(false))
}

#[cfg(test)]
mod tests {
    use super::super::engine::tests::{costs, outcome};
    use super::super::figures::{Measure, Values};
    use super::super::targets::{at_most, without_limit};
    use super::*;

    #[test]
    fn targets_are_judged_by_the_median_and_against_every_peer() {
        let found = costs(
            "ka-1k",
            &[(Tool::Floor, 10.0), (Tool::Prony, 10.5), (Tool::Ab, 11.0)],
        );
        assert!(all_met(&found));
        let behind = costs(
            "ka-1k",
            &[
                (Tool::Floor, 10.0),
                (Tool::Prony, 10.5),
                (Tool::Ab, 10.4),
                (Tool::Wrk, 12.0),
            ],
        );
        let results: Vec<Judgement> = judge(&behind).collect();
        assert_eq!(results[0].met, Some(true));
        assert_eq!(results[1].met, Some(false));
        assert_eq!(results[1].measured, "1.01 × ab");
        // The runs' rates are inverse to their costs.
        assert_eq!(results[2].measured, "0.99 × ab");
        assert_eq!(
            results[2].target.as_deref(),
            Some("rate ≥ 0.97 × every peer's")
        );
        assert_eq!(results[2].met, Some(true));
        let dear = costs("ka-1k", &[(Tool::Floor, 10.0), (Tool::Prony, 10.9)]);
        let first = judge(&dear).next().unwrap();
        assert_eq!(first.target.as_deref(), Some("cost ≤ 1.08 × floor"));
        assert_eq!(first.met, Some(false));
    }

    #[test]
    fn values_have_limits_with_units() {
        let many = costs("many-1k", &[(Tool::Floor, 10.0), (Tool::Prony, 10.9)]);
        let results: Vec<Judgement> = judge(&many).collect();
        let measured: Vec<&str> = results.iter().map(|j| j.measured.as_str()).collect();
        assert_eq!(measured, ["1.09", "not measured", "8 MiB"]);
        assert_eq!(results[2].target.as_deref(), Some("memory ≤ 25 MiB"));
        let open = costs("open-1k", &[(Tool::H2load, 10.0), (Tool::Prony, 9.0)]);
        let late = judge(&open).nth(1).unwrap();
        assert_eq!(late.target.as_deref(), Some("p99 lateness ≤ 200 µs"));
        assert_eq!(late.met, Some(false));
    }

    #[test]
    fn a_substitute_for_a_reference_is_not_judged() {
        let found = costs("tls-resumed", &[(Tool::Wrk, 100.0), (Tool::Prony, 80.0)]);
        assert_eq!(judge(&found).next().unwrap().measured, UNMEASURED);
        assert!(!all_met(&found));
    }

    #[test]
    fn http_3_is_compared_with_http_2_and_with_oha_if_there_is_one() {
        let all_met = |runs: &[(Tool, f64)]| all_met(&costs("h3-16x32", runs));
        let own = [(Tool::Prony, 6.0), (Tool::PronyHttp2, 5.0)];
        assert!(all_met(&own));
        assert!(!all_met(&own[..1]));
        assert!(!all_met(&[(Tool::Prony, 8.0), (Tool::PronyHttp2, 5.0)]));
        assert!(!all_met(&[own[0], own[1], (Tool::Oha, 9.0)]));
        assert!(all_met(&[own[0], own[1], (Tool::Oha, 15.0)]));
    }

    #[test]
    fn a_faster_peer_or_no_rate_at_all_misses_the_highest_rate() {
        let all_met = |rates: &[(Tool, f64)]| {
            let values =
                |&(tool, rate): &(Tool, f64)| (tool, Values::from([(Measure::Rate, rate)]));
            all_met(&outcome(
                "open-max",
                vec![rates.iter().map(values).collect()],
            ))
        };
        assert!(all_met(&[(Tool::Prony, 100e3), (Tool::Oha, 40e3)]));
        assert!(all_met(&[(Tool::Prony, 100e3)]));
        assert!(!all_met(&[(Tool::Prony, 40e3), (Tool::Zrk, 50e3)]));
        assert!(!all_met(&[(Tool::Oha, 40e3)]));
    }

    #[test]
    fn many_sources_are_compared_with_one() {
        let judged = |sources: f64| {
            let runs = [
                (Tool::Wrk, 10.0),
                (Tool::Prony, 3.0),
                (Tool::PronySources, sources),
            ];
            judge(&costs("xdp-close-1k", &runs)).nth(2).unwrap()
        };
        let more = judged(4.0);
        let text = "cost with 200,000 sources ≤ 1.10 × prony";
        assert_eq!(more.target.as_deref(), Some(text));
        assert_eq!((more.measured.as_str(), more.met), ("1.33", Some(false)));
        assert_eq!(judged(3.0).met, Some(true));
    }

    #[test]
    fn a_count_of_zero_is_required_and_a_value_only_shown() {
        let found = |parts: f64| {
            let values = [
                (Measure::DifferentParts, parts),
                (Measure::PeakMemory, 41.0),
            ];
            let rotation = [(Tool::Prony, Values::from(values))].into();
            outcome("fleet-500", vec![rotation])
        };
        let equal = at_most(Measure::DifferentParts, 0.0);
        let judgement = judge_target(&equal, &found(0.0));
        let text = "no differences from the sum of the agents' records";
        assert_eq!(judgement.target.as_deref(), Some(text));
        assert_eq!(judgement.met, Some(true));
        assert_eq!(judge_target(&equal, &found(1.0)).met, Some(false));
        let memory = judge_target(&without_limit(Measure::PeakMemory), &found(0.0));
        assert_eq!(
            (memory.measured.as_str(), memory.met),
            ("memory: 41 MiB", None)
        );
    }
}
