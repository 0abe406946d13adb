//! Driver of an interleaved block. It decides which load runs, and takes telemetry samples between
//! slices.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use prony_load::{LoadSlice, LoadSpec, SliceReport, Slices};
use prony_machine::host::Host;
use prony_machine::system::avoid_cores;
use prony_machine::telemetry::TelemetrySample;
use prony_record::finding::NotIdle;
use prony_record::{Finding, Nanos, Severity};
use prony_stats::Metric;

use super::block_error::BlockError;
use super::sampling::LatestSample;
use super::scoped_name::ScopedName;
use super::sliced_telemetry::SlicedTelemetry;
use super::trial_result::SliceResult;
use super::{ExperimentEvent, TrialError};
use crate::interleaving::{DEFAULT_SLICE, SETTLING_PART, minimum_duration};
use crate::schedule;

/// Minimum number of requests of each variant in a slice.
const SLICE_REQUESTS_MIN: f64 = 50.0;
/// Limit on the CPU time, in percent of one core, that a variant's services may use in the slices
/// of other variants.
const IDLE_PERCENT_MAX: f64 = 2.0;

/// Load of one variant, which runs in slices.
pub(super) struct SlicedLoad<'a> {
    pub(super) variant: usize,
    pub(super) spec: &'a LoadSpec,
    pub(super) slices: Slices,
}

impl SlicedLoad<'_> {
    fn run(&self, slice: LoadSlice) -> Option<SliceReport> {
        self.slices.run(slice, self.spec.info().threads)
    }

    fn warmup(&self) -> Nanos {
        Nanos::from(Duration::from_secs_f64(self.spec.info().warmup_s))
    }

    /// Returns the duration of the measured part.
    fn duration(&self) -> Nanos {
        let duration_s = self.spec.info().duration_s.unwrap_or_default();
        Nanos::from(Duration::from_secs_f64(duration_s))
    }
}

/// Events that the driver's thread sends.
pub(super) enum DriverEvent {
    RoundsBegan {
        slice: Duration,
        rounds: u32,
    },
    RoundEnded {
        round: u32,
        slices: Vec<(usize, SliceResult)>,
    },
}

/// Forwards the driver's events until the driver has ended.
pub(super) fn forward(received: &Receiver<DriverEvent>, on: &mut dyn FnMut(ExperimentEvent<'_>)) {
    for event in received {
        match event {
            DriverEvent::RoundsBegan { slice, rounds } => {
                on(ExperimentEvent::RoundsBegan { slice, rounds });
            }
            DriverEvent::RoundEnded { round, slices } => on(ExperimentEvent::RoundEnded {
                round,
                slices: &slices,
            }),
        }
    }
}

/// Decides when each load runs, and takes telemetry samples between slices.
pub(super) struct SliceDriver<'a> {
    pub(super) loads: &'a [SlicedLoad<'a>],
    pub(super) services: Vec<(usize, String)>,
    /// Services that may have sampling profiles, including those that prony did not start.
    pub(super) sampled: Vec<(usize, String)>,
    pub(super) slice: Option<Nanos>,
    /// Metrics that get a verdict.
    pub(super) metrics: &'a [Metric],
    pub(super) seed: u64,
    /// Cores that the loads use; the sampling thread avoids them.
    pub(super) avoid: Vec<usize>,
    pub(super) latest: &'a LatestSample,
}

/// Measurements of a block, except for its records.
pub(super) struct BlockMeasurements {
    /// Measurements of the variants, in the order of the loads.
    pub(super) variants: Vec<VariantMeasurements>,
    /// Error about a service that ended while the loads were running, if one did.
    pub(super) ended: Option<BlockError>,
}

/// Measurements of one variant, except for its record.
#[derive(Default)]
pub(super) struct VariantMeasurements {
    /// End of the variant's last slice, on the clock of the load.
    pub(super) until: Nanos,
    pub(super) slices: Vec<SliceResult>,
    pub(super) drains: Vec<Nanos>,
    pub(super) telemetry: Option<SlicedTelemetry>,
}

impl VariantMeasurements {
    /// Returns a finding if the services were busy in the slices of other variants.
    pub(super) fn not_idle(&self) -> Option<Finding> {
        let percent = self.telemetry.as_ref()?.idle_percent()?;
        if percent < IDLE_PERCENT_MAX {
            return None;
        }
        Some(Finding::of(Severity::Warning, &NotIdle { percent }))
    }
}

impl SliceDriver<'_> {
    /// Runs the warm-ups and rounds. Stops early if a load or a service has ended, or if a machine
    /// is lost.
    pub(super) fn drive(
        self,
        host: &mut dyn Host,
        events: &Sender<DriverEvent>,
    ) -> BlockMeasurements {
        avoid_cores(&self.avoid);
        let mut driven: Vec<VariantMeasurements> = self
            .loads
            .iter()
            .map(|_| VariantMeasurements::default())
            .collect();
        let mut ended = None;
        host.begin_profiles();
        if self.are_ready() {
            let done = match self.warm_up(&mut driven) {
                Some(rates) => self.rounds(host, &rates, &mut driven, events),
                None => self.check_services(host),
            };
            ended = done.err();
        }
        for (load, driven) in self.loads.iter().zip(&driven) {
            load.slices.end(driven.until);
        }
        BlockMeasurements {
            variants: driven,
            ended,
        }
    }

    /// Returns an error if a service has ended.
    fn check_services(&self, host: &mut dyn Host) -> Result<(), BlockError> {
        for (variant, service) in &self.services {
            let name = ScopedName::new(service, *variant).0;
            host.alive(&name).map_err(|exit| {
                let error = TrialError::ServiceEnded {
                    service: service.clone(),
                    status: exit.status,
                    log: exit.log_tail,
                };
                BlockError::of(*variant, error)
            })?;
        }
        Ok(())
    }

    fn are_ready(&self) -> bool {
        let mut loads = self.loads.iter();
        loads.all(|load| load.slices.wait_ready(load.spec.info().threads))
    }

    /// Runs the warm-up of each load. Returns the request rate of each load per second; `None` if a
    /// load has ended.
    fn warm_up(&self, driven: &mut [VariantMeasurements]) -> Option<Vec<f64>> {
        let mut rates = vec![0.0; self.loads.len()];
        for index in schedule::order(self.seed, 0, self.loads.len()) {
            let length = self.loads[index].warmup();
            let report = self.loads[index].run(LoadSlice {
                from: Nanos::ZERO,
                settling: Nanos::ZERO,
                length,
            })?;
            rates[index] = report.ended as f64 / length.as_secs_f64();
            driven[index].until = length;
        }
        Some(rates)
    }

    fn rounds(
        &self,
        host: &mut dyn Host,
        rates: &[f64],
        driven: &mut [VariantMeasurements],
        events: &Sender<DriverEvent>,
    ) -> Result<(), BlockError> {
        let duration = self.loads.iter().map(SlicedLoad::duration).max();
        let duration = duration.unwrap_or_default();
        self.refuse_few_requests(duration, rates)?;
        let (rounds, length) = divide(duration, self.slice, rates);
        // Sending can't fail, because the receiver lives until this thread has ended.
        let _ = events.send(DriverEvent::RoundsBegan {
            slice: length.into(),
            rounds,
        });
        let mut before = self.sample(host);
        for (load, driven) in self.loads.iter().zip(&mut *driven) {
            driven.telemetry = Some(SlicedTelemetry::new(load.variant, &before));
        }
        for round in 0..rounds {
            let mut ended = Vec::new();
            let order = schedule::order(self.seed, round as usize + 1, self.loads.len());
            for (position, index) in order.into_iter().enumerate() {
                let load = &self.loads[index];
                let slice = LoadSlice {
                    from: driven[index].until,
                    settling: Nanos(length.0 / u64::from(SETTLING_PART)).min(driven[index].until),
                    length,
                };
                self.count_samples(host, load.variant, true);
                let report = load.run(slice);
                self.count_samples(host, load.variant, false);
                let Some(report) = report else {
                    return self.check_services(host);
                };
                let after = self.sample(host);
                let counted = length + report.excess(&driven[index].drains);
                driven[index].drains.push(report.drain);
                driven[index].until = slice.from + counted;
                let result = slice_result((round, position as u32), counted, &report);
                for (number, driven) in driven.iter_mut().enumerate() {
                    let Some(telemetry) = &mut driven.telemetry else {
                        continue;
                    };
                    if number == index {
                        telemetry.add(
                            &before,
                            &after,
                            usage_time_s(counted, &report, &before, &after),
                        );
                    } else {
                        telemetry.add_idle(&before, &after);
                    }
                }
                driven[index].slices.push(result);
                ended.push((load.variant, result));
                before = after;
                if host.is_lost() {
                    return Ok(());
                }
            }
            self.check_services(host)?;
            let _ = events.send(DriverEvent::RoundEnded {
                round,
                slices: ended,
            });
        }
        Ok(())
    }

    /// Returns an error if the user has set the length of slices and, according to the warm-ups, a
    /// block would have too few requests for a percentile that gets a verdict.
    fn refuse_few_requests(&self, duration: Nanos, rates: &[f64]) -> Result<(), BlockError> {
        let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let enough = minimum_duration(slowest, self.metrics);
        match (self.slice, enough) {
            (Some(_), Some(enough)) if slowest > 0.0 && Nanos::from(enough) > duration => {
                let error = TrialError::TooFewRequests {
                    expected: (slowest * duration.as_secs_f64()) as u64,
                    duration: enough,
                };
                Err(error.into())
            }
            _ => Ok(()),
        }
    }

    /// Begins or ends a period in which samples of a variant's functions count.
    fn count_samples(&self, host: &mut dyn Host, variant: usize, counting: bool) {
        for (of_variant, service) in &self.sampled {
            if *of_variant == variant {
                host.count_samples(Some(&ScopedName::new(service, variant).0), counting);
            }
        }
    }

    fn sample(&self, host: &mut dyn Host) -> TelemetrySample {
        let sample = host.sample();
        self.latest.put(&sample);
        sample
    }
}

/// Returns the number of rounds and the length of each slice.
fn divide(duration: Nanos, wanted: Option<Nanos>, rates: &[f64]) -> (u32, Nanos) {
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let enough = if slowest > 0.0 && slowest.is_finite() {
        Nanos::from(Duration::from_secs_f64(SLICE_REQUESTS_MIN / slowest))
    } else {
        Nanos::ZERO
    };
    let length = wanted.unwrap_or_else(|| Nanos::from(DEFAULT_SLICE).max(enough));
    let rounds = (duration.0 as f64 / length.0.max(1) as f64)
        .round()
        .max(1.0);
    let rounds = rounds.min(f64::from(u32::MAX)) as u32;
    (rounds, Nanos(duration.0 / u64::from(rounds)))
}

/// Returns the time to which the usage between two samples is attributed. It is the time of the
/// counted requests, extended in proportion to the requests that were not counted. Usage per second
/// and requests per second then refer to the same requests.
fn usage_time_s(
    length: Nanos,
    report: &SliceReport,
    before: &TelemetrySample,
    after: &TelemetrySample,
) -> f64 {
    let counted = report.ok + report.failed;
    match counted {
        0 => after.t_s - before.t_s,
        counted => length.as_secs_f64() * report.ended as f64 / counted as f64,
    }
}

fn slice_result((round, position): (u32, u32), length: Nanos, report: &SliceReport) -> SliceResult {
    SliceResult {
        round,
        position,
        length_s: length.as_secs_f64(),
        ok: report.ok,
        failed: report.failed,
        mean_response_us: (report.ok > 0)
            .then(|| report.response_ns as f64 / report.ok as f64 / 1e3),
        drain_s: report.drain.as_secs_f64(),
    }
}
