//! Prints the tables of error rates, coverage and power in `docs/validation.md`:
//! `cargo run --release -p prony-stats --example power [EXPERIMENTS]`.

#[path = "../tests/stats/simulation/mod.rs"]
mod simulation;

use prony_stats::{AlphaTable, Evaluation, Trials, Verdict, evaluate_with};
use simulation::{Draws, Noise, Setting, Share};

fn main() {
    let experiments = std::env::args()
        .nth(1)
        .and_then(|input| input.parse().ok())
        .unwrap_or(4_000);
    errors(experiments * 10);
    power(experiments);
    looks(experiments);
    peeking(experiments);
}

/// Prints the error rates of experiments in which no variant differs, and of experiments in which
/// one of four variants differs.
fn errors(experiments: u32) {
    println!("### Error rates ({experiments} experiments per row)\n");
    println!(
        "| noise | variants | blocks | false `faster`/`slower` | interval covers | `equivalent` |"
    );
    println!("|---|---|---|---|---|---|");
    let rows = [
        (Noise::Normal, 2, (5, 15)),
        (Noise::Normal, 4, (5, 15)),
        (Noise::Normal, 4, (3, 30)),
        (Noise::Normal, 4, (8, 8)),
        (Noise::HeavyTails, 4, (5, 15)),
        (Noise::Uneven, 4, (5, 15)),
        (Noise::Skewed, 4, (5, 15)),
    ];
    for (place, (kind, variants, blocks)) in rows.into_iter().enumerate() {
        let mut setting = Setting::new(&vec![1.0; variants], 0.02, blocks).with(kind);
        // With a wider margin, `equivalent` would hide false alarms.
        setting.margin = 0.0001;
        let mut draws = Draws::seeded(place as u64);
        let (mut alarms, mut covered) = (0, 0);
        for _ in 0..experiments {
            let evaluation = setting.run(&mut draws);
            alarms += u32::from(count(&evaluation, is_apart) > 0);
            covered += u32::from(covers(&evaluation, 0, 1.0));
        }
        let of = experiments;
        let (false_alarm, covers) = (Share { count: alarms, of }, Share { count: covered, of });
        setting.margin = 0.02;
        let equivalent = share(
            &setting,
            experiments / 5,
            200 + place as u64,
            |evaluation| evaluation.comparisons[0].verdict == Verdict::Equivalent,
        );
        println!(
            "| {kind:?} | {variants} | {} to {} | {} | {} | {} |",
            blocks.0,
            blocks.1,
            percent(false_alarm),
            percent(covers),
            percent(equivalent)
        );
    }
    println!();
}

/// Prints the share of experiments that report `slower`, by true slowdown, number of blocks and
/// noise.
fn power(experiments: u32) {
    println!(
        "### Power ({experiments} experiments per cell; 95% interval of at most ±1.6 points)\n"
    );
    let noises = [0.005, 0.01, 0.02, 0.03, 0.05];
    for variants in [2, 4] {
        println!("{variants} variants, one of them slower:\n");
        print!("| slower by | blocks |");
        noises
            .iter()
            .for_each(|noise| print!(" noise {}% |", 100.0 * noise));
        println!("\n|---|---|{}", "---|".repeat(noises.len()));
        for loss in [0.03, 0.05, 0.10] {
            for blocks in [(5, 5), (8, 8), (15, 15), (5, 15), (5, 30)] {
                print!("| {}% | {} |", 100.0 * loss, span(blocks));
                for noise in noises {
                    let mut rates = vec![1.0; variants];
                    rates[1] = 1.0 - loss;
                    let setting = Setting::new(&rates, noise, blocks);
                    let slower = share(&setting, experiments, 7, |evaluation| {
                        evaluation.comparisons[0].verdict == Verdict::Slower
                    });
                    print!(" {:.0}% |", 100.0 * slower.value());
                }
                println!();
            }
        }
        println!();
    }
    println!("2 equal variants, reported as `equivalent` within ±2%:\n");
    print!("| blocks |");
    noises
        .iter()
        .for_each(|noise| print!(" noise {}% |", 100.0 * noise));
    println!("\n|---|{}", "---|".repeat(noises.len()));
    for blocks in [(5, 5), (8, 8), (15, 15), (5, 15), (5, 30)] {
        print!("| {} |", span(blocks));
        for noise in noises {
            let setting = Setting::new(&[1.0, 1.0], noise, blocks);
            let equivalent = share(&setting, experiments, 8, |evaluation| {
                evaluation.comparisons[0].verdict == Verdict::Equivalent
            });
            print!(" {:.0}% |", 100.0 * equivalent.value());
        }
        println!();
    }
    println!();
}

/// Prints the error rate of experiments that are evaluated after every block and stopped at the
/// first significant result.
fn peeking(experiments: u32) {
    let mut setting = Setting::new(&[1.0, 1.0], 0.02, (5, 15));
    setting.margin = 0.0001;
    let design = setting.design();
    let mut draws = Draws::seeded(10);
    let mut table = AlphaTable::new();
    let mut alarms = 0;
    for _ in 0..experiments {
        let mut trials = Trials::new();
        let pleased = (0..15).any(|block| {
            setting.block(&mut trials, block, &mut draws);
            let evaluation = evaluate_with(&mut table, &design, &trials, &[]);
            evaluation.is_ok_and(|evaluation| count(&evaluation, is_apart) > 0)
        });
        alarms += u32::from(pleased);
    }
    let share = Share {
        count: alarms,
        of: experiments,
    };
    println!(
        "\n2 equal variants, stopped at the first significant block: {} false verdicts",
        percent(share)
    );
}

/// Prints the mean number of blocks taken by experiments that are planned for 5 to 15 blocks.
fn looks(experiments: u32) {
    println!("### Blocks taken of 5 to 15 planned; 4 variants, one of them slower\n");
    println!("| slower by | noise | mean blocks | coverage of its interval |");
    println!("|---|---|---|---|");
    for (loss, noise) in [
        (0.0, 0.01),
        (0.03, 0.01),
        (0.03, 0.02),
        (0.10, 0.02),
        (0.10, 0.03),
    ] {
        let setting = Setting::new(&[1.0, 1.0 - loss, 1.0, 1.0], noise, (5, 15));
        let mut draws = Draws::seeded(9);
        let (mut blocks, mut covered) = (0, 0);
        for _ in 0..experiments {
            let evaluation = setting.run(&mut draws);
            blocks += evaluation.blocks;
            covered += u32::from(covers(&evaluation, 0, 1.0 - loss));
        }
        println!(
            "| {}% | {}% | {:.1} | {} |",
            100.0 * loss,
            100.0 * noise,
            f64::from(blocks) / f64::from(experiments),
            percent(Share {
                count: covered,
                of: experiments
            })
        );
    }
}

fn share(setting: &Setting, of: u32, seed: u64, holds: impl Fn(&Evaluation) -> bool) -> Share {
    let mut draws = Draws::seeded(seed);
    let count = (0..of).filter(|_| holds(&setting.run(&mut draws))).count();
    Share {
        count: count as u32,
        of,
    }
}

fn covers(evaluation: &Evaluation, comparison: usize, truth: f64) -> bool {
    let effect = &evaluation.comparisons[comparison].effect;
    effect
        .low
        .zip(effect.high)
        .is_some_and(|(low, high)| low <= truth && truth <= high)
}

fn count(evaluation: &Evaluation, holds: impl Fn(Verdict) -> bool) -> usize {
    evaluation
        .comparisons
        .iter()
        .filter(|comparison| holds(comparison.verdict))
        .count()
}

fn is_apart(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Faster | Verdict::Slower)
}

fn percent(share: Share) -> String {
    format!(
        "{:.1}% (±{:.1})",
        100.0 * share.value(),
        196.0 * share.error()
    )
}

fn span((least, most): (u32, u32)) -> String {
    if least == most {
        format!("{most}")
    } else {
        format!("{least} to {most}")
    }
}
