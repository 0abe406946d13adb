//! Detection of log lines with which a service reports that it reached a configured limit. All
//! functions here are pure.

use prony_record::finding::ServiceLimitKind::*;
use prony_record::finding::{ReachedLimit, ServiceLimit, ServiceLimitKind, Subject};
use prony_record::{Finding, Severity};

/// Maximum length of a quoted line in characters.
const QUOTED_CHARS_MAX: usize = 240;

/// Lowercase texts that identify the log lines of nginx, Apache httpd, HAProxy, PHP-FPM, gunicorn and
/// uWSGI, and system errors that any program may log. The first match applies.
const KNOWN_LINES: [(&str, ServiceLimitKind); 19] = [
    ("worker_connections are not enough", NginxConnections),
    (
        "worker_connections exceed open file resource limit",
        NginxOpenFiles,
    ),
    ("limiting requests, excess", NginxRequestRate),
    ("limiting connections by zone", NginxConnectionZone),
    (
        "no live upstreams while connecting to upstream",
        NginxUpstreams,
    ),
    ("reached maxrequestworkers", ApacheRequestWorkers),
    ("reached maxclients", ApacheClients),
    (
        "scoreboard is full, not at maxrequestworkers",
        ApacheScoreboard,
    ),
    ("reached pm.max_children", PhpFpmChildren),
    ("reached max_children", PhpFpmChildren),
    (
        "reached the configured maximum connection limit",
        HaproxyConnections,
    ),
    ("reached process fd limit", HaproxyOpenFiles),
    ("reached system fd limit", SystemOpenFiles),
    ("uwsgi listen queue of socket", UwsgiListenQueue),
    ("worker timeout (pid", GunicornTimeout),
    ("too many open files", OpenFiles),
    (
        "resource temporarily unavailable) while connecting to upstream",
        UpstreamListenQueue,
    ),
    ("cannot assign requested address", LocalPorts),
    ("cannot allocate memory", Memory),
];

/// Finds the limits that a service reached according to its log, in the order of their first
/// mention.
pub(crate) fn in_log(log: &str) -> Vec<ReachedLimit> {
    let mut found: Vec<ReachedLimit> = Vec::new();
    for line in log.lines() {
        let lower = line.to_ascii_lowercase();
        let Some(&(_, limit)) = KNOWN_LINES.iter().find(|(part, _)| lower.contains(part)) else {
            continue;
        };
        match found.iter_mut().find(|known| known.limit == limit) {
            Some(known) => known.count += 1,
            None => found.push(ReachedLimit {
                limit,
                line: quoted(line),
                count: 1,
            }),
        }
    }
    found
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

/// Returns the `service-limit` findings of a trial. `logs` contains the names and logs of its
/// services.
pub(crate) fn findings<'a>(logs: impl Iterator<Item = (&'a str, String)>) -> Vec<Finding> {
    let of_service = |(service, log): (&str, String)| {
        let limits = in_log(&log);
        let subject = Subject::Service(service.to_owned());
        let finding = |it: ServiceLimit| Finding::about(subject, Severity::Warning, &it);
        (!limits.is_empty()).then(|| finding(ServiceLimit { limits }))
    };
    logs.filter_map(of_service).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_servers_are_known() {
        for (line, limit) in [
            (
                "2026/11/22 20:00:00 [alert] 7#7: 8 worker_connections are not enough",
                NginxConnections,
            ),
            (
                "[Sun Nov 22 20:00:00 2026] [mpm_event:error] [pid 7:tid 8] AH00484: server reached \
                 MaxRequestWorkers setting, consider raising the MaxRequestWorkers setting",
                ApacheRequestWorkers,
            ),
            (
                "[22-Nov-2026 20:00:00] WARNING: [pool www] server reached pm.max_children setting \
                 (2), consider raising it",
                PhpFpmChildren,
            ),
            (
                "Proxy front reached the configured maximum connection limit. Please check the \
                 global 'maxconn' value.",
                HaproxyConnections,
            ),
            (
                "2026/11/22 20:00:00 [crit] 7#7: accept4() failed (24: Too many open files)",
                OpenFiles,
            ),
            (
                "http: Accept error: accept tcp 127.0.0.1:80: accept4: too many open files; retrying",
                OpenFiles,
            ),
        ] {
            let found = in_log(line);
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!((found[0].limit, found[0].count), (limit, 1));
        }
    }

    #[test]
    fn other_lines_are_ignored() {
        let log = "started\nGET /reached HTTP/1.1\nmaxconn is 100\n[notice] 1 worker_connections\n";
        assert_eq!(in_log(log), Vec::new());
        assert_eq!(findings([("web", log.to_owned())].into_iter()), Vec::new());
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
        let logs = [("web", long.repeat(3)), ("app", long)];
        let findings = findings(logs.into_iter());
        let subjects: Vec<&Subject> = findings.iter().map(|it| &it.subject).collect();
        let service = |name: &str| Subject::Service(name.to_owned());
        assert_eq!(subjects, [&service("web"), &service("app")]);
        assert_eq!(findings[0].figures(), Some(ServiceLimit { limits: found }));
    }
}
