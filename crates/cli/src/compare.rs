//! `prony compare`: runs a plan, compares running servers, or resumes an experiment.

use std::path::Path;

use prony_experiment::profile::MachineProfile;
use prony_experiment::runner::RunSettings;
use prony_load::flag_of;
use prony_plan::Plan;
use prony_record::redact;

use crate::arguments::{CompareArgs, RunArgs};
use crate::ending::{Ending, Failure};
use crate::gating::{self, GateSettings};
use crate::hosts::Hosts;
use crate::metrics::Metrics;
use crate::runs_folder::NewRunFolder;
use crate::servers::{self, AbortKeys, SearchKeys, Servers};
use crate::{dry_run, experiment, plan_file, runs_folder, scripts};

/// Runs `prony compare`.
pub(crate) fn run(arguments: &CompareArgs) -> Result<Ending, Failure> {
    let targets: Vec<&str> = arguments.targets.iter().map(String::as_str).collect();
    let plan = match (targets.as_slice(), &arguments.run.resume) {
        (urls @ [_, _, ..], None) => {
            refuse_plans(urls)?;
            if arguments.creds_typed {
                let what = "--creds applies to a plan with agents; with URLs, this machine \
                    generates the load (write a plan with agents in [load])";
                return Err(Failure::wrong(what));
            }
            if !arguments.goal.is_empty() {
                refuse_lengths(arguments)?;
            }
            let given = Servers {
                urls,
                names: arguments.names.as_deref(),
                judge: &arguments.judge,
                bodies: arguments.run.bodies,
                abort: AbortKeys {
                    conditions: &arguments.abort_if,
                    window: arguments.abort_window,
                },
                search: SearchKeys {
                    goal: &arguments.goal,
                    max_rate: arguments.max_rate,
                    search_time: arguments.search_time,
                    probe: arguments.probe,
                },
            };
            servers::plan(given, &arguments.load.settings)?
        }
        ([_, _, ..], Some(_)) => {
            let what = "--resume takes the plan from the folder (remove the URLs)";
            return Err(Failure::wrong(what));
        }
        (_, Some(dir)) => {
            refuse_load_options(arguments)?;
            resumed(targets.first().copied(), dir)?
        }
        ([plan], None) => {
            refuse_load_options(arguments)?;
            read(plan)?
        }
        _ => {
            let what = "a plan, or two or more URLs, or --resume DIR is needed (prony compare --help; \
                        prony init writes a starter plan)";
            return Err(Failure::wrong(what));
        }
    };
    if targets.len() < 2 {
        if arguments.names.is_some() {
            let what = "--names applies to URLs only; a plan names its variants";
            return Err(Failure::wrong(what));
        }
        if !arguments.judge.is_empty() {
            let what = "--judge applies to URLs only; in a plan, set metrics = [\"p99\", \"rate\"] \
                    instead";
            return Err(Failure::wrong(what));
        }
        if !arguments.abort_if.is_empty() {
            let what = "--abort-if applies to URLs only; in a plan, set abort_if in [load]";
            return Err(Failure::wrong(what));
        }
        if !arguments.goal.is_empty() {
            let what = "--goal applies to URLs only; in a plan, set model = \"capacity\" and goal in \
                    [load]";
            return Err(Failure::wrong(what));
        }
    }
    let mut new = None;
    let out = match (&arguments.run.resume, &arguments.run.out) {
        (Some(dir), _) | (None, Some(dir)) => dir,
        (None, None) if arguments.run.dry_run => &runs_folder::for_new_run(&plan.name),
        (None, None) => new.insert(NewRunFolder::create(&plan.name)?).path(),
    };
    let settings = experiment::settings(&arguments.run, arguments.seed, out.to_owned());
    gated(&plan, &settings, &arguments.run)
}

/// Runs a plan or prints its dry run, then evaluates the conditions from the command line.
pub(crate) fn gated(
    plan: &Plan,
    settings: &RunSettings,
    arguments: &RunArgs,
) -> Result<Ending, Failure> {
    scripts::check_plan(plan)?;
    let gating = GateSettings::prepare(&arguments.gates, gating::known_of_plan(plan, settings))?;
    let hosts = Hosts::of_plan(plan, &arguments.hosts)?;
    if arguments.dry_run {
        return dry_run::run(plan, settings, hosts.as_ref(), arguments.progress);
    }
    let metrics = arguments.metrics.as_deref();
    let metrics = metrics.map(|at| Metrics::of_experiment(at, plan, settings));
    let metrics = metrics.transpose()?;
    experiment::run(
        plan,
        settings,
        arguments.progress,
        gating,
        metrics.as_ref(),
        hosts.as_ref(),
    )
}

fn read(plan: &str) -> Result<Plan, Failure> {
    if plan.contains("://") || plan.starts_with("unix:") {
        return Err(Failure::wrong(format!(
            "{}: comparing needs at least two URLs (add another, or name a plan)",
            redact::url(plan)
        )));
    }
    Plan::read(Path::new(plan), MachineProfile::this())
        .map_err(|errors| plan_file::wrong_plan(&errors))
}

/// Reads the plan of the run to resume. If the command line also names a plan, the two must be
/// identical, because otherwise it would be unclear which one to run.
fn resumed(named: Option<&str>, dir: &Path) -> Result<Plan, Failure> {
    let Some(named) = named else {
        return plan_file::stored_plan(dir);
    };
    let original = read(named)?;
    let text = prony_record::read_stored(&dir.join("plan.toml"))
        .map_err(|error| Failure::file(dir.display(), &error))?;
    if original.stored_text() == text {
        original
            .keep_secrets(dir)
            .map_err(|error| Failure::file(dir.display(), &error))?;
        return plan_file::stored_plan(dir);
    }
    Err(Failure::wrong(format!(
        "{named} differs from the plan that {} was run with (remove the plan or --resume)",
        dir.display()
    )))
}

/// Rejects a command line with several plans, because each plan is a separate experiment.
fn refuse_plans(targets: &[&str]) -> Result<(), Failure> {
    match targets.iter().find(|target| Path::new(target).exists()) {
        Some(file) => Err(Failure::wrong(format!(
            "{file} is a file (name one plan, or only URLs)"
        ))),
        None => Ok(()),
    }
}

/// Rejects load settings that a capacity search chooses itself.
fn refuse_lengths(arguments: &CompareArgs) -> Result<(), Failure> {
    const CHOSEN: [&str; 5] = ["rate", "stages", "duration", "requests", "warmup"];
    let given = arguments.load.settings.given();
    let mut given = given.iter().map(|setting| setting.key.as_str());
    match given.find(|key| CHOSEN.contains(key)) {
        None => Ok(()),
        Some(key) => Err(Failure::wrong(format!(
            "{} can't be combined with --goal: a capacity search chooses its loads (--max-rate and \
             --probe limit them)",
            flag_of(key)
        ))),
    }
}

fn refuse_load_options(arguments: &CompareArgs) -> Result<(), Failure> {
    // Ignore `public`, because the environment may set it for other commands.
    let given = arguments.load.settings.given();
    let mut given = given.iter().filter(|setting| setting.key != "public");
    match given.next() {
        None => Ok(()),
        Some(setting) => Err(Failure::wrong(format!(
            "{} applies to URLs only; in a plan, set {} in [load]",
            flag_of(&setting.key),
            setting.key
        ))),
    }
}
