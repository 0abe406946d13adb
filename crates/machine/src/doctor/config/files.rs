//! Access to the configuration files of a server, and what the checks of several servers share.

use std::path::{Path, PathBuf};

use super::super::check::CheckResults;
use super::super::process::ServerProcess;

/// Maximum number of configuration files to read. The limit prevents an endless loop if files
/// include each other.
const CONFIG_FILES_MAX: usize = 1000;

/// Access to the configuration files of a server.
pub(super) trait ConfigFiles {
    /// Reads a file. If it can't be read, records the error.
    fn read(&mut self, path: &Path) -> Option<String>;
    /// Returns the files that match a pattern, sorted by path.
    fn matching(&self, pattern: &str) -> Vec<PathBuf>;
}

/// The configuration files of a running server.
pub(super) struct ServerConfigFiles<'s> {
    server: &'s ServerProcess,
    read: usize,
    failed: Vec<(PathBuf, String)>,
}

impl<'s> ServerConfigFiles<'s> {
    pub(super) fn new(server: &'s ServerProcess) -> Self {
        ServerConfigFiles {
            server,
            read: 0,
            failed: Vec::new(),
        }
    }

    /// Reports the files that could not be read.
    pub(super) fn report(self, results: &mut CheckResults) {
        for (path, why) in self.failed {
            results.add_undetermined(format!("the settings in {}", path.display()), why);
        }
    }
}

impl ConfigFiles for ServerConfigFiles<'_> {
    fn read(&mut self, path: &Path) -> Option<String> {
        self.read += 1;
        if self.read > CONFIG_FILES_MAX {
            return None;
        }
        match self.server.read(path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.failed.push((path.to_owned(), error.to_string()));
                None
            }
        }
    }

    fn matching(&self, pattern: &str) -> Vec<PathBuf> {
        self.server.matching(pattern)
    }
}

/// Returns the first of the given files that exists.
pub(super) fn first_of(server: &ServerProcess, candidates: &[&str]) -> Option<PathBuf> {
    let mut paths = candidates.iter().map(PathBuf::from);
    paths.find(|path| server.files.open(path).is_ok())
}

/// Resolves a path, which may be relative to `folder`.
pub(super) fn within(folder: &Path, path: &str) -> PathBuf {
    // `join` returns an absolute path unchanged.
    folder.join(path)
}

/// Returns the value of a flag in arguments such as `-c file` or `-cfile`.
pub(super) fn option(arguments: &[String], flag: &str) -> Option<String> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == flag {
            return words.next().cloned();
        }
        if let Some(joined) = word.strip_prefix(flag).filter(|rest| !rest.is_empty()) {
            return Some(joined.to_owned());
        }
    }
    None
}

/// Returns the number of cores that a server may use.
pub(super) fn cores(server: &ServerProcess) -> u64 {
    let pid = rustix::process::Pid::from_raw(server.master);
    let allowed = rustix::thread::sched_getaffinity(pid);
    allowed.map_or(1, |set| u64::from(set.count()))
}

/// Configuration files in memory, for tests.
#[cfg(test)]
pub(super) struct InMemoryFiles(pub(super) Vec<(&'static str, &'static str)>);

#[cfg(test)]
impl ConfigFiles for InMemoryFiles {
    fn read(&mut self, path: &Path) -> Option<String> {
        let found = self.0.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| (*text).to_owned())
    }

    fn matching(&self, pattern: &str) -> Vec<PathBuf> {
        let pattern = glob::Pattern::new(pattern).unwrap();
        let names = self.0.iter().map(|(name, _)| PathBuf::from(name));
        names.filter(|name| pattern.matches_path(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_values_may_be_separate_or_joined() {
        let words = ["nginx", "-c", "a.conf", "-p/opt"].map(str::to_owned);
        assert_eq!(option(&words, "-c").as_deref(), Some("a.conf"));
        assert_eq!(option(&words, "-p").as_deref(), Some("/opt"));
        assert_eq!(option(&words, "-g"), None);
    }
}
