//! The live view and the metrics of loads on agents.

use std::time::{Duration, Instant};

use prony_record::Record;

use crate::fleet_loads::FleetSetup;
use crate::metrics::answer;
use crate::running::{Running, TEST_TIMEOUT};
use crate::terminals::{TerminalStreams, TerminalUser, after_the_view};

#[test]
fn a_load_of_agents_has_a_view_and_a_key_ends_it_with_its_results() {
    let ground = FleetSetup::new(2);
    let url = ground.origin.url("/");
    let words = [
        "load", "--agents", "2", "-c", "4", "-r", "100", "-d", "60s", &url,
    ];
    let mut typist = TerminalUser::start(
        &ground.workdir,
        &ground.words(&words),
        TerminalStreams::All,
        &[],
    );
    // A rate appears only after agents have reported results. A redraw omits letters that don't
    // change, so other words may be incomplete.
    typist.wait_until("figures of agents", |seen| seen.contains(" req/s ok"));
    typist.press("q");
    let (status, seen) = typist.end();
    let after = after_the_view(&seen);
    assert_eq!(status, Some(130), "{seen:?}");
    assert!(after.contains("prony: interrupted"), "{seen:?}");
    assert!(
        after.contains(" ok") && after.contains("agent-2"),
        "{seen:?}"
    );
    assert!(
        !after.contains("agents loading"),
        "the live view was shown: {seen:?}"
    );
    // With `--progress lines` there is no view, and with `none` there are no lines either.
    let words = [
        "load",
        "--agents",
        "2",
        "-c",
        "4",
        "-r",
        "100",
        "-d",
        "1s",
        "--progress",
        "lines",
        &url,
    ];
    let typist = TerminalUser::start(
        &ground.workdir,
        &ground.words(&words),
        TerminalStreams::All,
        &[],
    );
    let (status, seen) = typist.end();
    assert_eq!(status, Some(0), "{seen:?}");
    assert!(
        seen.contains("started; clock errors") && !seen.contains("[?1049h"),
        "{seen:?}"
    );
    ground.end();
}

/// Returns the value of the sample that starts with `name`.
fn sample(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name))?;
    value.trim().parse().ok()
}

#[test]
fn metrics_of_a_load_by_agents_are_served_while_it_runs() {
    let ground = FleetSetup::new(2);
    let url = ground.origin.url("/");
    let words = [
        "load",
        "--agents",
        "2",
        "-c",
        "4",
        "-r",
        "200",
        "-d",
        "4s",
        "--metrics",
        "0",
        "--json",
        "r.json",
        &url,
    ];
    let mut load = Running::start(ground.workdir.command(&ground.words(&words)));
    let line = load.wait_for("prony: metrics at http://");
    let (_, at) = line.trim().split_once("http://").unwrap();
    let address = at.strip_suffix("/metrics").unwrap();
    let began = Instant::now();
    let ok = |text: &str| sample(text, "prony_requests_total{outcome=\"ok\"}");
    let text = loop {
        let text = answer(address, "GET /metrics");
        assert!(text.ends_with("# EOF\n"), "{text}");
        if ok(&text).is_some_and(|ok| ok > 0) {
            break text;
        }
        assert!(began.elapsed() < TEST_TIMEOUT, "no numbers: {text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(
        sample(&text, "prony_response_time_seconds_count"),
        ok(&text)
    );
    assert!(text.contains("connections=\"4\""), "{text}");
    assert_eq!(sample(&text, "prony_generator_cpu_seconds_total"), None);
    load.end().expect(0);
    let record = Record::from_json(&ground.workdir.read("r.json")).unwrap();
    // On a busy machine, the last responses may arrive after the end.
    let totals = &record.totals;
    assert_eq!(totals.ok + totals.unfinished + totals.unstarted, 800);
    assert!(ok(&text) <= Some(800));
    ground.end();
}
