//! Conditions on single loads: their errors, and conditions on the events of streams.

use prony_record::{Distribution, EventResults, Nanos, Record};
use prony_stats::capacity::Goal;
use prony_stats::gate::LoadCondition;

#[test]
fn invalid_conditions_are_rejected_with_a_hint() {
    for (input, error_part) in [
        ("", "expected a metric, a comparison operator"),
        ("p99", "expected a comparison operator"),
        ("p99=50ms", "expected a comparison operator"),
        (">50ms", "expected a metric, a comparison operator"),
        ("p99>", "expected a limit"),
        ("p99>50", "is not a time with a unit"),
        ("p99>50%", "is not a time with a unit"),
        ("p99>-5ms", "is not a time"),
        ("p99>NaNms", "is not a time"),
        ("p99>>5ms", "is not a time"),
        (
            "p101>5ms",
            "there is no metric \"p101\"; the metrics are p50",
        ),
        ("p>5ms", "there is no metric"),
        ("p-1>5ms", "there is no metric"),
        ("p1e1>5ms", "there is no metric"),
        ("p99>5 minutes", "is not a time"),
        ("latency>5ms", "there is no metric \"latency\""),
        ("serve.p99>5ms", "there is no metric"),
        ("connect.p95>5ms", "\"connect.p95\" is not recorded"),
        ("failed>some", "neither a count nor a percentage"),
        ("failed>1ms", "neither a count nor a percentage"),
        ("rate>10%", "is not a rate"),
        ("busy>1", "is not a percentage"),
        ("é>1", "there is no metric"),
        ("cpu>5ms", "\"cpu\" is measured only in experiments"),
        ("p99>baseline", "is not a time"),
        ("p99 of new>5ms", "a load has no variants"),
        ("verdict is slower", "a single load has no verdict"),
    ] {
        let error = LoadCondition::parse(input).unwrap_err().to_string();
        assert!(error.contains(error_part), "{input}: {error}");
        assert!(error.ends_with('^'), "{error}");
    }
}

/// A record of streams whose first events took 1 ms, of which 10 of 100 failed, and whose gaps were
/// 20 ms.
fn record_of_streams() -> Record {
    let (mut first, mut gaps) = (Distribution::new(), Distribution::new());
    (0..90).for_each(|_| first.record(Nanos::from_millis(1)));
    (0..900).for_each(|_| gaps.record(Nanos::from_millis(20)));
    let mut record = Record {
        events: Some(EventResults {
            events: 990,
            events_per_s: 99.0,
            failed: 10,
            first_event_us: first.summary(),
            event_gap_us: gaps.summary(),
            ..EventResults::default()
        }),
        ..Record::default()
    };
    record.keep_distribution("first_event", &first);
    record.keep_distribution("event_gap", &gaps);
    record
}

#[test]
fn conditions_on_events_count_failed_streams_as_beyond_every_limit() {
    let record = record_of_streams();
    for (text, shown, holds) in [
        ("first_event.p50<2ms", "first_event.p50<2ms", true),
        ("first_event p50 < 2ms", "first_event.p50<2ms", true),
        ("first_event p(50)<2ms", "first_event.p(50)<2ms", true),
        ("first_event.p85<2ms", "first_event.p85<2ms", true),
        ("first_event.p95<10s", "first_event.p95<10s", false),
        ("first_event_p99_us<10s", "first_event_p99_us<10s", false),
        ("event_gap p99<21ms", "event_gap.p99<21ms", true),
        ("event_gap.max<19ms", "event_gap.max<19ms", false),
        ("events_per_s>=99", "events_per_s>=99", true),
    ] {
        let condition = LoadCondition::require(text).unwrap();
        assert_eq!(condition.to_string(), shown);
        let reading = condition.read(&record).unwrap();
        assert_eq!(!reading.holds, holds, "{text}: {reading:?}");
    }
    let other = LoadCondition::parse("first_event.p99>1s").unwrap();
    assert_eq!(other.read(&Record::default()), None);
    assert!(LoadCondition::parse("first_event>1s").is_err());
    assert!(LoadCondition::parse("first_event of x>1s").is_err());
}

#[test]
fn times_of_events_can_be_goals() {
    let goal = Goal::parse("first_event p85<2ms").unwrap();
    let reading = goal.read(&record_of_streams()).unwrap();
    assert!(reading.met, "{reading:?}");
    assert_eq!((reading.excess * 15.0).round(), 10.0);
    let goal = Goal::parse("first_event p95<2ms").unwrap();
    assert!(!goal.read(&record_of_streams()).unwrap().met);
    assert!(Goal::parse("events_per_s>5").is_err());
}
