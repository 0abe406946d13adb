//! Checks of HAProxy: connection limits (of the process, its frontends and its servers), number of
//! threads, and keep-alive.

use std::path::PathBuf;

use prony_record::number;

use super::super::check::{CheckResults, CheckStatus, CheckTopic};
use super::super::process::ServerProcess;
use super::files::{ConfigFiles, ServerConfigFiles, cores, first_of, within};

/// Minimum recommended `maxconn`. A lower value limits a typical load test.
const CONNECTIONS_MIN: u64 = 2000;

const MAXCONN: CheckTopic = CheckTopic {
    id: "haproxy-maxconn",
    expected: "more than the load's number of connections",
    why: "above the limit, HAProxy accepts no more connections; new ones wait in the listen queue, \
        and response times grow without an error",
    change: "raise maxconn in global, and in defaults or the frontend; the lower value applies",
    source: "HAProxy's configuration manual, 3.2 (global maxconn) and 4.2 (frontend maxconn)",
};

const SERVERS: CheckTopic = CheckTopic {
    id: "haproxy-server-maxconn",
    expected: "no maxconn on servers, or a maxconn above the number of requests in flight to each \
        server",
    why: "requests above the limit wait in HAProxy's queue (Tw in its log)",
    change: "raise maxconn on the server lines",
    source: "HAProxy's configuration manual, 5.2 (server maxconn)",
};

const THREADS: CheckTopic = CheckTopic {
    id: "haproxy-threads",
    expected: "a thread for each core",
    why: "a thread uses at most one core",
    change: "set nbthread in global (the default is all usable cores)",
    source: "HAProxy's configuration manual, 3.1 (nbthread)",
};

const REUSE: CheckTopic = CheckTopic {
    id: "haproxy-keep-alive",
    expected: "keep-alive on both sides",
    why: "without keep-alive, each request needs a new connection from the client or to the server",
    change: "set option http-keep-alive in defaults, and http-reuse safe or always",
    source: "HAProxy's configuration manual, 4 (option httpclose, option http-server-close)",
};

/// A configuration line with its section.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HaproxySetting {
    section: String,
    words: Vec<String>,
}

pub(super) fn check_haproxy(server: &ServerProcess) -> CheckResults {
    let mut results = CheckResults::default();
    let paths = main_files(server);
    if paths.is_empty() {
        results.add_undetermined("HAProxy's settings", "the configuration file was not found");
        return results;
    }
    let mut files = ServerConfigFiles::new(server);
    let mut settings = Vec::new();
    for path in paths {
        if let Some(text) = files.read(&path) {
            settings.extend(parse(&text));
        }
    }
    files.report(&mut results);
    if !settings.is_empty() {
        check_settings(&settings, cores(server), &mut results);
    }
    results
}

/// Returns the configuration files that the `-f` options name, in order, or the default file if
/// there are no such options. If an option names a folder, the folder's `.cfg` files are returned.
fn main_files(server: &ServerProcess) -> Vec<PathBuf> {
    let words = &server.arguments;
    let pairs = words
        .windows(2)
        .filter(|pair| pair[0] == "-f" || pair[0] == "--");
    // A daemon may have changed its working directory, so a relative path may be wrong.
    let folder = server.folder.clone().unwrap_or_default();
    let text: Vec<PathBuf> = pairs.map(|pair| within(&folder, &pair[1])).collect();
    if text.is_empty() {
        let defaults = ["/etc/haproxy/haproxy.cfg", "/usr/local/etc/haproxy.conf"];
        return first_of(server, &defaults).into_iter().collect();
    }
    let mut files = Vec::new();
    for path in text {
        let inside = server.matching(&format!("{}/*.cfg", path.display()));
        if inside.is_empty() {
            files.push(path);
        } else {
            files.extend(inside);
        }
    }
    files
}

/// Keywords that begin a section.
const SECTIONS: [&str; 6] = [
    "global", "defaults", "frontend", "backend", "listen", "peers",
];

fn parse(text: &str) -> Vec<HaproxySetting> {
    let mut section = String::new();
    let mut settings = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let Some(first) = words.first() else { continue };
        if SECTIONS.contains(&first.as_str()) {
            section = words.iter().take(2).cloned().collect::<Vec<_>>().join(" ");
            continue;
        }
        let section = section.clone();
        settings.push(HaproxySetting { section, words });
    }
    settings
}

/// Returns the values of a setting in all sections of one kind, each with the name of its section.
fn values<'s>(settings: &'s [HaproxySetting], kind: &str, name: &str) -> Vec<(&'s str, u64)> {
    let here = settings.iter().filter(|s| {
        s.section.split(' ').next() == Some(kind)
            && s.words.first().is_some_and(|word| word == name)
    });
    here.filter_map(|s| Some((s.section.as_str(), s.words.get(1)?.parse().ok()?)))
        .collect()
}

fn check_settings(settings: &[HaproxySetting], cores: u64, results: &mut CheckResults) {
    let status = |n: u64| CheckStatus::warning_if(n < CONNECTIONS_MIN);
    match values(settings, "global", "maxconn").last() {
        Some((_, n)) => {
            let text = format!("{} in global", number::count(*n));
            results.add(MAXCONN.check(status(*n), text));
        }
        None => {
            let text = "not set in global: HAProxy derives it from its limit on open files";
            results.add(MAXCONN.check(CheckStatus::Ok, text));
        }
    }
    for kind in ["defaults", "frontend", "listen"] {
        for (section, n) in values(settings, kind, "maxconn") {
            let text = format!("{} in {section}", number::count(n));
            results.add(MAXCONN.check(status(n), text));
        }
    }
    check_servers(settings, results);
    let threads = values(settings, "global", "nbthread")
        .last()
        .map(|(_, n)| *n);
    let used = threads.unwrap_or(cores);
    let text = format!("{used} for {cores} usable cores");
    results.add(THREADS.check(CheckStatus::warning_if(used < cores), text));
    for setting in settings {
        let closing = ["httpclose", "http-server-close", "forceclose"];
        if let [option, name, ..] = setting.words.as_slice()
            && option == "option"
            && closing.contains(&name.as_str())
        {
            let text = format!("option {name} in {}", setting.section);
            results.add(REUSE.check(CheckStatus::Note, text));
        }
    }
}

fn check_servers(settings: &[HaproxySetting], results: &mut CheckResults) {
    for setting in settings {
        let words = &setting.words;
        let named = words
            .first()
            .is_some_and(|word| word == "server" || word == "default-server");
        let maxconn = words.windows(2).find(|pair| pair[0] == "maxconn");
        if let Some(n) = maxconn
            .and_then(|pair| pair[1].parse().ok())
            .filter(|_| named)
        {
            let server = words.get(1).map(String::as_str).unwrap_or_default();
            let text = format!("{} for {server} in {}", number::count(n), setting.section);
            results.add(SERVERS.check(CheckStatus::Note, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_its_section() {
        let text = "\
global
    maxconn 100 # few
    nbthread 1
defaults
    option httpclose
frontend web
    maxconn 5000
backend app
    server a 127.0.0.1:1 maxconn 32 check
";
        let mut results = CheckResults::default();
        check_settings(&parse(text), 2, &mut results);
        let brief: Vec<_> = results
            .checks
            .iter()
            .map(|check| (check.id, check.status, check.observed.as_str()))
            .collect();
        let expected = [
            ("haproxy-maxconn", CheckStatus::Warning, "100 in global"),
            ("haproxy-maxconn", CheckStatus::Ok, "5,000 in frontend web"),
            (
                "haproxy-server-maxconn",
                CheckStatus::Note,
                "32 for a in backend app",
            ),
            (
                "haproxy-threads",
                CheckStatus::Warning,
                "1 for 2 usable cores",
            ),
            (
                "haproxy-keep-alive",
                CheckStatus::Note,
                "option httpclose in defaults",
            ),
        ];
        assert_eq!(brief, expected);
    }
}
