//! HAProxy: maxconn, of the process, of frontends and of servers.

use std::path::PathBuf;

use super::super::line::{Level, Seen, Topic, thousands};
use super::super::process::Server;
use super::{Files, OfServer, cores, first_of, within};

/// Connections that a usual load test needs.
const FEW_CONNECTIONS: u64 = 2000;

const MAXCONN: Topic = Topic {
    id: "haproxy-maxconn",
    expected: "more than the load's connections",
    why: "beyond it HAProxy stops accepting: connections wait in the listen queue, and response \
        times grow without any error",
    change: "maxconn in global, and in defaults or the frontend; the lower one counts",
    source: "HAProxy's configuration manual, 3.2 (global maxconn) and 4.2 (frontend maxconn)",
};

const SERVERS: Topic = Topic {
    id: "haproxy-server-maxconn",
    expected: "no maxconn of servers, or one above the requests under way to each",
    why: "requests beyond it wait in HAProxy's queue (Tw in its log)",
    change: "a higher maxconn on the server lines",
    source: "HAProxy's configuration manual, 5.2 (server maxconn)",
};

const THREADS: Topic = Topic {
    id: "haproxy-threads",
    expected: "a thread for each core",
    why: "a thread uses one core at most",
    change: "nbthread in global; without it HAProxy takes the cores that it may use",
    source: "HAProxy's configuration manual, 3.1 (nbthread)",
};

const REUSE: Topic = Topic {
    id: "haproxy-keep-alive",
    expected: "keep-alive on both sides",
    why: "with it off, each request opens a connection to the client or to the server",
    change: "option http-keep-alive in defaults, http-reuse safe or always",
    source: "HAProxy's configuration manual, 4 (option httpclose, option http-server-close)",
};

/// A line of the configuration, with the section that it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    section: String,
    words: Vec<String>,
}

pub(super) fn look(server: &Server) -> Seen {
    let mut seen = Seen::default();
    let paths = main_files(server);
    if paths.is_empty() {
        seen.unknown("HAProxy's settings", "its configuration file was not found");
        return seen;
    }
    let mut files = OfServer::new(server);
    let mut settings = Vec::new();
    for path in paths {
        if let Some(text) = files.read(&path) {
            settings.extend(parse(&text));
        }
    }
    files.report(&mut seen);
    if !settings.is_empty() {
        judge(&settings, cores(server), &mut seen);
    }
    seen
}

/// Every `-f`, in order; a folder stands for its `.cfg` files.
fn main_files(server: &Server) -> Vec<PathBuf> {
    let words = &server.arguments;
    let pairs = words
        .windows(2)
        .filter(|pair| pair[0] == "-f" || pair[0] == "--");
    // A server that became a daemon is elsewhere now: its relative path leads nowhere then.
    let folder = server.folder.clone().unwrap_or_default();
    let typed: Vec<PathBuf> = pairs.map(|pair| within(&folder, &pair[1])).collect();
    if typed.is_empty() {
        let usual = ["/etc/haproxy/haproxy.cfg", "/usr/local/etc/haproxy.conf"];
        return first_of(server, &usual).into_iter().collect();
    }
    let mut files = Vec::new();
    for path in typed {
        let inside = server.matching(&format!("{}/*.cfg", path.display()));
        match inside.is_empty() {
            true => files.push(path),
            false => files.extend(inside),
        }
    }
    files
}

const SECTIONS: [&str; 6] = [
    "global", "defaults", "frontend", "backend", "listen", "peers",
];

fn parse(text: &str) -> Vec<Setting> {
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
        settings.push(Setting { section, words });
    }
    settings
}

/// The value of a setting in a kind of section, with the section.
fn values<'s>(settings: &'s [Setting], kind: &str, name: &str) -> Vec<(&'s str, u64)> {
    let here = settings.iter().filter(|s| {
        s.section.split(' ').next() == Some(kind)
            && s.words.first().is_some_and(|word| word == name)
    });
    here.filter_map(|s| Some((s.section.as_str(), s.words.get(1)?.parse().ok()?)))
        .collect()
}

fn judge(settings: &[Setting], cores: u64, seen: &mut Seen) {
    let level = |n: u64| {
        if n < FEW_CONNECTIONS {
            Level::Warning
        } else {
            Level::Ok
        }
    };
    match values(settings, "global", "maxconn").last() {
        Some((_, n)) => {
            let text = format!("{} in global", thousands(*n));
            seen.line(MAXCONN.line(level(*n), text));
        }
        None => {
            let text = "not set in global: HAProxy makes it of its limit of open files";
            seen.line(MAXCONN.line(Level::Ok, text));
        }
    }
    for kind in ["defaults", "frontend", "listen"] {
        for (section, n) in values(settings, kind, "maxconn") {
            let text = format!("{} in {section}", thousands(n));
            seen.line(MAXCONN.line(level(n), text));
        }
    }
    servers(settings, seen);
    let threads = values(settings, "global", "nbthread")
        .last()
        .map(|(_, n)| *n);
    let used = threads.unwrap_or(cores);
    let text = format!("{used} for {cores} cores that it may use");
    seen.line(THREADS.line(
        if used < cores {
            Level::Warning
        } else {
            Level::Ok
        },
        text,
    ));
    for setting in settings {
        let closing = ["httpclose", "http-server-close", "forceclose"];
        if let [option, name, ..] = setting.words.as_slice()
            && option == "option"
            && closing.contains(&name.as_str())
        {
            let text = format!("option {name} in {}", setting.section);
            seen.line(REUSE.line(Level::Note, text));
        }
    }
}

fn servers(settings: &[Setting], seen: &mut Seen) {
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
            let what = words.get(1).map(String::as_str).unwrap_or_default();
            let text = format!("{} for {what} in {}", thousands(n), setting.section);
            seen.line(SERVERS.line(Level::Note, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cap_is_named_with_its_section() {
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
        let mut seen = Seen::default();
        judge(&parse(text), 2, &mut seen);
        let brief: Vec<_> = seen
            .lines
            .iter()
            .map(|line| (line.id, line.level, line.seen.as_str()))
            .collect();
        let expected = [
            ("haproxy-maxconn", Level::Warning, "100 in global"),
            ("haproxy-maxconn", Level::Ok, "5,000 in frontend web"),
            (
                "haproxy-server-maxconn",
                Level::Note,
                "32 for a in backend app",
            ),
            (
                "haproxy-threads",
                Level::Warning,
                "1 for 2 cores that it may use",
            ),
            (
                "haproxy-keep-alive",
                Level::Note,
                "option httpclose in defaults",
            ),
        ];
        assert_eq!(brief, expected);
    }
}
