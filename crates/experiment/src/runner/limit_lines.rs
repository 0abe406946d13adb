//! Detection of log lines with which a service reports that it reached a configured limit. All
//! functions here are pure.

use prony_record::{Finding, FindingId, Severity};

/// Maximum length of a quoted line in characters.
const QUOTED_CHARS_MAX: usize = 240;

/// A known kind of log line, with a hint for the user.
struct KnownLine {
    /// Lowercase text that identifies the line.
    part: &'static str,
    hint: &'static str,
}

/// Known log lines of nginx, Apache httpd, HAProxy, PHP-FPM, gunicorn and uWSGI, and system errors
/// that any program may log. The first match applies.
const KNOWN_LINES: [KnownLine; 19] = [
    KnownLine {
        part: "worker_connections are not enough",
        hint: "raise worker_connections in nginx's events block",
    },
    KnownLine {
        part: "worker_connections exceed open file resource limit",
        hint: "raise open_files of the service, or worker_rlimit_nofile",
    },
    KnownLine {
        part: "limiting requests, excess",
        hint: "nginx's limit_req refused or delayed requests; raise or remove it",
    },
    KnownLine {
        part: "limiting connections by zone",
        hint: "nginx's limit_conn refused connections; raise or remove it",
    },
    KnownLine {
        part: "no live upstreams while connecting to upstream",
        hint: "nginx has marked all upstream servers as failed; see max_fails and their own logs",
    },
    KnownLine {
        part: "reached maxrequestworkers",
        hint: "raise MaxRequestWorkers, and ServerLimit with it",
    },
    KnownLine {
        part: "reached maxclients",
        hint: "raise MaxClients, and ServerLimit with it",
    },
    KnownLine {
        part: "scoreboard is full, not at maxrequestworkers",
        hint: "raise ServerLimit",
    },
    KnownLine {
        part: "reached pm.max_children",
        hint: "raise pm.max_children",
    },
    KnownLine {
        part: "reached max_children",
        hint: "raise pm.max_children",
    },
    KnownLine {
        part: "reached the configured maximum connection limit",
        hint: "raise HAProxy's maxconn",
    },
    KnownLine {
        part: "reached process fd limit",
        hint: "raise HAProxy's ulimit-n, or open_files of the service",
    },
    KnownLine {
        part: "reached system fd limit",
        hint: "raise the kernel setting fs.file-max",
    },
    KnownLine {
        part: "uwsgi listen queue of socket",
        hint: "raise uWSGI's listen, and the kernel setting net.core.somaxconn with it",
    },
    KnownLine {
        part: "worker timeout (pid",
        hint: "a gunicorn worker took longer than its timeout and was killed; add workers, or \
               raise --timeout",
    },
    KnownLine {
        part: "too many open files",
        hint: "raise open_files of the service",
    },
    KnownLine {
        part: "resource temporarily unavailable) while connecting to upstream",
        hint: "the upstream's listen queue was full; raise its backlog and net.core.somaxconn",
    },
    KnownLine {
        part: "cannot assign requested address",
        hint: "no local port was free; keep connections open (keepalive), or widen \
               net.ipv4.ip_local_port_range",
    },
    KnownLine {
        part: "cannot allocate memory",
        hint: "give the service more memory, or fewer workers",
    },
];

/// A limit that a service reached according to its log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitLine {
    /// First log line that reports the limit.
    line: String,
    /// Number of log lines that report the limit.
    count: usize,
    hint: &'static str,
}

/// Finds the limits that a service reached according to its log, in the order of their first
/// mention.
pub(crate) fn in_log(log: &str) -> Vec<LimitLine> {
    let mut found: Vec<(usize, LimitLine)> = Vec::new();
    for line in log.lines() {
        let lower = line.to_ascii_lowercase();
        let Some(kind) = KNOWN_LINES.iter().position(|it| lower.contains(it.part)) else {
            continue;
        };
        match found.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, limit)) => limit.count += 1,
            None => {
                let limit = LimitLine {
                    line: quoted(line),
                    count: 1,
                    hint: KNOWN_LINES[kind].hint,
                };
                found.push((kind, limit));
            }
        }
    }
    found.into_iter().map(|(_, limit)| limit).collect()
}

/// Removes control characters from a line and truncates it.
fn quoted(line: &str) -> String {
    let plain = line.trim().chars().filter(|char| !char.is_control());
    let mut plain = plain.peekable();
    let mut text: String = plain.by_ref().take(QUOTED_CHARS_MAX).collect();
    if plain.peek().is_some() {
        text.push('…');
    }
    text
}

/// Returns the `service-limit` finding for a trial. `logs` contains the names and logs of its
/// services.
pub(crate) fn finding<'a>(logs: impl Iterator<Item = (&'a str, String)>) -> Option<Finding> {
    let mut sentences = Vec::new();
    for (service, log) in logs {
        for limit in in_log(&log) {
            let more = match limit.count {
                1 => String::new(),
                count => format!(", {count} times"),
            };
            sentences.push(format!(
                "Service \"{service}\" reached one of its own limits and logged{more}: \"{}\" ({}).",
                limit.line, limit.hint
            ));
        }
    }
    let meaning = "The figures reflect this limit. Raise it, unless the limit itself is what you are comparing.";
    (!sentences.is_empty()).then(|| {
        let text = format!("{} {meaning}", sentences.join(" "));
        Finding::new(FindingId::ServiceLimit, Severity::Warning, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_servers_are_known() {
        for (line, hint) in [
            (
                "2026/11/22 20:00:00 [alert] 7#7: 8 worker_connections are not enough",
                "raise worker_connections in nginx's events block",
            ),
            (
                "[Sun Nov 22 20:00:00 2026] [mpm_event:error] [pid 7:tid 8] AH00484: server reached \
                 MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
                "raise MaxRequestWorkers, and ServerLimit with it",
            ),
            (
                "[22-Nov-2026 20:00:00] WARNING: [pool www] server reached pm.max_children setting \
                 (2), consider raising it",
                "raise pm.max_children",
            ),
            (
                "Proxy front reached the configured maximum connection limit. Please check the \
                 global 'maxconn' value.",
                "raise HAProxy's maxconn",
            ),
            (
                "2026/11/22 20:00:00 [crit] 7#7: accept4() failed (24: Too many open files)",
                "raise open_files of the service",
            ),
            (
                "http: Accept error: accept tcp 127.0.0.1:80: accept4: too many open files; retrying",
                "raise open_files of the service",
            ),
        ] {
            let found = in_log(line);
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!((found[0].hint, found[0].count), (hint, 1));
        }
    }

    #[test]
    fn other_lines_are_ignored() {
        let log = "started\nGET /reached HTTP/1.1\nmaxconn is 100\n[notice] 1 worker_connections\n";
        assert_eq!(in_log(log), Vec::new());
        assert_eq!(finding([("web", log.to_owned())].into_iter()), None);
    }

    #[test]
    fn a_line_is_quoted_once_with_its_number_and_without_control_characters() {
        let long = format!("\u{1b}[31mtoo many open files {}\n", "x".repeat(1000));
        let found = in_log(&long.repeat(3));
        assert_eq!((found.len(), found[0].count), (1, 3));
        assert!(
            found[0].line.starts_with("[31mtoo many"),
            "{}",
            found[0].line
        );
        assert_eq!(found[0].line.chars().count(), QUOTED_CHARS_MAX + 1);
        let finding = finding([("web", long.repeat(3))].into_iter()).unwrap();
        let text = &finding.text;
        assert!(text.contains("Service \"web\""), "{text}");
        assert!(text.contains("logged, 3 times: \""), "{text}");
    }
}
