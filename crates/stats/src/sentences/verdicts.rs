//! Sentences about comparisons within an experiment.

use super::{capacity, counted, statement};
use crate::change::Change;
use crate::comparison::{Comparison, Description, Effect, Verdict};
use crate::design::{Design, INTERVAL_BLOCKS_MIN};
use crate::estimate::too_few;
use crate::metric::{Metric, Scale};
use crate::pairing::Unmeasured;

/// Sentence for one comparison of the family, whose `sharing` comparisons share the error rate.
/// `levels` contains the means of the variant and of its baseline, if they were measured.
pub(crate) fn comparison(
    comparison: &Comparison,
    design: &Design,
    sharing: usize,
    levels: Option<(f64, f64)>,
) -> String {
    match comparison.verdict {
        Verdict::Faster | Verdict::Slower => decided(comparison, design, levels),
        Verdict::Equivalent => equivalent(comparison, design),
        Verdict::Undecided => undecided(comparison, design, sharing),
        Verdict::Withheld => comparison.text.clone(),
    }
}

/// Sentence for a comparison whose verdict is withheld. `reason` completes the sentence.
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

/// Returns the reason for withholding a verdict if some blocks lack a value, as a phrase that
/// completes a sentence.
pub(crate) fn unmeasured(comparison: &Comparison, unmeasured: &Unmeasured) -> String {
    let sides: Vec<String> = [
        (&comparison.name, &unmeasured.variant),
        (&comparison.against_name, &unmeasured.against),
    ]
    .into_iter()
    .filter(|(_, blocks)| !blocks.is_empty())
    .map(|(name, blocks)| {
        let numbers: Vec<String> = blocks.iter().map(u32::to_string).collect();
        let word = if blocks.len() == 1 { "block" } else { "blocks" };
        let noun = comparison.metric.noun();
        format!("{name} has no {noun} in {word} {}", numbers.join(", "))
    })
    .collect();
    format!("{} (zero, or not measured)", sides.join(", and "))
}

/// Sentence for a comparison outside the family.
pub(crate) fn description(description: &Description, name: &str, against: &str) -> String {
    match Change::of(description.metric, &description.effect) {
        Some(change) if change.is_none_at_all() => format!(
            "{} is the same in {name} and {against} ({})",
            description.metric.noun(),
            counted(description.blocks, "block")
        ),
        // A direction is stated only if the interval excludes zero.
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

/// Clause about a movement: "system CPU per request: +31% against unix (+27% to +36%)".
pub(crate) fn movement(metric: Metric, effect: &Effect, against: &str) -> String {
    movement_of(metric.noun(), metric, effect, against)
}

/// Name of the CPU time per request of one service.
pub(crate) fn service_cpu(service: &str) -> String {
    format!("CPU per request of service {service}")
}

/// Like [`movement`], for a part of the metric that has its own name.
pub(crate) fn movement_of(noun: &str, metric: Metric, effect: &Effect, against: &str) -> String {
    let Some(change) = Change::of(metric, effect) else {
        return format!("{noun} against {against}");
    };
    let range = change.signed_range();
    let range = range.map_or(String::new(), |range| format!(" ({range})"));
    if change.is_factor() {
        format!("{noun}: {} that of {against}{range}", change.signed())
    } else {
        format!("{noun}: {} against {against}{range}", change.signed())
    }
}

/// Sentence for a pair whose verdicts on the speed metrics in `speed` are undecided although a cost
/// per request clearly differs.
pub(crate) fn undecided_cost(
    speed: &[Metric],
    (name, against): (&str, &str),
    cost: Metric,
    effect: &Effect,
) -> Option<String> {
    let change = Change::of(cost, effect).filter(Change::is_one_sided)?;
    let nouns: Vec<&str> = speed.iter().map(|metric| metric.noun()).collect();
    let range = change
        .range()
        .map(|range| format!(" (95% interval {range})"));
    Some(format!(
        "The {} can't be distinguished on this machine, but {}{}, which is where a difference \
         would come from.",
        nouns.join(" and the "),
        statement(cost, name, against, &change),
        range.unwrap_or_default(),
    ))
}

fn decided(comparison: &Comparison, design: &Design, levels: Option<(f64, f64)>) -> String {
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return String::new();
    };
    if comparison.metric == Metric::CapacityPerS {
        return capacity::decided(comparison, design, &change, levels);
    }
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

/// Returns the name of the metric. For a capacity, the name includes the goals.
fn noun(metric: Metric, design: &Design) -> String {
    match metric {
        Metric::CapacityPerS => capacity::noun(metric.noun(), design),
        _ => metric.noun().to_owned(),
    }
}

fn equivalent(comparison: &Comparison, design: &Design) -> String {
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return String::new();
    };
    // Rounding the margin prevents output such as 7.000000000000001% for 0.07.
    let margin = (design.margin * 1e6).round() / 1e4;
    let unit = match comparison.metric.scale() {
        Scale::Ratio => "%",
        Scale::Difference => " points",
    };
    format!(
        "{} and {} are equivalent within ±{margin}{unit} ({} {}, {})",
        comparison.name,
        comparison.against_name,
        noun(comparison.metric, design),
        change.signed(),
        basis(change.signed_range(), comparison.blocks),
    )
}

fn undecided(comparison: &Comparison, design: &Design, sharing: usize) -> String {
    let apart = format!(
        "{} and {} can't be distinguished yet",
        comparison.name, comparison.against_name
    );
    let noun = noun(comparison.metric, design);
    let blocks = comparison.blocks;
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return format!("{apart}: no complete block ({noun})");
    };
    if too_few(blocks) {
        return format!(
            "{apart}: {noun} {} from {}, but an interval needs {INTERVAL_BLOCKS_MIN}",
            change.signed(),
            complete_blocks(blocks),
        );
    }
    let shared = if change.is_one_sided() && sharing > 1 {
        format!("; not decided while {sharing} comparisons share the error rate")
    } else {
        String::new()
    };
    let outlook = match comparison.more_blocks {
        Some(more) if blocks + more <= design.blocks_max => {
            format!("about {} would decide", counted(more, "more block"))
        }
        Some(more) => format!("a plan with about {} blocks would decide it", blocks + more),
        None => "no reasonable number of blocks would decide it".to_owned(),
    };
    format!(
        "{apart}: {noun} {} ({}{shared}); {outlook}",
        change.signed(),
        basis(change.signed_range(), blocks)
    )
}

/// Basis of an estimate: "95% interval 2.2% to 4.0%, 8 blocks".
fn basis(range: Option<String>, blocks: u32) -> String {
    match range {
        Some(range) => format!("95% interval {range}, {}", counted(blocks, "block")),
        None => complete_blocks(blocks),
    }
}

fn complete_blocks(blocks: u32) -> String {
    counted(blocks, "complete block")
}
