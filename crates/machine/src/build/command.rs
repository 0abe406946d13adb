//! The command of a build, with its limits. It runs under a keeper, so it ends with prony.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use prony_plan::machine::Build;
use prony_plan::service::{FollowSpec, PlaceKind, ServiceSpec};
use rustix::fs::statvfs;

use super::git::REPOSITORY_VARIABLES;
use crate::host::{LaunchMode, RunningService, launch};
use crate::system::HostError;

/// Interval at which a build is checked.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval at which the size of a build is measured.
const SIZE_INTERVAL: Duration = Duration::from_secs(2);

/// Time that a command has for cleaning up, and its processes for ending.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Free space of the file system at which a build ends, in bytes.
pub(super) const FREE_BYTES_MIN: u64 = 64 << 20;

/// Prepares the environment, gets the submodules of a work tree, and runs the command, which is
/// the first argument. The repository's own command runs in the same way, so the submodules may
/// use local paths, too.
const SCRIPT: &str = "if [ \"$0\" = commit ] && [ -e .gitmodules ]; then \
    git -c protocol.file.allow=always submodule update --init --recursive </dev/null || exit; \
    fi; exec sh -c \"$1\"";

/// How a command ended.
pub(super) enum CommandEnd {
    Exited(ExitStatus),
    Stopped,
    TooLong,
    TooLarge,
    DiskFull,
}

/// Runs the command of a build. When it returns, all processes of the command have ended.
pub(super) fn run_command(
    build: &Build,
    log: &Path,
    is_stopped: &dyn Fn() -> bool,
) -> Result<CommandEnd, HostError> {
    fs::File::create(log).map_err(HostError::file("create", log))?;
    let mut running = launch(&service(build), LaunchMode::Native, None, None, &[], log)?;
    let end = wait(&mut running, build, log, is_stopped);
    if !matches!(end, CommandEnd::Exited(_)) {
        running.ask_to_end(STOP_TIMEOUT);
    }
    if !running.kill(STOP_TIMEOUT) {
        running.kill_keeper(STOP_TIMEOUT);
    }
    Ok(end)
}

/// Describes a build as a service, because keepers run services.
fn service(build: &Build) -> ServiceSpec {
    let mode = match build.worktree {
        Some(_) => "worktree",
        None => "commit",
    };
    let unset = format!("unset {}; {SCRIPT}", REPOSITORY_VARIABLES.join(" "));
    let words = ["sh", "-c", &unset, mode, &build.run];
    ServiceSpec {
        jail: None,
        name: "build".to_owned(),
        command: words.map(str::to_owned).to_vec(),
        wrapper_words: 0,
        env: [("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned())].into(),
        cwd: build.dir.clone(),
        files: Default::default(),
        secrets: Default::default(),
        cores: Vec::new(),
        place: PlaceKind::Native,
        stop_signal: libc::SIGTERM,
        library_path: None,
        open_files: None,
        limits: Default::default(),
        container: None,
        follow: FollowSpec::default(),
    }
}

fn wait(
    running: &mut RunningService,
    build: &Build,
    log: &Path,
    is_stopped: &dyn Fn() -> bool,
) -> CommandEnd {
    let start = Instant::now();
    let mut next_size = start + SIZE_INTERVAL;
    // The files of a working tree include what was there before the build.
    let is_own = build.worktree.is_none();
    let is_too_large = || {
        let tree = if is_own { size_of(&build.dir) } else { 0 };
        tree + size_of(log) > build.limits.size_max
    };
    loop {
        let ended = running.main_ended();
        // A keeper that was killed reports no status.
        if let Some(status) = ended.or_else(|| running.keeper_ended()) {
            if status.success() && is_too_large() {
                return CommandEnd::TooLarge;
            }
            return CommandEnd::Exited(status);
        }
        let now = Instant::now();
        if is_stopped() {
            return CommandEnd::Stopped;
        }
        if now - start > build.limits.within {
            return CommandEnd::TooLong;
        }
        if is_full(&build.dir) {
            return CommandEnd::DiskFull;
        }
        if now >= next_size {
            if is_too_large() {
                return CommandEnd::TooLarge;
            }
            // Measuring a large tree takes time, so it is measured less often.
            next_size = Instant::now() + SIZE_INTERVAL.max(now.elapsed() * 10);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Returns true if the file system of a folder has almost no free space.
fn is_full(dir: &Path) -> bool {
    statvfs(dir).is_ok_and(|it| it.f_bavail.saturating_mul(it.f_frsize) < FREE_BYTES_MIN)
}

/// Returns the disk space of a file or a folder, in bytes. Symbolic links are not followed.
fn size_of(path: &Path) -> u64 {
    let mut bytes = 0;
    let mut paths = vec![path.to_owned()];
    while let Some(path) = paths.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        bytes += metadata.blocks() * 512;
        if metadata.is_dir() {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            paths.extend(entries.map(|entry| entry.path()));
        }
    }
    bytes
}
