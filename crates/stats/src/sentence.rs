//! Verdicts and estimates as sentences.

use crate::change::Change;
use crate::comparison::{Comparison, Description, Effect, Verdict};
use crate::design::{Design, LEAST_BLOCKS};
use crate::evaluate::too_few;
use crate::metric::{Metric, Scale};

/// One comparison of the family; `sharing` comparisons share the error rate.
pub(crate) fn comparison(comparison: &Comparison, design: &Design, sharing: usize) -> String {
    match comparison.verdict {
        Verdict::Faster | Verdict::Slower => decided(comparison),
        Verdict::Equivalent => equivalent(comparison, design.margin),
        Verdict::Undecided => undecided(comparison, design, sharing),
        Verdict::Withheld => comparison.text.clone(),
    }
}

/// A comparison whose verdict is withheld. `reason` completes the sentence.
pub(crate) fn withheld(comparison: &Comparison, reason: &str) -> String {
    let subject = format!("{} against {}", comparison.name, comparison.against_name);
    let noun = comparison.metric.noun();
    match Change::of(comparison.metric, &comparison.effect) {
        Some(change) => format!(
            "{subject}: {noun} {} ({}), verdict withheld: {reason}",
            change.signed(),
            basis(change.signed_range(), comparison.blocks),
        ),
        None => format!("{subject}: {noun}, verdict withheld: {reason}"),
    }
}

/// A comparison outside the family.
pub(crate) fn description(description: &Description, name: &str, against: &str) -> String {
    match Change::of(description.metric, &description.effect) {
        Some(change) if change.is_none_at_all() => format!(
            "{} is the same in {name} and {against} ({})",
            description.metric.noun(),
            counted(description.blocks, "block")
        ),
        // A direction is stated only where the interval has one.
        Some(change) if change.is_one_sided() => format!(
            "{} ({})",
            statement(description.metric, name, against, &change),
            basis(change.range(), description.blocks)
        ),
        Some(change) => format!(
            "{} of {name} against {against}: {} ({})",
            description.metric.noun(),
            change.signed(),
            basis(change.signed_range(), description.blocks)
        ),
        None => String::new(),
    }
}

/// "system CPU per request: +31% against unix (+27% to +36%)".
pub(crate) fn movement(metric: Metric, effect: &Effect, against: &str) -> String {
    let noun = metric.noun();
    let Some(change) = Change::of(metric, effect) else {
        return format!("{noun} against {against}");
    };
    let range = change.signed_range();
    let range = range.map_or(String::new(), |range| format!(" ({range})"));
    match change.is_factor() {
        true => format!("{noun}: {} that of {against}{range}", change.signed()),
        false => format!("{noun}: {} against {against}{range}", change.signed()),
    }
}

fn decided(comparison: &Comparison) -> String {
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return String::new();
    };
    let said = statement(
        comparison.metric,
        &comparison.name,
        &comparison.against_name,
        &change,
    );
    let verdict = match (comparison.metric, comparison.verdict) {
        (Metric::P50Us | Metric::P99Us, Verdict::Faster) => "faster; ",
        (Metric::P50Us | Metric::P99Us, _) => "slower; ",
        _ => "",
    };
    format!(
        "{said} ({verdict}{})",
        basis(change.range(), comparison.blocks)
    )
}

fn equivalent(comparison: &Comparison, margin: f64) -> String {
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return String::new();
    };
    // Rounded, so that 0.07 does not print as 7.000000000000001%.
    let margin = (margin * 1e6).round() / 1e4;
    let unit = match comparison.metric.scale() {
        Scale::Ratio => "%",
        Scale::Difference => " points",
    };
    format!(
        "{} and {} are equivalent within ±{margin}{unit} ({} {}, {})",
        comparison.name,
        comparison.against_name,
        comparison.metric.noun(),
        change.signed(),
        basis(change.signed_range(), comparison.blocks),
    )
}

fn undecided(comparison: &Comparison, design: &Design, sharing: usize) -> String {
    let apart = format!(
        "{} and {} can't be told apart yet",
        comparison.name, comparison.against_name
    );
    let noun = comparison.metric.noun();
    let blocks = comparison.blocks;
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return format!("{apart}: no complete block ({noun})");
    };
    if too_few(blocks) {
        return format!(
            "{apart}: {noun} {} from {}, and an interval needs {LEAST_BLOCKS}",
            change.signed(),
            complete_blocks(blocks),
        );
    }
    let shared = if change.is_one_sided() && sharing > 1 {
        format!("; not sure enough while {sharing} comparisons share the error rate")
    } else {
        String::new()
    };
    let outlook = match comparison.more_blocks {
        Some(more) if blocks + more <= design.blocks_max => {
            format!("about {} would decide", counted(more, "more block"))
        }
        Some(more) => format!("a plan of about {} blocks would decide", blocks + more),
        None => "no sensible number of blocks would decide".to_owned(),
    };
    format!(
        "{apart}: {noun} {} ({}{shared}); {outlook}",
        change.signed(),
        basis(change.signed_range(), blocks)
    )
}

/// "tcp is 3.1% slower than unix", "tcp is 3.8 × as fast as unix", for any metric.
pub(crate) fn statement(metric: Metric, name: &str, against: &str, change: &Change) -> String {
    let amount = change.amount();
    if change.is_factor() {
        return match metric {
            Metric::RatePerS => format!("{name} is {amount} as fast as {against}"),
            _ => format!(
                "the {} of {name} is {amount} that of {against}",
                metric.noun()
            ),
        };
    }
    let more = if change.is_less() { "less" } else { "more" };
    let higher = if change.is_less() { "lower" } else { "higher" };
    match metric {
        Metric::RatePerS => {
            let faster = if change.is_less() { "slower" } else { "faster" };
            format!("{name} is {amount} {faster} than {against}")
        }
        Metric::ServerCpuUsPerRequest => {
            format!("{name} needs {amount} {more} server CPU per request than {against}")
        }
        Metric::ServerCpuUserPercent => {
            format!("{name} uses {amount} {more} user CPU than {against}")
        }
        Metric::ServerCpuSystemPercent => {
            format!("{name} uses {amount} {more} system CPU than {against}")
        }
        Metric::ServerMemoryBytes => {
            format!("{name} uses {amount} {more} server memory than {against}")
        }
        Metric::NetworkOutBitsPerS => {
            format!("{name} sends {amount} {more} network traffic than {against}")
        }
        Metric::GeneratorCpuUsPerRequest => {
            format!("{name} costs the generator {amount} {more} CPU per request than {against}")
        }
        _ => format!(
            "the {} of {name} is {amount} {higher} than that of {against}",
            metric.noun()
        ),
    }
}

/// "95% interval 2.2% to 4.0%, 8 blocks".
fn basis(range: Option<String>, blocks: u32) -> String {
    match range {
        Some(range) => format!("95% interval {range}, {}", counted(blocks, "block")),
        None => complete_blocks(blocks),
    }
}

/// "1 block", "8 blocks".
pub(crate) fn counted(number: u32, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn complete_blocks(blocks: u32) -> String {
    counted(blocks, "complete block")
}
