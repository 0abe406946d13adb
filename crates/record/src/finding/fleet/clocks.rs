//! Findings about agents' start times and clocks.

use serde::{Deserialize, Serialize};

use super::{BASE, listed_agents};
use crate::finding::FindingInfo;
use crate::finding::Severity::{Note, Warning};
use crate::finding::figures::figures;

pub(in crate::finding) const LATE_START: FindingInfo = FindingInfo {
    seen: "An agent's first request started more than `--clock-bound` after it was due.",
    severities: &[
        (Note, "the agent started before the warm-up ended"),
        (
            Warning,
            "the agent started after the warm-up, so the measured part began without it",
        ),
    ],
    meaning: "The cause is not observed; the start order may have arrived late, the agent's machine \
        may have been busy, or connecting may have taken too long.",
    action: "Use a warm-up that is longer than the delay.",
    ..BASE
};

/// An agent whose first request was late.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LateAgent {
    /// Name of the agent.
    pub agent: String,
    /// Delay of its first request, in milliseconds.
    pub late_ms: f64,
}

figures! {
    /// Agents that started late.
    LateStart {
        /// The agents, the latest first.
        late: Vec<LateAgent> = same,
        /// Accepted delay, in milliseconds (`--clock-bound`).
        bound_ms: f64 = same,
        /// Length of the warm-up in seconds.
        warmup_s: f64 = same,
        /// True in an open loop.
        is_open: bool = same,
    }
    |it, _subject| {
        let late = it.late.iter();
        let late = late.map(|late| format!("{} by {:.1} ms", late.agent, late.late_ms));
        let late = listed_agents(&late.collect::<Vec<_>>());
        let beyond_s = it.beyond_warmup_s();
        let meaning = match (beyond_s > 0.0, it.is_open) {
            (false, _) => "All agents had started before the warm-up ended; the measured part is \
                not affected.".to_owned(),
            (true, false) => format!(
                "In the first {beyond_s:.1} s of the measured part, some agents had not started, \
                 so the load was lighter."
            ),
            (true, true) => format!(
                "In the first {beyond_s:.1} s of the measured part, some agents had not started. \
                 Requests due in that time started late, and their response times include the \
                 delay."
            ),
        };
        format!(
            "Agents started more than {:.1} ms (--clock-bound) later than ordered: {late}. The \
             start order may have arrived late, the machine may have been busy, or connecting may \
             have taken too long. {meaning}",
            it.bound_ms
        )
    }
}

impl LateStart {
    /// Seconds of the measured part in which not all agents had started.
    pub fn beyond_warmup_s(&self) -> f64 {
        let latest_ms = self.late.first().map_or(0.0, |late| late.late_ms);
        (latest_ms / 1e3 - self.warmup_s).max(0.0)
    }
}

pub(in crate::finding) const CLOCK_DOUBTFUL: FindingInfo = FindingInfo {
    seen: "An agent's clock changed during the load.",
    severities: &[(Warning, "")],
    meaning: "The clock's offset after the load differs from its offset before the load by more \
        than the errors of both measurements plus a drift of 100 ppm. The cause is not observed; usually, the clock was set, \
        or the machine was suspended. The start time of that agent's part is uncertain.",
    action: "Check the time synchronization of the agent's machine.",
    ..BASE
};

figures! {
    /// A clock that changed.
    ClockDoubtful {
        /// Change in milliseconds that drift and measurement errors don't explain.
        unexplained_ms: f64 = most,
    }
    |it, subject| format!(
        "{}: its clock changed during the load by {:.3} ms more than drift and measurement errors \
         explain. Usually, the clock was set, or the machine was suspended. The start time of its \
         part and the start skew are uncertain.",
        subject.generator(),
        it.unexplained_ms
    )
}

pub(in crate::finding) const CLOCK_UNCHECKED: FindingInfo = FindingInfo {
    seen: "An agent's clock could not be compared with the coordinator's again after the load.",
    severities: &[(Note, "")],
    meaning: "A change of the clock during the load would go unnoticed.",
    action: "Nothing, unless the agents' start times matter.",
    ..BASE
};

/// Reason why a clock was not compared again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncheckedReason {
    /// The first comparison may have used another machine's clock as the reference.
    Elsewhere,
    /// The load ended more than this number of minutes ago.
    LongAgo(u64),
    /// The agent was restarted after the first comparison.
    Restarted,
    /// The agent did not respond.
    Gone,
    /// The user ended the load without waiting for agents.
    Hurried,
}

/// Agents whose clocks were not compared again for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncheckedClocks {
    /// The reason.
    pub reason: UncheckedReason,
    /// Names of the agents.
    pub agents: Vec<String>,
}

impl UncheckedClocks {
    fn text(&self) -> String {
        let reason = match self.reason {
            UncheckedReason::Elsewhere => "first compared with another machine's clock".to_owned(),
            UncheckedReason::LongAgo(min) => format!("the load ended more than {min} min ago"),
            UncheckedReason::Restarted => "restarted since".to_owned(),
            UncheckedReason::Gone => "not connected".to_owned(),
            UncheckedReason::Hurried => "the load was ended without waiting for agents".to_owned(),
        };
        format!("{} ({reason})", listed_agents(&self.agents))
    }
}

figures! {
    /// Clocks that were not compared again.
    ClockUnchecked {
        /// The agents, by reason.
        unchecked: Vec<UncheckedClocks> = same,
    }
    |it, _subject| {
        let unchecked: Vec<String> = it.unchecked.iter().map(UncheckedClocks::text).collect();
        format!(
            "Clock changes during the load could not be ruled out: {}.",
            unchecked.join(", ")
        )
    }
}
