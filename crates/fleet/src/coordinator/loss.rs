//! Reasons why an agent's share of a run stays incomplete.

use std::fmt;

/// Reason why an agent's share of a run stays incomplete. Formatted as the predicate of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossReason {
    /// The agent stopped responding.
    Silent,
    /// The agent was restarted.
    Restarted,
    /// The agent's load did not end in time.
    Endless,
    /// The agent did not confirm a stop.
    Unstopped,
    /// The server was unreachable for too long.
    ServerAway,
    /// The agent ended its part, but some of its messages are missing.
    Missing,
    /// The server has not stored an end message for the part.
    NoEnd,
    /// The user stopped waiting before the part ended.
    LeftBehind,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::Silent => "stopped responding",
            LossReason::Restarted => "was restarted",
            LossReason::Endless => "did not finish by the planned end of the load",
            LossReason::Unstopped => "did not confirm the order to stop",
            LossReason::ServerAway => "could not be reached: the NATS server stayed unreachable",
            LossReason::Missing => "finished, but some of its messages are missing",
            LossReason::NoEnd => "sent no final message",
            LossReason::LeftBehind => "had not finished when the coordinator stopped waiting",
        })
    }
}
