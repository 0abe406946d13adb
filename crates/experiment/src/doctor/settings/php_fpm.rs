//! php-fpm: how many requests its pools answer at once.

use std::path::{Path, PathBuf};

use super::super::line::{Level, Seen, Topic, thousands};
use super::super::process::Server;
use super::{Files, OfServer, cores, first_of, option, within};

const CHILDREN: Topic = Topic {
    id: "php-fpm-max-children",
    expected: "two children or more for each core, and no more than memory holds",
    why: "each child answers one request at a time: more requests wait in the socket's queue",
    change: "pm.max_children in the pool's file; pm = static for a measurement",
    source: "php.net/manual/en/install.fpm.configuration.php#pm.max-children",
};

const REQUESTS: Topic = Topic {
    id: "php-fpm-max-requests",
    expected: "none, or thousands",
    why: "a child ends after so many requests, and the next one starts with cold caches",
    change: "pm.max_requests = 0 in the pool's file",
    source: "php.net/manual/en/install.fpm.configuration.php#pm.max-requests",
};

pub(super) fn look(server: &Server) -> Seen {
    let mut seen = Seen::default();
    let Some(main) = main_file(server) else {
        seen.unknown("php-fpm's settings", "its configuration file was not found");
        return seen;
    };
    let mut files = OfServer::new(server);
    let mut pools = Vec::new();
    read(&mut files, &main, &mut pools, &mut String::new());
    files.report(&mut seen);
    judge(&pools, cores(server), &mut seen);
    seen
}

/// The title names the file: `php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)`.
fn main_file(server: &Server) -> Option<PathBuf> {
    let all = server.arguments.join(" ");
    if let Some((_, rest)) = all.split_once("master process (") {
        return Some(PathBuf::from(rest.trim_end().trim_end_matches(')')));
    }
    let arguments = &server.arguments;
    let typed = option(arguments, "-y").or_else(|| option(arguments, "--fpm-config"));
    if let Some(typed) = typed {
        return Some(within(Path::new("/"), &typed));
    }
    let found = server.matching("/etc/php/*/fpm/php-fpm.conf");
    let usual = ["/etc/php-fpm.conf", "/usr/local/etc/php-fpm.conf"];
    found
        .into_iter()
        .next()
        .or_else(|| first_of(server, &usual))
}

/// A pool's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pool {
    name: String,
    settings: Vec<(String, String)>,
}

impl Pool {
    fn value(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().rfind(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

fn read(files: &mut dyn Files, path: &Path, pools: &mut Vec<Pool>, section: &mut String) {
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
                read(files, &path, pools, section);
            }
        } else if !section.is_empty() && section != "global" {
            let setting = (key.to_owned(), value.to_owned());
            match pools.iter_mut().find(|pool| pool.name == *section) {
                Some(pool) => pool.settings.push(setting),
                None => pools.push(Pool {
                    name: section.clone(),
                    settings: vec![setting],
                }),
            }
        }
    }
}

fn judge(pools: &[Pool], cores: u64, seen: &mut Seen) {
    for pool in pools {
        let number = |name: &str| pool.value(name)?.parse::<u64>().ok();
        if let Some(children) = number("pm.max_children") {
            let manner = pool.value("pm").unwrap_or("dynamic");
            let text = format!("{} in pool {} ({manner})", thousands(children), pool.name);
            let level = if children < 2 * cores {
                Level::Warning
            } else {
                Level::Note
            };
            seen.line(CHILDREN.line(level, text));
        }
        if let Some(requests) = number("pm.max_requests").filter(|n| (1..1000).contains(n)) {
            let text = format!("{} in pool {}", thousands(requests), pool.name);
            seen.line(REQUESTS.line(Level::Note, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::InMemory;
    use super::*;

    #[test]
    fn pools_are_read_through_includes() {
        let main = "[global]\npid = /run/x.pid\ninclude=/etc/fpm/pool.d/*.conf\n";
        let pool = "[www]\npm = dynamic\npm.max_children = 3 ; few\npm.max_requests = 500\n";
        let mut files = InMemory(vec![
            ("/etc/fpm/fpm.conf", main),
            ("/etc/fpm/pool.d/www.conf", pool),
        ]);
        let mut pools = Vec::new();
        read(
            &mut files,
            Path::new("/etc/fpm/fpm.conf"),
            &mut pools,
            &mut String::new(),
        );
        let mut seen = Seen::default();
        judge(&pools, 2, &mut seen);
        let brief: Vec<_> = seen
            .lines
            .iter()
            .map(|l| (l.id, l.level, l.seen.as_str()))
            .collect();
        let expected = [
            (
                "php-fpm-max-children",
                Level::Warning,
                "3 in pool www (dynamic)",
            ),
            ("php-fpm-max-requests", Level::Note, "500 in pool www"),
        ];
        assert_eq!(brief, expected);
    }
}
