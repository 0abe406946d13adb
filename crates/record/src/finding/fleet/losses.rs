//! Findings about agents that were lost, or whose parts of a load are incomplete.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{BASE, listed_agents};
use crate::finding::Severity::Error;
use crate::finding::figures::{Subject, figures};
use crate::finding::{FindingInfo, TrialFolding, WithheldVerdicts};

pub(in crate::finding) const AGENT_LOST: FindingInfo = FindingInfo {
    seen: "An agent was lost before its share of the load, or its service, ended; or the ssh \
        connection to a host was.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "The agent was silent for 13 s, exited (it was restarted, killed or stopped with \
        SIGTERM), did not finish, or received nothing from the coordinator until its lease \
        expired. The figures include its measurements up to that time.",
    action: "Repeat the load. `prony fleet collect` fetches the measurements from the agent's own \
        file.",
    folding: TrialFolding::Worst,
    incomplete_load: true,
    ..BASE
};

/// Reason why an agent's part of a load stays incomplete. Formatted as the predicate of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
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

impl LossReason {
    /// Returns true if the agent may have results on disk that it has not sent.
    fn may_have_more(self) -> bool {
        use LossReason::{Missing, Restarted, ServerAway, Silent};
        matches!(self, Restarted | Silent | Missing | ServerAway)
    }
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

/// Reason why the agent of a service's host was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostLoss {
    /// The agent was restarted.
    Restarted,
    /// The agent doesn't know the reservation: it was restarted, or its lease ended.
    Forgotten,
    /// The agent has not responded for this number of seconds.
    Silent(u64),
    /// The server has not responded.
    ServerAway {
        /// URL of the server.
        server: String,
        /// Seconds without a response.
        silent_s: u64,
    },
}

impl fmt::Display for HostLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostLoss::Restarted => f.write_str("its agent was restarted"),
            HostLoss::Forgotten => f.write_str("its agent was restarted, or its lease ended"),
            HostLoss::Silent(silent_s) => {
                write!(f, "its agent has not responded for {silent_s} s")
            }
            HostLoss::ServerAway { server, silent_s } => {
                write!(
                    f,
                    "the NATS server {server} has not responded for {silent_s} s"
                )
            }
        }
    }
}

/// Time in which the NATS server was unreachable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerOutage {
    /// URL of the server.
    pub server: String,
    /// Length of the outage in seconds.
    pub lasted_s: f64,
    /// Lease of the run in seconds.
    pub lease_s: f64,
}

impl ServerOutage {
    /// Describes the outage, and names the option that lets agents continue through it.
    fn text(&self) -> String {
        format!(
            " The NATS server {} was unreachable for {:.1} s, and the lease is {} s. With a longer \
             lease (--lease), agents continue through such an outage.",
            self.server, self.lasted_s, self.lease_s
        )
    }
}

/// An agent's part of a load whose results are incomplete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LostPart {
    /// The reason.
    pub reason: LossReason,
    /// Name of the run.
    pub run: String,
    /// Seconds of the load up to which results have arrived, if any have.
    pub until_s: Option<f64>,
    /// Number of missing messages.
    pub missing_messages: u64,
    /// Requests in flight at that time.
    pub in_flight: u64,
}

impl LostPart {
    fn sentence(&self, subject: &Subject, outage: &str) -> String {
        let until = match self.until_s {
            Some(end_s) => format!("Its results up to {end_s:.1} s are counted"),
            None => "None of its results have arrived".to_owned(),
        };
        let missing = match self.missing_messages {
            0 => String::new(),
            1 => ", except for 1 missing message".to_owned(),
            n => format!(", except for {n} missing messages"),
        };
        let unfinished = match self.in_flight {
            0 => String::new(),
            n => format!("; {n} requests in flight at that time count as unfinished"),
        };
        let keeps = if self.reason.may_have_more() {
            format!(
                " It may have more results on disk; when it is back, fetch them with `prony fleet \
             collect {}`.",
                self.run
            )
        } else {
            String::new()
        };
        format!(
            "{} {}. {until}{missing}{unfinished}.{outage}{keeps}",
            subject.generator(),
            self.reason
        )
    }
}

/// Way in which agents were lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentLoss {
    /// Leases expired, because the agents lost contact with the coordinator.
    LeaseExpired {
        /// Names of the agents.
        agents: Vec<String>,
        /// Number of agents of the load.
        of: u64,
    },
    /// The coordinator has not received the whole part of an agent.
    Incomplete(LostPart),
    /// The agent's process was stopped.
    Stopped,
    /// The agent was killed, or its machine went down.
    Killed,
    /// The agent of a host that runs services was lost.
    Host(HostLoss),
    /// The ssh connection to a host that runs services was lost.
    Connection {
        /// Cause of the loss, as a clause.
        reason: String,
    },
}

figures! {
    /// Lost agents.
    AgentLost {
        /// Way in which they were lost.
        loss: AgentLoss = same,
        /// Outage of the server that explains the loss.
        outage: Option<ServerOutage> = same,
    }
    |it, subject| {
        let outage = it.outage.as_ref().map_or(String::new(), ServerOutage::text);
        match &it.loss {
            AgentLoss::LeaseExpired { agents, of } => {
                let names = match agents.len() {
                    1 => format!("Agent {}", agents[0]),
                    all if all as u64 == *of => format!("All {all} agents"),
                    _ => format!("Agents {}", agents.join(", ")),
                };
                format!(
                    "{names} lost contact with the coordinator for the length of the lease and \
                     stopped generating load. Results until then are counted.{outage}"
                )
            }
            AgentLoss::Incomplete(part) => part.sentence(subject, &outage),
            AgentLoss::Stopped => format!(
                "{} was stopped on its own machine in the middle of the load, for example by \
                 SIGTERM. Its figures end there.",
                subject.generator()
            ),
            AgentLoss::Killed => format!(
                "{} was killed, or its machine went down, in the middle of its load. Its figures \
                 end with the last results that it had written to disk.",
                subject.generator()
            ),
            AgentLoss::Host(loss) => format!(
                "The agent of host {} was lost: {loss}. Its services ended with it, or end when its \
                 lease expires. The results don't show the speed of the variant.",
                subject.name()
            ),
            AgentLoss::Connection { reason } => format!(
                "The ssh connection to host {} was lost: {reason}. Its services ended with it. The \
                 results don't show the speed of the variant.",
                subject.name()
            ),
        }
    }
}

pub(in crate::finding) const PARTIAL: FindingInfo = FindingInfo {
    seen: "Not all agents completed their parts of the load.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "An agent's part arrived incomplete, ended early, contained no requests, or accounts \
              for less than its share of the schedule or of `--requests`; or a message from the \
              agent could not be counted. The load was lighter than configured.",
    action: "See which agents are affected and why, and repeat the load.",
    folding: TrialFolding::Worst,
    incomplete_load: true,
    ..BASE
};

/// Way in which an agent did not complete its part of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortcoming {
    /// The agent was lost.
    Lost(LossReason),
    /// The agent's lease expired.
    LeaseExpired,
    /// The agent could not generate load.
    Failed,
    /// The agent's process was stopped.
    Stopped,
    /// The agent stopped although the coordinator had not ordered that.
    StoppedUnasked,
    /// The agent's messages don't add up.
    Inconsistent,
    /// The agent's load ended early.
    EndedEarly {
        /// Length of its load in seconds.
        after_s: f64,
        /// Ordered length in seconds.
        planned_s: f64,
    },
    /// The agent accounted for fewer requests than it had to.
    FewRequests {
        /// Number of requests that it accounted for.
        accounted: u64,
        /// Number of requests in its share.
        share: u64,
    },
    /// The agent reported no requests.
    NoRequests,
}

impl fmt::Display for Shortcoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortcoming::Lost(reason) => reason.fmt(f),
            Shortcoming::LeaseExpired => {
                f.write_str("stopped when it lost contact with the coordinator")
            }
            Shortcoming::Failed => f.write_str("failed"),
            Shortcoming::Stopped => f.write_str("was stopped on its own machine"),
            Shortcoming::StoppedUnasked => {
                f.write_str("stopped without a request from the coordinator")
            }
            Shortcoming::Inconsistent => f.write_str("sent inconsistent counts"),
            Shortcoming::EndedEarly { after_s, planned_s } => {
                write!(f, "ended after {after_s:.1} s of {planned_s:.1} s")
            }
            Shortcoming::FewRequests { accounted, share } => {
                write!(
                    f,
                    "accounted for {accounted} of the {share} requests in its share"
                )
            }
            Shortcoming::NoRequests => f.write_str("reported no requests"),
        }
    }
}

/// An agent that did not complete its part of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IncompletePart {
    /// Name of the agent.
    pub agent: String,
    /// The reason.
    pub shortcoming: Shortcoming,
}

figures! {
    /// Parts of a load that are incomplete.
    Partial {
        /// Name of the run.
        run: String = same,
        /// The incomplete parts.
        incomplete: Vec<IncompletePart> = same,
        /// Number of agents of the load.
        agents: u64 = same,
        /// Number of messages that could not be counted.
        uncounted_messages: u64 = same,
    }
    |it, _subject| {
        let incomplete = it.incomplete.iter();
        let incomplete: Vec<String> =
            incomplete.map(|part| format!("{} {}", part.agent, part.shortcoming)).collect();
        let listed = match incomplete.len() {
            0 => String::new(),
            _ => format!(": {}", listed_agents(&incomplete)),
        };
        let uncounted = match it.uncounted_messages {
            0 => String::new(),
            uncounted => format!("; {uncounted} messages could not be counted"),
        };
        let left_behind = Shortcoming::Lost(LossReason::LeftBehind);
        let meaning = if it.incomplete.iter().any(|part| part.shortcoming == left_behind) { format!(
            "The load was ended without waiting for them; `prony fleet collect {}` fetches the \
             rest. The figures cover only the results that had arrived.",
            it.run
        ) } else { "The load was lighter than requested, and the figures cover only what was \
        measured.".to_owned() };
        format!(
            "{} of {} agents did not complete their parts{listed}{uncounted}. {meaning}",
            incomplete.len(),
            it.agents
        )
    }
}
