//! `prony compare`: runs a plan, compares running servers, or resumes an experiment.

mod servers;

use std::path::Path;

use prony_load::flag_of;
use prony_machine::profile::MachineProfile;
use prony_plan::Plan;
use prony_record::redact;

use self::servers::{AbortKeys, ComparedServers, SearchKeys};
use crate::arguments::CompareArgs;
use crate::composed_plan::ComparedRevisions;
use crate::ending::{Ending, Failure};
use crate::experiment::plan_file;
use crate::runs_folder::ResultsFolder;
use crate::schema;
use crate::{experiment, runs_folder};

/// Runs `prony compare`.
pub(crate) fn run(arguments: &CompareArgs) -> Result<Ending, Failure> {
    let targets: Vec<&str> = arguments.targets.iter().map(String::as_str).collect();
    let commands = &arguments.commands;
    let has_commands =
        commands.start.is_some() || commands.build.is_some() || commands.path.is_some();
    if arguments.revisions.is_empty() && has_commands {
        let what = "--build, --start and --path apply to --revisions only; in a plan, set build and \
            command of the service, and path in [load]";
        return Err(Failure::wrong(what));
    }
    // The file of descriptors must exist until the experiment has copied it.
    let mut described = None;
    let plan = match (targets.as_slice(), &arguments.run.resume) {
        (urls @ [_, _, ..], None) => {
            refuse_plans(urls)?;
            if arguments.has_creds_flag {
                let what = "--creds applies to a plan with agents; with URLs, this machine \
                    generates the load (write a plan with agents in [load])";
                return Err(Failure::wrong(what));
            }
            if !arguments.goal.is_empty() {
                refuse_lengths(arguments)?;
            }
            let given = ComparedServers {
                urls,
                names: arguments.names.as_deref(),
                judge: &arguments.judge,
                bodies: arguments.run.bodies,
                abort: abort_keys(arguments),
                search: search_keys(arguments),
            };
            let settings = &arguments.load.settings;
            let first = urls.first().copied();
            let described_settings = schema::described(settings, first)?;
            servers::plan(given, &described.insert(described_settings).settings)?
        }
        ([_, _, ..], Some(_)) => {
            let what = "--resume takes the plan from the folder (remove the URLs)";
            return Err(Failure::wrong(what));
        }
        ([], None) if !arguments.revisions.is_empty() => revisions_plan(arguments)?,
        (_, Some(dir)) => {
            refuse_load_options(arguments)?;
            resumed_plan(targets.first().copied(), dir)?
        }
        ([plan], None) => {
            refuse_load_options(arguments)?;
            read_plan(plan)?
        }
        _ => {
            let what = "a plan, or two or more URLs, or --revisions, or --resume DIR is needed (prony compare --help; \
                        prony init writes a starter plan)";
            return Err(Failure::wrong(what));
        }
    };
    if targets.len() < 2 && arguments.revisions.is_empty() {
        refuse_url_options(arguments)?;
    }
    let options = &arguments.run;
    let named = options.resume.clone().or_else(|| options.out.clone());
    let dry_run = || {
        options
            .dry_run
            .then(|| runs_folder::for_new_run(&plan.name))
    };
    let out = ResultsFolder::open(named.or_else(dry_run), &plan.name)?;
    experiment::run_plan(&plan, out.path(), arguments.seed, options)
}

fn abort_keys(arguments: &CompareArgs) -> AbortKeys<'_> {
    AbortKeys {
        conditions: &arguments.abort_if,
        window: arguments.abort_window,
    }
}

fn search_keys(arguments: &CompareArgs) -> SearchKeys<'_> {
    SearchKeys {
        goal: &arguments.goal,
        max_rate: arguments.max_rate,
        search_time: arguments.search_time,
        probe: arguments.probe,
    }
}

/// Composes the plan that compares revisions of the repository in the current folder.
fn revisions_plan(arguments: &CompareArgs) -> Result<Plan, Failure> {
    let revisions: Vec<&str> = arguments.revisions.iter().map(|it| it.trim()).collect();
    let is_repeated = |index: usize| revisions[..index].contains(&revisions[index]);
    if revisions.len() < 2 || (0..revisions.len()).any(is_repeated) || revisions.contains(&"") {
        return Err(Failure::wrong(
            "--revisions needs two or more different revisions, the baseline first, such as \
             main,HEAD",
        ));
    }
    if !arguments.goal.is_empty() {
        refuse_lengths(arguments)?;
    }
    let mut load = toml::Table::new();
    let abort = abort_keys(arguments);
    abort.check()?;
    abort.insert_into(&mut load);
    search_keys(arguments).insert_into(&mut load);
    let compared = ComparedRevisions {
        revisions: &revisions,
        commands: &arguments.commands,
        load,
        judge: &arguments.judge,
        bodies: arguments.run.bodies,
        blocks_max: None,
        margin: None,
    };
    compared.plan(&arguments.load.settings)
}

fn read_plan(plan: &str) -> Result<Plan, Failure> {
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
fn resumed_plan(named: Option<&str>, dir: &Path) -> Result<Plan, Failure> {
    let Some(named) = named else {
        return plan_file::stored_plan(dir);
    };
    let original = read_plan(named)?;
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

/// Rejects options for URLs, because a plan contains these settings.
fn refuse_url_options(arguments: &CompareArgs) -> Result<(), Failure> {
    let error = if arguments.names.is_some() {
        "--names applies to URLs only; a plan names its variants"
    } else if !arguments.judge.is_empty() {
        "--judge applies to URLs only; in a plan, set metrics = [\"p99\", \"rate\"] instead"
    } else if !arguments.abort_if.is_empty() {
        "--abort-if applies to URLs only; in a plan, set abort_if in [load]"
    } else if !arguments.goal.is_empty() {
        "--goal applies to URLs only; in a plan, set model = \"capacity\" and goal in [load]"
    } else {
        return Ok(());
    };
    Err(Failure::wrong(error))
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
