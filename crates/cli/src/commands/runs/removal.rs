//! Removes runs: the files that prony wrote to their folders, after a confirmation.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use prony_experiment::runner::EXPERIMENT_FILES;
use prony_report::number;
use prony_report::table::plain;

use prony_machine::build::{CachedBuild, cached_builds};

use crate::commands::study::built_in_studies;
use crate::ending::{Ending, Failure};
use crate::runs_folder::catalog::{
    self, RunState, is_run_folder, is_running, links_to, not_a_run, resolve_run,
};
use crate::terminal;

/// Files that identify a run's folder. They are removed last, so that an interrupted removal can be
/// repeated.
const IDENTITY: [&str; 3] = ["verdict.json", "state.json", "plan.toml"];

/// Maximum number of remaining files that are named.
const KEPT_SHOWN_MAX: usize = 5;

/// Rule that determines which unnamed runs `prony runs prune` keeps.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeepRule {
    pub(super) newest: Option<usize>,
    pub(super) younger_than: Option<Duration>,
}

/// Removes runs that the user listed.
pub(super) fn remove(paths: &[PathBuf], yes: bool) -> Result<Ending, Failure> {
    let mut runs: Vec<PathBuf> = Vec::new();
    for path in paths {
        let run = resolve_run(path);
        // If the path is a name, remove the run that it refers to.
        let run = if run.is_symlink() {
            fs::canonicalize(&run).map_err(|e| Failure::file(run.display(), &e))?
        } else {
            run
        };
        if !run.exists() {
            return Err(Failure::wrong(format!("{}: no such run", path.display())));
        }
        if !is_run_folder(&run) {
            return Err(not_a_run(path));
        }
        if is_running(&run) {
            return Err(Failure::wrong(format!(
                "{}: this run is in progress (stop it first)",
                path.display()
            )));
        }
        runs.push(run);
    }
    runs.sort();
    runs.dedup();
    confirmed(&runs, yes)?;
    remove_all(&runs)
}

/// Removes the runs in a folder that have no name and that `rule` doesn't keep, and the builds of
/// revisions that it doesn't keep by their last use.
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
    let runs = catalog::list_runs(dir)?.into_iter().enumerate();
    let is_kept = |index: usize, time: SystemTime| {
        kept.newest.is_some_and(|keep| index < keep)
            || kept.younger_than.is_some_and(|age| {
                let since = now.duration_since(time);
                since.map_or(true, |since| since < age)
            })
    };
    let removed = runs.filter(|(index, run)| {
        // Keep runs that have a name or are in progress.
        let is_running = matches!(run.state, RunState::Running);
        run.labels.is_empty() && !is_running && !is_kept(*index, run.started_at)
    });
    let removed: Vec<PathBuf> = removed.map(|(_, run)| run.path).collect();
    let builds = cached_builds().into_iter().enumerate();
    let builds = builds.filter(|(index, build)| !is_kept(*index, build.used_at));
    let builds: Vec<CachedBuild> = builds.map(|(_, build)| build).collect();
    if removed.is_empty() && builds.is_empty() {
        terminal::print_message("nothing to remove");
        return Ok(Ending::Done);
    }
    if dry_run {
        let paths = removed.iter().map(PathBuf::as_path);
        let lines = paths
            .chain(builds.iter().map(CachedBuild::path))
            .map(|path| format!("{}\n", plain(&path.display().to_string())));
        terminal::print(&lines.collect::<String>());
        return Ok(Ending::Done);
    }
    if !removed.is_empty() {
        confirmed(&removed, yes)?;
    }
    remove_all(&removed)?;
    remove_builds(&builds)
}

/// Removes builds of revisions, which can be built again, so there is no confirmation.
fn remove_builds(builds: &[CachedBuild]) -> Result<Ending, Failure> {
    for build in builds {
        let path = build.path().display();
        let removed = build.remove();
        if removed.map_err(|error| Failure::refused(format!("{path}: {error}")))? {
            terminal::print_message(format_args!("removed {path}"));
        }
    }
    Ok(Ending::Done)
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
        terminal::print_line(&format!("  {}", run.display()));
    }
    let count = number::plural(runs.len() as u64, "run", "runs");
    let _ = write!(io::stderr(), "Remove {count}? [y/N] ");
    let mut text = String::new();
    let _ = io::stdin().lock().read_line(&mut text);
    match text.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::wrong("nothing was removed")),
    }
}

fn remove_all(runs: &[PathBuf]) -> Result<Ending, Failure> {
    for run in runs {
        let links = links_to(run);
        let kept = remove_one(run)
            .map_err(|error| Failure::refused(format!("{}: {error}", run.display())))?;
        for link in links {
            // If removing the link fails, a dangling link is harmless.
            let _ = fs::remove_file(link);
        }
        let removed = format!("removed {}", run.display());
        terminal::print_message(match kept.as_slice() {
            [] => removed,
            kept => format!(
                "{removed}, except what prony did not write: {}",
                listed(kept)
            ),
        });
    }
    Ok(Ending::Done)
}

fn listed(paths: &[PathBuf]) -> String {
    let shown = paths.iter().take(KEPT_SHOWN_MAX);
    let shown: Vec<String> = shown.map(|path| path.display().to_string()).collect();
    match paths.len().saturating_sub(KEPT_SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Removes what prony wrote to a run's folder, and each folder that is empty then. Returns the
/// paths that remain, relative to the folder.
fn remove_one(run: &Path) -> io::Result<Vec<PathBuf>> {
    let files = RunFiles::of(run);
    let (mut own, mut kept) = (Vec::new(), Vec::new());
    let mut folders = vec![PathBuf::new()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        for entry in fs::read_dir(run.join(&folder))? {
            let entry = entry?;
            let (path, kind) = (folder.join(entry.file_name()), entry.file_type()?);
            match kind.is_dir() {
                true => folders.push(path),
                false if kind.is_file() && files.contain(&path) => own.push(path),
                false => kept.push(path),
            }
        }
    }
    own.sort_by_key(|path| IDENTITY.iter().any(|name| path == Path::new(name)));
    for path in own {
        fs::remove_file(run.join(path))?;
    }
    // Folders in a folder come after it.
    for folder in folders.iter().rev() {
        let removed = fs::remove_dir(run.join(folder));
        let is_kept = |error: &io::Error| error.kind() == io::ErrorKind::DirectoryNotEmpty;
        removed.or_else(|error| is_kept(&error).then_some(()).ok_or(error))?;
    }
    kept.sort();
    Ok(kept)
}

/// The files that prony wrote to a run's folder.
struct RunFiles {
    /// Copies of the files that the plan names; `None` if an old version stored no list.
    included: Option<serde_json::Map<String, serde_json::Value>>,
    run: PathBuf,
}

impl RunFiles {
    fn of(run: &Path) -> RunFiles {
        let state = fs::read(run.join("state.json")).unwrap_or_default();
        let mut state: serde_json::Value = serde_json::from_slice(&state).unwrap_or_default();
        RunFiles {
            included: match state["plan"]["files"].take() {
                serde_json::Value::Object(files) => Some(files),
                _ => None,
            },
            run: run.to_owned(),
        }
    }

    /// Returns true if prony wrote the file `path`, which is relative to the run's folder.
    fn contain(&self, path: &Path) -> bool {
        let parts: Option<Vec<&str>> = path.iter().map(|part| part.to_str()).collect();
        let is_trial = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
        match parts.unwrap_or_default().as_slice() {
            [name] => EXPERIMENT_FILES.contains(name),
            ["includes", ..] => {
                let name = path.to_string_lossy();
                (self.included.as_ref()).is_none_or(|files| files.contains_key(&*name))
            }
            ["study", ..] => path
                .strip_prefix("study")
                .is_ok_and(built_in_studies::has_file),
            ["trials", trial, name] if is_trial(trial) => {
                let endings = [".json", ".json.new", ".log", ".log.new"];
                *name == "telemetry.csv" || endings.iter().any(|ending| name.ends_with(ending))
            }
            // The rendered files of a service, whose log is next to its folder.
            ["trials", trial, service, ..] if is_trial(trial) => {
                let log = format!("trials/{trial}/{service}.log");
                self.run.join(log).is_file()
            }
            _ => false,
        }
    }
}
