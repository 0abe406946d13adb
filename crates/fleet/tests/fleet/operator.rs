//! Credentials from NATS's own tools: a server in operator mode, whose accounts and users are
//! signed claims (NATS docs, "JWTs"). The tests create these claims themselves.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use async_nats::ConnectOptions;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use nkeys::KeyPair;
use prony_fleet::agent::AgentSettings;
use prony_fleet::coordinator::{AgentChoice, Fleet, LoadObserver, LoadRequest, StopRequest};
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::link::{LinkError, NatsLink};
use prony_fleet::permissions::{Role, subjects_from_agents, subjects_to_agents};
use prony_record::Record;
use serde_json::{Value, json};

use crate::harness::{RunningAgent, log_to_stderr, look_until_timeout, origin, wait_until};
use crate::nats_server::agent;

/// Assignment of agents to accounts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Accounts {
    /// All agents are in the coordinator's account.
    One,
    /// Each agent has its own account, with the imports that `prony fleet up` configures.
    Each,
}

/// Creates and signs a claim.
fn signed(signer: &KeyPair, subject: &str, name: &str, nats: Value) -> String {
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims = json!({
        "jti": name,
        "iat": 1_700_000_000,
        "iss": signer.public_key(),
        "sub": subject,
        "name": name,
        "nats": nats,
    });
    let text = [header, claims].map(|part| BASE64.encode(part.to_string()));
    let text = text.join(".");
    let signature = signer.sign(text.as_bytes()).unwrap();
    format!("{text}.{}", BASE64.encode(signature))
}

fn account_claims(has_store: bool, exports: Vec<Value>, imports: Vec<Value>) -> Value {
    let store = if has_store { -1 } else { 0 };
    json!({
        "type": "account", "version": 2, "exports": exports, "imports": imports,
        "limits": {
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true,
            "conn": -1, "leaf": -1, "mem_storage": store, "disk_storage": store, "streams": store,
            "consumer": store,
        },
    })
}

/// Returns the content of a user's credentials file in the format of `nsc generate creds`.
fn creds(account: &KeyPair, role: &Role) -> String {
    let user = KeyPair::new_user();
    let may = role.permissions();
    let publish: Vec<&String> = may.publish.iter().chain(&may.within_account).collect();
    let subscribe = may.subscribe.iter().chain(&may.within_account);
    let subscribe: Vec<&String> = subscribe.chain([&may.inbox]).collect();
    let mut claims = json!({
        "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1,
        "pub": {"allow": publish}, "sub": {"allow": subscribe},
    });
    if may.allow_responses {
        claims["resp"] = json!({"max": 1, "ttl": 120_000_000_000_u64});
    }
    let jwt = signed(account, &user.public_key(), &role.to_string(), claims);
    let seed = user.seed().unwrap();
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

/// Server in operator mode, with credentials for a coordinator and agents.
struct Operated {
    folder: tempfile::TempDir,
    _server: Process,
    url: String,
}

/// A process that is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Operated {
    fn new(accounts: Accounts, names: &[&str]) -> Operated {
        Self::with_storage(accounts, names, "8GB")
    }

    /// `storage` is the server's limit for JetStream's files.
    fn with_storage(accounts: Accounts, names: &[&str], storage: &str) -> Operated {
        let folder = tempfile::tempdir().unwrap();
        let (operator, system) = (KeyPair::new_operator(), KeyPair::new_account());
        let main = KeyPair::new_account();
        let mut known = vec![signed(
            &operator,
            &system.public_key(),
            "SYS",
            account_claims(false, Vec::new(), Vec::new()),
        )];
        known.push(main_account(&operator, &main));
        let write = |role: &Role, account: &KeyPair| {
            let path = folder.path().join(file_of(role));
            std::fs::write(&path, creds(account, role)).unwrap();
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(&path, private).unwrap();
        };
        write(&Role::Coordinator, &main);
        for name in names {
            let role = agent(name);
            if accounts == Accounts::One {
                write(&role, &main);
                continue;
            }
            let own = KeyPair::new_account();
            known.push(agents_account(&operator, &own, &main, &role));
            write(&role, &own);
        }
        let server = json!({"type": "operator", "version": 2});
        let operator = signed(&operator, &operator.public_key(), "O", server);
        let (server, url) = start(folder.path(), &operator, &system, &known, storage);
        Operated {
            folder,
            _server: server,
            url,
        }
    }

    fn credentials(&self, role: &Role) -> FleetCredentials {
        let read = FleetCredentials::read(&self.folder.path().join(file_of(role))).unwrap();
        assert!(matches!(read, FleetCredentials::Jwt(_)));
        read
    }

    fn link(&self, role: &Role) -> Result<NatsLink, LinkError> {
        NatsLink::connect(Some(&self.url), &self.credentials(role), role)
    }

    /// Returns the server's log.
    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn agent(&self, name: &str) -> RunningAgent {
        RunningAgent::start(AgentSettings {
            name: name.parse().unwrap(),
            server: Some(self.url.clone()),
            credentials: self.credentials(&agent(name)),
            labels: Default::default(),
            policy: Default::default(),
            state: self.folder.path().join("state"),
            cores: Vec::new(),
            clock: Default::default(),
            log: log_to_stderr(name),
        })
    }

    /// Runs a load on two agents, and returns its record.
    fn load(&self) -> Record {
        // The coordinator connects first, as docs/fleet.md recommends: a server in operator mode
        // loads each account at its first connection, and may lose imports if several accounts are
        // loaded at the same time.
        let credentials = self.credentials(&Role::Coordinator);
        let fleet = Fleet::connect(Some(&self.url), &credentials).unwrap();
        let _agents = ["one", "two"].map(|name| self.agent(name));
        let registered = || (fleet.agents().unwrap().len() == 2).then_some(());
        if look_until_timeout(registered).is_none() {
            panic!(
                "an agent is not registered; the server's log:\n{}",
                self.log()
            );
        }
        let (_origin, url) = origin();
        let wanted = LoadRequest {
            url: Some(url),
            settings: crate::harness::load_settings(&["--requests=101", "--connections=2"]),
            choice: AgentChoice::All,
            clock_bound: Duration::from_secs(1),
        };
        let stop = StopRequest::new();
        let watcher = LoadObserver {
            on_event: &|event| eprintln!("{event:?}"),
            stop: &stop,
            feed: None,
        };
        let finished = fleet.load(&wanted, watcher).unwrap();
        // The run was stored.
        let run = fleet.run(Some(&finished.run)).unwrap();
        let again = fleet.collect(&run, watcher).unwrap();
        assert_eq!(again.record.histograms, finished.record.histograms);
        finished.record
    }
}

fn file_of(role: &Role) -> String {
    format!("{}.creds", role.account())
}

fn main_account(operator: &KeyPair, main: &KeyPair) -> String {
    let export =
        |kind: &str, subject: String| json!({"name": subject, "subject": subject, "type": kind});
    let services = subjects_from_agents().into_iter();
    let services = services.chain([Role::Coordinator.permissions().inbox]);
    let exports = services
        .map(|it| export("service", it))
        .chain(subjects_to_agents().map(|it| export("stream", it)));
    let claims = account_claims(true, exports.collect(), Vec::new());
    signed(operator, &main.public_key(), "PRONY", claims)
}

fn agents_account(operator: &KeyPair, own: &KeyPair, main: &KeyPair, role: &Role) -> String {
    let import = |kind: &str, subject: &String| json!({"name": subject, "subject": subject, "account": main.public_key(), "type": kind});
    let may = role.permissions();
    let inboxes = [Role::Coordinator.permissions().inbox];
    let publish = inboxes.iter().chain(&may.publish);
    let subscribe = may.subscribe.iter().map(|it| import("stream", it));
    let imports = publish.map(|it| import("service", it)).chain(subscribe);
    let claims = account_claims(false, Vec::new(), imports.collect());
    signed(operator, &own.public_key(), &role.account(), claims)
}

/// Starts a server with these accounts on a free port. Returns its process and URL.
fn start(
    folder: &Path,
    operator: &str,
    system: &KeyPair,
    known: &[String],
    storage: &str,
) -> (Process, String) {
    let preload: String = known
        .iter()
        .map(|jwt| format!("  {}: {jwt}\n", subject_of(jwt)))
        .collect();
    let text = format!(
        "listen: \"127.0.0.1:-1\"\nports_file_dir: {folder:?}\njetstream {{ store_dir: {store:?}, max_file_store: {storage} }}\n\
         operator: {operator}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{preload}}}\n",
        system.public_key(),
        store = folder.join("store"),
    );
    let config = folder.join("nats.conf");
    std::fs::write(&config, text).unwrap();
    let program = std::env::var_os("PRONY_NATS_SERVER").unwrap_or("nats-server".into());
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let server = Command::new(program)
        .arg("-c")
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    let server = Process(server.unwrap());
    let ports = folder.join(format!("nats-server_{}.ports", server.0.id()));
    let url = wait_until("the server listens", || {
        let ports: Value = serde_json::from_str(&std::fs::read_to_string(&ports).ok()?).ok()?;
        Some(ports["nats"][0].as_str()?.to_owned())
    });
    (server, url)
}

fn subject_of(jwt: &str) -> String {
    let claims = BASE64.decode(jwt.split('.').nth(1).unwrap()).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    claims["sub"].as_str().unwrap().to_owned()
}

fn expect_whole(record: &Record) {
    assert_eq!(record.totals.ok, 101);
    let ids: Vec<&str> = record.findings.iter().map(|it| it.id.as_str()).collect();
    for lacking in ["agent-lost", "partial", "clock-doubtful", "clock-unchecked"] {
        assert!(!ids.contains(&lacking), "{:?}", record.findings);
    }
}

/// Stores a message with the credentials of agent one. The message asks for its acknowledgement on
/// a subject that would delete all results. Returns the number of results that are stored
/// afterwards.
fn reflect(nats: &Operated) -> u64 {
    let coordinator = nats.link(&Role::Coordinator).unwrap();
    let stored = || {
        coordinator
            .stored()
            .unwrap()
            .iter()
            .map(|(_, count)| count)
            .sum()
    };
    let before: u64 = stored();
    assert!(before > 0);
    let FleetCredentials::Jwt(text) = nats.credentials(&agent("one")) else {
        panic!("a JWT");
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = ConnectOptions::with_credentials(text.reveal()).unwrap();
        let options = options.custom_inbox_prefix(agent("one").inbox_prefix());
        let client = options.connect(&nats.url).await.unwrap();
        let purge = "$JS.API.STREAM.PURGE.PRONY_RESULTS";
        let published = client.publish_with_reply("$KV.prony_agents.one", purge, "{}".into());
        published.await.unwrap();
        // The acknowledgement of this request shows that the server has handled all earlier
        // messages.
        let settled = client.request("$KV.prony_agents.one", "{}".into());
        settled.await.unwrap();
    });
    // The server might not have completed the purge yet.
    for _ in 0..20 {
        if stored() < before {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    stored()
}

#[test]
fn agents_in_separate_accounts_load_together_and_reflect_nothing() {
    let nats = Operated::new(Accounts::Each, &["one", "two"]);
    expect_whole(&nats.load());
    assert!(reflect(&nats) > 0, "nothing is emptied");
}

#[test]
fn agents_in_the_coordinators_account_load_together_and_may_empty_what_is_stored() {
    let nats = Operated::new(Accounts::One, &["one", "two"]);
    expect_whole(&nats.load());
    // Because the attack succeeds in a shared account, docs/fleet.md recommends separate ones.
    assert_eq!(reflect(&nats), 0);
}

#[test]
fn credentials_of_another_operator_are_refused() {
    let (nats, other) = (
        Operated::new(Accounts::One, &["one"]),
        Operated::new(Accounts::One, &["one"]),
    );
    let role = agent("one");
    let error = NatsLink::connect(Some(&nats.url), &other.credentials(&role), &role).unwrap_err();
    match error {
        LinkError::Connect { retryable, .. } => assert!(!retryable),
        other => panic!("{other}"),
    }
}

#[test]
fn too_little_storage_is_named() {
    let nats = Operated::with_storage(Accounts::One, &["one"], "1GB");
    let error = nats.link(&Role::Coordinator).unwrap().prepare_server();
    let text = error.unwrap_err().to_string();
    assert!(text.contains("set `max_file_store`"), "{text}");
}
