//! Evaluation of trials: from a design and measurements to verdicts.
//!
//! All looks are replayed from the first. A hypothesis that was rejected at one look stays rejected
//! unless later blocks contradict the rejection. Its share of the error rate then becomes available
//! to the hypotheses that are still open (Holm 1979; with looks, Ye et al. 2013 and Maurer and
//! Bretz 2013). The same trials therefore always give the same verdicts, regardless of earlier
//! evaluations.

use crate::comparison::{Comparison, Description, Effect, Verdict, WithheldBecause};
use crate::design::{Design, DesignError, Pair};
use crate::effects::{self, FactorEffect};
use crate::estimate::{Estimate, Interval};
use crate::forecast::{FutureLook, Outlook};
use crate::looks::{AlphaTable, Look, looks_until, spent_share};
use crate::metric::{Direction, Metric};
use crate::movement::{self, Movement};
use crate::pairing::{self, PairedValues};
use crate::summary::{self, VariantSummary};
use crate::trials::{Block, Trials};

/// Results of an experiment so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Number of complete blocks.
    pub blocks: u32,
    /// Looks taken so far, including the current one. They must be stored with the results and
    /// passed to the next call after blocks have been added.
    pub looks: Vec<Look>,
    /// Comparisons of the family, ordered by variant, then by metric.
    pub comparisons: Vec<Comparison>,
    /// Comparisons on metrics outside the family for which there are measurements.
    pub described: Vec<Description>,
    /// Changes from each baseline to its variants in the metrics that could explain a difference in
    /// speed.
    pub movements: Vec<Movement>,
    /// Main effects and two-way interactions, if the variants are all combinations of at least two
    /// factors.
    pub effects: Vec<FactorEffect>,
    /// Summary of each variant.
    pub variants: Vec<VariantSummary>,
    /// Number of comparisons that share the error rate.
    pub tested: u32,
    planned_next: Option<u32>,
}

impl Evaluation {
    /// Returns true if no comparison is undecided, so no more blocks are needed.
    pub fn decided(&self) -> bool {
        self.comparisons
            .iter()
            .all(|comparison| comparison.verdict != Verdict::Undecided)
    }

    /// Returns true if all verdicts are withheld.
    pub fn withheld(&self) -> bool {
        self.comparisons
            .iter()
            .all(|comparison| comparison.verdict == Verdict::Withheld)
    }

    /// Returns the total number of complete blocks at which to evaluate again, or `None` if all
    /// comparisons are decided or the plan has no more blocks.
    pub fn next_look(&self) -> Option<u32> {
        self.planned_next.filter(|_| !self.decided())
    }

    /// Withholds the verdicts of the comparisons for which `distorted` returns true. Also removes
    /// the factor effects on the same metrics, because factor effects average over all variants,
    /// including the distorted ones.
    pub fn withhold(&mut self, distorted: impl Fn(&Comparison) -> bool, because: &WithheldBecause) {
        for comparison in &mut self.comparisons {
            if distorted(comparison) {
                comparison.withhold(because.clone());
                let metric = comparison.metric;
                self.effects.retain(|effect| effect.metric != metric);
            }
        }
    }

    /// Removes the factor effects for which `distorted` returns true.
    pub fn withhold_effects(&mut self, distorted: impl Fn(&FactorEffect) -> bool) {
        self.effects.retain(|effect| !distorted(effect));
    }
}

/// Evaluates the complete blocks in `trials`.
///
/// Each call at a new number of blocks is a look and spends error rate. Call it at `blocks_min`,
/// then at each [`Evaluation::next_look`], and once more if the experiment ends early. Never call
/// it for a live display. `earlier` contains the looks of the previous evaluation
/// ([`Evaluation::looks`]). It may be empty if all earlier looks were planned.
///
/// # Errors
/// Returns an error if the design contradicts itself.
pub fn evaluate(
    design: &Design,
    trials: &Trials,
    earlier: &[Look],
) -> Result<Evaluation, DesignError> {
    evaluate_with(&mut AlphaTable::new(), design, trials, earlier)
}

/// Like [`evaluate`], but reuses the significance levels of earlier calls. Computing them takes
/// most of the time.
///
/// # Errors
///
/// Returns an error if the design contradicts itself.
pub fn evaluate_with(
    table: &mut AlphaTable,
    design: &Design,
    trials: &Trials,
    earlier: &[Look],
) -> Result<Evaluation, DesignError> {
    let pairs = design.pairs()?;
    let complete = trials.complete(design.variants.len());
    let count = u32::try_from(complete.len()).unwrap_or(u32::MAX);
    let looks = looks_until(design, earlier, count);
    let used = looks.last().map_or(count, |look| look.blocks);
    let blocks = &complete[..used as usize];

    let measured =
        |pair: Pair| !trials.leaves_out(pair.variant) && !trials.leaves_out(pair.against);
    let mut family = Family::new(design, table, &looks, &pairs, blocks, &measured);
    for look in 0..looks.len() {
        family.look(look);
    }
    let miss = family.miss_now();
    let outlook = family.outlook();
    let comparisons = family
        .hypotheses
        .iter()
        .map(|hypothesis| family.comparison(hypothesis, &outlook, used))
        .collect();
    Ok(Evaluation {
        blocks: count,
        comparisons,
        described: describe(design, &pairs, blocks, miss),
        movements: movement::movements_of(design, &pairs, blocks, miss),
        effects: effects::factor_effects(design, blocks, miss),
        variants: summary::variant_summaries(design, blocks),
        planned_next: design
            .planned_looks()
            .into_iter()
            .find(|&look| look > count),
        tested: u32::try_from(family.tested()).unwrap_or(u32::MAX),
        looks,
    })
}

/// All hypotheses that share the error rate.
struct Family<'a> {
    design: &'a Design,
    /// The looks taken so far, followed by the looks still planned.
    looks: Vec<Look>,
    taken: usize,
    hypotheses: Vec<Hypothesis>,
    table: &'a mut AlphaTable,
}

/// The null hypothesis that the variant's metric equals its baseline's.
struct Hypothesis {
    pair: Pair,
    metric: Metric,
    paired: PairedValues,
    /// False if a variant of the pair is left out of all blocks. Such a hypothesis is never tested.
    measured: bool,
    estimate: Option<Estimate>,
    /// Interval after the looks so far, on the averaging scale.
    interval: Option<Interval>,
    /// True once a look has rejected the hypothesis.
    rejected: bool,
}

impl<'a> Family<'a> {
    fn new(
        design: &'a Design,
        table: &'a mut AlphaTable,
        taken: &[Look],
        pairs: &[Pair],
        blocks: &[Block<'_>],
        measured: &dyn Fn(Pair) -> bool,
    ) -> Self {
        let mut looks = taken.to_vec();
        let (now, spent) = taken
            .last()
            .map_or((0, 0.0), |look| (look.blocks, look.spent_share));
        looks.extend(
            design
                .planned_looks()
                .into_iter()
                .map(|at| Look {
                    blocks: at,
                    spent_share: spent_share(f64::from(at) / f64::from(design.blocks_max)),
                })
                .filter(|look| look.blocks > now && look.spent_share > spent),
        );
        let hypotheses = pairs
            .iter()
            .flat_map(|&pair| design.family.iter().map(move |&metric| (pair, metric)))
            .map(|(pair, metric)| Hypothesis {
                pair,
                metric,
                paired: pairing::pair(blocks, pair, metric),
                measured: measured(pair),
                estimate: None,
                interval: None,
                rejected: false,
            })
            .collect();
        Family {
            design,
            looks,
            taken: taken.len(),
            hypotheses,
            table,
        }
    }

    /// Returns the significance levels at all looks for one of `sharing` hypotheses that share the
    /// error rate.
    fn nominal_alphas(&mut self, sharing: usize) -> &[f64] {
        let alpha = self.design.alpha / sharing.max(1) as f64;
        self.table.nominal_alphas(&self.looks, alpha)
    }

    fn level(&mut self, look: usize, sharing: usize) -> f64 {
        self.nominal_alphas(sharing)
            .get(look)
            .copied()
            .unwrap_or(0.0)
    }

    /// Returns the number of hypotheses that share the error rate.
    fn tested(&self) -> usize {
        self.hypotheses.iter().filter(|one| one.measured).count()
    }

    fn open(&self) -> usize {
        let rejected = self.hypotheses.iter().filter(|one| one.rejected);
        self.tested() - rejected.count()
    }

    /// Returns the probability that a single interval misses the true value at the current look, or
    /// `None` before the first look.
    fn miss_now(&mut self) -> Option<f64> {
        let now = self.taken.checked_sub(1)?;
        Some(self.level(now, 1))
    }

    fn look(&mut self, look: usize) {
        let miss = self.level(look, 1);
        let blocks = self.looks[look].blocks as usize;
        for hypothesis in &mut self.hypotheses {
            hypothesis.update(blocks, miss);
        }
        self.holm(look);
    }

    /// Applies Holm's procedure: the hypothesis with the smallest p-value is tested at the error
    /// rate divided among all open hypotheses. If it is rejected, the next hypothesis is tested at
    /// the error rate divided among one fewer.
    fn holm(&mut self, look: usize) {
        loop {
            let open = self.open();
            let level = self.level(look, open);
            let smallest = self
                .hypotheses
                .iter_mut()
                .filter(|one| !one.rejected)
                .filter_map(|one| Some((one.estimate?.p_value(), one)))
                .min_by(|(a, _), (b, _)| a.total_cmp(b));
            match smallest {
                Some((p, hypothesis)) if p <= level => hypothesis.rejected = true,
                _ => return,
            }
        }
    }

    fn comparison(&self, hypothesis: &Hypothesis, outlook: &Outlook, blocks: u32) -> Comparison {
        let Pair { variant, against } = hypothesis.pair;
        let design = self.design;
        let mut comparison = Comparison {
            levels: design.variants[variant].clone(),
            against: design.variants[against].clone(),
            metric: hypothesis.metric,
            effect: hypothesis.effect(),
            verdict: hypothesis.verdict(design.margin),
            withheld: None,
            text: String::new(),
            blocks,
            more_blocks: None,
            crowded_share: None,
            doubt: None,
            name: design.name_of(variant),
            against_name: design.name_of(against),
        };
        if let Some(unmeasured) = hypothesis.paired.unmeasured() {
            comparison.withhold(WithheldBecause::Unmeasured(unmeasured.clone()));
            return comparison;
        }
        if comparison.verdict == Verdict::Undecided {
            let margin = pairing::equivalence(hypothesis.metric, design.margin);
            comparison.more_blocks = hypothesis
                .estimate
                .and_then(|estimate| outlook.more_blocks(estimate, margin));
        }
        comparison
    }

    /// Returns the future looks, assuming that none of the open hypotheses is rejected before them.
    fn outlook(&mut self) -> Outlook {
        let open = self.open().max(1);
        let shared = self.nominal_alphas(open).to_vec();
        let alone = self.nominal_alphas(1).to_vec();
        let coming = self
            .looks
            .iter()
            .zip(shared.iter().zip(&alone))
            .skip(self.taken);
        Outlook {
            planned: coming
                .map(|(look, (&shared, &alone))| FutureLook {
                    blocks: look.blocks,
                    shared,
                    alone,
                })
                .collect(),
            longest: FutureLook {
                blocks: self.design.blocks_max,
                shared: self.design.alpha / open as f64,
                alone: self.design.alpha,
            },
        }
    }
}

impl Hypothesis {
    /// Updates the estimate and the interval from the first `blocks` blocks. With a probability of
    /// 95%, the intervals of all looks contain the true value, so the result is their intersection.
    /// If the estimate from all blocks is outside the intersection, the later blocks contradict the
    /// earlier ones, and the newest interval is used alone.
    fn update(&mut self, blocks: usize, miss: f64) {
        let PairedValues::Complete(values) = &self.paired else {
            return;
        };
        let Some(estimate) = values.get(..blocks).and_then(Estimate::from_blocks) else {
            return;
        };
        let newest = estimate.interval(miss);
        let overlap = self
            .interval
            .map_or(newest, |before| before.intersect(&newest));
        let borne_out = overlap.contains(estimate.mean);
        self.estimate = Some(estimate);
        self.interval = Some(if borne_out { overlap } else { newest });
        // Later blocks may contradict an earlier rejection, which is then revoked. The test at this
        // look may reject the hypothesis again.
        self.rejected &= borne_out;
    }

    fn effect(&self) -> Effect {
        match (&self.paired, self.estimate) {
            (PairedValues::Complete(_), Some(estimate)) => {
                Effect::on(self.metric.scale(), Some(estimate.mean), self.interval)
            }
            (PairedValues::Complete(values), None) if !values.is_empty() => {
                let mean = crate::estimate::mean(values);
                Effect::on(self.metric.scale(), Some(mean), None)
            }
            _ => Effect::NONE,
        }
    }

    fn verdict(&self, margin: f64) -> Verdict {
        let (Some(estimate), Some(interval)) = (self.estimate, self.interval) else {
            return Verdict::Undecided;
        };
        if interval.within(&pairing::equivalence(self.metric, margin)) {
            return Verdict::Equivalent;
        }
        if !self.rejected {
            return Verdict::Undecided;
        }
        match (estimate.mean > 0.0, self.metric.direction()) {
            (true, Direction::Higher) | (false, Direction::Lower) => Verdict::Faster,
            (_, Direction::Neither) => Verdict::Undecided,
            _ => Verdict::Slower,
        }
    }
}

/// Returns the comparisons on metrics outside the family. Skips blocks in which either value is
/// missing.
fn describe(
    design: &Design,
    pairs: &[Pair],
    blocks: &[Block<'_>],
    miss: Option<f64>,
) -> Vec<Description> {
    let mut described = Vec::new();
    for &pair in pairs {
        for &metric in Metric::ALL {
            if design.family.contains(&metric) {
                continue;
            }
            let values = pairing::present(blocks, pair, metric);
            if values.is_empty() {
                continue;
            }
            let mean = crate::estimate::mean(&values);
            let interval = Estimate::from_blocks(&values)
                .zip(miss)
                .map(|(estimate, miss)| estimate.interval(miss));
            described.push(Description {
                levels: design.variants[pair.variant].clone(),
                against: design.variants[pair.against].clone(),
                metric,
                effect: Effect::on(metric.scale(), Some(mean), interval),
                blocks: u32::try_from(values.len()).unwrap_or(u32::MAX),
                text: String::new(),
            });
        }
    }
    described
}
