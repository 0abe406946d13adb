//! Registration of an agent in the bucket of agents, including its reservation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::legible::{FINDING_TEXT_MAX, legible, short};
use super::version::SenderVersion;
use crate::names::{AgentName, RunId};

/// Schema of [`Registration`].
const AGENT_SCHEMA: &str = "prony.agent/1";

/// Maximum plausible number of an agent's cores.
const CORES_MAX: u32 = 4_096;
/// Maximum number of addresses that are kept from a registration.
const ADDRESSES_MAX: usize = 1_024;
/// Maximum number of labels that are kept from a registration.
const LABELS_MAX: usize = 64;
/// Maximum length of a holder's name in a reservation, in characters.
const HOLDER_CHARS_MAX: usize = 120;

/// Description that an agent stores under its name in the bucket of agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Registration {
    /// Always `prony.agent/1`.
    pub schema: String,
    /// Version of the agent.
    #[serde(flatten)]
    pub sender: SenderVersion,
    /// Name of the agent. The NATS server protects only the key in the bucket, so readers take the
    /// name from the key ([`Registration::of_entry`]) and ignore the name in the value.
    #[serde(skip_deserializing, default = "AgentName::unknown")]
    pub name: AgentName,
    /// Random identifier of the agent's process.
    pub instance: String,
    /// Labels of the agent.
    pub labels: BTreeMap<String, String>,
    /// Number of cores that loads on the agent may use.
    pub cores: u32,
    /// Addresses of the machine, except loopback addresses. The first one is the address from which
    /// it connects to the NATS server.
    pub addresses: Vec<IpAddr>,
    /// Operating system and kernel, such as `Linux 6.1.0`.
    pub system: String,
    /// The machine's host name.
    pub host: String,
    /// Limit on open files of the agent's process.
    pub open_files: u64,
    /// Clock source of the machine, such as `tsc`, if the system reports one.
    pub clock: Option<String>,
    /// Summary of the agent's policy.
    pub policy: String,
    /// The run that the agent takes part in.
    pub busy_with: Option<RunId>,
    /// The experiment that has reserved the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Reservation>,
    /// Runs whose results the agent has not completely stored on the server yet.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sending: BTreeSet<RunId>,
}

impl Registration {
    /// Creates the registration of a free agent, without facts about its machine.
    pub fn new(name: AgentName) -> Registration {
        Registration {
            schema: AGENT_SCHEMA.to_owned(),
            sender: SenderVersion::own(),
            name,
            instance: String::new(),
            labels: BTreeMap::new(),
            cores: 1,
            addresses: Vec::new(),
            system: String::new(),
            host: String::new(),
            open_files: 1024,
            clock: None,
            policy: String::new(),
            busy_with: None,
            reserved: None,
            sending: BTreeSet::new(),
        }
    }

    /// Reads an agent's entry from the bucket, and limits its contents. The name is taken from the
    /// key, because an agent's credentials permit it to write only its own key. Returns `None` if
    /// the key or the value can't be read, for example because another version wrote it.
    pub fn of_entry(key: &str, value: &[u8]) -> Option<Registration> {
        let name = key.parse().ok()?;
        let claimed: Registration = serde_json::from_slice(value).ok()?;
        Some(Registration { name, ..claimed }.bounded())
    }

    /// Truncates long strings, and drops impossible addresses and excess entries.
    fn bounded(self) -> Registration {
        let labels = self.labels.iter().take(LABELS_MAX);
        let addresses = self.addresses.into_iter().map(|it| it.to_canonical());
        Registration {
            schema: short(&self.schema),
            sender: SenderVersion {
                prony: short(&self.sender.prony),
                wire: self.sender.wire,
            },
            name: self.name,
            instance: short(&self.instance),
            labels: labels
                .map(|(key, value)| (short(key), short(value)))
                .collect(),
            cores: self.cores,
            addresses: addresses
                .filter(is_reachable_address)
                .take(ADDRESSES_MAX)
                .collect(),
            system: short(&self.system),
            host: short(&self.host),
            open_files: self.open_files,
            clock: self.clock.as_deref().map(short),
            policy: legible(&self.policy, FINDING_TEXT_MAX),
            busy_with: self.busy_with,
            sending: self.sending,
            reserved: self
                .reserved
                .map(|it| Reservation::new(&it.run, it.holder, it.until)),
        }
    }

    /// Returns the reason why this registration can't be true, as the predicate of a sentence.
    pub(crate) fn implausibility(&self) -> Option<String> {
        let cores = self.cores;
        (cores == 0 || cores > CORES_MAX)
            .then(|| format!("claims to have {cores} cores (1 to {CORES_MAX} are accepted)"))
    }
}

/// Returns true if other machines can reach a machine at this address.
fn is_reachable_address(address: &IpAddr) -> bool {
    let is_special = match address {
        IpAddr::V4(four) => four.is_broadcast() || four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    !(is_special || address.is_unspecified() || address.is_multicast() || address.is_loopback())
}

/// Reservation of an agent for an experiment. It ends with the experiment or when its lease
/// expires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// ID of the experiment's run.
    pub run: RunId,
    /// Name of the experiment and its coordinator; may be empty.
    pub holder: String,
    /// Forecast end of the experiment, UTC, RFC 3339.
    pub until: Option<String>,
}

impl Reservation {
    /// Creates a reservation. Truncates a long holder's name, and drops an invalid time.
    pub fn new(run: &RunId, holder: String, until: Option<String>) -> Reservation {
        let printable = holder.chars().filter(|c| !c.is_control());
        Reservation {
            run: run.clone(),
            holder: printable.take(HOLDER_CHARS_MAX).collect(),
            until: until.filter(|time| humantime::parse_rfc3339(time).is_ok()),
        }
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.holder.is_empty() {
            write!(f, "reserved for run {}", self.run)?;
        } else {
            write!(f, "reserved for {} (run {})", self.holder, self.run)?;
        }
        match &self.until {
            Some(until) => write!(f, " until about {until}"),
            None => Ok(()),
        }
    }
}

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
        let expected = "reserved for gzip on bench-1 (run r1) until about 2026-01-01T00:00:00Z";
        assert_eq!(text, expected);
    }
}
