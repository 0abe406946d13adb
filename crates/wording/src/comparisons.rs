//! Sentences about comparisons within an experiment.

use prony_record::{FindingId, FindingName};
use prony_stats::{
    Comparison, Description, Design, Evaluation, INTERVAL_BLOCKS_MIN, Levels, Metric, MovedMetric,
    Scale, Unmeasured, VariantSummary, Verdict, VerdictDocument, WithheldBecause,
};

use crate::change::Change;
use crate::statement::{counted, numbered, statement};
use crate::{capacity, effects};

/// Composes the sentences of an evaluation: of its comparisons, its descriptions and its factor
/// effects. Called after all verdicts are final.
pub fn compose_evaluation(design: &Design, evaluation: &mut Evaluation) {
    let Evaluation {
        comparisons,
        described,
        effects,
        variants,
        tested,
        ..
    } = evaluation;
    for comparison in comparisons {
        comparison.doubt = comparison.crowded_share.map(doubt);
        let context = ClaimContext {
            margin: design.margin,
            goals: &design.goals,
            variants,
        };
        let text = match comparison.verdict {
            Verdict::Faster | Verdict::Slower => decided(comparison, &context).whole(),
            Verdict::Equivalent => equivalent(comparison, &context).whole(),
            Verdict::Undecided => undecided(comparison, design, *tested),
            Verdict::Withheld => withheld(comparison),
        };
        comparison.text = match &comparison.doubt {
            Some(doubt) => format!("{text}; {doubt}"),
            None => text,
        };
    }
    let name = |levels| {
        let mut variants = design.variants.iter();
        let index = variants.position(|variant| variant == levels);
        index.map_or(String::new(), |index| design.name_of(index))
    };
    for one in described {
        one.text = description(one, &name(&one.levels), &name(&one.against));
    }
    for effect in effects {
        effect.text = effects::sentence(design, effect);
    }
}

/// A decided comparison in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The statement: "tcp is 3.1% slower than unix".
    pub statement: String,
    /// The estimate's basis, without a doubt: "95% interval 2.2% to 4.0%, 8 blocks". `None` if the
    /// statement includes it.
    pub basis: Option<String>,
}

impl Claim {
    /// The claim as one sentence.
    pub fn whole(&self) -> String {
        match &self.basis {
            Some(basis) => format!("{} ({basis})", self.statement),
            None => self.statement.clone(),
        }
    }
}

/// Facts of the experiment that a claim states besides its comparison.
struct ClaimContext<'a> {
    margin: f64,
    goals: &'a [String],
    variants: &'a [VariantSummary],
}

impl ClaimContext<'_> {
    /// The means of a comparison's variant and of its baseline, if they were measured.
    fn levels(&self, comparison: &Comparison) -> Option<(f64, f64)> {
        let level = |levels: &Levels| {
            let mut variants = self.variants.iter();
            let variant = variants.find(|variant| variant.levels == *levels)?;
            let summary = variant.metrics.get(&comparison.metric)?;
            Some(summary.level(comparison.metric))
        };
        level(&comparison.levels).zip(level(&comparison.against))
    }
}

/// Returns what a comparison of a document establishes. `None` if its verdict is undecided or
/// withheld.
pub fn claim(document: &VerdictDocument, comparison: &Comparison) -> Option<Claim> {
    let context = ClaimContext {
        margin: document.margin,
        goals: &document.goals,
        variants: &document.variants,
    };
    match comparison.verdict {
        Verdict::Faster | Verdict::Slower => Some(decided(comparison, &context)),
        Verdict::Equivalent => Some(equivalent(comparison, &context)),
        Verdict::Undecided | Verdict::Withheld => None,
    }
}

fn doubt(crowded_share: f64) -> String {
    format!(
        "other processes used {:.0}% of the cores, so the difference may not be the same on a \
         quiet machine",
        crowded_share * 100.0
    )
}

fn withheld(comparison: &Comparison) -> String {
    let subject = format!("{} against {}", comparison.name, comparison.against_name);
    let noun = comparison.metric.noun();
    let reason = comparison.withheld.as_ref();
    let reason = reason.map_or(String::new(), |because| {
        withheld_reason(because, comparison)
    });
    match Change::of(comparison.metric, &comparison.effect) {
        Some(change) => format!(
            "{subject}: {noun} {} ({}), verdict withheld: {reason}",
            change.signed(),
            basis(change.signed_range(), comparison.blocks),
        ),
        None => format!("{subject}: {noun}, verdict withheld: {reason}"),
    }
}

/// Returns the reason for withholding the verdict of a comparison, as a phrase that completes
/// "verdict withheld: …".
pub fn withheld_reason(because: &WithheldBecause, comparison: &Comparison) -> String {
    let sides = [comparison.name.as_str(), &comparison.against_name];
    reason(because, comparison.metric.noun(), sides)
}

/// Like [`withheld_reason`], for an observable with a noun. `sides` contains the names of the variant
/// and of its baseline.
pub(crate) fn reason(because: &WithheldBecause, noun: &str, sides: [&str; 2]) -> String {
    match because {
        WithheldBecause::Unmeasured(blocks) => unmeasured(blocks, noun, sides),
        WithheldBecause::Finding(id) => finding_phrase(id),
        WithheldBecause::Noise => format!(
            "other programs used too much CPU time ({})",
            FindingId::NoisyMachine
        ),
        WithheldBecause::Stated(reason) => reason.clone(),
    }
}

/// Describes what a finding saw: "a service ended (service-died)".
fn finding_phrase(id: &FindingName) -> String {
    let Some(known) = id.known() else {
        return id.to_string();
    };
    let mut seen = known.info().seen.trim_end_matches('.').chars();
    let first = seen.next().map(|first| first.to_ascii_lowercase());
    let phrase: String = first.into_iter().chain(seen).collect();
    format!("{phrase} ({id})")
}

fn unmeasured(blocks: &Unmeasured, noun: &str, sides: [&str; 2]) -> String {
    let all = [&blocks.variant, &blocks.against];
    let lacking = sides
        .iter()
        .zip(all)
        .filter(|(_, blocks)| !blocks.is_empty());
    let lacking = lacking
        .map(|(name, blocks)| format!("{name} has no {noun} in {}", numbered("block", blocks)));
    let lacking: Vec<String> = lacking.collect();
    format!("{} (zero, or not measured)", lacking.join(", and "))
}

/// Sentence for a comparison outside the family.
fn description(description: &Description, name: &str, against: &str) -> String {
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

/// Returns the name of what moved: the metric, or the part of it that belongs to one service.
pub fn moved_noun(moved: &MovedMetric) -> String {
    match &moved.service {
        Some(service) => format!("CPU per request of service {service}"),
        None => moved.metric.noun().to_owned(),
    }
}

/// Clause about a movement: "system CPU per request: +31% against unix (+27% to +36%)".
pub fn movement(moved: &MovedMetric, against: &str) -> String {
    let (noun, metric, effect) = (moved_noun(moved), moved.metric, &moved.effect);
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

/// Returns a sentence for a pair whose cost per request clearly differs although no comparison of
/// its speed is decided. `undecided` contains the metrics of the undecided comparisons. Returns
/// `None` if none of these metrics is a rate or a time.
pub fn undecided_cost(
    undecided: &[Metric],
    name: &str,
    against: &str,
    cost: &MovedMetric,
) -> Option<String> {
    let is_speed =
        |metric: &&Metric| metric.is_rate() || metric.is_time() || **metric == Metric::TotalTimeUs;
    let speed = undecided.iter().filter(is_speed);
    let nouns: Vec<&str> = speed.map(|metric| metric.noun()).collect();
    if nouns.is_empty() {
        return None;
    }
    let change = Change::of(cost.metric, &cost.effect).filter(Change::is_one_sided)?;
    let range = change
        .range()
        .map(|range| format!(" (95% interval {range})"));
    Some(format!(
        "The {} can't be distinguished on this machine, but {}{}, which is where a difference \
         would come from.",
        nouns.join(" and the "),
        statement(cost.metric, name, against, &change),
        range.unwrap_or_default(),
    ))
}

fn decided(comparison: &Comparison, context: &ClaimContext<'_>) -> Claim {
    let alone = |statement| Claim {
        statement,
        basis: None,
    };
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return alone(String::new());
    };
    if comparison.metric.is_capacity() {
        // With only two variants, the other variant must be the baseline, so it isn't named.
        let is_only_pair = context.variants.len() <= 2;
        let rates = context.levels(comparison);
        return alone(capacity::decided(
            comparison,
            context.goals,
            is_only_pair,
            &change,
            rates,
        ));
    }
    let said = statement(
        comparison.metric,
        &comparison.name,
        &comparison.against_name,
        &change,
    );
    let verdict = match (comparison.metric, comparison.verdict) {
        (metric, Verdict::Faster) if metric.is_time() => "faster; ",
        (metric, _) if metric.is_time() => "slower; ",
        _ => "",
    };
    Claim {
        statement: said,
        basis: Some(format!(
            "{verdict}{}",
            basis(change.range(), comparison.blocks)
        )),
    }
}

/// Returns the name of the metric. For a capacity, the name includes the goals.
fn noun(metric: Metric, goals: &[String]) -> String {
    match metric {
        it if it.is_capacity() => capacity::noun(metric.noun(), goals),
        _ => metric.noun().to_owned(),
    }
}

fn equivalent(comparison: &Comparison, context: &ClaimContext<'_>) -> Claim {
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        let (statement, basis) = (String::new(), None);
        return Claim { statement, basis };
    };
    // Rounding the margin prevents output such as 7.000000000000001% for 0.07.
    let margin = (context.margin * 1e6).round() / 1e4;
    let unit = match comparison.metric.scale() {
        Scale::Ratio => "%",
        Scale::Difference => " points",
    };
    Claim {
        statement: format!(
            "{} and {} are equivalent within ±{margin}{unit}",
            comparison.name, comparison.against_name,
        ),
        basis: Some(format!(
            "{} {}, {}",
            noun(comparison.metric, context.goals),
            change.signed(),
            basis(change.signed_range(), comparison.blocks),
        )),
    }
}

fn undecided(comparison: &Comparison, design: &Design, sharing: u32) -> String {
    let apart = format!(
        "{} and {} can't be distinguished yet",
        comparison.name, comparison.against_name
    );
    let noun = noun(comparison.metric, &design.goals);
    let blocks = comparison.blocks;
    let Some(change) = Change::of(comparison.metric, &comparison.effect) else {
        return format!("{apart}: no complete block ({noun})");
    };
    if blocks < INTERVAL_BLOCKS_MIN {
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
