//! Checks that movements are rarely reported by chance, for any number of metrics, and are reliably
//! reported if a metric changed. The seeds are fixed.

use crate::simulation::{Draws, Setting};
use prony_stats::{
    AlphaTable, Design, Evaluation, Metric, MetricRole, Scale, Trials, Values, evaluate_with,
};

const EXPERIMENTS: u32 = 1_000;
const BLOCKS: u32 = 6;

fn explaining() -> Vec<Metric> {
    let all = Metric::ALL.iter().copied();
    all.filter(|metric| metric.role() != MetricRole::Result)
        .collect()
}

/// Runs an experiment in which the second variant has `factor` times as much of one metric.
fn run(draws: &mut Draws, table: &mut AlphaTable, raised: Metric, factor: f64) -> Evaluation {
    let mut design: Design = Setting::new(&[1.0, 1.0], 0.02, (BLOCKS, BLOCKS)).design();
    // The margin is so small that it can't hide a false alarm.
    design.margin = 1e-9;
    let mut trials = Trials::new();
    for block in 1..=BLOCKS {
        for variant in 0..2 {
            let value = |metric: Metric| {
                let truth = if variant == 1 && metric == raised {
                    factor
                } else {
                    1.0
                };
                match metric.scale() {
                    Scale::Ratio => truth * (0.02 * draws.normal()).exp(),
                    Scale::Difference => (0.5 * truth + 0.02 * draws.normal()).clamp(0.0, 1.0),
                }
            };
            let metrics = explaining();
            let values: Vec<f64> = metrics.iter().copied().map(value).collect();
            trials.add(
                block,
                variant,
                metrics.into_iter().zip(values).collect::<Values>(),
            );
        }
    }
    evaluate_with(table, &design, &trials, &[]).unwrap()
}

#[test]
fn false_movements_are_at_most_five_percent() {
    let (mut draws, mut table) = (Draws::seeded(71), AlphaTable::new());
    let (mut any, mut alone) = (0, 0);
    for _ in 0..EXPERIMENTS {
        let evaluation = run(&mut draws, &mut table, Metric::RatePerS, 1.0);
        assert_eq!(evaluation.movements.len(), explaining().len());
        any += u32::from(evaluation.movements.iter().any(|m| m.moved));
        alone += u32::from(evaluation.movements.iter().any(|m| m.least > 0.0));
    }
    // The limit is 5% plus three standard errors of the simulation.
    assert!(any <= 71, "{any} of {EXPERIMENTS}");
    assert!(
        alone > 400,
        "{alone}: separate intervals would not report many false movements"
    );
}

#[test]
fn movements_have_their_sign_and_least_change() {
    let (mut draws, mut table) = (Draws::seeded(72), AlphaTable::new());
    let raised = Metric::ServerCpuSystemUsPerRequest;
    let mut seen = 0;
    let mut covered = 0;
    for _ in 0..EXPERIMENTS {
        let evaluation = run(&mut draws, &mut table, raised, 1.31);
        let movement = evaluation.movements.iter().find(|m| m.metric == raised);
        let movement = movement.unwrap();
        seen += u32::from(movement.moved && movement.is_more() && !movement.same);
        covered += u32::from(movement.least <= 1.31_f64.ln());
    }
    assert!(seen >= 990, "{seen}");
    assert!(
        (950..=990).contains(&covered),
        "{covered}: about 2.5% of the lower ends should exceed the true value"
    );
}

#[test]
fn a_movement_and_a_summary_have_the_same_mean() {
    let design: Design = Setting::new(&[1.0, 1.0], 0.02, (BLOCKS, BLOCKS)).design();
    let (idle, disk) = (
        Metric::MachineIdlePercent,
        Metric::DiskWrittenBytesPerRequest,
    );
    let mut trials = Trials::new();
    for block in 1..=BLOCKS {
        for variant in 0..2 {
            let mut values = Values::new();
            let scale = f64::from(block) * (1.0 + variant as f64);
            // The machine has no idle time in one block, and one value was not measured.
            values.insert(idle, if block == 3 { 0.0 } else { scale });
            if (block, variant) != (2, 1) {
                values.insert(disk, 100.0 * scale);
            }
            trials.add(block, variant, values);
        }
    }
    let evaluation = evaluate_with(&mut AlphaTable::new(), &design, &trials, &[]).unwrap();
    let movement = |metric| evaluation.movements.iter().find(|it| it.metric == metric);
    assert_eq!(movement(idle), None);
    let means = movement(disk).unwrap().means;
    let shown = |variant: usize| evaluation.variants[variant].metrics[&disk].mean.unwrap();
    let mut shown = [shown(0), shown(1)];
    if movement(disk).unwrap().levels != design.variants[0] {
        shown.reverse();
    }
    assert_eq!([means.0, means.1], shown);
    // The geometric mean of 1 to 6 is 2.99, the arithmetic mean 3.5.
    assert!(
        shown.iter().any(|mean| (mean - 299.379_5).abs() < 1e-3),
        "{shown:?}"
    );
}
