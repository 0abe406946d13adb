//! Agents' clocks after a load: whether they still are where they were before it.
//!
//! Clocks are compared with the coordinator's. Whoever makes the record later can do so too, as long as
//! that is the same machine's clock, and the agents have not been started anew; what was found is kept
//! with the run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prony_record::{Finding, FindingId, Severity};

use super::gathering::Gathering;
use super::{Fleet, orders, sums};
use crate::clock::Offset;
use crate::messages::Manifest;
use crate::names::AgentName;

/// So long after a load a clock's drift hides what is looked for.
const LONG: Duration = Duration::from_secs(600);

/// Why a clock was not compared again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// The clock that it was compared with before is not known to be this one's.
    Elsewhere,
    /// Too long ago.
    Long,
    /// The agent is there, and was started anew since.
    Restarted,
    /// The agent gave no answer.
    Gone,
    /// Nobody was waited for.
    Hurried,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Elsewhere => {
                f.write_str("compared before with a clock that is not known to be this machine's")
            }
            Why::Long => write!(f, "over for more than {} min", LONG.as_secs() / 60),
            Why::Restarted => f.write_str("started anew since"),
            Why::Gone => f.write_str("not there to be asked"),
            Why::Hurried => f.write_str("not waited for"),
        }
    }
}

/// What is known of the clocks of those whose part is not lost.
#[derive(Debug, Default)]
pub(super) struct Afterwards {
    pub(super) compared: BTreeMap<AgentName, Offset>,
    pub(super) unknown: BTreeMap<AgentName, Why>,
}

impl Afterwards {
    /// What is stored, and why there is no more of those whose part is not lost.
    pub(super) fn stored(manifest: &Manifest, gathering: &Gathering, why: Why) -> Afterwards {
        let mut afterwards = Afterwards::default();
        for (name, part) in &manifest.parts {
            let gathered = gathering.parts.get(name);
            if part.clock.is_none() || gathered.is_none_or(|it| it.lost.is_some()) {
                continue;
            }
            match part.clock_after {
                Some(offset) => drop(afterwards.compared.insert(name.clone(), offset)),
                None => drop(afterwards.unknown.insert(name.clone(), why)),
            }
        }
        afterwards
    }

    /// What it means for the figures.
    pub(super) fn findings(&self, manifest: &Manifest) -> Vec<Finding> {
        let doubtful = manifest.parts.iter().filter_map(|(name, part)| {
            let disagreement = part.clock?.disagreement_ns(self.compared.get(name)?);
            (disagreement > 0).then(|| clock_doubtful(name, disagreement))
        });
        let mut findings: Vec<Finding> = doubtful.collect();
        findings.extend(self.unchecked());
        findings
    }

    fn unchecked(&self) -> Option<Finding> {
        let mut by_why: BTreeMap<Why, Vec<&str>> = BTreeMap::new();
        for (name, why) in &self.unknown {
            by_why.entry(*why).or_default().push(name.as_str());
        }
        if by_why.is_empty() {
            return None;
        }
        let each = by_why
            .iter()
            .map(|(why, names)| format!("{} ({why})", sums::shorten(names, usize::MAX)));
        let text = format!(
            "Whether clocks were set during the load could not be checked after it: {}.",
            each.collect::<Vec<_>>().join(", ")
        );
        Some(Finding::new(
            FindingId::ClockUnchecked,
            Severity::Note,
            text,
        ))
    }
}

impl Fleet {
    /// The clocks of those that are still there, and what is stored of the others'.
    pub(super) fn clocks_after(&self, manifest: &Manifest, gathering: &Gathering) -> Afterwards {
        let mut after = Afterwards::stored(manifest, gathering, Why::Gone);
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
                Why::Elsewhere
            } else if self.is_long_over(manifest, gathering, name) {
                Why::Long
            } else if there.get(name).is_some_and(|is| Some(is) != was) {
                Why::Restarted
            } else {
                Why::Gone
            };
        }
        let asked: Vec<AgentName> = after
            .unknown
            .iter()
            .filter(|(name, why)| **why == Why::Gone && there.contains_key(*name))
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

    /// Keeps what was found with the run, for whoever makes its record again.
    pub(super) fn keep_clocks(&self, manifest: &Manifest, after: &Afterwards) {
        let mut known = manifest.clone();
        for (name, offset) in &after.compared {
            if let Some(part) = known.parts.get_mut(name) {
                part.clock_after = Some(*offset);
            }
        }
        if known != *manifest {
            // Without it the next record says that it was not checked.
            let _ = self.store(&known);
        }
    }

    fn is_long_over(&self, manifest: &Manifest, gathering: &Gathering, name: &AgentName) -> bool {
        let end = gathering.ledger.agent(name.as_str()).and_then(|it| it.span);
        let end_ns = end.map_or(0, |(_, end)| end.0);
        let over = manifest.start.map(|start| {
            let end = start.saturating_add_unsigned(end_ns);
            self.clock.now().saturating_sub(end)
        });
        over.is_some_and(|over_ns| over_ns > LONG.as_nanos() as i64)
    }
}

fn clock_doubtful(name: &AgentName, disagreement_ns: u64) -> Finding {
    Finding::new(
        FindingId::ClockDoubtful,
        Severity::Warning,
        format!(
            "Agent {name}: its clock after the load differs from before by {:.3} ms more than drift \
             and both errors explain. It was set, or its machine slept: when its part began, and the \
             skew of the start, are doubtful.",
            disagreement_ns as f64 / 1e6
        ),
    )
}
