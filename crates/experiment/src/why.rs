//! Why two variants differ, as far as it was seen.
//!
//! Enters: an evaluation with its movements (the statistics are `prony-stats`'), the trials, the
//! findings. Leaves: for each difference what moved with it, in the order in which it could explain
//! it, and what set the speed of either side. It states what moved along and claims no cause.
//! docs/method.md has the rule of the order.

mod capacity;
mod limits;
#[cfg(test)]
mod tests;

use prony_record::Finding;
use prony_stats::{
    Change, Comparison, Design, Effect, Evaluation, Explanation, Metric, MetricRole, MovedMetric,
    Movement, MovementRole, OneSidedFinding, Verdict,
};

use crate::runner::TrialResult;

pub(crate) use capacity::capacity;
pub use capacity::{Capacity, CoreParties, CoreUse, Neighbour};
pub(crate) use limits::{limit_of, writes_to_disk};

/// A finding and the variants that it is about, by their places in the plan.
pub(crate) type About<'a> = (&'a Finding, &'a [usize]);

/// The changes that were seen along with each established difference: for each variant and baseline
/// one entry, or two where its metrics point in opposite ways. A pair without an established
/// difference has an entry only if the CPU time of a request changed beyond doubt; one that is
/// `equivalent` has none.
pub(crate) fn of(
    design: &Design,
    evaluation: &Evaluation,
    results: &[TrialResult],
    findings: &[About<'_>],
) -> Vec<Explanation> {
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
    let told = groups.iter().filter_map(|group| {
        let first = group.comparisons[0];
        let place = |levels| design.variants.iter().position(|of| of == levels);
        let sides = [place(&first.levels), place(&first.against)];
        let seen = Seen {
            evaluation,
            results,
            findings,
            sides: sides.into_iter().flatten().collect(),
        };
        let why = group.told(&seen);
        let cpu_changed = why.moved.iter().any(|moved| is_cpu(moved.metric));
        (group.way != Way::Open || cpu_changed).then_some(why)
    });
    told.collect()
}

/// Whether it is CPU time of the services for each request.
fn is_cpu(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::ServerCpuUsPerRequest
            | Metric::ServerCpuUserUsPerRequest
            | Metric::ServerCpuSystemUsPerRequest
    )
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
    fn told(&self, seen: &Seen<'_>) -> Explanation {
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
            limit_of(name, &trials.collect::<Vec<_>>())
        });
        let findings = one_sided(seen, names);
        let unclear = of_kind(|m| !m.moved && !m.same);
        Explanation {
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
        moved: &[MovedMetric],
        findings: &[OneSidedFinding],
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
    fn best(&self, movements: &[&Movement], moved: &[MovedMetric], unclear: usize) -> String {
        if movements.is_empty() {
            return "Nothing else was measured in enough blocks to tell what changed.".to_owned();
        }
        if moved.is_empty() && unclear > 0 {
            return "The other measurements are too noisy to tell what changed with it.".to_owned();
        }
        if moved.is_empty() {
            return "Nothing else that was measured changed.".to_owned();
        }
        let best = &moved[0];
        match (self.way, best.part) {
            (Way::Open, _) => {
                let cpu = moved
                    .iter()
                    .find(|moved| is_cpu(moved.metric))
                    .unwrap_or(best);
                format!(
                    "No difference is established here, but the CPU time changed beyond doubt: {}.",
                    cpu.text
                )
            }
            (_, MovementRole::With) => {
                format!("The largest change that goes with it: {}.", best.text)
            }
            _ => {
                "Nothing that was measured changed in a way that could make the slower one slower; \
                  see what limited it."
                    .to_owned()
            }
        }
    }

    /// What the CPU time of a request alone would make of the rate: an identity, no estimate.
    fn accounted(&self, moved: &[MovedMetric]) -> Option<String> {
        if self.way == Way::Open {
            return None;
        }
        let rate = self
            .comparisons
            .iter()
            .find(|c| c.metric == Metric::RatePerS)?;
        let cpu = moved
            .iter()
            .find(|m| m.metric == Metric::ServerCpuUsPerRequest && m.part == MovementRole::With)?;
        let (low, high) = (cpu.effect.high?.recip(), cpu.effect.low?.recip());
        let alone = Effect {
            ratio: Some(cpu.effect.ratio?.recip()),
            difference: None,
            low: Some(low),
            high: Some(high),
        };
        Some(format!(
            "Server CPU per request changed by {}; at the same CPU use in all, that alone would \
             change the rate by {}. The rate changed by {}.",
            Change::of(cpu.metric, &cpu.effect)?.signed(),
            Change::of(rate.metric, &alone)?.with_interval(),
            Change::of(rate.metric, &rate.effect)?.signed(),
        ))
    }
}

/// What moved, the best candidates first: what goes with the difference, then what bears on none,
/// then what speaks against it; within each the largest change that the interval can't deny.
fn ranked(movements: &[&Movement], way: Way) -> Vec<MovedMetric> {
    let mut moved: Vec<(MovementRole, &Movement)> = movements
        .iter()
        .filter(|m| m.moved && !m.same)
        .map(|m| (part(m, way), *m))
        .collect();
    moved.sort_by(|(a, x), (b, y)| a.cmp(b).then(y.least.total_cmp(&x.least)));
    let told = moved.into_iter().map(|(part, movement)| MovedMetric {
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
fn part(movement: &Movement, way: Way) -> MovementRole {
    let slower_has_more = match way {
        Way::VariantSlower => movement.is_more(),
        Way::VariantFaster => !movement.is_more(),
        Way::Open => return MovementRole::Aside,
    };
    match (movement.metric.role(), slower_has_more) {
        (MetricRole::Cost, true) | (MetricRole::Saving, false) => MovementRole::With,
        (MetricRole::Cost, false) | (MetricRole::Saving, true) => MovementRole::Against,
        (MetricRole::Aside | MetricRole::Result, _) => MovementRole::Aside,
    }
}

/// The findings that only one side has.
fn one_sided(seen: &Seen<'_>, names: [&String; 2]) -> Vec<OneSidedFinding> {
    let mut found: Vec<OneSidedFinding> = Vec::new();
    for (finding, variants) in seen.findings {
        let has = |side: &usize| variants.contains(side);
        let which: Vec<bool> = seen.sides.iter().map(has).collect();
        let name = match which.as_slice() {
            [true, false] => names[0],
            [false, true] => names[1],
            _ => continue,
        };
        let one = OneSidedFinding {
            id: finding.id.to_string(),
            name: name.clone(),
        };
        // The others qualify the measurement, or are reported as limits.
        let explains = finding.info().is_some_and(|info| info.explains_difference);
        if explains && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}
