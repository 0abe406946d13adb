//! Sentences about the comparison of two runs.

use prony_stats::runs::{
    RUNS_SCHEMA, RelativeChange, RunComparison, RunInfo, RunWithheld, RunsDocument,
};
use prony_stats::{Effect, Levels, Metric, Verdict, WithheldBecause};

fn info(label: &str, count: u32) -> RunInfo {
    RunInfo {
        label: label.to_owned(),
        source: String::new(),
        name: String::new(),
        started_at: String::new(),
        unit: "block".to_owned(),
        count,
    }
}

fn effect() -> Effect {
    Effect {
        ratio: Some(0.9),
        difference: None,
        low: Some(0.89),
        high: Some(0.91),
    }
}

fn between(verdict: Option<Verdict>, withheld: Option<RunWithheld>) -> RunComparison {
    RunComparison {
        levels: Levels::new(),
        name: "tcp".to_owned(),
        metric: Metric::RatePerS,
        effect: effect(),
        old: Some(1000.0),
        new: Some(900.0),
        old_trials: 8,
        new_trials: 6,
        verdict,
        regression: None,
        withheld,
        text: String::new(),
    }
}

fn composed(comparisons: Vec<RunComparison>) -> RunsDocument {
    let mut document = RunsDocument {
        schema: RUNS_SCHEMA.to_owned(),
        old: info("A", 8),
        new: info("B", 6),
        margin: 0.02,
        differences: Vec::new(),
        unrecorded: Vec::new(),
        comparisons,
        described: vec![between(None, None)],
        relative: vec![RelativeChange {
            levels: Levels::new(),
            against: Levels::new(),
            name: "tcp".to_owned(),
            against_name: "unix".to_owned(),
            metric: Metric::RatePerS,
            old: 0.97,
            new: 0.95,
            effect: effect(),
            text: String::new(),
        }],
        only_old: Vec::new(),
        only_new: Vec::new(),
        gates: Vec::new(),
        findings: Vec::new(),
    };
    prony_wording::runs::compose(&mut document);
    document
}

#[test]
fn verdicts_name_both_runs() {
    let verdicts = [Verdict::Slower, Verdict::Equivalent, Verdict::Undecided];
    let document = composed(verdicts.map(|it| between(Some(it), None)).to_vec());
    let texts: Vec<&str> = document
        .comparisons
        .iter()
        .map(|it| it.text.as_str())
        .collect();
    assert_eq!(
        texts,
        [
            "tcp in B is 10.0% slower than tcp in A (95% interval 9.0% to 11.0%, 8 and 6 blocks)",
            "tcp in B and tcp in A are equivalent within ±2% (request rate −10.0%, 95% interval \
             −11.0% to −9.0%, 8 and 6 blocks)",
            "tcp in B and tcp in A can't be distinguished: request rate −10.0% (95% interval −11.0% \
             to −9.0%, 8 and 6 blocks); more or longer blocks would narrow the interval",
        ]
    );
    assert_eq!(
        document.described[0].text,
        "tcp in B against A: request rate −10.0% (95% interval −11.0% to −9.0%, 8 and 6 blocks)"
    );
    assert_eq!(
        document.relative[0].text,
        "tcp against unix: request rate −3.0% in A, −5.0% in B; the ratio changed by −10.0% (95% \
         interval −11.0% to −9.0%)"
    );
}

#[test]
fn withheld_verdicts_say_why() {
    let stated = WithheldBecause::Stated("5% of the requests failed".to_owned());
    let reasons = [
        RunWithheld::Own {
            run: "A".to_owned(),
            because: stated,
        },
        RunWithheld::Unmeasured {
            run: "B".to_owned(),
            trials: vec![2, 3],
        },
        RunWithheld::TooFew { old: 1, new: 1 },
        RunWithheld::TooFew { old: 2, new: 6 },
    ];
    let withheld = reasons.map(|it| between(Some(Verdict::Withheld), Some(it)));
    let document = composed(withheld.to_vec());
    let begin = "tcp in B against A: request rate −10.0% (95% interval −11.0% to −9.0%, 8 and 6 \
                 blocks), verdict withheld: ";
    let texts = document.comparisons.iter();
    let texts: Vec<&str> = texts
        .map(|it| it.text.strip_prefix(begin).unwrap())
        .collect();
    assert_eq!(
        texts,
        [
            "in A, 5% of the requests failed",
            "B has no request rate in blocks 2, 3 (zero, or not measured)",
            "one block per run doesn't show how much blocks vary; an interval needs 3 per run",
            "an interval needs 3 blocks per run, but A has 2 and B has 6",
        ]
    );
}
