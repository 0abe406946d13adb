//! `prony load`: runs one load, prints its summary and writes its files.

mod by_agents;
mod server_profile;

use std::sync::Arc;
use std::time::Duration;

use prony_experiment::abort;
use prony_fleet::coordinator::AgentChoice;
use prony_load::{
    Control, LoadSettings, LoadSpec, LoadedScript, RunError, ScriptLoader, ScriptedRun,
};
use prony_lua::LuaLoader;
use prony_machine::system::this_machine;
use prony_plan::abort_rules::AbortRules;
use prony_stats::gate::LoadCondition;
use prony_stats::within_run::Precision;

use self::server_profile::ServerProfiles;
use crate::arguments::LoadArgs;
use crate::ending::{Ending, Failure};
use crate::output::load_results::LoadResults;
use crate::precision::{self, WantedPrecision};
use crate::running_load::RunningLoad;
use crate::schema;
use crate::session::{LoadEnd, ObservedLoad, Session};
use crate::signals::SecondSignal;
use crate::{command_line, gating, scripts};

/// Runs `prony load`.
pub(crate) fn run(arguments: &LoadArgs) -> Result<Ending, Failure> {
    let conditions = exit_conditions(arguments)?;
    let abort_rules = AbortRules::read(&arguments.abort_if, arguments.abort_window)
        .map_err(|error| Failure::wrong_abort_rules(&error))?;
    let precisions = gating::parse_all("--precision", &arguments.precision, Precision::parse)?;
    scripts::check_syntax(&arguments.load.settings)?;
    match &arguments.agents.agents {
        Some(choice) => run_by_agents(
            arguments,
            choice,
            conditions,
            abort_rules.as_ref(),
            &precisions,
        ),
        None => run_here(arguments, conditions, abort_rules.as_ref(), &precisions),
    }
}

/// Opens the outputs of a load.
fn open_results(
    arguments: &LoadArgs,
    conditions: Vec<LoadCondition>,
) -> Result<LoadResults, Failure> {
    let mut results = LoadResults::open([
        ("--json", arguments.json.as_deref()),
        ("--csv", arguments.csv.as_deref()),
        ("--html", arguments.html.as_deref()),
        ("--timeline", arguments.timeline.as_deref()),
        ("--hdr", arguments.hdr.as_deref()),
    ])?;
    results.conditions = conditions;
    if !arguments.percentiles.is_empty() {
        results.percentiles.clone_from(&arguments.percentiles);
    }
    Ok(results)
}

/// Runs a load on agents.
fn run_by_agents(
    arguments: &LoadArgs,
    choice: &AgentChoice,
    conditions: Vec<LoadCondition>,
    abort_rules: Option<&AbortRules>,
    precisions: &[Precision],
) -> Result<Ending, Failure> {
    let settings = &arguments.load.settings;
    if settings.replay.is_some() {
        return Err(Failure::wrong(
            "--replay with --agents: a log can't be divided among agents (run the load from this \
             machine)",
        ));
    }
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
    let results = open_results(arguments, conditions)?;
    let session = Session::monitored(arguments.progress, &arguments.monitoring)?;
    let ended = by_agents::send_by_agents(arguments, choice, abort_rules, precisions, &session)?;
    let Some((mut record, interrupted)) = ended else {
        return Ok(Ending::Interrupted);
    };
    record.command = Some(command_of(arguments));
    let ending = results.conclude(&mut record, interrupted, session.progress())?;
    session.end_load(&record);
    Ok(ending)
}

/// Runs a load in this process.
fn run_here(
    arguments: &LoadArgs,
    conditions: Vec<LoadCondition>,
    abort_rules: Option<&AbortRules>,
    precisions: &[Precision],
) -> Result<Ending, Failure> {
    let given = &precision::limited(arguments);
    let described = schema::described(given, arguments.url.as_deref())?;
    let settings = &described.settings;
    let spec = resolve_load(arguments.url.as_deref(), settings)?;
    if !precisions.is_empty() && !spec.info().stages.is_empty() {
        return Err(Failure::wrong(
            "--precision with a rate that changes: such a load has no steady value (give a constant \
             rate, or remove one of the flags)",
        ));
    }
    let results = open_results(arguments, conditions)?;
    let session = Session::monitored(arguments.progress, &arguments.monitoring)?;
    for finding in spec.forecast() {
        session.progress().warn(&finding.text);
    }
    let control = Arc::new(Control::new(spec.info().threads));
    let stopping = control.clone();
    session.on_stop(SecondSignal::Exits, move || stopping.stop())?;
    let is_stopped = || control.is_stopped();
    if let Err(ending) = session.wait_for_server(&spec, settings.wait_for_server, &is_stopped) {
        return Ok(ending);
    }
    let script = match load_script(&spec, &control, results.uses_stdout()) {
        Err(_) if control.is_stopped() => return Ok(Ending::Interrupted),
        script => script?,
    };
    let end = || control.stop();
    let load = ObservedLoad {
        running: RunningLoad::here(&control, spec.info()),
        planned: spec.planned().map(Duration::from),
        forecast: spec.forecast(),
        abort_rules,
        precision: (!precisions.is_empty()).then_some(WantedPrecision {
            wanted: precisions,
            limit: given.duration,
            stop: &end,
        }),
        abort: &|_| control.stop(),
    };
    let profiles = arguments
        .profile
        .then(|| ServerProfiles::begin(&spec, session.progress()));
    let send = || send_load(&spec, &control, script.as_deref());
    let LoadEnd {
        result: sent,
        aborted,
        precise_after,
    } = session.observe_load(load, send);
    if let Some(profiles) = &profiles {
        profiles.end();
    }
    let ScriptedRun {
        mut record,
        failure,
    } = sent.map_err(failure_of)?;
    let interrupted =
        control.is_stopped() && aborted.is_none() && precise_after.is_none() && failure.is_none();
    precision::write_intervals(&mut record, precisions, precise_after);
    abort::note(aborted, &mut record);
    record.command = Some(command_of(arguments));
    record.machine = Some(command_line::machine(&this_machine()));
    if let Some(profiles) = profiles {
        profiles.store(&mut record, session.progress());
    }
    let ending = results.conclude(&mut record, interrupted, session.progress())?;
    session.end_load(&record);
    Ok(match end_script(script.as_deref(), failure) {
        Ok(()) => ending,
        Err(text) => {
            session.progress().warn(text);
            Ending::Doubtful
        }
    })
}

/// Returns the command line for the record.
fn command_of(arguments: &LoadArgs) -> String {
    command_line::of_load("load", arguments.url.as_deref(), &arguments.load.settings)
}

/// Sends the load, with its script if it has one.
fn send_load(
    spec: &LoadSpec,
    control: &Arc<Control>,
    script: Option<&dyn LoadedScript>,
) -> Result<ScriptedRun, RunError> {
    match script {
        Some(script) => script.run(spec, control),
        None => prony_load::run(spec, control).map(|record| ScriptedRun {
            record,
            failure: None,
        }),
    }
}

/// Converts an error of a load into an exit status and a message.
pub(crate) fn failure_of(error: RunError) -> Failure {
    match error {
        RunError::Script(_) => Failure::wrong(error),
        error => Failure::refused(error),
    }
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

/// Loads the script of a load, if there is one. The script prints to standard error if standard
/// output carries data.
fn load_script(
    spec: &LoadSpec,
    control: &Arc<Control>,
    prints_to_stderr: bool,
) -> Result<Option<Box<dyn LoadedScript>>, Failure> {
    if spec.script().is_none() {
        return Ok(None);
    }
    let script = LuaLoader { prints_to_stderr }.load(spec, control);
    script.map(Some).map_err(Failure::wrong)
}

/// The conditions of `--fail-if` and `--require`.
fn exit_conditions(arguments: &LoadArgs) -> Result<Vec<LoadCondition>, Failure> {
    let mut all = gating::parse_all("--fail-if", &arguments.fail_if, LoadCondition::parse)?;
    let required = gating::parse_all("--require", &arguments.require, LoadCondition::require)?;
    all.extend(required);
    Ok(all)
}

/// Resolves the settings from the command line into a load specification.
pub(crate) fn resolve_load(
    url: Option<&str>,
    settings: &LoadSettings,
) -> Result<LoadSpec, Failure> {
    settings.resolve(url).map_err(schema::failure_of)
}
