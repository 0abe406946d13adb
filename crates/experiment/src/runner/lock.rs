//! The lock on an experiment's folder: one run at a time writes to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::folder::FolderError;

/// The lock's file in the folder. It holds the process id of the run and goes with it.
pub(super) const LOCK_FILE: &str = ".lock";

/// A folder that no other run writes to while this value lives. The kernel releases the lock however
/// the process ends.
#[derive(Debug)]
pub(crate) struct FolderLock {
    path: PathBuf,
    // Closing it releases the lock.
    _file: File,
}

impl FolderLock {
    /// Locks a folder, which must exist.
    ///
    /// # Errors
    /// [`FolderError::InUse`] if another run has it, [`FolderError::File`].
    pub(crate) fn take(dir: &Path) -> Result<Self, FolderError> {
        let path = dir.join(LOCK_FILE);
        let failed = |error: io::Error| FolderError::File {
            path: path.clone(),
            error: error.to_string(),
        };
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(FolderError::InUse {
                        dir: dir.to_owned(),
                        pid: pid_in(&mut file),
                    });
                }
                Err(error) => return Err(failed(error.into())),
            }
            // The run that had the lock may have removed the file between opening and locking it.
            if !is_at(&file, &path) {
                continue;
            }
            let pid = std::process::id();
            file.set_len(0).map_err(failed)?;
            file.write_all(format!("{pid}\n").as_bytes())
                .map_err(failed)?;
            return Ok(Self { path, _file: file });
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Without the file the next run makes its own; with it, it takes that one.
        let _ = fs::remove_file(&self.path);
    }
}

/// The process id that a run has written into its lock; `None` in the moment before it did.
fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether the path names this open file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_locked_for_one_run_and_left_without_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FolderLock::take(dir.path()).unwrap();
        let refused = FolderLock::take(dir.path()).unwrap_err();
        let pid = std::process::id();
        assert!(
            refused.to_string().contains(&format!("process {pid}")),
            "{refused}"
        );
        drop(lock);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        FolderLock::take(dir.path()).unwrap();
    }

    #[test]
    fn a_lock_that_a_killed_run_left_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(LOCK_FILE), "4000000000\n").unwrap();
        let _lock = FolderLock::take(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join(LOCK_FILE)).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
    }
}
