//! A running server: its processes, program and files.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use procfs::process::Process;

use crate::crypto::{ProcessFiles, without_deleted_mark};
use crate::system::linux;

/// Maximum number of bytes read from a configuration file.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Reason why a process can't be examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessError {
    /// No process has this ID.
    Missing(i32),
    /// The process has ended, but its parent has not reaped it yet.
    Ended(i32),
    /// The process is a kernel thread.
    Kernel(i32),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessError::Missing(pid) => write!(
                f,
                "there is no process {pid} (pgrep -a NAME lists the processes of a server)"
            ),
            ProcessError::Ended(pid) => {
                write!(
                    f,
                    "process {pid} has ended (it is a zombie that its parent has not reaped)"
                )
            }
            ProcessError::Kernel(pid) => {
                write!(f, "process {pid} is a kernel thread, not a server")
            }
        }
    }
}

impl std::error::Error for ProcessError {}

/// A running server: the process that the user named, and related processes of the same program.
#[derive(Debug)]
pub(super) struct ServerProcess {
    /// ID of the process that the user named.
    pub(super) pid: i32,
    /// Root of the server's process tree, such as the master process of nginx. It is the most
    /// distant ancestor in an unbroken chain of processes that run the same program.
    pub(super) master: i32,
    /// Process IDs of the master and of all its descendants.
    pub(super) family: Vec<i32>,
    /// Path of the program, valid inside the process; `None` if the path can't be read.
    pub(super) executable: Option<PathBuf>,
    /// Process name, as the kernel reports it.
    pub(super) name: String,
    /// Current arguments of the master process. Many servers overwrite them with a title.
    pub(super) arguments: Vec<String>,
    /// Working directory, valid inside the process; `None` if it can't be read.
    pub(super) folder: Option<PathBuf>,
    pub(super) files: ProcessFiles,
}

impl ServerProcess {
    /// Reads the properties of a process.
    ///
    /// # Errors
    /// The process does not exist, or can't be a server.
    pub(super) fn of(pid: i32) -> Result<ServerProcess, ProcessError> {
        let missing = ProcessError::Missing(pid);
        let process = Process::new(pid).map_err(|_| missing.clone())?;
        let stat = process.stat().map_err(|_| missing)?;
        if matches!(stat.state, 'Z' | 'X') {
            return Err(ProcessError::Ended(pid));
        }
        let table = linux::processes();
        // The process table contains no kernel threads, so the process must be one of them.
        if table.get(pid).is_none() {
            return Err(ProcessError::Kernel(pid));
        }
        let master = linux::program_root(&table, pid);
        let mut family = vec![master];
        family.extend(table.descendants(master).iter().map(|member| member.pid));
        let arguments = Process::new(master).and_then(|master| master.cmdline());
        Ok(ServerProcess {
            pid,
            master,
            family,
            executable: process.exe().ok().map(without_deleted_mark),
            name: stat.comm,
            folder: process.cwd().ok(),
            arguments: arguments.unwrap_or_default(),
            files: ProcessFiles::of(pid),
        })
    }

    /// Returns the file name of the program.
    pub(super) fn program(&self) -> String {
        let path = self.executable.as_deref().and_then(Path::file_name);
        path.map_or(self.name.clone(), |name| {
            name.to_string_lossy().into_owned()
        })
    }

    /// Returns the file name of the program without a version: `apache` for apache2, `php-fpm` for
    /// php-fpm8.2.
    pub(super) fn program_without_version(&self) -> String {
        let name = self.program();
        let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        plain.trim_end_matches('-').to_owned()
    }

    /// Reads a text file, given a path that is valid in the process.
    ///
    /// # Errors
    /// The file can't be read.
    pub(super) fn read(&self, path: &Path) -> io::Result<String> {
        let file = self.files.open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let mut bytes = Vec::new();
        file.take(CONFIG_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the files that match a pattern such as `/etc/nginx/conf.d/*.conf`, sorted. The paths
    /// are valid inside the process.
    pub(super) fn matching(&self, pattern: &str) -> Vec<PathBuf> {
        let root = match self.files.same_root {
            Some(true) => PathBuf::new(),
            _ => self.files.root(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_examined_and_a_missing_one_is_an_error() {
        let own = i32::try_from(std::process::id()).unwrap();
        let server = ServerProcess::of(own).unwrap();
        assert!(server.family.contains(&own), "{server:?}");
        assert_eq!(server.files.same_root, Some(true));
        assert!(
            server
                .read(Path::new("/proc/version"))
                .unwrap()
                .contains("Linux")
        );
        // No process can have this ID: the kernel's maximum is 4,194,304.
        let error = ServerProcess::of(1 << 30).unwrap_err();
        assert_eq!(error, ProcessError::Missing(1 << 30));
    }

    #[test]
    fn patterns_match_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", "c.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let own = i32::try_from(std::process::id()).unwrap();
        let mut server = ServerProcess::of(own).unwrap();
        let pattern = format!("{}/*.conf", folder.path().display());
        let expected = ["a.conf", "b.conf"].map(|name| folder.path().join(name));
        assert_eq!(server.matching(&pattern), expected);
        server.files.same_root = Some(false);
        assert_eq!(server.matching(&pattern), expected);
        assert_eq!(server.read(&expected[0]).unwrap(), "");
    }
}
