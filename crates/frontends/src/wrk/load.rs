//! A load that is ready: it runs, and its record becomes wrk's numbers.

use std::time::{Duration, Instant};

use prony_load::script::Director;
use prony_load::{Control, LoadSpec, RunResult};
use prony_record::{Distribution, Nanos, Outcome, OutcomeCounts};

use super::arguments::Arguments;
use super::director::Hooks;
use super::report::{self, Errors, Results};
use super::spectrum;
use super::statistics::Statistics;
use crate::output::print;
use crate::session::{self, Refusal, Session, Tick};

/// How often each thread's rate is looked at.
const SAMPLED_EACH: Duration = Duration::from_millis(100);

/// A load that is ready.
pub(super) struct Load<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) session: &'a Session,
    pub(super) spec: &'a LoadSpec,
}

impl Load<'_> {
    /// Runs it, with its heading before, and by a script's hooks where they are given.
    ///
    /// # Errors
    ///
    /// Why the machine refused.
    pub(super) fn run(&self, hooks: Option<&Hooks<'_>>) -> Result<Results, String> {
        let Arguments {
            duration_s,
            threads,
            connections,
            ref words,
            ..
        } = *self.arguments;
        let url = words.first().map_or("", String::as_str);
        print(&report::heading(duration_s, url, threads, connections));
        let batch = hooks.map_or(1, Hooks::batch);
        let mut rates = Rates::new(threads, batch);
        let mut sample = |_: Duration, control: &Control| {
            rates.sample(control);
            if hooks.is_some_and(Hooks::has_failed) {
                control.stop();
            }
        };
        let tick = Tick {
            every: SAMPLED_EACH,
            call: &mut sample,
        };
        let director = hooks.map(|hooks| hooks as &dyn Director);
        let loaded = session::run(self.session, self.spec, director, Some(tick));
        let loaded = loaded.map_err(|refusal| match refusal {
            Refusal::Wrong(text) | Refusal::Environment(text) => text,
        })?;
        let mut results = self.results(&loaded, rates.samples);
        // The load has taken a batch for one request.
        if let Some((answers, not_fine)) = hooks.and_then(Hooks::counted) {
            (results.requests, results.errors.status) = (answers, not_fine);
        }
        Ok(results)
    }

    fn results(&self, loaded: &RunResult, rates: Vec<u64>) -> Results {
        let (record, recorder) = (&loaded.record, &loaded.recorder);
        let service = recorder.service_time();
        // wrk2's latency begins when a request is due, wrk's when it is sent.
        let (latency, uncorrected) = match self.arguments.rate_per_s {
            Some(_) => (recorder.response_time(), Some(service)),
            None => (service, None),
        };
        let outcomes = recorder.outcomes();
        let mut errors = Errors::of(outcomes);
        // A reused connection that the server had closed: wrk loses a request so, here it is sent again.
        errors.read += record.totals.retried;
        let not_fine = recorder.statuses().filter(|(status, _)| *status > 399);
        errors.status += not_fine.map(|(_, count)| count).sum::<u64>();
        errors.timeout +=
            late(service, self.arguments.timeout_s).saturating_sub(given_up(outcomes));
        Results {
            latency: Statistics::of_times(latency),
            uncorrected: uncorrected.map(Statistics::of_times),
            rates: Statistics::of_samples(rates),
            duration: Duration::from_secs_f64(record.totals.elapsed_s),
            requests: record.totals.ok,
            bytes: record.totals.bytes_in,
            errors,
        }
    }

    /// Prints what it came to.
    pub(super) fn print(&self, results: &Results) {
        let latency = &results.latency;
        let uncorrected = results.uncorrected.as_ref();
        let distribution = match self.arguments.prints_latency {
            true if self.arguments.rate_per_s.is_none() => report::distribution(latency),
            true if self.arguments.prints_uncorrected => spectrum::lines(latency, uncorrected),
            true => spectrum::lines(latency, None),
            false => String::new(),
        };
        print(&results.text(&distribution));
    }
}

/// Answers that took longer than `--timeout`, and requests that have waited longer for one.
fn late(service: &Distribution, timeout_s: u64) -> u64 {
    match timeout_s {
        0 => 0,
        _ => service.count_from(Nanos::from_secs(timeout_s)),
    }
}

/// Those of them that have a place as failures.
fn given_up(outcomes: &OutcomeCounts) -> u64 {
    outcomes.get(Outcome::ConnectTimeout) + outcomes.get(Outcome::Timeout)
}

/// Each thread's requests a second, looked at over and over.
struct Rates {
    /// Answers to what the load takes for one request.
    batch: u32,
    answered: Vec<u64>,
    since: Vec<Instant>,
    samples: Vec<u64>,
}

impl Rates {
    fn new(threads: u64, batch: u32) -> Rates {
        Rates {
            batch,
            answered: vec![0; threads as usize],
            since: vec![Instant::now(); threads as usize],
            samples: Vec::new(),
        }
    }

    /// A thread that had no answer since the last time is left for the next.
    fn sample(&mut self, control: &Control) {
        let now = Instant::now();
        let threads = self.answered.iter_mut().zip(&mut self.since);
        let counts = control.ended_by_worker().zip(control.failed_by_worker());
        for ((before, since), (ended, failed)) in threads.zip(counts) {
            let answered = ended.saturating_sub(failed) * u64::from(self.batch);
            let elapsed_s = now.duration_since(*since).as_secs_f64();
            if answered > *before && elapsed_s > 0.0 {
                let rate = (answered - *before) as f64 / elapsed_s;
                self.samples.push(rate as u64);
                (*before, *since) = (answered, now);
            }
        }
    }
}
