//! Registry rows of the findings about the services and machines of a trial, and their figures.

mod crypto;
mod limits;
mod services;
#[cfg(test)]
mod tests;

use super::Severity::{Error, Warning};
use super::{FindingInfo, FindingScope, WithheldVerdicts};

pub use crypto::*;
pub use limits::*;
pub use services::*;

const BASE: FindingInfo = FindingInfo {
    scope: FindingScope::Trial,
    ..FindingInfo::BASE
};

pub(super) const CONNECTIONS_LIMITED: FindingInfo = FindingInfo {
    seen: "In a capacity search, requests waited for a free connection while the server was fast.",
    severities: &[(Warning, "")],
    meaning: "At least half of the probes that failed near the capacity failed only because of that \
              wait: their service times, which exclude the wait, meet the goals, and the median \
              service time is at most twice the shortest median of all probes. The connections, \
              not the server, may be the limit, and the capacity may be higher.",
    action: "Use more connections (`--connections`, or `connections` in `[load]`), unless their \
             number is part of what you measure.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

pub(super) const CAPACITY_UNKNOWN: FindingInfo = FindingInfo {
    seen: "A capacity search ended without a capacity.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "The search found only a bound: the goals are met at every rate that could be judged, or \
              at none. Averaging capacities with bounds would be meaningless, so the trial yields no capacity.",
    action: "The text names the cause: raise `max_rate`, give the load more cores, use longer probes \
             (`probe`), or set other goals.",
    ..BASE
};
