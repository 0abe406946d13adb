//! Requirements for prony in a row, and their judgement.

use super::engine::Outcome;
use super::figures::{Measure, Spread};
use super::tool::{PEERS, Tool};

/// Result of a target for which there are no runs.
pub(super) const UNMEASURED: &str = "not measured";

/// A requirement for a value, or a value that is only shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    tool: Tool,
    measure: Measure,
    reference: Option<Reference>,
    limit: Option<Limit>,
    /// True if the target also holds if it was not measured.
    optional: bool,
}

/// Tools whose value the measured value is divided by, within each rotation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reference {
    Tool(Tool),
    /// Each peer; the worst ratio is judged.
    EveryPeer,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// Requires a median of at most `limit`.
pub(super) const fn at_most(measure: Measure, limit: f64) -> Target {
    Target {
        limit: Some(Limit::AtMost(limit)),
        ..shown(measure)
    }
}

/// Requires a median of at least `limit`.
pub(super) const fn at_least(measure: Measure, limit: f64) -> Target {
    Target {
        limit: Some(Limit::AtLeast(limit)),
        ..shown(measure)
    }
}

/// Requires nothing.
pub(super) const fn shown(measure: Measure) -> Target {
    Target {
        tool: Tool::Prony,
        measure,
        reference: None,
        limit: None,
        optional: false,
    }
}

impl Target {
    /// Applies the limit to the ratio to another tool's value.
    pub(super) const fn times(mut self, tool: Tool) -> Target {
        self.reference = Some(Reference::Tool(tool));
        self
    }

    /// Applies the limit to the ratio to each peer's value.
    pub(super) const fn times_every_peer(mut self) -> Target {
        self.reference = Some(Reference::EveryPeer);
        self
    }

    /// Applies the limit to a tool's value instead of prony's.
    pub(super) const fn of(mut self, tool: Tool) -> Target {
        self.tool = tool;
        self
    }

    /// Lets the target hold if it was not measured.
    pub(super) const fn if_measured(mut self) -> Target {
        self.optional = true;
        self
    }

    /// The target as text, such as `cost ≤ 1.08 × floor`; `None` if it requires nothing.
    fn text(&self) -> Option<String> {
        let (sign, limit) = match self.limit? {
            Limit::AtMost(limit) => ("≤", limit),
            Limit::AtLeast(limit) => ("≥", limit),
        };
        let value = match self.tool {
            Tool::Prony => self.measure.name().to_owned(),
            tool => format!("{} with {}", self.measure.name(), tool.name()),
        };
        Some(match self.reference {
            None if limit == 0.0 => format!("no {value}"),
            None => format!("{value} {sign} {}", self.measure.text(limit)),
            Some(Reference::Tool(tool)) => format!("{value} {sign} {limit:.2} × {}", tool.name()),
            Some(Reference::EveryPeer) => format!("{value} {sign} {limit:.2} × every peer's"),
        })
    }

    fn holds(&self, median: f64) -> bool {
        match self.limit {
            Some(Limit::AtMost(limit)) => median <= limit,
            Some(Limit::AtLeast(limit)) => median >= limit,
            None => true,
        }
    }

    /// Measured median and range, and the text for the table.
    fn measured(&self, outcome: &Outcome) -> Option<(Spread, String)> {
        let ratio = |reference: Tool| outcome.ratio(self.measure, self.tool, reference);
        match self.reference {
            None => {
                let spread = outcome.spread(self.measure, self.tool)?;
                let text = self.measure.spread_text(&spread);
                Some((spread, text))
            }
            Some(Reference::Tool(reference)) => {
                let spread = ratio(reference)?;
                Some((spread, spread.text(2)))
            }
            Some(Reference::EveryPeer) => {
                let ratios = PEERS.iter().filter_map(|&peer| Some((peer, ratio(peer)?)));
                let order = |(_, a): &(Tool, Spread), (_, b): &(Tool, Spread)| {
                    a.median.total_cmp(&b.median)
                };
                let (peer, spread) = match self.limit {
                    Some(Limit::AtLeast(_)) => ratios.min_by(order),
                    _ => ratios.max_by(order),
                }?;
                Some((spread, format!("{} × {}", spread.text(2), peer.name())))
            }
        }
    }

    /// Judges a row's outcome. A target without measurements is not met, unless it is optional.
    pub(super) fn judge(&self, outcome: &Outcome) -> Judgement {
        let measured = self.measured(outcome);
        let holds = match &measured {
            Some((spread, _)) => self.holds(spread.median),
            None => self.optional || self.limit.is_none(),
        };
        let found = measured.map_or(UNMEASURED.to_owned(), |(_, text)| text);
        let text = self.text();
        Judgement {
            measured: match text {
                Some(_) => found,
                None => format!("{}: {found}", self.measure.name()),
            },
            met: text.is_some().then_some(holds),
            target: text,
        }
    }
}

/// A target, the measured value, and whether the value meets the target.
#[derive(Debug, PartialEq)]
pub(super) struct Judgement {
    /// Text of the target; `None` if the value is only shown.
    pub(super) target: Option<String>,
    pub(super) measured: String,
    /// True if the target is met; `None` if the value is only shown.
    pub(super) met: Option<bool>,
}

/// Judges all targets of a row.
pub(super) fn judge(outcome: &Outcome) -> impl Iterator<Item = Judgement> {
    let targets = outcome.row.targets.iter();
    targets.map(|target| target.judge(outcome))
}

/// Returns true if the outcome meets every target of its row.
pub(super) fn all_met(outcome: &Outcome) -> bool {
    judge(outcome).all(|judgement| judgement.met != Some(false))
}

#[cfg(test)]
mod tests {
    use super::super::engine::tests::{costs, outcome};
    use super::super::figures::Values;
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
        let judgement = equal.judge(&found(0.0));
        let text = "no differences from the sum of the agents' records";
        assert_eq!(judgement.target.as_deref(), Some(text));
        assert_eq!(judgement.met, Some(true));
        assert_eq!(equal.judge(&found(1.0)).met, Some(false));
        let memory = shown(Measure::PeakMemory).judge(&found(0.0));
        assert_eq!(
            (memory.measured.as_str(), memory.met),
            ("memory: 41 MiB", None)
        );
    }
}
