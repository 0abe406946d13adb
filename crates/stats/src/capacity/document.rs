//! Stored result of `prony capacity`.

use prony_record::Finding;
use prony_record::number::RateUnit;
use serde::{Deserialize, Serialize};

use super::condition::CapacityCondition;
use super::estimate::CapacityEstimate;
use super::goal::Goal;
use super::outcome::BoundReason;
use super::search_report::SearchReport;
use crate::gate_result::GateOutcome;

/// Value of `schema` in new documents.
pub const CAPACITY_SCHEMA: &str = "prony.capacity/1";

/// All searches of one server and the result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CapacityDocument {
    /// Always [`CAPACITY_SCHEMA`].
    pub schema: String,
    /// Version of prony that measured the capacity.
    pub version: String,
    /// Start time (UTC, RFC 3339).
    pub started_at: String,
    /// Command line, without secrets.
    pub command: String,
    /// Description of the machine that ran the load generator.
    pub machine: String,
    /// URL without credentials.
    pub url: String,
    /// Goals as input.
    pub goals: Vec<String>,
    /// Spacing of the arrivals.
    pub arrivals: String,
    /// False if the searches were interrupted.
    pub complete: bool,
    /// Highest rate that meets the goals, in requests per second. Absent if only a bound is known.
    pub capacity_per_s: Option<f64>,
    /// Lower end of the capacity's 95% interval.
    pub low_per_s: Option<f64>,
    /// Upper end of the capacity's 95% interval.
    pub high_per_s: Option<f64>,
    /// Lower bound on the capacity: a rate that meets the goals, if no higher rate could be judged.
    pub at_least_per_s: Option<f64>,
    /// Reason why only a lower bound is known.
    pub bound_reason: Option<BoundReason>,
    /// Upper bound on the capacity: a rate that does not meet the goals, if no lower rate meets
    /// them or could be judged.
    pub below_per_s: Option<f64>,
    /// The result as a sentence, composed from the searches; empty until then.
    pub text: String,
    /// Results of the `--fail-if` conditions.
    pub conditions: Vec<ConditionResult>,
    /// The searches, in order.
    pub searches: Vec<SearchReport>,
    /// Findings of all searches.
    pub findings: Vec<Finding>,
}

/// A `--fail-if` condition with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditionResult {
    /// The condition as input, without spaces.
    pub condition: String,
    /// Outcome of the condition.
    pub ruling: GateOutcome,
}

impl CapacityDocument {
    /// Combines the searches and judges the conditions.
    pub fn of(
        goals: &[Goal],
        searches: Vec<SearchReport>,
        conditions: &[CapacityCondition],
    ) -> CapacityDocument {
        let outcomes: Vec<_> = searches.iter().filter_map(SearchReport::outcome).collect();
        let mut document = CapacityDocument {
            schema: CAPACITY_SCHEMA.to_owned(),
            goals: goals.iter().map(Goal::to_string).collect(),
            complete: outcomes.len() == searches.len() && !searches.is_empty(),
            findings: findings(&searches),
            ..CapacityDocument::default()
        };
        if let Some(estimate) = CapacityEstimate::of(&outcomes) {
            document.set_figures(&estimate);
            if document.complete {
                let results = conditions.iter().map(|condition| ConditionResult {
                    condition: condition.to_string(),
                    ruling: condition.judge(&estimate),
                });
                document.conditions = results.collect();
            }
        }
        document.searches = searches;
        document
    }

    fn set_figures(&mut self, estimate: &CapacityEstimate) {
        match *estimate {
            CapacityEstimate::Capacity {
                per_s, interval, ..
            } => {
                self.capacity_per_s = Some(per_s);
                self.low_per_s = interval.map(|interval| interval.low);
                self.high_per_s = interval.map(|interval| interval.high);
            }
            CapacityEstimate::AtLeast { per_s, reason } => {
                self.at_least_per_s = Some(per_s);
                self.bound_reason = Some(reason);
            }
            CapacityEstimate::Below { per_s } | CapacityEstimate::Unmet { per_s } => {
                self.below_per_s = Some(per_s);
            }
        }
    }

    /// Returns the subject of the rates.
    pub fn rate_unit(&self) -> RateUnit {
        let first = self.searches.first();
        first.map_or(RateUnit::Requests, SearchReport::rate_unit)
    }

    /// Returns true if a rate was found that meets the goals.
    pub fn is_met(&self) -> bool {
        self.capacity_per_s.is_some() || self.at_least_per_s.is_some()
    }
}

/// Collects the findings of all searches, without duplicates.
fn findings(searches: &[SearchReport]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for finding in searches.iter().flat_map(|search| &search.findings) {
        if !findings.iter().any(|known| known.id == finding.id) {
            findings.push(finding.clone());
        }
    }
    findings
}
