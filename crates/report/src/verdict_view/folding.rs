//! The comparisons as few lines: a sentence for each established difference, one line for all that
//! are alike otherwise, and one paragraph on a machine that is too noisy.

use prony_record::FindingId;
use prony_stats::{Change, Comparison, LEAST_BLOCKS, Metric, Scale, Verdict, VerdictDocument};

use super::Tone;
use crate::number;

/// One or more comparisons that share a verdict.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Line {
    #[serde(skip)]
    pub(crate) verdict: Verdict,
    /// The verdict's word.
    pub(crate) word: &'static str,
    pub(crate) tone: Tone,
    pub(crate) text: String,
    /// The sentences that `text` stands for; empty where it is a comparison's own sentence.
    pub(crate) folded: Vec<String>,
    /// The place of the variant; none for several.
    pub(crate) variant: Option<usize>,
}

/// More names than these are counted, not listed.
const NAMES_MAX: usize = 4;

/// Every comparison, in the order of the document; those that are equivalent, undecided or withheld
/// for the same reason are one line each, behind the established differences.
pub(crate) fn lines(verdict: &VerdictDocument) -> Vec<Line> {
    let mut groups: Vec<(Verdict, String, Vec<&Comparison>)> = Vec::new();
    let mut lines = Vec::new();
    for comparison in &verdict.comparisons {
        let key = match comparison.verdict {
            Verdict::Faster | Verdict::Slower => {
                lines.push(own(verdict, comparison));
                continue;
            }
            Verdict::Withheld => reason(comparison).to_owned(),
            Verdict::Equivalent | Verdict::Undecided => comparison.metric.noun().to_owned(),
        };
        let known = groups
            .iter_mut()
            .find(|(of, other, _)| *of == comparison.verdict && *other == key);
        match known {
            Some((_, _, members)) => members.push(comparison),
            None => groups.push((comparison.verdict, key, vec![comparison])),
        }
    }
    groups.sort_by_key(|(of, ..)| match of {
        Verdict::Withheld => 0,
        Verdict::Equivalent => 1,
        _ => 2,
    });
    lines.extend(groups.iter().map(|(of, key, members)| match &members[..] {
        [one] => own(verdict, one),
        several => group(verdict, *of, key, several),
    }));
    lines
}

fn own(verdict: &VerdictDocument, comparison: &Comparison) -> Line {
    let mut variants = verdict.variants.iter();
    Line {
        verdict: comparison.verdict,
        word: super::word(comparison.verdict),
        tone: comparison.verdict.into(),
        text: comparison.text.clone(),
        folded: Vec::new(),
        variant: variants.position(|variant| variant.levels == comparison.levels),
    }
}

fn group(verdict: &VerdictDocument, of: Verdict, key: &str, members: &[&Comparison]) -> Line {
    let count = members.len();
    let text = match of {
        Verdict::Equivalent => format!(
            "{count} comparisons are equivalent within {} ({key}): {}",
            number::margin(verdict.margin),
            names(members)
        ),
        Verdict::Withheld => format!("{count} verdicts withheld: {key} ({})", names(members)),
        _ => format!(
            "{count} comparisons are undecided ({key}): {}{}{}",
            names(members),
            outlook(members),
            shared_rate(verdict, members)
        ),
    };
    Line {
        verdict: of,
        word: super::word(of),
        tone: of.into(),
        text,
        folded: members.iter().map(|one| one.text.clone()).collect(),
        variant: None,
    }
}

/// Why a verdict is withheld, out of its sentence.
fn reason(comparison: &Comparison) -> &str {
    let parts = comparison.text.split_once("verdict withheld: ");
    parts.map_or(comparison.text.as_str(), |(_, reason)| reason)
}

/// Which variants against which, `a, b and 3 more against c`.
fn names(members: &[&Comparison]) -> String {
    let against = &members[0].against_name;
    let shared = members.iter().all(|one| one.against_name == *against);
    let mut names: Vec<String> = Vec::new();
    for one in members {
        if !names.contains(&one.name) {
            names.push(one.name.clone());
        }
    }
    let more = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(NAMES_MAX);
    let end = match shared {
        true => format!(" against {against}"),
        false => ", each against its own baseline".to_owned(),
    };
    // Names of several factors have commas of their own.
    let separator = if names.iter().any(|name| name.contains(',')) {
        "; "
    } else {
        ", "
    };
    format!("{}{more}{end}", names.join(separator))
}

/// How many more blocks would decide the first of them.
fn outlook(members: &[&Comparison]) -> String {
    let blocks = members.iter().map(|one| one.blocks).min().unwrap_or(0);
    if blocks < LEAST_BLOCKS {
        let there_are = number::plural(blocks.into(), "complete block", "complete blocks");
        return format!(
            "; an interval needs {LEAST_BLOCKS} blocks, and there is data of {there_are}"
        );
    }
    let least = members.iter().filter_map(|one| one.more_blocks).min();
    least.map_or(String::new(), |more| {
        let blocks = number::plural(more.into(), "more block", "more blocks");
        format!("; about {blocks} would decide the first of them")
    })
}

/// Why an interval that leaves out "no change" is not enough for a verdict.
fn shared_rate(verdict: &VerdictDocument, members: &[&Comparison]) -> String {
    let one_sided = |one: &Comparison| {
        let change = Change::of(one.metric, &one.effect);
        change.is_some_and(|change| change.is_one_sided())
    };
    match members.iter().any(|one| one_sided(one)) {
        true => format!(
            "; an interval that leaves out zero is not sure enough where {} comparisons share the \
             error rate",
            verdict.comparisons.len()
        ),
        false => String::new(),
    }
}

/// That the machine is too noisy for some verdicts, by how much, and what would help; none where
/// every undecided comparison needs nothing but more blocks.
pub(crate) fn noise(verdict: &VerdictDocument) -> Option<String> {
    let open: Vec<&Comparison> = verdict
        .comparisons
        .iter()
        .filter(|one| one.verdict == Verdict::Undecided && one.more_blocks.is_none())
        .collect();
    let mut widest: Vec<(Metric, f64)> = Vec::new();
    for one in &open {
        let Some(reach) = reach(one) else { continue };
        match widest.iter_mut().find(|(metric, _)| *metric == one.metric) {
            Some((_, known)) => *known = known.max(reach),
            None => widest.push((one.metric, reach)),
        }
    }
    if widest.is_empty() {
        return None;
    }
    let parts = widest.iter().map(|(metric, reach)| {
        let unit = if is_ratio(*metric) { "%" } else { " points" };
        format!(
            "±{}{unit} ({})",
            number::significant(*reach, 2),
            metric.noun()
        )
    });
    let others = verdict
        .findings
        .iter()
        .find(|one| one.id == FindingId::NoisyMachine);
    let others = others.and_then(|one| one.text.split_once(". "));
    let others = others.map_or(String::new(), |(seen, _)| format!(" {seen}."));
    Some(format!(
        "This machine is too noisy for {} of {}: the 95% intervals reach {}, and smaller \
         differences can't be seen (the margin is {}). More blocks would not help.{others} What \
         would: longer trials (--duration), nothing else running, cores of their own for the services \
         and the load (cores = \"…\"), or a larger margin.",
        open.len(),
        number::plural(verdict.comparisons.len() as u64, "verdict", "verdicts"),
        parts.collect::<Vec<_>>().join(", "),
        number::margin(verdict.margin),
    ))
}

fn is_ratio(metric: Metric) -> bool {
    metric.scale() == Scale::Ratio
}

/// Half the width of an interval, in percent or points.
fn reach(one: &Comparison) -> Option<f64> {
    let (low, high) = one.effect.low.zip(one.effect.high)?;
    Some(100.0 * (high - low) / 2.0)
}
