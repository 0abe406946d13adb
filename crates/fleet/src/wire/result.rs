//! The results that an agent sends of a run.

use prony_record::{EncodedDelta, Finding, Generator, Negotiated, QuicUse, SourceUse, Summary};
use serde::{Deserialize, Serialize};

use crate::names::{AgentName, RunId};

/// Results of an agent since its previous message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// The run.
    pub run: RunId,
    /// The agent that measured.
    pub agent: AgentName,
    /// Number of the message among this agent's messages of this run, from 0.
    pub sequence: u64,
    /// Counts and histograms recorded since the previous message.
    pub packed: EncodedDelta,
    /// Facts about the whole part; in the last message only.
    pub end: Option<Box<PartEnd>>,
}

/// Facts about an agent's whole part of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartEnd {
    /// The reason why the part ended.
    #[serde(rename = "because")]
    pub reason: EndReason,
    /// Ordered start, and actual start of the first request, on the agent's clock in nanoseconds.
    pub began: Option<(i64, i64)>,
    /// Begin and end of the measured part since the load's start, in nanoseconds.
    pub span: (u64, u64),
    /// Resources that the load used on the agent's machine.
    pub generator: Generator,
    /// Response times of this agent. `None` if the part did not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_time_us: Option<Summary>,
    /// Negotiated protocol parameters.
    pub negotiated: Negotiated,
    /// Packets and system calls, if the load used QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicUse>,
    /// Use of each source address.
    pub sources: Option<SourceUse>,
    /// Findings that qualify the agent's figures.
    pub findings: Vec<Finding>,
    /// Start of the load by the machine's wall clock, UTC, RFC 3339.
    pub started_at: String,
}

/// The reason why an agent's part of a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The load was finished.
    Done,
    /// The coordinator ordered the stop.
    Stopped,
    /// The agent's process was stopped, for example by SIGTERM.
    AgentEnded,
    /// The lease ended without contact to the coordinator.
    LeaseEnded,
    /// The engine failed; a finding has the details.
    Failed,
}

impl EndReason {
    /// The reason as records name it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            EndReason::Done => "done",
            EndReason::Stopped => "stopped",
            EndReason::AgentEnded => "agent-ended",
            EndReason::LeaseEnded => "lease-ended",
            EndReason::Failed => "failed",
        }
    }
}
