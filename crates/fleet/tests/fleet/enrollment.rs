//! Enrollment with tokens, through a real server and a registrar.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use prony_fleet::agent::AgentSettings;
use prony_fleet::credentials::{FleetCredentials, KeyFile};
use prony_fleet::link::{LinkError, NatsLink};
use prony_fleet::permissions::Role;
use prony_fleet::server::tokens::EnrollmentToken;
use prony_fleet::server::{Registrar, ServerSetup};

use crate::harness::{RunningAgent, TestCoordinator, settings, wait_until};
use crate::nats_server::TestServer;

/// Registrar that runs on a thread. Dropping this value stops it.
struct Serving {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    fn start(wanted: &ServerSetup, nats: &TestServer) -> Serving {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let mut registrar = Registrar::new(wanted, &nats.prepared);
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for line in registrar.serve(Duration::from_millis(50)) {
                    eprintln!("{line}");
                }
            }
        });
        Serving {
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

fn key_file(text: &str, nats: &TestServer) -> KeyFile {
    let path = nats.folder.path().join("fleet.token");
    std::fs::write(&path, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, mode).unwrap();
    match FleetCredentials::read(&path).unwrap() {
        FleetCredentials::Key(file) => file,
        FleetCredentials::Jwt(_) => panic!("{text}"),
    }
}

#[test]
fn one_token_enrolls_twenty_agents_and_no_more() {
    let nats = TestServer::new(&["agent-1"]);
    let wanted = ServerSetup {
        folder: nats.folder.path().to_owned(),
        listen: nats.listen,
        names: vec!["127.0.0.1".to_owned()],
        agents: Vec::new(),
    };
    let coordinator = TestCoordinator::new(&nats);
    let _serving = Serving::start(&wanted, &nats);
    let before = RunningAgent::start(settings(&nats, "agent-1"));
    coordinator.wait_for(&before);
    let minute = Duration::from_secs(600);
    let (token, text) = EnrollmentToken::make(&wanted, minute, 20, SystemTime::now()).unwrap();
    wanted.prepare().unwrap().reload().unwrap();
    let file = key_file(&text, &nats);

    // Agents that have only a token have no other permissions.
    let role = Role::Token(token.id.clone());
    let link = NatsLink::connect(None, &FleetCredentials::Key(file.clone()), &role).unwrap();
    let soon = Duration::from_millis(500);
    assert!(link.request("prony.agent.agent-1.do", "{}", soon).is_err());
    assert!(
        link.request("$KV.prony_agents.agent-1", "{}", soon)
            .is_err()
    );
    assert!(!link.server_responds(soon));

    let folder = |name: &str| nats.folder.path().join("machines").join(name);
    let own = |name: &str| {
        let agent = name.parse().unwrap();
        let made = prony_fleet::agent::enrollment::credentials(&file, None, &agent, &folder(name));
        made.map_err(|error| error.to_string())
    };
    let error = own("agent-1").unwrap_err();
    assert!(error.contains("agent agent-1 already exists"), "{error}");
    let names: Vec<String> = (0..20).map(|n| format!("web-{n}")).collect();
    // All agents enroll at the same time, like machines that boot together.
    let made: Vec<FleetCredentials> = std::thread::scope(|scope| {
        let asking = names.iter().map(|name| scope.spawn(|| own(name).unwrap()));
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let agents: Vec<RunningAgent> = names
        .iter()
        .zip(made)
        .map(|(name, credentials)| {
            RunningAgent::start(AgentSettings {
                credentials,
                name: name.parse().unwrap(),
                ..settings(&nats, "agent-1")
            })
        })
        .collect();
    agents
        .iter()
        .for_each(|agent| drop(coordinator.wait_for(agent)));
    // An agent that has credentials needs no token, and another agent can't enroll under its name.
    let kept = std::fs::read_to_string(folder("web-0").join("web-0.creds")).unwrap();
    assert!(kept.contains("web-0"));
    assert!(own("web-0").is_ok());
    let error = own("late").unwrap_err();
    assert!(error.contains("used up"), "{error}");
    // The server's folder contains no private keys of agents.
    let enrolled = nats.folder.path().join("enrolled/web-0.toml");
    let public = std::fs::read_to_string(enrolled).unwrap();
    assert!(!public.contains("\"SU"), "{public}");
    // Agents that were connected before stayed connected.
    assert!(coordinator.registered(&before.name).is_some());
    // `prony fleet up` can't create credentials with the name of an enrolled agent.
    let again = ServerSetup {
        agents: vec!["web-0".parse().unwrap()],
        ..wanted.clone()
    };
    assert!(again.prepare().is_err());
}

#[test]
fn a_revoked_or_expired_token_is_refused() {
    let nats = TestServer::new(&["agent-1"]);
    let wanted = ServerSetup {
        folder: nats.folder.path().to_owned(),
        listen: nats.listen,
        names: vec!["127.0.0.1".to_owned()],
        agents: Vec::new(),
    };
    let apply = || wanted.prepare().unwrap().reload().unwrap();
    let hour = Duration::from_secs(3600);
    let (revoked, text) = EnrollmentToken::make(&wanted, hour, 1, SystemTime::now()).unwrap();
    let past = SystemTime::now() - 2 * hour;
    let (_, expired) = EnrollmentToken::make(&wanted, hour, 1, past).unwrap();
    apply();
    let revoked_file = key_file(&text, &nats);
    let role = revoked_file.role();
    let credentials = FleetCredentials::Key(revoked_file.clone());
    let link = NatsLink::connect(None, &credentials, &role).unwrap();
    EnrollmentToken::remove(nats.folder.path(), &revoked.id).unwrap();
    apply();
    wait_until("the agent is disconnected", || {
        (!link.is_connected()).then_some(())
    });
    let again = NatsLink::connect(None, &credentials, &role);
    assert!(
        matches!(
            again,
            Err(LinkError::Connect {
                retryable: false,
                ..
            })
        ),
        "{again:?}"
    );
    for file in [revoked_file, key_file(&expired, &nats)] {
        let folder = nats.folder.path().join("machine");
        let made = prony_fleet::agent::enrollment::credentials(
            &file,
            None,
            &"new".parse().unwrap(),
            &folder,
        );
        let error = made.unwrap_err().to_string();
        assert!(
            error.contains("has expired") && error.contains("revoked"),
            "{error}"
        );
    }
}
