//! Which agent a plan means, and whether it can do what the plan wants.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use prony_experiment::plan::{DiagnosticKind, HostObjection, HostRequirement, ServiceAspect};
use prony_experiment::service::ServiceSpec;

use super::calls::{Answer, Call, HostOrder};
use crate::coordinator::Choice;
use crate::link::{Link, LinkError};
use crate::messages::{Order, Registration, Reply, VERSION, What};
use crate::names::{AGENTS, AgentName, RunId};

/// How long an agent may take to look at a service.
const LOOK: Duration = Duration::from_secs(5);

/// The agents that are registered.
#[derive(Debug, Clone, Default)]
pub struct Roster {
    agents: BTreeMap<AgentName, Registration>,
}

impl Roster {
    /// Reads who is there.
    ///
    /// # Errors
    ///
    /// See [`LinkError`].
    pub fn read(link: &Link) -> Result<Roster, LinkError> {
        let entries = link.entries(AGENTS)?;
        // One whose registration can't be read is of another version, and as good as not there.
        let agents = entries
            .iter()
            .filter_map(|(key, json)| Registration::of_entry(key, json));
        let agents = agents.map(|agent| (agent.name.clone(), agent));
        Ok(Roster {
            agents: agents.collect(),
        })
    }

    /// The agent that a plan's `host` means: the one of that name, or the first by name that has the
    /// label.
    ///
    /// # Errors
    ///
    /// In words: who is there in its stead, or that it is of another version.
    pub fn find(&self, host: &str) -> Result<&Registration, String> {
        let found = match host.split_once('=') {
            Some((key, value)) => self.agents.values().find(|agent| {
                let label = agent.labels.get(key);
                label.is_some_and(|it| it == value)
            }),
            None => self.agents.values().find(|it| it.name.as_str() == host),
        };
        let Some(agent) = found else {
            let what = match host.contains('=') {
                true => format!("no agent has the label {host}"),
                false => format!("there is no agent {host}"),
            };
            let there: Vec<&str> = self.agents.keys().map(AgentName::as_str).collect();
            return Err(match there.is_empty() {
                true => format!("{what}: none is registered"),
                false => format!("{what}; there are: {}", there.join(", ")),
            });
        };
        if let Some(absurdity) = agent.absurdity() {
            return Err(format!("agent {} {absurdity}", agent.name));
        }
        match agent.version == VERSION {
            true => Ok(agent),
            false => Err(format!(
                "agent {} has version {}, and this is {VERSION}",
                agent.name, agent.version
            )),
        }
    }

    /// The addresses that an agent is registered with.
    pub(super) fn addresses(&self, agent: &AgentName) -> &[IpAddr] {
        let agent = self.agents.get(agent);
        agent.map_or(&[], |agent| agent.addresses.as_slice())
    }

    /// The agents that a plan's `agents` means, by name; none where it says only how many.
    #[must_use]
    pub fn chosen(&self, agents: &str) -> Option<Vec<&Registration>> {
        let all = self.agents.values();
        match agents.parse() {
            Ok(Choice::Labels(labels)) => Some(self.with_labels(&labels)),
            Ok(Choice::Names(names)) => Some(all.filter(|it| names.contains(&it.name)).collect()),
            Ok(Choice::All | Choice::Count(_) | Choice::CountOf(..)) | Err(_) => None,
        }
    }

    fn with_labels(&self, labels: &BTreeMap<String, String>) -> Vec<&Registration> {
        let has = |agent: &&Registration| {
            let mut labels = labels.iter();
            labels.all(|(key, value)| agent.labels.get(key) == Some(value))
        };
        self.agents.values().filter(has).collect()
    }

    /// Where a service of a host listens that other machines have to reach, as far as it is known
    /// before it is started; of this machine, if `host` is none: the address towards the first agent.
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

    /// What is missing of something that a plan wants, as agents may yet register.
    #[must_use]
    pub fn missing(&self, wanted: &HostRequirement<'_>) -> Option<String> {
        match wanted {
            HostRequirement::Service { host, .. } => self.find(host).err(),
            HostRequirement::Load { agents, .. } => {
                self.wrong_with_load(agents, None).into_iter().next()
            }
        }
    }

    /// What stands against something that a plan wants.
    pub fn objections(&self, link: &Link, wanted: &HostRequirement<'_>) -> Vec<HostObjection> {
        let about_host = |what: String| HostObjection {
            aspect: ServiceAspect::Host,
            kind: DiagnosticKind::Machine,
            message: what,
            hint: None,
        };
        match wanted {
            HostRequirement::Service { host, spec } => match self.find(host) {
                Err(what) => vec![HostObjection {
                    hint: Some("or write \"local\" for this machine".to_owned()),
                    ..about_host(what)
                }],
                Ok(agent) => look(link, &agent.name, spec).unwrap_or_else(|what| {
                    vec![about_host(format!("agent {}: {what}", agent.name))]
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

    /// What stands against a load by these agents.
    fn wrong_with_load(&self, agents: &str, connections: Option<u64>) -> Vec<String> {
        let choice = match agents.parse() {
            Ok(choice) => choice,
            Err(what) => return vec![what],
        };
        let count = match &choice {
            Choice::Count(count) | Choice::CountOf(count, _) => {
                let there = match &choice {
                    Choice::CountOf(_, labels) => self.with_labels(labels).len(),
                    _ => self.agents.len(),
                };
                if *count > there {
                    return vec![format!(
                        "{agents} agents are wanted for the load, and {there} are registered"
                    )];
                }
                *count
            }
            Choice::All | Choice::Labels(_) | Choice::Names(_) => {
                let parts = agents.split(',').map(str::trim);
                let wrong: Vec<String> = parts.filter_map(|part| self.find(part).err()).collect();
                if !wrong.is_empty() {
                    return wrong;
                }
                self.chosen(agents).map_or(0, |chosen| chosen.len())
            }
        };
        let too_few = connections.filter(|connections| *connections < count as u64);
        let what = too_few.map(|connections| {
            format!(
                "connections = {connections} is too few for {count} agents; an agent without a \
                 connection has nothing to do"
            )
        });
        what.into_iter().collect()
    }
}

/// The address of this machine from which it reaches another one.
pub(super) fn address_towards(other: IpAddr) -> IpAddr {
    let unspecified: IpAddr = match other {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent; the system only looks which way it would go.
    let found = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect(SocketAddr::new(other, 9))?;
        socket.local_addr()
    });
    found.map_or(std::net::Ipv4Addr::LOCALHOST.into(), |found| found.ip())
}

/// Has an agent look at a service.
fn look(link: &Link, agent: &AgentName, spec: &ServiceSpec) -> Result<Vec<HostObjection>, String> {
    let call = Call::Look {
        spec: Box::new(spec.clone()),
    };
    let order = Order {
        version: VERSION.to_owned(),
        run: RunId::new(std::time::SystemTime::now()),
        experiment: None,
        what: What::Host(HostOrder { number: 0, call }),
    };
    let json = serde_json::to_vec(&order).map_err(|error| error.to_string())?;
    let answer = link.ask(&agent.orders(), json, LOOK);
    let answer = answer.map_err(|error| error.to_string())?;
    let reply = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
    match reply {
        Reply::Host(Answer::Objections { mut objections }) => {
            for objection in &mut objections {
                let message = &objection.message;
                objection.message = format!("agent {agent}, service \"{}\": {message}", spec.name);
            }
            Ok(objections)
        }
        Reply::Wrong { text } | Reply::Environment { text } => Err(text),
        other => Err(format!("an answer to another question: {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, label: (&str, &str), version: &str) -> Registration {
        Registration {
            schema: crate::messages::AGENT_SCHEMA.to_owned(),
            version: version.to_owned(),
            name: name.parse().unwrap(),
            instance: "i".to_owned(),
            labels: [(label.0.to_owned(), label.1.to_owned())].into(),
            cores: 2,
            addresses: Vec::new(),
            system: "Linux".to_owned(),
            host: name.to_owned(),
            open_files: 1024,
            clock: None,
            policy: String::new(),
            busy_with: None,
            reserved: None,
            sending: Default::default(),
        }
    }

    #[test]
    fn a_host_is_found_by_name_or_label() {
        let agents = [
            agent("b", ("role", "server"), VERSION),
            agent("a", ("role", "server"), VERSION),
            agent("old", ("role", "client"), "0.0.0"),
        ];
        let roster = Roster {
            agents: agents.map(|agent| (agent.name.clone(), agent)).into(),
        };
        let name = |host: &str| roster.find(host).map(|agent| agent.name.to_string());
        assert_eq!(name("b").unwrap(), "b");
        assert_eq!(name("role=server").unwrap(), "a");
        assert!(name("c").unwrap_err().contains("there are: a, b, old"));
        assert!(name("role=x").unwrap_err().contains("role=x"));
        assert!(name("old").unwrap_err().contains("0.0.0"));
        assert!(Roster::default().find("a").unwrap_err().contains("none"));
    }
}
