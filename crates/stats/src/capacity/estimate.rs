//! Capacity of a server, estimated from several searches.

use super::outcome::{BoundReason, SearchOutcome};
use crate::estimate::{Estimate, Interval};

/// Probability that an interval does not contain the capacity.
const MISS: f64 = 0.05;

/// Combined result of several searches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CapacityEstimate {
    /// Each search found a capacity.
    Capacity {
        /// Geometric mean of the searches' capacities, in requests per second.
        per_s: f64,
        /// 95% interval by Student's t on the log scale; `None` if there are too few searches for
        /// an interval.
        interval: Option<Interval>,
        /// Number of searches.
        searches: usize,
    },
    /// A search found no upper limit, so the capacity is at least this rate.
    AtLeast {
        /// Lowest result of any search, in requests per second.
        per_s: f64,
        /// Reason why there is only a bound.
        reason: BoundReason,
    },
    /// A search found no rate that meets the goals, and could not judge lower rates.
    Below {
        /// Lowest rate, in requests per second, at which a search found that the goals are not met.
        per_s: f64,
    },
    /// The goals are not met even at the lowest rate.
    Unmet {
        /// Lowest rate that was probed, in requests per second.
        per_s: f64,
    },
}

impl CapacityEstimate {
    /// Combines the searches. Returns `None` if there are none.
    pub fn of(searches: &[SearchOutcome]) -> Option<CapacityEstimate> {
        let unmet = searches.iter().find_map(|search| match *search {
            SearchOutcome::Unmet { per_s } => Some(CapacityEstimate::Unmet { per_s }),
            _ => None,
        });
        let below = searches.iter().filter_map(|search| match *search {
            SearchOutcome::Below { per_s } => Some(per_s),
            _ => None,
        });
        let below = below.min_by(f64::total_cmp);
        let below = below.map(|per_s| CapacityEstimate::Below { per_s });
        if unmet.or(below).is_some() {
            return unmet.or(below);
        }
        let reason = searches.iter().find_map(|search| match search {
            SearchOutcome::AtLeast { reason, .. } => Some(*reason),
            _ => None,
        });
        // The mean of a mixture of capacities and lower bounds would not estimate anything.
        if let Some(reason) = reason {
            let per_s = searches
                .iter()
                .map(SearchOutcome::per_s)
                .min_by(f64::total_cmp)?;
            return Some(CapacityEstimate::AtLeast { per_s, reason });
        }
        let logs: Vec<f64> = searches.iter().map(|search| search.per_s().ln()).collect();
        if logs.is_empty() {
            return None;
        }
        Some(CapacityEstimate::Capacity {
            per_s: crate::estimate::mean(&logs).exp(),
            interval: Estimate::from_blocks(&logs).map(|one| one.interval(MISS).map(f64::exp)),
            searches: logs.len(),
        })
    }
}
