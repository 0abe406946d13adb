//! Sentences about gates.

use prony_stats::gate::{
    GateBasis, GateJudgement, GateNumbers, GateOutcome, GateScale, Observable, TrialUnit,
};
use prony_stats::{Interval, WithheldBecause};

fn said(measure: &str, basis: GateBasis, numbers: Option<GateNumbers>) -> String {
    let judged = GateJudgement {
        gate: String::new(),
        name: "new".to_owned(),
        measure: measure.to_owned(),
        ruling: GateOutcome::Unclear,
        basis,
        numbers,
    };
    prony_wording::gate_results(vec![judged]).remove(0).text
}

#[test]
fn a_gate_without_a_value_says_why() {
    let (unit, trials) = (TrialUnit::Block, vec![3]);
    let stated = WithheldBecause::Stated("the generator was at its limit".to_owned());
    for (basis, text) in [
        (
            GateBasis::NoReference,
            "the other run has no matching variant",
        ),
        (
            GateBasis::Withheld(stated),
            "withheld: the generator was at its limit",
        ),
        (GateBasis::NoRequests, "no request completed"),
        (
            GateBasis::NotMeasured { unit, trials },
            "not measured in block 3",
        ),
        (
            GateBasis::NotMeasured {
                unit,
                trials: Vec::new(),
            },
            "not measured",
        ),
        (
            GateBasis::BeyondEveryLimit {
                variant: "new".to_owned(),
                unit,
                count: 4,
                all: 5,
            },
            "beyond every limit in 4 of 5 blocks, because too many requests failed",
        ),
    ] {
        assert_eq!(said("p99", basis, None), format!("p99 of new: {text}"));
    }
}

#[test]
fn a_gate_on_a_count_names_both_numbers() {
    let basis = |is_share, limit| GateBasis::Counted {
        count: 40,
        whole: 10_000,
        is_share,
        limit,
    };
    assert_eq!(
        said("failed", basis(true, 0.001), None),
        "failed of new is 0.40% (40 of 10,000 requests); the limit is 0.1%"
    );
    assert_eq!(
        said("failed", basis(false, 10.0), None),
        "failed of new is 40; the limit is 10"
    );
}

#[test]
fn a_gate_on_a_value_gives_its_interval_and_the_limit() {
    let observable = Observable::parse("p99").unwrap();
    let numbers = |value, low, high, limit, scale| GateNumbers {
        scale,
        value,
        interval: Some(Interval { low, high }),
        limit,
    };
    let basis = GateBasis::Value {
        observable: observable.clone(),
        trials: 8,
        unit: TrialUnit::Block,
    };
    let value = numbers(61_300.0, 58_000.0, 64_800.0, 50_000.0, GateScale::Value);
    assert_eq!(
        said("p99", basis, Some(value)),
        "p99 of new is 61.3 ms (95% interval 58.0 ms to 64.8 ms, 8 blocks); the limit is 50 ms"
    );
    let relative = |factor| GateBasis::Relative {
        observable: observable.clone(),
        against: "old".to_owned(),
        factor,
        trials: 8,
        unit: TrialUnit::Block,
    };
    let ratio = numbers(1.081, 1.062, 1.101, 1.05, GateScale::Ratio);
    assert_eq!(
        said("p99", relative(1.05), Some(ratio)),
        "p99 of new is +8.1% against old (95% interval +6.2% to +10.1%, 8 blocks); the limit is +5%"
    );
    let difference = numbers(1_000.0, 500.0, 1_500.0, 2_000.0, GateScale::Difference);
    assert_eq!(
        said("p99", relative(2.0), Some(difference)),
        "p99 of new is +1.00 ms against 2 times old (95% interval +500 µs to +1.50 ms, 8 blocks); \
         the limit is +2.00 ms"
    );
}
