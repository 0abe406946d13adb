//! What coordinator and agents say to each other.
//!
//! All of it is JSON: orders, an order's reply, an agent's registration, and what it sends each second of
//! a run's results ([`ResultMessage`]). Both sides have the same version of prony, or the agent refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use prony_record::{Finding, Generator, Negotiated, Packed, SourceUse, Summary};
use serde::{Deserialize, Serialize};

use crate::claims;
use crate::division::Stretch;
use crate::host::calls::{Answer, HostOrder};
use crate::names::{AgentName, RunId};

/// The version that both sides must have.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What an agent says about itself, under its name in the bucket of agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    /// `prony.agent/1`.
    pub schema: String,
    /// Its version of prony.
    pub version: String,
    /// Its name. Only the bucket's key is authenticated by the server, so a reader takes the name from
    /// there ([`Registration::of_entry`]) and ignores the one in the value.
    #[serde(skip_deserializing, default = "AgentName::unknown")]
    pub name: AgentName,
    /// Differs each time the agent is started.
    pub instance: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Cores that it may use.
    pub cores: u32,
    /// Its machine's addresses, loopback aside, the one by which it reaches the server first.
    pub addresses: Vec<IpAddr>,
    /// Its system and kernel, such as `Linux 6.1.0`.
    pub system: String,
    /// The machine's name.
    pub host: String,
    /// Files that its processes may have open.
    pub open_files: u64,
    /// Where its clock comes from, as far as the system tells, such as `tsc`.
    pub clock: Option<String>,
    /// What it lets itself be used for, in a few words.
    pub policy: String,
    /// The run that it is part of.
    pub busy_with: Option<RunId>,
    /// The experiment that has reserved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Reservation>,
    /// Runs of which it has results that the server has not stored yet, as of when this was said.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sending: BTreeSet<RunId>,
}

impl Registration {
    /// Reads an entry of the bucket of agents. The agent's name is the entry's key, whatever the value
    /// claims: an agent's credentials permit it to write its own key and no other. None if the key or
    /// the value can't be read, as when another version wrote it.
    pub fn of_entry(key: &str, value: &[u8]) -> Option<Registration> {
        let name = key.parse().ok()?;
        let registration: Registration = serde_json::from_slice(value).ok()?;
        Some(claims::registration(Registration {
            name,
            ..registration
        }))
    }

    /// Why it can't be true, as the predicate of a sentence; none where it can.
    pub(crate) fn absurdity(&self) -> Option<String> {
        claims::absurdity(self)
    }
}

/// An agent's reservation for an experiment. It ends with the experiment, or with its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The experiment's run.
    pub run: RunId,
    /// The experiment and its coordinator, in words; may be empty.
    pub holder: String,
    /// When it will be over by its own forecast, UTC, RFC 3339.
    pub until: Option<String>,
}

/// The longest name of a reservation's holder, in characters.
const HOLDER_MAX: usize = 120;

impl Reservation {
    /// A reservation; a holder's name that is too long is cut, and a time that is none is dropped.
    pub fn new(run: &RunId, holder: String, until: Option<String>) -> Reservation {
        let printable = holder.chars().filter(|c| !c.is_control());
        Reservation {
            run: run.clone(),
            holder: printable.take(HOLDER_MAX).collect(),
            until: until.filter(|time| humantime::parse_rfc3339(time).is_ok()),
        }
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holder.is_empty() {
            true => write!(f, "reserved for run {}", self.run)?,
            false => write!(f, "reserved for {} (run {})", self.holder, self.run)?,
        }
        match &self.until {
            Some(until) => write!(f, " until about {until}"),
            None => Ok(()),
        }
    }
}

/// The schema of [`Registration`].
pub const AGENT_SCHEMA: &str = "prony.agent/1";

/// One order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The coordinator's version of prony.
    pub version: String,
    /// The run that it is about.
    pub run: RunId,
    /// The experiment that the run belongs to: an agent that is reserved for it takes the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<RunId>,
    /// What to do.
    #[serde(flatten)]
    pub what: What,
}

/// What an agent can be told to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum What {
    /// Say whether this load could be made from there, and whether its target answers.
    Check(Load),
    /// Keep a piece of a file for the run.
    Put(Piece),
    /// Get ready for a load: read it, refuse it or not, make the workers, open connections. The run's
    /// lease begins.
    Prepare(Load),
    /// Begin at this moment of the agent's own clock, in nanoseconds.
    Start {
        /// The moment.
        at: i64,
    },
    /// The coordinator is still there: the lease begins anew.
    Renew,
    /// End the load now, and send what was measured.
    Stop,
    /// What was sent has come whole: nothing of the run needs to be kept.
    Forget,
    /// Do this with the agent's machine and the services on it.
    Host(HostOrder),
}

/// Leases that an agent accepts, in milliseconds: a shorter one ends by a hiccup of the network.
pub const LEASE_MS: RangeInclusive<u64> = 200..=120_000;

/// One agent's part of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The URL, as `prony load` takes it.
    pub url: Option<String>,
    /// Its options, as they are typed. Those that name files name files that were sent.
    pub words: Vec<String>,
    /// Which workers of the load this agent runs.
    pub stretch: Stretch,
    /// How long it goes on after the last sign of the coordinator, in milliseconds.
    pub lease_ms: u64,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The file's name in the run's folder.
    pub name: String,
    /// Where in it the piece begins, in bytes.
    pub offset: u64,
    /// Its bytes, base64.
    pub bytes: String,
    /// The whole file's length.
    pub length: u64,
    /// The whole file's SHA-256, hexadecimal; checked when all pieces are there.
    pub sha256: String,
}

/// The longest piece of a file, in bytes before base64: with that it fits into a message.
pub const LONGEST_PIECE: usize = 256 * 1024;

/// What comes back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// It is done.
    Done,
    /// It is ready to start.
    Ready(Ready),
    /// It was looked at.
    Checked(Checked),
    /// What came of a call to its machine.
    Host(Answer),
    /// It is against the agent's policy.
    Refused {
        /// The rule, such as `load.targets`.
        rule: String,
        /// What was asked, and what the rule allows.
        text: String,
    },
    /// It can't be done now: somebody else has the agent.
    Busy {
        /// Who, and until when, as far as that is known.
        text: String,
    },
    /// It can't be done: what was asked is wrong.
    Wrong {
        /// Why.
        text: String,
    },
    /// It can't be done: that machine refuses.
    Environment {
        /// Why.
        text: String,
    },
}

/// An agent that can begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Connections that stand.
    pub connections: u64,
    /// What may go wrong, as far as it can be told before the load.
    pub forecast: Vec<Finding>,
    /// The load as it was read there, with this agent's threads.
    pub load: Box<prony_record::LoadInfo>,
}

/// What a look at a load gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// The first request's answer in a few words; why there was none.
    pub target: Result<String, String>,
    /// What may go wrong.
    pub forecast: Vec<Finding>,
}

/// A part of a run's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// The run.
    pub run: RunId,
    /// Who measured it.
    pub agent: AgentName,
    /// Counts this agent's messages of this run, from 0.
    pub sequence: u64,
    /// What was recorded since the message before.
    pub packed: Packed,
    /// The last message: what belongs to the whole.
    pub end: Option<Box<PartEnd>>,
}

/// What belongs to an agent's whole part of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartEnd {
    /// Why it ended.
    pub because: Because,
    /// When it was to begin, and when its first request began, on its own clock, in nanoseconds.
    pub began: Option<(i64, i64)>,
    /// The measured part, since the load's start, in nanoseconds.
    pub span: (u64, u64),
    /// What the load cost there.
    pub generator: Generator,
    /// Its response times. None where its part did not come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_time_us: Option<Summary>,
    /// What was agreed on.
    pub negotiated: Negotiated,
    /// What came from its source addresses.
    pub sources: Option<SourceUse>,
    /// What qualifies its figures.
    pub findings: Vec<Finding>,
    /// When the load began, UTC, RFC 3339, by that machine's calendar.
    pub started_at: String,
}

/// Why an agent's part of a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// It was done.
    Done,
    /// The coordinator told it to stop.
    Stopped,
    /// The agent's own process was told to exit, as by SIGTERM.
    AgentEnded,
    /// Nothing was heard of the coordinator for as long as its lease.
    LeaseEnded,
    /// The engine failed there; a finding says how.
    Failed,
}

/// What is kept of a run, for those who come later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `prony.run/1`.
    pub schema: String,
    /// The coordinator's version of prony.
    pub version: String,
    /// The run.
    pub run: RunId,
    /// When it was made, UTC, RFC 3339.
    pub made_at: String,
    /// The URL without its credentials.
    pub url: Option<String>,
    /// The options as typed, without the credentials in them.
    pub words: Vec<String>,
    /// The load as the record tells it.
    pub load: prony_record::LoadInfo,
    /// The seed of arrivals and of random order.
    pub seed: u64,
    /// The error of a clock that is borne, in nanoseconds.
    pub clock_bound_ns: u64,
    /// Who makes which part of it.
    pub parts: BTreeMap<AgentName, Part>,
    /// When it begins, on the coordinator's clock, in nanoseconds; none before all are ready.
    pub start: Option<i64>,
    /// Names the coordinator's clock.
    #[serde(default)]
    pub clock: Option<String>,
    /// How long agents go on after the last sign of a coordinator, in milliseconds.
    #[serde(default)]
    pub lease_ms: Option<u64>,
    /// A coordinator told the agents to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// One agent's part in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The agent's instance.
    pub instance: String,
    /// Its system and kernel.
    pub system: String,
    /// Its workers.
    pub stretch: Stretch,
    /// Its clock against the coordinator's.
    pub clock: Option<crate::clock::Offset>,
    /// The same after the load, where it was compared again.
    #[serde(default)]
    pub clock_after: Option<crate::clock::Offset>,
}

/// The schema of [`Manifest`].
pub const RUN_SCHEMA: &str = "prony.run/1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_names_its_holder_within_bounds() {
        let run = "r1".parse().unwrap();
        let long = format!("a\n{}", "b".repeat(1000));
        let reservation = Reservation::new(&run, long, Some("tomorrow".to_owned()));
        assert_eq!(reservation.until, None);
        let text = reservation.to_string();
        assert!(text.len() < 160 && !text.contains('\n'), "{text}");
        let until = Some("2026-01-01T00:00:00Z".to_owned());
        let text = Reservation::new(&run, "gzip on bench-1".to_owned(), until).to_string();
        let said = "reserved for gzip on bench-1 (run r1) until about 2026-01-01T00:00:00Z";
        assert_eq!(text, said);
    }

    #[test]
    fn an_order_reads_as_it_was_written() {
        let order = Order {
            version: VERSION.to_owned(),
            run: "r1".parse().unwrap(),
            experiment: None,
            what: What::Start { at: -5 },
        };
        let json = serde_json::to_string(&order).unwrap();
        assert_eq!(
            json,
            format!(r#"{{"version":"{VERSION}","run":"r1","do":"start","at":-5}}"#)
        );
        assert_eq!(serde_json::from_str::<Order>(&json).unwrap(), order);
        for what in [What::Renew, What::Stop, What::Forget] {
            let order = Order {
                what,
                ..order.clone()
            };
            let json = serde_json::to_string(&order).unwrap();
            assert_eq!(serde_json::from_str::<Order>(&json).unwrap(), order);
        }
        for bad in ["", "{}", r#"{"version":"1","run":"a.b","do":"stop"}"#] {
            assert!(serde_json::from_str::<Order>(bad).is_err(), "{bad}");
        }
    }
}
