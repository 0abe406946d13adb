//! From a design and its trials to verdicts.
//!
//! The looks are replayed from the first: what was rejected at one stays rejected, and a rejected
//! hypothesis hands its share of the error rate to those still open, from that look on (Holm 1979;
//! with looks, Ye et al. 2013 and Maurer and Bretz 2013). So the same trials give the same
//! verdicts, whoever evaluated them before and how often.

use crate::comparison::{Comparison, Description, Effect, Verdict};
use crate::design::{Design, DesignError, LEAST_BLOCKS, Pair};
use crate::effects::{self, FactorEffect};
use crate::estimate::{Estimate, Interval};
use crate::forecast::{Outlook, Step};
use crate::looks::{LevelTable, Look, looks_until, spent_share};
use crate::metric::{Direction, Metric, Scale};
use crate::movement::{self, Movement};
use crate::pairing::{self, Paired};
use crate::sentence;
use crate::summary::{self, VariantSummary};
use crate::trials::{Block, Trials};

/// What the trials so far say.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Complete blocks there are.
    pub blocks: u32,
    /// The looks taken, this one included. To be kept with the results and given to the next call
    /// when more blocks are added.
    pub looks: Vec<Look>,
    /// Every comparison of the family, in the order of variants, then metrics.
    pub comparisons: Vec<Comparison>,
    /// The same for all metrics outside the family that were measured.
    pub described: Vec<Description>,
    /// What else differs between each variant and its baseline.
    pub movements: Vec<Movement>,
    /// Main effects and two-way interactions, when the variants are a full product of two factors
    /// or more.
    pub effects: Vec<FactorEffect>,
    /// Each variant alone.
    pub variants: Vec<VariantSummary>,
    planned_next: Option<u32>,
}

impl Evaluation {
    /// Whether no comparison is undecided. More blocks would add nothing that was asked for.
    pub fn decided(&self) -> bool {
        self.comparisons
            .iter()
            .all(|comparison| comparison.verdict != Verdict::Undecided)
    }

    /// The number of complete blocks, in all, at which to evaluate again; `None` when all is
    /// decided or the plan's blocks are used up.
    pub fn next_look(&self) -> Option<u32> {
        self.planned_next.filter(|_| !self.decided())
    }

    /// Withholds the verdicts of the comparisons that `distorted` picks, and leaves out the effects
    /// of factors on their metrics: those average over all variants, the distorted ones among them.
    pub fn withhold(&mut self, distorted: impl Fn(&Comparison) -> bool, reason: &str) {
        for comparison in &mut self.comparisons {
            if distorted(comparison) {
                comparison.withhold(reason);
                let metric = comparison.metric;
                self.effects.retain(|effect| effect.metric != metric);
            }
        }
    }

    /// Removes the effects of factors that `distorted` picks.
    pub fn withhold_effects(&mut self, distorted: impl Fn(&FactorEffect) -> bool) {
        self.effects.retain(|effect| !distorted(effect));
    }
}

/// Evaluates the complete blocks in `trials`.
///
/// Each call at a new number of blocks is a look and spends error rate. Call it at `blocks_min`,
/// then at each [`Evaluation::next_look`], and once where the experiment ends before that; never
/// for a display that runs along. `earlier` are the looks of the evaluation before
/// ([`Evaluation::looks`]); it may be empty when all of them were planned ones.
///
/// # Errors
/// When the design contradicts itself.
pub fn evaluate(
    design: &Design,
    trials: &Trials,
    earlier: &[Look],
) -> Result<Evaluation, DesignError> {
    evaluate_with(&mut LevelTable::new(), design, trials, earlier)
}

/// [`evaluate`] with the levels of earlier calls, which take most of its time.
///
/// # Errors
/// When the design contradicts itself.
pub fn evaluate_with(
    table: &mut LevelTable,
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

    let mut family = Family::new(design, table, &looks, &pairs, blocks);
    for look in 0..looks.len() {
        family.look(look);
    }
    let miss = family.miss_now();
    let outlook = family.outlook();
    let comparisons = family
        .hypotheses
        .iter()
        .map(|hypothesis| family.comparison(hypothesis, &outlook, blocks))
        .collect();
    Ok(Evaluation {
        blocks: count,
        comparisons,
        described: describe(design, &pairs, blocks, miss),
        movements: movement::of(design, &pairs, blocks, miss),
        effects: effects::of(design, blocks, miss),
        variants: summary::of(design, blocks),
        planned_next: design
            .planned_looks()
            .into_iter()
            .find(|&look| look > count),
        looks,
    })
}

/// All hypotheses that share the error rate.
struct Family<'a> {
    design: &'a Design,
    /// The looks taken, then those still planned.
    looks: Vec<Look>,
    taken: usize,
    hypotheses: Vec<Hypothesis>,
    table: &'a mut LevelTable,
}

/// "The variant's metric is that of its baseline."
struct Hypothesis {
    pair: Pair,
    metric: Metric,
    paired: Paired,
    estimate: Option<Estimate>,
    /// The interval that stands after the looks so far, on the averaging scale.
    interval: Option<Interval>,
    /// Whether a look has rejected it.
    rejected: bool,
}

impl<'a> Family<'a> {
    fn new(
        design: &'a Design,
        table: &'a mut LevelTable,
        taken: &[Look],
        pairs: &[Pair],
        blocks: &[Block<'_>],
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

    /// The levels at all looks for one of `sharing` hypotheses.
    fn levels(&mut self, sharing: usize) -> &[f64] {
        let alpha = self.design.alpha / sharing.max(1) as f64;
        self.table.levels(&self.looks, alpha)
    }

    fn level(&mut self, look: usize, sharing: usize) -> f64 {
        self.levels(sharing).get(look).copied().unwrap_or(0.0)
    }

    fn open(&self) -> usize {
        self.hypotheses.iter().filter(|one| !one.rejected).count()
    }

    /// How often a single interval misses at the present look; `None` before the first.
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

    /// Holm's steps: the smallest p-value is held against the error rate shared by all that are
    /// open; when it is rejected, the next against the rate shared by one fewer.
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

    fn comparison(
        &self,
        hypothesis: &Hypothesis,
        outlook: &Outlook,
        blocks: &[Block<'_>],
    ) -> Comparison {
        let Pair { variant, against } = hypothesis.pair;
        let design = self.design;
        let mut comparison = Comparison {
            levels: design.variants[variant].clone(),
            against: design.variants[against].clone(),
            metric: hypothesis.metric,
            effect: hypothesis.effect(),
            verdict: hypothesis.verdict(design.margin),
            text: String::new(),
            blocks: u32::try_from(blocks.len()).unwrap_or(u32::MAX),
            more_blocks: None,
            doubt: None,
            name: design.name_of(variant),
            against_name: design.name_of(against),
        };
        if let Some(gap) = hypothesis.paired.gap() {
            comparison.withhold(&gap.reason(&comparison.name, &comparison.against_name));
            return comparison;
        }
        if comparison.verdict == Verdict::Undecided {
            let margin = equivalence(hypothesis.metric, design.margin);
            comparison.more_blocks = hypothesis
                .estimate
                .and_then(|estimate| outlook.more_blocks(estimate, margin));
        }
        comparison.text = sentence::comparison(&comparison, design, self.hypotheses.len());
        comparison
    }

    /// The looks to come, if what is open now stays open.
    fn outlook(&mut self) -> Outlook {
        let open = self.open().max(1);
        let shared = self.levels(open).to_vec();
        let alone = self.levels(1).to_vec();
        let coming = self
            .looks
            .iter()
            .zip(shared.iter().zip(&alone))
            .skip(self.taken);
        Outlook {
            planned: coming
                .map(|(look, (&shared, &alone))| Step {
                    blocks: look.blocks,
                    shared,
                    alone,
                })
                .collect(),
            longest: Step {
                blocks: self.design.blocks_max,
                shared: self.design.alpha / open as f64,
                alone: self.design.alpha,
            },
        }
    }
}

impl Hypothesis {
    /// Takes in the first `blocks` blocks. All looks' intervals hold at once with 95%, so what
    /// stands is where they overlap. When the estimate from all blocks lies outside that, the
    /// earlier blocks are contradicted by the later ones, and the newest interval stands alone.
    fn update(&mut self, blocks: usize, miss: f64) {
        let Paired::Complete(values) = &self.paired else {
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
        // A rejection that the later blocks contradict is taken back; this look may repeat it.
        self.rejected &= borne_out;
    }

    fn effect(&self) -> Effect {
        match (&self.paired, self.estimate) {
            (Paired::Complete(_), Some(estimate)) => {
                Effect::on(self.metric.scale(), Some(estimate.mean), self.interval)
            }
            (Paired::Complete(values), None) if !values.is_empty() => {
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
        if interval.within(&equivalence(self.metric, margin)) {
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

/// What counts as no difference, on the averaging scale.
pub(crate) fn equivalence(metric: Metric, margin: f64) -> Interval {
    match metric.scale() {
        Scale::Ratio => Interval {
            low: (-margin).ln_1p(),
            high: margin.ln_1p(),
        },
        Scale::Difference => Interval {
            low: -margin,
            high: margin,
        },
    }
}

/// The comparisons on metrics outside the family. Blocks in which either value lacks are left out.
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
            let mut description = Description {
                levels: design.variants[pair.variant].clone(),
                against: design.variants[pair.against].clone(),
                metric,
                effect: Effect::on(metric.scale(), Some(mean), interval),
                blocks: u32::try_from(values.len()).unwrap_or(u32::MAX),
                text: String::new(),
            };
            description.text = sentence::description(
                &description,
                &design.name_of(pair.variant),
                &design.name_of(pair.against),
            );
            described.push(description);
        }
    }
    described
}

/// Whether there are too few blocks for an interval.
pub(crate) fn too_few(blocks: u32) -> bool {
    blocks < LEAST_BLOCKS
}
