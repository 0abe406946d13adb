//! The finding about limits that a service reached, and its figures.

use serde::{Deserialize, Serialize};

use super::BASE;
use crate::finding::FindingInfo;
use crate::finding::Severity::Warning;
use crate::finding::figures::{Subject, figures};

pub(in crate::finding) const SERVICE_LIMIT: FindingInfo = FindingInfo {
    seen: "A service reached one of its own limits.",
    severities: &[(Warning, "")],
    meaning: "The service logged the limit: nginx (such as `worker_connections are not enough`), \
        Apache httpd (such as `reached MaxRequestWorkers`), HAProxy (maxconn, file descriptors), \
        PHP-FPM (`pm.max_children`), gunicorn (a worker's timeout), uWSGI (its listen queue), or \
        any program (`Too many open files`, no local port, no memory). Or the kernel logged SYN \
        flooding of one of its ports, if /dev/kmsg can be read. The figures describe that limit.",
    action: "Raise the limit, unless it is what you are comparing.",
    explains_difference: true,
    ..BASE
};

/// Declares [`ServiceLimitKind`]: each limit with the hint for the user.
macro_rules! limits {
    ($($(#[$doc:meta])* $limit:ident => $hint:literal,)+) => {
        /// A limit of a service.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ServiceLimitKind {
            $($(#[$doc])* $limit,)+
        }

        impl ServiceLimitKind {
            /// The setting to change, or the meaning of the limit.
            fn hint(self) -> &'static str {
                match self {
                    $(ServiceLimitKind::$limit => $hint,)+
                }
            }
        }
    };
}

limits! {
    /// Connections of an nginx worker.
    NginxConnections => "raise worker_connections in nginx's events block",
    /// Open files of an nginx worker.
    NginxOpenFiles => "raise open_files of the service, or worker_rlimit_nofile",
    /// Rate of requests that nginx accepts.
    NginxRequestRate => "nginx's limit_req refused or delayed requests; raise or remove it",
    /// Connections that nginx accepts.
    NginxConnectionZone => "nginx's limit_conn refused connections; raise or remove it",
    /// Upstream servers that nginx regards as working.
    NginxUpstreams =>
        "nginx has marked all upstream servers as failed; see max_fails and their own logs",
    /// Request workers of Apache httpd.
    ApacheRequestWorkers => "raise MaxRequestWorkers, and ServerLimit with it",
    /// Clients of Apache httpd 2.2.
    ApacheClients => "raise MaxClients, and ServerLimit with it",
    /// Processes of Apache httpd.
    ApacheScoreboard => "raise ServerLimit",
    /// Children of PHP-FPM.
    PhpFpmChildren => "raise pm.max_children",
    /// Connections of HAProxy.
    HaproxyConnections => "raise HAProxy's maxconn",
    /// Open files of HAProxy.
    HaproxyOpenFiles => "raise HAProxy's ulimit-n, or open_files of the service",
    /// Open files of the system.
    SystemOpenFiles => "raise the kernel setting fs.file-max",
    /// Listen queue of uWSGI.
    UwsgiListenQueue => "raise uWSGI's listen, and the kernel setting net.core.somaxconn with it",
    /// Time that a gunicorn worker may take.
    GunicornTimeout =>
        "a gunicorn worker took longer than its timeout and was killed; add workers, or raise \
         --timeout",
    /// Open files of any program.
    OpenFiles => "raise open_files of the service",
    /// Listen queue of an upstream server.
    UpstreamListenQueue =>
        "the upstream's listen queue was full; raise its backlog and net.core.somaxconn",
    /// Local ports.
    LocalPorts =>
        "no local port was free; keep connections open (keepalive), or widen \
         net.ipv4.ip_local_port_range",
    /// Memory.
    Memory => "give the service more memory, or fewer workers",
    /// Listen queue of the service, according to the kernel's log.
    ListenQueue =>
        "raise the service's backlog, net.core.somaxconn and net.ipv4.tcp_max_syn_backlog",
}

/// A limit that a service reached according to a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReachedLimit {
    /// The limit.
    pub limit: ServiceLimitKind,
    /// First log line that reports the limit, without control characters.
    pub line: String,
    /// Number of log lines that report the limit.
    pub count: u64,
}

impl ReachedLimit {
    fn sentence(&self, subject: &Subject) -> String {
        let (line, hint) = (&self.line, self.limit.hint());
        if self.limit == ServiceLimitKind::ListenQueue {
            return format!(
                "The listen queue of {} was full, and the kernel logged: \"{line}\" ({hint}).",
                subject.service("service")
            );
        }
        let more = match self.count {
            1 => String::new(),
            count => format!(", {count} times"),
        };
        format!(
            "{} reached one of its own limits and logged{more}: \"{line}\" ({hint}).",
            subject.service("Service")
        )
    }
}

figures! {
    /// Limits that a service reached.
    ServiceLimit {
        /// The limits, in the order of their first mention.
        limits: Vec<ReachedLimit> = same,
    }
    |it, subject| {
        let sentences = it.limits.iter().map(|limit| limit.sentence(subject));
        let sentences: Vec<String> = sentences.collect();
        let is_of_kernel = |it: &ReachedLimit| it.limit == ServiceLimitKind::ListenQueue;
        let meaning = if it.limits.iter().all(is_of_kernel) { "The result reflects that limit, so raise it unless you want to compare with \
        it in place." } else { "The figures reflect this limit. Raise it, unless the limit itself is what \
        you are comparing." };
        format!("{} {meaning}", sentences.join(" "))
    }
}
