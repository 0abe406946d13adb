//! Checks of php-fpm: number and lifetime of the child processes in each pool.

use std::path::{Path, PathBuf};

use prony_record::number;

use super::super::check::{CheckResults, CheckStatus, CheckTopic};
use super::super::process::ServerProcess;
use super::files::{ConfigFiles, ServerConfigFiles, cores, first_of, option, within};

const CHILDREN: CheckTopic = CheckTopic {
    id: "php-fpm-max-children",
    expected: "at least two children per core, and no more than fit in memory",
    why: "each child processes one request at a time; additional requests wait in the socket's \
        queue",
    change: "raise pm.max_children in the pool's file; use pm = static for a measurement",
    source: "php.net/manual/en/install.fpm.configuration.php#pm.max-children",
};

const REQUESTS: CheckTopic = CheckTopic {
    id: "php-fpm-max-requests",
    expected: "no limit, or thousands of requests",
    why: "a child exits after the configured number of requests, and its replacement starts with \
        cold caches",
    change: "set pm.max_requests = 0 in the pool's file",
    source: "php.net/manual/en/install.fpm.configuration.php#pm.max-requests",
};

pub(super) fn check_php_fpm(server: &ServerProcess) -> CheckResults {
    let mut results = CheckResults::default();
    let Some(main) = main_file(server) else {
        results.add_undetermined("php-fpm's settings", "the configuration file was not found");
        return results;
    };
    let mut files = ServerConfigFiles::new(server);
    let mut pools = Vec::new();
    read_directives(&mut files, &main, &mut pools, &mut String::new());
    files.report(&mut results);
    check_settings(&pools, cores(server), &mut results);
    results
}

/// Returns the main configuration file, usually from a process title such as `php-fpm: master
/// process (/etc/php/8.2/fpm/php-fpm.conf)`.
fn main_file(server: &ServerProcess) -> Option<PathBuf> {
    let all = server.arguments.join(" ");
    if let Some((_, rest)) = all.split_once("master process (") {
        return Some(PathBuf::from(rest.trim_end().trim_end_matches(')')));
    }
    let arguments = &server.arguments;
    let text = option(arguments, "-y").or_else(|| option(arguments, "--fpm-config"));
    if let Some(text) = text {
        return Some(within(Path::new("/"), &text));
    }
    let found = server.matching("/etc/php/*/fpm/php-fpm.conf");
    let defaults = ["/etc/php-fpm.conf", "/usr/local/etc/php-fpm.conf"];
    found
        .into_iter()
        .next()
        .or_else(|| first_of(server, &defaults))
}

/// Settings of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct FpmPool {
    name: String,
    settings: Vec<(String, String)>,
}

impl FpmPool {
    fn value(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().rfind(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

fn read_directives(
    files: &mut dyn ConfigFiles,
    path: &Path,
    pools: &mut Vec<FpmPool>,
    section: &mut String,
) {
    let Some(text) = files.read(path) else {
        return;
    };
    for line in text.lines() {
        let line = line.split(';').next().unwrap_or_default().trim();
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            name.clone_into(section);
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        if key == "include" {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let pattern = within(folder, value);
            for path in files.matching(&pattern.to_string_lossy()) {
                read_directives(files, &path, pools, section);
            }
        } else if !section.is_empty() && section != "global" {
            let setting = (key.to_owned(), value.to_owned());
            match pools.iter_mut().find(|pool| pool.name == *section) {
                Some(pool) => pool.settings.push(setting),
                None => pools.push(FpmPool {
                    name: section.clone(),
                    settings: vec![setting],
                }),
            }
        }
    }
}

fn check_settings(pools: &[FpmPool], cores: u64, results: &mut CheckResults) {
    for pool in pools {
        let number = |name: &str| pool.value(name)?.parse::<u64>().ok();
        if let Some(children) = number("pm.max_children") {
            let mode = pool.value("pm").unwrap_or("dynamic");
            let text = format!("{} in pool {} ({mode})", number::count(children), pool.name);
            let status = if children < 2 * cores {
                CheckStatus::Warning
            } else {
                CheckStatus::Note
            };
            results.add(CHILDREN.check(status, text));
        }
        if let Some(requests) = number("pm.max_requests").filter(|n| (1..1000).contains(n)) {
            let text = format!("{} in pool {}", number::count(requests), pool.name);
            results.add(REQUESTS.check(CheckStatus::Note, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::InMemoryFiles;
    use super::*;

    #[test]
    fn pools_are_read_through_includes() {
        let main = "[global]\npid = /run/x.pid\ninclude=/etc/fpm/pool.d/*.conf\n";
        let pool = "[www]\npm = dynamic\npm.max_children = 3 ; few\npm.max_requests = 500\n";
        let mut files = InMemoryFiles(vec![
            ("/etc/fpm/fpm.conf", main),
            ("/etc/fpm/pool.d/www.conf", pool),
        ]);
        let mut pools = Vec::new();
        read_directives(
            &mut files,
            Path::new("/etc/fpm/fpm.conf"),
            &mut pools,
            &mut String::new(),
        );
        let mut results = CheckResults::default();
        check_settings(&pools, 2, &mut results);
        let brief: Vec<_> = results
            .checks
            .iter()
            .map(|check| (check.id, check.status, check.observed.as_str()))
            .collect();
        let expected = [
            (
                "php-fpm-max-children",
                CheckStatus::Warning,
                "3 in pool www (dynamic)",
            ),
            ("php-fpm-max-requests", CheckStatus::Note, "500 in pool www"),
        ];
        assert_eq!(brief, expected);
    }
}
