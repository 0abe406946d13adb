//! Files that a service's command names, and the Git state of its working directory.
//!
//! Paths and repositories may be anybody's: files are read up to a limit, `git` gets a time limit,
//! and no program that a repository configures is run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{inspect, program};
use crate::environment::{GitChanges, GitState, ServiceSources, SourceFile};
use crate::program_output::{ProgramOutput, run_program};

/// Maximum number of files per service.
const FILES_MAX: usize = 64;
/// Maximum size of a file whose contents are hashed.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of changed files of a repository whose contents are hashed.
const CHANGED_FILES_MAX: usize = 1_000;
/// Maximum total size of these files.
const CHANGED_BYTES_MAX: u64 = 4 * FILE_BYTES_MAX;
/// Maximum length of a list of changes. Longer lists are not hashed, because they may be cut.
const CHANGES_LIST_BYTES_MAX: usize = 60 << 10;
/// Time limit for each call of `git`.
const GIT_TIMEOUT: Duration = Duration::from_secs(5);

/// A service's command and its folders.
#[derive(Debug)]
pub(crate) struct ServiceCommand<'a> {
    /// Program and arguments.
    pub(crate) words: &'a [String],
    /// Working directory.
    pub(crate) cwd: &'a Path,
    /// Folder of the files that prony rendered. They follow from the plan, and contain ports that
    /// differ between runs.
    pub(crate) files_dir: &'a Path,
    /// Value of `PATH` that the plan sets.
    pub(crate) path: Option<&'a str>,
}

/// Reads the files that a command names, and the state of its working directory. `programs` lists
/// the files that are recorded as programs of the service.
pub(crate) fn service_sources(command: &ServiceCommand<'_>, programs: &[&Path]) -> ServiceSources {
    let is_known = |path: &Path| {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        real.starts_with(command.files_dir)
            || path.starts_with(command.files_dir)
            || programs.contains(&real.as_path())
            || programs.contains(&path)
            // Reading a file of the kernel may have side effects, or block.
            || ["/proc", "/sys", "/dev"].iter().any(|dir| real.starts_with(dir))
    };
    let mut files = BTreeMap::new();
    for (name, path) in named_paths(command) {
        if files.len() < FILES_MAX
            && !is_known(&path)
            && let Some(file) = source_file(&path)
        {
            files.insert(name, file);
        }
    }
    ServiceSources {
        files,
        git: git_state(command.cwd),
        image: None,
    }
}

/// Returns all paths that the words of a command may mean, with their names.
fn named_paths(command: &ServiceCommand<'_>) -> Vec<(String, PathBuf)> {
    let mut named = Vec::new();
    let mut is_module = false;
    let Some((first, arguments)) = command.words.split_first() else {
        return named;
    };
    if let Ok(program) = program::find(first, command.cwd, command.path) {
        named.push((first.clone(), program));
    }
    // An argument may be a command line itself, as of `sh -c`.
    for word in arguments.iter().flat_map(|it| it.split_whitespace()) {
        let word = word.trim_matches(['"', '\'', ';', '(', ')']);
        let mut names = vec![word.to_owned()];
        names.extend(word.split_once('=').map(|(_, value)| value.to_owned()));
        if word.starts_with('-') {
            // An option with its value in one word, such as `-cserver.conf`.
            names.extend(word.get(2..).map(str::to_owned));
        }
        // Python's modules: `uvicorn app.main:app`, `python -m app`.
        let module = match word.split_once(':') {
            Some((module, _)) => Some(module),
            None => is_module.then_some(word),
        };
        if let Some(module) = module.filter(|module| !module.is_empty()) {
            let base = module.replace('.', "/");
            for ending in [".py", "/__init__.py", "/__main__.py"] {
                names.push(format!("{base}{ending}"));
            }
        }
        is_module = word == "-m";
        let is_file_name = |name: &String| !name.is_empty() && !name.starts_with('-');
        let names = names.into_iter().filter(is_file_name);
        named.extend(names.map(|name| (name.clone(), command.cwd.join(name))));
    }
    named
}

fn source_file(path: &Path) -> Option<SourceFile> {
    let metadata = path.metadata().ok().filter(fs::Metadata::is_file)?;
    let bytes = metadata.len();
    let hash = (bytes <= FILE_BYTES_MAX).then(|| inspect::sha256(path));
    let sha256 = hash.flatten();
    Some(SourceFile {
        bytes,
        modified_s: sha256.is_none().then(|| metadata.mtime()),
        sha256,
    })
}

/// Reads the state of the repository that contains `cwd`.
fn git_state(cwd: &Path) -> Option<GitState> {
    let output = git(cwd, &["rev-parse", "--show-toplevel", "HEAD"])?;
    let (top, commit) = output
        .success
        .then(|| output.stdout.trim().rsplit_once('\n'))
        .flatten()?;
    Some(GitState {
        commit: commit.to_owned(),
        changes: changes(cwd, Path::new(top)),
    })
}

fn changes(cwd: &Path, top: &Path) -> Option<GitChanges> {
    // `status` would run filters that the repository configures.
    let filters = [
        "config",
        "--includes",
        "--show-scope",
        "--get-regexp",
        "^filter\\.",
    ];
    let filters = git(cwd, &filters)?;
    let is_known = filters.success || (filters.stdout.is_empty() && filters.stderr.is_empty());
    let is_own = |line: &str| line.starts_with("system\t") || line.starts_with("global\t");
    if !is_known || !filters.stdout.lines().all(is_own) {
        return None;
    }
    let status = [
        "status",
        "--porcelain",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=all",
    ];
    let status = git(cwd, &status).filter(|output| output.success)?;
    let entries = status.stdout.split('\0').filter(|entry| entry.len() > 3);
    let (untracked, changed): (Vec<&str>, Vec<&str>) =
        entries.partition(|entry| entry.starts_with("??"));
    let untracked = untracked.iter().map(|entry| top.join(&entry[3..]));
    let is_whole = status.stdout.len() < CHANGES_LIST_BYTES_MAX;
    Some(GitChanges {
        sha256: is_whole.then(|| changes_hash(top, &changed)).flatten(),
        changed_files: changed.len() as u64,
        untracked: untracked.filter(|path| !is_of_prony(path)).count() as u64,
    })
}

/// Returns true for a folder of results.
pub(crate) fn is_of_prony(path: &Path) -> bool {
    path.ends_with("prony-runs") || path.join("state.json").is_file()
}

/// Hashes the names and contents of changed files.
fn changes_hash(top: &Path, changed: &[&str]) -> Option<String> {
    if changed.is_empty() || changed.len() > CHANGED_FILES_MAX {
        return None;
    }
    let mut hash = Sha256::new();
    let mut left = CHANGED_BYTES_MAX;
    for entry in changed {
        hash.update(entry.as_bytes());
        let path = top.join(&entry[3..]);
        let metadata = path.symlink_metadata();
        if let Some(metadata) = metadata.ok().filter(fs::Metadata::is_file) {
            left = left.checked_sub(metadata.len())?;
            let mut file = File::open(&path).ok()?.take(metadata.len());
            let mut contents = Sha256::new();
            std::io::copy(&mut file, &mut contents).ok()?;
            hash.update(contents.finalize());
        }
    }
    Some(format!("{:x}", hash.finalize()))
}

/// Runs `git` without anything that a repository may configure to be run.
fn git(cwd: &Path, arguments: &[&str]) -> Option<ProgramOutput> {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(cwd)
        .args(["--no-optional-locks", "--no-pager"]);
    for setting in [
        "core.fsmonitor=",
        "core.hooksPath=/dev/null",
        "protocol.allow=never",
    ] {
        command.args(["-c", setting]);
    }
    for variable in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
    ] {
        command.env_remove(variable);
    }
    command
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .args(arguments)
        .stdin(Stdio::null());
    run_program(command, GIT_TIMEOUT).ok()
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
