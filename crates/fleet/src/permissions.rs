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

use crate::names::{AGENTS, AgentName, RUNS, TokenId};

/// Who somebody is to the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Who commands agents and collects results.
    Coordinator,
    /// One agent.
    Agent(AgentName),
    /// The process that runs the server, where it enrolls agents.
    Registrar,
    /// An agent that is yet to be enrolled.
    Token(TokenId),
}

/// Subjects of all requests to be enrolled.
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
            Role::Registrar => "_INBOX_registrar".to_owned(),
            Role::Token(id) => format!("_INBOX_enroll_{id}"),
        }
    }

    /// The account on the server that it belongs to.
    pub fn account(&self) -> String {
        match self {
            Role::Coordinator | Role::Registrar => "PRONY".to_owned(),
            Role::Agent(name) => format!("AGENT_{name}"),
            Role::Token(id) => format!("ENROLL_{id}"),
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
            Role::Registrar => Permissions {
                // Responses to requests, and nothing else.
                publish: vec![inbox.clone()],
                subscribe: vec![ENROLL_SUBJECTS.to_owned()],
                among_own: Vec::new(),
                inbox,
                may_answer: true,
            },
            Role::Token(id) => Permissions {
                publish: vec![id.requests()],
                subscribe: Vec::new(),
                among_own: Vec::new(),
                inbox,
                may_answer: false,
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
    fn a_token_asks_at_its_own_subject_and_does_nothing_else() {
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
