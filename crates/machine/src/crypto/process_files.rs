//! Access to the files of another process, with paths that are valid in that process.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Files of a process, which may have a different root or different mounts.
#[derive(Debug, Clone)]
pub(crate) struct ProcessFiles {
    pub(crate) pid: i32,
    /// True if the process has the same root and mounts as prony; `None` if unknown.
    pub(crate) same_root: Option<bool>,
}

impl ProcessFiles {
    pub(crate) fn of(pid: i32) -> ProcessFiles {
        ProcessFiles {
            pid,
            same_root: has_same_root(pid),
        }
    }

    /// Opens a file by a path that is valid in the process. Symbolic links and `..` can't lead out
    /// of the process's root.
    ///
    /// # Errors
    /// The file can't be opened. For another user's process, the error is
    /// [`io::ErrorKind::PermissionDenied`].
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        if self.same_root == Some(true) {
            // Without O_NONBLOCK, opening a named pipe would block until the pipe has a writer.
            let mut options = File::options();
            return options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
        }
        let root = File::open(self.root())?;
        let relative = path.strip_prefix("/").unwrap_or(path);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let found =
            rustix::fs::openat2(&root, relative, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        Ok(found.into())
    }

    /// Returns the path of the process's root, valid in prony's process.
    pub(crate) fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.pid))
    }

    /// Returns true if prony may run code from this file as the user who runs prony.
    ///
    /// The file must belong to root or to the user who runs prony, and no one else may be able to
    /// write to it. If prony ran as root and loaded any user's library, every user could become
    /// root.
    pub(crate) fn is_trusted(&self, file: &File) -> bool {
        let Ok(metadata) = file.metadata() else {
            return false;
        };
        let own_uid = rustix::process::geteuid().as_raw();
        let owner = metadata.uid();
        let is_private = metadata.mode() & 0o022 == 0;
        self.same_root == Some(true) && (owner == 0 || owner == own_uid) && is_private
    }
}

/// Returns true if a process has the same root and mounts as prony; `None` if unknown.
fn has_same_root(pid: i32) -> Option<bool> {
    let link = |path: String| std::fs::read_link(path).ok();
    let mounts = link(format!("/proc/{pid}/ns/mnt"))?;
    let root = link(format!("/proc/{pid}/root"))?;
    let own_root = link("/proc/self/root".to_owned())?;
    Some(mounts == link("/proc/self/ns/mnt".to_owned())? && root == own_root)
}

/// Removes from a path the suffix with which the kernel marks deleted files.
pub(crate) fn without_deleted_mark(path: PathBuf) -> PathBuf {
    match path.to_string_lossy().strip_suffix(" (deleted)") {
        Some(plain) => PathBuf::from(plain),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_others_can_write_are_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let is_trusted = |same_root| ProcessFiles { pid: 1, same_root }.is_trusted(file.as_file());
        assert!(is_trusted(Some(true)) && !is_trusted(Some(false)) && !is_trusted(None));
        let writable = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(file.path(), writable).unwrap();
        assert!(!is_trusted(Some(true)));
    }
}
