//! `prony load`: runs one load, prints its summary and writes its files.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use prony_experiment::abort;
use prony_experiment::system::this_machine;
use prony_fleet::coordinator::AgentChoice;
use prony_load::{
    Control, LoadSettings, LoadSpec, LoadedScript, NotReady, RunError, ScriptLoader, ScriptedRun,
    SpecError, wait_for_server,
};
use prony_lua::LuaLoader;
use prony_plan::abort_rules::AbortRules;
use prony_record::LoadAbort;
use prony_report::number;
use prony_stats::gate::LoadCondition;

use crate::arguments::LoadArgs;
use crate::command_line;
use crate::ending::{Ending, Failure};
use crate::fleet;
use crate::gating;
use crate::live;
use crate::live::follower::Follower;
use crate::load_results::{self, LoadOutputs};
use crate::metrics::Metrics;
use crate::progress::{Progress, ProgressMode, rounded};
use crate::running_load::RunningLoad;
use crate::{scripts, signals};

/// Interval between progress lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Runs `prony load`.
pub(crate) fn run(arguments: &LoadArgs) -> Result<Ending, Failure> {
    let rules = LoadRules {
        conditions: conditions(arguments)?,
        abort: AbortRules::read(&arguments.abort_if, arguments.abort_window)
            .map_err(|error| Failure::wrong_abort_rules(&error))?,
    };
    scripts::check_syntax(&arguments.load.settings)?;
    match &arguments.agents.agents {
        Some(choice) => by_agents(arguments, choice, &rules),
        None => here(arguments, &rules),
    }
}

/// The conditions of `prony load` that decide its exit status or end it early.
struct LoadRules {
    /// Conditions of `--fail-if` and `--require`.
    conditions: Vec<LoadCondition>,
    /// Conditions of `--abort-if`.
    abort: Option<AbortRules>,
}

/// Opens the outputs of a load. If an output can't be opened, the error message names its option.
fn outputs(arguments: &LoadArgs) -> Result<LoadOutputs, Failure> {
    LoadOutputs::open([
        ("--json", arguments.json.as_deref()),
        ("--csv", arguments.csv.as_deref()),
        ("--html", arguments.html.as_deref()),
        ("--timeline", arguments.timeline.as_deref()),
    ])
}

/// Runs a load on agents.
fn by_agents(
    arguments: &LoadArgs,
    choice: &AgentChoice,
    rules: &LoadRules,
) -> Result<Ending, Failure> {
    let settings = &arguments.load.settings;
    if settings.script.is_some() {
        return Err(Failure::wrong(
            "--script with --agents: agents run no scripts, because a script can start any program \
             (run the script from this machine, or describe the requests with --urls)",
        ));
    }
    if settings.wait_for_server.is_some() {
        return Err(Failure::wrong(
            "--wait-for-server with --agents: agents don't wait (remove one of the flags)",
        ));
    }
    let outputs = outputs(arguments)?;
    let progress = Progress::new(arguments.progress);
    let metrics = arguments
        .metrics
        .as_deref()
        .map(Metrics::serve)
        .transpose()?;
    let view = fleet::RunView {
        progress: &progress,
        metrics: metrics.as_ref(),
        abort_rules: rules.abort.as_ref(),
    };
    let ended = fleet::load::run(arguments, choice, &view)?;
    let Some((mut record, interrupted)) = ended else {
        return Ok(Ending::Interrupted);
    };
    record.command = Some(command_line::of_load(
        "load",
        arguments.url.as_deref(),
        settings,
    ));
    let ending = load_results::end(&mut record, &rules.conditions, interrupted, &progress);
    outputs.write(&record, &arguments.percentiles)?;
    Ok(ending)
}

/// Runs a load in this process.
fn here(arguments: &LoadArgs, rules: &LoadRules) -> Result<Ending, Failure> {
    let settings = &arguments.load.settings;
    let spec = resolve(arguments.url.as_deref(), settings)?;
    let outputs = outputs(arguments)?;
    let progress = Progress::new(arguments.progress);
    for finding in spec.forecast() {
        progress.warn(&format!("prony: {}", finding.text));
    }
    let control = Arc::new(Control::new(spec.info().threads));
    let stop = control.clone();
    signals::stop_then_exit(move || stop.stop())?;
    if let Some(limit) = settings.wait_for_server {
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
    let script = match load_script(&spec, &control, outputs.uses_stdout())? {
        LoadedOrStopped::Stopped => return Ok(Ending::Interrupted),
        LoadedOrStopped::Loaded(script) => script,
    };
    let load = PreparedLoad {
        spec: &spec,
        control: &control,
        script: script.as_deref(),
    };
    let metrics = arguments
        .metrics
        .as_deref()
        .map(Metrics::serve)
        .transpose()?;
    if let Some(metrics) = &metrics {
        metrics.running(RunningLoad::here(&control, spec.info()));
    }
    let (ran, aborted) = match &rules.abort {
        None => (load.watched(&progress), None),
        Some(rules) => {
            let running_load = RunningLoad::here(&control, spec.info());
            let stop = |_: &LoadAbort| control.stop();
            abort::watch(rules, &running_load, &stop, || load.watched(&progress))
        }
    };
    let ScriptedRun {
        mut record,
        failure,
    } = ran?;
    let interrupted = control.is_stopped() && aborted.is_none() && failure.is_none();
    abort::note(aborted, &mut record);
    record.command = Some(command_line::of_load(
        "load",
        arguments.url.as_deref(),
        settings,
    ));
    record.machine = Some(command_line::machine(&this_machine()));
    let ending = load_results::end(&mut record, &rules.conditions, interrupted, &progress);
    outputs.write(&record, &arguments.percentiles)?;
    Ok(match end_script(script.as_deref(), failure) {
        Ok(()) => ending,
        Err(text) => {
            progress.warn(&format!("prony: {text}"));
            Ending::Doubtful
        }
    })
}

/// Calls the script's `done()` with the results, unless the script has failed. Returns the script's
/// error, if any.
fn end_script(script: Option<&dyn LoadedScript>, failure: Option<String>) -> Result<(), String> {
    match (failure, script) {
        (Some(text), _) => Err(text),
        (None, Some(script)) => script.done(),
        (None, None) => Ok(()),
    }
}

/// Result of loading a script: the script, or an interrupt that arrived while the script was being
/// loaded.
enum LoadedOrStopped {
    Loaded(Option<Box<dyn LoadedScript>>),
    Stopped,
}

/// Loads the script of a load, if there is one. The script prints to standard error if standard
/// output carries data.
fn load_script(
    spec: &LoadSpec,
    control: &Arc<Control>,
    is_stdout_used: bool,
) -> Result<LoadedOrStopped, Failure> {
    if spec.script().is_none() {
        return Ok(LoadedOrStopped::Loaded(None));
    }
    let loader = LuaLoader {
        prints_to_stderr: is_stdout_used,
    };
    match loader.load(spec, control) {
        Ok(script) => Ok(LoadedOrStopped::Loaded(Some(script))),
        Err(_) if control.is_stopped() => Ok(LoadedOrStopped::Stopped),
        Err(text) => Err(Failure::wrong(text)),
    }
}

/// A load that is ready to run.
struct PreparedLoad<'a> {
    spec: &'a LoadSpec,
    control: &'a Arc<Control>,
    script: Option<&'a dyn LoadedScript>,
}

/// The conditions of `--fail-if` and `--require`.
fn conditions(arguments: &LoadArgs) -> Result<Vec<LoadCondition>, Failure> {
    let mut all = gating::parse_all("--fail-if", &arguments.fail_if, LoadCondition::parse)?;
    let required = gating::parse_all("--require", &arguments.require, LoadCondition::require)?;
    all.extend(required);
    Ok(all)
}

/// Resolves the settings from the command line into a load specification.
pub(crate) fn resolve(url: Option<&str>, settings: &LoadSettings) -> Result<LoadSpec, Failure> {
    settings.resolve(url).map_err(|error| match error {
        SpecError::Environment(_) => Failure::refused(error),
        SpecError::Settings(_) | SpecError::Name { .. } => Failure::wrong(error),
    })
}

impl PreparedLoad<'_> {
    /// Runs the load and shows its progress.
    fn watched(&self, progress: &Progress) -> Result<ScriptedRun, Failure> {
        let PreparedLoad { spec, control, .. } = *self;
        let result = match progress.mode() {
            ProgressMode::View => {
                let planned = spec.planned().map(Duration::from);
                let running_load = RunningLoad::here(control, spec.info());
                let mut follower = Follower::new(running_load, planned, spec.forecast());
                live::with_view(progress, &mut follower, &|| control.stop(), || self.run())
            }
            ProgressMode::Lines => with_lines(spec, control, progress, || self.run()),
            ProgressMode::Nothing => self.run(),
        };
        result.map_err(|error| match error {
            RunError::Script(_) => Failure::wrong(error),
            error => Failure::refused(error),
        })
    }

    fn run(&self) -> Result<ScriptedRun, RunError> {
        match self.script {
            Some(script) => script.run(self.spec, self.control),
            None => prony_load::run(self.spec, self.control).map(|record| ScriptedRun {
                record,
                failure: None,
            }),
        }
    }
}

/// Runs `work` and prints a progress line every few seconds.
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

/// Prints progress lines until the sender of `is_done` is dropped.
fn lines(spec: &LoadSpec, control: &Control, progress: &Progress, is_done: &Receiver<()>) {
    let began = Instant::now();
    let warmup = Duration::from_secs_f64(spec.info().warmup_s);
    let (mut before, mut ok_before) = (Duration::ZERO, 0);
    loop {
        // The rate of one line never covers parts of both the warm-up and the measured part.
        let is_warming_up = before < warmup;
        let line_at = match before + LINE_INTERVAL {
            at if is_warming_up => at.min(warmup),
            at => at,
        };
        let pause = line_at.saturating_sub(began.elapsed());
        if is_done.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        let (now, (ended, failed)) = (began.elapsed(), control.counts());
        let ok = ended.saturating_sub(failed);
        let (span, counted) = (now - before, ok.saturating_sub(ok_before));
        (before, ok_before) = (now, ok);
        if span < LINE_INTERVAL {
            continue;
        }
        let rate = number::rate(counted as f64 / span.as_secs_f64());
        let last = rounded(span);
        let what = if is_warming_up {
            format!("warming up, {rate} finished in the last {last}")
        } else {
            let failed = number::count(failed);
            format!("{rate} ok in the last {last}, {failed} failed so far")
        };
        progress.line(&format!(
            "{}: {what}{}",
            rounded(now),
            left(spec, now, ended)
        ));
    }
}

/// Describes what remains of a load, given the elapsed time and the number of finished requests.
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
