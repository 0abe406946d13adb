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

/// Leases that an agent accepts, in milliseconds. A shorter lease would end during a network hiccup.
pub const LEASE_RANGE_MS: RangeInclusive<u64> = 200..=120_000;

/// One order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentOrder {
    /// The coordinator's version.
    #[serde(flatten)]
    pub sender: SenderVersion,
    /// The run that the order belongs to.
    pub run: RunId,
    /// The experiment that the run belongs to. An agent reserved for it accepts the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<RunId>,
    /// The command to carry out.
    #[serde(flatten)]
    pub command: Command,
}

/// The fields that an order of every version has, read first to tell versions and recipients apart.
#[derive(Debug, Deserialize)]
pub(crate) struct OrderHeader {
    /// The coordinator's version.
    #[serde(flatten)]
    pub(crate) sender: SenderVersion,
    /// The name of the command.
    #[serde(rename = "do", default)]
    pub(crate) command: String,
}

/// A command to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Command {
    /// Check that the agent could make this load, and that the target responds.
    Check(LoadOrder),
    /// Store a chunk of a file for the run.
    Put(FileChunk),
    /// Prepare a load: validate it, start workers, open connections. Starts the run's lease.
    Prepare(LoadOrder),
    /// Start the prepared load.
    Start {
        /// Start time on the agent's own clock, in nanoseconds.
        at: i64,
    },
    /// Renew the run's lease.
    Renew,
    /// Stop the load now, and send what was measured.
    Stop,
    /// Delete everything kept for the run: the coordinator has all of it.
    Forget,
    /// Call the agent's machine on behalf of an experiment.
    Host(NumberedCall),
}

/// One agent's part of a load, as ordered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadOrder {
    /// The URL, as `prony load` takes it.
    pub url: Option<String>,
    /// The load's settings. File names in them refer to files that the coordinator has sent.
    pub settings: LoadSettings,
    /// The workers of the load that this agent runs.
    #[serde(rename = "stretch")]
    pub shard: AgentShard,
    /// Time without contact to the coordinator after which the agent stops the load, in milliseconds.
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
        /// The policy rule, such as `load.targets`.
        rule: String,
        /// The requested value, and the values that the rule allows.
        text: String,
    },
    /// Another run or experiment has the agent.
    Busy {
        /// The other run, and its forecast end if known.
        text: String,
    },
    /// The order itself is wrong.
    Wrong {
        /// The reason.
        text: String,
    },
    /// The agent's machine can't carry out the order.
    Environment {
        /// The reason.
        text: String,
    },
}

/// The state of an agent that is ready to start its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadyReport {
    /// Number of open connections.
    pub connections: u64,
    /// Problems that can be foreseen before the load.
    pub forecast: Vec<Finding>,
    /// The load as the agent read it, with this agent's threads.
    pub load: Box<LoadInfo>,
}

/// The result of checking a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// A summary of the response to the first request, or the reason why there was none.
    pub target: Result<String, String>,
    /// Problems that can be foreseen before the load.
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
