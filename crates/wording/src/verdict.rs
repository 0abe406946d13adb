//! Sentences about all comparisons of an experiment: the first sentence, the reply to "Can you
//! trust the result?", and the basis of the result.

use prony_record::Severity;
use prony_stats::{Comparison, Effect, EffectKind, Metric, Verdict, VerdictDocument};

use crate::change::Change;
use crate::comparisons::claim;
use crate::tone::Tone;
use prony_record::number;

pub use crate::verdict_lines::{noise, verdict_lines};
pub use crate::verdict_word::{verdict_mark, word};

/// Headline of a document whose verdicts are all withheld.
const NO_VERDICT: &str = "No verdict: the measurement can't support one.";
/// Headline of a document without comparisons.
const NO_BLOCK: &str = "No complete block: nothing can be compared.";

/// The first metric that has verdicts.
fn lead_metric(verdict: &VerdictDocument) -> Metric {
    let first = verdict.comparisons.first();
    first.map_or(Metric::RatePerS, |comparison| comparison.metric)
}

/// The metrics that have verdicts, in the order of the document.
pub fn family(verdict: &VerdictDocument) -> Vec<Metric> {
    let mut family = Vec::new();
    for comparison in &verdict.comparisons {
        if !family.contains(&comparison.metric) {
            family.push(comparison.metric);
        }
    }
    family
}

/// The report's first sentence, and an explanation shown below it.
pub fn headline(verdict: &VerdictDocument) -> (String, Option<String>) {
    if let Some(summary) = summary(verdict) {
        return (summary, None);
    }
    let Some(comparison) = verdict.comparisons.first() else {
        return (NO_BLOCK.to_owned(), None);
    };
    let text = || Some(comparison.text.clone());
    match comparison.verdict {
        Verdict::Withheld => (NO_VERDICT.to_owned(), text()),
        Verdict::Undecided => {
            let (name, against) = (&comparison.name, &comparison.against_name);
            let undecided =
                format!("No difference between {name} and {against} has been established yet.");
            (undecided, text())
        }
        // The interval is easier to read below the statement than inside it.
        _ => match claim(verdict, comparison) {
            Some(claim) => (claim.statement, claim.basis),
            None => (comparison.text.clone(), None),
        },
    }
}

/// One sentence about all comparisons of the leading metric. `None` if there is only one
/// comparison, whose own sentence is used.
fn summary(verdict: &VerdictDocument) -> Option<String> {
    let metric = lead_metric(verdict);
    let all: Vec<&Comparison> = verdict
        .comparisons
        .iter()
        .filter(|comparison| comparison.metric == metric)
        .collect();
    if all.len() < 2 {
        return None;
    }
    let with = |verdict| all.iter().filter(move |c| c.verdict == verdict).count();
    let (faster, slower) = (with(Verdict::Faster), with(Verdict::Slower));
    let equivalent = with(Verdict::Equivalent);
    let reference = &all[0].against_name;
    let one_reference = all.iter().all(|c| c.against_name == *reference);
    let n = all.len();
    if with(Verdict::Withheld) == n {
        return Some(NO_VERDICT.to_owned());
    }
    if with(Verdict::Undecided) == n {
        let noun = metric.noun();
        return Some(if one_reference {
            format!("No difference from {reference} has been established yet.")
        } else {
            format!("None of the {n} comparisons of the {noun} has been decided yet.")
        });
    }
    if equivalent == n {
        return Some(format!(
            "All {} variants are equivalent within {}.",
            verdict.variants.len(),
            number::margin(verdict.margin)
        ));
    }
    if one_reference && slower == n {
        return Some(match (metric, span_of(&all)) {
            (Metric::RatePerS, Some((least, most))) => format!(
                "{reference} is the fastest of {} variants; the others are {least} to {most} \
                 slower.",
                n + 1
            ),
            _ => first_of(metric, reference, n + 1),
        });
    }
    if one_reference && faster > 0 {
        let ahead = all.iter().filter(|c| c.verdict == Verdict::Faster);
        let furthest = ahead.max_by(|a, b| distance(&a.effect).total_cmp(&distance(&b.effect)));
        return furthest.map(|c| {
            let by = match (metric, Change::of(metric, &c.effect)) {
                (Metric::RatePerS, Some(change)) if change.is_factor() => {
                    format!(" ({} as fast)", change.amount())
                }
                (Metric::RatePerS, Some(change)) => format!(" by {}", change.amount()),
                _ => String::new(),
            };
            match faster {
                1 if n == faster + slower + equivalent => {
                    format!(
                        "{} is ahead of {reference}{by}; no other variant is.",
                        c.name
                    )
                }
                1 => format!("{} is ahead of {reference}{by}.", c.name),
                _ => format!(
                    "{faster} of {n} variants are ahead of {reference}, {} the furthest{by}.",
                    c.name
                ),
            }
        });
    }
    if one_reference && slower + equivalent == n {
        return Some(format!(
            "No variant is ahead of {reference}; {slower} of {n} {} slower.",
            if slower == 1 { "is" } else { "are" }
        ));
    }
    Some(tally(&all))
}

/// States that the reference is better than all other variants.
fn first_of(metric: Metric, reference: &str, variants: usize) -> String {
    match metric {
        capacity if capacity.is_capacity() => {
            format!("{reference} has the highest capacity of {variants} variants.")
        }
        _ => format!("{reference} is the fastest of {variants} variants."),
    }
}

/// The smallest and the largest change among the comparisons, formatted as in the sentence about
/// each comparison.
fn span_of(all: &[&Comparison]) -> Option<(String, String)> {
    let mut sorted: Vec<&Comparison> = all.to_vec();
    sorted.sort_by(|a, b| distance(&a.effect).total_cmp(&distance(&b.effect)));
    let amount = |one: &Comparison| Some(Change::of(one.metric, &one.effect)?.amount());
    Some((amount(sorted.first()?)?, amount(sorted.last()?)?))
}

/// The size of an effect, regardless of its direction.
fn distance(effect: &Effect) -> f64 {
    match (effect.ratio, effect.difference) {
        (Some(ratio), _) => ratio.ln().abs(),
        (None, Some(difference)) => difference.abs(),
        (None, None) => 0.0,
    }
}

/// Counts verdicts: `Of 3 comparisons: 2 slower, 1 undecided.`
fn tally(all: &[&Comparison]) -> String {
    let order = [
        Verdict::Faster,
        Verdict::Slower,
        Verdict::Equivalent,
        Verdict::Undecided,
        Verdict::Withheld,
    ];
    let parts: Vec<String> = order
        .into_iter()
        .map(|verdict| (verdict, all.iter().filter(|c| c.verdict == verdict).count()))
        .filter(|&(_, count)| count > 0)
        .map(|(verdict, count)| format!("{count} {}", word(verdict)))
        .collect();
    format!("Of {} comparisons: {}.", all.len(), parts.join(", "))
}

/// A statement about the reliability of the result, and its color.
pub fn trust(verdict: &VerdictDocument) -> (Tone, String) {
    let of = |severity| {
        let mut names: Vec<String> = Vec::new();
        for finding in verdict.findings.iter().filter(|f| f.severity == severity) {
            let name = finding.id.words();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let withheld = verdict
        .comparisons
        .iter()
        .filter(|c| c.verdict == Verdict::Withheld);
    let withheld = withheld.count();
    if verdict.comparisons.is_empty() || verdict.blocks == 0 && withheld == 0 {
        return (Tone::Bad, "No: there is no complete block.".to_owned());
    }
    if withheld > 0 || !errors.is_empty() {
        let what = if withheld == verdict.comparisons.len() {
            "No: the verdict is withheld"
        } else if withheld > 0 {
            "Only in part: a verdict is withheld"
        } else {
            "Doubtful: a check reported an error"
        };
        let why = if errors.is_empty() { warnings } else { errors };
        return (Tone::Bad, sentence(what, &why));
    }
    let is_noisy = noise(verdict).is_some();
    if !warnings.is_empty() || is_noisy {
        let what = match (is_noisy, warnings.len()) {
            (true, _) => "With caution: the machine is too noisy for some verdicts".to_owned(),
            (false, 1) => "With caution: there is a warning".to_owned(),
            (false, n) => format!("With caution: there are {n} warnings"),
        };
        return (Tone::Care, sentence(&what, &warnings) + &doubt(verdict));
    }
    (
        Tone::Good,
        "Yes: no check found a reason to doubt it.".to_owned(),
    )
}

/// The reason why an established difference might not apply elsewhere, as a sentence. The doubts
/// about several comparisons differ only in their figures, so the first one is representative.
fn doubt(verdict: &VerdictDocument) -> String {
    let mut doubts = verdict
        .comparisons
        .iter()
        .filter_map(|one| one.doubt.as_deref());
    let first = doubts.next();
    first.map_or(String::new(), |doubt| format!(" {}.", capitalized(doubt)))
}

fn sentence(what: &str, names: &[String]) -> String {
    if names.is_empty() {
        format!("{what}.")
    } else {
        format!("{what} ({}).", names.join(", "))
    }
}

/// The size of the experiment: `5 complete blocks in random order, 20 trials, 95% intervals`.
pub fn basis(verdict: &VerdictDocument) -> String {
    if verdict.blocks == 0 {
        return "no complete block".to_owned();
    }
    let trials: u64 = verdict.variants.iter().map(|v| u64::from(v.trials)).sum();
    format!(
        "{} in random order, {}, 95% intervals",
        number::plural(verdict.blocks.into(), "complete block", "complete blocks"),
        number::plural(trials, "trial", "trials")
    )
}

/// The main effects of factors in words. The sentence about a main effect includes its
/// interactions.
pub fn effects(verdict: &VerdictDocument) -> Vec<String> {
    let mains = verdict
        .effects
        .iter()
        .filter(|effect| effect.kind == EffectKind::Main);
    mains.map(|effect| effect.text.clone()).collect()
}

/// Capitalizes a noun for a heading, but leaves `p99` unchanged.
pub fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_alphabetic() => {
            first.to_uppercase().collect::<String>() + chars.as_str()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use prony_record::{Finding, FindingId};

    use super::*;

    fn verdict(verdicts: &[(Verdict, f64)]) -> VerdictDocument {
        let json = include_str!("../../report/tests/fixtures/ciphers/verdict.json");
        let mut document: VerdictDocument = serde_json::from_str(json).unwrap();
        document.comparisons.truncate(verdicts.len());
        for (comparison, &(verdict, ratio)) in document.comparisons.iter_mut().zip(verdicts) {
            comparison.metric = Metric::RatePerS;
            comparison.verdict = verdict;
            comparison.effect.ratio = Some(ratio);
            (comparison.effect.low, comparison.effect.high) = (None, None);
        }
        document.findings.clear();
        document
    }

    #[test]
    fn a_doubt_is_part_of_the_reply_about_trust_and_not_of_the_first_sentence() {
        let mut document = verdict(&[(Verdict::Slower, 0.9)]);
        let first = &mut document.comparisons[0];
        (first.effect.low, first.effect.high) = (Some(0.89), Some(0.91));
        (first.blocks, first.doubt) = (5, Some("other programs ran".to_owned()));
        let claim = format!("{} is 10.0% slower than {}", first.name, first.against_name);
        document.findings = vec![Finding::stored(
            FindingId::NoisyMachine,
            Severity::Warning,
            "Noise.",
        )];
        let basis = "95% interval 9.0% to 11.0%, 5 blocks";
        assert_eq!(headline(&document), (claim.clone(), Some(basis.to_owned())));
        assert_eq!(
            verdict_lines(&document)[0].text,
            format!("{claim} ({basis})")
        );
        assert_eq!(
            trust(&document).1,
            "With caution: there is a warning (noisy machine). Other programs ran."
        );
    }

    #[test]
    fn the_summary_names_the_fastest_variant_and_its_lead() {
        use Verdict::{Equivalent, Faster, Slower, Undecided, Withheld};
        for ((first, second), text) in [
            (
                ((Slower, 0.95), (Slower, 0.881)),
                "aes-128 is the fastest of 3 variants; the others are 5.0% to 11.9% slower.",
            ),
            (
                ((Faster, 3.8), (Slower, 0.9)),
                "aes-256 is ahead of aes-128 (3.8 × as fast); no other variant is.",
            ),
            (
                ((Faster, 1.2), (Slower, 0.9)),
                "aes-256 is ahead of aes-128 by 20.0%; no other variant is.",
            ),
            (
                ((Undecided, 1.0), (Faster, 1.1)),
                "chacha20 is ahead of aes-128 by 10.0%.",
            ),
            (
                ((Faster, 1.2), (Faster, 1.1)),
                "2 of 2 variants are ahead of aes-128, aes-256 the furthest by 20.0%.",
            ),
            (
                ((Slower, 0.9), (Equivalent, 1.0)),
                "No variant is ahead of aes-128; 1 of 2 is slower.",
            ),
            (
                ((Equivalent, 1.0), (Equivalent, 1.0)),
                "All 3 variants are equivalent within ±2%.",
            ),
            (
                ((Undecided, 1.0), (Undecided, 1.0)),
                "No difference from aes-128 has been established yet.",
            ),
            (((Withheld, 1.0), (Withheld, 1.0)), NO_VERDICT),
            (
                ((Slower, 0.9), (Undecided, 1.0)),
                "Of 2 comparisons: 1 slower, 1 undecided.",
            ),
        ] {
            assert_eq!(summary(&verdict(&[first, second])).unwrap(), text);
        }
        assert_eq!(summary(&verdict(&[(Slower, 0.9)])), None);
    }

    #[test]
    fn noise_is_reported_once_with_its_size_and_reduces_trust() {
        let mut document = verdict(&[(Verdict::Undecided, 0.98), (Verdict::Undecided, 1.1)]);
        for one in &mut document.comparisons {
            (one.effect.low, one.effect.high, one.more_blocks) = (Some(0.7), Some(1.24), None);
        }
        let text = noise(&document).unwrap();
        assert!(text.contains("for 2 of 2 verdicts"), "{text}");
        assert!(text.contains("reach ±27% (request rate)"), "{text}");
        assert!(text.contains("--duration"), "{text}");
        assert_eq!(trust(&document).0, Tone::Care);
        let all = verdict_lines(&document);
        assert_eq!((all.len(), all[0].summarized.len()), (1, 2), "{all:?}");
        for one in &mut document.comparisons {
            one.metric = Metric::CapacityPerS;
        }
        let text = noise(&document).unwrap();
        assert!(
            text.contains("Use longer searches (--search-time)"),
            "{text}"
        );
        // More blocks would decide every comparison of this document.
        for one in &mut document.comparisons {
            one.more_blocks = Some(4);
        }
        assert_eq!(noise(&document), None);
        assert_eq!(trust(&document).0, Tone::Good);
        let text = &verdict_lines(&document)[0].text;
        assert!(text.contains("about 4 more blocks would decide"), "{text}");
    }

    #[test]
    fn trust_follows_the_most_severe_finding() {
        let mut document = verdict(&[(Verdict::Slower, 0.9)]);
        assert_eq!(trust(&document).0, Tone::Good);
        let finding = |severity| Finding::stored(FindingId::Errors, severity, "");
        document.findings.push(finding(Severity::Note));
        assert_eq!(trust(&document).0, Tone::Good);
        document.findings.push(finding(Severity::Warning));
        assert_eq!(trust(&document).0, Tone::Care);
        document.findings.push(finding(Severity::Error));
        let (kind, text) = trust(&document);
        assert_eq!(kind, Tone::Bad);
        assert_eq!(
            text,
            "Doubtful: a check reported an error (failed requests)."
        );
        document.comparisons[0].verdict = Verdict::Withheld;
        assert!(
            trust(&document)
                .1
                .starts_with("No: the verdict is withheld")
        );
    }
}
