//! The life of connections in loads by agents, plans, comparisons and capacity searches. The
//! connections are counted at the servers.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use prony_record::{Outcome, Record};

use crate::fleet_loads::FleetSetup;

/// Numbers of connections and of requests by local address.
type Counts = Arc<Mutex<BTreeMap<String, (u64, u64)>>>;

const FOUR: [&str; 4] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];

/// Maximum number of connections with which agents check their target before a load.
const CHECKS_MAX: u64 = 8;

/// A server on one port of four addresses. Its threads end with the test's process.
struct FourServers {
    port: u16,
    counts: Counts,
}

impl FourServers {
    fn start() -> FourServers {
        let listeners = loop {
            let first = TcpListener::bind((FOUR[0], 0)).unwrap();
            let port = first.local_addr().unwrap().port();
            let others = FOUR[1..].iter().map(|it| TcpListener::bind((*it, port)));
            if let Ok(others) = others.collect::<Result<Vec<_>, _>>() {
                break std::iter::once(first).chain(others).collect::<Vec<_>>();
            }
        };
        let port = listeners[0].local_addr().unwrap().port();
        let counts = Counts::default();
        for (listener, name) in listeners.into_iter().zip(FOUR) {
            let counts = counts.clone();
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    counts.lock().unwrap().entry(name.to_owned()).or_default().0 += 1;
                    let counts = counts.clone();
                    thread::spawn(move || serve(stream, name, &counts));
                }
            });
        }
        FourServers { port, counts }
    }

    /// Removes and returns the counts.
    fn take(&self) -> BTreeMap<String, (u64, u64)> {
        std::mem::take(&mut *self.counts.lock().unwrap())
    }
}

/// Responds to requests until one of them asks to close the connection.
fn serve(mut stream: TcpStream, name: &str, counts: &Counts) {
    let (mut read, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        read.extend_from_slice(&buffer[..length]);
        while let Some(end) = read.windows(4).position(|it| it == b"\r\n\r\n") {
            let head: Vec<u8> = read.drain(..end + 4).collect();
            counts.lock().unwrap().entry(name.to_owned()).or_default().1 += 1;
            let closes = String::from_utf8_lossy(&head).contains("Connection: close");
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
            if stream.write_all(response).is_err() || closes {
                return;
            }
        }
    }
}

#[test]
fn agents_share_addresses_and_connection_rates() {
    let ground = FleetSetup::new(2);
    let workdir = &ground.workdir;
    let servers = FourServers::start();
    let resolve = format!("four.test:{}:{}", servers.port, FOUR.join(","));
    let url = format!("http://four.test:{}/", servers.port);
    let load = |words: &str| {
        let fixed = [
            "load",
            "--agents",
            "2",
            "--json",
            "r.json",
            "--resolve",
            &resolve,
        ];
        let words = words.split(' ').chain([url.as_str()]);
        let all: Vec<&str> = fixed.into_iter().chain(words).collect();
        workdir.run(&ground.words(&all)).expect(0);
        let record = Record::from_json(&workdir.read("r.json")).unwrap();
        assert_eq!(record.totals.failed, 0);
        (record, servers.take())
    };
    // Six connections per agent and four addresses: replaced connections take turns.
    let words = "-n 4000 -c 12 --addresses all --requests-per-connection 5";
    let (record, counts) = load(words);
    assert_eq!(record.outcomes[&Outcome::Ok], 4_000);
    assert_eq!(counts.len(), 4);
    for (connections, requests) in counts.values() {
        // 25% ± 1%. The last connections carry fewer requests, and each agent has checked the target.
        assert!((960..=1_040).contains(requests), "{counts:?}");
        assert!((190..=212).contains(connections), "{counts:?}");
    }
    let words = "-n 60 -c 8 --connection-rate 400 --requests-per-connection 3 --addresses all";
    let (record, counts) = load(words);
    assert_eq!(record.outcomes[&Outcome::Ok], 180);
    assert_eq!(record.totals.connections_opened, 60);
    let accepted: u64 = counts.values().map(|it| it.0).sum();
    assert!((60..=60 + CHECKS_MAX).contains(&accepted), "{counts:?}");
    let (record, counts) = load("-d 1s -r 100 -c 4 --idle 20");
    let idle = record.idle.as_ref().unwrap();
    assert_eq!(
        (idle.wanted, idle.open_at_begin, idle.open_at_end),
        (20, 20, 20)
    );
    let opened = 20 + record.totals.connections_opened;
    assert!(
        (opened..=opened + CHECKS_MAX).contains(&counts[FOUR[0]].0),
        "{counts:?}"
    );
    let (record, counts) = load("-n 40 -c 4 --tcp-only");
    assert_eq!(record.totals.connections_opened, 40);
    assert!(
        (40..=40 + CHECKS_MAX).contains(&counts[FOUR[0]].0),
        "{counts:?}"
    );
    assert!(counts[FOUR[0]].1 <= CHECKS_MAX, "{counts:?}");
    ground.end();
}

#[test]
fn levels_of_a_factor_have_different_lives_of_connections() {
    let ground = FleetSetup::new(1);
    let workdir = &ground.workdir;
    let servers = FourServers::start();
    let plan = r#"
        name = "lives"
        baseline = { requests = "2" }
        [factors]
        requests = ["2", "20"]
        [service.one]
        remote = "127.0.0.1:PORT"
        [load]
        target = "one"
        requests = 200
        connections = 2
        requests_per_connection = "{{ requests }}"
        connection_lifetime = "1m"
        idle = 3
        [trials]
        blocks = 1
        warmup = "0s"
    "#;
    let plan = plan.replace("PORT", &servers.port.to_string());
    for agents in ["", "agents = 1"] {
        let agents = format!("{agents}\n        target =");
        workdir.write("plan.toml", &plan.replace("target =", &agents));
        let out = ["compare", "plan.toml", "--out", "lives"];
        let compare = if agents.contains('1') {
            ground.words(&out)
        } else {
            out.to_vec()
        };
        workdir.run(&compare).expect(0);
        let (connections, requests) = servers.take()[FOUR[0]];
        // Each variant is also checked with a request before the load.
        assert!((400..=410).contains(&requests), "{requests}");
        assert!((110 + 6..=110 + 20).contains(&connections), "{connections}");
        std::fs::remove_dir_all(workdir.path("lives")).unwrap();
    }
    let url = format!("http://127.0.0.1:{}/", servers.port);
    let goal = [
        "capacity",
        "--goal",
        "p99 < 10s",
        "--max-rate",
        "2000",
        "--probe",
        "500ms",
        "--requests-per-connection",
        "1",
        "-c",
        "4",
        &url,
    ];
    workdir.run(&goal).expect(0);
    let (connections, requests) = servers.take()[FOUR[0]];
    assert!(
        requests > 50 && connections >= requests,
        "{connections} {requests}"
    );
    ground.end();
}
