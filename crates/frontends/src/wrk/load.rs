//! Runs a prepared load and converts its record to wrk's results.

use std::time::Duration;

use prony_load::script::Director;
use prony_load::{Control, LoadSpec, RunResult, SpecError};
use prony_lua::{LuaHooks, RateSampler, SAMPLING_INTERVAL, Statistics, WrkErrors, WrkFigures};
use prony_record::{Distribution, Nanos, Outcome, OutcomeCounts};

use super::arguments::WrkArguments;
use super::report::{self, WrkResults};
use super::spectrum;
use crate::output::print;
use crate::session::{self, PeriodicCallback, ToolSession};

/// A load that is ready to run.
pub(super) struct WrkLoad<'a> {
    pub(super) arguments: &'a WrkArguments,
    pub(super) session: &'a ToolSession,
    pub(super) spec: &'a LoadSpec,
}

impl WrkLoad<'_> {
    /// Prints the heading and runs the load, with the hooks of a script if there is one.
    ///
    /// # Errors
    ///
    /// Returns the reason why the load can't run.
    pub(super) fn run(&self, hooks: Option<&LuaHooks<'_>>) -> Result<WrkResults, SpecError> {
        let WrkArguments {
            duration_s,
            threads,
            connections,
            ref words,
            ..
        } = *self.arguments;
        let url = words.first().map_or("", String::as_str);
        print(&report::heading(duration_s, url, threads, connections));
        let batch = hooks.map_or(1, LuaHooks::batch);
        let mut rates = RateSampler::new(threads, batch);
        let mut sample = |_: Duration, control: &Control| {
            rates.sample(control);
            if hooks.is_some_and(LuaHooks::has_failed) {
                control.stop();
            }
        };
        let tick = PeriodicCallback {
            every: SAMPLING_INTERVAL,
            call: &mut sample,
        };
        let director = hooks.map(|hooks| hooks as &dyn Director);
        let loaded = session::run_load(self.session, self.spec, director, Some(tick))?;
        let mut results = self.results(&loaded, rates.into_samples());
        // In the record, a batch counts as one request, so the numbers of requests and of failed
        // statuses are taken from the hooks.
        if let Some((responses, not_fine)) = hooks.and_then(LuaHooks::counted) {
            let figures = &mut results.figures;
            (figures.requests, figures.errors.status) = (responses, not_fine);
        }
        Ok(results)
    }

    fn results(&self, loaded: &RunResult, rates: Vec<u64>) -> WrkResults {
        let (record, recorder) = (&loaded.record, &loaded.recorder);
        let service = recorder.service_time();
        // wrk2 measures latency from the time at which a request is due. wrk measures it from the
        // time at which the request is sent.
        let (latency, uncorrected) = match self.arguments.rate_per_s {
            Some(_) => (recorder.response_time(), Some(service)),
            None => (service, None),
        };
        let outcomes = recorder.outcomes();
        let mut errors = WrkErrors::of(outcomes);
        // If the server closes an idle connection, wrk counts a read error, whereas prony retries
        // the request.
        errors.read += record.totals.retried;
        let not_fine = recorder.statuses().filter(|(status, _)| *status > 399);
        errors.status += not_fine.map(|(_, count)| count).sum::<u64>();
        errors.timeout +=
            late(service, self.arguments.timeout_s).saturating_sub(given_up(outcomes));
        WrkResults {
            figures: WrkFigures {
                latency: Statistics::of_times(latency),
                rates: Statistics::of_samples(rates),
                duration: Duration::from_secs_f64(record.totals.elapsed_s),
                requests: record.totals.ok,
                bytes: record.totals.bytes_in,
                errors,
            },
            uncorrected: uncorrected.map(Statistics::of_times),
        }
    }

    pub(super) fn print(&self, results: &WrkResults) {
        let latency = &results.figures.latency;
        let uncorrected = results.uncorrected.as_ref();
        let distribution = match self.arguments.prints_latency {
            true if self.arguments.rate_per_s.is_none() => report::distribution(latency),
            true if self.arguments.prints_uncorrected => spectrum::spectra(latency, uncorrected),
            true => spectrum::spectra(latency, None),
            false => String::new(),
        };
        print(&results.text(&distribution));
    }
}

/// Returns the number of requests that lasted longer than `--timeout`, with or without a response.
fn late(service: &Distribution, timeout_s: u64) -> u64 {
    match timeout_s {
        0 => 0,
        _ => service.count_from(Nanos::from_secs(timeout_s)),
    }
}

/// Returns the number of timed-out requests that also count as failures.
fn given_up(outcomes: &OutcomeCounts) -> u64 {
    outcomes.get(Outcome::ConnectTimeout) + outcomes.get(Outcome::Timeout)
}
