//! Loads with `--io xdp` on a veth pair between two network namespaces.
//!
//! The tests require root and iproute2. They fail without them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::running::{CommandOutput, Origin, Running, TEST_TIMEOUT, Workdir};

#[path = "../../../xdp/tests/link/mod.rs"]
mod link;

use link::{FarEnd, ip, on_link};

/// Flags of every load.
const XDP: [&str; 6] = ["load", "--io", "xdp", "-t", "1", "--progress=none"];

const NEAR: [&str; 2] = ["--interface", "near"];

/// Starts prony's origin at the far end of the link.
fn origin(far: &FarEnd, workdir: &Workdir) -> Origin {
    far.run(|| Origin::start(workdir, &["--listen", "10.9.0.2:0"]))
}

fn load(workdir: &Workdir, words: &[&str]) -> CommandOutput {
    workdir.run(&[&XDP[..], &NEAR, words].concat())
}

/// Returns true if an XDP program is attached to the interface.
fn is_attached() -> bool {
    let output = Command::new("ip")
        .args(["-d", "link", "show", "near"])
        .output();
    let output = output.expect("ip of iproute2 (cargo xtask test installs it)");
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .contains("prog/xdp")
}

fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_done() {
        assert!(began.elapsed() < TEST_TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a load that takes a minute. Returns as soon as the load has attached its XDP program.
fn long_load(workdir: &Workdir, url: &str) -> Running {
    let command = workdir.command(&[&XDP[..], &NEAR, &["-d", "60s", "-c", "16", url][..]].concat());
    let running = Running::start(command);
    wait_until("no program was attached", is_attached);
    running
}

#[test]
fn unsuitable_settings_exit_with_3_and_the_remedy() {
    on_link(1, |_| {
        let workdir = Workdir::new();
        let url = "http://10.9.0.2:80/";
        let refused_on = |interface: &str, words: &[&str], parts: &[&str]| {
            let words = [&XDP[..], &["--interface", interface], words].concat();
            let output = workdir.run(&words).expect(3);
            assert_eq!(output.out, "");
            for part in parts {
                assert!(output.err.contains(part), "{words:?}: {}", output.err);
            }
            assert!(!is_attached(), "{words:?}");
        };
        let refused = |words: &[&str], parts: &[&str]| refused_on("near", words, parts);
        refused_on("no0", &[url], &["no interface no0", "`ip link`"]);
        refused_on(
            "lo",
            &["http://127.0.0.1:80/"],
            &["lo is not an Ethernet interface", "kernel sockets"],
        );
        refused(
            &["--source", "10.8.0.1", url],
            &[
                "10.8.0.1 is outside",
                "10.9.0.1/16",
                "use addresses in these",
            ],
        );
        for (source, kind) in [
            ("10.9.0.2", "the server's own address"),
            ("127.0.0.9", "a loopback address"),
            ("10.9.0.0", "the address of a network"),
            ("10.9.255.255", "a broadcast address"),
        ] {
            refused(&["--source", source, url], &[source, kind]);
        }
        refused(
            &["http://192.168.7.7/"],
            &["192.168.7.7", "no route", "ip route get"],
        );
        refused(&["http://127.0.0.1/"], &["127.0.0.1", "its route uses lo"]);
        // The address 10.9.7.7 is in the subnet, but no host has it.
        refused(
            &["http://10.9.7.7/"],
            &["10.9.7.7 does not respond to ARP", "MAC address"],
        );
        ip("link set near mtu 1279");
        refused(
            &[url],
            &["the MTU of near is 1279", "at least 1280", "mtu 1500"],
        );
        ip("link set near mtu 1500");
        ip("link set near down");
        refused(&[url], &["near is down", "ip link set near up"]);
    });
}

#[test]
fn a_missing_capability_is_named() {
    /// Capability numbers; see capabilities(7).
    const NET_ADMIN: i32 = 12;
    const NET_RAW: i32 = 13;
    const SYS_ADMIN: i32 = 21;
    const BPF: i32 = 39;
    on_link(1, |_| {
        let workdir = Workdir::new();
        for (dropped, name) in [
            (&[NET_ADMIN][..], "CAP_NET_ADMIN"),
            (&[NET_RAW], "CAP_NET_RAW"),
            (&[BPF, SYS_ADMIN], "CAP_BPF"),
        ] {
            let mut command =
                workdir.command(&[&XDP[..], &NEAR, &["http://10.9.0.2/"][..]].concat());
            let drop_capabilities = move || {
                for &capability in dropped {
                    // SAFETY: prctl is a plain system call without pointers.
                    if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            };
            // SAFETY: the closure only makes system calls, which are allowed between fork and exec.
            unsafe { command.pre_exec(drop_capabilities) };
            let output = command.output().unwrap();
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{err}");
            assert!(
                err.contains(&format!("needs the capability {name},")) && err.contains("root"),
                "{err}"
            );
            assert!(!is_attached(), "{name}");
        }
    });
}

#[test]
fn a_second_load_on_an_interface_is_refused() {
    on_link(1, |far| {
        let workdir = Workdir::new();
        let origin = origin(far, &workdir);
        let first = long_load(&workdir, &origin.url("/"));
        let output = load(&workdir, &["-n", "10", &origin.url("/")]).expect(3);
        assert!(
            output.err.contains("near already has an XDP program")
                && output.err.contains("xdp off"),
            "{}",
            output.err
        );
        assert!(is_attached(), "the first load's program is still there");
        first.signal(Signal::INT);
        let output = first.end().expect(130);
        assert!(output.out.contains("requests"), "{}", output.out);
        assert!(!is_attached());
    });
}

/// Sends a byte back and forth over the kernel's TCP, like an SSH session.
fn keep_talking(talker: &mut TcpStream, exchanges: &AtomicU64, is_over: &AtomicBool) {
    talker.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut byte = [0];
    while !is_over.load(Ordering::Relaxed) {
        talker.write_all(b"x").unwrap();
        talker.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        exchanges.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_killed_load_leaves_nothing_behind_and_disturbs_nothing() {
    on_link(1, |far| {
        let workdir = Workdir::new();
        let origin = origin(far, &workdir);
        let listener = far.run(|| TcpListener::bind("10.9.0.2:0").unwrap());
        let mut talker = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let echo = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = stream.try_clone().unwrap();
            let _ = std::io::copy(&mut reader, &mut stream);
        });
        let (exchanges, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let talk = scope.spawn(|| keep_talking(&mut talker, &exchanges, &is_over));
            let goes_on = |when: &str| {
                let before = exchanges.load(Ordering::Relaxed);
                wait_until(when, || exchanges.load(Ordering::Relaxed) > before + 20);
            };
            let running = long_load(&workdir, &origin.url("/bytes/1000"));
            goes_on("the connection stopped during the load");
            running.signal(Signal::KILL);
            running.end().expect(-1);
            wait_until("the program is still attached", || !is_attached());
            goes_on("the connection stopped after the load");
            // Loads still work afterwards, both over AF_XDP and over kernel sockets.
            let url = origin.url("/bytes/1000");
            load(&workdir, &["-n", "100", "-c", "4", &url]).expect(0);
            assert!(!is_attached());
            let words = ["load", "--io", "poll", "-n", "100", "-c", "4", &url];
            workdir.run(&words).expect(0);
            goes_on("the connection stopped after the second load");
            is_over.store(true, Ordering::Relaxed);
            talk.join().unwrap();
        });
        drop(talker);
        echo.join().unwrap();
        origin.stop();
        workdir.wait_until_quiet();
    });
}

#[test]
fn urls_are_compared_over_af_xdp() {
    on_link(1, |far| {
        let workdir = Workdir::new();
        let origin = origin(far, &workdir);
        let (one, other) = (origin.url("/bytes/100?a"), origin.url("/bytes/100?b"));
        let words = [
            "compare",
            "--io",
            "xdp",
            "--interface",
            "near",
            "-t",
            "1",
            "-c",
            "8",
            "-d",
            "200ms",
            "--warmup",
            "0s",
            "--blocks",
            "3",
            "--progress",
            "none",
            "--out",
            "r",
            &one,
            &other,
        ];
        workdir.run(&words).expect(0);
        let mut records = 0;
        for entry in walk(&workdir.path("r")) {
            let text = std::fs::read_to_string(&entry).unwrap_or_default();
            let Ok(json) = serde_json::from_str::<serde_json::Value>(&text) else {
                continue;
            };
            if json
                .pointer("/schema")
                .is_some_and(|it| it == "prony.record/1")
            {
                assert_eq!(
                    json.pointer("/load/io").unwrap(),
                    "xdp",
                    "{}",
                    entry.display()
                );
                records += 1;
            }
        }
        assert!(records >= 6, "{records} records");
        assert!(!is_attached());
    });
}

/// Returns all files below a folder.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            files.extend(walk(&entry.path()))
        } else {
            files.push(entry.path())
        }
    }
    files
}

const PLAN: &str = r#"
name     = "bypass"
question = "Does a load over AF_XDP work in a place?"
baseline = { page = "small" }
[trials]
blocks   = 1
warmup   = "0s"
duration = "300ms"
interleave = "off"
[factors]
page = [{ name = "small", path = "/bytes/10" }, { name = "large", path = "/bytes/20000" }]
[place.clients]
[place.front]
[link.lan]
between = ["clients", "front"]
[service.web]
command = ["prony", "origin", "--listen", "{{ web.address }}"]
place   = "front"
[load]
target      = "web"
place       = "clients"
path        = "{{ page.path }}"
io          = "xdp"
interface   = "lan"
connections = 4
bodies      = "may-differ"
threads     = 1
"#;

#[test]
fn a_plan_loads_over_the_link_of_a_place() {
    let workdir = Workdir::new();
    workdir.write(
        "wrong.toml",
        &PLAN.replace("\"lan\"\nconn", "\"wan\"\nconn"),
    );
    let output = workdir.run(&["compare", "wrong.toml"]).expect(2);
    assert!(
        output.err.contains("interface \"wan\" is not a link") && output.err.contains("links: lan"),
        "{}",
        output.err
    );
    workdir.write("plan.toml", PLAN);
    let words = ["compare", "plan.toml", "--out", "r", "--progress", "none"];
    // One block is too few for a verdict.
    let output = workdir.run(&words);
    assert!(
        [0, 1].contains(&output.status),
        "{}{}",
        output.out,
        output.err
    );
    let files = walk(&workdir.path("r"));
    let texts = files
        .iter()
        .map(|it| std::fs::read_to_string(it).unwrap_or_default());
    let records: Vec<serde_json::Value> = texts
        .filter_map(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
        .filter(|json| {
            json.pointer("/schema")
                .is_some_and(|it| it == "prony.record/1")
        })
        .collect();
    assert!(records.len() >= 2, "{} records in {files:?}", records.len());
    for record in records {
        assert_eq!(record.pointer("/load/io").unwrap(), "xdp");
        assert_eq!(record.pointer("/totals/failed").unwrap(), 0);
        let received = record.pointer("/generator/xdp/packets_received").unwrap();
        assert!(received.as_u64().unwrap() > 0);
    }
}

#[test]
fn agents_load_over_af_xdp() {
    on_link(1, |far| {
        let workdir = Workdir::new();
        let origin = origin(far, &workdir);
        let words = [
            "fleet", "up", "--dir", "up", "--listen", "0", "--agents", "1",
        ];
        let mut up = Running::start(workdir.command(&words));
        up.wait_for("nats-server listens on");
        let words = ["agent", "--creds", "up/agent-1.creds", "--state", "state"];
        let mut agent = Running::start(workdir.command(&words));
        agent.wait_for("registered as agent-1");
        let run = |more: &[&str]| {
            let words = [
                "--creds",
                "up/coordinator.creds",
                "--agents",
                "1",
                "--json",
                "-",
            ];
            load(&workdir, &[&words, more].concat())
        };
        let output = run(&["-n", "200", "-c", "4", &origin.url("/")]).expect(0);
        let record: serde_json::Value = serde_json::from_str(&output.out).unwrap();
        assert_eq!(record.pointer("/totals/ok").unwrap(), 200, "{record}");
        let packets = record.pointer("/generator/xdp/packets_sent").unwrap();
        assert!(packets.as_u64().unwrap() >= 200, "{record}");
        assert!(!is_attached());
        // The agent reports the missing requirement, and attaches no program.
        ip("link set near mtu 1279");
        let output = run(&["-n", "10", &origin.url("/")]);
        assert_ne!(output.status, 0);
        assert!(
            output.err.contains("the MTU of near is 1279"),
            "{}",
            output.err
        );
        agent.signal(Signal::TERM);
        agent.end().expect(0);
        up.signal(Signal::INT);
        up.end();
    });
}

#[test]
fn the_doctor_describes_an_interface() {
    on_link(2, |_| {
        let workdir = Workdir::new();
        let words = ["doctor", "--interface", "near", "--all", "--json", "d.json"];
        let output = workdir.run(&words).expect(0);
        assert!(
            output.out.contains("interface near for --io xdp"),
            "{}",
            output.out
        );
        let document = workdir.json("d.json");
        crate::running::check_schema("prony.doctor-1.schema.json", &document);
        let subject = &document["subjects"][0];
        assert_eq!(subject["kind"], "interface");
        let check = |id: &str| {
            let lines = subject["lines"].as_array().unwrap();
            lines
                .iter()
                .find(|line| line["id"] == id)
                .unwrap_or_else(|| panic!("{id}: {subject}"))
        };
        assert_eq!(check("xdp-ready")["level"], "ok");
        assert!(
            check("xdp-driver")["seen"]
                .as_str()
                .unwrap()
                .starts_with("veth")
        );
        assert!(
            check("xdp-queues")["seen"]
                .as_str()
                .unwrap()
                .starts_with("2 receive queues")
        );
        assert_eq!(check("xdp-rss")["level"], "note");
        assert!(
            check("xdp-offloads")["seen"]
                .as_str()
                .unwrap()
                .contains("off")
        );
        ip("link set near down");
        ip("link set near mtu 1000");
        let output = workdir.run(&["doctor", "--interface", "near"]).expect(0);
        for part in ["near is down", "the MTU of near is 1000", "error"] {
            assert!(output.out.contains(part), "{part}: {}", output.out);
        }
        let output = workdir.run(&["doctor", "--interface", "no0"]).expect(2);
        assert!(output.err.contains("no interface no0"), "{}", output.err);
    });
}

#[test]
fn a_load_whose_interface_fails_ends_with_its_results() {
    for fails in ["link set near down", "link delete near"] {
        on_link(1, |far| {
            let workdir = Workdir::new();
            let origin = origin(far, &workdir);
            let url = origin.url("/bytes/1000");
            let words = ["-d", "60s", "-c", "16", "--json", "out.json", &url];
            let command = workdir.command(&[&XDP[..], &NEAR, &words].concat());
            let running = Running::start(command);
            wait_until("no program was attached", is_attached);
            // More packets than the connections need to open.
            wait_until("no responses arrive", || packets_received() > 1000);
            ip(fails);
            let output = running.end().expect(1);
            assert!(output.err.contains("its sockets failed"), "{}", output.err);
            let record = workdir.json("out.json");
            assert!(record["totals"]["ok"].as_u64().unwrap() > 0, "{fails}");
            let findings = record["findings"].as_array().unwrap();
            let failed = findings.iter().find(|it| it["id"] == "sockets-failed");
            assert!(failed.is_some(), "{fails}: {findings:?}");
            origin.stop();
        });
    }
}

/// Returns the number of packets that the interface has received.
fn packets_received() -> u64 {
    let output = Command::new("ip")
        .args(["-json", "-stats", "link", "show", "near"])
        .output();
    let output = output.expect("ip of iproute2 (cargo xtask test installs it)");
    let links: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    links[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
}

#[test]
fn streams_of_events_are_read() {
    on_link(1, |far| {
        let workdir = Workdir::new();
        let origin = origin(far, &workdir);
        for version in ["1.1", "2"] {
            let url = origin.url("/events/5?every=2ms&end=done");
            let words = [
                "--http",
                version,
                "--events",
                "sse",
                "--end-marker",
                "[DONE]",
                "-c",
                "4",
                "-n",
                "20",
                "--json",
                "-",
                &url,
            ];
            let output = load(&workdir, &words).expect(0);
            let record: prony_record::Record = serde_json::from_str(&output.out).unwrap();
            let events = record.events.unwrap();
            assert_eq!(
                (events.events, events.events_per_response),
                (100, Some(5.0))
            );
            assert_eq!(record.load.io, "xdp");
        }
    });
}

#[test]
fn journeys_take_their_steps() {
    on_link(1, |far| {
        let workdir = Workdir::new();
        let origin = origin(far, &workdir);
        workdir.write(
            "journey.toml",
            "[[step]]\nname = \"log in\"\nurl = \"/echo\"\nbody = '{\"token\": \"t 1\"}'\n\
             capture.token = { json = \"/token\" }\n\
             [[step]]\nname = \"order\"\nurl = \"/echo\"\nform = { token = \"{{ token }}\" }\n\
             expect_body = \"token=t%201\"\nthink = \"2ms\"\n",
        );
        for version in ["1.1", "2"] {
            let url = origin.url("/");
            let words = [
                "--http",
                version,
                "--steps",
                "journey.toml",
                "-c",
                "4",
                "-n",
                "30",
                "--json",
                "-",
                &url,
            ];
            let output = load(&workdir, &words).expect(0);
            let record: prony_record::Record = serde_json::from_str(&output.out).unwrap();
            let journeys = record.journeys.unwrap();
            assert_eq!((journeys.completed, journeys.failed), (30, 0), "{version}");
            assert_eq!((record.totals.ok, record.load.io.as_str()), (60, "xdp"));
        }
    });
}
