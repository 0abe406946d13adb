//! nginx: worker_processes, worker_connections, and what else caps a load.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::super::line::{Level, Seen, Topic, thousands};
use super::super::process::{Server, is_ours};
use super::super::run::answer;
use super::{Files, OfServer, cores, first_of, option, within};

const USUAL: [&str; 4] = [
    "/etc/nginx/nginx.conf",
    "/usr/local/etc/nginx/nginx.conf",
    "/usr/local/nginx/conf/nginx.conf",
    "/usr/local/openresty/nginx/conf/nginx.conf",
];

/// Connections a worker that a usual load test needs.
const FEW_CONNECTIONS: u64 = 1024;
/// What a connection may carry by default since 1.19.10.
const USUAL_REQUESTS: u64 = 1000;

const WORKERS: Topic = Topic {
    id: "nginx-worker-processes",
    expected: "a worker for each core",
    why: "a worker uses one core at most",
    change: "worker_processes auto;",
    source: "nginx.org/en/docs/ngx_core_module.html#worker_processes",
};

const CONNECTIONS: Topic = Topic {
    id: "nginx-worker-connections",
    expected: "more than the load's connections, those to upstreams included",
    why: "beyond it nginx closes idle connections or refuses new ones (\"worker_connections are not \
        enough\" in its error log)",
    change: "worker_connections 16384; in events { }",
    source: "nginx.org/en/docs/ngx_core_module.html#worker_connections",
};

const FILES: Topic = Topic {
    id: "nginx-rlimit-nofile",
    expected: "open files for every connection that worker_connections allows",
    why: "a worker reaches its limit of open files before its connections",
    change: "worker_rlimit_nofile, at twice worker_connections",
    source: "nginx.org/en/docs/ngx_core_module.html#worker_rlimit_nofile",
};

const REQUESTS: Topic = Topic {
    id: "nginx-keepalive-requests",
    expected: "1,000 or more requests on a connection, keep-alive on",
    why: "the server closes each connection after so many requests, and a new one costs a handshake",
    change: "keepalive_requests 10000; keepalive_timeout 75s;",
    source: "nginx.org/en/docs/http/ngx_http_core_module.html#keepalive_requests",
};

const THROTTLE: Topic = Topic {
    id: "nginx-limits",
    expected: "no limit on requests, connections or rate where a load is measured",
    why: "what it refuses or slows down is its configuration's work, not its speed",
    change: "take limit_req, limit_conn and limit_rate out for the measurement",
    source: "nginx.org/en/docs/http/ngx_http_limit_req_module.html",
};

/// One directive, and the blocks around it, the outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Directive {
    words: Vec<String>,
    blocks: Vec<String>,
}

pub(super) fn look(server: &Server) -> Seen {
    let mut seen = Seen::default();
    let Some(main) = main_file(server) else {
        seen.unknown("nginx's settings", "its configuration file was not found");
        return seen;
    };
    let mut files = OfServer::new(server);
    let mut directives = Vec::new();
    let folder = main.parent().map(Path::to_owned).unwrap_or_default();
    read(&mut files, &main, &folder, &[], &mut directives);
    // What is given on the command line counts as written at the top.
    if let Some(global) = global_of(server) {
        parse(&mut files, &global, &folder, &[], &mut directives);
    }
    let found = directives.is_empty();
    files.report(&mut seen);
    if !found {
        judge(&directives, cores(server), soft_limit(server), &mut seen);
    }
    seen
}

/// The words of the master's command line, as its title shows them.
fn arguments(server: &Server) -> Vec<String> {
    let all = server.arguments.join(" ");
    let plain = all.strip_prefix("nginx: master process ").unwrap_or(&all);
    plain.split_whitespace().map(str::to_owned).collect()
}

/// The text of `-g`, up to the next option: the title has lost its quotes.
fn global_of(server: &Server) -> Option<String> {
    let words = arguments(server);
    let start = words.iter().position(|word| word == "-g")? + 1;
    let rest = words.get(start..)?;
    let end = rest.iter().position(|word| word.starts_with('-'));
    Some(rest[..end.unwrap_or(rest.len())].join(" "))
}

fn main_file(server: &Server) -> Option<PathBuf> {
    let arguments = arguments(server);
    let built = built_with(server).unwrap_or_default();
    let prefix = option(&arguments, "-p").or_else(|| build_option(&built, "--prefix="));
    let prefix = PathBuf::from(prefix.unwrap_or_else(|| "/".to_owned()));
    if let Some(typed) = option(&arguments, "-c") {
        return Some(within(&prefix, &typed));
    }
    match build_option(&built, "--conf-path=") {
        Some(path) => Some(within(&prefix, &path)),
        None => first_of(server, &USUAL),
    }
}

/// What `nginx -V` says, where the program may be started: it prints and ends.
fn built_with(server: &Server) -> Option<String> {
    let program = File::open(format!("/proc/{}/exe", server.pid)).ok()?;
    if !is_ours(&program, server.same_files) {
        return None;
    }
    let mut command = Command::new(format!("/proc/{}/exe", server.pid));
    command.arg("-V").stdin(Stdio::null());
    let said = answer(command, Duration::from_secs(5)).ok()?;
    Some(said.err)
}

fn build_option(said: &str, name: &str) -> Option<String> {
    let value = said
        .split_whitespace()
        .find_map(|word| word.strip_prefix(name));
    value.map(|value| value.trim_matches('\'').to_owned())
}

fn soft_limit(server: &Server) -> Option<u64> {
    let process = procfs::process::Process::new(server.pid).ok()?;
    match process.limits().ok()?.max_open_files.soft_limit {
        procfs::process::LimitValue::Value(limit) => Some(limit),
        procfs::process::LimitValue::Unlimited => None,
    }
}

fn read(
    files: &mut dyn Files,
    path: &Path,
    folder: &Path,
    blocks: &[String],
    into: &mut Vec<Directive>,
) {
    if let Some(text) = files.read(path) {
        parse(files, &text, folder, blocks, into);
    }
}

/// Reads directives; `include` is followed where it stands.
fn parse(
    files: &mut dyn Files,
    text: &str,
    folder: &Path,
    around: &[String],
    into: &mut Vec<Directive>,
) {
    let mut blocks = around.to_vec();
    let mut words: Vec<String> = Vec::new();
    for token in tokens(text) {
        match token {
            Token::Word(word) => words.push(word),
            Token::Open => {
                blocks.push(words.first().cloned().unwrap_or_default());
                words.clear();
            }
            Token::Close => {
                words.clear();
                if blocks.len() > around.len() {
                    blocks.pop();
                }
            }
            Token::End => {
                let words = std::mem::take(&mut words);
                if let [name, pattern] = words.as_slice()
                    && name == "include"
                {
                    let pattern = within(folder, pattern);
                    for path in files.matching(&pattern.to_string_lossy()) {
                        read(files, &path, folder, &blocks, into);
                    }
                } else if !words.is_empty() {
                    let blocks = blocks.clone();
                    into.push(Directive { words, blocks });
                }
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
    End,
}

/// nginx's words: quotes keep what is between them, `#` begins a comment where a word could begin.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            '\\' => word.get_or_insert_default().extend(chars.next()),
            '"' | '\'' if word.is_none() => {
                let mut quoted = String::new();
                while let Some(inner) = chars.next().filter(|inner| *inner != c) {
                    match inner {
                        '\\' => quoted.extend(chars.next()),
                        inner => quoted.push(inner),
                    }
                }
                tokens.push(Token::Word(quoted));
            }
            // ${name} is a part of a word.
            '{' if word.as_ref().is_some_and(|word| word.ends_with('$')) => {
                word.get_or_insert_default().push(c);
                for inner in chars.by_ref() {
                    word.get_or_insert_default().push(inner);
                    if inner == '}' {
                        break;
                    }
                }
            }
            '{' | '}' | ';' => {
                tokens.extend(word.take().map(Token::Word));
                tokens.push(match c {
                    '{' => Token::Open,
                    '}' => Token::Close,
                    _ => Token::End,
                });
            }
            c if c.is_whitespace() => tokens.extend(word.take().map(Token::Word)),
            c => word.get_or_insert_default().push(c),
        }
    }
    tokens
}

/// The last value of a directive that stands in these blocks.
fn value<'d>(directives: &'d [Directive], block: Option<&str>, name: &str) -> Option<&'d str> {
    let here = |d: &&Directive| {
        d.words.first().is_some_and(|word| word == name)
            && d.blocks.last().map(String::as_str) == block
    };
    let last = directives.iter().rfind(here)?;
    last.words.get(1).map(String::as_str)
}

fn judge(directives: &[Directive], cores: u64, soft_limit: Option<u64>, seen: &mut Seen) {
    let number = |block, name| value(directives, block, name)?.parse::<u64>().ok();
    let workers = match value(directives, None, "worker_processes") {
        Some("auto") => cores,
        Some(number) => number.parse().unwrap_or(1),
        None => 1,
    };
    let text = format!("{workers} for {cores} cores that it may use");
    seen.line(WORKERS.line(
        if workers < cores {
            Level::Warning
        } else {
            Level::Ok
        },
        text,
    ));

    let connections = number(Some("events"), "worker_connections").unwrap_or(512);
    let text = format!(
        "{} for each of {workers} workers: {} in all, clients and upstreams together",
        thousands(connections),
        thousands(connections.saturating_mul(workers))
    );
    let level = match connections {
        0..FEW_CONNECTIONS => Level::Warning,
        _ => Level::Ok,
    };
    seen.line(CONNECTIONS.line(level, text));

    let files = number(None, "worker_rlimit_nofile").or(soft_limit);
    if let Some(files) = files {
        let text = format!(
            "{} files for {} connections a worker",
            thousands(files),
            thousands(connections)
        );
        let level = if files < connections {
            Level::Warning
        } else {
            Level::Ok
        };
        seen.line(FILES.line(level, text));
    }
    keepalive(directives, seen);
    throttles(directives, seen);
}

fn keepalive(directives: &[Directive], seen: &mut Seen) {
    let all = |name: &str| -> Vec<&str> {
        let named = directives.iter().filter(|d| {
            // An upstream's keepalive_requests is about the other side.
            d.words.first().is_some_and(|word| word == name)
                && !d.blocks.iter().any(|block| block == "upstream")
        });
        named
            .filter_map(|d| d.words.get(1))
            .map(String::as_str)
            .collect()
    };
    let off = |value: &&str| matches!(*value, "0" | "0s");
    if all("keepalive_timeout").iter().any(off) {
        let text = "keepalive_timeout 0: a new connection for each request";
        return seen.line(REQUESTS.line(Level::Note, text));
    }
    let least = all("keepalive_requests")
        .iter()
        .filter_map(|value| value.parse::<u64>().ok())
        .min();
    let (text, level) = match least {
        Some(n) if n < USUAL_REQUESTS => (
            format!("{} requests a connection", thousands(n)),
            Level::Note,
        ),
        Some(n) => (format!("{} requests a connection", thousands(n)), Level::Ok),
        None => (
            "the default, 1,000 requests a connection (100 before 1.19.10)".to_owned(),
            Level::Ok,
        ),
    };
    seen.line(REQUESTS.line(level, text));
}

fn throttles(directives: &[Directive], seen: &mut Seen) {
    let throttle = |d: &&Directive| match d.words.first().map(String::as_str) {
        Some("limit_req" | "limit_conn") => true,
        Some("limit_rate") => d.words.get(1).is_some_and(|value| value != "0"),
        _ => false,
    };
    let mut found: Vec<String> = directives
        .iter()
        .filter(throttle)
        .map(|d| d.words.join(" "))
        .collect();
    found.sort();
    found.dedup();
    match found.is_empty() {
        true => seen.line(THROTTLE.line(Level::Ok, "none")),
        false => seen.line(THROTTLE.line(Level::Warning, found.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::InMemory;
    use super::*;

    const MAIN: &str = "\
worker_processes 1; # a comment; { }
events { worker_connections 256; }
http {
    log_format x '$a; \"{\" ${b}';
    include conf.d/*.conf;
    keepalive_requests 100;
    upstream u { keepalive_requests 5; }
}";

    fn directives() -> Vec<Directive> {
        let site = "server { listen 80; limit_rate 10k; location / { limit_rate 0; } }";
        let mut files = InMemory(vec![
            ("/etc/nginx/nginx.conf", MAIN),
            ("/etc/nginx/conf.d/a.conf", site),
        ]);
        let mut found = Vec::new();
        let path = Path::new("/etc/nginx/nginx.conf");
        read(&mut files, path, Path::new("/etc/nginx"), &[], &mut found);
        found
    }

    #[test]
    fn directives_are_read_with_their_blocks_and_includes() {
        let found = directives();
        let value = |block, name| value(&found, block, name);
        assert_eq!(value(None, "worker_processes"), Some("1"));
        assert_eq!(value(Some("events"), "worker_connections"), Some("256"));
        assert_eq!(value(Some("http"), "log_format"), Some("x"));
        let listen = found.iter().find(|d| d.words[0] == "listen").unwrap();
        assert_eq!(listen.blocks, ["http", "server"]);
    }

    #[test]
    fn what_caps_a_load_is_named() {
        let mut seen = Seen::default();
        judge(&directives(), 4, Some(128), &mut seen);
        let brief: Vec<_> = seen
            .lines
            .iter()
            .map(|line| (line.id, line.level))
            .collect();
        let expected = [
            ("nginx-worker-processes", Level::Warning),
            ("nginx-worker-connections", Level::Warning),
            ("nginx-rlimit-nofile", Level::Warning),
            ("nginx-keepalive-requests", Level::Note),
            ("nginx-limits", Level::Warning),
        ];
        assert_eq!(brief, expected);
        assert_eq!(seen.lines[4].seen, "limit_rate 10k");
        assert!(
            seen.lines[3].seen.starts_with("100 "),
            "{}",
            seen.lines[3].seen
        );
    }

    #[test]
    fn files_that_include_themselves_end() {
        let text = "include /a/*.conf; worker_processes 3;";
        struct Endless(usize);
        impl Files for Endless {
            fn read(&mut self, _: &Path) -> Option<String> {
                self.0 += 1;
                (self.0 < 50).then(|| "include /a/*.conf;".to_owned())
            }
            fn matching(&self, _: &str) -> Vec<PathBuf> {
                vec!["/a/b.conf".into()]
            }
        }
        let mut found = Vec::new();
        parse(&mut Endless(0), text, Path::new("/"), &[], &mut found);
        assert_eq!(value(&found, None, "worker_processes"), Some("3"));
    }
}
