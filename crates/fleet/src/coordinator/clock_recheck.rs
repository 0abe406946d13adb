//! Compares the agents' clocks again after a load, to detect clocks that changed during the load.
//!
//! Any coordinator on the same machine can do this, provided that the agents have not been
//! restarted. The results are stored with the run.

use std::collections::BTreeMap;
use std::time::Duration;

use prony_record::finding::{
    ClockDoubtful, ClockUnchecked, Subject, UncheckedClocks, UncheckedReason,
};
use prony_record::{Finding, Severity};

use super::collector::ResultCollector;
use super::fleet::Fleet;
use super::orders;
use crate::clock::ClockOffset;
use crate::names::AgentName;
use crate::wire::RunManifest;

/// Maximum time from the end of a load to the second comparison. After a longer time, normal drift
/// could hide a change of the clock.
const RECHECK_MAX: Duration = Duration::from_secs(600);

/// Results of the second comparison, for the agents whose parts are not lost.
#[derive(Debug, Default)]
pub(super) struct ClockRecheck {
    pub(super) compared: BTreeMap<AgentName, ClockOffset>,
    pub(super) unknown: BTreeMap<AgentName, UncheckedReason>,
}

impl ClockRecheck {
    /// Takes the results from the stored offsets. Records the reason `why` for agents without a
    /// stored offset.
    pub(super) fn stored(
        manifest: &RunManifest,
        collector: &ResultCollector,
        why: UncheckedReason,
    ) -> ClockRecheck {
        let mut clock_recheck = ClockRecheck::default();
        for (name, part) in &manifest.parts {
            let gathered = collector.parts.get(name);
            if part.clock.is_none() || gathered.is_none_or(|it| it.lost.is_some()) {
                continue;
            }
            match part.clock_after {
                Some(offset) => drop(clock_recheck.compared.insert(name.clone(), offset)),
                None => drop(clock_recheck.unknown.insert(name.clone(), why)),
            }
        }
        clock_recheck
    }

    /// Returns findings about clocks that changed or were not checked.
    pub(super) fn findings(&self, manifest: &RunManifest) -> Vec<Finding> {
        let doubtful = manifest.parts.iter().filter_map(|(name, part)| {
            let disagreement = part.clock?.disagreement_ns(self.compared.get(name)?);
            (disagreement > 0).then(|| clock_doubtful(name, disagreement))
        });
        let mut findings: Vec<Finding> = doubtful.collect();
        findings.extend(self.unchecked());
        findings
    }

    fn unchecked(&self) -> Option<Finding> {
        let mut by_reason: BTreeMap<UncheckedReason, Vec<String>> = BTreeMap::new();
        for (name, reason) in &self.unknown {
            by_reason.entry(*reason).or_default().push(name.to_string());
        }
        let unchecked = by_reason
            .into_iter()
            .map(|(reason, agents)| UncheckedClocks { reason, agents });
        let unchecked = ClockUnchecked {
            unchecked: unchecked.collect(),
        };
        (!self.unknown.is_empty()).then(|| Finding::of(Severity::Note, &unchecked))
    }
}

impl Fleet {
    /// Uses the stored offsets, and compares the clocks of connected agents that have none.
    pub(super) fn clocks_after(
        &self,
        manifest: &RunManifest,
        collector: &ResultCollector,
    ) -> ClockRecheck {
        let mut after = ClockRecheck::stored(manifest, collector, UncheckedReason::Gone);
        let is_here = manifest.clock.as_ref() == Some(&self.clock.identity());
        let there: BTreeMap<AgentName, String> = match self.agents() {
            Ok(listed) if is_here => listed
                .into_iter()
                .map(|one| (one.agent.name, one.agent.instance))
                .collect(),
            _ => BTreeMap::new(),
        };
        for (name, why) in &mut after.unknown {
            let was = manifest.parts.get(name).map(|part| &part.instance);
            *why = if !is_here {
                UncheckedReason::Elsewhere
            } else if self.is_long_over(manifest, collector, name) {
                UncheckedReason::LongAgo(RECHECK_MAX.as_secs() / 60)
            } else if there.get(name).is_some_and(|is| Some(is) != was) {
                UncheckedReason::Restarted
            } else {
                UncheckedReason::Gone
            };
        }
        let asked: Vec<AgentName> = after
            .unknown
            .iter()
            .filter(|(name, why)| **why == UncheckedReason::Gone && there.contains_key(*name))
            .map(|(name, _)| name.clone())
            .collect();
        let offsets = orders::clocks(&self.link, &self.clock, &asked.iter().collect::<Vec<_>>());
        for (name, offset) in asked.into_iter().zip(offsets) {
            if let Ok(offset) = offset {
                after.unknown.remove(&name);
                after.compared.insert(name, offset);
            }
        }
        after
    }

    /// Stores the offsets with the run, for coordinators that build the run's record later.
    pub(super) fn keep_clocks(&self, manifest: &RunManifest, after: &ClockRecheck) {
        let mut known = manifest.clone();
        for (name, offset) in &after.compared {
            if let Some(part) = known.parts.get_mut(name) {
                part.clock_after = Some(*offset);
            }
        }
        if known != *manifest {
            // If storing fails, later records report that the clocks were not checked.
            let _ = self.store(&known);
        }
    }

    fn is_long_over(
        &self,
        manifest: &RunManifest,
        collector: &ResultCollector,
        name: &AgentName,
    ) -> bool {
        let end = collector.ledger.agent(name.as_str()).and_then(|it| it.span);
        let end_ns = end.map_or(0, |(_, end)| end.0);
        let over = manifest.start.map(|start| {
            let end = start.saturating_add_unsigned(end_ns);
            self.clock.now().saturating_sub(end)
        });
        over.is_some_and(|over_ns| over_ns > RECHECK_MAX.as_nanos() as i64)
    }
}

fn clock_doubtful(name: &AgentName, disagreement_ns: u64) -> Finding {
    let doubtful = ClockDoubtful {
        unexplained_ms: disagreement_ns as f64 / 1e6,
    };
    let subject = Subject::Agent(name.to_string());
    Finding::about(subject, Severity::Warning, &doubtful)
}
