//! Why two variants differ, as far as it was seen.
//!
//! Enters: an evaluation with its movements (the statistics are `prony-stats`'), the trials, the
//! findings. Leaves: for each difference what moved with it, in the order in which it could explain
//! it, and what set the speed of either side. It states what moved along and claims no cause.
//! docs/measurement.md has the rule of the order.

mod limits;
#[cfg(test)]
mod tests;

use prony_record::Finding;
use prony_stats::{
    Bearing, Comparison, Design, Evaluation, Metric, Moved, Movement, OneSided, Part, Verdict, Why,
};

use crate::runner::TrialResult;

pub(crate) use limits::capacity;
pub use limits::{Capacity, CoreUse};

/// Findings that may explain a difference when only one of two variants has them. The others
/// qualify the measurement, or are told as limits.
const EXPLAINING: [&str; 9] = [
    "crypto-unaccelerated",
    "negotiation-differs",
    "connections-not-reused",
    "errors",
    "requests-retried",
    "streams-limited",
    "service-ended",
    "port-exhaustion",
    "not-stationary",
];

/// A finding and the variants that it is about, by their places in the plan.
pub(crate) type About<'a> = (&'a Finding, &'a [usize]);

/// What was seen beside each difference: for each variant and baseline one entry, or two where its
/// metrics point in opposite ways. Comparisons that are `equivalent` have none.
pub(crate) fn of(
    design: &Design,
    evaluation: &Evaluation,
    results: &[TrialResult],
    findings: &[About<'_>],
) -> Vec<Why> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let differing = evaluation.comparisons.iter();
    for comparison in differing.filter(|c| c.verdict != Verdict::Equivalent) {
        let way = way(comparison);
        let same = |group: &&mut Group<'_>| {
            let first = group.comparisons[0];
            group.way == way
                && (&first.levels, &first.against) == (&comparison.levels, &comparison.against)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.comparisons.push(comparison),
            None => groups.push(Group {
                way,
                comparisons: vec![comparison],
            }),
        }
    }
    let told = groups.iter().map(|group| {
        let first = group.comparisons[0];
        let place = |levels| design.variants.iter().position(|of| of == levels);
        let sides = [place(&first.levels), place(&first.against)];
        let seen = Seen {
            evaluation,
            results,
            findings,
            sides: sides.into_iter().flatten().collect(),
        };
        group.told(&seen)
    });
    told.collect()
}

/// Which of the two is the slower one, where a verdict says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    VariantSlower,
    VariantFaster,
    /// No difference is established.
    Open,
}

fn way(comparison: &Comparison) -> Way {
    match comparison.verdict {
        Verdict::Slower => Way::VariantSlower,
        Verdict::Faster => Way::VariantFaster,
        Verdict::Equivalent | Verdict::Undecided | Verdict::Withheld => Way::Open,
    }
}

/// Comparisons of the same two variants that point the same way.
struct Group<'a> {
    way: Way,
    comparisons: Vec<&'a Comparison>,
}

/// All that there is to be said of.
struct Seen<'a> {
    evaluation: &'a Evaluation,
    results: &'a [TrialResult],
    findings: &'a [About<'a>],
    /// The variant's place, then its baseline's.
    sides: Vec<usize>,
}

impl Group<'_> {
    fn told(&self, seen: &Seen<'_>) -> Why {
        let first = self.comparisons[0];
        let metrics: Vec<Metric> = self.comparisons.iter().map(|c| c.metric).collect();
        let movements: Vec<&Movement> = seen
            .evaluation
            .movements
            .iter()
            .filter(|m| (&m.levels, &m.against) == (&first.levels, &first.against))
            .filter(|m| !metrics.contains(&m.metric))
            .collect();
        let of_kind = |wanted: fn(&Movement) -> bool| {
            let kind = movements.iter().filter(|m| wanted(m));
            kind.map(|m| m.metric).collect::<Vec<_>>()
        };
        let moved = ranked(&movements, self.way);
        let names = [&first.name, &first.against_name];
        let limits = seen.sides.iter().zip(names).map(|(&side, name)| {
            let trials = seen.results.iter().filter(|r| r.variant == side);
            limits::of(name, &trials.collect::<Vec<_>>())
        });
        let findings = one_sided(seen, names);
        let unclear = of_kind(|m| !m.moved && !m.same);
        Why {
            levels: first.levels.clone(),
            against: first.against.clone(),
            name: first.name.clone(),
            against_name: first.against_name.clone(),
            text: self.text(&movements, &moved, &findings, unclear.len()),
            metrics,
            limits: limits.collect(),
            findings,
            moved,
            same: of_kind(|m| m.same),
            unclear,
        }
    }

    /// The whole in a few sentences.
    fn text(
        &self,
        movements: &[&Movement],
        moved: &[Moved],
        findings: &[OneSided],
        unclear: usize,
    ) -> String {
        let mut text = self.best(movements, moved, unclear);
        if let Some(accounted) = self.accounted(moved) {
            text = format!("{text} {accounted}");
        }
        for finding in findings {
            text = format!(
                "{text} Only {} has the finding {}.",
                finding.name, finding.id
            );
        }
        text
    }

    /// The best candidate, or why there is none.
    fn best(&self, movements: &[&Movement], moved: &[Moved], unclear: usize) -> String {
        if movements.is_empty() {
            return "Nothing else was measured in enough blocks to say what moved.".to_owned();
        }
        if moved.is_empty() && unclear > 0 {
            return "What else was measured is too noisy to say what moved with it.".to_owned();
        }
        if moved.is_empty() {
            return "Nothing else that was measured moved.".to_owned();
        }
        let best = &moved[0];
        match (self.way, best.part) {
            (Way::Open, _) => format!(
                "No difference is established here, so that none is explained; what moved all the \
                 same, first of all: {}.",
                best.text
            ),
            (_, Part::With) => format!(
                "What moved most with it: {}. It moved with the difference, which does not say that \
                 it caused it.",
                best.text
            ),
            _ => "Of what was measured nothing moved that could make the slower one slower; see what \
                  limited it."
                .to_owned(),
        }
    }

    /// What the CPU time of a request alone would make of the rate: an identity, no estimate.
    fn accounted(&self, moved: &[Moved]) -> Option<String> {
        if self.way == Way::Open {
            return None;
        }
        let rate = self
            .comparisons
            .iter()
            .find(|c| c.metric == Metric::RatePerS)?;
        let cpu = moved
            .iter()
            .find(|m| m.metric == Metric::ServerCpuUsPerRequest && m.part == Part::With)?;
        let alone = cpu.effect.ratio?.recip();
        let (low, high) = (cpu.effect.high?.recip(), cpu.effect.low?.recip());
        Some(format!(
            "Server CPU per request was {:.2} ×: had both used as much CPU in all, that alone would \
             make the rate {alone:.2} × ({low:.2} to {high:.2}) that of {}; it was {:.2} ×.",
            cpu.effect.ratio?, rate.against_name, rate.effect.ratio?
        ))
    }
}

/// What moved, the best candidates first: what goes with the difference, then what bears on none,
/// then what speaks against it; within each the largest change that the interval can't deny.
fn ranked(movements: &[&Movement], way: Way) -> Vec<Moved> {
    let mut moved: Vec<(Part, &Movement)> = movements
        .iter()
        .filter(|m| m.moved && !m.same)
        .map(|m| (part(m, way), *m))
        .collect();
    moved.sort_by(|(a, x), (b, y)| a.cmp(b).then(y.least.total_cmp(&x.least)));
    let told = moved.into_iter().map(|(part, movement)| Moved {
        metric: movement.metric,
        part,
        value: movement.means.0,
        against_value: movement.means.1,
        effect: movement.effect.clone(),
        blocks: movement.blocks,
        text: movement.text.clone(),
    });
    told.collect()
}

/// How a movement goes with a difference.
fn part(movement: &Movement, way: Way) -> Part {
    let slower_has_more = match way {
        Way::VariantSlower => movement.is_more(),
        Way::VariantFaster => !movement.is_more(),
        Way::Open => return Part::Aside,
    };
    match (movement.metric.bearing(), slower_has_more) {
        (Bearing::Cost, true) | (Bearing::Saving, false) => Part::With,
        (Bearing::Cost, false) | (Bearing::Saving, true) => Part::Against,
        (Bearing::Aside | Bearing::Result, _) => Part::Aside,
    }
}

/// The findings that only one side has.
fn one_sided(seen: &Seen<'_>, names: [&String; 2]) -> Vec<OneSided> {
    let mut found: Vec<OneSided> = Vec::new();
    for (finding, variants) in seen.findings {
        let has = |side: &usize| variants.contains(side);
        let which: Vec<bool> = seen.sides.iter().map(has).collect();
        let name = match which.as_slice() {
            [true, false] => names[0],
            [false, true] => names[1],
            _ => continue,
        };
        let one = OneSided {
            id: finding.id.clone(),
            name: name.clone(),
        };
        if EXPLAINING.contains(&finding.id.as_str()) && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}
