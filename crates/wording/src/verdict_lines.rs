//! The comparisons in a few lines: one sentence for each established difference, one line for each
//! group of similar results, and one paragraph if the machine is too noisy.

use prony_record::FindingId;
use prony_stats::{Comparison, INTERVAL_BLOCKS_MIN, Metric, Scale, Verdict, VerdictDocument};

use crate::change::Change;
use crate::comparisons::{claim, withheld_reason};
use crate::tone::Tone;
use crate::verdict_word::{verdict_mark, word};
use prony_record::number;

/// Maximum number of names that are listed. Further names are only counted.
const NAMES_MAX: usize = 4;

/// A sentence next to its verdict, or next to the result of a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct VerdictLine {
    /// The symbol before the sentence on a terminal. If it is `None`, the terminal shows the word.
    pub mark: Option<&'static str>,
    /// The verdict or result as a word.
    pub word: &'static str,
    /// Color of the word.
    pub tone: Tone,
    /// The sentence.
    pub text: String,
    /// The sentences that `text` summarizes; empty if `text` is the sentence of one comparison.
    pub summarized: Vec<String>,
    /// The index of the variant, which determines the color; `None` if the line is about several
    /// variants.
    pub variant: Option<usize>,
}

/// Summarizes all comparisons: first the established differences in the order of the document, then
/// one line for each group that is withheld, equivalent or undecided for the same reason.
pub fn verdict_lines(verdict: &VerdictDocument) -> Vec<VerdictLine> {
    let mut groups: Vec<(Verdict, String, Vec<&Comparison>)> = Vec::new();
    let mut lines = Vec::new();
    for comparison in &verdict.comparisons {
        let key = match comparison.verdict {
            Verdict::Faster | Verdict::Slower => {
                lines.push(own(verdict, comparison));
                continue;
            }
            Verdict::Withheld => {
                let because = comparison.withheld.as_ref();
                because.map_or(String::new(), |it| withheld_reason(it, comparison))
            }
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

fn own(verdict: &VerdictDocument, comparison: &Comparison) -> VerdictLine {
    let mut variants = verdict.variants.iter();
    VerdictLine {
        mark: Some(verdict_mark(comparison.verdict)),
        word: word(comparison.verdict),
        tone: comparison.verdict.into(),
        text: claim(verdict, comparison).map_or(comparison.text.clone(), |it| it.whole()),
        summarized: Vec::new(),
        variant: variants.position(|variant| variant.levels == comparison.levels),
    }
}

fn group(
    verdict: &VerdictDocument,
    of: Verdict,
    key: &str,
    members: &[&Comparison],
) -> VerdictLine {
    let count = members.len();
    let text = match of {
        Verdict::Equivalent => format!(
            "{count} comparisons are equivalent within {} ({key}): {}",
            number::margin(verdict.margin),
            member_names(members)
        ),
        Verdict::Withheld => format!(
            "{count} verdicts withheld: {key} ({})",
            member_names(members)
        ),
        _ => format!(
            "{count} comparisons are undecided ({key}): {}{}{}",
            member_names(members),
            outlook(members),
            shared_rate(verdict, members)
        ),
    };
    VerdictLine {
        mark: Some(verdict_mark(of)),
        word: word(of),
        tone: of.into(),
        text,
        summarized: members.iter().map(|one| one.text.clone()).collect(),
        variant: None,
    }
}

/// The variants, and the baseline that they are compared with: `a, b and 3 more against c`.
fn member_names(members: &[&Comparison]) -> String {
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
    let end = if shared {
        format!(" against {against}")
    } else {
        ", each against its own baseline".to_owned()
    };
    // Names with several factors contain commas, so they are separated by semicolons.
    let separator = if names.iter().any(|name| name.contains(',')) {
        "; "
    } else {
        ", "
    };
    format!("{}{more}{end}", names.join(separator))
}

/// States the number of additional blocks that would decide at least one of the given comparisons.
fn outlook(members: &[&Comparison]) -> String {
    let blocks = members.iter().map(|one| one.blocks).min().unwrap_or(0);
    if blocks < INTERVAL_BLOCKS_MIN {
        let there_are = number::plural(blocks.into(), "block is", "blocks are");
        return format!(
            "; an interval needs {INTERVAL_BLOCKS_MIN} blocks, but only {there_are} complete"
        );
    }
    let least = members.iter().filter_map(|one| one.more_blocks).min();
    least.map_or(String::new(), |more| {
        let blocks = number::plural(more.into(), "more block", "more blocks");
        format!("; about {blocks} would decide at least one of them")
    })
}

/// Explains an undecided comparison whose interval excludes "no change".
fn shared_rate(verdict: &VerdictDocument, members: &[&Comparison]) -> String {
    let one_sided = |one: &Comparison| {
        let change = Change::of(one.metric, &one.effect);
        change.is_some_and(|change| change.is_one_sided())
    };
    if members.iter().any(|one| one_sided(one)) {
        format!(
            "; an interval that excludes zero is not enough, because {} comparisons share the \
         error rate",
            verdict.comparisons.len()
        )
    } else {
        String::new()
    }
}

/// States that the machine is too noisy for some verdicts, and gives the width of their intervals
/// and possible remedies. Returns `None` if more blocks would decide every undecided comparison.
pub fn noise(verdict: &VerdictDocument) -> Option<String> {
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
    let longer = if widest.iter().all(|(metric, _)| metric.is_capacity()) {
        "searches (--search-time)"
    } else {
        "trials (--duration)"
    };
    Some(format!(
        "This machine is too noisy for {} of {}: the 95% intervals reach {}, which hides smaller \
         differences (the margin is {}). More blocks would not help.{others} Use longer \
         {longer}, stop other programs, give the services and the load dedicated cores (cores = \
         \"…\"), or set a larger margin.",
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
