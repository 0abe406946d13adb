//! Lock on an experiment's folder. Only one run may write to the folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::folder_error::ExperimentFolderError;

/// Name of the lock file, which contains the process ID of the run. The run removes the file when
/// it ends.
pub(super) const LOCK_FILE: &str = ".lock";

/// A locked folder. Dropping the value releases the lock. If the process is killed, the kernel
/// releases the lock.
#[derive(Debug)]
pub(crate) struct FolderLock {
    path: PathBuf,
    // Closing the file releases the lock.
    _file: File,
}

impl FolderLock {
    /// Locks an existing folder.
    ///
    /// # Errors
    /// [`ExperimentFolderError::InUse`] if another run has locked the folder;
    /// [`ExperimentFolderError::File`] if the lock file can't be used.
    pub(crate) fn take(dir: &Path) -> Result<Self, ExperimentFolderError> {
        let path = dir.join(LOCK_FILE);
        let failed = |error: io::Error| ExperimentFolderError::File {
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
                    return Err(ExperimentFolderError::InUse {
                        dir: dir.to_owned(),
                        pid: pid_in(&mut file),
                    });
                }
                Err(error) => return Err(failed(error.into())),
            }
            // The previous owner may have removed the file after this process opened it and before
            // it locked it.
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
        // If removal fails, the next run locks the existing file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Reads the process ID of the lock's owner; `None` if it hasn't been written yet.
fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Returns true if `path` still refers to the open file.
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
    fn a_folder_is_locked_for_one_run() {
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
    fn the_lock_of_a_killed_run_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(LOCK_FILE), "4000000000\n").unwrap();
        let _lock = FolderLock::take(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join(LOCK_FILE)).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
    }
}
