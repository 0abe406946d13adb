//! Execution of one capacity search.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use prony_load::{Control, LoadSpec};
use prony_plan::probe_load::ProbeLoad;
use prony_record::{Finding, FindingId, Record, Severity};
use prony_stats::capacity::{
    Goal, Probe, ProbeReport, ProbeResult, Search, SearchEnd, SearchReport, SearchSettings,
    connections_limited,
};

use super::probe_loads::ProbeLoads;
use super::probe_watch::ProbeWatch;
use crate::interrupt::Interrupt;

/// Factor and constant for detecting an idle server: its median response time is at most the
/// shortest median so far, times the factor, plus the constant.
const IDLE_FACTOR: f64 = 2.0;
const IDLE_SLACK_US: f64 = 1_000.0;
/// Maximum time to wait before a probe until the server is idle.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(10);
/// Number of successive checks without a successful request after which the server is considered
/// to have stopped responding.
const FAILED_CHECKS_MAX: u32 = 10;
/// Pause between two checks of whether the server is idle.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A capacity search that is ready to run.
#[derive(Debug, Clone, Copy)]
pub struct CapacitySearch<'a> {
    /// Conditions that the server must meet.
    pub goals: &'a [Goal],
    /// Settings of the search.
    pub settings: SearchSettings,
    /// Interrupt that ends the search early.
    pub interrupt: &'a Interrupt,
}

/// An event of a running search.
pub enum SearchEvent<'a> {
    /// A probe begins.
    Begun {
        /// Rate and duration of the probe.
        probe: &'a Probe,
        /// Spec of the probe's load.
        spec: &'a LoadSpec,
        /// Control of the running load.
        control: &'a Arc<Control>,
    },
    /// A probe has ended.
    Ended {
        /// The result of the probe.
        probe: &'a ProbeReport,
        /// Highest rate that met the goals so far, and lowest rate that missed them, in requests
        /// per second.
        bracket: (Option<f64>, Option<f64>),
    },
}

impl CapacitySearch<'_> {
    /// Runs the search until it ends or is interrupted.
    ///
    /// # Errors
    ///
    /// A load can't run. Failed requests are part of the results and not errors.
    pub fn run<L: ProbeLoads>(
        &self,
        loads: &mut L,
        on: &mut dyn FnMut(SearchEvent<'_>),
    ) -> Result<SearchReport, L::Error> {
        let mut running = RunningSearch {
            search: self,
            loads,
            idle_us: None,
            probes: Vec::new(),
            findings: Vec::new(),
        };
        let mut search = Search::new(self.settings);
        let end = running.run(&mut search, on)?;
        let (met_per_s, unmet_per_s) = search.bracket();
        let mut report = SearchReport {
            end,
            met_per_s,
            unmet_per_s,
            probes: running.probes,
            findings: running.findings,
        };
        report.findings.extend(connections_limited(&report));
        Ok(report)
    }
}

/// Result of a check of whether the server is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Idleness {
    /// The response times are similar to those of the idle server.
    Idle,
    /// The responses are slow.
    Busy,
    /// No request succeeded.
    NoSuccess,
}

struct RunningSearch<'a, L> {
    search: &'a CapacitySearch<'a>,
    loads: &'a mut L,
    /// Shortest median response time of the idle server in microseconds; `None` before the first
    /// check.
    idle_us: Option<f64>,
    probes: Vec<ProbeReport>,
    findings: Vec<Finding>,
}

impl<L: ProbeLoads> RunningSearch<'_, L> {
    fn run(
        &mut self,
        search: &mut Search,
        on: &mut dyn FnMut(SearchEvent<'_>),
    ) -> Result<SearchEnd, L::Error> {
        if self.idleness()? != Idleness::Idle {
            return Ok(if self.search.interrupt.is_stopped() {
                SearchEnd::Interrupted
            } else {
                SearchEnd::NoSuccess
            });
        }
        // After a closed loop, or after a rate that the server could not sustain, requests may
        // remain in the server's queues.
        let mut may_be_busy = false;
        while let Some(probe) = search.next() {
            let began = Instant::now();
            if may_be_busy && !self.wait_until_idle(began)? {
                return Ok(if self.search.interrupt.is_stopped() {
                    SearchEnd::Interrupted
                } else {
                    SearchEnd::NoSuccess
                });
            }
            let waited_s = began.elapsed().as_secs_f64();
            let (record, cut_short) = self.load(&probe, on)?;
            if self.search.interrupt.is_stopped() {
                return Ok(SearchEnd::Interrupted);
            }
            let took_s = began.elapsed().as_secs_f64();
            let goals = self.search.goals;
            let result = ProbeResult::read(&record, goals, cut_short, took_s);
            let mut report = ProbeReport::new(&probe, &record, goals, &result, waited_s);
            prony_wording::capacity::compose_probe(&mut report, goals, &record);
            may_be_busy = !result.is_met() || probe.rate_per_s.is_none();
            self.note_findings(&record, result.is_met());
            search.take(result);
            on(SearchEvent::Ended {
                probe: &report,
                bracket: search.bracket(),
            });
            self.probes.push(report);
        }
        Ok(match search.outcome() {
            Some(outcome) => SearchEnd::Outcome { outcome },
            None => SearchEnd::Interrupted,
        })
    }

    /// Runs a probe. Returns its record, and true if the probe ended early.
    fn load(
        &mut self,
        probe: &Probe,
        on: &mut dyn FnMut(SearchEvent<'_>),
    ) -> Result<(Record, bool), L::Error> {
        let goals = self.search.goals;
        let spec = self.loads.spec(&ProbeLoad::Probe {
            probe: *probe,
            limit_s: Goal::longest_limit_s(goals),
            number: self.probes.len() as u64,
        })?;
        let control = Arc::new(Control::new(spec.info().threads));
        if ProbeWatch::needs_times(probe) {
            control.watch();
        }
        on(SearchEvent::Begun {
            probe,
            spec: &spec,
            control: &control,
        });
        self.search.interrupt.set_loads(vec![control.clone()]);
        let (done, is_done) = channel::<()>();
        let (record, early) = std::thread::scope(|scope| {
            let watch = ProbeWatch {
                probe,
                goals,
                info: spec.info(),
                control: &control,
            };
            let watcher = scope.spawn(move || watch.run(&is_done));
            let record = self.loads.run(&spec, &control);
            drop(done);
            (record, watcher.join().unwrap_or_default())
        });
        self.search.interrupt.set_loads(Vec::new());
        Ok((record?, early.is_some()))
    }

    /// Waits until the server has processed the requests that the previous probe left in its
    /// queues. When a load ends, it abandons its outstanding requests. Returns false if no request
    /// succeeded in that time.
    fn wait_until_idle(&mut self, began: Instant) -> Result<bool, L::Error> {
        let mut failed = 0;
        while began.elapsed() < IDLE_WAIT_MAX && !self.search.interrupt.is_stopped() {
            match self.idleness()? {
                Idleness::Idle => return Ok(true),
                Idleness::Busy => failed = 0,
                Idleness::NoSuccess => failed += 1,
            }
            if failed == FAILED_CHECKS_MAX {
                break;
            }
            std::thread::sleep(IDLE_POLL_INTERVAL);
        }
        Ok(failed == 0)
    }

    /// Sends a few requests, and compares their response times with those of the idle server. In
    /// the first call, the server counts as idle if any request succeeded.
    fn idleness(&mut self) -> Result<Idleness, L::Error> {
        let spec = self.loads.spec(&ProbeLoad::Idle)?;
        let control = Arc::new(Control::new(spec.info().threads));
        self.search.interrupt.set_loads(vec![control.clone()]);
        let record = self.loads.run(&spec, &control);
        self.search.interrupt.set_loads(Vec::new());
        let record = record?;
        if record.totals.ok == 0 {
            if self.idle_us.is_none() {
                self.findings.extend(record.findings);
            }
            return Ok(Idleness::NoSuccess);
        }
        let median_us = record.response_time_us.p50;
        let idle_us = self.idle_us.map_or(median_us, |idle| idle.min(median_us));
        self.idle_us = Some(idle_us);
        Ok(if median_us <= IDLE_FACTOR * idle_us + IDLE_SLACK_US {
            Idleness::Idle
        } else {
            Idleness::Busy
        })
    }

    /// Records the findings that qualify the result, each of them once. A probe that met the goals
    /// contributes all its findings. Any other probe contributes only errors of the generator,
    /// because the server's overload explains the rest. A single probe's warning that the server
    /// did not keep up with its rate could contradict the capacity, which follows from all probes.
    fn note_findings(&mut self, record: &Record, met: bool) {
        for finding in &record.findings {
            let is_about_generator = finding
                .id
                .known()
                .is_some_and(FindingId::is_generator_limit)
                || finding.id == FindingId::GeneratorStalled;
            let is_error = finding.severity == Severity::Error;
            let met = met && (is_error || finding.id != FindingId::ScheduleMissed);
            let counts = met || (is_about_generator && is_error);
            if counts && !self.findings.iter().any(|known| known.id == finding.id) {
                self.findings.push(finding.clone());
            }
        }
    }
}
