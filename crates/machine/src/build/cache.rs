//! The folders of builds, and the locks that protect them.
//!
//! ```text
//! ~/.cache/prony/builds/           or prony/builds in $XDG_CACHE_HOME
//!   <commit>-<hash>/               one per repository, commit and command
//!     lock                         exclusive during a build, shared while a run uses the build
//!     repository                   path of the repository
//!     tree/                        the revision's files, a work tree of the repository
//!     log                          what the command printed
//!     built                        exists once the build is complete; its time is the last use
//! ```
//!
//! The working tree as it is, which is built in place, has only a lock and a log.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use prony_plan::machine::Build;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::git::Repository;

/// The revision that stands for the working tree as it is.
pub(super) const WORKTREE: &str = "worktree";

/// Number of digits of a commit and of a hash in the name of a build's folder.
const NAME_DIGITS: usize = 16;

/// Returns the folder of all builds; `None` if the environment names none.
pub(super) fn builds_folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(cache?.join("prony/builds"))
}

/// Returns the name of a build's folder.
pub(super) fn entry_name(repository: &Path, commit: &str, run: &str) -> String {
    let mut hash = Sha256::new();
    for part in [repository.as_os_str().as_encoded_bytes(), run.as_bytes()] {
        hash.update(part);
        hash.update([0]);
    }
    let hash: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    let commit: String = commit.chars().take(NAME_DIGITS).collect();
    format!("{commit}-{}", &hash[..NAME_DIGITS])
}

/// The folder of one build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CacheEntry(PathBuf);

impl CacheEntry {
    pub(super) fn of(build: &Build) -> Self {
        let parent = build.dir.parent().map(Path::to_owned);
        if build.worktree.is_none() {
            return Self(parent.unwrap_or_default());
        }
        let cache = builds_folder().unwrap_or_default();
        Self(cache.join(entry_name(&build.dir, WORKTREE, &build.run)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    fn tree(&self) -> PathBuf {
        self.0.join("tree")
    }

    /// Returns true if the build is complete.
    pub(super) fn is_built(&self) -> bool {
        self.0.join("built").is_file() && self.tree().is_dir()
    }

    /// Notes that the build is complete and was used now.
    pub(super) fn mark_built(&self) -> io::Result<()> {
        fs::write(self.0.join("built"), "")
    }

    /// Removes the files of an earlier build, and notes the repository.
    pub(super) fn prepare(&self, repository: &Repository) -> io::Result<()> {
        let _ = fs::remove_file(self.0.join("built"));
        repository.remove_worktree(&self.tree());
        let path = repository.common_dir.as_os_str().as_encoded_bytes();
        fs::write(self.0.join("repository"), path)
    }

    /// Locks the entry, creating it if necessary. Returns `None` if another process holds the
    /// lock.
    pub(super) fn lock(&self, operation: FlockOperation) -> io::Result<Option<EntryLock>> {
        loop {
            fs::create_dir_all(&self.0)?;
            let path = self.0.join("lock");
            let file = File::create(&path)?;
            match flock(&file, operation) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            // Another process may have removed the entry meanwhile.
            let own = file.metadata()?.ino();
            if fs::metadata(&path).is_ok_and(|it| it.ino() == own) {
                return Ok(Some(EntryLock(file)));
            }
        }
    }

    /// Returns the time of the last use or, without a complete build, of the last attempt.
    fn used_at(&self) -> SystemTime {
        let time = |path: PathBuf| fs::metadata(path).and_then(|it| it.modified()).ok();
        let used = time(self.0.join("built")).or_else(|| time(self.log()));
        used.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Removes the work tree.
    fn remove_tree(&self) {
        let tree = self.tree();
        let _ = fs::remove_dir_all(&tree);
        let path = fs::read(self.0.join("repository")).unwrap_or_default();
        let path = String::from_utf8_lossy(&path).into_owned();
        // The repository may have been removed.
        if let Ok(repository) = Repository::open(path.as_ref()) {
            repository.remove_worktree(&tree);
        }
    }
}

/// A locked entry. The lock ends with this value or with the process.
#[derive(Debug)]
pub struct EntryLock(File);

impl EntryLock {
    /// Lets other processes use the build, but not change it.
    pub(super) fn share(&self) -> io::Result<()> {
        Ok(flock(&self.0, FlockOperation::LockShared)?)
    }
}

/// Returns all entries.
fn entries() -> Vec<CacheEntry> {
    let read = builds_folder().and_then(|folder| fs::read_dir(folder).ok());
    let entries = read.into_iter().flatten().flatten();
    let entries = entries.map(|entry| CacheEntry(entry.path()));
    entries.filter(|entry| entry.0.is_dir()).collect()
}

/// Removes the work trees of builds that were killed.
pub fn sweep() {
    for entry in entries() {
        let is_dead = || entry.tree().exists() && !entry.is_built();
        if is_dead()
            && let Ok(Some(_lock)) = entry.lock(FlockOperation::NonBlockingLockExclusive)
            && is_dead()
        {
            entry.remove_tree();
        }
    }
}

/// A build in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedBuild {
    entry: CacheEntry,
    /// Time of the last use.
    pub used_at: SystemTime,
}

impl CachedBuild {
    /// Returns the build's folder.
    pub fn path(&self) -> &Path {
        &self.entry.0
    }

    /// Removes the build. Returns false if a process is using it.
    ///
    /// # Errors
    /// A file can't be removed.
    pub fn remove(&self) -> io::Result<bool> {
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        let Some(_lock) = self.entry.lock(exclusive)? else {
            return Ok(false);
        };
        self.entry.remove_tree();
        fs::remove_dir_all(&self.entry.0)?;
        Ok(true)
    }
}

/// Returns the builds in the cache, those used last first.
pub fn cached_builds() -> Vec<CachedBuild> {
    let builds = entries().into_iter().map(|entry| CachedBuild {
        used_at: entry.used_at(),
        entry,
    });
    let mut builds: Vec<CachedBuild> = builds.collect();
    builds.sort_by(|a, b| (b.used_at, b.path()).cmp(&(a.used_at, a.path())));
    builds
}
