//! Tests of the decision whether a plan is interleaved, with one test for each reason against
//! interleaving.

use std::time::Duration;

use prony_plan::Interleave;
use prony_stats::TrialMode;

use super::test_plans::{PLAN, read};
use super::{decide, demands};

/// Returns the reason why a plan is not interleaved.
fn reason(text: &str, requested: Interleave) -> String {
    match decide(&read(text), requested) {
        TrialMode::Sequential { reason } => reason,
        sliced => panic!("{sliced}"),
    }
}

/// Returns the test plan with `old` replaced by `new`.
fn changed(old: &str, new: &str) -> String {
    assert!(PLAN.contains(old), "{old}");
    PLAN.replace(old, new)
}

#[test]
fn variants_that_can_coexist_are_interleaved() {
    let plan = read(PLAN);
    let mode = |requested| decide(&plan, requested);
    assert_eq!(mode(Interleave::Auto), TrialMode::Sliced { length: None });
    let length = Duration::from_millis(100);
    let sliced = TrialMode::Sliced {
        length: Some(length),
    };
    assert_eq!(mode(Interleave::Slices(length)), sliced);
    for other in [
        changed(
            "command = [\"server\", \"--bind\", \"{{ web.address }}\"]",
            "remote = \"127.0.0.1:808{{ kind.n }}\"",
        ),
        changed("[load]", "pid_file = \"/run/{{ kind.name }}.pid\"\n[load]"),
        changed("[load]", "place = \"namespace\"\n[load]"),
        changed("connections = 4", "rate = 1000"),
        // Every variant has a different port.
        changed("{{ web.address }}", "127.0.0.1:808{{ kind.n }}"),
        changed(
            "[load]",
            "[service.db]\ncommand = [\"db\", \"-l\", \"4\"]\n[load]",
        ),
        changed(
            "[load]",
            "files = { \"a.conf\" = { text = \"listen {{ web.address }};\" } }\n[load]",
        ),
    ] {
        let mode = decide(&read(&other), Interleave::Auto);
        assert!(mode.is_interleaved(), "{other}\n{mode}");
    }
}

#[test]
fn the_reason_names_what_prevents_interleaving() {
    let place = "place = \"front\"\n[place.front]\n[place.back]\n[link.l]\n\
                 between = [\"front\", \"back\"]\n[load]\nplace = \"back\"";
    let settings = place.replace(
        "[place.front]",
        "[place.front]\nsysctl = { \"net.core.somaxconn\" = 64 }",
    );
    for (old, new, expected) in [
        (
            "connections = 4",
            "requests = 100",
            "the load ends after a fixed number of requests",
        ),
        ("connections = 4", "agents = 2", "agents send the load"),
        (
            "[load]",
            "cpu = 0.5\n[load]",
            "service \"web\" has a CPU limit, whose periods slices would cut",
        ),
        (
            "[load]",
            place,
            "the plan has named places, such as \"front\"",
        ),
        ("[load]", &settings, "variant \"one\" sets kernel settings"),
        (
            "[load]",
            "host = \"role=server\"\n[load]",
            "service \"web\" runs on host \"role=server\"",
        ),
        (
            "command = [\"server\", \"--bind\", \"{{ web.address }}\"]",
            "remote = \"127.0.0.1:80\"\n[telemetry]\nremote = \"user@server\"",
            "telemetry from \"user@server\" is read over ssh",
        ),
        (
            "[load]",
            "cgroup = \"system.slice/web.service\"\n[load]",
            "in several variants, service \"web\" refers to the same processes (cgroup or \
                pid_file)",
        ),
        (
            "{{ web.address }}",
            "0.0.0.0:8080",
            "service \"web\" listens on port 8080 in several variants (write {{ web.address }} \
            instead)",
        ),
        (
            "[load]",
            "env = { PORT = \"3000\" }\n[load]",
            "service \"web\" listens on port 3000 in several variants (write {{ web.address }} \
            instead)",
        ),
        (
            "[load]",
            "files = { \"a.conf\" = { text = \"listen unix:/run/a.sock;\" } }\n[load]",
            "service \"web\" listens on socket /run/a.sock in several variants (write {{ \
            web.address }} instead)",
        ),
        (
            "warmup = \"1s\"",
            "warmup = \"0s\"",
            "the load has no warm-up",
        ),
        (
            "connections = 4",
            "rate = 100",
            "p99 needs 1,000 requests from variant \"one\" in each block; at its rate, they take \
                10 s, but the duration is 5 s",
        ),
        (
            "duration = \"5s\"",
            "duration = \"900ms\"",
            "4 rounds with slices of 250 ms need a duration of 1 s, but the duration is 900 ms",
        ),
    ] {
        assert_eq!(
            reason(&changed(old, new), Interleave::Auto),
            expected,
            "{new}"
        );
    }
}

#[test]
fn a_reason_that_applies_to_one_variant_names_it() {
    let differing = PLAN.replace("duration = \"5s\"\n", "");
    let differing = differing.replace("connections = 4", "duration = \"{{ kind.n }}s\"");
    let expected = "the duration of variant \"two\" differs from that of variant \"one\"";
    assert_eq!(reason(&differing, Interleave::Auto), expected);
    let warmups = PLAN.replace("warmup = \"1s\"\n", "");
    let warmups = warmups.replace("connections = 4", "warmup = \"{{ kind.n - 1 }}s\"");
    let expected = "the load of variant \"one\" has no warm-up";
    assert_eq!(reason(&warmups, Interleave::Auto), expected);
}

#[test]
fn a_requested_length_needs_no_warmup_but_enough_rounds() {
    let cold = changed("warmup = \"1s\"", "warmup = \"0s\"");
    let slices = |ms| Interleave::Slices(Duration::from_millis(ms));
    assert!(decide(&read(&cold), slices(250)).is_interleaved());
    let expected = "4 rounds with slices of 2 s need a duration of 8 s, but the duration is 5 s";
    assert_eq!(reason(&cold, slices(2_000)), expected);
}

#[test]
fn off_is_the_only_reason_given() {
    assert_eq!(reason(PLAN, Interleave::Off), "interleave is \"off\"");
}

#[test]
fn demands_are_those_of_each_variant() {
    let plan = read(&changed("\"--bind\"", "\"-Xmx2g\", \"--bind\""));
    let all = demands(&plan).unwrap();
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|it| it.memory_bytes == 2 << 30));
    assert!(all.iter().all(|it| (it.connections, it.threads) == (4, 2)));
    assert_ne!(all[0].destination, all[1].destination);
    let remote = changed(
        "command = [\"server\", \"--bind\", \"{{ web.address }}\"]",
        "remote = \"127.0.0.1:80\"",
    );
    let all = demands(&read(&remote)).unwrap();
    assert_eq!(all[0].destination.as_deref(), Some("127.0.0.1:80"));
    assert_eq!(all[0].destination, all[1].destination);
}
