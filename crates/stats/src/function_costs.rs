//! CPU time or waiting per request by function, compared between variants.
//!
//! The costs of all rows of a table add up to the service's CPU time per request: the functions that
//! are compared, all other functions together, and the CPU time without samples. Because many
//! functions are compared, each interval has the error rate of one comparison divided by the number
//! of rows. The rows are chosen by their cost over all variants, which says nothing about differences.
//!
//! With few blocks and many functions, the spread between the blocks of one function says little, and
//! its interval would be several times too wide. Functions therefore share what their spreads have in
//! common (moderated t, Smyth 2004): the variance of a count of samples is proportional to the count,
//! so the spread of each function is drawn toward its cost times a common factor. How far is
//! determined by how much the spreads deviate from that rule.

use std::collections::{BTreeMap, BTreeSet};

use prony_record::sampling::SampledFunction;
use serde::{Deserialize, Serialize};
use statrs::function::gamma::digamma;

use crate::design::{Design, Levels, Pair};
use crate::estimate::{Estimate, Interval, critical_fractional, mean};
use crate::looks::{Look, nominal_alphas};

/// Name of the row of all functions that have no row of their own.
pub const OTHER_FUNCTIONS: &str = "[other functions]";

/// Name of the row of the CPU time without samples.
pub const NOT_SAMPLED: &str = "[not sampled]";

/// Name of the row of the time in which threads waited for requests.
pub const WAITING_FOR_REQUESTS: &str = "[waiting for requests]";

/// Minimum share of a service's CPU time, over all variants, of a function with its own row.
const SHARE_MIN: f64 = 0.003;

/// Maximum number of functions with their own row.
const ROWS_MAX: usize = 100;

/// Kind of cost of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostKind {
    /// CPU time.
    Cpu,
    /// CPU time of all functions of a program or library.
    CpuOfModules,
    /// Time in which threads were off their cores.
    Waiting,
}

/// Costs of a service's functions in one trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceCosts {
    /// CPU time of the whole service per request in microseconds, or the time in which its threads
    /// were off their cores.
    #[serde(rename = "cpu_us_per_request")]
    pub us_per_request: f64,
    /// Number of samples.
    pub samples: u64,
    /// Costs of the functions, the largest first.
    pub functions: Vec<FunctionCost>,
}

/// Cost of one function in one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionCost {
    /// The function.
    #[serde(flatten)]
    pub function: SampledFunction,
    /// CPU time of the function itself per request in microseconds, without the functions that it
    /// calls; or the time for which it waited.
    pub us_per_request: f64,
}

/// Costs of a service in one trial.
#[derive(Debug, Clone, Copy)]
pub struct TrialCosts<'a> {
    /// Block number.
    pub block: u32,
    /// Index of the variant in the design.
    pub variant: usize,
    /// The costs.
    pub costs: &'a ServiceCosts,
}

/// CPU time per request of a service by function and variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionTable {
    /// Name of the service.
    pub service: String,
    /// Names of the variants, in the order of each row's costs.
    pub variants: Vec<String>,
    /// Number of rows that share the error rate.
    pub tested: u32,
    /// Rows, the one with the largest cost first.
    pub functions: Vec<FunctionRow>,
}

/// Cost of one function in all variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionRow {
    /// The function. [`OTHER_FUNCTIONS`], [`NOT_SAMPLED`] and [`WAITING_FOR_REQUESTS`] belong to no
    /// module.
    #[serde(flatten)]
    pub function: SampledFunction,
    /// Mean cost per request in microseconds by variant; `None` without a profile.
    pub us_per_request: Vec<Option<f64>>,
    /// Differences between each variant and its baseline.
    pub differences: Vec<FunctionDifference>,
}

/// Difference of one function's cost between a variant and its baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionDifference {
    /// Levels of the variant.
    pub levels: Levels,
    /// Levels of the variant's baseline.
    pub against: Levels,
    /// Difference of the cost per request in microseconds.
    pub us: f64,
    /// Lower end of the interval; `None` with too few blocks.
    pub low_us: Option<f64>,
    /// Upper end of the interval.
    pub high_us: Option<f64>,
    /// Share of the change in the service's CPU time per request. `None` unless the whole change is
    /// established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Number of blocks.
    pub blocks: u32,
}

impl ServiceCosts {
    /// Returns the costs by program and library.
    #[must_use]
    pub fn of_modules(&self) -> Self {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for cost in &self.functions {
            *sums.entry(&cost.function.module).or_default() += cost.us_per_request;
        }
        let sums = sums.into_iter();
        let functions = sums.map(|(module, us_per_request)| FunctionCost {
            function: SampledFunction::new("all functions", module),
            us_per_request,
        });
        Self {
            functions: functions.collect(),
            ..*self
        }
    }
}

impl FunctionDifference {
    /// Returns true if the interval excludes zero.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.certain_us() > 0.0
    }

    /// Returns the smallest size of the difference that its interval contains; 0 if this is not
    /// known.
    #[must_use]
    pub fn certain_us(&self) -> f64 {
        let more = self.low_us.unwrap_or_default();
        let less = self.high_us.unwrap_or_default();
        more.max(-less).max(0.0)
    }
}

impl FunctionRow {
    /// Returns true if the cost of any variant certainly differs from its baseline's.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.differences
            .iter()
            .any(FunctionDifference::is_established)
    }
}

/// Compares the costs of a service's functions. Returns `None` without costs or without a pair of
/// variants.
#[must_use]
pub fn function_table(
    design: &Design,
    looks: &[Look],
    service: &str,
    kind: CostKind,
    trials: &[TrialCosts<'_>],
) -> Option<FunctionTable> {
    let pairs = design.pairs().ok()?;
    let functions = functions_with_rows(trials);
    let trials: BTreeMap<(u32, usize), Vec<f64>> = trials
        .iter()
        .map(|trial| {
            (
                (trial.block, trial.variant),
                rows_of(trial.costs, &functions),
            )
        })
        .collect();
    if trials.is_empty() {
        return None;
    }
    let rest = match kind {
        CostKind::Cpu | CostKind::CpuOfModules => NOT_SAMPLED,
        CostKind::Waiting => WAITING_FOR_REQUESTS,
    };
    let special = [OTHER_FUNCTIONS, rest].map(|name| SampledFunction::new(name, ""));
    let names: Vec<&SampledFunction> = functions.iter().copied().chain(&special).collect();
    let alpha = design.alpha / names.len() as f64;
    let level = |alpha| nominal_alphas(looks, alpha).last().copied();
    let (miss, miss_alone) = (level(alpha), level(design.alpha));
    let differences_of = |pair: &Pair, row: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        let of_variant = trials.iter().filter(|((_, of), _)| *of == pair.variant);
        let difference = |((block, _), costs): (&(u32, usize), &Vec<f64>)| {
            let against = trials.get(&(*block, pair.against))?;
            Some(row(costs) - row(against))
        };
        of_variant.filter_map(difference).collect()
    };
    let whole: Vec<Option<f64>> = pairs
        .iter()
        .map(|pair| {
            let total = differences_of(pair, &|costs| costs.iter().sum());
            let estimate = Estimate::from_blocks(&total)?;
            let interval = estimate.interval(miss_alone?);
            (kind != CostKind::Waiting && !interval.contains(0.0)).then_some(estimate.mean)
        })
        .collect();
    let of_pair = |pair: &Pair, index: usize| differences_of(pair, &|costs| costs[index]);
    let mean_of = |variant: usize, index: usize| {
        let values = trials.iter().filter(|((_, of), _)| *of == variant);
        let values: Vec<f64> = values.map(|(_, costs)| costs[index]).collect();
        (!values.is_empty()).then(|| mean(&values))
    };
    let cost_of = |pair: &Pair, index: usize| {
        let means = [pair.variant, pair.against].map(|variant| mean_of(variant, index));
        means.into_iter().flatten().sum::<f64>()
    };
    let spreads: Vec<Option<CommonSpread>> = pairs
        .iter()
        .map(|pair| {
            let of_function = |index| {
                let estimate = Estimate::from_blocks(&of_pair(pair, index))?;
                Some((
                    estimate.deviation.powi(2),
                    cost_of(pair, index),
                    estimate.blocks,
                ))
            };
            let observed = (0..functions.len()).filter_map(of_function);
            CommonSpread::fit(&observed.collect::<Vec<_>>())
        })
        .collect();
    let row = |(index, function): (usize, &&SampledFunction)| {
        let difference =
            |((pair, whole), spread): ((&Pair, &Option<f64>), &Option<CommonSpread>)| {
                let values = of_pair(pair, index);
                if values.is_empty() {
                    return None;
                }
                // The last two rows are no counts of samples.
                let spread = spread.as_ref().filter(|_| index < functions.len());
                let interval = Estimate::from_blocks(&values).zip(miss).map(|(it, miss)| {
                    let moderated =
                        spread.map(|it_all| it_all.interval(&it, cost_of(pair, index), miss));
                    moderated.unwrap_or_else(|| it.interval(miss))
                });
                let us = mean(&values);
                Some(FunctionDifference {
                    levels: design.variants[pair.variant].clone(),
                    against: design.variants[pair.against].clone(),
                    us,
                    low_us: interval.map(|it| it.low),
                    high_us: interval.map(|it| it.high),
                    share: whole.map(|whole| us / whole),
                    blocks: u32::try_from(values.len()).unwrap_or(u32::MAX),
                })
            };
        FunctionRow {
            function: (*function).clone(),
            us_per_request: (0..design.variants.len())
                .map(|it| mean_of(it, index))
                .collect(),
            differences: pairs
                .iter()
                .zip(&whole)
                .zip(&spreads)
                .filter_map(difference)
                .collect(),
        }
    };
    let mut rows: Vec<FunctionRow> = names.iter().enumerate().map(row).collect();
    let cost = |row: &FunctionRow| row.us_per_request.iter().flatten().sum::<f64>();
    rows.sort_by(|a, b| {
        let order = a
            .function
            .module
            .is_empty()
            .cmp(&b.function.module.is_empty());
        order.then(cost(b).total_cmp(&cost(a)))
    });
    Some(FunctionTable {
        service: service.to_owned(),
        variants: (0..design.variants.len())
            .map(|it| design.name_of(it))
            .collect(),
        tested: u32::try_from(rows.len()).unwrap_or(u32::MAX),
        functions: rows,
    })
}

/// The common part of the spreads of all functions between blocks.
#[derive(Debug, Clone, Copy)]
struct CommonSpread {
    /// Variance of a function per unit of its cost.
    factor: f64,
    /// Degrees of freedom that the rule is worth.
    freedom: f64,
}

impl CommonSpread {
    /// Degrees of freedom of a rule that the spreads follow as closely as chance permits.
    const FREEDOM_MAX: f64 = 100.0;
    /// Minimum number of functions for a rule.
    const FUNCTIONS_MIN: usize = 5;

    /// Finds the rule from the variance, cost and number of blocks of each function. Returns `None`
    /// for too few functions.
    fn fit(observed: &[(f64, f64, u32)]) -> Option<Self> {
        let known = observed
            .iter()
            .filter(|(variance, cost, _)| *variance > 0.0 && *cost > 0.0);
        let logs: Vec<f64> = known
            .map(|(variance, cost, _)| (variance / cost).ln())
            .collect();
        let freedom = f64::from(observed.first()?.2.checked_sub(1)?);
        if logs.len() < Self::FUNCTIONS_MIN || freedom < 1.0 {
            return None;
        }
        // The logarithm of a variance estimate has a known bias and a known spread, to which
        // deviations from the rule add.
        let center = mean(&logs) - (digamma(freedom / 2.0) - (freedom / 2.0).ln());
        let squares: f64 = logs.iter().map(|log| (log - mean(&logs)).powi(2)).sum();
        let excess = squares / (logs.len() - 1) as f64 - trigamma(freedom / 2.0);
        let prior = if excess > trigamma(Self::FREEDOM_MAX / 2.0) {
            2.0 * inverse_trigamma(excess)
        } else {
            Self::FREEDOM_MAX
        };
        let bias = digamma(prior / 2.0) - (prior / 2.0).ln();
        Some(Self {
            factor: (center + bias).exp(),
            freedom: prior,
        })
    }

    /// Returns the interval of one function's difference.
    fn interval(&self, estimate: &Estimate, cost: f64, miss: f64) -> Interval {
        let own = f64::from(estimate.blocks - 1);
        let freedom = own + self.freedom;
        let variance =
            (own * estimate.deviation.powi(2) + self.freedom * self.factor * cost) / freedom;
        let error = (variance / f64::from(estimate.blocks)).sqrt();
        let reach = if error > 0.0 {
            critical_fractional(miss, freedom) * error
        } else {
            0.0
        };
        Interval {
            low: estimate.mean - reach,
            high: estimate.mean + reach,
        }
    }
}

/// The second derivative of the logarithm of the gamma function, for arguments above 0.
fn trigamma(x: f64) -> f64 {
    // Recurrence up to an argument for which the asymptotic series is exact enough.
    let mut shifted = x;
    let mut sum = 0.0;
    while shifted < 10.0 {
        sum += shifted.powi(-2);
        shifted += 1.0;
    }
    let inverse = shifted.recip();
    let square = inverse * inverse;
    sum + inverse
        * (1.0 + inverse / 2.0 + square * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0)))
}

/// Returns the argument above 0 whose trigamma is `value`, by bisection.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (1e-3_f64, 1e3_f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > value {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

/// Returns the functions that cost enough, over all trials, to have their own row.
fn functions_with_rows<'a>(trials: &[TrialCosts<'a>]) -> Vec<&'a SampledFunction> {
    let mut sums: BTreeMap<&SampledFunction, f64> = BTreeMap::new();
    let mut total_us = 0.0;
    for trial in trials {
        for cost in &trial.costs.functions {
            total_us += cost.us_per_request;
            *sums.entry(&cost.function).or_default() += cost.us_per_request;
        }
    }
    let mut sums: Vec<(&SampledFunction, f64)> = sums.into_iter().collect();
    sums.retain(|(_, sum)| *sum >= SHARE_MIN * total_us);
    sums.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    sums.truncate(ROWS_MAX);
    sums.into_iter().map(|(function, _)| function).collect()
}

/// Returns the costs of the rows: the functions, all others, and the CPU time without samples.
fn rows_of(costs: &ServiceCosts, functions: &[&SampledFunction]) -> Vec<f64> {
    let own: BTreeSet<&SampledFunction> = functions.iter().copied().collect();
    let mut by_function: BTreeMap<&SampledFunction, f64> = BTreeMap::new();
    let (mut others, mut sampled) = (0.0, 0.0);
    for cost in &costs.functions {
        sampled += cost.us_per_request;
        if own.contains(&cost.function) {
            *by_function.entry(&cost.function).or_default() += cost.us_per_request;
        } else {
            others += cost.us_per_request;
        }
    }
    let own = functions
        .iter()
        .map(|it| by_function.get(it).copied().unwrap_or_default());
    own.chain([others, costs.us_per_request - sampled])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str) -> SampledFunction {
        SampledFunction::new(name, "web")
    }

    fn costs(of: &[(&str, f64)], cpu_us_per_request: f64) -> ServiceCosts {
        ServiceCosts {
            us_per_request: cpu_us_per_request,
            samples: 1000,
            functions: of
                .iter()
                .map(|(name, us)| FunctionCost {
                    function: function(name),
                    us_per_request: *us,
                })
                .collect(),
        }
    }

    fn design() -> Design {
        let levels = |level: &str| [("build".to_owned(), level.to_owned())].into();
        Design {
            factors: vec![crate::design::Factor {
                name: "build".to_owned(),
                levels: vec!["old".to_owned(), "new".to_owned()],
            }],
            variants: vec![levels("old"), levels("new")],
            baseline: levels("old"),
            margin: 0.02,
            family: vec![crate::metric::Metric::RatePerS],
            blocks_min: 5,
            blocks_max: 15,
            alpha: 0.05,
            goals: Vec::new(),
        }
    }

    #[test]
    fn the_function_whose_cost_rose_is_found_and_all_rows_add_up() {
        let noise = [0.0, 0.3, -0.2, 0.1, -0.1, 0.2];
        let all: Vec<(u32, usize, ServiceCosts)> = (0..6)
            .flat_map(|block| {
                let noise = noise[block];
                let old = costs(
                    &[
                        ("parse", 20.0 + noise),
                        ("send", 70.0 - noise),
                        ("rare", 0.01),
                    ],
                    100.0,
                );
                let new = costs(
                    &[
                        ("parse", 30.0 + noise),
                        ("send", 70.0 + noise),
                        ("rare", 0.01),
                    ],
                    110.0 + noise,
                );
                let block = block as u32 + 1;
                [(block, 0, old), (block, 1, new)]
            })
            .collect();
        let trials: Vec<TrialCosts<'_>> = all
            .iter()
            .map(|(block, variant, costs)| TrialCosts {
                block: *block,
                variant: *variant,
                costs,
            })
            .collect();
        let looks = [Look {
            blocks: 6,
            spent_share: 1.0,
        }];
        let table = function_table(&design(), &looks, "web", CostKind::Cpu, &trials).unwrap();
        let names: Vec<&str> = table
            .functions
            .iter()
            .map(|it| it.function.name.as_str())
            .collect();
        assert_eq!(names, ["send", "parse", NOT_SAMPLED, OTHER_FUNCTIONS]);
        assert_eq!(table.tested, 4);
        let differing: Vec<bool> = table.functions.iter().map(FunctionRow::differs).collect();
        assert_eq!(differing, [false, true, false, false]);
        let parse = &table.functions[1].differences[0];
        assert!((parse.us - 10.0).abs() < 1e-9, "{parse:?}");
        assert!(
            parse.share.is_some_and(|share| (share - 1.0).abs() < 0.05),
            "{parse:?}"
        );
        let sum = |variant: usize| -> f64 {
            let rows = table.functions.iter();
            rows.filter_map(|it| it.us_per_request[variant]).sum()
        };
        assert!((sum(0) - 100.0).abs() < 1e-9 && (sum(1) - 110.05).abs() < 0.01);
        assert!(
            (trigamma(0.5) - 4.934_802_200_5).abs() < 1e-6
                && (trigamma(2.0) - 0.644_934_066_8).abs() < 1e-6
        );
        assert!((inverse_trigamma(trigamma(3.7)) - 3.7).abs() < 1e-6);
        // With a single block, nothing is established.
        let first = function_table(&design(), &[], "web", CostKind::Cpu, &trials[..2]).unwrap();
        assert!(!first.functions.iter().any(FunctionRow::differs));
        assert_eq!(
            function_table(&design(), &looks, "web", CostKind::Cpu, &[]),
            None
        );
    }

    /// Simulates experiments of 5 blocks with 40 functions, whose samples are counted, and returns
    /// the numbers of those in which the planted function and any other one is established.
    fn simulated(planted_us: f64, experiments: u64) -> (u32, u32) {
        let looks = [Look {
            blocks: 5,
            spent_share: 1.0,
        }];
        let (mut found, mut wrong) = (0, 0);
        for experiment in 0..experiments {
            let mut random = prony_record::RandomSequence::new(experiment);
            let mut normal = || {
                let (a, b) = (random.next_share().max(1e-12), random.next_share());
                (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
            };
            let all: Vec<(u32, usize, ServiceCosts)> = (0..10)
                .map(|trial| {
                    // 1,000 samples per trial of 100 µs per request; every third function is also
                    // disturbed.
                    let names: Vec<String> = (0..40).map(|it| format!("f{it}")).collect();
                    let mut of: Vec<(&str, f64)> = Vec::new();
                    for (index, name) in names.iter().enumerate() {
                        let mut us = 200.0 / 40.0 * (1.0 + index as f64) / 41.0;
                        if index == 20 && trial % 2 == 1 {
                            us += planted_us;
                        }
                        let disturbed = if index % 3 == 0 {
                            0.1 * us * normal()
                        } else {
                            0.0
                        };
                        of.push((
                            name,
                            (us + disturbed + (us * 0.1).sqrt() * normal()).max(0.0),
                        ));
                    }
                    let cpu = of.iter().map(|(_, us)| us).sum();
                    (trial as u32 / 2 + 1, trial % 2, costs(&of, cpu))
                })
                .collect();
            let trials: Vec<TrialCosts<'_>> = all
                .iter()
                .map(|(block, variant, costs)| TrialCosts {
                    block: *block,
                    variant: *variant,
                    costs,
                })
                .collect();
            let table = function_table(&design(), &looks, "web", CostKind::Cpu, &trials).unwrap();
            let established = |row: &&FunctionRow| row.differs();
            let names: Vec<&str> = table
                .functions
                .iter()
                .filter(established)
                .map(|it| it.function.name.as_str())
                .collect();
            found += u32::from(names.contains(&"f20"));
            wrong += u32::from(names.iter().any(|name| *name != "f20"));
        }
        (found, wrong)
    }

    #[test]
    fn small_planted_costs_are_found_and_equal_variants_have_no_difference() {
        let (found, _) = simulated(3.0, 100);
        assert!(found >= 90, "{found} of 100");
        let (chance, wrong) = simulated(0.0, 200);
        assert!(chance + wrong <= 16, "{chance} + {wrong} of 200");
    }
}
