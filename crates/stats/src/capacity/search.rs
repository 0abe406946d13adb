//! One search: chooses rates, receives the results of probes, and ends with a capacity.
//!
//! 1. **Explore**: a short closed loop finds the order of magnitude.
//! 2. **Bracket**: open-loop probes raise or lower the rate in growing steps, until one rate meets
//!    the goals and a higher one doesn't; then they bisect on the log scale.
//! 3. **Edge**: probes run at evenly spaced rates around the bracket, in random order. If the fit
//!    doesn't cross the goals within these rates, up to three extensions follow.
//! 4. **Crossing**: longer probes cover the rates around the crossing.
//!
//! Only the probes of the last two parts enter the fit, because the rates of the earlier probes
//! depended on earlier results. The probes of the last two parts share the remaining time. A search
//! of a slow server therefore also ends in time, but its result varies more.
//!
//! If the result of an earlier search is given, the search begins with the edge.

use prony_record::RandomSequence;

use super::edge::EdgeResults;
use super::fit::Crossing;
use super::outcome::{BoundReason, SearchOutcome};
use super::probe::{Probe, ProbePurpose, ProbeResult, SETTLE_SHARE};
use super::settings::{RATE_MIN, SearchSettings};

/// Maximum number of probes in the bracket.
const BRACKET_PROBES_MAX: usize = 24;
/// Share of the search's time after which a bracket with both ends is no longer narrowed.
const BRACKET_TIME_SHARE: f64 = 0.25;
/// Fraction of the search's time after which a bracket is abandoned if only one of its ends has
/// been found.
const BRACKET_TIME_SHARE_MAX: f64 = 0.6;
/// Maximum length of a probe of the bracket, relative to the search's time.
const BRACKET_PROBE_SHARE: f64 = 1.0 / 12.0;
/// The bracket phase ends, and the edge phase begins, once the ratio of the bracket's upper end to
/// its lower end is at most this.
const BRACKET_RATIO: f64 = 1.3;
/// Maximum ratio between successive rates of the bracket.
const STEP_MAX: f64 = 16.0;
const EDGE_PROBES: usize = 7;
/// Share of the remaining time that the probes at the edge may take.
const EDGE_TIME_SHARE: f64 = 0.2;
/// Ratio of the edge's highest rate to its middle.
const EDGE_REACH: f64 = 1.4;
/// Number of probes near the crossing.
const CROSSING_PROBES: usize = 9;
/// Minimum distance between the crossing and the outermost probe near it, on the log scale.
const CROSSING_REACH_MIN: f64 = 0.02;
/// Maximum distance between the crossing and the outermost probe near it, on the log scale.
const CROSSING_REACH_MAX: f64 = 0.35;
/// Maximum distance of the crossing below the lowest rate that can be judged, on the log scale.
const EXTRAPOLATION_MAX: f64 = 0.5 * CROSSING_REACH_MAX;
/// Maximum number of times that the edge phase is extended.
const EXTENSIONS_MAX: usize = 3;
/// Number of probes that are added each time the edge phase is extended.
const EXTENSION_PROBES: usize = 3;
/// Number of requests in a probe at the edge, as a multiple of the number that the goals need.
const EDGE_LENGTH: f64 = 2.0;
/// Number of requests in a probe near the crossing, as a multiple of the number that the goals
/// need. It is larger than at the edge, because slow responses come in clusters.
const CROSSING_LENGTH: f64 = 6.0;
/// First rate of the bracket, as a share of the closed loop's rate.
const FIRST_SHARE: f64 = 0.6;
/// Maximum ratio of a server's capacity to the rate of the closed loop. The closed loop may be
/// slower than the capacity, because its number of connections is limited.
const EXPLORED_FACTOR_MAX: f64 = 8.0;
/// Minimum number of slow requests that proves that a goal is not met at the lowest rate, where a
/// probe has few requests. The excess must also be at least `UNMET_EXCESS_MIN`.
const UNMET_REQUESTS_MIN: u64 = 2;
const UNMET_EXCESS_MIN: f64 = 3.0;
/// Smallest excess that a short probe of the bracket can't plausibly reach by chance.
const FAR_EXCESS_MIN: f64 = 30.0;

/// State of the bracket: its ends and the next rate.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bracket {
    /// The next rate to probe.
    rate: f64,
    met: Option<f64>,
    unmet: Option<f64>,
    /// True if the generator was saturated at the rate `unmet`.
    saturated: bool,
    /// True if the probe at the rate `unmet` failed too clearly to be explained by chance.
    is_certain: bool,
    /// True if the probe at the lowest rate that can be judged failed and was repeated. A single
    /// failure may be due to other load on the machine, and would end the search.
    is_repeated: bool,
    step: f64,
    probes: usize,
}

/// Remaining probes whose results enter the fit.
#[derive(Debug, Clone, PartialEq)]
struct EdgePlan {
    /// Rates to probe, the next one last.
    pending: Vec<f64>,
    /// Deadline of the remaining probes: total time taken by all probes of the search, in seconds.
    until_s: f64,
    extensions: usize,
    /// Logarithm of the rate at the crossing, and maximum distance of the probes from it on the log
    /// scale. Set only for the probes near the crossing, which come last.
    near: Option<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Explore,
    Bracket(Bracket),
    /// The last probe runs at the lowest rate.
    Lowest {
        /// Lowest rate judged so far, at which the goals were not met.
        judged: f64,
    },
    Edge(EdgePlan),
    Ended(SearchOutcome),
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Search {
    settings: SearchSettings,
    phase: Phase,
    edge: EdgeResults,
    /// Time taken by all probes so far, in seconds. `time_s` is the time available to the search.
    spent_s: f64,
    time_s: f64,
    /// Highest rate so far that met the goals. `unmet` is the lowest rate that didn't.
    met: Option<f64>,
    unmet: Option<f64>,
    random: RandomSequence,
}

impl Search {
    /// Begins a search.
    pub fn new(settings: SearchSettings) -> Search {
        let mut search = Search {
            settings,
            phase: Phase::Explore,
            edge: EdgeResults::default(),
            spent_s: 0.0,
            time_s: settings.time_s,
            met: None,
            unmet: None,
            random: RandomSequence::new(settings.seed),
        };
        if let Some(rate) = settings.start_at {
            search.phase = search.edge_around(rate.ln());
        }
        search
    }

    /// Returns the maximum number of probes of a search with these settings.
    pub fn probes_max(settings: &SearchSettings) -> usize {
        let edge = EDGE_PROBES + EXTENSIONS_MAX * EXTENSION_PROBES + CROSSING_PROBES + 1;
        match settings.start_at {
            Some(_) => edge,
            None => 1 + BRACKET_PROBES_MAX + edge,
        }
    }

    /// Returns the maximum duration of a search with these settings, in seconds, excluding the time
    /// for connecting.
    pub fn time_s_max(settings: &SearchSettings) -> f64 {
        match settings.probe_s {
            Some(probe_s) => Self::probes_max(settings) as f64 * (1.0 + SETTLE_SHARE) * probe_s,
            None => settings.time_s_max,
        }
    }

    /// Returns the next load to run, or `None` at the end of the search.
    pub fn next(&self) -> Option<Probe> {
        let settings = &self.settings;
        let shortest = settings.measure_s_min();
        let bracket_s = |rate: f64| {
            let longest = BRACKET_PROBE_SHARE * settings.time_s;
            settings.probe_s.unwrap_or_else(|| {
                let needed = settings.requests_min / rate;
                needed.min(longest).max(shortest)
            })
        };
        let (rate, measure_s, purpose) = match &self.phase {
            Phase::Explore => (None, shortest, ProbePurpose::Explore),
            Phase::Bracket(bracket) => {
                let rate = bracket.rate;
                (Some(rate), bracket_s(rate), ProbePurpose::Bracket)
            }
            Phase::Lowest { .. } => {
                let longest = 2.0 * BRACKET_PROBE_SHARE * settings.time_s;
                let measure_s = settings.requests_min.min(longest).max(shortest);
                (Some(RATE_MIN), measure_s, ProbePurpose::Bracket)
            }
            Phase::Edge(plan) => {
                let (length, purpose) = match plan.near {
                    Some(_) => (CROSSING_LENGTH, ProbePurpose::Crossing),
                    None => (EDGE_LENGTH, ProbePurpose::Edge),
                };
                let rate = *plan.pending.last()?;
                let requests = length * settings.requests_min;
                let left_s = plan.until_s - self.spent_s;
                let measure_s = settings.measure_s(requests, rate, left_s, plan.pending.len());
                (Some(rate), measure_s, purpose)
            }
            Phase::Ended(_) => return None,
        };
        Some(Probe {
            rate_per_s: rate,
            settle_s: SETTLE_SHARE * measure_s,
            measure_s,
            purpose,
        })
    }

    /// Returns the highest rate so far that met the goals, and the lowest that did not.
    pub fn bracket(&self) -> (Option<f64>, Option<f64>) {
        (self.met, self.unmet)
    }

    /// Returns the outcome once the search has ended.
    pub fn outcome(&self) -> Option<SearchOutcome> {
        match self.phase {
            Phase::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Processes the result of the load that [`Search::next`] returned most recently.
    pub fn take(&mut self, result: ProbeResult) {
        self.spent_s += result.took_s;
        let phase = std::mem::replace(&mut self.phase, Phase::Explore);
        self.phase = match phase {
            Phase::Explore => self.explored(&result),
            Phase::Bracket(mut bracket) => {
                let rate = bracket.rate;
                self.note(rate, &result);
                bracket.probes += 1;
                if result.is_met() {
                    bracket.met = Some(rate);
                } else {
                    bracket.unmet = Some(rate);
                    bracket.saturated = result.generator_saturated;
                    bracket.is_certain = is_far_from_met(&result);
                }
                self.bracketed(bracket)
            }
            Phase::Lowest { judged } => {
                self.note(RATE_MIN, &result);
                Phase::Ended(if is_certainly_unmet(&result) {
                    SearchOutcome::Unmet { per_s: RATE_MIN }
                } else {
                    SearchOutcome::Below { per_s: judged }
                })
            }
            Phase::Edge(mut plan) => {
                if let Some(rate) = plan.pending.pop() {
                    self.note(rate, &result);
                    self.edge.push(rate.ln(), result);
                }
                match (plan.pending.is_empty(), plan.near) {
                    (false, _) => Phase::Edge(plan),
                    (true, None) => self.judge_edge(plan.extensions),
                    (true, Some((log_rate, reach))) => self.judge_crossing(log_rate, reach),
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
        // If the server can't reach even the lowest rate that can be judged, a probe at that rate
        // would only overload it.
        let lowest = self.settings.rate_min();
        if lowest > EXPLORED_FACTOR_MAX * result.achieved_per_s {
            return self.below(lowest);
        }
        Phase::Bracket(Bracket {
            rate: self.clamped(FIRST_SHARE * result.achieved_per_s),
            met: None,
            unmet: None,
            saturated: false,
            is_certain: false,
            is_repeated: false,
            step: 1.0,
            probes: 0,
        })
    }

    fn clamped(&self, rate: f64) -> f64 {
        let highest = self.settings.rate_max.unwrap_or(f64::INFINITY);
        rate.max(self.settings.rate_min()).min(highest)
    }

    /// Chooses the next rate of the bracket, or ends the bracket.
    fn bracketed(&mut self, bracket: Bracket) -> Phase {
        let step = (2.0 * bracket.step).min(STEP_MAX);
        let is_late = |share: f64| {
            let is_over = self.spent_s > share * self.settings.time_s;
            bracket.probes >= BRACKET_PROBES_MAX || (self.settings.probe_s.is_none() && is_over)
        };
        let rate = match (bracket.met, bracket.unmet) {
            (Some(met), Some(unmet))
                if unmet / met <= BRACKET_RATIO || is_late(BRACKET_TIME_SHARE) =>
            {
                // If the generator was saturated, more probes near the goal would only measure the
                // generator's limit.
                return if bracket.saturated {
                    self.saturated()
                } else {
                    self.edge_around((met * unmet).sqrt().ln())
                };
            }
            (Some(met), Some(unmet)) => (met * unmet).sqrt(),
            (Some(per_s), None) if self.clamped(per_s * step) <= per_s => {
                let reason = BoundReason::RateMax;
                return Phase::Ended(SearchOutcome::AtLeast { per_s, reason });
            }
            (Some(per_s), None) if is_late(BRACKET_TIME_SHARE_MAX) => {
                let reason = BoundReason::ProbesMax;
                return Phase::Ended(SearchOutcome::AtLeast { per_s, reason });
            }
            // An open loop rarely achieves a higher rate than a closed loop does.
            (Some(met), None) => self.clamped(met * step.sqrt()),
            (None, Some(unmet)) if !bracket.is_repeated && self.clamped(unmet / step) >= unmet => {
                return Phase::Bracket(Bracket {
                    rate: unmet,
                    is_repeated: true,
                    ..bracket
                });
            }
            // A probe of the bracket is short, so it can fail by chance. The longer probes of the
            // edge decide.
            (None, Some(unmet)) if self.clamped(unmet / step) >= unmet => {
                return if bracket.is_certain || bracket.saturated {
                    self.below(unmet)
                } else {
                    self.edge_around(unmet.ln() + 0.5 * EDGE_REACH.ln())
                };
            }
            (None, Some(per_s)) if is_late(BRACKET_TIME_SHARE_MAX) => {
                return Phase::Ended(SearchOutcome::Below { per_s });
            }
            (None, Some(unmet)) => self.clamped(unmet / step),
            (None, None) => self.clamped(RATE_MIN),
        };
        Phase::Bracket(Bracket {
            rate,
            step,
            ..bracket
        })
    }

    /// Returns the phase that follows if the goals were not met at the lowest rate that can be
    /// judged.
    fn below(&self, judged: f64) -> Phase {
        if judged > RATE_MIN {
            Phase::Lowest { judged }
        } else {
            Phase::Ended(SearchOutcome::Unmet { per_s: judged })
        }
    }

    /// Chooses rates around `middle`, which is the logarithm of a rate.
    fn edge_around(&mut self, middle: f64) -> Phase {
        self.time_s = self.settings.time_s_at(middle.exp());
        Phase::Edge(EdgePlan {
            pending: self.rates_around(middle, EDGE_REACH.ln(), EDGE_PROBES),
            until_s: self.end_of_edge_s(),
            extensions: 0,
            near: None,
        })
    }

    fn end_of_edge_s(&self) -> f64 {
        self.spent_s + EDGE_TIME_SHARE * (self.time_s - self.spent_s).max(0.0)
    }

    /// Returns rates that are evenly spaced on the log scale, shifted together by a random amount
    /// of up to half a step, and shuffled.
    fn rates_around(&mut self, middle: f64, reach: f64, count: usize) -> Vec<f64> {
        let gap = 2.0 * reach / (count - 1) as f64;
        let lowest = middle - reach + (self.random.next_share() - 0.5) * gap;
        let mut rates: Vec<f64> = (0..count)
            .map(|step| self.clamped((lowest + step as f64 * gap).exp()))
            .collect();
        for last in (1..rates.len()).rev() {
            let other = (self.random.next_share() * (last + 1) as f64) as usize;
            rates.swap(last, other.min(last));
        }
        rates
    }

    /// Fits the results at the edge. Extends the edge if the fit doesn't cross the goals.
    fn judge_edge(&mut self, extensions: usize) -> Phase {
        let (lowest, highest) = self.edge.range();
        let is_last = extensions == EXTENSIONS_MAX;
        let gap = 2.0 * EDGE_REACH.ln() / (EDGE_PROBES - 1) as f64;
        let (from, direction) = match self.edge.lowest_crossing() {
            Crossing::At { log_rate, .. } if self.is_saturated_below(log_rate) => {
                return self.saturated();
            }
            Crossing::At { log_rate, reach } => {
                let reach = reach.clamp(CROSSING_REACH_MIN, CROSSING_REACH_MAX);
                return self.crossing_around(log_rate, reach, extensions);
            }
            Crossing::Below if self.clamped((lowest - gap).exp()).ln() >= lowest => {
                // If the capacity is a little above the lowest rate, the probes at the edge can
                // exceed the goals by chance.
                let reach = CROSSING_REACH_MAX;
                return if self.edge.is_far_from_met_at(lowest, FAR_EXCESS_MIN) {
                    self.below(lowest.exp())
                } else {
                    self.crossing_around(lowest + 0.5 * reach, reach, extensions)
                };
            }
            Crossing::Below if is_last => {
                let per_s = lowest.exp();
                return Phase::Ended(SearchOutcome::Below { per_s });
            }
            Crossing::Above if is_last || self.clamped((highest + gap).exp()).ln() <= highest => {
                let reason = if is_last {
                    BoundReason::ProbesMax
                } else {
                    BoundReason::RateMax
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
        Phase::Edge(EdgePlan {
            pending,
            until_s: self.end_of_edge_s(),
            extensions: extensions + 1,
            near: None,
        })
    }

    /// Chooses the rates of the last probes, which are longer.
    fn crossing_around(&mut self, log_rate: f64, reach: f64, extensions: usize) -> Phase {
        Phase::Edge(EdgePlan {
            pending: self.rates_around(log_rate, reach, CROSSING_PROBES),
            until_s: self.time_s,
            extensions,
            near: Some((log_rate, reach)),
        })
    }

    /// Computes the capacity from the probes near the first crossing and the probes at the edge.
    fn judge_crossing(&self, log_rate: f64, reach: f64) -> Phase {
        let at = self.edge.refined_crossing(log_rate, reach);
        let lowest = self.settings.rate_min();
        if self.is_saturated_below(at) {
            self.saturated()
        } else if at < lowest.ln() - EXTRAPOLATION_MAX {
            self.below(lowest)
        } else {
            Phase::Ended(SearchOutcome::Capacity { per_s: at.exp() })
        }
    }

    /// Returns true if the generator was saturated in most of the failed probes near the crossing.
    fn is_saturated_below(&self, crossing: f64) -> bool {
        self.edge.is_saturated_at(crossing, 0.5 * EDGE_REACH.ln())
    }

    /// Ends a search that was limited by the generator.
    fn saturated(&self) -> Phase {
        let reason = BoundReason::GeneratorSaturated;
        Phase::Ended(match (self.met, self.unmet) {
            (Some(per_s), _) => SearchOutcome::AtLeast { per_s, reason },
            (None, unmet) => SearchOutcome::Below {
                per_s: unmet.unwrap_or(self.settings.rate_min()),
            },
        })
    }
}

/// Returns true if a probe with few requests proves that the goals are not met. A single slow
/// request is not enough.
fn is_certainly_unmet(result: &ProbeResult) -> bool {
    !result.keeps_up() || exceeds(result, UNMET_EXCESS_MIN)
}

/// Returns true if a probe of the bracket, which ends as soon as it fails, proves that the goals
/// are not met. The server's failure to keep up proves nothing, because so short a probe can
/// complete too few requests by chance.
fn is_far_from_met(result: &ProbeResult) -> bool {
    exceeds(result, FAR_EXCESS_MIN)
}

/// Returns true if nothing was measured, or if the excess of a goal is at least `excess`.
fn exceeds(result: &ProbeResult, excess: f64) -> bool {
    let mut failed = result.goals.iter().filter(|goal| !goal.met);
    let is_exceeded = failed.any(|goal| {
        goal.tail
            .is_none_or(|tail| tail.over >= UNMET_REQUESTS_MIN && goal.excess >= excess)
    });
    is_exceeded || result.goals.is_empty()
}
