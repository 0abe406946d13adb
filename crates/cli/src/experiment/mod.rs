//! Runs a plan from start to end, for all commands that run experiments.

mod dry_run;
mod hosts;
pub(crate) mod leftovers;
mod outlook;
pub(crate) mod plan_file;
pub(crate) mod revisions;
mod setups;
mod ssh_hosts;
mod watcher;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use prony_experiment::runner::{
    AgentLoadRunner, ExperimentEvent, ExperimentFolderError, ExperimentOutcome, Interrupt,
    Machines, RunSettings, RunnerError, TrialError, forecast, run_on, trial_mode,
};
use prony_fleet::coordinator::Feed;
use prony_fleet::host::FeedObserver;
use prony_load::RunError;
use prony_machine::host::local::LocalHost;
use prony_machine::host::ssh::{SshHosts, SshMachines};
use prony_machine::host::{Host, HostError};
use prony_plan::{Plan, forget_secrets};
use prony_record::sampling::DEFAULT_RATE_HZ;
use prony_record::{parse_stored, read_stored};
use prony_report::table::plain;
use prony_report::{Document, Experiment, PERCENTILES, collapsed_stacks, folder, html, markdown};
use prony_stats::VerdictDocument;
use prony_stats::gate::GateResult;

use self::hosts::PlanAgents;
use self::watcher::ExperimentWatcher;
use crate::arguments::RunArgs;
use crate::ending::{Ending, Failure};
use crate::gating::{self, GateSettings};
use crate::live::experiment::ExperimentView;
use crate::output::replaced_file;
use crate::output::replaced_file::replace;
use crate::output::report_lost;
use crate::progress::Progress;
use crate::session::Session;
use crate::{scripts, terminal};

/// Runs a plan in the folder `out` or prints its dry run, then evaluates the conditions from the
/// command line.
pub(crate) fn run_plan(
    plan: &Plan,
    out: &Path,
    seed: Option<u64>,
    arguments: &RunArgs,
) -> Result<Ending, Failure> {
    let settings = RunSettings {
        seed,
        blocks: arguments.blocks,
        budget: arguments.budget,
        resume: arguments.resume.is_some(),
        accept_plan_changes: arguments.accept_plan_changes,
        bodies: arguments.bodies,
        interleave: arguments.interleave,
        profile_rate_hz: arguments.profile.then_some(DEFAULT_RATE_HZ),
        precheck: !arguments.no_precheck,
        ..RunSettings::new(out.to_owned())
    };
    scripts::check_plan(plan)?;
    let gating = GateSettings::prepare(&arguments.gates, gating::known_of_plan(plan, &settings))?;
    let hosts = PlanAgents::of_plan(plan, &arguments.hosts)?;
    let machines = ssh_hosts::connect(plan)?;
    if arguments.dry_run {
        let session = Session::open(arguments.progress)?;
        return dry_run::print_dry_run(plan, &settings, (hosts.as_ref(), machines), &session);
    }
    let mut session = Session::monitored(arguments.progress, &arguments.monitoring)?;
    session.label_variants(plan, &settings);
    if let Some(metrics) = session.metrics() {
        metrics.show_stored(&out.join(REPORT_PAGE));
    }
    let hosts = (hosts.as_ref(), machines);
    let ending = run_experiment(plan, &settings, &session, gating, hosts)?;
    if let Some(metrics) = session.metrics() {
        metrics.end(|| None);
    }
    Ok(ending)
}

/// Name of an experiment's page in its folder.
const REPORT_PAGE: &str = "report.html";

/// Runs a plan, then prints and stores the results, even if the experiment was interrupted or
/// failed, and evaluates the conditions. `hosts` are the experiment's other machines: agents, and
/// those that run services over ssh.
pub(crate) fn run_experiment(
    plan: &Plan,
    settings: &RunSettings,
    session: &Session,
    gating: GateSettings,
    hosts: (Option<&PlanAgents>, SshMachines),
) -> Result<Ending, Failure> {
    let progress = session.progress();
    leftovers::remove_leftovers(progress);
    let mode = trial_mode(plan, settings).map_err(Failure::wrong)?;
    let block_time = outlook::planned_block_time(plan, Some(&mode));
    progress.line(&outlook::summary(plan, settings, &block_time));
    progress.line(&format!("results: {}", settings.out.display()));
    let interrupt = session.interrupt_experiment()?;
    let Some(_builds) = revisions::build_all(plan, &interrupt, progress)? else {
        return Ok(Ending::Interrupted);
    };
    let reports = ExperimentReports {
        out: &settings.out,
        progress,
        lost: Cell::new(false),
    };
    let finished = run_trials(plan, settings, session, &interrupt, hosts, &reports)?;
    let ending = print_results(&finished, settings, &reports);
    judge_conditions(ending, gating, &reports)
}

/// Runs the trials of a plan without printing their results. Its revisions must have been built.
fn run_trials(
    plan: &Plan,
    settings: &RunSettings,
    session: &Session,
    interrupt: &Interrupt,
    (agents, machines): (Option<&PlanAgents>, SshMachines),
    reports: &ExperimentReports<'_>,
) -> Result<ExperimentOutcome, Failure> {
    let progress = session.progress();
    let mode = trial_mode(plan, settings).map_err(Failure::wrong)?;
    let block_time = outlook::planned_block_time(plan, Some(&mode));
    let forecast = forecast(plan, settings, &block_time);
    let mut here = LocalHost::new().map_err(Failure::refused)?;
    if let Some(address) = machines.own_address() {
        here.set_address(address);
    }
    let watch = ExperimentWatcher::new(session, plan, forecast);
    let warn = |text: &str| progress.warn(text);
    let show = |feed: &Arc<Feed>| watch.by_agents(feed);
    let show = session.shows_loads().then_some(&show as FeedObserver<'_>);
    let mut load = None;
    let mut host: Box<dyn Host> = match agents {
        Some(hosts) => {
            let mut joined = hosts.join(here, plan, forecast.time_max());
            load = hosts.loads(&joined, &warn, show)?;
            hosts.reserve(&mut joined, load.as_mut(), progress)?;
            Box::new(joined)
        }
        None => Box::new(here),
    };
    if !machines.is_empty() {
        host = Box::new(SshHosts::new(host, machines));
    }
    let machines = Machines {
        host: &mut *host,
        load: load.as_mut().map(|load| load as &mut dyn AgentLoadRunner),
        scripts: Some(&scripts::QUIET_LOADER),
    };
    let run = || {
        run_on(plan, machines, settings, interrupt, &mut |event| {
            watch.observe(&event);
            if let ExperimentEvent::Looked { .. } = event {
                reports.write();
            }
        })
    };
    let mut view = ExperimentView {
        notes: watch.notes(),
        interrupt,
    };
    let finished = session.observe(&mut view, run).map_err(failure_of)?;
    if is_final(&finished) {
        remove_secrets(&settings.out, progress);
    }
    Ok(finished)
}

/// Runs one experiment of several, and writes its reports without printing results.
pub(crate) fn run_one_of_several(
    plan: &Plan,
    settings: &RunSettings,
    session: &Session,
    interrupt: &Interrupt,
) -> Result<ExperimentOutcome, Failure> {
    let reports = ExperimentReports {
        out: &settings.out,
        progress: session.progress(),
        lost: Cell::new(false),
    };
    let hosts = (None, ssh_hosts::connect(plan)?);
    let finished = run_trials(plan, settings, session, interrupt, hosts, &reports)?;
    reports.write();
    Ok(finished)
}

fn failure_of(error: RunnerError) -> Failure {
    match error {
        RunnerError::Folder(
            ExperimentFolderError::File { .. } | ExperimentFolderError::InUse { .. },
        ) => Failure::refused(error),
        RunnerError::Folder(_)
        | RunnerError::Design(_)
        | RunnerError::Mode(_)
        | RunnerError::Spent(_) => Failure::wrong(error),
    }
}

/// Evaluates the conditions, and stores their results and the exit status. `ending` is the outcome
/// without them.
fn judge_conditions(
    ending: Ending,
    gating: GateSettings,
    reports: &ExperimentReports<'_>,
) -> Result<Ending, Failure> {
    let (ending, gates) = gating.conclude(ending, reports.out)?;
    let has_gates = !gates.is_empty();
    store_ending(reports.out, ending, gates);
    if has_gates {
        reports.write();
    }
    Ok(ending)
}

/// Stores the exit status of an experiment and the results of its conditions with its verdict, so
/// that reports have them.
fn store_ending(out: &Path, ending: Ending, gates: Vec<GateResult>) {
    let path = out.join("verdict.json");
    // The verdict is missing only if it could not be stored, which has been reported.
    let Ok(text) = read_stored(&path) else { return };
    let Ok(mut document) = parse_stored::<VerdictDocument>(&text) else {
        return;
    };
    document.exit_status = Some(ending.status());
    document.gates = gates;
    let stored = serde_json::to_string_pretty(&document).map_err(io::Error::other);
    let stored = stored.and_then(|json| replace(&path, format!("{json}\n").as_bytes()));
    if let Err(error) = stored {
        report_lost(Failure::file(path.display(), &error));
    }
}

/// Returns true if the experiment is complete or was ended by a condition. Such an experiment can't
/// be resumed.
fn is_final(finished: &ExperimentOutcome) -> bool {
    let failed = finished.failed.as_ref().map(|failed| &*failed.error);
    !finished.interrupted && matches!(failed, None | Some(TrialError::Aborted { .. }))
}

/// Removes the plan's credentials from a completed experiment. An experiment that will be resumed
/// needs them.
fn remove_secrets(out: &Path, progress: &Progress) {
    if let Err(error) = forget_secrets(out) {
        progress.warn(format_args!(
            "{}: the plan's credentials could not be removed: {error}",
            out.display()
        ));
    }
}

/// Prints the results and returns the outcome of the experiment.
fn print_results(
    finished: &ExperimentOutcome,
    settings: &RunSettings,
    reports: &ExperimentReports<'_>,
) -> Ending {
    let document = &finished.document;
    let blocks = document.blocks;
    let page = reports.write();
    if blocks > 0 || document.is_withheld() {
        let report = Document::of_experiment(&Experiment::of_verdict(document.clone()));
        terminal::print_document(&report);
        if let Some(page) = page {
            terminal::print(&format!("report: {}\n", plain(&page.display().to_string())));
        }
    }
    if reports.lost.get() {
        terminal::note_lost_output();
    }
    reports.print_aborted_trial();
    if let Some(error) = &finished.unstored {
        terminal::print_message(format_args!("the verdict could not be stored: {error}"));
    }
    if let Some(error) = &finished.failed {
        terminal::print_message(error);
    }
    // Resuming would only repeat the error, unless a remote machine caused it: that machine may
    // recover.
    let failed = finished.failed.as_ref().map(|failed| &*failed.error);
    let hopeless = match failed {
        Some(TrialError::NothingSucceeded(_) | TrialError::Engine(RunError::Script(_))) => true,
        None | Some(TrialError::Agents(_) | TrialError::Host(HostError::Elsewhere { .. })) => false,
        Some(_) => blocks == 0,
    };
    if let Some(TrialError::Aborted { .. }) = failed {
        let out = settings.out.display();
        terminal::print_message(format_args!("{}", stored_blocks(blocks, &out)));
    } else if hopeless {
        terminal::print_message("fix the cause, then start a new run");
    } else if finished.failed.is_some() || finished.interrupted {
        terminal::print_message(format_args!("{}", resume_hint(blocks, settings)));
    }
    match (finished.interrupted, failed) {
        (true, _) => Ending::Interrupted,
        (
            false,
            Some(TrialError::NothingSucceeded(_) | TrialError::Engine(RunError::Script(_))),
        ) => Ending::Doubtful,
        (false, Some(TrialError::Aborted { .. })) => Ending::Aborted,
        (false, Some(_)) => Ending::CutShort,
        (false, None) if finished.unstored.is_some() => Ending::CutShort,
        (false, None) if document.is_withheld() => Ending::Doubtful,
        (false, None) => Ending::Done,
    }
}

/// Returns a sentence that names the stored blocks and the command to resume.
fn resume_hint(blocks: u32, settings: &RunSettings) -> String {
    let out = settings.out.display();
    let stored = stored_blocks(blocks, &out);
    // Options from the command line are not stored in the folder, so the hint repeats them.
    let text = settings
        .blocks
        .map(|blocks| format!(" --blocks {blocks}"))
        .unwrap_or_default();
    let bodies = settings
        .bodies
        .map(|rule| format!(" --bodies {}", rule.name()));
    let bodies = bodies.unwrap_or_default();
    format!("{stored}; resume with: prony compare --resume {out}{text}{bodies}")
}

/// Returns a clause that names the stored blocks.
fn stored_blocks(blocks: u32, out: &impl fmt::Display) -> String {
    match blocks {
        0 => "no block was completed".to_owned(),
        1 => format!("block 1 is stored in {out}"),
        blocks => format!("blocks 1 to {blocks} are stored in {out}"),
    }
}

/// Writes `report.html` and `report.md`, rendered only from the stored results.
struct ExperimentReports<'a> {
    out: &'a Path,
    progress: &'a Progress,
    /// True if the latest attempt to write the reports failed.
    lost: Cell<bool>,
}

impl ExperimentReports<'_> {
    /// Writes all reports. Returns the path of the HTML page if it was written.
    fn write(&self) -> Option<PathBuf> {
        self.lost.set(false);
        let experiment = match folder::read_experiment(self.out) {
            Ok(experiment) => experiment,
            Err(error) => {
                self.progress
                    .warn(format_args!("no report was written: {error}"));
                self.lost.set(true);
                return None;
            }
        };
        for (name, stacks) in collapsed_stacks(&experiment) {
            self.file(&name, stacks.as_bytes());
        }
        let report = Document::of_experiment(&experiment);
        self.file("report.md", markdown::render(&report).as_bytes());
        self.file(REPORT_PAGE, html::render(&report).as_bytes())
    }

    /// Prints a report on the load that an abort condition ended, if there is such a load.
    fn print_aborted_trial(&self) {
        // If the folder can't be read, the attempt to write the reports has already printed the
        // error.
        let Ok(experiment) = folder::read_experiment(self.out) else {
            return;
        };
        let Some(trial) = experiment.aborted_trial() else {
            return;
        };
        let variant = &experiment.verdict.variants[trial.variant].name;
        let heading = format!(
            "the load that ended early: {variant}, block {}",
            trial.block
        );
        terminal::print(&format!("\n{}\n\n", plain(&heading)));
        terminal::print_document(&Document::of_load(&trial.record, &PERCENTILES));
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Option<PathBuf> {
        let path = self.out.join(name);
        match replaced_file::replace(&path, bytes) {
            Ok(()) => Some(path),
            Err(error) => {
                self.progress
                    .warn(format_args!("{}: {error}", path.display()));
                self.lost.set(true);
                None
            }
        }
    }
}
