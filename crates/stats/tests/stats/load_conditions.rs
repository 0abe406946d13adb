//! Errors in conditions on single loads.

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
