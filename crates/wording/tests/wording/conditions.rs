//! Conditions on single loads, checked against records.

use prony_record::{Distribution, Finding, FindingId, Nanos, Outcome, Record, Severity};
use prony_stats::gate::LoadCondition;
use prony_wording::conditions::failure;

/// Returns a record of 10,000 requests that took 1 to 100 ms. Of these, 10 timed out and 40 were
/// reset.
fn record() -> Record {
    let mut times = Distribution::new();
    for step in 0..9_950u64 {
        times.record(Nanos(1_000_000 + step * 99_000_000 / 9_950));
    }
    let mut record = Record {
        response_time_us: times.summary(),
        ..Record::default()
    };
    record.histograms = [("response_time".to_owned(), times.encode().unwrap())].into();
    record.service_time_us.p99 = 3_000.0;
    record.service_time_us.max = 4_000.0;
    record.totals.started = 10_002;
    record.totals.ok = 9_950;
    record.totals.failed = 50;
    record.totals.unfinished = 2;
    record.totals.unstarted = 498;
    record.totals.retried = 5;
    record.outcomes = [
        (Outcome::Ok, 9_950),
        (Outcome::Reset, 40),
        (Outcome::Timeout, 10),
    ]
    .into();
    record.rate.ok_per_s = 995.0;
    record.generator.busy_share = 0.42;
    record
}

#[test]
fn holding_conditions_name_the_measured_value() {
    for (input, said) in [
        ("p99>50ms", "p99 is 99"),
        ("p99 >= 50ms", "p99 is 99"),
        ("p(99)>50ms", "p(99) is 99"),
        ("service.p(99)>2500us", "service.p(99) is 3.00 ms"),
        ("p50>1ms", "p50 is 50."),
        ("p95>94.9ms", "p95 is 95"),
        // 40 of the requests have no time, and are beyond every limit.
        (
            "p99.9>200ms",
            "p99.9 is beyond every limit (40 of 10,000 requests failed; 99.9 ms among the \
             successful responses)",
        ),
        ("p99_9>99ms", "p99_9 is beyond every limit"),
        (
            "p99>99.3ms",
            "p99 is 99.4 ms (40 of 10,000 requests failed; 99.0 ms among",
        ),
        ("response.p99>50ms", "response.p99 is 99"),
        ("max>0.05s", "max is 100 ms"),
        ("min<2ms", "min is 1.00 ms"),
        ("mean<=51ms", "mean is 50."),
        ("service.p99>2500us", "service.p99 is 3.00 ms"),
        ("failed>0.1%", "failed is 0.50% (50 of 10,000)"),
        ("failed>=50", "failed is 50"),
        ("failed>10", "failed is 50"),
        ("timeout>9", "timeout is 10"),
        ("reset>0.3%", "reset is 0.40% (40 of 10,000)"),
        ("ok<99.9%", "ok is 99.50% (9,950 of 10,000)"),
        ("unstarted>0", "unstarted is 498"),
        ("unstarted>4%", "unstarted is 4.7% (498 of 10,500)"),
        ("unfinished<=2", "unfinished is 2"),
        ("retried>4", "retried is 5"),
        ("started>10000", "started is 10,002"),
        ("rate<1000", "rate is 995 req/s"),
        ("rate<1k", "rate is 995 req/s"),
        ("busy>40%", "busy is 42%"),
    ] {
        let condition = LoadCondition::parse(input).unwrap();
        let held = failure(&condition, &record()).unwrap_or_else(|| panic!("{input}"));
        assert!(held.starts_with(said), "{input}: {held}");
    }
}

#[test]
fn other_conditions_give_no_reason() {
    for input in [
        "p99>100ms",
        "p95>96ms",
        "max>2s",
        "failed>50",
        "failed>0.5%",
        "tls>0",
        "dns>0%",
        "rate<995",
        "rate>20k",
        "unfinished<2",
        "retried>1%",
        "busy>=43%",
        "tls.p99>1us",
    ] {
        let condition = LoadCondition::parse(input).unwrap();
        assert_eq!(failure(&condition, &record()), None, "{input}");
        assert_eq!(condition.to_string(), input);
    }
}

#[test]
fn unmeasured_times_and_shares_do_not_hold() {
    let nothing = Record::default();
    for input in ["p99<1s", "p95<1s", "max>=0s", "failed>=0%", "ok<100%"] {
        assert_eq!(
            failure(&LoadCondition::parse(input).unwrap(), &nothing),
            None,
            "{input}"
        );
    }
    assert!(failure(&LoadCondition::parse("rate<1").unwrap(), &nothing).is_some());
    assert!(failure(&LoadCondition::parse("ok<1").unwrap(), &nothing).is_some());
}

#[test]
fn metrics_of_experiments_that_a_record_contains_are_accepted() {
    for (input, expected) in [
        ("rate_per_s<1000", "rate_per_s is 995 req/s"),
        ("p99_us>50ms", "p99_us is 99"),
        ("failed_share>0.1%", "failed_share is 0.50%"),
    ] {
        let condition = LoadCondition::parse(input).unwrap();
        let text = failure(&condition, &record()).unwrap();
        assert!(text.starts_with(expected), "{text}");
    }
    let condition = LoadCondition::parse("rate_per_s<1000").unwrap();
    assert_eq!(condition.read(&Record::default()), None);
}

#[test]
fn a_requirement_fails_if_it_does_not_hold() {
    let failed =
        |input: &str, record: &Record| failure(&LoadCondition::require(input).unwrap(), record);
    assert!(
        failed("p99<50ms", &record())
            .unwrap()
            .starts_with("p99 is 99")
    );
    assert_eq!(failed("p99<=100ms", &record()), None);
    assert_eq!(failed("rate>=995", &record()), None);
    assert_eq!(failed("rate>995", &record()).unwrap(), "rate is 995 req/s");
    assert_eq!(
        failed("p(99)<50ms", &Record::default()).unwrap(),
        "p(99) was not measured"
    );
    let required = LoadCondition::require("p99 < 50ms").unwrap();
    assert_eq!(
        (required.option(), required.to_string().as_str()),
        ("--require", "p99<50ms")
    );
}

#[test]
fn ids_of_incomplete_loads_are_conditions() {
    let mut record = Record::default();
    for id in [FindingId::Partial, FindingId::AgentLost] {
        let name = id.as_str();
        let named = LoadCondition::parse(name).unwrap();
        assert_eq!(named.to_string(), name);
        assert_eq!(failure(&named, &record), None);
        let finding = Finding::stored(id, Severity::Error, "Half of it.");
        record.findings.push(finding);
        assert_eq!(failure(&named, &record), Some(format!("{name} is 1")));
        let counted = LoadCondition::parse(&format!("{name} > 0")).unwrap();
        assert!(failure(&counted, &record).is_some());
    }
    // An arbitrary name is not a finding.
    assert!(LoadCondition::parse("errors").is_err());
}

#[test]
fn conditions_that_end_a_load_are_about_what_is_known_while_it_runs() {
    let condition = LoadCondition::abort("p99 > 50ms").unwrap();
    assert_eq!(condition.option(), "--abort-if");
    assert!(
        failure(&condition, &record())
            .unwrap()
            .starts_with("p99 is 99")
    );
    // No request has finished yet, so there is no percentile.
    assert_eq!(failure(&condition, &Record::default()), None);
    for input in [
        "failed>0.1%",
        "timeout>5",
        "rate<1000",
        "late.p99>1ms",
        "retried>1",
    ] {
        assert!(LoadCondition::abort(input).is_ok(), "{input}");
    }
    for input in [
        "busy>90%",
        "unstarted>1",
        "unfinished>1%",
        "partial",
        "agent-lost>0",
    ] {
        let error = LoadCondition::abort(input).unwrap_err().to_string();
        let expected = "is known only after the load has ended";
        assert!(error.contains(expected), "{input}: {error}");
    }
}
