//! Registry rows of the findings about loads by several agents, and their figures.

mod agents;
mod clocks;
mod losses;
#[cfg(test)]
mod tests;

use super::{FindingInfo, FindingScope};

pub use agents::*;
pub use clocks::*;
pub use losses::*;

const BASE: FindingInfo = FindingInfo {
    scope: FindingScope::FleetLoad,
    ..FindingInfo::BASE
};

/// Maximum number of agents that a text names.
const AGENTS_NAMED_MAX: usize = 6;

/// Lists agents, such as `a, b and 3 more`.
pub fn listed_agents(agents: &[impl AsRef<str>]) -> String {
    let (named, more) = agents.split_at(agents.len().min(AGENTS_NAMED_MAX));
    let named: Vec<&str> = named.iter().map(AsRef::as_ref).collect();
    match more.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
