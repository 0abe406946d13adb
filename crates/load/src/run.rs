//! Threads around workers: a load spec in, a record out.

use std::fmt;
use std::time::{Instant, SystemTime};

use prony_record::{Nanos, Record, RecordError};

use crate::findings;
use crate::pacing::Share;
use crate::progress::{Control, Counter};
use crate::reasons::Reasons;
use crate::socket::{PollSockets, system};
use crate::spec::LoadSpec;
use crate::worker::{Worked, Worker};

/// Why a load gave no record.
#[derive(Debug)]
pub enum RunError {
    /// The system refused something that the engine itself needs.
    Environment(String),
    /// The books don't balance.
    Accounting(RecordError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Environment(text) => f.write_str(text),
            RunError::Accounting(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs a load to its end, or until `control` stops it, and gives its record.
///
/// # Errors
///
/// See [`RunError`]; failures of requests are results, not errors.
pub fn run(spec: &LoadSpec, control: &Control) -> Result<Record, RunError> {
    let epoch = Instant::now();
    let started_at = SystemTime::now();
    let worked = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..u64::from(spec.threads))
            .map(|worker| {
                let share = Share {
                    worker,
                    of: u64::from(spec.threads),
                };
                scope.spawn(move || one_worker(spec, share, epoch, control))
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| match worker.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect::<Result<Vec<_>, _>>()
    })?;
    let record = merge(spec, worked, started_at)?;
    Ok(record)
}

fn one_worker(
    spec: &LoadSpec,
    share: Share,
    epoch: Instant,
    control: &Control,
) -> Result<Worked, RunError> {
    let worker = share.worker as usize;
    if !spec.cores.is_empty() {
        system::pin_thread(spec.cores[worker % spec.cores.len()]).map_err(RunError::Environment)?;
    }
    let no_poller = |error| RunError::Environment(format!("waiting for sockets: {error}"));
    let sockets = PollSockets::new(spec.connections as usize, epoch).map_err(no_poller)?;
    let unwatched = Counter::default();
    let counter = control.counter(worker).unwrap_or(&unwatched);
    Worker::new(spec, share, sockets)
        .run(control, counter)
        .map_err(no_poller)
}

/// One record out of what the workers brought home.
pub(crate) fn merge(
    spec: &LoadSpec,
    worked: Vec<Worked>,
    started_at: SystemTime,
) -> Result<Record, RunError> {
    let mut workers = worked.into_iter();
    let Some(mut whole) = workers.next() else {
        return Err(RunError::Environment("a load needs a worker".to_owned()));
    };
    for worker in workers {
        whole.recorder.merge(&worker.recorder);
        whole.reasons.merge(worker.reasons);
        whole.negotiated = whole.negotiated.or(worker.negotiated);
        whole.ended = whole.ended.max(worker.ended);
        whole.cpu = (whole.cpu.0 + worker.cpu.0, whole.cpu.1 + worker.cpu.1);
        whole.busy_share = whole.busy_share.max(worker.busy_share);
        whole.unasked += worker.unasked;
    }
    let outcomes = whole.recorder.outcomes();
    let unstarted = outcomes.get(prony_record::Outcome::Unstarted);
    let due = whole.recorder.started_count() + unstarted;
    let offered = spec.info.rate_per_s.map(|_| due);
    let span = (spec.warmup.min(whole.ended), whole.ended);
    let mut record = Record::build(spec.info.clone(), &whole.recorder, span, offered);
    record.totals.check().map_err(RunError::Accounting)?;
    record.started_at = humantime::format_rfc3339_seconds(started_at).to_string();
    record.seed = spec.seed;
    record.negotiated = whole.negotiated.unwrap_or_default();
    record.generator.cpu_user_s = Nanos::as_secs_f64(whole.cpu.0);
    record.generator.cpu_system_s = Nanos::as_secs_f64(whole.cpu.1);
    record.generator.busy_share = (whole.busy_share * 1e4).round() / 1e4;
    record.generator.max_rss_bytes = system::peak_memory_bytes();
    record.findings = findings::of(&record, &Reasons::by_count(&whole.reasons), whole.unasked);
    Ok(record)
}
