//! Orders from a coordinator to an agent, and the agent's replies.

use std::ops::RangeInclusive;

use prony_load::LoadSettings;
use prony_record::{Finding, LoadInfo};
use serde::{Deserialize, Serialize};

use super::file_chunk::FileChunk;
use super::host_call::{HostReply, NumberedCall};
use super::version::SenderVersion;
use crate::division::AgentShard;
use crate::names::RunId;

/// Range of leases that an agent accepts, in milliseconds. A shorter lease could expire during a
/// short network problem.
pub const LEASE_RANGE_MS: RangeInclusive<u64> = 200..=120_000;

/// An order from a coordinator to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentOrder {
    /// Version of the coordinator.
    #[serde(flatten)]
    pub sender: SenderVersion,
    /// Run that the order belongs to.
    pub run: RunId,
    /// Experiment that the run belongs to. An agent that is reserved for it accepts the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<RunId>,
    /// The command to carry out.
    #[serde(flatten)]
    pub command: Command,
}

/// Fields that the orders of all versions contain. They are parsed first, to detect other versions
/// and to determine which part of the agent handles the order.
#[derive(Debug, Deserialize)]
pub(crate) struct OrderHeader {
    /// Version of the coordinator.
    #[serde(flatten)]
    pub(crate) sender: SenderVersion,
    #[serde(rename = "do", default)]
    pub(crate) command: String,
}

/// A command to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Command {
    /// Check that the agent could generate this load, and that the target responds.
    Check(LoadOrder),
    /// Store a chunk of a file for the run.
    Put(FileChunk),
    /// Prepare a load: validate it, start workers, open connections. This starts the run's lease.
    Prepare(LoadOrder),
    /// Start the prepared load.
    Start {
        /// Start time on the agent's clock, in nanoseconds.
        at: i64,
    },
    /// Renew the run's lease.
    Renew,
    /// Stop the load now, and send the results so far.
    Stop,
    /// Delete all data of the run, because the coordinator has collected it.
    Forget,
    /// Carry out a call to the agent's machine on behalf of an experiment.
    Host(NumberedCall),
}

/// One agent's share of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadOrder {
    /// URL as on the command line of `prony load`.
    pub url: Option<String>,
    /// Settings of the load. File names in them refer to files that the coordinator has sent.
    pub settings: LoadSettings,
    /// Workers of the load that this agent runs.
    #[serde(rename = "stretch")]
    pub shard: AgentShard,
    /// Lease in milliseconds: how long the agent continues the load without contact with the
    /// coordinator.
    pub lease_ms: u64,
}

/// An agent's reply to an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The order was carried out.
    Done,
    /// The load is ready to start.
    Ready(ReadyReport),
    /// The load was checked.
    Checked(CheckReport),
    /// The result of the call to the agent's machine.
    Host(HostReply),
    /// The agent's policy forbids the order.
    Refused {
        /// Policy rule, such as `load.targets`.
        rule: String,
        /// The requested value, and the values that the rule allows.
        text: String,
    },
    /// The agent is in use by another run or experiment.
    Busy {
        /// Run or experiment that uses the agent, with its forecast end if known.
        text: String,
    },
    /// The order itself is invalid.
    Wrong {
        /// Description of the error.
        text: String,
    },
    /// The agent's machine can't carry out the order.
    Environment {
        /// Reason why the order can't be carried out.
        text: String,
    },
}

impl Reply {
    /// The reply for an error of this machine.
    pub(crate) fn environment(error: impl ToString) -> Reply {
        Reply::Environment {
            text: error.to_string(),
        }
    }
}

/// Report from an agent that is ready to start its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadyReport {
    /// Number of open connections.
    pub connections: u64,
    /// Problems with the load that were predicted before its start.
    pub forecast: Vec<Finding>,
    /// Load as the agent resolved it, with this agent's number of threads.
    pub load: Box<LoadInfo>,
}

/// Result of checking a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Summary of the response to the first request, or the reason why there was none, both in the
    /// agent's words.
    pub target: Result<String, String>,
    /// Problems with the load that were predicted before its start.
    pub forecast: Vec<Finding>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::SenderVersion;

    #[test]
    fn an_order_survives_serialization() {
        let order = |command| AgentOrder {
            sender: SenderVersion::own(),
            run: "r1".parse().unwrap(),
            experiment: None,
            command,
        };
        let load = LoadOrder {
            url: Some("http://x/".to_owned()),
            settings: LoadSettings {
                rate: Some(5.0.into()),
                ..LoadSettings::default()
            },
            shard: AgentShard {
                first: 3,
                workers: 2,
                of: 8,
            },
            lease_ms: 10_000,
        };
        for order in [
            order(Command::Prepare(load)),
            order(Command::Start { at: -7 }),
            order(Command::Renew),
        ] {
            let json = serde_json::to_string(&order).unwrap();
            assert_eq!(serde_json::from_str::<AgentOrder>(&json).unwrap(), order);
        }
        for bad in ["", "{}", r#"{"version":"1","run":"a.b","do":"stop"}"#] {
            assert!(serde_json::from_str::<AgentOrder>(bad).is_err(), "{bad}");
        }
    }
}
