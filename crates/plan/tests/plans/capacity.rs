//! Tests of capacity searches in plans.

use std::time::Duration;

use prony_load::Arrivals;
use prony_stats::Metric;

use super::{GOOD, Study};
use prony_plan::{CapacityLoad, LoadModel};

/// Returns [`GOOD`] with a different load and without the durations of its trials. The given lines
/// replace the load's model and connections.
fn plan(load: &str) -> String {
    let plan = GOOD.replace("model       = \"closed\"\nconnections = 10\n", load);
    plan.replace("warmup   = \"3s\"\nduration = \"30s\"\n", "")
}

fn searches(load: &str) -> Vec<CapacityLoad> {
    let study = Study::new();
    let read = study.read(&plan(load)).unwrap();
    let variants = read.with_placeholders().unwrap();
    let searches = variants
        .into_iter()
        .map(|variant| match variant.load.model {
            LoadModel::Capacity(capacity) => capacity,
            other => panic!("{other:?}"),
        });
    searches.collect()
}

#[test]
fn goals_and_limits_are_read() {
    let text = "model = \"capacity\"\ngoal = [\"p99 < 50ms\", \"failed < 0.1%\"]\nmax_rate = \"20k\"\n\
                probe = \"5s\"\narrivals = \"constant\"\n";
    let read = searches(text);
    let goals: Vec<String> = read[0]
        .goals
        .goals
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(goals, ["p99<50ms", "failed<0.1%"]);
    assert_eq!(read[0].goals.rate_max, Some(20_000.0));
    assert_eq!(read[0].goals.probe, Some(Duration::from_secs(5)));
    assert_eq!(read[0].arrivals, Arrivals::Constant);
    let one = searches("model = \"capacity\"\ngoal = \"p90<1s\"\nsearch_time = \"4m\"\n");
    assert_eq!(one[0].goals.goals.len(), 1);
    assert_eq!(one[0].goals.search_time, Some(Duration::from_secs(240)));
    assert_eq!(
        one[0].arrivals,
        Arrivals::Poisson,
        "the default of searches"
    );
}

#[test]
fn the_capacity_is_judged() {
    let text = plan("model = \"capacity\"\ngoal = \"p99 < 50ms\"\n");
    let study = Study::new();
    let plan = study.read(&text).unwrap();
    assert_eq!(plan.metrics, [Metric::CapacityPerS]);
    assert_eq!(plan.goals, ["p99<50ms"]);
}

#[test]
fn contradictions_are_refused_with_their_lines() {
    const CAPACITY: &str = "model = \"capacity\"\ngoal = \"p99 < 50ms\"\n";
    let with = |more: &str| plan(&format!("{CAPACITY}{more}\n"));
    for (text, message) in [
        (
            with("rate = 500"),
            "a capacity search chooses its loads, so it has no rate (remove the key; `max_rate` limits the \
             rates)",
        ),
        (
            with("duration = \"5s\""),
            "a capacity search chooses its loads, so it has no duration (remove the key; the key `probe` sets the \
             length of each probe)",
        ),
        (
            with("requests = 100"),
            "a capacity search chooses its loads, so it has no requests (remove the key; the key `probe` sets the \
             length of each probe)",
        ),
        (
            with("abort_if = \"failed>1%\""),
            "a capacity search chooses its loads, so it has no abort_if (remove the key; goal decides when \
             a probe ends early)",
        ),
        (
            with("search_time = \"1m\"\nprobe = \"1s\""),
            "search_time and probe both set the length of the probes (remove one)",
        ),
        (
            with("agents = 2").replace("cores       = \"1\"", ""),
            "a capacity search runs on this machine, so agents can't generate its load (remove agents)",
        ),
        (
            with("").replace("blocks   =", "warmup = \"1s\"\nblocks   ="),
            "a capacity search chooses its loads, so [trials] has no warmup (remove the key; `probe` \
             in [load] sets the length of each probe)",
        ),
        (
            plan("model = \"capacity\"\n"),
            "a capacity search needs a goal (such as goal = \"p99 < 50ms\")",
        ),
        (
            plan("model = \"capacity\"\ngoal = []\n"),
            "goal of [load] is empty; a capacity search needs at least one (such as goal = \"p99 < \
             50ms\")",
        ),
        (
            plan("model = \"capacity\"\ngoal = \"rate<9\"\n"),
            "a goal can't be about a rate",
        ),
        (
            plan("model = \"capacity\"\ngoal = \"p99.9<9ms\"\nprobe = \"1s\"\nmax_rate = 100\n"),
            "a probe needs 10,000 requests to judge the goals",
        ),
        (
            plan("goal = \"p99 < 50ms\"\n"),
            "goal of [load] is valid only for a capacity search (add model = \"capacity\", or remove the key)",
        ),
        (
            with("").replace("margin   =", "metrics = \"p99\"\nmargin   ="),
            "a capacity search doesn't measure p99_us (its only metric is capacity)",
        ),
        (
            GOOD.replace("margin   =", "metrics = \"capacity\"\nmargin   ="),
            "only a capacity search measures capacity_per_s (set model = \"capacity\" and a goal in \
             [load])",
        ),
        (
            plan(
                "model = \"capacity\"\ngoal = \"{{ 'p99<50ms' if socket == 'tcp' else 'p99<9ms' }}\"\n",
            ),
            "the variants have different goals, so their capacities can't be compared (give all \
             variants the same model and goal)",
        ),
    ] {
        let found = Study::new().diagnostics(&text);
        let is_it = |line: &String| line.starts_with("plan.toml:") && line.contains(message);
        assert!(found.iter().any(is_it), "{message}: {found:#?}");
    }
}
