//! Enrolls agents with one token, and runs loads that wait for agents.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::running::{Origin, Running, Workdir};

const COORDINATOR: [&str; 2] = ["--creds", "up/coordinator.creds"];
const TOKEN: [&str; 4] = ["fleet", "token", "--dir", "up"];

/// Starts `prony fleet up`.
fn up(workdir: &Workdir) -> Running {
    let words = [
        "fleet", "up", "--dir", "up", "--listen", "0", "--agents", "1",
    ];
    let mut up = Running::start(workdir.command(&words));
    up.wait_for("nats-server listens on");
    up
}

/// Starts an agent with a token, or with its stored credentials.
fn agent(workdir: &Workdir, name: &str) -> Running {
    Running::start(workdir.command(&[
        "agent",
        "--creds",
        "fleet.token",
        "--name",
        name,
        "--state",
        "state",
        "--label",
        "site=west",
        "--metrics",
        "0",
    ]))
}

/// Fetches a page with `Connection: close` and returns the whole response.
fn fetch(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn end(workdir: &Workdir, up: Running, agents: Vec<Running>) {
    for agent in agents {
        agent.signal(Signal::INT);
        agent.end().expect(130);
    }
    up.signal(Signal::INT);
    up.end().expect(0);
    workdir.wait_until_quiet();
}

#[test]
fn one_token_enrolls_the_agents_that_a_load_waits_for() {
    let workdir = Workdir::new();
    let up = up(&workdir);
    let words = [&TOKEN[..], &["--uses", "2", "--valid", "10m"]].concat();
    let token = workdir.run(&words).expect(0);
    let output = "enrolls up to 2 new agents until";
    assert!(token.err.contains(output), "{}", token.err);
    workdir.write("fleet.token", &token.out);
    let closed = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(workdir.path("fleet.token"), closed).unwrap();
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");

    let mut first = agent(&workdir, "web-1");
    let line = first.wait_for("metrics at http://");
    first.wait_for("registered as web-1");
    let served = line.split("http://").nth(1).unwrap();
    let metrics = served
        .split_whitespace()
        .next()
        .unwrap()
        .trim_end_matches("/metrics");
    let text = fetch(metrics, "/metrics");
    assert!(
        text.contains("prony_agent_loads_total{agent=\"web-1\"} 0"),
        "{text}"
    );
    let load = [
        "load",
        "--agents",
        "2@site=west",
        "--wait",
        "2m",
        "-n",
        "100",
        "-c",
        "4",
        "--progress",
        "lines",
        "--json",
        "one.json",
        &url,
    ];
    let mut waiting = Running::start(workdir.command(&[&load[..], &COORDINATOR].concat()));
    waiting.wait_for("waiting for up to");
    let mut second = agent(&workdir, "web-2");
    second.wait_for("registered as web-2");
    let output = waiting.end().expect(0);
    assert!(
        output.out.contains("100 requests: 100 ok"),
        "{}",
        output.out
    );
    // The summary has a line for each agent.
    assert!(output.out.contains("start skew"), "{}", output.out);
    let record = workdir.json("one.json");
    let agents = record["fleet"]["agents"].as_array().unwrap();
    let p99 = |agent: &serde_json::Value| agent["p99_us"].as_f64().unwrap();
    assert!(agents.iter().all(|agent| p99(agent) > 0.0), "{agents:?}");

    let output = agent(&workdir, "web-3").end().expect(3);
    assert!(output.err.contains("used up"), "{}", output.err);
    assert_eq!(origin.stop(), Some(0));
    end(&workdir, up, vec![first, second]);
}

#[test]
fn tokens_are_listed_and_revoked_where_a_server_runs() {
    let workdir = Workdir::new();
    let output = workdir.run(&TOKEN).expect(3);
    let none = "`prony fleet up` is not running on";
    assert!(output.err.contains(none), "{}", output.err);
    let up = up(&workdir);
    let made = workdir.run(&TOKEN).expect(0);
    let id = made.err.split_whitespace().nth(2).unwrap().to_owned();
    let list = workdir.run(&[&TOKEN[..], &["--list"]].concat()).expect(0);
    assert!(list.out.contains(&id), "{}", list.out);
    let revoke = [&TOKEN[..], &["--revoke", &id]].concat();
    let output = workdir.run(&revoke).expect(0);
    assert!(output.err.contains("revoked token"), "{}", output.err);
    let output = workdir.run(&revoke).expect(2);
    assert!(output.err.contains("there is no token"), "{}", output.err);
    for wrong in [["--uses", "0"], ["--valid", "31d"], ["--valid", "0"]] {
        workdir.run(&[&TOKEN[..], &wrong].concat()).expect(2);
    }
    end(&workdir, up, Vec::new());
}
