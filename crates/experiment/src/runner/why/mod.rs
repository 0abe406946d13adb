//! Possible explanations of the difference between two variants.
//!
//! The input is an evaluation with its movements (computed by `prony-stats`), the trials, and the
//! findings. The output lists, for each difference, the metrics that changed along with it,
//! beginning with the best possible explanation, and the limit of each variant. The output
//! describes correlated changes and never claims a cause. docs/method.md defines the order.

mod limits;
#[cfg(test)]
mod tests;

use prony_record::Finding;
use prony_record::sampling::WaitReason;
use prony_stats::{
    ChangedFunction, Comparison, Design, Direction, Effect, Evaluation, Explanation, FunctionRow,
    FunctionTable, Metric, MetricRole, MovedMetric, Movement, MovementRole, OneSidedFinding,
    RateParts, Verdict, changed_cost,
};
use prony_wording::why::WhyFacts;

use crate::runner::TrialResult;
use crate::runner::service_cpu::{ServiceEvaluations, evaluation_of};

pub(crate) use limits::{has_delayed_acks, limit_of, writes_to_disk};

/// A finding, and the indexes of the variants that it concerns.
pub(crate) type FindingOfVariants<'a> = (&'a Finding, &'a [usize]);

/// Evaluations of CPU time and waiting per request by parts of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostEvaluations<'a> {
    /// Evaluations by service.
    pub(crate) services: &'a ServiceEvaluations,
    /// Tables by function.
    pub(crate) functions: &'a [FunctionTable],
    /// Tables of waiting by function.
    pub(crate) waits: &'a [FunctionTable],
}

/// Returns the changes that accompany each established difference. There is one entry for each pair
/// of a variant and its baseline, or two if the pair's metrics point in opposite directions. A pair
/// without an established difference has an entry only if the CPU time, the number of instructions
/// per request, the CPU time of a function or its waiting changed significantly. A pair with the verdict `equivalent` has none.
pub(crate) fn explanations(
    design: &Design,
    evaluation: &Evaluation,
    results: &[TrialResult],
    findings: &[FindingOfVariants<'_>],
    costs: CostEvaluations<'_>,
) -> Vec<Explanation> {
    let mut groups: Vec<ComparisonGroup<'_>> = Vec::new();
    let differing = evaluation.comparisons.iter();
    for comparison in differing.filter(|c| c.verdict != Verdict::Equivalent) {
        let slower_side = slower_side(comparison);
        let is_withheld = comparison.verdict == Verdict::Withheld;
        let same = |group: &&mut ComparisonGroup<'_>| {
            let first = group.comparisons[0];
            (group.slower_side, group.is_withheld) == (slower_side, is_withheld)
                && (&first.levels, &first.against) == (&comparison.levels, &comparison.against)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.comparisons.push(comparison),
            None => groups.push(ComparisonGroup {
                slower_side,
                is_withheld,
                comparisons: vec![comparison],
            }),
        }
    }
    let entries = groups.iter().filter_map(|group| {
        let first = group.comparisons[0];
        let index = |levels| design.variants.iter().position(|of| of == levels);
        let sides = [index(&first.levels), index(&first.against)];
        let input = WhyInput {
            design,
            evaluation,
            costs,
            results,
            findings,
            sides: sides.into_iter().flatten().collect(),
        };
        let why = group.why(&input);
        let cost_changed = changed_cost(&why.moved).is_some();
        let has_reason = cost_changed || !why.functions.is_empty() || !why.waits.is_empty();
        (group.slower_side != SlowerSide::Unknown || has_reason).then_some(why)
    });
    entries.collect()
}

/// The slower of the two variants, according to a verdict or, if it is withheld, to the interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlowerSide {
    Variant,
    Baseline,
    /// No difference is established.
    Unknown,
}

fn slower_side(comparison: &Comparison) -> SlowerSide {
    match comparison.verdict {
        Verdict::Slower => SlowerSide::Variant,
        Verdict::Faster => SlowerSide::Baseline,
        Verdict::Equivalent | Verdict::Undecided => SlowerSide::Unknown,
        Verdict::Withheld => {
            let effect = &comparison.effect;
            let is_more = effect.low.is_some_and(|low| low > 1.0);
            let is_less = effect.high.is_some_and(|high| high < 1.0);
            match (is_more, is_less, comparison.metric.direction()) {
                (true, _, Direction::Lower) | (_, true, Direction::Higher) => SlowerSide::Variant,
                (true, _, Direction::Higher) | (_, true, Direction::Lower) => SlowerSide::Baseline,
                _ => SlowerSide::Unknown,
            }
        }
    }
}

/// Comparisons of the same two variants whose verdicts point in the same direction.
struct ComparisonGroup<'a> {
    slower_side: SlowerSide,
    /// True if the verdicts are withheld.
    is_withheld: bool,
    comparisons: Vec<&'a Comparison>,
}

/// Data from which an explanation is derived.
struct WhyInput<'a> {
    design: &'a Design,
    evaluation: &'a Evaluation,
    costs: CostEvaluations<'a>,
    results: &'a [TrialResult],
    findings: &'a [FindingOfVariants<'a>],
    /// Indexes of the variant and its baseline.
    sides: Vec<usize>,
}

impl ComparisonGroup<'_> {
    fn why(&self, input: &WhyInput<'_>) -> Explanation {
        let first = self.comparisons[0];
        let metrics: Vec<Metric> = self.comparisons.iter().map(|c| c.metric).collect();
        let movements: Vec<&Movement> = input
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
        let moved = ranked(
            &movements,
            &self.service_movements(input),
            (self.slower_side, &first.against_name),
        );
        let rate_parts = self.rate_parts(input, &movements);
        let names = [&first.name, &first.against_name];
        let limits = input.sides.iter().zip(names).map(|(&side, name)| {
            let trials = input.results.iter().filter(|r| r.variant == side);
            limit_of(name, &trials.collect::<Vec<_>>())
        });
        let findings = one_sided(input, names);
        let unclear = of_kind(|m| !m.moved && !m.same);
        let mut explanation = Explanation {
            levels: first.levels.clone(),
            against: first.against.clone(),
            name: first.name.clone(),
            against_name: first.against_name.clone(),
            text: String::new(),
            metrics,
            limits: limits.collect(),
            findings,
            rate_parts,
            moved,
            functions: self.changed_functions(input.costs.functions),
            waits: self.changed_functions(input.costs.waits),
            // A metric that is zero for both isn't worth mentioning.
            same: of_kind(|m| m.same && m.means != (0.0, 0.0)),
            unclear,
        };
        let facts = WhyFacts {
            explanation: &explanation,
            comparisons: &self.comparisons,
            has_slower: self.slower_side != SlowerSide::Unknown,
            is_withheld: self.is_withheld,
            any_measured: !movements.is_empty(),
        };
        explanation.text = prony_wording::why::sentences(&facts);
        explanation
    }

    /// Divides the change of the rate into the part that follows from the CPU time per request and
    /// the rest. This is an arithmetic identity, not an estimate: the rate is the CPU time used per
    /// second, divided by the CPU time per request.
    fn rate_parts(&self, input: &WhyInput<'_>, movements: &[&Movement]) -> Option<RateParts> {
        let mut comparisons = self.comparisons.iter();
        let rate = comparisons.find(|c| c.metric == Metric::RatePerS)?;
        if self.slower_side == SlowerSide::Unknown {
            return None;
        }
        let whole = |explained| {
            Some(RateParts {
                rate: rate.effect.ratio?,
                explained,
                unexplained: rate.effect.clone(),
                is_rest_established: true,
            })
        };
        let cpu = movements
            .iter()
            .find(|m| m.metric == Metric::ServerCpuUsPerRequest);
        let Some(cpu) = cpu.filter(|cpu| cpu.moved && !cpu.same) else {
            return whole(None);
        };
        let used = |it: &TrialResult| {
            let value = |metric| it.values.get(metric).copied();
            Some(value(&Metric::RatePerS)? * value(&Metric::ServerCpuUsPerRequest)?)
        };
        let used = evaluation_of(input.design, input.evaluation, input.results, used)?;
        let mut rest = used.movements.into_iter();
        let rest = rest.find(|m| {
            m.metric == Metric::ServerCpuUsPerRequest
                && (&m.levels, &m.against) == (&rate.levels, &rate.against)
        })?;
        Some(RateParts {
            rate: rate.effect.ratio?,
            explained: Some(Effect {
                ratio: Some(cpu.effect.ratio?.recip()),
                difference: None,
                low: Some(cpu.effect.high?.recip()),
                high: Some(cpu.effect.low?.recip()),
            }),
            is_rest_established: rest.moved && !rest.same,
            unexplained: rest.effect,
        })
    }

    /// Returns the functions whose cost per request certainly changed, the largest certain change
    /// first. Waits of idle threads are not listed.
    fn changed_functions(&self, tables: &[FunctionTable]) -> Vec<ChangedFunction> {
        /// Maximum number of functions of an explanation. The table of functions has all of them.
        const FUNCTIONS_MAX: usize = 5;

        let first = self.comparisons[0];
        let several = tables.len() > 1;
        let mut changed = Vec::new();
        for table in tables {
            let is_part_of_requests = |row: &&FunctionRow| {
                let reason = row.function.waits_for;
                let is_part = reason.is_none_or(WaitReason::is_part_of_requests);
                is_part && !row.function.module.is_empty()
            };
            for row in table.functions.iter().filter(is_part_of_requests) {
                let differences = row.differences.iter().filter(|it| {
                    (&it.levels, &it.against) == (&first.levels, &first.against)
                        && it.is_established()
                });
                changed.extend(differences.map(|difference| {
                    let changed = ChangedFunction {
                        service: several.then(|| table.service.clone()),
                        function: row.function.clone(),
                        us: difference.us,
                        low_us: difference.low_us,
                        high_us: difference.high_us,
                        share: difference.share,
                        text: String::new(),
                    };
                    let text = prony_wording::changed_function(&changed);
                    (difference.certain_us(), ChangedFunction { text, ..changed })
                }));
            }
        }
        changed.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let first = changed.into_iter().take(FUNCTIONS_MAX);
        first.map(|(_, changed)| changed).collect()
    }

    /// Returns the movements of the CPU time of each service, with the service's name.
    fn service_movements<'a>(&self, input: &WhyInput<'a>) -> Vec<(&'a str, &'a Movement)> {
        let first = self.comparisons[0];
        let services = input.costs.services.iter();
        let all = services.flat_map(|(name, it)| it.movements.iter().map(|m| (name.as_str(), m)));
        all.filter(|(_, m)| (&m.levels, &m.against) == (&first.levels, &first.against))
            .collect()
    }
}

/// Sorts the metrics that changed: first those that could explain the difference, then those that
/// are unrelated to it, then those that contradict it. Within each group, the largest change comes
/// first.
fn ranked(
    movements: &[&Movement],
    of_services: &[(&str, &Movement)],
    (slower_side, against): (SlowerSide, &str),
) -> Vec<MovedMetric> {
    let of_all = movements.iter().map(|m| (None, *m));
    let of_services = of_services.iter().map(|(service, m)| (Some(*service), *m));
    let mut moved: Vec<(MovementRole, Option<&str>, &Movement)> = of_all
        .chain(of_services)
        .filter(|(_, m)| m.moved && !m.same)
        .map(|(service, m)| (part(m, slower_side), service, m))
        .collect();
    moved.sort_by(|(a, _, x), (b, _, y)| a.cmp(b).then(y.least.total_cmp(&x.least)));
    let ranked = moved
        .into_iter()
        .map(|(part, service, movement)| MovedMetric {
            metric: movement.metric,
            service: service.map(str::to_owned),
            part,
            value: movement.means.0,
            against_value: movement.means.1,
            effect: movement.effect.clone(),
            blocks: movement.blocks,
            text: String::new(),
        });
    let texted = |moved: MovedMetric| MovedMetric {
        text: prony_wording::movement(&moved, against),
        ..moved
    };
    ranked.map(texted).collect()
}

/// Returns the role of a changed metric in explaining the difference.
fn part(movement: &Movement, slower_side: SlowerSide) -> MovementRole {
    let slower_has_more = match slower_side {
        SlowerSide::Variant => movement.is_more(),
        SlowerSide::Baseline => !movement.is_more(),
        SlowerSide::Unknown => return MovementRole::Aside,
    };
    match (movement.metric.role(), slower_has_more) {
        (MetricRole::Cost, true) | (MetricRole::Saving, false) => MovementRole::With,
        (MetricRole::Cost, false) | (MetricRole::Saving, true) => MovementRole::Against,
        (MetricRole::Aside | MetricRole::Result, _) => MovementRole::Aside,
    }
}

/// Returns the findings that could explain a difference because only one of the variants has them.
fn one_sided(input: &WhyInput<'_>, names: [&String; 2]) -> Vec<OneSidedFinding> {
    let mut found: Vec<OneSidedFinding> = Vec::new();
    for (finding, _) in input.findings {
        // Each variant may have a finding of its own with the same ID.
        let same = input.findings.iter().filter(|(it, _)| it.id == finding.id);
        let has = |side: &usize| same.clone().any(|(_, variants)| variants.contains(side));
        let which: Vec<bool> = input.sides.iter().map(has).collect();
        let name = match which.as_slice() {
            [true, false] => names[0],
            [false, true] => names[1],
            _ => continue,
        };
        let one = OneSidedFinding {
            id: finding.id.to_string(),
            name: name.clone(),
        };
        // Other findings qualify the measurement or are reported as limits.
        let explains = finding.info().is_some_and(|info| info.explains_difference);
        if explains && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}
