//! Runs a plan from start to end, for all commands that run experiments.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use prony_experiment::host::local::LocalHost;
use prony_experiment::host::{Host, HostError};
use prony_experiment::runner::{
    AgentLoadRunner, ExperimentEvent, ExperimentFolderError, ExperimentOutcome, Interrupt,
    Machines, RunSettings, RunnerError, TrialError, forecast, run_on, trial_mode,
};
use prony_experiment::sweep;
use prony_fleet::coordinator::Feed;
use prony_fleet::host::FeedObserver;
use prony_load::RunError;
use prony_plan::{Plan, forget_secrets};
use prony_record::{parse_stored, read_stored};
use prony_report::table::plain;
use prony_report::{Document, Experiment, PERCENTILES, folder, html, markdown, text};
use prony_stats::VerdictDocument;
use prony_stats::gate::GateResult;

use crate::arguments::{ProgressFlag, RunArgs};
use crate::ending::{Ending, Failure};
use crate::gating::GateSettings;
use crate::hosts::Hosts;
use crate::live::experiment::ExperimentView;
use crate::metrics::Metrics;
use crate::output::report_lost;
use crate::progress::{Progress, ProgressMode};
use crate::replaced_file::replace;
use crate::running_load::RunningLoad;
use crate::watch::ExperimentWatcher;
use crate::{live, outlook, replaced_file, scripts, signals, terminal};

/// Builds the settings of an experiment from the command line. `out` is its folder.
pub(crate) fn settings(arguments: &RunArgs, seed: Option<u64>, out: PathBuf) -> RunSettings {
    RunSettings {
        out,
        seed,
        blocks: arguments.blocks,
        budget: arguments.budget,
        resume: arguments.resume.is_some(),
        accept_plan_changes: arguments.accept_plan_changes,
        bodies: arguments.bodies,
        interleave: arguments.interleave,
        precheck: !arguments.no_precheck,
    }
}

/// Runs a plan, then prints and stores the results, even if the experiment was interrupted or
/// failed, and evaluates the conditions. `metrics` receives the events of the experiment; `hosts`
/// are its other machines.
pub(crate) fn run(
    plan: &Plan,
    settings: &RunSettings,
    flag: ProgressFlag,
    gating: GateSettings,
    metrics: Option<&Metrics>,
    hosts: Option<&Hosts>,
) -> Result<Ending, Failure> {
    let progress = Arc::new(Progress::new(flag));
    sweep_up(&progress);
    let mode = trial_mode(plan, settings).map_err(Failure::wrong)?;
    let block_time = outlook::planned_block_time(plan, Some(&mode));
    let forecast = forecast(plan, settings, &block_time);
    progress.line(&outlook::summary(plan, settings, &block_time));
    progress.line(&format!("results: {}", settings.out.display()));
    let here = LocalHost::new().map_err(Failure::refused)?;
    let watch = ExperimentWatcher::new(&progress, plan, forecast);
    let warn = |text: &str| progress.warn(&format!("prony: {text}"));
    let show = |feed: &Arc<Feed>| {
        watch.by_agents(feed);
        if let Some(metrics) = metrics {
            metrics.running(RunningLoad::ByAgents(feed.clone()));
        }
    };
    let is_seen = metrics.is_some() || progress.mode() == ProgressMode::View;
    let show = is_seen.then_some(&show as FeedObserver<'_>);
    let mut load = None;
    let mut host: Box<dyn Host> = match hosts {
        Some(hosts) => {
            let mut joined = hosts.join(here, plan, forecast.time_max());
            load = hosts.loads(&joined, &warn, show)?;
            hosts.reserve(&mut joined, load.as_mut(), &progress)?;
            Box::new(joined)
        }
        None => Box::new(here),
    };
    let machines = Machines {
        host: &mut *host,
        load: load.as_mut().map(|load| load as &mut dyn AgentLoadRunner),
        scripts: Some(&scripts::QUIET_LOADER),
    };
    let interrupt = Arc::new(Interrupt::default());
    let (stopping, messages) = (interrupt.clone(), progress.clone());
    let stop = move || stop_at(&stopping, &messages);
    let stop_at_signals = stop.clone();
    signals::listen(move |_| stop_at_signals())?;
    let reports = Reports {
        out: &settings.out,
        progress: &progress,
        lost: Cell::new(false),
    };
    let run = || {
        run_on(plan, machines, settings, &interrupt, &mut |event| {
            watch.observe(&event);
            if let Some(metrics) = metrics {
                metrics.observe(&event);
            }
            if let ExperimentEvent::Looked { .. } = event {
                reports.write();
            }
        })
    };
    let mut view = ExperimentView {
        notes: watch.notes(),
        interrupt: &interrupt,
    };
    let finished = live::with_view(&progress, &mut view, &stop, run);
    let finished = finished.map_err(failure_of)?;
    if is_final(&finished) {
        remove_secrets(&settings.out, &progress);
    }
    let ending = conclude(&finished, settings, &reports);
    gated(ending, gating, &reports)
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
fn gated(ending: Ending, gating: GateSettings, reports: &Reports<'_>) -> Result<Ending, Failure> {
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

/// Prints a message and asks the experiment to stop.
pub(crate) fn stop_at(interrupt: &Interrupt, progress: &Progress) {
    progress.warn(if !interrupt.is_stopped() {
        "prony: interrupted; stopping the services and cleaning up"
    } else {
        "prony: still cleaning up"
    });
    interrupt.stop();
}

/// Removes the plan's credentials from a completed experiment. An experiment that will be resumed
/// needs them.
fn remove_secrets(out: &Path, progress: &Progress) {
    if let Err(error) = forget_secrets(out) {
        progress.warn(&format!(
            "prony: {}: the plan's credentials could not be removed: {error}",
            out.display()
        ));
    }
}

/// Removes the leftovers of killed runs, and prints what was removed.
pub(crate) fn sweep_up(progress: &Progress) {
    match sweep::sweep() {
        Ok(swept) => {
            if !swept.removed.is_empty() {
                let removed: Vec<String> = swept.removed.iter().map(ToString::to_string).collect();
                progress.warn(&format!(
                    "prony: removed leftovers of a killed run: {}",
                    removed.join(", ")
                ));
            }
            for failure in swept.failures {
                progress.warn(&format!(
                    "prony: could not remove leftovers of a killed run: {failure}"
                ));
            }
        }
        Err(error) => {
            progress.warn(&format!(
                "prony: could not look for leftovers of killed runs: {error}"
            ));
        }
    }
}

/// Prints the results and returns the outcome of the experiment.
fn conclude(finished: &ExperimentOutcome, settings: &RunSettings, reports: &Reports<'_>) -> Ending {
    let document = &finished.document;
    let blocks = document.blocks;
    let page = reports.write();
    if blocks > 0 || document.is_withheld() {
        let report = Document::of_experiment(&Experiment::of_verdict(document.clone()));
        terminal::print(&text::render(&report, terminal::text_options(true)));
        if let Some(page) = page {
            terminal::print(&format!("report: {}\n", plain(&page.display().to_string())));
        }
    }
    if reports.lost.get() {
        terminal::note_lost_output();
    }
    reports.print_aborted_trial();
    if let Some(error) = &finished.unstored {
        terminal::print_message(&format!("prony: the verdict could not be stored: {error}"));
    }
    if let Some(error) = &finished.failed {
        terminal::print_message(&format!("prony: {error}"));
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
        terminal::print_message(&format!("prony: {}", stored_blocks(blocks, &out)));
    } else if hopeless {
        terminal::print_message("prony: fix the cause, then start a new run");
    } else if finished.failed.is_some() || finished.interrupted {
        terminal::print_message(&format!("prony: {}", resume_hint(blocks, settings)));
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
struct Reports<'a> {
    out: &'a Path,
    progress: &'a Progress,
    /// True if the latest attempt to write the reports failed.
    lost: Cell<bool>,
}

impl Reports<'_> {
    /// Writes all reports. Returns the path of the HTML page if it was written.
    fn write(&self) -> Option<PathBuf> {
        self.lost.set(false);
        let experiment = match folder::read(self.out) {
            Ok(experiment) => experiment,
            Err(error) => {
                self.progress
                    .warn(&format!("prony: no report was written: {error}"));
                self.lost.set(true);
                return None;
            }
        };
        let report = Document::of_experiment(&experiment);
        self.file("report.md", markdown::render(&report).as_bytes());
        self.file("report.html", html::render(&report).as_bytes())
    }

    /// Prints a report on the load that an abort condition ended, if there is such a load.
    fn print_aborted_trial(&self) {
        // If the folder can't be read, the attempt to write the reports has already printed the
        // error.
        let Ok(experiment) = folder::read(self.out) else {
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
        let report = Document::of_load(&trial.record, &PERCENTILES);
        let text = text::render(&report, terminal::text_options(true));
        terminal::print(&format!("\n{}\n\n{text}", plain(&heading)));
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Option<PathBuf> {
        let path = self.out.join(name);
        match replaced_file::replace(&path, bytes) {
            Ok(()) => Some(path),
            Err(error) => {
                self.progress
                    .warn(&format!("prony: {}: {error}", path.display()));
                self.lost.set(true);
                None
            }
        }
    }
}
