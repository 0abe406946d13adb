//! Git, through its program.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use prony_plan::machine::{RevisionRefused, WorktreeChanges};

use crate::system::sources::is_of_prony;

/// Variables that would make git use another repository than that of the folder. Git sets them for
/// hooks, from which prony may run.
pub(super) const REPOSITORY_VARIABLES: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
];

/// A Git repository.
pub(super) struct Repository {
    folder: PathBuf,
    /// Folder of the repository that all its work trees share.
    pub(super) common_dir: PathBuf,
}

impl Repository {
    /// Opens the repository that contains a folder.
    pub(super) fn open(folder: &Path) -> Result<Self, RevisionRefused> {
        let mut repository = Self {
            folder: folder.to_owned(),
            common_dir: PathBuf::new(),
        };
        if !folder.is_dir() {
            let hint = "git names the folder of a repository, relative to the plan's folder";
            return Err(repository.refused("is not a folder", hint));
        }
        let words = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let hint = "git names the folder of a repository; git init creates one";
        repository.common_dir = repository.read(&words, hint)?.into();
        Ok(repository)
    }

    /// Returns the commit of a revision.
    pub(super) fn commit(&self, revision: &str) -> Result<String, RevisionRefused> {
        let unknown = format!("has no revision \"{}\"", revision.escape_debug());
        if revision.starts_with('-') || revision.contains(char::is_control) {
            let hint = "name a branch, a tag or a commit, or \"worktree\"";
            return Err(self.refused(&unknown, hint));
        }
        let find = |revision: &str| {
            let name = format!("{revision}^{{commit}}");
            self.read(&["rev-parse", "--verify", "--quiet", &name], "")
        };
        find(revision).map_err(|error| {
            if error.message.contains("not installed") {
                return error;
            }
            let any = ["rev-list", "--max-count=1", "--all"];
            if self.read(&any, "").is_ok_and(|commit| commit.is_empty()) {
                return self.refused("has no commits", "commit something first");
            }
            let shallow = self.read(&["rev-parse", "--is-shallow-repository"], "");
            let remote = format!("origin/{revision}");
            let hint = if find(&remote).is_ok() {
                format!("name {remote}, or create the branch")
            } else if shallow.is_ok_and(|text| text == "true") {
                "the clone is shallow; git fetch --unshallow gets all commits".to_owned()
            } else {
                "git branch --all and git tag list names; git fetch gets new ones".to_owned()
            };
            self.refused(&unknown, &hint)
        })
    }

    /// Returns the first line of a commit's message.
    pub(super) fn subject(&self, commit: &str) -> Result<String, RevisionRefused> {
        let words = ["log", "-1", "--no-show-signature", "--format=%s", commit];
        self.read(&words, "check the repository with git fsck")
    }

    /// Returns the hashes and subjects of the commits after `good` up to `bad`, along first parents.
    pub(super) fn first_parents(
        &self,
        good: &str,
        bad: &str,
    ) -> Result<Vec<(String, String)>, RevisionRefused> {
        let is_shallow = self.read(&["rev-parse", "--is-shallow-repository"], "");
        let hint = if is_shallow.is_ok_and(|text| text == "true") {
            "the clone is shallow; git fetch --unshallow gets all commits"
        } else {
            "name an ancestor as the good end"
        };
        if good == bad {
            return Err(self.refused("has no commits between the good and the bad end", hint));
        }
        if self
            .read(&["merge-base", "--is-ancestor", good, bad], "")
            .is_err()
        {
            let message = format!("has no path of commits from {good} to {bad}");
            return Err(self.refused(&message, hint));
        }
        let range = format!("{good}..{bad}");
        let words = ["log", "--first-parent", "--reverse", "--no-show-signature"];
        let words = [&words[..], &["--format=%H %s", &range]].concat();
        let text = self.read(&words, hint)?;
        let commits = text.lines().filter_map(|line| line.split_once(' '));
        Ok(commits
            .map(|(hash, subject)| (hash.to_owned(), subject.to_owned()))
            .collect())
    }

    /// Returns the root folder of the working tree.
    pub(super) fn worktree(&self) -> Result<PathBuf, RevisionRefused> {
        let hint = "a bare repository has no working tree; name a commit";
        Ok(self.read(&["rev-parse", "--show-toplevel"], hint)?.into())
    }

    /// Counts the changes of the working tree `top`. Folders with results of prony don't count.
    pub(super) fn changes(&self, top: &Path) -> Result<WorktreeChanges, RevisionRefused> {
        let words = ["status", "--porcelain", "-z", "--no-renames"];
        let text = self.read(&words, "check the repository with git status")?;
        let mut changes = WorktreeChanges {
            changed: 0,
            untracked: 0,
        };
        for entry in text.split('\0').filter(|entry| entry.len() > 3) {
            match entry.strip_prefix("?? ") {
                Some(path) if is_of_prony(&top.join(path)) => {}
                Some(_) => changes.untracked += 1,
                None => changes.changed += 1,
            }
        }
        Ok(changes)
    }

    /// Creates a work tree of a commit.
    pub(super) fn add_worktree(&self, dir: &Path, commit: &str) -> Result<(), RevisionRefused> {
        let words = ["worktree", "add", "--force", "--detach"].map(OsStr::new);
        let words = [&words[..], &[dir.as_os_str(), OsStr::new(commit)]].concat();
        self.read(&words, "check the free space and permissions of the cache")?;
        Ok(())
    }

    /// Removes a work tree, which may be incomplete or locked.
    pub(super) fn remove_worktree(&self, dir: &Path) {
        // Git refuses folders that are no work trees, but forgets those that are missing.
        let _ = fs::remove_dir_all(dir);
        let words = ["worktree", "remove", "--force", "--force"].map(OsStr::new);
        let _ = self.read(&[&words[..], &[dir.as_os_str()]].concat(), "");
    }

    /// Runs git and returns what it prints, without the last line feed.
    fn read<S: AsRef<OsStr>>(&self, words: &[S], hint: &str) -> Result<String, RevisionRefused> {
        let mut command = Command::new("git");
        command
            .args(["-c", "core.hooksPath=/dev/null", "-C"])
            .arg(&self.folder)
            .args(words)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            // Ctrl-C must not end git while it creates a work tree.
            .process_group(0);
        for variable in REPOSITORY_VARIABLES {
            command.env_remove(variable);
        }
        match command.output() {
            Ok(output) if output.status.success() => {
                let text = String::from_utf8_lossy(&output.stdout);
                Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
            }
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr);
                let lines: Vec<&str> = text.lines().collect();
                Err(self.refused(&format!("({})", lines.join("; ")), hint))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(RevisionRefused {
                message: "git is not installed".to_owned(),
                hint: "apt install git".to_owned(),
            }),
            Err(error) => Err(self.refused(&format!("(git: {error})"), hint)),
        }
    }

    fn refused(&self, message: &str, hint: &str) -> RevisionRefused {
        RevisionRefused {
            message: format!("{} {message}", self.folder.display()),
            hint: hint.to_owned(),
        }
    }
}
