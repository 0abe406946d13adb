//! Plans whose services run on agents' machines, with a real nginx.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use prony_experiment::runner::{
    ExperimentEvent, ExperimentOutcome, Interrupt, Machines, RunSettings, TrialError, run, run_on,
};
use prony_fleet::agent::{Agent, AgentSettings};
use prony_fleet::clock::Clock;
use prony_fleet::coordinator::{AgentState, Feed, Fleet};
use prony_fleet::host::{AgentLoads, FleetHost, Roster};
use prony_fleet::names::AGENTS_BUCKET;
use prony_fleet::permissions::Role;
use prony_fleet::policy::Policy;
use prony_machine::host::local::LocalHost;
use prony_machine::profile::MachineProfile;
use prony_plan::Plan;
use prony_record::FindingId;

use crate::harness::{log_to_stderr, wait_until};
use crate::nats_server::{TestServer, agent};

/// Environment variable that makes the test program run as an agent.
const AGENT_VARIABLE: &str = "PRONY_TEST_AGENT";

/// Returns a plan with one variant for each host in `hosts`; nginx runs on that host.
fn plan(hosts: &str, command: &str, more: &str) -> String {
    format!(
        r#"name = "two hosts"
baseline = {{ host = "one" }}
[trials]
blocks = 3
warmup = "50ms"
duration = "300ms"
seed = 7
[factors]
host = [{hosts}]
[service.web]
host = "{{{{ host }}}}"
command = {command}
ready = {{ get = "/" }}
{more}
[service.web.files]
"nginx.conf" = {{ text = """
pid {{{{ web.dir }}}}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log /dev/stderr;
  client_body_temp_path {{{{ web.dir }}}};
  server {{
    listen {{{{ web.address }}}};
    location / {{ return 200 'the same'; }}
  }}
}}
""" }}
[load]
target = "web"
connections = 2
"#
    )
}

const NGINX: &str =
    r#"["nginx", "-c", "{{ web.files['nginx.conf'] }}", "-g", "daemon off; worker_processes 1;"]"#;

fn read(text: &str) -> Plan {
    let plan = Plan::from_str(text, Path::new("hosts.toml"), MachineProfile::this());
    plan.unwrap_or_else(|errors| panic!("{errors}"))
}

fn settings(nats: &TestServer, name: &str, policy: &str) -> AgentSettings {
    AgentSettings {
        name: name.parse().unwrap(),
        server: None,
        credentials: nats.credentials(&agent(name)),
        labels: BTreeMap::from([("role".to_owned(), format!("server-{name}"))]),
        policy: toml::from_str::<Policy>(policy).unwrap(),
        state: nats.folder.path().join("state"),
        cores: Vec::new(),
        clock: Clock::default(),
        log: log_to_stderr(name),
    }
}

/// Agent that runs on a thread.
struct InThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl InThread {
    fn start(settings: AgentSettings) -> InThread {
        let stop = Arc::new(AtomicBool::new(false));
        let of_thread = stop.clone();
        let connected = Agent::connect(settings, &stop).unwrap();
        let thread = std::thread::spawn(move || {
            connected.run(&of_thread).unwrap();
        });
        InThread {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for InThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

const ALLOWED: &str = "[services]\ncommands = ['nginx']";

/// Waits until the agents are registered, and combines this machine with theirs.
fn fleet(
    nats: &TestServer,
    agents: usize,
) -> (FleetHost, Arc<prony_fleet::link::NatsLink>, Roster) {
    let link = Arc::new(nats.link(&Role::Coordinator));
    link.prepare_server().unwrap();
    wait_until("all agents are registered", || {
        let registered = link.entries(AGENTS_BUCKET).unwrap().len();
        (registered >= agents).then_some(())
    });
    let roster = Roster::read(&link).unwrap();
    let here = LocalHost::new().unwrap();
    (
        // The lease is shorter than the default, so that tests detect lost agents sooner.
        FleetHost::new(here, link.clone(), roster.clone()).with_lease(Duration::from_secs(4)),
        link,
        roster,
    )
}

fn experiment(
    plan: &Plan,
    host: &mut FleetHost,
    out: PathBuf,
    mut on: impl FnMut(ExperimentEvent<'_>),
) -> ExperimentOutcome {
    let settings = RunSettings::new(out);
    run(plan, host, &settings, &Interrupt::default(), &mut on).unwrap()
}

/// Returns the command lines of processes that contain this text.
fn processes_with(text: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

/// Waits until all processes and folders of the trials' services are gone. The command lines of the
/// processes contain the folders.
fn nothing_left(folders: &[String]) {
    nothing_left_by(folders, || ());
}

/// Like [`nothing_left`], but repeats `sweep` while waiting, because a process that is still
/// exiting can't be swept.
fn nothing_left_by(folders: &[String], sweep: impl Fn()) {
    assert!(!folders.is_empty());
    wait_until("processes and files of the services are gone", || {
        sweep();
        let mut processes = folders.iter().flat_map(|folder| processes_with(folder));
        let has_files = folders.iter().any(|folder| Path::new(folder).exists());
        (processes.next().is_none() && !has_files).then_some(())
    });
}

/// Returns the folders of each trial's services, as named in their configurations.
fn folders(out: &Path) -> Vec<String> {
    let mut folders = Vec::new();
    for trial in std::fs::read_dir(out.join("trials")).unwrap().flatten() {
        let path = trial.path().join("web/nginx.conf");
        let conf = std::fs::read_to_string(path).unwrap_or_default();
        let line = conf.lines().find_map(|line| line.strip_prefix("pid "));
        let folder = line.and_then(|line| line.strip_suffix("/nginx.pid;"));
        folders.extend(folder.map(str::to_owned));
    }
    folders
}

#[test]
fn the_same_server_on_two_hosts_gives_a_verdict() {
    let nats = TestServer::new(&["one", "two"]);
    let (link, out) = (
        nats.link(&Role::Coordinator),
        nats.folder.path().join("out"),
    );
    link.prepare_server().unwrap();
    let agents = ["one", "two"].map(|name| InThread::start(settings(&nats, name, ALLOWED)));
    let levels = r#"{ name = "one", at = "one" }, { name = "two", at = "role=server-two" }"#;
    let plan = read(&plan(levels, NGINX, "").replace("{{ host }}", "{{ host.at }}"));
    assert!(plan.needs_agents());
    let (mut host, link, roster) = fleet(&nats, 2);
    plan.check_hosts(&mut |wanted| roster.objections(&link, wanted))
        .unwrap_or_else(|errors| panic!("{errors}\n(cargo xtask test installs it)"));
    let finished = experiment(&plan, &mut host, out.clone(), |_| {});
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    let document = finished.document;
    assert_eq!(document.blocks, 3);
    assert_eq!(document.comparisons[0].metric.name(), "rate_per_s");
    assert!(document.variants.iter().all(|variant| variant.trials == 3));

    let environment = std::fs::read_to_string(out.join("environment.json")).unwrap();
    let environment: serde_json::Value = serde_json::from_str(&environment).unwrap();
    for (variant, agent) in [("one", "one"), ("two", "two")] {
        assert_eq!(environment["hosted"][variant]["web"], agent);
        assert!(environment["hosts"][agent]["cores"].as_u64().unwrap() > 0);
        let program = environment["services"][variant]["web"][0]["path"].as_str();
        assert!(program.unwrap().ends_with("nginx"));
        let trial = out.join(format!("trials/1-{variant}"));
        let log = std::fs::read_to_string(trial.join("web.log")).unwrap();
        assert!(log.contains("GET / HTTP/1.1"), "{log}");
        let telemetry = std::fs::read_to_string(trial.join("telemetry.csv")).unwrap();
        assert!(telemetry.contains(&format!("host:{agent}")) && telemetry.contains("service:web"));
    }
    drop(host);
    nothing_left(&folders(&out));
    drop(agents);
}

#[test]
fn one_agent_loads_what_another_one_serves() {
    let nats = TestServer::new(&["one", "two"]);
    let coordinator = nats.link(&Role::Coordinator);
    coordinator.prepare_server().unwrap();
    let _agents = ["one", "two"].map(|name| InThread::start(settings(&nats, name, ALLOWED)));
    // Each agent runs the service in one variant and generates the load in the other. An agent that
    // runs a service of an experiment is not busy for the experiment's loads.
    let levels = r#"{ name = "one", by = "two" }, { name = "two", by = "one" }"#;
    let text = plan(levels, NGINX, "").replace("{{ host }}", "{{ host.name }}");
    let plan = read(&text.replace(
        "connections = 2",
        "connections = 2\nagents = '{{ host.by }}'",
    ));
    let (mut host, link, roster) = fleet(&nats, 2);
    plan.check_hosts(&mut |wanted| roster.objections(&link, wanted))
        .unwrap_or_else(|errors| panic!("{errors}\n(cargo xtask test installs it)"));
    let coordinator = Fleet::connect(None, &nats.credentials(&Role::Coordinator)).unwrap();
    let shown: Mutex<Vec<Arc<Feed>>> = Mutex::default();
    let show = |feed: &Arc<Feed>| shown.lock().unwrap().push(feed.clone());
    let mut load = AgentLoads {
        fleet: coordinator.for_experiment(host.run().clone()),
        clock_bound: Duration::from_secs(1),
        warn: &|_| {},
        show: Some(&show),
        previous: BTreeMap::new(),
        reservations: None,
    };
    let machines = Machines {
        scripts: None,
        host: &mut host,
        load: Some(&mut load),
    };
    let out = nats.folder.path().join("out");
    let settings = RunSettings {
        blocks: Some(1),
        ..RunSettings::new(out.clone())
    };
    let finished = run_on(
        &plan,
        machines,
        &settings,
        &Interrupt::default(),
        &mut |_| {},
    )
    .unwrap();
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    let mut counted = Vec::new();
    for (variant, by) in [("one", "two"), ("two", "one")] {
        let trial = out.join(format!("trials/1-{variant}"));
        let record = std::fs::read_to_string(trial.join("record.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        let ok = record["totals"]["ok"].as_u64().unwrap();
        assert!(ok > 0);
        counted.push(ok);
        assert!(
            record.to_string().contains(&format!("\"{by}\"")),
            "the record names the agents that made the load"
        );
        let log = std::fs::read_to_string(trial.join("web.log")).unwrap();
        assert!(
            log.lines()
                .filter(|line| line.contains("GET / HTTP"))
                .count()
                > 5
        );
    }
    // The feed contained the same counts as the record.
    let mut seen: Vec<u64> = Vec::new();
    for feed in shown.lock().unwrap().iter() {
        seen.push(feed.record_so_far().unwrap().totals.ok);
        let agents = feed.agents();
        assert!(matches!(agents[..], [(_, AgentState::Ended)]), "{agents:?}");
    }
    counted.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, counted);
    drop(host);
    nothing_left(&folders(&out));
}

#[test]
fn a_forbidden_command_is_refused_by_its_rule() {
    let nats = TestServer::new(&["one", "two"]);
    let link = nats.link(&Role::Coordinator);
    link.prepare_server().unwrap();
    let _one = InThread::start(settings(&nats, "one", ALLOWED));
    let _two = InThread::start(settings(&nats, "two", "[services]\ncommands = ['caddy']"));
    let (mut host, link, roster) = fleet(&nats, 2);
    let errors = |plan: &Plan| {
        let checked = plan.check_hosts(&mut |wanted| roster.objections(&link, wanted));
        checked.unwrap_err().to_string()
    };
    let refused = read(&plan(r#""one", "two""#, NGINX, ""));
    let text = errors(&refused);
    assert!(
        text.starts_with("hosts.toml:12: agent two, service \"web\""),
        "{text}"
    );
    assert!(
        text.contains("services.commands") && text.contains("(allowed: caddy)"),
        "{text}"
    );
    assert!(text.contains("in variant two"), "{text}");
    // The agent itself rejects the service, too.
    let finished = experiment(&refused, &mut host, nats.folder.path().join("a"), |_| {});
    let failed = finished.failed.unwrap().to_string();
    assert!(
        failed.contains("host two") && failed.contains("services.commands"),
        "{failed}"
    );

    let wrapped = read(&plan(
        r#""one", "three""#,
        NGINX,
        "wrapper = ['nice']\ncores = 900",
    ));
    let text = errors(&wrapped);
    assert!(
        text.contains("hosts.toml:14: agent one, service \"web\": rejected by policy rule"),
        "{text}"
    );
    assert!(
        text.contains("\"nice\" is not allowed (allowed: nginx)"),
        "{text}"
    );
    assert!(
        text.contains("hosts.toml:15:") && text.contains("core 900 is not available"),
        "{text}"
    );
    assert!(
        text.contains("hosts.toml:11: there is no agent three; registered agents: one, two"),
        "{text}"
    );
    let preloaded = read(&plan(
        r#""one", "one2""#,
        NGINX,
        "env = { LD_PRELOAD = '/tmp/x.so' }",
    ));
    assert!(
        errors(&preloaded).contains(
            "hosts.toml:14: agent one, service \"web\": rejected by policy rule services.env: \
             environment variable LD_PRELOAD can't be set: none is allowed"
        ),
        "{}",
        errors(&preloaded)
    );
}

#[test]
fn an_impossible_load_is_refused_before_it_starts() {
    let nats = TestServer::new(&["one", "two"]);
    let link = nats.link(&Role::Coordinator);
    link.prepare_server().unwrap();
    let _agents = ["one", "two"].map(|name| InThread::start(settings(&nats, name, ALLOWED)));
    let (_host, link, roster) = fleet(&nats, 2);
    let errors = |plan: &Plan| {
        let checked = plan.check_hosts(&mut |wanted| roster.objections(&link, wanted));
        checked.unwrap_err().to_string()
    };
    for (load, reason) in [
        (
            "agents = 3",
            "the load needs 3 agents, but 2 are registered",
        ),
        ("agents = 'one,one'", "names an agent twice"),
        ("agents = 'one,three'", "there is no agent three"),
        (
            "connections = 1\nagents = 2",
            "connections = 1 is too few for 2 agents",
        ),
        (
            "connections = 1\nagents = 'site=here'",
            "no agent has the label site=here",
        ),
    ] {
        let text = plan(r#""local", "one""#, NGINX, "");
        let has_own = load.starts_with("connections");
        let text = text.replace(
            "connections = 2",
            if has_own { "" } else { "connections = 2" },
        );
        let text = errors(&read(
            &(text.replace("host = \"one\"", "host = \"local\"") + load),
        ));
        assert!(text.contains(reason), "{load}: {text}");
    }
}

/// Agent in a separate process, which can be killed.
struct InProcess(Child);

impl InProcess {
    fn start(nats: &TestServer, name: &str) -> InProcess {
        let test = "hosts::an_agent_in_a_separate_process";
        let credentials = nats.prepared.credentials(&agent(name));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture"]);
        command.env(AGENT_VARIABLE, format!("{name} {}", credentials.display()));
        command.env("HOME", nats.folder.path());
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        InProcess(child)
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Not a test: runs the agent that [`InProcess`] starts.
#[test]
fn an_agent_in_a_separate_process() {
    let Ok(words) = std::env::var(AGENT_VARIABLE) else {
        return;
    };
    let (name, path) = words.split_once(' ').unwrap();
    let path = Path::new(path);
    let settings = AgentSettings {
        name: name.parse().unwrap(),
        server: None,
        credentials: prony_fleet::credentials::FleetCredentials::read(path).unwrap(),
        labels: BTreeMap::new(),
        policy: toml::from_str(ALLOWED).unwrap(),
        state: path.parent().unwrap().join("state"),
        cores: Vec::new(),
        clock: Clock::default(),
        log: log_to_stderr(name),
    };
    let stop = AtomicBool::new(false);
    Agent::connect(settings, &stop).unwrap().run(&stop).unwrap();
}

#[test]
fn an_agent_that_is_killed_in_mid_trial_is_named_and_leaves_nothing() {
    let nats = TestServer::new(&["one", "two"]);
    nats.link(&Role::Coordinator).prepare_server().unwrap();
    let _one = InThread::start(settings(&nats, "one", ALLOWED));
    let two = Mutex::new(InProcess::start(&nats, "two"));
    let (mut host, _, _) = fleet(&nats, 2);
    let text = plan(r#""one", "two""#, NGINX, "").replace("300ms", "1500ms");
    let (plan, out) = (read(&text), nats.folder.path().join("out"));
    let mut is_on_two = false;
    let mut ended = Vec::new();
    let finished = experiment(&plan, &mut host, out.clone(), |event| match event {
        ExperimentEvent::TrialBegan { id, .. } => is_on_two = id == "two",
        ExperimentEvent::Loading { .. } if is_on_two => two.lock().unwrap().kill(),
        ExperimentEvent::TrialEnded { id, result } => {
            ended.push((id.to_owned(), result.findings.clone()))
        }
        _ => {}
    });
    let failed = finished
        .failed
        .expect("the next trial that needs the agent fails");
    assert!(matches!(*failed.error, TrialError::Host(_)), "{failed}");
    assert!(failed.to_string().contains("host two"), "{failed}");
    let (_, findings) = ended
        .iter()
        .find(|(id, _)| id == "two")
        .expect("the results are kept");
    let lost = findings
        .iter()
        .find(|finding| finding.id == FindingId::AgentLost);
    assert!(
        lost.expect("agent-lost").text.contains("host two"),
        "{findings:?}"
    );
    drop(host);
    // At its next start on that machine, an agent removes the folders of a killed one.
    nothing_left_by(&folders(&out), || drop(prony_machine::sweep::sweep()));
}

#[test]
fn a_trial_that_loses_its_machine_ends_early() {
    let nats = TestServer::new(&["one", "two"]);
    nats.link(&Role::Coordinator).prepare_server().unwrap();
    let _one = InThread::start(settings(&nats, "one", ALLOWED));
    let two = Mutex::new(InProcess::start(&nats, "two"));
    let (mut host, _, _) = fleet(&nats, 2);
    let text = plan(r#""one", "two""#, NGINX, "")
        .replace("300ms", "50s")
        .replace(r#"host = "{{ host }}""#, r#"host = "two""#)
        .replace("events {}", "events {} # {{ host }}");
    let out = nats.folder.path().join("out");
    let mut ended = Vec::new();
    let finished = experiment(&read(&text), &mut host, out, |event| match event {
        ExperimentEvent::Loading { .. } => two.lock().unwrap().kill(),
        ExperimentEvent::TrialEnded { result, .. } => ended.push(result.clone()),
        _ => {}
    });
    assert!(
        matches!(finished.failed, Some(failed) if matches!(*failed.error, TrialError::Host(_)))
    );
    assert_eq!(ended.len(), 1);
    assert!(
        ended[0]
            .findings
            .iter()
            .any(|it| it.id == FindingId::AgentLost)
    );
    let measured_s = ended[0].record.as_ref().unwrap().totals.elapsed_s;
    assert!(measured_s > 0.0 && measured_s < 45.0, "{measured_s}");
}

#[test]
fn a_lost_coordinator_leaves_no_service_behind() {
    let nats = TestServer::new(&["one", "two"]);
    nats.link(&Role::Coordinator).prepare_server().unwrap();
    let _agents = ["one", "two"].map(|name| InThread::start(settings(&nats, name, ALLOWED)));
    let (mut host, _, _) = fleet(&nats, 2);
    let (plan, out) = (
        read(&plan(r#""one", "two""#, NGINX, "")),
        nats.folder.path().join("out"),
    );
    let wanted = plan.allocations(0).unwrap();
    let allocated = prony_machine::host::Host::allocate(&mut host, &wanted, &Default::default());
    let resolved = plan.resolve(0, &allocated.unwrap()).unwrap();
    let spec = &resolved.services[0].spec;
    let folder = spec.command[2].rsplit_once('/').unwrap().0.to_owned();
    prony_machine::host::Host::start(&mut host, spec, &out).unwrap();
    wait_until("the service runs", || {
        (!processes_with(&folder).is_empty()).then_some(())
    });
    host.abandon();
    wait_until("the agent's lease has expired", || {
        let is_gone = processes_with(&folder).is_empty() && !Path::new(&folder).exists();
        is_gone.then_some(())
    });
}
