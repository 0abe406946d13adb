//! What each role may say and hear on the NATS server: the whole of it, in subjects.
//!
//! An agent hears its own orders and says its own results, and nothing else: who steals an agent's
//! credentials can read what that agent is asked and lie about what it measured, but can't command
//! another agent, read another's results, or change what is stored.
//!
//! Permissions alone don't bring that about. Whoever stores a message names the subject at which the
//! server is to acknowledge it, no permission is asked for that subject, and what comes there is the
//! server's own word: an acknowledgement sent to `$JS.API.STREAM.PURGE.…` empties a stream. So each agent
//! has an account of its own, in which such an answer stays, and between the accounts passes what is
//! named here.

use std::fmt;

use crate::names::{AGENTS, AgentName, RUNS};

/// Who somebody is to the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Who commands agents and collects results.
    Coordinator,
    /// One agent.
    Agent(AgentName),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Coordinator => f.write_str("the coordinator"),
            Role::Agent(name) => write!(f, "agent {name}"),
        }
    }
}

/// Subjects as the server's configuration has them: `*` is any one part, `>` all that follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// What may be published. An agent's comes to the coordinator's account.
    pub publish: Vec<String>,
    /// What may be subscribed to, the inbox aside. An agent's comes from the coordinator's account.
    pub subscribe: Vec<String>,
    /// What may be both published and subscribed to, and stays among those who have the same role.
    pub among_own: Vec<String>,
    /// Where answers to its own questions come.
    pub inbox: String,
    /// Whether whoever asks something may be answered, once.
    pub may_answer: bool,
}

/// What agents say comes to the coordinator's account at these subjects.
pub fn heard_from_agents() -> [String; 2] {
    ["prony.result.*.*".to_owned(), format!("$KV.{AGENTS}.*")]
}

/// What agents are told comes from the coordinator's account at these subjects.
pub fn told_to_agents() -> [String; 2] {
    [
        "prony.agent.*.do".to_owned(),
        "prony.agent.*.clock".to_owned(),
    ]
}

impl Role {
    /// Below which answers to its own questions come.
    pub fn inbox(&self) -> String {
        match self {
            Role::Coordinator => "_INBOX_coordinator".to_owned(),
            Role::Agent(name) => name.inbox(),
        }
    }

    /// The account on the server that it belongs to.
    pub fn account(&self) -> String {
        match self {
            Role::Coordinator => "PRONY".to_owned(),
            Role::Agent(name) => format!("AGENT_{name}"),
        }
    }

    /// What it may do.
    pub fn permissions(&self) -> Permissions {
        let inbox = format!("{}.>", self.inbox());
        match self {
            Role::Coordinator => Permissions {
                publish: vec![
                    "prony.agent.*.do".to_owned(),
                    "prony.agent.*.clock".to_owned(),
                    "$JS.API.>".to_owned(),
                    "$JS.ACK.>".to_owned(),
                    format!("$KV.{RUNS}.>"),
                ],
                subscribe: vec!["prony.result.>".to_owned()],
                among_own: Vec::new(),
                inbox,
                may_answer: false,
            },
            Role::Agent(name) => Permissions {
                publish: vec![
                    format!("prony.result.{name}.*"),
                    format!("$KV.{AGENTS}.{name}"),
                ],
                subscribe: vec![name.orders(), name.clock()],
                among_own: vec![name.namesakes()],
                inbox,
                may_answer: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::RunId;

    /// Whether a pattern of subjects covers a subject (docs of NATS, "Subject-Based Messaging").
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
        let mut said = permissions.publish.iter().chain(&permissions.among_own);
        said.any(|it| covers(it, subject))
    }

    fn may_hear(role: &Role, subject: &str) -> bool {
        let permissions = role.permissions();
        let inbox = std::iter::once(&permissions.inbox);
        let heard = permissions.subscribe.iter().chain(inbox);
        let mut heard = heard.chain(&permissions.among_own);
        heard.any(|it| covers(it, subject))
    }

    #[test]
    fn an_agent_is_heard_and_commanded_under_its_own_name_alone() {
        let name = |text: &str| text.parse::<AgentName>().unwrap();
        let run: RunId = "r1".parse().unwrap();
        let (one, other) = (name("one"), name("other"));
        let agent = Role::Agent(one.clone());
        assert!(may_say(&agent, &one.results(&run)) && may_hear(&agent, &one.orders()));
        assert!(may_say(&agent, "$KV.prony_agents.one") && may_hear(&agent, &one.clock()));
        for subject in [
            one.orders(),
            other.orders(),
            other.clock(),
            other.namesakes(),
            other.results(&run),
            "$KV.prony_agents.other".to_owned(),
            "$KV.prony_runs.r1".to_owned(),
            "$JS.API.STREAM.DELETE.PRONY_RESULTS".to_owned(),
            "prony.result.one.r1.x".to_owned(),
        ] {
            assert!(!may_say(&agent, &subject), "{subject}");
        }
        for subject in [
            other.orders(),
            other.results(&run),
            one.results(&run),
            "_INBOX.x".to_owned(),
            format!("{}.x", other.inbox()),
            "_INBOX_coordinator.x".to_owned(),
        ] {
            assert!(!may_hear(&agent, &subject), "{subject}");
        }
    }

    #[test]
    fn all_that_agents_say_comes_to_the_coordinators_account() {
        let agent = Role::Agent("one".parse().unwrap());
        for said in agent.permissions().publish {
            let said = said.replace('*', "r1");
            let heard = heard_from_agents();
            assert!(heard.iter().any(|it| covers(it, &said)), "{said}");
        }
    }

    #[test]
    fn the_coordinator_commands_all_and_claims_to_be_nobody() {
        let coordinator = Role::Coordinator;
        let one: AgentName = "one".parse().unwrap();
        let run: RunId = "r1".parse().unwrap();
        assert!(may_say(&coordinator, &one.orders()) && may_say(&coordinator, &one.clock()));
        assert!(may_hear(&coordinator, &one.results(&run)));
        assert!(!may_say(&coordinator, &one.results(&run)));
        assert!(!may_say(&coordinator, "$KV.prony_agents.one"));
        assert!(!may_hear(&coordinator, &one.orders()));
    }
}
