//! Streamed responses in every output of a load, by agents, and as the goal of a capacity search.

use prony_record::Record;

use crate::fleet_loads::FleetSetup;
use crate::running::{Origin, Workdir, check_schema};

/// Five events that end with a marker, the first after 20 ms.
const PATH: &str = "/events/5?every=2ms&after=20ms&end=done";
const SSE: [&str; 4] = ["--events", "sse", "--end-marker", "[DONE]"];

/// Checks the events of 20 streams with five events each.
#[track_caller]
fn check_events(record: &Record) {
    record.totals.check().unwrap();
    let events = record.events.as_ref().unwrap();
    assert_eq!(
        (events.events, events.events_per_response, record.totals.ok),
        (100, Some(5.0), 20)
    );
    assert!(events.first_event_us.min >= 19_980.0, "{events:?}");
    let series = record.series.iter().map(|it| it.events.unwrap());
    assert_eq!(series.clone().map(|it| it.events).sum::<u64>(), 100);
    let p99 = series.map(|it| it.first_event_p99_us).fold(0.0, f64::max);
    // The series has coarser buckets.
    assert!(p99 >= 0.98 * events.first_event_us.p99, "{p99} {events:?}");
}

#[test]
fn every_output_of_a_load_contains_its_events() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url(PATH);
    let outputs = ["--json", "r.json", "--csv", "r.csv", "--html", "r.html"];
    let words = [
        &["load", "-c", "4", "-n", "20"],
        &SSE[..],
        &outputs,
        &[&url],
    ]
    .concat();
    workdir.run(&words).expect(0);
    check_schema("prony.record-1.schema.json", &workdir.json("r.json"));
    check_events(&Record::from_json(&workdir.read("r.json")).unwrap());
    let csv = workdir.read("r.csv");
    let head = csv.lines().next().unwrap();
    let column = head.split(',').position(|name| name == "events").unwrap();
    let counts = csv.lines().skip(1).map(|row| row.split(',').nth(column));
    let sum: u64 = counts
        .map(|count| count.unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(sum, 100);
    let metrics = workdir.run(&["report", "r.json", "--openmetrics", "-"]);
    let metrics = metrics.expect(0).out;
    for line in [
        "prony_events_total 100",
        "prony_first_event_seconds_count 20",
        "prony_event_gap_seconds_count 80",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
    let page = workdir.read("r.html");
    for title in [
        "Events over time",
        "Times to the first event over time",
        "Gaps between events over time",
    ] {
        assert!(page.contains(title), "{title}");
    }
}

#[test]
fn agents_read_streams() {
    let ground = FleetSetup::new(2);
    let url = ground.origin.url(PATH);
    let load = ["load", "--agents", "2", "-c", "4", "-n", "20"];
    let words = [&load, &SSE[..], &["--json", "r.json", &url]].concat();
    let words = ground.words(&words);
    ground.workdir.run(&words).expect(0);
    let record = Record::from_json(&ground.workdir.read("r.json")).unwrap();
    check_events(&record);
    assert_eq!(record.fleet.unwrap().agents.len(), 2);
    ground.end();
}

#[test]
fn the_time_to_the_first_event_is_a_goal_of_capacity_searches() {
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let url = origin.url(PATH);
    let run = |goal: &str, status| {
        let search = ["capacity", "--goal", goal, "--max-rate", "100"];
        let more = ["--probe", "2s", "--json", "c.json", &url];
        let words = [&search, &SSE[..], &more].concat();
        let printed = workdir.run(&words).expect(status);
        let document = workdir.json("c.json");
        check_schema("prony.capacity-1.schema.json", &document);
        printed.out
    };
    // The first event comes 20 ms after the request at every rate.
    let met = run("first_event p95<10s", 0);
    assert!(
        met.contains("Capacity at first_event.p95 < 10 s: ≥ 100 req/s."),
        "{met}"
    );
    let unmet = run("first_event p95<19ms", 1);
    assert!(unmet.contains("not met even at"), "{unmet}");
    assert!(unmet.contains("first_event.p95 is "), "{unmet}");
}
