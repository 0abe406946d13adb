//! Results of a run that an agent sends.

use prony_record::{
    EncodedDelta, Finding, Generator, IdleUse, Negotiated, QuicUse, SourceUse, Summary,
    WebSocketUse,
};
use serde::{Deserialize, Serialize};

use crate::names::{AgentName, RunId};

/// Results that an agent recorded since its previous message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// ID of the run.
    pub run: RunId,
    /// Name of the agent.
    pub agent: AgentName,
    /// Sequence number of the message, from 0 for each agent and run.
    pub sequence: u64,
    /// Counts and histograms recorded since the previous message.
    pub packed: EncodedDelta,
    /// Facts about the whole part, which only the last message contains.
    pub end: Option<Box<PartEnd>>,
}

/// Facts about an agent's whole share of a load (its part).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartEnd {
    /// Reason why the part ended.
    #[serde(rename = "because")]
    pub reason: EndReason,
    /// Ordered start of the load and actual start of the first request, in nanoseconds on the
    /// agent's clock.
    pub began: Option<(i64, i64)>,
    /// Start and end of the measured part, as nanoseconds since the start of the load.
    pub span: (u64, u64),
    /// Resources used by the load on the agent's machine.
    pub generator: Generator,
    /// Response times measured by this agent; `None` if the part did not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_time_us: Option<Summary>,
    /// Negotiated protocol parameters.
    pub negotiated: Negotiated,
    /// Packets and system calls, if the load used QUIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quic: Option<QuicUse>,
    /// Messages of WebSockets besides responses, if the load used WebSockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websocket: Option<WebSocketUse>,
    /// Use of each source address.
    pub sources: Option<SourceUse>,
    /// Connections that only stayed open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleUse>,
    /// Use of the addresses of servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<SourceUse>,
    /// Findings that qualify this agent's results.
    pub findings: Vec<Finding>,
    /// Start of the load by the machine's wall clock, UTC, RFC 3339.
    pub started_at: String,
}

/// Reason why an agent's share of a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// The load finished.
    Done,
    /// The coordinator ordered a stop.
    Stopped,
    /// The agent's process was stopped, for example by SIGTERM.
    AgentEnded,
    /// The agent lost contact with the coordinator, so its lease expired.
    LeaseEnded,
    /// The engine failed. A finding contains the details.
    Failed,
}

impl EndReason {
    /// Returns the name by which records identify the reason.
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
