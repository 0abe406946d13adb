//! One search: chooses rates, receives the results of probes, and ends with a capacity.
//!
//! 1. **Explore**: a short closed loop finds the order of magnitude.
//! 2. **Bracket**: open-loop probes double or halve the rate, by growing steps, until one rate meets
//!    the goals and a higher one doesn't; then they bisect on the log scale.
//! 3. **Edge**: probes at evenly spaced rates around the bracket, twice as long, in a random order.
//!    If the fit doesn't cross the goals within these rates, up to three extensions follow. Then
//!    further probes cover the surroundings of the crossing. Only the probes at the edge enter the
//!    fit, because the choice of the earlier rates depended on their results.
//!
//! A search that is given the capacity of an earlier one begins with the edge.

use super::fit::{Crossing, FitPoint, crossing, refined};
use super::goal::GoalReading;

/// Probes of the bracket, at most.
const BRACKET_PROBES_MAX: usize = 24;
/// Ratio of the bracket's ends at which the edge begins.
const BRACKET_RATIO: f64 = 1.3;
/// Largest step of the bracket.
const STEP_MAX: f64 = 16.0;
/// Probes at the edge.
const EDGE_PROBES: usize = 7;
/// Ratio of the edge's highest rate to its middle.
const EDGE_REACH: f64 = 1.4;
/// Probes near the crossing, and the range of their distance from it on the log scale.
const CROSSING_PROBES: usize = 7;
const CROSSING_REACH_MIN: f64 = 0.02;
const CROSSING_REACH_MAX: f64 = 0.35;
/// Extensions of the edge, at most, and the probes of each.
const EXTENSIONS_MAX: usize = 3;
const EXTENSION_PROBES: usize = 3;
/// Requests of a probe at the edge, and of one near the crossing, relative to those that the goals
/// need. Slow responses come in clusters, so a probe near the crossing needs more.
const EDGE_LENGTH: f64 = 2.0;
const CROSSING_LENGTH: f64 = 6.0;
/// Length of the settling part relative to the measured part.
const SETTLE_SHARE: f64 = 0.2;
/// A server keeps up if it completes this share of the offered requests.
const KEEPS_UP_SHARE: f64 = 0.9;
/// Excess of a probe whose server doesn't keep up.
const OVERLOAD_EXCESS: f64 = 100.0;
/// Share of the closed loop's rate at which the bracket begins.
const FIRST_SHARE: f64 = 0.6;

/// Settings of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchSettings {
    /// Requests that a probe needs to judge all goals.
    pub requests_min: f64,
    /// Shortest measured part of a probe, in seconds.
    pub measure_min_s: f64,
    /// Longest measured part of a probe, in seconds. It limits the lowest rate that can be judged.
    pub measure_max_s: f64,
    /// Highest rate to probe.
    pub rate_max: Option<f64>,
    /// Capacity that an earlier search found; the search begins there.
    pub start_at: Option<f64>,
    /// Seed of the rates and their order.
    pub seed: u64,
}

/// The part of the search that a probe belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePurpose {
    /// Finds the order of magnitude.
    Explore,
    /// Narrows the range of rates.
    Bracket,
    /// Enters the fit.
    Edge,
}

/// A load to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Requests per second of an open loop; `None` for a closed loop.
    pub rate_per_s: Option<f64>,
    /// Length of the settling part, which is not measured, in seconds.
    pub settle_s: f64,
    /// Length of the measured part, in seconds.
    pub measure_s: f64,
    /// The part of the search that it belongs to.
    pub purpose: ProbePurpose,
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeResult {
    /// Requests per second that were due; the achieved rate for a closed loop.
    pub offered_per_s: f64,
    /// Requests per second that ended, whether successful or not.
    pub achieved_per_s: f64,
    /// Measured requests.
    pub requests: u64,
    /// The reading of each goal; empty if nothing was measured.
    pub goals: Vec<GoalReading>,
    /// True if the load generator was the limit.
    pub generator_saturated: bool,
}

impl ProbeResult {
    /// True if the server kept up and met all goals.
    pub fn is_met(&self) -> bool {
        self.keeps_up() && !self.goals.is_empty() && self.goals.iter().all(|goal| goal.met)
    }

    fn keeps_up(&self) -> bool {
        self.achieved_per_s >= KEEPS_UP_SHARE * self.offered_per_s
    }
}

/// Cause of a search that found only a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundReason {
    /// The load generator was saturated at a higher rate.
    GeneratorSaturated,
    /// The goals are met at the highest rate to probe.
    RateMax,
    /// The search ran out of probes while the goals were still met.
    ProbesMax,
}

/// The end of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchOutcome {
    /// The highest rate at which all goals are met.
    Capacity {
        /// Requests per second.
        per_s: f64,
    },
    /// All goals are met at this rate, and no higher rate could be judged.
    AtLeast {
        /// Requests per second.
        per_s: f64,
        /// Cause of the bound.
        reason: BoundReason,
    },
    /// The goals are not met at the lowest rate that can be judged.
    Unmet {
        /// Requests per second.
        per_s: f64,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Explore,
    Bracket {
        rate: f64,
        met: Option<f64>,
        unmet: Option<f64>,
        step: f64,
        probes: usize,
    },
    Edge {
        /// Rates to probe, the next one last.
        pending: Vec<f64>,
        extensions: usize,
        /// For the probes near the crossing, which are the last ones: the logarithm of its rate,
        /// and their distance from it at most.
        near: Option<(f64, f64)>,
    },
    Ended(SearchOutcome),
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Search {
    settings: SearchSettings,
    phase: Phase,
    /// Results at the edge, with the logarithms of their rates.
    edge: Vec<(f64, ProbeResult)>,
    /// Highest rate that met the goals, and lowest that didn't.
    met: Option<f64>,
    unmet: Option<f64>,
    random: u64,
}

impl Search {
    /// Begins a search.
    pub fn new(settings: SearchSettings) -> Search {
        let mut search = Search {
            settings,
            phase: Phase::Explore,
            edge: Vec::new(),
            met: None,
            unmet: None,
            random: settings.seed,
        };
        if let Some(rate) = settings.start_at {
            search.phase = search.edge_around(rate.ln());
        }
        search
    }

    /// The most probes that a search of these settings makes.
    pub fn probes_max(settings: &SearchSettings) -> usize {
        let edge = EDGE_PROBES + EXTENSIONS_MAX * EXTENSION_PROBES + CROSSING_PROBES;
        match settings.start_at {
            Some(_) => edge,
            None => 1 + BRACKET_PROBES_MAX + edge,
        }
    }

    /// The longest time, in seconds, that a probe of these settings takes.
    pub fn probe_s_max(settings: &SearchSettings) -> f64 {
        (1.0 + SETTLE_SHARE) * settings.measure_max_s
    }

    /// The lowest rate that these settings can judge.
    pub fn rate_min(settings: &SearchSettings) -> f64 {
        settings.requests_min / settings.measure_max_s
    }

    /// The next load to run; `None` at the end of the search.
    pub fn next(&self) -> Option<Probe> {
        let (rate, length, purpose) = match &self.phase {
            Phase::Explore => (None, 1.0, ProbePurpose::Explore),
            Phase::Bracket { rate, .. } => (Some(*rate), 1.0, ProbePurpose::Bracket),
            Phase::Edge { pending, near, .. } => {
                let length = match near {
                    Some(_) => CROSSING_LENGTH,
                    None => EDGE_LENGTH,
                };
                (Some(*pending.last()?), length, ProbePurpose::Edge)
            }
            Phase::Ended(_) => return None,
        };
        let shortest = self.settings.measure_min_s;
        let needed = rate.map_or(shortest, |rate| length * self.settings.requests_min / rate);
        let measure_s = needed.max(shortest).min(self.settings.measure_max_s);
        Some(Probe {
            rate_per_s: rate,
            settle_s: SETTLE_SHARE * measure_s,
            measure_s,
            purpose,
        })
    }

    /// The highest rate that met the goals so far, and the lowest that did not.
    pub fn bracket(&self) -> (Option<f64>, Option<f64>) {
        (self.met, self.unmet)
    }

    /// The end of the search.
    pub fn outcome(&self) -> Option<SearchOutcome> {
        match self.phase {
            Phase::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Takes the result of the load that [`Search::next`] returned last.
    pub fn take(&mut self, result: ProbeResult) {
        let phase = std::mem::replace(&mut self.phase, Phase::Explore);
        self.phase = match phase {
            Phase::Explore => self.explored(&result),
            Phase::Bracket {
                rate,
                met,
                unmet,
                step,
                probes,
            } => {
                self.note(rate, &result);
                let is_met = result.is_met();
                let (met, unmet) = if is_met {
                    (Some(rate), unmet)
                } else {
                    (met, Some(rate))
                };
                // Below a saturated generator, a lower rate may still be judged.
                match result.generator_saturated && !is_met && met.is_some() {
                    true => Phase::Ended(self.saturated(met)),
                    false => self.bracketed(met, unmet, step, probes + 1),
                }
            }
            Phase::Edge {
                mut pending,
                extensions,
                near,
            } => {
                if let Some(rate) = pending.pop() {
                    self.note(rate, &result);
                    self.edge.push((rate.ln(), result));
                }
                match pending.is_empty() {
                    true => self.judge_edge(extensions, near),
                    false => Phase::Edge {
                        pending,
                        extensions,
                        near,
                    },
                }
            }
            ended @ Phase::Ended(_) => ended,
        };
    }

    fn note(&mut self, rate: f64, result: &ProbeResult) {
        if result.is_met() {
            self.met = Some(self.met.map_or(rate, |met| met.max(rate)));
        } else {
            self.unmet = Some(self.unmet.map_or(rate, |unmet| unmet.min(rate)));
        }
    }

    fn explored(&self, result: &ProbeResult) -> Phase {
        Phase::Bracket {
            rate: self.clamped(FIRST_SHARE * result.achieved_per_s),
            met: None,
            unmet: None,
            step: 1.0,
            probes: 0,
        }
    }

    fn clamped(&self, rate: f64) -> f64 {
        let highest = self.settings.rate_max.unwrap_or(f64::INFINITY);
        rate.max(Self::rate_min(&self.settings)).min(highest)
    }

    /// Chooses the next rate of the bracket, or ends it.
    fn bracketed(
        &mut self,
        met: Option<f64>,
        unmet: Option<f64>,
        step: f64,
        probes: usize,
    ) -> Phase {
        let step = (2.0 * step).min(STEP_MAX);
        let rate = match (met, unmet) {
            (Some(met), Some(unmet)) if unmet / met <= BRACKET_RATIO => {
                return self.edge_around((met * unmet).sqrt().ln());
            }
            (Some(met), Some(unmet)) => (met * unmet).sqrt(),
            (Some(met), None) if self.clamped(met * step) <= met => {
                let reason = BoundReason::RateMax;
                return Phase::Ended(SearchOutcome::AtLeast { per_s: met, reason });
            }
            // An open loop rarely achieves more than the closed one.
            (Some(met), None) => self.clamped(met * step.sqrt()),
            (None, Some(unmet)) if self.clamped(unmet / step) >= unmet => {
                return Phase::Ended(SearchOutcome::Unmet { per_s: unmet });
            }
            (None, Some(unmet)) => self.clamped(unmet / step),
            (None, None) => self.clamped(1.0),
        };
        if probes >= BRACKET_PROBES_MAX {
            return match (met, unmet) {
                (Some(met), Some(unmet)) => self.edge_around((met * unmet).sqrt().ln()),
                (Some(per_s), None) => Phase::Ended(SearchOutcome::AtLeast {
                    per_s,
                    reason: BoundReason::ProbesMax,
                }),
                (None, _) => Phase::Ended(SearchOutcome::Unmet { per_s: rate }),
            };
        }
        Phase::Bracket {
            rate,
            met,
            unmet,
            step,
            probes,
        }
    }

    /// Rates around the middle, given as logarithm.
    fn edge_around(&mut self, middle: f64) -> Phase {
        Phase::Edge {
            pending: self.rates_around(middle, EDGE_REACH.ln(), EDGE_PROBES),
            extensions: 0,
            near: None,
        }
    }

    /// Rates spaced evenly on the log scale, shifted at random by up to half a step, and shuffled.
    fn rates_around(&mut self, middle: f64, reach: f64, count: usize) -> Vec<f64> {
        let gap = 2.0 * reach / (count - 1) as f64;
        let lowest = middle - reach + (self.uniform() - 0.5) * gap;
        let mut rates: Vec<f64> = (0..count)
            .map(|step| self.clamped((lowest + step as f64 * gap).exp()))
            .collect();
        for last in (1..rates.len()).rev() {
            let other = (self.uniform() * (last + 1) as f64) as usize;
            rates.swap(last, other.min(last));
        }
        rates
    }

    /// Fits the results at the edge, and extends the edge if the fit doesn't cross the goals.
    fn judge_edge(&mut self, extensions: usize, near: Option<(f64, f64)>) -> Phase {
        if let Some((log_rate, reach)) = near {
            return self.judge_crossing(log_rate, reach);
        }
        let logs = self.edge.iter().map(|(log_rate, _)| *log_rate);
        let (lowest, highest) = logs
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| {
                (low.min(log), high.max(log))
            });
        let is_last = extensions == EXTENSIONS_MAX;
        let gap = 2.0 * EDGE_REACH.ln() / (EDGE_PROBES - 1) as f64;
        let (from, direction) = match self.lowest_crossing() {
            Crossing::At { log_rate, .. } if self.is_saturated_below(log_rate) => {
                return Phase::Ended(self.saturated(self.met));
            }
            Crossing::At { log_rate, reach } => {
                let reach = reach.clamp(CROSSING_REACH_MIN, CROSSING_REACH_MAX);
                return Phase::Edge {
                    pending: self.rates_around(log_rate, reach, CROSSING_PROBES),
                    extensions,
                    near: Some((log_rate, reach)),
                };
            }
            Crossing::Below if is_last || self.clamped((lowest - gap).exp()).ln() >= lowest => {
                let per_s = lowest.exp();
                return Phase::Ended(SearchOutcome::Unmet { per_s });
            }
            Crossing::Above if is_last || self.clamped((highest + gap).exp()).ln() <= highest => {
                let reason = match is_last {
                    true => BoundReason::ProbesMax,
                    false => BoundReason::RateMax,
                };
                let per_s = highest.exp();
                return Phase::Ended(SearchOutcome::AtLeast { per_s, reason });
            }
            Crossing::Below => (lowest, -1.0),
            Crossing::Above => (highest, 1.0),
        };
        let pending = (1..=EXTENSION_PROBES)
            .rev()
            .map(|step| self.clamped((from + direction * 2.0 * gap * step as f64).exp()))
            .collect();
        Phase::Edge {
            pending,
            extensions: extensions + 1,
            near: None,
        }
    }

    /// The capacity by the probes near the first crossing and those at the edge.
    fn judge_crossing(&self, log_rate: f64, reach: f64) -> Phase {
        let refine = |points: &[FitPoint]| {
            let first = match crossing(points) {
                Crossing::At { log_rate: at, .. } if (at - log_rate).abs() <= reach => at,
                _ => log_rate,
            };
            // The window stays where the probes are, whatever they found.
            match refined(points, log_rate, reach) {
                unchanged if unchanged == log_rate => first,
                refined => refined,
            }
        };
        let lowest = (0..self.goal_count())
            .filter(|&goal| matches!(crossing(&self.points(goal)), Crossing::At { .. }))
            .map(|goal| refine(&self.points(goal)))
            .fold(f64::INFINITY, f64::min);
        let at = if lowest.is_finite() { lowest } else { log_rate };
        Phase::Ended(match self.is_saturated_below(at) {
            true => self.saturated(self.met),
            false => SearchOutcome::Capacity { per_s: at.exp() },
        })
    }

    /// The crossing of the goal that is exceeded first.
    fn lowest_crossing(&self) -> Crossing {
        let crossings = (0..self.goal_count()).map(|goal| crossing(&self.points(goal)));
        crossings
            .min_by(|a, b| a.log_rate().total_cmp(&b.log_rate()))
            .unwrap_or(Crossing::Below)
    }

    /// Number of goals; at least 1, so that probes without readings count as overload.
    fn goal_count(&self) -> usize {
        let goals = self.edge.iter().map(|(_, result)| result.goals.len());
        goals.max().unwrap_or(0).max(1)
    }

    /// The results at the edge as points of one goal's fit.
    fn points(&self, goal: usize) -> Vec<FitPoint> {
        self.edge
            .iter()
            .map(|(log_rate, result)| point(*log_rate, result, goal))
            .collect()
    }

    /// True if the generator was saturated in most probes that failed near the crossing.
    fn is_saturated_below(&self, crossing: f64) -> bool {
        let near = |log_rate: f64| (log_rate - crossing).abs() <= 0.5 * EDGE_REACH.ln();
        let failed = self
            .edge
            .iter()
            .filter(|(log_rate, result)| near(*log_rate) && !result.is_met());
        let (mut saturated, mut all) = (0, 0);
        for (_, result) in failed {
            all += 1;
            saturated += usize::from(result.generator_saturated);
        }
        2 * saturated > all
    }

    fn saturated(&self, met: Option<f64>) -> SearchOutcome {
        let rate_min = Self::rate_min(&self.settings);
        match met {
            Some(per_s) => SearchOutcome::AtLeast {
                per_s,
                reason: BoundReason::GeneratorSaturated,
            },
            None => SearchOutcome::Unmet { per_s: rate_min },
        }
    }

    /// A number from 0 to 1 (SplitMix64; Steele, Lea and Flood, 2014).
    fn uniform(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The reading of one goal as a point of the fit.
fn point(log_rate: f64, result: &ProbeResult, goal: usize) -> FitPoint {
    let weight = result.requests as f64;
    match result.goals.get(goal) {
        Some(reading) => FitPoint {
            log_rate,
            excess: match result.keeps_up() {
                true => reading.excess,
                false => reading.excess.max(OVERLOAD_EXCESS),
            },
            resolution: reading.resolution,
            weight,
        },
        None => FitPoint {
            log_rate,
            excess: OVERLOAD_EXCESS,
            resolution: OVERLOAD_EXCESS,
            weight,
        },
    }
}
