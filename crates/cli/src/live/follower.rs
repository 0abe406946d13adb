//! Follows one load by what its workers, or the agents that make it, lay down.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use prony_load::WorkerUtilization;
use prony_record::{Distribution, Finding, LoadInfo, Nanos, Outcome, SLICE};

use super::agents::Agents;
use crate::under_way::{SoFar, UnderWay};

/// What "now" means for response times and shares.
const RECENT: Duration = Duration::from_secs(5);
/// Slices of which the rate of this moment is made.
const NOW: usize = 2;
/// From one look for findings to the next: it costs some milliseconds.
const FINDINGS_EVERY: Duration = Duration::from_secs(2);

/// All that is shown of a load.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// What was asked for.
    pub(crate) info: LoadInfo,
    /// How long it has been running, warm-up included.
    pub(crate) elapsed: Duration,
    /// How long it is to run, where that is known.
    pub(crate) planned: Option<Duration>,
    /// It was asked to end.
    pub(crate) is_stopped: bool,
    /// Requests that ended, warm-up included.
    pub(crate) ended: u64,
    /// Each half second that is over.
    pub(crate) history: Vec<Point>,
    /// Response times of each half second in which there were any.
    pub(crate) times: Vec<TimesAt>,
    /// Successes a second of the last second.
    pub(crate) ok_per_s: f64,
    /// HTTP bytes received a second of the last second.
    pub(crate) bytes_in_per_s: f64,
    /// Of the last seconds.
    pub(crate) recent: Times,
    /// Of all the measured part.
    pub(crate) all: Times,
    /// How requests of the measured part ended.
    pub(crate) outcomes: Vec<(Outcome, u64)>,
    /// Their answers' statuses.
    pub(crate) statuses: Vec<(u16, u64)>,
    /// Requests under way.
    pub(crate) in_flight: u64,
    /// Requests that are due and wait for a connection; open loop only.
    pub(crate) waiting: Option<u64>,
    /// Connections opened in the measured part.
    pub(crate) connections_opened: u64,
    /// How busy the generator is.
    pub(crate) busy: Option<Busy>,
    /// The agents that make the load, where some do.
    pub(crate) agents: Option<Agents>,
    /// What qualifies the figures.
    pub(crate) findings: Vec<Finding>,
}

/// A half second of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// Its end, since the load began.
    pub(crate) t_s: f64,
    /// Successes a second; in the warm-up, requests that ended.
    pub(crate) ok_per_s: f64,
    /// Failures a second.
    pub(crate) failed_per_s: f64,
}

/// The response times of a half second, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimesAt {
    /// Its end, since the load began.
    pub(crate) t_s: f64,
    /// The median.
    pub(crate) p50_us: f64,
    /// The 99th percentile.
    pub(crate) p99_us: f64,
}

/// The generator in the last seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Busy {
    /// The share of its time in which the busiest worker was at work, 0 to 1.
    pub(crate) busiest: f64,
    /// The share in which the worker that lacked a core longest had none.
    pub(crate) starved: f64,
    /// CPU of all workers, percent of one core.
    pub(crate) cpu_percent: f64,
}

/// Response times in microseconds, and whether they are at least so long.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Times {
    /// How many.
    pub(crate) count: u64,
    /// The median, the 90th, the 99th and the 99.9th percentile.
    pub(crate) percentiles: [(f64, bool); 4],
    /// The longest.
    pub(crate) max: (f64, bool),
}

impl Times {
    /// What each of them is called.
    pub(crate) const NAMES: [&'static str; 4] = ["p50", "p90", "p99", "p99.9"];
    const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

    fn of(times: &Distribution) -> Times {
        if times.count() == 0 {
            return Times::default();
        }
        let at = |quantile: f64| {
            let (time, at_least) = times.quantile(quantile);
            (time.as_micros_f64(), at_least)
        };
        Times {
            count: times.count(),
            percentiles: Times::QUANTILES.map(at),
            max: at(1.0),
        }
    }
}

impl Figures {
    /// Requests that failed.
    pub(crate) fn failed(&self) -> u64 {
        let failures = self.outcomes.iter().filter(|(it, _)| it.is_failure());
        failures.map(|(_, n)| n).sum()
    }

    /// The time until the load's end, where it is known.
    pub(crate) fn left(&self) -> Option<Duration> {
        Some(self.planned?.saturating_sub(self.elapsed))
    }

    /// Whether nothing is measured yet.
    pub(crate) fn is_warming_up(&self) -> bool {
        self.elapsed.as_secs_f64() < self.info.warmup_s
    }
}

/// A load under way.
#[derive(Debug)]
pub(crate) struct Follower {
    under_way: UnderWay,
    /// When it began; of one that agents make, when they were asked for it.
    began: Instant,
    figures: Figures,
    /// The last count of the warm-up: when, and how many had ended.
    counted: (f64, u64),
    /// Slices of the measured part, those that not all workers have laid down yet included.
    slices: Vec<Slice>,
    complete: Nanos,
    recent: VecDeque<(Nanos, Distribution)>,
    utilizations: VecDeque<Vec<WorkerUtilization>>,
    /// What was known before the load began.
    forecast: Vec<Finding>,
    looked_for_findings: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slice {
    ok: u64,
    failed: u64,
    bytes_in: u64,
}

impl Follower {
    /// Follows a load that begins now, or when its agents are ready; `planned` is its whole length,
    /// warm-up included, as far as that is known now, `forecast` what is known of it before.
    pub(crate) fn new(
        under_way: UnderWay,
        planned: Option<Duration>,
        forecast: &[Finding],
    ) -> Follower {
        let began = Instant::now();
        Follower {
            began,
            figures: Figures {
                info: under_way.info(),
                agents: match &under_way {
                    UnderWay::Here(..) => None,
                    UnderWay::ByAgents(feed) => {
                        feed.follow();
                        Some(Agents::of(feed))
                    }
                },
                planned,
                findings: forecast.to_vec(),
                ..Figures::default()
            },
            under_way,
            counted: (0.0, 0),
            slices: Vec::new(),
            complete: Nanos::ZERO,
            recent: VecDeque::new(),
            utilizations: VecDeque::new(),
            forecast: forecast.to_vec(),
            looked_for_findings: began,
        }
    }

    /// What was seen last.
    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Looks at what there is at this moment.
    pub(crate) fn refresh(&mut self, now: Instant) {
        self.see_agents();
        let elapsed = now.saturating_duration_since(self.began);
        self.figures.elapsed = elapsed;
        self.figures.is_stopped = self.under_way.is_stopped();
        self.figures.ended = self.under_way.ended();
        // Agents count nothing that others see before the measured part.
        if self.complete == Nanos::ZERO && self.figures.agents.is_none() {
            self.count_by_hand(elapsed.as_secs_f64());
        }
        let complete = self.under_way.complete_until();
        if complete > self.complete {
            self.complete = complete;
            self.take();
        }
        if now.saturating_duration_since(self.looked_for_findings) >= FINDINGS_EVERY {
            self.looked_for_findings = now;
            self.figures.findings = self.under_way.findings();
            self.figures.findings.extend_from_slice(&self.forecast);
        }
    }

    /// What a load is, and when it began, agents say in the course of it.
    fn see_agents(&mut self) {
        let UnderWay::ByAgents(feed) = &self.under_way else {
            return;
        };
        self.figures.agents = Some(Agents::of(feed));
        self.figures.info = feed.load();
        if let Some(begun) = feed.begun() {
            self.began = begun.at;
            self.figures.planned = begun.planned;
        }
    }

    /// Until the first slice of the measured part there are only the counts.
    fn count_by_hand(&mut self, elapsed_s: f64) {
        let (before, counted) = self.counted;
        let length = elapsed_s - before;
        if length < SLICE.as_secs_f64() {
            return;
        }
        let ended = self.figures.ended.saturating_sub(counted);
        self.figures.ok_per_s = ended as f64 / length;
        self.counted = (elapsed_s, self.figures.ended);
        if elapsed_s <= self.figures.info.warmup_s {
            self.figures.history.push(Point {
                t_s: elapsed_s,
                ok_per_s: self.figures.ok_per_s,
                failed_per_s: 0.0,
            });
        }
    }

    /// Takes what the workers have laid down.
    fn take(&mut self) {
        let delta = self.under_way.take();
        for seen in delta.slices() {
            let slices = self.slices.len().max(seen.number + 1);
            self.slices.resize(slices, Slice::default());
            let slice = &mut self.slices[seen.number];
            slice.ok += seen.ok;
            slice.failed += seen.failed;
            slice.bytes_in += seen.bytes_in;
        }
        self.draw_out();
        if delta.response_time.count() > 0 {
            let at = |quantile| delta.response_time.quantile(quantile).0.as_micros_f64();
            self.figures.times.push(TimesAt {
                t_s: self.complete.as_secs_f64(),
                p50_us: at(0.5),
                p99_us: at(0.99),
            });
        }
        let oldest = self.complete.since(Nanos::from(RECENT));
        self.recent.push_back((self.complete, delta.response_time));
        while self
            .recent
            .front()
            .is_some_and(|(until, _)| *until <= oldest)
        {
            self.recent.pop_front();
        }
        let mut recent = Distribution::new();
        self.recent
            .iter()
            .for_each(|(_, times)| recent.merge(times));
        self.figures.recent = Times::of(&recent);
        self.sum_up(&self.under_way.so_far());
        self.see_utilizations();
    }

    /// The history as far as all workers have laid it down.
    fn draw_out(&mut self) {
        let warmup = Nanos::from_secs_f64(self.figures.info.warmup_s);
        let complete = (self.complete.since(warmup).0 / SLICE.0) as usize;
        let per_s = |n: u64| n as f64 / SLICE.as_secs_f64();
        let history = &mut self.figures.history;
        history.retain(|point| point.t_s <= self.figures.info.warmup_s);
        let whole = &self.slices[..complete.min(self.slices.len())];
        history.extend((1u32..).zip(whole).map(|(number, slice)| Point {
            t_s: self.figures.info.warmup_s + f64::from(number) * SLICE.as_secs_f64(),
            ok_per_s: per_s(slice.ok),
            failed_per_s: per_s(slice.failed),
        }));
        let last = &whole[whole.len().saturating_sub(NOW)..];
        let mean = |figure: fn(&Slice) -> u64| {
            per_s(last.iter().map(figure).sum()) / last.len().max(1) as f64
        };
        self.figures.ok_per_s = mean(|slice| slice.ok);
        self.figures.bytes_in_per_s = mean(|slice| slice.bytes_in);
    }

    fn sum_up(&mut self, so_far: &SoFar) {
        let (figures, all) = (&mut self.figures, &so_far.delta);
        figures.all = Times::of(&all.response_time);
        figures.outcomes = all.outcomes.happened().collect();
        figures.statuses = all.statuses.iter().collect();
        figures.in_flight = so_far.in_flight;
        figures.connections_opened = all.connections_opened;
        figures.waiting = waiting(&figures.info, all.started, so_far.reaches);
    }

    /// What the workers did since some seconds ago.
    fn see_utilizations(&mut self) {
        let now = self.under_way.utilizations();
        let elapsed = |utilizations: &[WorkerUtilization]| {
            let each = utilizations.iter().map(|utilization| utilization.elapsed);
            each.max().unwrap_or_default()
        };
        let oldest = elapsed(&now).since(Nanos::from(RECENT));
        while self.utilizations.len() > 1 && elapsed(&self.utilizations[0]) < oldest {
            self.utilizations.pop_front();
        }
        let none = vec![WorkerUtilization::default(); now.len()];
        let before = self.utilizations.front().unwrap_or(&none);
        self.figures.busy = since(before, &now);
        self.utilizations.push_back(now);
    }
}

/// Requests that are due until a moment and have not begun. Of random arrivals it is only known how many
/// there should be, so that a few may be none.
fn waiting(info: &LoadInfo, started: u64, until: Nanos) -> Option<u64> {
    let due = info.rate_per_s? * until.as_secs_f64();
    let waiting = (due as u64).saturating_sub(started);
    let chance = match info.arrivals.as_deref() {
        Some("poisson") => 4.0 * due.sqrt(),
        _ => 0.0,
    };
    Some(if waiting as f64 > chance { waiting } else { 0 })
}

/// How busy each worker was in between.
fn since(before: &[WorkerUtilization], now: &[WorkerUtilization]) -> Option<Busy> {
    let mut busy = Busy {
        busiest: 0.0,
        starved: 0.0,
        cpu_percent: 0.0,
    };
    let mut is_known = false;
    for (before, now) in before.iter().zip(now) {
        let span = now.elapsed.since(before.elapsed).as_secs_f64();
        if span <= 0.0 {
            continue;
        }
        is_known = true;
        let part = |share: fn(&WorkerUtilization) -> f64| {
            let of = |utilization: &WorkerUtilization| {
                share(utilization) * utilization.elapsed.as_secs_f64()
            };
            ((of(now) - of(before)) / span).clamp(0.0, 1.0)
        };
        busy.busiest = busy.busiest.max(part(|utilization| utilization.busy_share));
        busy.starved = busy
            .starved
            .max(part(|utilization| utilization.starved_share));
        let cpu =
            |utilization: &WorkerUtilization| (utilization.cpu.0 + utilization.cpu.1).as_secs_f64();
        busy.cpu_percent += (cpu(now) - cpu(before)) / span * 100.0;
    }
    is_known.then_some(busy)
}
