//! Attacks on the server with an agent's key: messages whose acknowledgements are sent to forbidden
//! subjects, and headers that replace stored messages.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions, HeaderMap};
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::link::Subscription;
use prony_fleet::names::{AGENTS_BUCKET, AgentName, RUNS_BUCKET, RunId};
use prony_fleet::permissions::Role;
use tokio::runtime::Runtime;

use crate::nats_server::{TestServer, agent};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);
const BRIEF: Duration = Duration::from_millis(500);

/// A NATS client with an agent's key. It sends messages that [`prony_fleet::link::NatsLink`] can't
/// send.
struct Thief {
    client: Client,
    runtime: Runtime,
    /// Error messages from the server.
    complaints: mpsc::Receiver<String>,
}

impl Thief {
    fn new(nats: &TestServer, role: &Role) -> Thief {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let FleetCredentials::Key(file) = nats.credentials(role) else {
            panic!("prony's own file");
        };
        let (complain, complaints) = mpsc::channel();
        let options = ConnectOptions::with_nkey(file.seed.reveal().to_owned())
            .event_callback(move |event| {
                let _ = complain.send(event.to_string());
                async {}
            })
            .add_root_certificates(nats.folder.path().join("authority.pem"))
            .require_tls(true)
            .custom_inbox_prefix(role.inbox_prefix());
        let server = file.servers[0].clone();
        let client = runtime.block_on(options.connect(server)).unwrap();
        Thief {
            client,
            runtime,
            complaints,
        }
    }

    /// Returns true if the server sends an error message about this subject.
    fn receives_error_about(&self, subject: &str) -> bool {
        let quoted = format!("\"{subject}\"");
        let until = Instant::now() + TEST_TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.complaints.recv_timeout(left) {
                Ok(error) if error.contains(&quoted) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    fn publish(&self, subject: &str, reply: &str, headers: &[(&str, &str)]) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        let (client, subject) = (self.client.clone(), subject.to_owned());
        let published =
            client.publish_with_reply_and_headers(subject, reply.to_owned(), map, "x".into());
        self.runtime.block_on(published).unwrap();
        self.runtime.block_on(self.client.flush()).unwrap();
    }

    /// Stores a permitted message. Its acknowledgement shows that the server has handled all
    /// earlier messages.
    fn settle(&self, subject: &str) {
        let asked = self.client.request(subject.to_owned(), "x".into());
        self.runtime.block_on(asked).unwrap();
    }
}

fn texts(mut next: impl FnMut() -> Option<Vec<u8>>) -> Vec<String> {
    let all = std::iter::from_fn(&mut next);
    all.map(|text| String::from_utf8(text).unwrap()).collect()
}

fn rest(orders: &mut Subscription) -> Vec<String> {
    texts(|| orders.next(BRIEF).map(|it| it.payload.to_vec()))
}

#[test]
fn an_acknowledgement_reaches_no_foreign_subject() {
    let nats = TestServer::new(&["one", "two"]);
    let coordinator = nats.link(&Role::Coordinator);
    coordinator.prepare_server().unwrap();
    let (one, two): (AgentName, AgentName) = ("one".parse().unwrap(), "two".parse().unwrap());
    let run: RunId = "r1".parse().unwrap();
    let victim = nats.link(&agent("two"));
    let mut orders = victim.subscribe(&two.orders_subject()).unwrap();
    victim.store("$KV.prony_agents.two", None, "here").unwrap();
    coordinator
        .store("$KV.prony_runs.r1", None, "asked")
        .unwrap();
    for text in ["a", "b"] {
        victim
            .store(&two.results_subject(&run), None, text)
            .unwrap();
    }
    let thief = Thief::new(&nats, &agent("one"));
    let mine = one.results_subject(&"mine".parse().unwrap());
    for reply in [
        &two.orders_subject(),
        &two.clock_subject(),
        &two.results_subject(&run),
        "$KV.prony_agents.two",
        "$KV.prony_runs.r1",
        "$JS.API.STREAM.PURGE.PRONY_RESULTS",
        "$JS.API.STREAM.PURGE.KV_prony_runs",
        "$JS.API.STREAM.DELETE.PRONY_RESULTS",
    ] {
        thief.publish(&mine, reply, &[]);
    }
    thief.settle(&mine);
    assert!(rest(&mut orders).is_empty());
    let agents = coordinator.entries(AGENTS_BUCKET).unwrap();
    assert_eq!(agents, [("two".to_owned(), "here".into())]);
    assert_eq!(
        coordinator.entry(RUNS_BUCKET, "r1").unwrap().unwrap(),
        "asked"
    );
    let mut results = coordinator.replay(&run.results_subject()).unwrap();
    let results = texts(|| results.next(BRIEF).map(|it| it.payload.to_vec()));
    assert_eq!(results, ["a", "b"]);
}

#[test]
fn no_header_replaces_stored_messages_of_others() {
    let nats = TestServer::new(&["one", "two"]);
    let coordinator = nats.link(&Role::Coordinator);
    coordinator.prepare_server().unwrap();
    let (one, two): (AgentName, AgentName) = ("one".parse().unwrap(), "two".parse().unwrap());
    let run: RunId = "r1".parse().unwrap();
    let victim = nats.link(&agent("two"));
    victim.store("$KV.prony_agents.two", None, "here").unwrap();
    let thief = Thief::new(&nats, &agent("one"));
    let inbox = format!("{}.x", one.inbox_prefix());
    for subject in ["$KV.prony_agents.one", &one.results_subject(&run)] {
        for rollup in ["all", "sub"] {
            thief.publish(subject, &inbox, &[("Nats-Rollup", rollup)]);
        }
    }
    // The attacker uses a message identifier that another agent will use later.
    thief.publish(
        &one.results_subject(&run),
        &inbox,
        &[("Nats-Msg-Id", "r1.two.0")],
    );
    thief.settle(&one.results_subject(&run));
    victim
        .store(&two.results_subject(&run), Some("r1.two.0"), "mine")
        .unwrap();
    let agents = coordinator.entries(AGENTS_BUCKET).unwrap();
    assert!(agents.contains(&("two".to_owned(), "here".into())));
    let mut results = coordinator.replay(&two.results_subject(&run)).unwrap();
    assert_eq!(&results.next(TEST_TIMEOUT).unwrap().payload[..], b"mine");
}

#[test]
fn each_role_is_refused_foreign_subjects() {
    let nats = TestServer::new(&["one", "two"]);
    nats.link(&Role::Coordinator).prepare_server().unwrap();
    let others: &[&str] = &[
        "prony.agent.two.do",
        "prony.agent.two.clock",
        "prony.agent.two.namesakes",
        "prony.result.two.r1",
        "_INBOX_agent_two.x",
        "_INBOX_coordinator.x",
        "$KV.prony_agents.two",
        "$KV.prony_runs.r1",
        "$JS.API.INFO",
        "$JS.API.STREAM.PURGE.PRONY_RESULTS",
        "$JS.API.STREAM.CREATE.MINE",
        "$JS.API.DIRECT.GET.KV_prony_runs",
        "$JS.API.CONSUMER.CREATE.PRONY_RESULTS",
        "$JS.ACK.x",
        "$SYS.REQ.SERVER.PING",
        "anything",
    ];
    let say = [
        "prony.agent.one.do",
        "prony.agent.one.clock",
        "prony.result.one.r1.x",
    ];
    let hear = [
        "prony.result.one.r1",
        "prony.agent.*.do",
        "prony.>",
        "_INBOX.>",
        "$KV.>",
        ">",
    ];
    refused(
        &nats,
        &agent("one"),
        &[others, &say].concat(),
        &[others, &hear].concat(),
    );

    let say = [
        "prony.result.one.r1",
        "$KV.prony_agents.one",
        "$SYS.REQ.SERVER.PING",
        "anything",
    ];
    let hear = [
        "prony.agent.one.do",
        "_INBOX_agent_one.>",
        "$SYS.>",
        "_INBOX.>",
        ">",
    ];
    refused(&nats, &Role::Coordinator, &say, &hear);
}

fn refused(nats: &TestServer, role: &Role, say: &[&str], hear: &[&str]) {
    let thief = Thief::new(nats, role);
    let inbox = format!("{}.x", role.inbox_prefix());
    for subject in say {
        thief.publish(subject, &inbox, &[]);
        assert!(
            thief.receives_error_about(subject),
            "{role:?} may publish to {subject}"
        );
    }
    for subject in hear {
        let subscription = thief.client.subscribe(subject.to_string());
        let _subscription = thief.runtime.block_on(subscription).unwrap();
        assert!(
            thief.receives_error_about(subject),
            "{role:?} may subscribe to {subject}"
        );
    }
}
