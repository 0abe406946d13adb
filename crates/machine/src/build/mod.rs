//! Builds of revisions of a Git repository, and their cache.

mod cache;
mod command;
mod git;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use prony_plan::machine::{Build, BuildLimits, RevisionRefused};
use rustix::fs::FlockOperation;

use self::cache::{CacheEntry, WORKTREE, builds_folder, entry_name};
use self::command::{CommandEnd, FREE_BYTES_MIN, POLL_INTERVAL, run_command};
use self::git::Repository;
use crate::host::tail;

pub use self::cache::{CachedBuild, EntryLock, cached_builds, sweep};

/// Number of a log's last lines in a message.
const TAIL_LINES: usize = 10;

/// A build that is complete.
#[derive(Debug)]
pub struct FinishedBuild {
    /// True if an earlier run built the revision.
    pub was_cached: bool,
    /// Keeps the build from being changed or removed.
    pub lock: EntryLock,
}

/// A build that failed.
#[derive(Debug)]
pub struct BuildFailed {
    run: String,
    cause: String,
    /// Last lines of the log.
    tail: String,
    hint: String,
}

impl fmt::Display for BuildFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, cause, .. } = self;
        write!(f, "\"{run}\" {cause}")?;
        if !self.tail.is_empty() {
            let lines = self.tail.replace('\n', "\n  ");
            write!(f, "; its last lines:\n  {lines}")?;
        }
        write!(f, "\n({})", self.hint)
    }
}

impl std::error::Error for BuildFailed {}

/// A repository, a revision and a command.
type BuildKey = (PathBuf, String, String);

/// Builds that were found, so that a branch that moves meanwhile doesn't change a run.
static FOUND: Mutex<BTreeMap<BuildKey, Result<Build, RevisionRefused>>> =
    Mutex::new(BTreeMap::new());

/// Finds the commit of a revision and the folder of its build. Later calls return the same result.
///
/// # Errors
/// The revision can't be built.
pub fn find(repository: &Path, revision: &str, run: &str) -> Result<Build, RevisionRefused> {
    let key = (repository.to_owned(), revision.to_owned(), run.to_owned());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let build = found
        .entry(key)
        .or_insert_with(|| look_up(repository, revision, run));
    build.clone()
}

fn look_up(folder: &Path, revision: &str, run: &str) -> Result<Build, RevisionRefused> {
    let Some(cache) = builds_folder() else {
        return Err(RevisionRefused {
            message: "neither XDG_CACHE_HOME nor HOME is set, so there is no folder for builds"
                .to_owned(),
            hint: "set HOME".to_owned(),
        });
    };
    let repository = Repository::open(folder)?;
    let is_worktree = revision == WORKTREE;
    let commit = repository.commit(if is_worktree { "HEAD" } else { revision })?;
    let (worktree, dir) = if is_worktree {
        let top = repository.worktree()?;
        (Some(repository.changes(&top)?), top)
    } else {
        let name = entry_name(&repository.common_dir, &commit, run);
        (None, cache.join(name).join("tree"))
    };
    Ok(Build {
        repository: folder.to_owned(),
        revision: revision.to_owned(),
        subject: repository.subject(&commit)?,
        commit,
        worktree,
        run: run.to_owned(),
        dir,
        limits: BuildLimits::default(),
    })
}

/// Returns the hash and subject of the commit `good`, and those of the commits after it up to
/// `bad`, along first parents.
///
/// # Errors
/// A revision doesn't exist, or `good` is not an ancestor of `bad`.
pub fn commits_between(
    folder: &Path,
    good: &str,
    bad: &str,
) -> Result<Vec<(String, String)>, RevisionRefused> {
    let repository = Repository::open(folder)?;
    let (good, bad) = (repository.commit(good)?, repository.commit(bad)?);
    let mut commits = vec![(good.clone(), repository.subject(&good)?)];
    commits.extend(repository.first_parents(&good, &bad)?);
    Ok(commits)
}

/// Returns true if an earlier run completed this build.
pub fn is_cached(build: &Build) -> bool {
    build.worktree.is_none() && CacheEntry::of(build).is_built()
}

/// Returns the path of a build's log.
pub fn log_of(build: &Build) -> PathBuf {
    CacheEntry::of(build).log()
}

/// Builds a revision, unless an earlier run has. Waits while another process builds the same
/// revision, or measures the working tree that is to be built, and then calls `on_wait` once.
/// Returns `None` if the build was interrupted; its files are removed then.
///
/// # Errors
/// The build failed. Its log is kept, and its files are removed.
pub fn run(
    build: &Build,
    is_stopped: &dyn Fn() -> bool,
    on_wait: &dyn Fn(),
) -> Result<Option<FinishedBuild>, BuildFailed> {
    let entry = CacheEntry::of(build);
    let file_error = |error| BuildFailed {
        run: build.run.clone(),
        cause: format!("was not started: {}: {error}", entry.path().display()),
        tail: String::new(),
        hint: "builds are in prony/builds in $XDG_CACHE_HOME or ~/.cache".to_owned(),
    };
    let mut has_waited = false;
    loop {
        if is_cached(build) {
            let lock = entry.lock(FlockOperation::NonBlockingLockShared);
            if let Some(lock) = lock.map_err(file_error)?
                && is_cached(build)
            {
                entry.mark_built().map_err(file_error)?;
                return Ok(Some(FinishedBuild {
                    was_cached: true,
                    lock,
                }));
            }
        }
        let lock = entry.lock(FlockOperation::NonBlockingLockExclusive);
        if let Some(lock) = lock.map_err(file_error)? {
            // Another process may have built the revision meanwhile.
            if is_cached(build) {
                continue;
            }
            if !build_in(build, &entry, is_stopped)? {
                return Ok(None);
            }
            lock.share().map_err(file_error)?;
            return Ok(Some(FinishedBuild {
                was_cached: false,
                lock,
            }));
        }
        if is_stopped() {
            return Ok(None);
        }
        if !has_waited {
            on_wait();
            has_waited = true;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Builds a revision in its locked entry. Returns false after an interrupt.
fn build_in(
    build: &Build,
    entry: &CacheEntry,
    is_stopped: &dyn Fn() -> bool,
) -> Result<bool, BuildFailed> {
    if build.worktree.is_some() {
        return run_in(build, &entry.log(), is_stopped);
    }
    let refused = |message: String, hint: String| BuildFailed {
        run: build.run.clone(),
        cause: format!("was not started: {message}"),
        tail: String::new(),
        hint,
    };
    let repository = Repository::open(&build.repository);
    let repository = repository.map_err(|error| refused(error.message, error.hint))?;
    let is_built = entry
        .prepare(&repository)
        .map_err(|error| refused(error.to_string(), entry.path().display().to_string()))
        .and_then(|()| {
            let added = repository.add_worktree(&build.dir, &build.commit);
            added.map_err(|error| refused(error.message, error.hint))
        })
        .and_then(|()| run_in(build, &entry.log(), is_stopped))
        .and_then(|is_built| {
            let marked = if is_built { entry.mark_built() } else { Ok(()) };
            marked.map_err(|error| refused(error.to_string(), String::new()))?;
            Ok(is_built)
        });
    if !matches!(is_built, Ok(true)) {
        repository.remove_worktree(&build.dir);
    }
    is_built
}

/// Runs the command of a build in its folder. Returns false after an interrupt.
fn run_in(build: &Build, log: &Path, is_stopped: &dyn Fn() -> bool) -> Result<bool, BuildFailed> {
    let see_log = format!("its log is {}", log.display());
    let (cause, hint) = match run_command(build, log, is_stopped) {
        Ok(CommandEnd::Stopped) => return Ok(false),
        Ok(CommandEnd::Exited(status)) if status.success() => return Ok(true),
        Ok(CommandEnd::Exited(status)) => (format!("failed ({status})"), see_log),
        Ok(CommandEnd::TooLong) => {
            let seconds = build.limits.within.as_secs_f64();
            let hint = format!("set within = \"1h\" in build; {see_log}");
            (format!("did not end within {seconds} s"), hint)
        }
        Ok(CommandEnd::TooLarge) => {
            let size = build.limits.size_max;
            let hint = format!("set size_max in build; {see_log}");
            (format!("wrote more than {size} bytes"), hint)
        }
        Ok(CommandEnd::DiskFull) => {
            let free = FREE_BYTES_MIN >> 20;
            let cause = format!("was ended, because less than {free} MiB of the disk are free");
            (cause, format!("prony runs prune removes builds; {see_log}"))
        }
        Err(error) => (format!("was not started: {error}"), see_log),
    };
    Err(BuildFailed {
        run: build.run.clone(),
        cause,
        tail: tail(log, TAIL_LINES),
        hint,
    })
}
