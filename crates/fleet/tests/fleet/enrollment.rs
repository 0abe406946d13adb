//! One token lets new agents enroll: on a real server, with the process that runs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use prony_fleet::agent::{Settings, enrolling};
use prony_fleet::credentials::{Credentials, KeyFile};
use prony_fleet::link::{Link, LinkError};
use prony_fleet::permissions::Role;
use prony_fleet::server::tokens::Token;
use prony_fleet::server::{Registrar, Wanted};

use crate::ground::Ground;
use crate::hands::{Hands, There, settings, until};

/// A registrar on a thread, until this is dropped.
struct Serving {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    fn start(wanted: &Wanted, ground: &Ground) -> Serving {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let mut registrar = Registrar::new(wanted, &ground.prepared);
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

fn key_file(text: &str, ground: &Ground) -> KeyFile {
    let path = ground.folder.path().join("fleet.token");
    std::fs::write(&path, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, mode).unwrap();
    match Credentials::read(&path).unwrap() {
        Credentials::Key(file) => file,
        Credentials::Jwt(_) => panic!("{text}"),
    }
}

#[test]
fn twenty_agents_enroll_with_one_token_and_nobody_else_does() {
    let ground = Ground::new(&["agent-1"]);
    let wanted = Wanted {
        folder: ground.folder.path().to_owned(),
        listen: ground.listen,
        names: vec!["127.0.0.1".to_owned()],
        agents: Vec::new(),
    };
    let hands = Hands::new(&ground);
    let _serving = Serving::start(&wanted, &ground);
    let before = There::start(settings(&ground, "agent-1"));
    hands.wait_for(&before);
    let minute = Duration::from_secs(600);
    let (token, text) = Token::make(&wanted, minute, 20, SystemTime::now()).unwrap();
    wanted.prepare().unwrap().reload().unwrap();
    let file = key_file(&text, &ground);

    // What a token can't do.
    let role = Role::Token(token.id.clone());
    let link = Link::connect(None, &Credentials::Key(file.clone()), &role).unwrap();
    let soon = Duration::from_millis(500);
    assert!(link.ask("prony.agent.agent-1.do", "{}", soon).is_err());
    assert!(link.store("$KV.prony_agents.agent-1", None, "{}").is_err());
    assert!(!link.responds(soon));

    let folder = |name: &str| ground.folder.path().join("machines").join(name);
    let own = |name: &str| {
        let agent = name.parse().unwrap();
        let made = enrolling::credentials(&file, None, &agent, &folder(name));
        made.map_err(|error| error.to_string())
    };
    let error = own("agent-1").unwrap_err();
    assert!(
        error.contains("there is an agent agent-1 already"),
        "{error}"
    );
    let names: Vec<String> = (0..20).map(|n| format!("web-{n}")).collect();
    // All at the same time, as machines do that are started together.
    let made: Vec<Credentials> = std::thread::scope(|scope| {
        let asking = names.iter().map(|name| scope.spawn(|| own(name).unwrap()));
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let agents: Vec<There> = names
        .iter()
        .zip(made)
        .map(|(name, credentials)| {
            There::start(Settings {
                credentials,
                name: name.parse().unwrap(),
                ..settings(&ground, "agent-1")
            })
        })
        .collect();
    agents.iter().for_each(|agent| drop(hands.wait_for(agent)));
    // Who has credentials needs no token any more; there are no more for others.
    let kept = std::fs::read_to_string(folder("web-0").join("web-0.creds")).unwrap();
    assert!(kept.contains("web-0"));
    assert!(own("web-0").is_ok());
    let error = own("late").unwrap_err();
    assert!(error.contains("used up"), "{error}");
    // The folder has no private key of theirs.
    let enrolled = ground.folder.path().join("enrolled/web-0.toml");
    let public = std::fs::read_to_string(enrolled).unwrap();
    assert!(!public.contains("\"SU"), "{public}");
    // Agents that were there before were not cut off.
    assert!(hands.registered(&before.name).is_some());
    // The name of an enrolled agent is kept from others that the folder makes.
    let again = Wanted {
        agents: vec!["web-0".parse().unwrap()],
        ..wanted.clone()
    };
    assert!(again.prepare().is_err());
}

#[test]
fn a_token_that_is_revoked_or_expired_is_of_no_use() {
    let ground = Ground::new(&["agent-1"]);
    let wanted = Wanted {
        folder: ground.folder.path().to_owned(),
        listen: ground.listen,
        names: vec!["127.0.0.1".to_owned()],
        agents: Vec::new(),
    };
    let apply = || wanted.prepare().unwrap().reload().unwrap();
    let hour = Duration::from_secs(3600);
    let (revoked, text) = Token::make(&wanted, hour, 1, SystemTime::now()).unwrap();
    let past = SystemTime::now() - 2 * hour;
    let (_, expired) = Token::make(&wanted, hour, 1, past).unwrap();
    apply();
    let revoked_file = key_file(&text, &ground);
    let role = revoked_file.role();
    let credentials = Credentials::Key(revoked_file.clone());
    let link = Link::connect(None, &credentials, &role).unwrap();
    Token::remove(ground.folder.path(), &revoked.id).unwrap();
    apply();
    until("it is cut off", || (!link.is_up()).then_some(()));
    let again = Link::connect(None, &credentials, &role);
    assert!(
        matches!(
            again,
            Err(LinkError::Connect {
                may_pass: false,
                ..
            })
        ),
        "{again:?}"
    );
    for file in [revoked_file, key_file(&expired, &ground)] {
        let folder = ground.folder.path().join("machine");
        let made = enrolling::credentials(&file, None, &"new".parse().unwrap(), &folder);
        let error = made.unwrap_err().to_string();
        assert!(
            error.contains("has expired") && error.contains("revoked"),
            "{error}"
        );
    }
}
