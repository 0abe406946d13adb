//! One process as the doctor sees it: which program, whose, and its files as it sees them.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use procfs::process::Process;
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::ProcessError;
use crate::host::linux;
use crate::host::process::Table;

/// The longest configuration file that is read, in bytes.
const LONGEST_FILE: u64 = 4 << 20;

/// A running server: the process that was named, and its family.
#[derive(Debug)]
pub(super) struct Server {
    /// The process that was named.
    pub(super) pid: i32,
    /// The first of its family: its nearest ancestor that runs the same program and whose parent
    /// does not (nginx's master for one of its workers).
    pub(super) master: i32,
    /// The master and all that descends from it.
    pub(super) family: Vec<i32>,
    /// The program's file, as the process sees it; `None` where that may not be read.
    pub(super) executable: Option<PathBuf>,
    /// The short name that the system keeps.
    pub(super) name: String,
    /// The master's arguments, as it shows them now: many servers write a title over them.
    pub(super) arguments: Vec<String>,
    /// The folder that it is in now, as it knows it; `None` where that may not be read.
    pub(super) folder: Option<PathBuf>,
    /// Whether it sees the same files as prony; `None` where that can't be told.
    pub(super) same_files: Option<bool>,
}

impl Server {
    /// Looks at a process.
    ///
    /// # Errors
    /// Where there is no such process, or none that could be a server.
    pub(super) fn of(pid: i32) -> Result<Server, ProcessError> {
        let missing = ProcessError::Missing(pid);
        let process = Process::new(pid).map_err(|_| missing.clone())?;
        let stat = process.stat().map_err(|_| missing)?;
        if matches!(stat.state, 'Z' | 'X') {
            return Err(ProcessError::Ended(pid));
        }
        let table = linux::processes();
        // Kernel threads are left out of the table.
        if table.get(pid).is_none() {
            return Err(ProcessError::Kernel(pid));
        }
        let master = master(&table, pid);
        let mut family = vec![master];
        family.extend(table.descendants(master).iter().map(|member| member.pid));
        let arguments = Process::new(master).and_then(|master| master.cmdline());
        Ok(Server {
            pid,
            master,
            family,
            executable: process.exe().ok().map(without_mark),
            name: stat.comm,
            folder: process.cwd().ok(),
            arguments: arguments.unwrap_or_default(),
            same_files: same_files(pid),
        })
    }

    /// The program's file name.
    pub(super) fn program(&self) -> String {
        let path = self.executable.as_deref().and_then(Path::file_name);
        path.map_or(self.name.clone(), |name| {
            name.to_string_lossy().into_owned()
        })
    }

    /// The same without a version: `apache` for apache2, `php-fpm` for php-fpm8.2.
    pub(super) fn plain_program(&self) -> String {
        let name = self.program();
        let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        plain.trim_end_matches('-').to_owned()
    }

    /// Opens a file by the path under which the process knows it: links and `..` lead nowhere out
    /// of its root.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::PermissionDenied`] for another user's process.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        if self.same_files == Some(true) {
            // A pipe would make it wait for a writer.
            let mut options = File::options();
            return options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
        }
        let root = File::open(format!("/proc/{}/root", self.pid))?;
        let relative = path.strip_prefix("/").unwrap_or(path);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let found =
            rustix::fs::openat2(&root, relative, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
        Ok(found.into())
    }

    /// A text file by the process's path for it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn read(&self, path: &Path) -> io::Result<String> {
        let file = self.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let mut bytes = Vec::new();
        file.take(LONGEST_FILE).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The files that a pattern such as `/etc/nginx/conf.d/*.conf` names, sorted, as the process
    /// knows them.
    pub(super) fn matching(&self, pattern: &str) -> Vec<PathBuf> {
        let root = match self.same_files {
            Some(true) => PathBuf::new(),
            _ => PathBuf::from(format!("/proc/{}/root", self.pid)),
        };
        let escaped = glob::Pattern::escape(&root.to_string_lossy());
        let found = glob::glob(&format!("{escaped}{pattern}"));
        let paths = found.into_iter().flatten().flatten();
        paths
            .map(|path| match path.strip_prefix(&root) {
                Ok(inside) if !root.as_os_str().is_empty() => Path::new("/").join(inside),
                _ => path,
            })
            .collect()
    }
}

/// Whether code from this file may run as the user that prony is: it can't be another's work.
/// A root's prony that ran any user's library would make every user root.
pub(super) fn is_ours(file: &File, same_files: Option<bool>) -> bool {
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    let me = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    same_files == Some(true) && (owner == 0 || owner == me) && metadata.mode() & 0o022 == 0
}

/// Follows the parents as long as they run the same program; by name where the program of another
/// user's process can't be read.
fn master(table: &Table, pid: i32) -> i32 {
    let program = |pid: i32| Process::new(pid).and_then(|process| process.exe()).ok();
    let name = |pid: i32| table.get(pid).map(|process| process.name.clone());
    let mut current = pid;
    while let Some(parent) = table.get(current).map(|process| process.parent) {
        let same = match (program(current), program(parent)) {
            (Some(own), Some(other)) => own == other,
            _ => name(current).is_some() && name(current) == name(parent),
        };
        if parent <= 1 || !same {
            break;
        }
        current = parent;
    }
    current
}

/// Whether root and mounts are prony's own.
fn same_files(pid: i32) -> Option<bool> {
    let link = |path: String| std::fs::read_link(path).ok();
    let theirs = link(format!("/proc/{pid}/ns/mnt"))?;
    let root = link(format!("/proc/{pid}/root"))?;
    let own_root = link("/proc/self/root".to_owned())?;
    Some(theirs == link("/proc/self/ns/mnt".to_owned())? && root == own_root)
}

/// A path without the kernel's mark for files that are gone.
pub(super) fn without_mark(path: PathBuf) -> PathBuf {
    match path.to_string_lossy().strip_suffix(" (deleted)") {
        Some(plain) => PathBuf::from(plain),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_looked_at_and_a_missing_one_refused() {
        let own = i32::try_from(std::process::id()).unwrap();
        let server = Server::of(own).unwrap();
        assert!(server.family.contains(&own), "{server:?}");
        assert_eq!(server.same_files, Some(true));
        assert!(
            server
                .read(Path::new("/proc/version"))
                .unwrap()
                .contains("Linux")
        );
        // No process has this id: the kernel's highest is 4,194,304.
        let error = Server::of(1 << 30).unwrap_err();
        assert_eq!(error, ProcessError::Missing(1 << 30));
    }

    #[test]
    fn patterns_name_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", "c.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let own = i32::try_from(std::process::id()).unwrap();
        let mut server = Server::of(own).unwrap();
        let pattern = format!("{}/*.conf", folder.path().display());
        let expected = ["a.conf", "b.conf"].map(|name| folder.path().join(name));
        assert_eq!(server.matching(&pattern), expected);
        server.same_files = Some(false);
        assert_eq!(server.matching(&pattern), expected);
        assert_eq!(server.read(&expected[0]).unwrap(), "");
    }

    #[test]
    fn files_that_others_can_write_are_not_ours() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let is_ours = |same| is_ours(file.as_file(), same);
        assert!(is_ours(Some(true)) && !is_ours(Some(false)) && !is_ours(None));
        let open = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(file.path(), open).unwrap();
        assert!(!is_ours(Some(true)));
    }
}
