//! Permissions of each role on the NATS server, as lists of subjects.
//!
//! An agent can receive its own orders and publish its own results. Somebody who steals an agent's
//! credentials can read orders to that agent and forge its results, but can't command other agents,
//! read their results, or change stored data.
//!
//! Permissions alone don't guarantee this. The sender of a stored message chooses the subject to
//! which the server sends its acknowledgement, and the sender needs no permission for that subject:
//! an acknowledgement sent to `$JS.API.STREAM.PURGE.…` would delete all messages of a stream. Each
//! agent therefore has its own NATS account, which such acknowledgements can't leave. Only the
//! subjects listed here pass between accounts.

use std::fmt;

use crate::names::{AGENTS_BUCKET, AgentName, RUNS_BUCKET, TokenId};

/// Role of a process in the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The coordinator, which commands agents and collects results.
    Coordinator,
    /// The agent of this name.
    Agent(AgentName),
    /// The registrar: the process that runs the server and enrolls agents.
    Registrar,
    /// A new agent that has only an enrollment token.
    Token(TokenId),
}

/// Subject pattern of all enrollment requests.
pub const ENROLL_SUBJECTS: &str = "prony.enroll.*";

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Coordinator => f.write_str("the coordinator"),
            Role::Agent(name) => write!(f, "agent {name}"),
            Role::Registrar => f.write_str("the registrar"),
            Role::Token(id) => write!(f, "enrollment token {id}"),
        }
    }
}

/// Lists of subjects in the syntax of the server's configuration: `*` matches one part, `>` all
/// parts that follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects to publish to. The coordinator's account imports the messages that agents publish.
    pub publish: Vec<String>,
    /// Subjects to subscribe to in addition to the inbox. An agent's subscriptions receive messages
    /// from the coordinator's account.
    pub subscribe: Vec<String>,
    /// Subjects to publish and subscribe to only within the role's own account.
    pub within_account: Vec<String>,
    /// Pattern of the subjects on which this role receives replies.
    pub inbox: String,
    /// True if the role may send one reply to each request.
    pub allow_responses: bool,
}

/// Returns the subjects that pass from the agents' accounts to the coordinator's account.
pub fn subjects_from_agents() -> [String; 2] {
    [
        "prony.result.*.*".to_owned(),
        format!("$KV.{AGENTS_BUCKET}.*"),
    ]
}

/// Returns the subjects that pass from the coordinator's account to the agents' accounts.
pub fn subjects_to_agents() -> [String; 2] {
    [
        "prony.agent.*.do".to_owned(),
        "prony.agent.*.clock".to_owned(),
    ]
}

impl Role {
    /// Returns the prefix of the subjects on which this role receives replies.
    pub fn inbox_prefix(&self) -> String {
        match self {
            Role::Coordinator => "_INBOX_coordinator".to_owned(),
            Role::Agent(name) => name.inbox_prefix(),
            Role::Registrar => "_INBOX_registrar".to_owned(),
            Role::Token(id) => format!("_INBOX_enroll_{id}"),
        }
    }

    /// Returns the name of the role's account on the server.
    pub fn account(&self) -> String {
        match self {
            Role::Coordinator | Role::Registrar => "PRONY".to_owned(),
            Role::Agent(name) => format!("AGENT_{name}"),
            Role::Token(id) => format!("ENROLL_{id}"),
        }
    }

    /// Returns the role's permissions.
    pub fn permissions(&self) -> Permissions {
        let inbox = format!("{}.>", self.inbox_prefix());
        match self {
            Role::Coordinator => Permissions {
                publish: vec![
                    "prony.agent.*.do".to_owned(),
                    "prony.agent.*.clock".to_owned(),
                    "$JS.API.>".to_owned(),
                    "$JS.ACK.>".to_owned(),
                    format!("$KV.{RUNS_BUCKET}.>"),
                ],
                subscribe: vec!["prony.result.>".to_owned()],
                within_account: Vec::new(),
                inbox,
                allow_responses: false,
            },
            Role::Agent(name) => Permissions {
                publish: vec![
                    format!("prony.result.{name}.*"),
                    format!("$KV.{AGENTS_BUCKET}.{name}"),
                ],
                subscribe: vec![name.orders_subject(), name.clock_subject()],
                within_account: vec![name.namesakes_subject()],
                inbox,
                allow_responses: true,
            },
            Role::Registrar => Permissions {
                // The registrar publishes nothing except replies to requests.
                publish: vec![inbox.clone()],
                subscribe: vec![ENROLL_SUBJECTS.to_owned()],
                within_account: Vec::new(),
                inbox,
                allow_responses: true,
            },
            Role::Token(id) => Permissions {
                publish: vec![id.requests_subject()],
                subscribe: Vec::new(),
                within_account: Vec::new(),
                inbox,
                allow_responses: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::RunId;

    /// Returns true if a subject pattern matches a subject (NATS docs, "Subject-Based Messaging").
    fn covers(pattern: &str, subject: &str) -> bool {
        let mut parts = subject.split('.');
        for wanted in pattern.split('.') {
            match (wanted, parts.next()) {
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(part)) if wanted == part => {}
                _ => return false,
            }
        }
        parts.next().is_none()
    }

    fn may_say(role: &Role, subject: &str) -> bool {
        let permissions = role.permissions();
        let mut published = permissions
            .publish
            .iter()
            .chain(&permissions.within_account);
        published.any(|it| covers(it, subject))
    }

    fn may_hear(role: &Role, subject: &str) -> bool {
        let permissions = role.permissions();
        let inbox = std::iter::once(&permissions.inbox);
        let received = permissions.subscribe.iter().chain(inbox);
        let mut received = received.chain(&permissions.within_account);
        received.any(|it| covers(it, subject))
    }

    #[test]
    fn an_agent_may_use_only_subjects_of_its_own_name() {
        let name = |text: &str| text.parse::<AgentName>().unwrap();
        let run: RunId = "r1".parse().unwrap();
        let (one, other) = (name("one"), name("other"));
        let agent = Role::Agent(one.clone());
        assert!(
            may_say(&agent, &one.results_subject(&run)) && may_hear(&agent, &one.orders_subject())
        );
        assert!(may_say(&agent, "$KV.prony_agents.one") && may_hear(&agent, &one.clock_subject()));
        for subject in [
            one.orders_subject(),
            other.orders_subject(),
            other.clock_subject(),
            other.namesakes_subject(),
            other.results_subject(&run),
            "$KV.prony_agents.other".to_owned(),
            "$KV.prony_runs.r1".to_owned(),
            "$JS.API.STREAM.DELETE.PRONY_RESULTS".to_owned(),
            "prony.result.one.r1.x".to_owned(),
        ] {
            assert!(!may_say(&agent, &subject), "{subject}");
        }
        for subject in [
            other.orders_subject(),
            other.results_subject(&run),
            one.results_subject(&run),
            "_INBOX.x".to_owned(),
            format!("{}.x", other.inbox_prefix()),
            "_INBOX_coordinator.x".to_owned(),
        ] {
            assert!(!may_hear(&agent, &subject), "{subject}");
        }
    }

    #[test]
    fn all_agent_subjects_pass_to_the_coordinators_account() {
        let agent = Role::Agent("one".parse().unwrap());
        for published in agent.permissions().publish {
            let published = published.replace('*', "r1");
            let received = subjects_from_agents();
            assert!(
                received.iter().any(|it| covers(it, &published)),
                "{published}"
            );
        }
    }

    #[test]
    fn a_token_permits_only_requests_at_its_own_subject() {
        let token = Role::Token("t1".parse().unwrap());
        assert!(may_say(&token, "prony.enroll.t1") && may_hear(&token, "_INBOX_enroll_t1.x"));
        for subject in [
            "prony.enroll.t2",
            "prony.agent.one.do",
            "prony.result.one.r1",
            "$KV.prony_agents.one",
            "$JS.API.INFO",
        ] {
            assert!(!may_say(&token, subject), "{subject}");
            assert!(!may_hear(&token, subject), "{subject}");
        }
        assert!(!may_hear(&token, "prony.enroll.t1") && !may_hear(&token, "_INBOX_enroll_t2.x"));
        let registrar = Role::Registrar;
        assert!(may_hear(&registrar, "prony.enroll.t1"));
        assert!(!may_say(&registrar, "prony.agent.one.do"));
        for other in [Role::Coordinator, Role::Agent("one".parse().unwrap())] {
            assert!(!may_say(&other, "prony.enroll.t1"), "{other}");
            assert!(!may_hear(&other, "prony.enroll.t1"), "{other}");
        }
    }

    #[test]
    fn the_coordinator_commands_all_agents_and_forges_no_results() {
        let coordinator = Role::Coordinator;
        let one: AgentName = "one".parse().unwrap();
        let run: RunId = "r1".parse().unwrap();
        assert!(
            may_say(&coordinator, &one.orders_subject())
                && may_say(&coordinator, &one.clock_subject())
        );
        assert!(may_hear(&coordinator, &one.results_subject(&run)));
        assert!(!may_say(&coordinator, &one.results_subject(&run)));
        assert!(!may_say(&coordinator, "$KV.prony_agents.one"));
        assert!(!may_hear(&coordinator, &one.orders_subject()));
    }
}
