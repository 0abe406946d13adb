//! Follows a running load by reading the results that its workers or agents publish.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use prony_load::WorkerUtilization;
use prony_record::number::RateUnit;
use prony_record::{
    Distribution, EntryGrouping, EntryResult, EntryResults, Finding, HALF_SECOND, JourneyCounts,
    LoadInfo, Nanos, Outcome, RateProfile,
};

use super::agents::AgentStates;
use crate::running_load::{LoadSnapshot, RunningLoad};

/// Length of the window for recent response times and CPU usage.
const RECENT: Duration = Duration::from_secs(5);
/// Number of half seconds over which the current rate is averaged.
const RATE_SLICES: usize = 2;
/// Maximum number of entries that the view shows.
const WORST_ENTRIES: usize = 5;
/// Interval between checks for findings. Each check takes several milliseconds.
const FINDINGS_INTERVAL: Duration = Duration::from_secs(2);

/// The data of a load that the live view shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoadFigures {
    /// Settings of the load.
    pub(crate) info: LoadInfo,
    /// Time since the start, including the warm-up.
    pub(crate) elapsed: Duration,
    /// Rate of an open loop over time. Time zero is the start of the load, including the warm-up.
    pub(crate) rate: Option<RateProfile>,
    /// Planned duration, if known.
    pub(crate) planned: Option<Duration>,
    /// True if the user asked to stop the load.
    pub(crate) is_stopped: bool,
    /// Number of requests that finished, including the warm-up.
    pub(crate) ended: u64,
    /// Rates in each past half second.
    pub(crate) history: Vec<RatePoint>,
    /// Response times in each half second in which requests finished.
    pub(crate) times: Vec<TimesPoint>,
    /// Successful requests per second, over the last second. Before the first results of the
    /// measured part, all finished requests per second.
    pub(crate) ok_per_s: f64,
    /// True if `ok_per_s` counts only successful requests.
    pub(crate) is_ok_known: bool,
    /// Offered rate over the same span as `ok_per_s`; open loop only.
    pub(crate) offered_per_s: Option<f64>,
    /// Journeys of virtual users; `None` for other loads.
    pub(crate) journeys: Option<JourneyFigures>,
    /// Events of streamed responses; `None` for other loads.
    pub(crate) events: Option<EventFigures>,
    /// HTTP bytes received per second, over the last second.
    pub(crate) bytes_in_per_s: f64,
    /// Response times of the last few seconds.
    pub(crate) recent: TimePercentiles,
    /// Response times of the whole measured part.
    pub(crate) all: TimePercentiles,
    /// Number of requests in the measured part, by outcome.
    pub(crate) outcomes: Vec<(Outcome, u64)>,
    /// Number of responses in the measured part, by status code.
    pub(crate) statuses: Vec<(u16, u64)>,
    /// The list entries with the worst results, or the first steps of the journey; empty if there is
    /// only one entry.
    pub(crate) worst_entries: Vec<EntryResult>,
    /// Number of requests in flight.
    pub(crate) in_flight: u64,
    /// Number of requests that are due but are waiting for a connection; open loop only.
    pub(crate) waiting: Option<u64>,
    /// Number of connections opened in the measured part.
    pub(crate) connections_opened: u64,
    /// CPU usage of the generator.
    pub(crate) busy: Option<GeneratorUse>,
    /// State of the agents, if agents send the load.
    pub(crate) agents: Option<AgentStates>,
    /// Findings that qualify the results.
    pub(crate) findings: Vec<Finding>,
}

/// Rates in a half second of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RatePoint {
    /// End of the half second, in seconds since the start of the load.
    pub(crate) t_s: f64,
    /// Successful requests per second; during the warm-up, all finished requests.
    pub(crate) ok_per_s: f64,
    /// Failed requests per second.
    pub(crate) failed_per_s: f64,
}

/// Response times in a half second, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimesPoint {
    /// End of the half second, in seconds since the start of the load.
    pub(crate) t_s: f64,
    /// The median.
    pub(crate) p50_us: f64,
    /// The 99th percentile.
    pub(crate) p99_us: f64,
}

/// Journeys of virtual users.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct JourneyFigures {
    /// Completed journeys per second, over the results that were published last.
    pub(crate) per_s: f64,
    /// Journeys of the measured part by their ends.
    pub(crate) counts: JourneyCounts,
    /// Times of the completed journeys in the whole measured part.
    pub(crate) times: TimePercentiles,
}

/// Events of streamed responses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct EventFigures {
    /// Events per second, over the results that were published last.
    pub(crate) per_s: f64,
    /// Times to the first event in the whole measured part.
    pub(crate) first_event: TimePercentiles,
    /// Gaps between events in the whole measured part.
    pub(crate) event_gap: TimePercentiles,
}

/// CPU usage of the load generator in the last few seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GeneratorUse {
    /// Busy fraction of the busiest worker, 0 to 1.
    pub(crate) busiest: f64,
    /// Largest fraction of time for which a worker waited for a core, 0 to 1.
    pub(crate) starved: f64,
    /// CPU time of all workers, in percent of one core.
    pub(crate) cpu_percent: f64,
}

/// Percentiles of response times in microseconds. The bool states whether the value is only a lower
/// bound.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct TimePercentiles {
    /// Number of response times.
    pub(crate) count: u64,
    /// The median, and the 90th, 99th and 99.9th percentiles.
    pub(crate) percentiles: [(f64, bool); 4],
    /// The maximum.
    pub(crate) max: (f64, bool),
}

impl TimePercentiles {
    /// The names of the percentiles.
    pub(crate) const NAMES: [&'static str; 4] = ["p50", "p90", "p99", "p99.9"];
    const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

    fn of(times: &Distribution) -> TimePercentiles {
        if times.count() == 0 {
            return TimePercentiles::default();
        }
        let at = |quantile: f64| {
            let (time, at_least) = times.quantile(quantile);
            (time.as_micros_f64(), at_least)
        };
        TimePercentiles {
            count: times.count(),
            percentiles: TimePercentiles::QUANTILES.map(at),
            max: at(1.0),
        }
    }
}

impl LoadFigures {
    /// Replaces the settings of the load.
    pub(crate) fn set_info(&mut self, info: LoadInfo) {
        let rate = info.rate_profile();
        self.rate = rate.map(|rate| rate.after_warmup(info.warmup_s));
        self.info = info;
    }

    /// Returns the mean offered rate in the span of `length_s` that ended at the given time.
    pub(crate) fn offered_until(&self, t_s: f64, length_s: f64) -> Option<f64> {
        let begin_s = (t_s - length_s).max(0.0);
        Some(self.rate.as_ref()?.mean_between(begin_s, t_s))
    }

    /// Returns the number of successful requests in the measured part.
    pub(crate) fn ok(&self) -> u64 {
        let ok = self.outcomes.iter().filter(|(it, _)| *it == Outcome::Ok);
        ok.map(|(_, n)| n).sum()
    }

    /// Returns the number of failed requests in the measured part.
    pub(crate) fn failed(&self) -> u64 {
        let failures = self.outcomes.iter().filter(|(it, _)| it.is_failure());
        failures.map(|(_, n)| n).sum()
    }

    /// Returns the time until the planned end, if it is known.
    pub(crate) fn left(&self) -> Option<Duration> {
        Some(self.planned?.saturating_sub(self.elapsed))
    }

    /// Returns true if the measured part has not started.
    pub(crate) fn is_warming_up(&self) -> bool {
        self.elapsed.as_secs_f64() < self.info.warmup_s
    }
}

/// Follows a running load by reading its results at regular intervals.
#[derive(Debug)]
pub(crate) struct LoadFollower {
    running_load: RunningLoad,
    /// Start of the load. For a load on agents, this is at first the time at which the coordinator
    /// requested the load. The actual start replaces it once the agents have reported it.
    began: Instant,
    figures: LoadFigures,
    /// The last count of the warm-up's requests: its time in seconds, and the number of finished
    /// requests.
    counted: (f64, u64),
    /// Half seconds of the measured part, including half seconds that some workers have not published yet.
    half_seconds: Vec<HalfSecondCounts>,
    complete: Nanos,
    recent: VecDeque<(Nanos, Distribution)>,
    utilizations: VecDeque<Vec<WorkerUtilization>>,
    /// Findings that were made before the start of the load.
    forecast: Vec<Finding>,
    looked_for_findings: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct HalfSecondCounts {
    ok: u64,
    failed: u64,
    bytes_in: u64,
}

impl LoadFollower {
    /// Follows a load that starts now or when its agents are ready. `planned` is the duration of
    /// the load including the warm-up, if known. `forecast` contains findings that were made before
    /// the start.
    pub(crate) fn new(
        running_load: RunningLoad,
        planned: Option<Duration>,
        forecast: &[Finding],
    ) -> LoadFollower {
        let began = Instant::now();
        running_load.publish();
        let mut follower = LoadFollower {
            began,
            figures: LoadFigures {
                agents: match &running_load {
                    RunningLoad::Here(..) => None,
                    RunningLoad::ByAgents(feed) => {
                        feed.follow();
                        Some(AgentStates::of(feed))
                    }
                },
                planned,
                findings: forecast.to_vec(),
                ..LoadFigures::default()
            },
            running_load,
            counted: (0.0, 0),
            half_seconds: Vec::new(),
            complete: Nanos::ZERO,
            recent: VecDeque::new(),
            utilizations: VecDeque::new(),
            forecast: forecast.to_vec(),
            looked_for_findings: began,
        };
        follower.figures.set_info(follower.running_load.info());
        follower
    }

    /// Returns the data that the last refresh read.
    pub(crate) fn figures(&self) -> &LoadFigures {
        &self.figures
    }

    /// Reads the current data.
    pub(crate) fn refresh(&mut self, now: Instant) {
        self.update_agents();
        let elapsed = now.saturating_duration_since(self.began);
        self.figures.elapsed = elapsed;
        self.figures.is_stopped = self.running_load.is_stopped();
        self.figures.ended = self.running_load.ended();
        // Agents publish no counts during the warm-up.
        if self.complete == Nanos::ZERO && self.figures.agents.is_none() {
            self.update_warmup_rate(elapsed.as_secs_f64());
        }
        let complete = self.running_load.complete_until();
        if complete > self.complete {
            self.complete = complete;
            self.take();
        }
        if now.saturating_duration_since(self.looked_for_findings) >= FINDINGS_INTERVAL {
            self.looked_for_findings = now;
            self.figures.findings = self.running_load.findings();
            self.figures.findings.extend_from_slice(&self.forecast);
        }
    }

    /// Updates the settings and the start of a load on agents, which report them while it runs.
    fn update_agents(&mut self) {
        let RunningLoad::ByAgents(feed) = &self.running_load else {
            return;
        };
        self.figures.agents = Some(AgentStates::of(feed));
        self.figures.set_info(feed.load());
        if let Some(begun) = feed.begun() {
            self.began = begun.at;
            self.figures.planned = begun.planned;
        }
    }

    /// Updates the rate before the first half second of the measured part, when only counts are
    /// available.
    fn update_warmup_rate(&mut self, elapsed_s: f64) {
        let (before, counted) = self.counted;
        let length = elapsed_s - before;
        if length < HALF_SECOND.as_secs_f64() {
            return;
        }
        let ended = self.figures.ended.saturating_sub(counted);
        self.figures.ok_per_s = ended as f64 / length;
        self.figures.offered_per_s = self.figures.offered_until(elapsed_s, length);
        self.counted = (elapsed_s, self.figures.ended);
        if elapsed_s <= self.figures.info.warmup_s {
            self.figures.history.push(RatePoint {
                t_s: elapsed_s,
                ok_per_s: self.figures.ok_per_s,
                failed_per_s: 0.0,
            });
        }
    }

    /// Reads the results that the workers have published.
    fn take(&mut self) {
        let delta = self.running_load.take();
        for seen in delta.half_seconds() {
            let length = self.half_seconds.len().max(seen.number + 1);
            self.half_seconds
                .resize(length, HalfSecondCounts::default());
            let half_second = &mut self.half_seconds[seen.number];
            half_second.ok += seen.ok;
            half_second.failed += seen.failed;
            half_second.bytes_in += seen.bytes_in;
        }
        if self.figures.info.events.is_some() {
            let length_s = delta.length().as_secs_f64();
            let events = self.figures.events.get_or_insert_default();
            if length_s > 0.0 {
                events.per_s = delta.events.events as f64 / length_s;
            }
        }
        if self.figures.info.steps > 0 {
            let length_s = delta.length().as_secs_f64();
            let journeys = self.figures.journeys.get_or_insert_default();
            if length_s > 0.0 {
                journeys.per_s = delta.journeys.completed as f64 / length_s;
            }
        }
        self.update_history();
        if delta.response_time.count() > 0 {
            let at = |quantile| delta.response_time.quantile(quantile).0.as_micros_f64();
            self.figures.times.push(TimesPoint {
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
        self.figures.recent = TimePercentiles::of(&recent);
        self.update_totals(&self.running_load.so_far());
        self.update_utilizations();
    }

    /// Rebuilds the history from the half seconds that all workers have published.
    fn update_history(&mut self) {
        let warmup = Nanos::from_secs_f64(self.figures.info.warmup_s);
        let complete = (self.complete.since(warmup).0 / HALF_SECOND.0) as usize;
        let per_s = |n: u64| n as f64 / HALF_SECOND.as_secs_f64();
        let history = &mut self.figures.history;
        history.retain(|point| point.t_s <= self.figures.info.warmup_s);
        let whole = &self.half_seconds[..complete.min(self.half_seconds.len())];
        history.extend((1u32..).zip(whole).map(|(number, half_second)| RatePoint {
            t_s: self.figures.info.warmup_s + f64::from(number) * HALF_SECOND.as_secs_f64(),
            ok_per_s: per_s(half_second.ok),
            failed_per_s: per_s(half_second.failed),
        }));
        let history_end_s = history.last().map_or(0.0, |point| point.t_s);
        let last = &whole[whole.len().saturating_sub(RATE_SLICES)..];
        let mean = |figure: fn(&HalfSecondCounts) -> u64| {
            per_s(last.iter().map(figure).sum()) / last.len().max(1) as f64
        };
        self.figures.ok_per_s = mean(|half_second| half_second.ok);
        self.figures.bytes_in_per_s = mean(|half_second| half_second.bytes_in);
        self.figures.is_ok_known = true;
        // On a ramp, the rates of two different spans would differ.
        let (until_s, length_s) = (history_end_s, last.len() as f64 * HALF_SECOND.as_secs_f64());
        self.figures.offered_per_s = self.figures.offered_until(until_s, length_s);
    }

    fn update_totals(&mut self, so_far: &LoadSnapshot) {
        let (figures, all) = (&mut self.figures, &so_far.delta);
        figures.all = TimePercentiles::of(&all.response_time);
        if let Some(events) = &mut figures.events {
            events.first_event = TimePercentiles::of(&all.events.first_event);
            events.event_gap = TimePercentiles::of(&all.events.event_gap);
        }
        if let Some(journeys) = &mut figures.journeys {
            journeys.counts = all.journeys;
            journeys.times = TimePercentiles::of(&all.journey_time);
        }
        figures.outcomes = all.outcomes.happened().collect();
        figures.statuses = all.statuses.iter().collect();
        if let Some(list) = &figures.info.entries {
            let entries = EntryResults::of(list, &all.entries, all.length());
            let shown = match entries.grouping {
                EntryGrouping::Step => entries.rows().take(WORST_ENTRIES).collect(),
                _ => prony_report::worst_entries(&entries, WORST_ENTRIES),
            };
            figures.worst_entries = shown.into_iter().cloned().collect();
        }
        figures.in_flight = so_far.in_flight;
        figures.connections_opened = all.connections_opened;
        let started = match figures.info.rate_unit() {
            RateUnit::Requests | RateUnit::Connections | RateUnit::Messages => all.started,
            RateUnit::Journeys => all.journeys.begun,
        };
        figures.waiting = waiting_requests(figures, started, so_far.reaches);
    }

    /// Updates the CPU usage of the last few seconds.
    fn update_utilizations(&mut self) {
        let now = self.running_load.utilizations();
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
        self.figures.busy = generator_use(before, &now);
        self.utilizations.push_back(now);
    }
}

/// Returns the number of requests that are due and have not started. With random arrivals only the
/// expected number is known, so small values count as zero.
fn waiting_requests(figures: &LoadFigures, started: u64, until: Nanos) -> Option<u64> {
    let due = figures.rate.as_ref()?.arrivals_until(until.as_secs_f64());
    let waiting = (due as u64).saturating_sub(started);
    let chance = match figures.info.arrivals.as_deref() {
        Some("poisson") => 4.0 * due.sqrt(),
        _ => 0.0,
    };
    Some(if waiting as f64 > chance { waiting } else { 0 })
}

/// Computes the CPU usage between two readings.
fn generator_use(before: &[WorkerUtilization], now: &[WorkerUtilization]) -> Option<GeneratorUse> {
    let mut busy = GeneratorUse {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prony_load::Control;
    use prony_record::RateStage;

    use super::*;

    #[test]
    fn a_server_that_keeps_up_with_a_ramp_achieves_the_offered_rate() {
        let stage = |rate_per_s, length_s| RateStage {
            rate_per_s,
            length_s,
        };
        let info = LoadInfo {
            stages: vec![stage(100.0, 0.0), stage(3_000.0, 10.0)],
            ..LoadInfo::default()
        };
        let running_load = RunningLoad::here(&Arc::new(Control::new(1)), &info);
        let mut follower = LoadFollower::new(running_load, None, &[]);
        let rate = follower.figures.rate.clone().unwrap();
        for number in 1..=20u32 {
            let until_s = f64::from(number) * HALF_SECOND.as_secs_f64();
            let due = |t_s| rate.arrivals_until(t_s).round() as u64;
            let ok = due(until_s) - due(until_s - HALF_SECOND.as_secs_f64());
            follower.half_seconds.push(HalfSecondCounts {
                ok,
                ..HalfSecondCounts::default()
            });
            follower.complete = Nanos::from_secs_f64(until_s);
            follower.update_history();
            let (ok, offered) = (
                follower.figures.ok_per_s,
                follower.figures.offered_per_s.unwrap(),
            );
            assert!((ok - offered).abs() <= 2.0, "{ok} of {offered}");
        }
    }
}
