//! Search for a server's capacity: the highest request rate at which it meets its goals.
//!
//! [`CapacityGoals`](prony_plan::capacity_goals::CapacityGoals) holds the goals and limits, and creates the [`SearchSettings`] of each search.
//! [`CapacitySearch::run`] runs one search, and returns a [`SearchReport`] with all probes. The
//! caller supplies the loads ([`ProbeLoads`]), so a search can run in any network, or against
//! simulated servers in tests:
//!
//! ```ignore
//! let goals = CapacityGoals { goals, search_time: None, probe: None, rate_max: None };
//! goals.check()?;
//! let search = CapacitySearch {
//!     goals: &goals.goals,
//!     settings: goals.search(seed, None),
//!     interrupt: &interrupt,
//! };
//! let report = search.run(&mut loads, &mut |event| show(event))?;
//! // Later searches begin at the capacity that the first one found.
//! let settings = goals.search(seed + 1, report.capacity_per_s());
//! // The result of all searches, with its interval:
//! let estimate = CapacityEstimate::of(&reports.iter().filter_map(SearchReport::outcome).collect::<Vec<_>>());
//! ```
//!
//! An implementation of [`ProbeLoads`] turns a [`ProbeLoad`](prony_plan::probe_load::ProbeLoad) into a spec with
//! `probe_load.settings(&load).resolve(url)` and runs it with `prony_load::run_scripted`. For a
//! named place, the spec must be resolved and run inside the place's network.
//!
//! [`SearchReport`]: prony_stats::capacity::SearchReport
//!
//! [`SearchSettings`]: prony_stats::capacity::SearchSettings

mod probe_loads;
mod probe_watch;
mod run;
#[cfg(test)]
mod tests;

pub use probe_loads::ProbeLoads;
pub use run::{CapacitySearch, SearchEvent};
