//! Removes runs. Only folders that an experiment wrote are removed, and only after a confirmation.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use prony_report::number;

use super::catalog::{self, RunState, is_run_folder, is_running, links_to, not_a_run, resolve};
use crate::ending::{Ending, Failure};
use crate::terminal;

/// Files that identify a run's folder. They are removed last, so that an interrupted removal can be
/// repeated.
const IDENTITY: [&str; 3] = ["verdict.json", "state.json", "plan.toml"];

/// Rule that determines which unnamed runs `prony runs prune` keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeepRule {
    pub(super) newest: Option<usize>,
    pub(super) younger_than: Option<Duration>,
}

/// Removes runs that the user listed.
pub(super) fn remove(typed: &[PathBuf], yes: bool) -> Result<Ending, Failure> {
    let mut runs: Vec<PathBuf> = Vec::new();
    for typed in typed {
        let run = resolve(typed);
        // If the path is a name, remove the run that it refers to.
        let run = match run.is_symlink() {
            true => fs::canonicalize(&run).map_err(|e| Failure::file(run.display(), &e))?,
            false => run,
        };
        if !run.exists() {
            return Err(Failure::wrong(format!("{}: no such run", typed.display())));
        }
        if !is_run_folder(&run) {
            return Err(not_a_run(typed));
        }
        if is_running(&run) {
            return Err(Failure::wrong(format!(
                "{}: this run is in progress (stop it first)",
                typed.display()
            )));
        }
        runs.push(run);
    }
    runs.sort();
    runs.dedup();
    confirmed(&runs, yes)?;
    remove_all(&runs)
}

/// Removes the runs in a folder that have no name and that `rule` doesn't keep.
pub(super) fn prune(
    dir: &Path,
    kept: KeepRule,
    dry_run: bool,
    yes: bool,
) -> Result<Ending, Failure> {
    if kept.newest.is_none() && kept.younger_than.is_none() {
        return Err(Failure::wrong(
            "nothing says which runs to keep (give --keep N, --older-than TIME, or both)",
        ));
    }
    let now = SystemTime::now();
    let runs = catalog::list(dir)?.into_iter().enumerate();
    let removed = runs.filter(|(index, run)| {
        let is_newest = kept.newest.is_some_and(|keep| *index < keep);
        let is_young = kept.younger_than.is_some_and(|age| {
            let since = now.duration_since(run.started_at);
            since.map_or(true, |since| since < age)
        });
        // Keep runs that have a name or are in progress.
        let is_running = matches!(run.state, RunState::Running);
        run.labels.is_empty() && !is_newest && !is_young && !is_running
    });
    let removed: Vec<PathBuf> = removed.map(|(_, run)| run.path).collect();
    if removed.is_empty() {
        terminal::print_message("prony: nothing to remove");
        return Ok(Ending::Done);
    }
    if dry_run {
        let lines = removed.iter().map(|run| format!("{}\n", run.display()));
        terminal::print(&lines.collect::<String>());
        return Ok(Ending::Done);
    }
    confirmed(&removed, yes)?;
    remove_all(&removed)
}

/// Asks for confirmation on a terminal. Without a terminal, --yes is required.
fn confirmed(runs: &[PathBuf], yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::wrong(
            "nothing was removed (add --yes to remove without a terminal)",
        ));
    }
    for run in runs {
        terminal::print_message(&format!("  {}", run.display()));
    }
    let count = number::plural(runs.len() as u64, "run", "runs");
    let _ = write!(io::stderr(), "Remove {count}? [y/N] ");
    let mut typed = String::new();
    let _ = io::stdin().lock().read_line(&mut typed);
    match typed.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::wrong("nothing was removed")),
    }
}

fn remove_all(runs: &[PathBuf]) -> Result<Ending, Failure> {
    for run in runs {
        let links = links_to(run);
        remove_one(run).map_err(|error| Failure::refused(format!("{}: {error}", run.display())))?;
        for link in links {
            // If removing the link fails, a dangling link is harmless.
            let _ = fs::remove_file(link);
        }
        terminal::print_message(&format!("prony: removed {}", run.display()));
    }
    Ok(Ending::Done)
}

fn remove_one(run: &Path) -> io::Result<()> {
    for entry in fs::read_dir(run)? {
        let entry = entry?;
        if IDENTITY.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    for name in IDENTITY {
        match fs::remove_file(run.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(run)
}
