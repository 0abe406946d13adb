//! Checks of nginx: workers, connections, open files, keep-alive and limits.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use prony_record::number;

use super::super::check::{CheckResults, CheckStatus, CheckTopic};
use super::super::process::ServerProcess;
use super::files::{ConfigFiles, ServerConfigFiles, cores, first_of, option, within};
use crate::program_output::run_program;

/// Usual paths of the main configuration file.
const DEFAULT_PATHS: [&str; 4] = [
    "/etc/nginx/nginx.conf",
    "/usr/local/etc/nginx/nginx.conf",
    "/usr/local/nginx/conf/nginx.conf",
    "/usr/local/openresty/nginx/conf/nginx.conf",
];

/// Minimum recommended number of connections per worker. With fewer connections, nginx limits a
/// typical load test.
const CONNECTIONS_MIN: u64 = 1024;
/// Minimum recommended number of requests per connection: the default since nginx 1.19.10.
const REQUESTS_MIN: u64 = 1000;

/// Time limit for `nginx -V`.
const NGINX_TIMEOUT: Duration = Duration::from_secs(5);

const WORKERS: CheckTopic = CheckTopic {
    id: "nginx-worker-processes",
    expected: "a worker for each core",
    why: "a worker uses at most one core",
    change: "worker_processes auto;",
    source: "nginx.org/en/docs/ngx_core_module.html#worker_processes",
};

const CONNECTIONS: CheckTopic = CheckTopic {
    id: "nginx-worker-connections",
    expected: "more than the load's number of connections, including those to upstreams",
    why: "above the limit, nginx closes idle connections or rejects new ones \
        (\"worker_connections are not enough\" in its error log)",
    change: "worker_connections 16384; in events { }",
    source: "nginx.org/en/docs/ngx_core_module.html#worker_connections",
};

const FILES: CheckTopic = CheckTopic {
    id: "nginx-rlimit-nofile",
    expected: "a limit on open files that is at least worker_connections",
    why: "a worker reaches its limit on open files before its limit on connections",
    change: "set worker_rlimit_nofile to twice worker_connections",
    source: "nginx.org/en/docs/ngx_core_module.html#worker_rlimit_nofile",
};

const REQUESTS: CheckTopic = CheckTopic {
    id: "nginx-keepalive-requests",
    expected: "keep-alive, with 1,000 or more requests per connection",
    why: "the server closes a connection after the configured number of requests, and each new \
        connection needs a handshake",
    change: "keepalive_requests 10000; keepalive_timeout 75s;",
    source: "nginx.org/en/docs/http/ngx_http_core_module.html#keepalive_requests",
};

const THROTTLE: CheckTopic = CheckTopic {
    id: "nginx-limits",
    expected: "no limits on requests, connections or rate during a measurement",
    why: "a limit that rejects or delays requests makes the result reflect the configuration, \
        not the server's speed",
    change: "remove limit_req, limit_conn and limit_rate for the measurement",
    source: "nginx.org/en/docs/http/ngx_http_limit_req_module.html",
};

/// A directive with its enclosing blocks, outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NginxDirective {
    words: Vec<String>,
    blocks: Vec<String>,
}

pub(super) fn check_nginx(server: &ServerProcess) -> CheckResults {
    let mut results = CheckResults::default();
    let Some(main) = main_file(server) else {
        results.add_undetermined("nginx's settings", "the configuration file was not found");
        return results;
    };
    let mut files = ServerConfigFiles::new(server);
    let mut directives = Vec::new();
    let folder = main.parent().map(Path::to_owned).unwrap_or_default();
    read_directives(&mut files, &main, &folder, &[], &mut directives);
    // Directives in the option `-g` apply globally.
    if let Some(global) = global_of(server) {
        parse(&mut files, &global, &folder, &[], &mut directives);
    }
    let found_any = !directives.is_empty();
    files.report(&mut results);
    if found_any {
        check_settings(&directives, cores(server), soft_limit(server), &mut results);
    }
    results
}

/// Returns the arguments of the master process, taken from its title.
fn arguments(server: &ServerProcess) -> Vec<String> {
    let all = server.arguments.join(" ");
    let plain = all.strip_prefix("nginx: master process ").unwrap_or(&all);
    plain.split_whitespace().map(str::to_owned).collect()
}

/// Returns the value of `-g`. The value ends at the next option, because the process title contains
/// no quotes.
fn global_of(server: &ServerProcess) -> Option<String> {
    let words = arguments(server);
    let start = words.iter().position(|word| word == "-g")? + 1;
    let rest = words.get(start..)?;
    let end = rest.iter().position(|word| word.starts_with('-'));
    Some(rest[..end.unwrap_or(rest.len())].join(" "))
}

fn main_file(server: &ServerProcess) -> Option<PathBuf> {
    let arguments = arguments(server);
    let built = built_with(server).unwrap_or_default();
    let prefix = option(&arguments, "-p").or_else(|| build_option(&built, "--prefix="));
    let prefix = PathBuf::from(prefix.unwrap_or_else(|| "/".to_owned()));
    if let Some(text) = option(&arguments, "-c") {
        return Some(within(&prefix, &text));
    }
    match build_option(&built, "--conf-path=") {
        Some(path) => Some(within(&prefix, &path)),
        None => first_of(server, &DEFAULT_PATHS),
    }
}

/// Returns the output of `nginx -V`; `None` if the program is not trusted.
fn built_with(server: &ServerProcess) -> Option<String> {
    let program = File::open(format!("/proc/{}/exe", server.pid)).ok()?;
    if !server.files.is_trusted(&program) {
        return None;
    }
    let mut command = Command::new(format!("/proc/{}/exe", server.pid));
    command.arg("-V").stdin(Stdio::null());
    let output = run_program(command, NGINX_TIMEOUT).ok()?;
    Some(output.stderr)
}

/// Returns the value of a build option in the output of `nginx -V`.
fn build_option(output: &str, name: &str) -> Option<String> {
    let value = output
        .split_whitespace()
        .find_map(|word| word.strip_prefix(name));
    value.map(|value| value.trim_matches('\'').to_owned())
}

fn soft_limit(server: &ServerProcess) -> Option<u64> {
    let process = procfs::process::Process::new(server.pid).ok()?;
    match process.limits().ok()?.max_open_files.soft_limit {
        procfs::process::LimitValue::Value(limit) => Some(limit),
        procfs::process::LimitValue::Unlimited => None,
    }
}

fn read_directives(
    files: &mut dyn ConfigFiles,
    path: &Path,
    folder: &Path,
    blocks: &[String],
    into: &mut Vec<NginxDirective>,
) {
    if let Some(text) = files.read(path) {
        parse(files, &text, folder, blocks, into);
    }
}

/// Parses directives. Included files are parsed at the position of their `include`.
fn parse(
    files: &mut dyn ConfigFiles,
    text: &str,
    folder: &Path,
    around: &[String],
    into: &mut Vec<NginxDirective>,
) {
    let mut blocks = around.to_vec();
    let mut words: Vec<String> = Vec::new();
    for token in tokens(text) {
        match token {
            NginxToken::Word(word) => words.push(word),
            NginxToken::Open => {
                blocks.push(words.first().cloned().unwrap_or_default());
                words.clear();
            }
            NginxToken::Close => {
                words.clear();
                if blocks.len() > around.len() {
                    blocks.pop();
                }
            }
            NginxToken::End => {
                let words = std::mem::take(&mut words);
                if let [name, pattern] = words.as_slice()
                    && name == "include"
                {
                    let pattern = within(folder, pattern);
                    for path in files.matching(&pattern.to_string_lossy()) {
                        read_directives(files, &path, folder, &blocks, into);
                    }
                } else if !words.is_empty() {
                    let blocks = blocks.clone();
                    into.push(NginxDirective { words, blocks });
                }
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum NginxToken {
    Word(String),
    Open,
    Close,
    End,
}

/// Splits a configuration into tokens. A quoted string is one word, and `#` at the start of a word
/// begins a comment.
fn tokens(text: &str) -> Vec<NginxToken> {
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
                tokens.push(NginxToken::Word(quoted));
            }
            // The braces of ${name} are part of a word.
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
                tokens.extend(word.take().map(NginxToken::Word));
                tokens.push(match c {
                    '{' => NginxToken::Open,
                    '}' => NginxToken::Close,
                    _ => NginxToken::End,
                });
            }
            c if c.is_whitespace() => tokens.extend(word.take().map(NginxToken::Word)),
            c => word.get_or_insert_default().push(c),
        }
    }
    tokens
}

/// Returns the last value of a directive whose innermost block is `block`.
fn value<'d>(directives: &'d [NginxDirective], block: Option<&str>, name: &str) -> Option<&'d str> {
    let here = |d: &&NginxDirective| {
        d.words.first().is_some_and(|word| word == name)
            && d.blocks.last().map(String::as_str) == block
    };
    let last = directives.iter().rfind(here)?;
    last.words.get(1).map(String::as_str)
}

fn check_settings(
    directives: &[NginxDirective],
    cores: u64,
    soft_limit: Option<u64>,
    results: &mut CheckResults,
) {
    let number = |block, name| value(directives, block, name)?.parse::<u64>().ok();
    let workers = match value(directives, None, "worker_processes") {
        Some("auto") => cores,
        Some(number) => number.parse().unwrap_or(1),
        None => 1,
    };
    let text = format!("{workers} for {cores} usable cores");
    results.add(WORKERS.check(CheckStatus::warning_if(workers < cores), text));

    let connections = number(Some("events"), "worker_connections").unwrap_or(512);
    let text = format!(
        "{} for each of {workers} workers: {} in total, for clients and upstreams together",
        number::count(connections),
        number::count(connections.saturating_mul(workers))
    );
    let status = match connections {
        0..CONNECTIONS_MIN => CheckStatus::Warning,
        _ => CheckStatus::Ok,
    };
    results.add(CONNECTIONS.check(status, text));

    let files = number(None, "worker_rlimit_nofile").or(soft_limit);
    if let Some(files) = files {
        let text = format!(
            "{} files for {} connections per worker",
            number::count(files),
            number::count(connections)
        );
        let status = CheckStatus::warning_if(files < connections);
        results.add(FILES.check(status, text));
    }
    check_keepalive(directives, results);
    check_throttles(directives, results);
}

fn check_keepalive(directives: &[NginxDirective], results: &mut CheckResults) {
    let all = |name: &str| -> Vec<&str> {
        let named = directives.iter().filter(|d| {
            // In an upstream block, keepalive_requests applies to connections to the upstream
            // server.
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
        let text = "keepalive_timeout 0: each request needs a new connection";
        return results.add(REQUESTS.check(CheckStatus::Note, text));
    }
    let least = all("keepalive_requests")
        .iter()
        .filter_map(|value| value.parse::<u64>().ok())
        .min();
    let (text, status) = match least {
        Some(n) if n < REQUESTS_MIN => (
            format!("{} requests per connection", number::count(n)),
            CheckStatus::Note,
        ),
        Some(n) => (
            format!("{} requests per connection", number::count(n)),
            CheckStatus::Ok,
        ),
        None => (
            "the default, 1,000 requests per connection (100 before 1.19.10)".to_owned(),
            CheckStatus::Ok,
        ),
    };
    results.add(REQUESTS.check(status, text));
}

fn check_throttles(directives: &[NginxDirective], results: &mut CheckResults) {
    let throttle = |d: &&NginxDirective| match d.words.first().map(String::as_str) {
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
    results.add(if found.is_empty() {
        THROTTLE.check(CheckStatus::Ok, "none")
    } else {
        THROTTLE.check(CheckStatus::Warning, found.join("; "))
    });
}

#[cfg(test)]
mod tests {
    use super::super::files::InMemoryFiles;
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

    fn directives() -> Vec<NginxDirective> {
        let site = "server { listen 80; limit_rate 10k; location / { limit_rate 0; } }";
        let mut files = InMemoryFiles(vec![
            ("/etc/nginx/nginx.conf", MAIN),
            ("/etc/nginx/conf.d/a.conf", site),
        ]);
        let mut found = Vec::new();
        let path = Path::new("/etc/nginx/nginx.conf");
        read_directives(&mut files, path, Path::new("/etc/nginx"), &[], &mut found);
        found
    }

    #[test]
    fn directives_have_their_blocks_and_includes() {
        let found = directives();
        let value = |block, name| value(&found, block, name);
        assert_eq!(value(None, "worker_processes"), Some("1"));
        assert_eq!(value(Some("events"), "worker_connections"), Some("256"));
        assert_eq!(value(Some("http"), "log_format"), Some("x"));
        let listen = found.iter().find(|d| d.words[0] == "listen").unwrap();
        assert_eq!(listen.blocks, ["http", "server"]);
    }

    #[test]
    fn limits_of_a_load_are_found() {
        let mut results = CheckResults::default();
        check_settings(&directives(), 4, Some(128), &mut results);
        let brief: Vec<_> = results
            .checks
            .iter()
            .map(|check| (check.id, check.status))
            .collect();
        let expected = [
            ("nginx-worker-processes", CheckStatus::Warning),
            ("nginx-worker-connections", CheckStatus::Warning),
            ("nginx-rlimit-nofile", CheckStatus::Warning),
            ("nginx-keepalive-requests", CheckStatus::Note),
            ("nginx-limits", CheckStatus::Warning),
        ];
        assert_eq!(brief, expected);
        assert_eq!(results.checks[4].observed, "limit_rate 10k");
        assert!(
            results.checks[3].observed.starts_with("100 "),
            "{}",
            results.checks[3].observed
        );
    }

    #[test]
    fn recursive_includes_end() {
        let text = "include /a/*.conf; worker_processes 3;";
        struct Endless(usize);
        impl ConfigFiles for Endless {
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
