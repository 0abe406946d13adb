//! `prony load`: runs one load, prints its summary and writes its files.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use prony_experiment::abort::{self, AbortRules};
use prony_experiment::system::this_machine;
use prony_load::{Control, LoadSettings, LoadSpec, NotReady, SpecError, wait_for_server};
use prony_record::{LoadAbort, Record};
use prony_report::number;
use prony_stats::gate::LoadCondition;

use crate::arguments::LoadArgs;
use crate::command_line;
use crate::ending::{Ending, Failure};
use crate::fleet;
use crate::live;
use crate::live::follower::Follower;
use crate::load_results::{LoadOutputs, ending};
use crate::metrics::Metrics;
use crate::progress::{Progress, ProgressMode, rounded};
use crate::running_load::RunningLoad;
use crate::signals;

/// The time between lines of progress.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs a load.
pub(crate) fn run(typed: &LoadArgs) -> Result<Ending, Failure> {
    let conditions = conditions(typed)?;
    let abort_rules = AbortRules::read(&typed.abort_if, typed.abort_window)
        .map_err(|error| Failure::wrong_abort_rules(&error))?;
    let places = [
        ("--json", typed.json.as_deref()),
        ("--csv", typed.csv.as_deref()),
        ("--html", typed.html.as_deref()),
        ("--timeline", typed.timeline.as_deref()),
    ];
    if let Some(choice) = &typed.agents.agents {
        if typed.load.settings.wait_for_server.is_some() {
            return Err(Failure::wrong(
                "--wait-for-server with --agents: agents don't wait (leave one of the two out)",
            ));
        }
        let outputs = LoadOutputs::open(places)?;
        let progress = Progress::new(typed.progress);
        let metrics = typed.metrics.as_deref().map(Metrics::serve).transpose()?;
        let view = fleet::RunView {
            progress: &progress,
            metrics: metrics.as_ref(),
            abort_rules: abort_rules.as_ref(),
        };
        let ended = fleet::load::run(typed, choice, &view)?;
        let Some((mut record, interrupted)) = ended else {
            return Ok(Ending::Interrupted);
        };
        record.command = Some(command_line::of_load(
            typed.url.as_deref(),
            &typed.load.settings,
        ));
        let ending = ending(&record, &conditions, interrupted, &progress);
        outputs.write(&record, &typed.percentiles, &conditions)?;
        return Ok(ending);
    }
    let spec = resolve(typed.url.as_deref(), &typed.load.settings)?;
    let outputs = LoadOutputs::open(places)?;
    let progress = Progress::new(typed.progress);
    for finding in spec.forecast() {
        progress.warn(&format!("prony: {}", finding.text));
    }
    let control = Arc::new(Control::new(spec.info().threads));
    let stop = control.clone();
    signals::stop_then_exit(move || stop.stop())?;
    if let Some(limit) = typed.load.settings.wait_for_server {
        let report = |text: &str| progress.line(&format!("prony: {text}"));
        match wait_for_server(&spec, limit, &|| control.is_stopped(), &report) {
            Ok(()) => {}
            Err(NotReady::Stopped) => return Ok(Ending::Interrupted),
            Err(error) => {
                progress.warn(&format!("prony: {error}"));
                return Ok(Ending::Doubtful);
            }
        }
    }
    let metrics = typed.metrics.as_deref().map(Metrics::serve).transpose()?;
    if let Some(metrics) = &metrics {
        metrics.running(RunningLoad::here(&control, spec.info()));
    }
    let (record, aborted) = match &abort_rules {
        None => (watched(&spec, &control, &progress), None),
        Some(rules) => {
            let load = RunningLoad::here(&control, spec.info());
            let stop = |_: &LoadAbort| control.stop();
            rules.watch(&load, &stop, || watched(&spec, &control, &progress))
        }
    };
    let mut record = record?;
    let interrupted = control.is_stopped() && aborted.is_none();
    abort::note(aborted, &mut record);
    record.command = Some(command_line::of_load(
        typed.url.as_deref(),
        &typed.load.settings,
    ));
    record.machine = Some(command_line::machine(&this_machine()));
    let ending = ending(&record, &conditions, interrupted, &progress);
    outputs.write(&record, &typed.percentiles, &conditions)?;
    Ok(ending)
}

/// The conditions of `--fail-if` and `--require`.
fn conditions(typed: &LoadArgs) -> Result<Vec<LoadCondition>, Failure> {
    let forbidden = typed.fail_if.iter().map(|text| {
        LoadCondition::parse(text).map_err(|error| Failure::wrong(format!("--fail-if: {error}")))
    });
    let required = typed.require.iter().map(|text| {
        LoadCondition::require(text).map_err(|error| Failure::wrong(format!("--require: {error}")))
    });
    forbidden.chain(required).collect()
}

/// Resolves the settings from the command line into a load that can be run.
pub(crate) fn resolve(url: Option<&str>, settings: &LoadSettings) -> Result<LoadSpec, Failure> {
    settings.resolve(url).map_err(|error| match error {
        SpecError::Environment(_) => Failure::refused(error),
        SpecError::Settings(_) | SpecError::Name { .. } => Failure::wrong(error),
    })
}

/// Runs the load and shows its progress.
fn watched(
    spec: &LoadSpec,
    control: &Arc<Control>,
    progress: &Progress,
) -> Result<Record, Failure> {
    let run = || prony_load::run(spec, control);
    let result = match progress.mode() {
        ProgressMode::View => {
            let planned = spec.planned().map(Duration::from);
            let running_load = RunningLoad::here(control, spec.info());
            let mut follower = Follower::new(running_load, planned, spec.forecast());
            live::with_view(progress, &mut follower, &|| control.stop(), run)
        }
        ProgressMode::Lines => with_lines(spec, control, progress, run),
        ProgressMode::Nothing => run(),
    };
    result.map_err(Failure::refused)
}

/// Runs `work` and prints a line of progress every few seconds.
fn with_lines<T>(
    spec: &LoadSpec,
    control: &Control,
    progress: &Progress,
    work: impl FnOnce() -> T,
) -> T {
    let (done, is_done) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || lines(spec, control, progress, &is_done));
        let result = work();
        drop(done);
        result
    })
}

/// Prints the progress of the load until the sender of `is_done` is dropped.
fn lines(spec: &LoadSpec, control: &Control, progress: &Progress, is_done: &Receiver<()>) {
    let began = Instant::now();
    let (mut before, mut counted) = (began, 0);
    while is_done.recv_timeout(LINE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let (now, (ended, failed)) = (Instant::now(), control.counts());
        let per_s = ended.saturating_sub(counted) as f64 / (now - before).as_secs_f64();
        (before, counted) = (now, ended);
        progress.line(&format!(
            "{}: {}, {} failed{}",
            rounded(now - began),
            number::rate(per_s),
            number::count(failed),
            left(spec, now - began, ended)
        ));
    }
}

/// The rest of a load after this time and this number of ended requests.
fn left(spec: &LoadSpec, elapsed: Duration, ended: u64) -> String {
    let requests = spec.info().requests.map(|limit| {
        format!(
            ", {} of {} requests",
            number::count(ended.min(limit)),
            number::count(limit)
        )
    });
    let time = spec.planned().map(|planned| {
        format!(
            ", {} left",
            rounded(Duration::from(planned).saturating_sub(elapsed))
        )
    });
    requests.unwrap_or_default() + &time.unwrap_or_default()
}
