//! What a server's own configuration caps.
//!
//! The files are read here rather than asked of the server: `nginx -T` opens logs, creates the pid
//! file and binds sockets as it tests, Apache has nothing alike, and a doctor changes nothing. What
//! is read is what stands in the files now; the server may have started with something else. Only
//! the settings that cap a load are looked for.

mod apache;
mod haproxy;
mod nginx;
mod php_fpm;

use std::path::{Path, PathBuf};

use super::line::Seen;
use super::process::Server;

/// The most files that includes may bring in, so that files that include each other end.
const MOST_FILES: usize = 1000;

/// What is to be said of a server's configuration; nothing of a program that is not known.
pub(super) fn look(server: &Server) -> Seen {
    match server.plain_program().as_str() {
        "nginx" | "nginx-debug" | "openresty" | "angie" => nginx::look(server),
        "apache" | "httpd" => apache::look(server),
        "haproxy" => haproxy::look(server),
        "php-fpm" => php_fpm::look(server),
        _ => {
            let mut seen = Seen::default();
            seen.unknown(
                format!("settings of {} that cap a load", server.program()),
                "those of nginx, Apache httpd, HAProxy and php-fpm are known",
            );
            seen
        }
    }
}

/// Reads the files of a configuration: by path, or by pattern.
trait Files {
    /// The text of a file; `None` and a note of it where it can't be read.
    fn read(&mut self, path: &Path) -> Option<String>;
    /// The files that a pattern names, sorted.
    fn matching(&self, pattern: &str) -> Vec<PathBuf>;
}

/// The files of a running server.
struct OfServer<'s> {
    server: &'s Server,
    read: usize,
    failed: Vec<(PathBuf, String)>,
}

impl<'s> OfServer<'s> {
    fn new(server: &'s Server) -> Self {
        OfServer {
            server,
            read: 0,
            failed: Vec::new(),
        }
    }

    /// Says which files could not be read.
    fn report(self, seen: &mut Seen) {
        for (path, why) in self.failed {
            seen.unknown(format!("the settings in {}", path.display()), why);
        }
    }
}

impl Files for OfServer<'_> {
    fn read(&mut self, path: &Path) -> Option<String> {
        self.read += 1;
        if self.read > MOST_FILES {
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

/// The first of these files that is there.
fn first_of(server: &Server, candidates: &[&str]) -> Option<PathBuf> {
    let mut paths = candidates.iter().map(PathBuf::from);
    paths.find(|path| server.open(path).is_ok())
}

/// A path that may be relative to a folder.
fn within(folder: &Path, path: &str) -> PathBuf {
    // An absolute path takes the folder's place.
    folder.join(path)
}

/// The words after `flag`, in arguments such as `-c file` or `-cfile`.
fn option(arguments: &[String], flag: &str) -> Option<String> {
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

/// The cores that a server may use.
fn cores(server: &Server) -> u64 {
    let pid = rustix::process::Pid::from_raw(server.master);
    let allowed = rustix::thread::sched_getaffinity(pid);
    allowed.map_or(1, |set| u64::from(set.count()))
}

/// Files in memory, for tests of the readers.
#[cfg(test)]
pub(super) struct InMemory(pub(super) Vec<(&'static str, &'static str)>);

#[cfg(test)]
impl Files for InMemory {
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
    fn options_are_found_apart_or_joined() {
        let words = ["nginx", "-c", "a.conf", "-p/opt"].map(str::to_owned);
        assert_eq!(option(&words, "-c").as_deref(), Some("a.conf"));
        assert_eq!(option(&words, "-p").as_deref(), Some("/opt"));
        assert_eq!(option(&words, "-g"), None);
    }
}
