//! Finds the agents that a plan names, and checks whether they meet its requirements.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use prony_plan::service::ServiceSpec;
use prony_plan::{DiagnosticKind, HostObjection, HostRequirement, ServiceAspect};

use super::call_error::SessionCallError;
use crate::coordinator::AgentChoice;
use crate::link::{LinkError, NatsLink};
use crate::names::{AGENTS_BUCKET, AgentName, RunId};
use crate::wire::{AgentOrder, Command, Registration, Reply, SenderVersion};
use crate::wire::{HostCall, HostReply, NumberedCall};

/// Timeout for an agent to check a service.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Registered agents, as read from the server.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    agents: BTreeMap<AgentName, Registration>,
}

/// Reason why no agent can be used for a `host` in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnusableHost {
    /// No agent has this name or label.
    Missing {
        /// Name or label.
        host: String,
        /// Agents that are registered.
        registered: Vec<AgentName>,
    },
    /// The agent makes this implausible claim.
    Implausible(AgentName, String),
    /// The agent has another version.
    OtherVersion(AgentName, SenderVersion),
}

impl fmt::Display for UnusableHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnusableHost::Missing { host, registered } => {
                if host.contains('=') {
                    write!(f, "no agent has the label {host}")?
                } else {
                    write!(f, "there is no agent {host}")?
                }
                let registered: Vec<&str> = registered.iter().map(AgentName::as_str).collect();
                if registered.is_empty() {
                    f.write_str(": no agents are registered")
                } else {
                    write!(f, "; registered agents: {}", registered.join(", "))
                }
            }
            UnusableHost::Implausible(agent, claim) => write!(f, "agent {agent} {claim}"),
            UnusableHost::OtherVersion(agent, version) => write!(
                f,
                "agent {agent} runs version {version}, but this is version {}",
                SenderVersion::own()
            ),
        }
    }
}

impl Roster {
    /// Reads the registrations from the server.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn read(link: &NatsLink) -> Result<Roster, LinkError> {
        let entries = link.entries(AGENTS_BUCKET)?;
        // A registration that can't be read comes from another version of prony, so its agent can't
        // be used.
        let agents = entries
            .iter()
            .filter_map(|(key, json)| Registration::of_entry(key, json));
        let agents = agents.map(|agent| (agent.name.clone(), agent));
        Ok(Roster {
            agents: agents.collect(),
        })
    }

    /// Returns the agent for a `host` in a plan: the agent with that name, or the first agent (by
    /// name) with that label.
    ///
    /// # Errors
    ///
    /// The agent is missing, has another version, or makes implausible claims.
    pub fn find(&self, host: &str) -> Result<&Registration, UnusableHost> {
        let found = match host.split_once('=') {
            Some((key, value)) => self.agents.values().find(|agent| {
                let label = agent.labels.get(key);
                label.is_some_and(|it| it == value)
            }),
            None => self.agents.values().find(|it| it.name.as_str() == host),
        };
        let Some(agent) = found else {
            return Err(UnusableHost::Missing {
                host: host.to_owned(),
                registered: self.agents.keys().cloned().collect(),
            });
        };
        let name = || agent.name.clone();
        if let Some(claim) = agent.implausibility() {
            return Err(UnusableHost::Implausible(name(), claim));
        }
        if agent.sender.is_own() {
            Ok(agent)
        } else {
            Err(UnusableHost::OtherVersion(name(), agent.sender.clone()))
        }
    }

    /// Returns the addresses in an agent's registration.
    pub(super) fn addresses(&self, agent: &AgentName) -> &[IpAddr] {
        let agent = self.agents.get(agent);
        agent.map_or(&[], |agent| agent.addresses.as_slice())
    }

    /// Returns the agents for an `agents` selector in a plan, sorted by name. Returns `None` if the
    /// selector is only a number.
    #[must_use]
    pub fn chosen(&self, agents: &str) -> Option<Vec<&Registration>> {
        let all = self.agents.values();
        match agents.parse() {
            Ok(AgentChoice::Labels(labels)) => Some(self.with_labels(&labels)),
            Ok(AgentChoice::Names(names)) => {
                Some(all.filter(|it| names.contains(&it.name)).collect())
            }
            Ok(AgentChoice::All | AgentChoice::Count(_) | AgentChoice::CountOf(..)) | Err(_) => {
                None
            }
        }
    }

    fn with_labels(&self, labels: &BTreeMap<String, String>) -> Vec<&Registration> {
        let has = |agent: &&Registration| {
            let mut labels = labels.iter();
            labels.all(|(key, value)| agent.labels.get(key) == Some(value))
        };
        self.agents.values().filter(has).collect()
    }

    /// Returns the address on which a host's services listen for other machines, if it is known
    /// before they start. If `host` is `None`, returns the address from which this machine connects
    /// to the first agent.
    #[must_use]
    pub fn address_of(&self, host: Option<&str>) -> Option<IpAddr> {
        match host {
            Some(host) => self.find(host).ok()?.addresses.first().copied(),
            None => {
                let mut agents = self.agents.values();
                let first = agents.find_map(|agent| agent.addresses.first())?;
                Some(address_towards(*first))
            }
        }
    }

    /// Returns the reason why an agent that the plan needs is missing. The agent may still register
    /// later.
    #[must_use]
    pub fn missing(&self, wanted: &HostRequirement<'_>) -> Option<String> {
        match wanted {
            HostRequirement::Service { host, .. } => {
                self.find(host).err().map(|error| error.to_string())
            }
            HostRequirement::Load { agents, .. } => {
                self.wrong_with_load(agents, None).into_iter().next()
            }
        }
    }

    /// Returns all reasons why the agents don't meet a requirement of the plan.
    pub fn objections(&self, link: &NatsLink, wanted: &HostRequirement<'_>) -> Vec<HostObjection> {
        let about_host = |what: String| HostObjection {
            aspect: ServiceAspect::Host,
            kind: DiagnosticKind::Machine,
            message: what,
            hint: None,
        };
        match wanted {
            HostRequirement::Service { host, spec } => match self.find(host) {
                Err(error) => vec![HostObjection {
                    hint: Some("or write \"local\" for this machine".to_owned()),
                    ..about_host(error.to_string())
                }],
                Ok(agent) => check_service(link, &agent.name, spec).unwrap_or_else(|error| {
                    vec![about_host(format!("agent {}: {error}", agent.name))]
                }),
            },
            HostRequirement::Load {
                agents,
                connections,
            } => {
                let wrong = self.wrong_with_load(agents, *connections);
                wrong.into_iter().map(about_host).collect()
            }
        }
    }

    /// Returns all reasons why these agents can't generate a load.
    fn wrong_with_load(&self, agents: &str, connections: Option<u64>) -> Vec<String> {
        let choice = match agents.parse::<AgentChoice>() {
            Ok(choice) => choice,
            Err(error) => return vec![error.to_string()],
        };
        let count = match &choice {
            AgentChoice::Count(count) | AgentChoice::CountOf(count, _) => {
                let there = match &choice {
                    AgentChoice::CountOf(_, labels) => self.with_labels(labels).len(),
                    _ => self.agents.len(),
                };
                if *count > there {
                    return vec![format!(
                        "the load needs {agents} agents, but {there} are registered"
                    )];
                }
                *count
            }
            AgentChoice::All | AgentChoice::Labels(_) | AgentChoice::Names(_) => {
                let parts = agents.split(',').map(str::trim);
                let unusable = parts.filter_map(|part| self.find(part).err());
                let wrong: Vec<String> = unusable.map(|error| error.to_string()).collect();
                if !wrong.is_empty() {
                    return wrong;
                }
                self.chosen(agents).map_or(0, |chosen| chosen.len())
            }
        };
        let too_few = connections.filter(|connections| *connections < count as u64);
        let what = too_few.map(|connections| {
            format!(
                "connections = {connections} is too few for {count} agents; each agent needs at least one"
            )
        });
        what.into_iter().collect()
    }
}

/// Returns the address of this machine that it uses to connect to another one.
pub(super) fn address_towards(other: IpAddr) -> IpAddr {
    let unspecified: IpAddr = match other {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a UDP socket sends nothing, but makes the system select a route.
    let found = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(other, 9))?;
        socket.local_addr()
    });
    found.map_or(std::net::Ipv4Addr::LOCALHOST.into(), |found| found.ip())
}

/// Asks an agent to check a service.
fn check_service(
    link: &NatsLink,
    agent: &AgentName,
    spec: &ServiceSpec,
) -> Result<Vec<HostObjection>, SessionCallError> {
    let call = HostCall::CheckService {
        spec: Box::new(spec.clone()),
    };
    let order = AgentOrder {
        sender: SenderVersion::own(),
        run: RunId::new(std::time::SystemTime::now()),
        experiment: None,
        command: Command::Host(NumberedCall { number: 0, call }),
    };
    let json = serde_json::to_vec(&order)?;
    let reply = link.request(&agent.orders_subject(), json, CHECK_TIMEOUT)?;
    match serde_json::from_slice(&reply)? {
        Reply::Host(HostReply::Objections { mut objections }) => {
            for objection in &mut objections {
                let message = &objection.message;
                objection.message = format!("agent {agent}, service \"{}\": {message}", spec.name);
            }
            Ok(objections)
        }
        Reply::Wrong { text } | Reply::Environment { text } => Err(SessionCallError::Agent(text)),
        other => Err(SessionCallError::Unexpected(Box::new(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::PRONY_VERSION;

    fn agent(name: &str, label: (&str, &str), version: &str) -> Registration {
        Registration {
            sender: SenderVersion {
                prony: version.to_owned(),
                ..SenderVersion::own()
            },
            labels: [(label.0.to_owned(), label.1.to_owned())].into(),
            ..Registration::new(name.parse().unwrap())
        }
    }

    #[test]
    fn a_host_is_found_by_name_or_label() {
        let agents = [
            agent("b", ("role", "server"), PRONY_VERSION),
            agent("a", ("role", "server"), PRONY_VERSION),
            agent("old", ("role", "client"), "0.0.0"),
        ];
        let roster = Roster {
            agents: agents.map(|agent| (agent.name.clone(), agent)).into(),
        };
        let name = |host: &str| roster.find(host).map(|agent| agent.name.to_string());
        assert_eq!(name("b").unwrap(), "b");
        assert_eq!(name("role=server").unwrap(), "a");
        let error = |host: &str| name(host).unwrap_err().to_string();
        assert_eq!(
            error("c"),
            "there is no agent c; registered agents: a, b, old"
        );
        assert!(error("role=x").starts_with("no agent has the label role=x; "));
        assert!(error("old").contains("0.0.0"));
        let none = Roster::default();
        let error = none.find("a").unwrap_err().to_string();
        assert_eq!(error, "there is no agent a: no agents are registered");
    }
}
