//! Registry rows of the findings about the services and machines of a trial.

use super::Severity::{Error, Note, Warning};
use super::{FindingInfo, FindingScope, WithheldVerdicts};

const BASE: FindingInfo = FindingInfo {
    scope: FindingScope::Trial,
    ..FindingInfo::BASE
};

pub(super) const SERVICE_ENDED: FindingInfo = FindingInfo {
    seen: "A service exited before its load ended.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "Usually, the service crashed, or its command moved it to the background and exited.",
    action: "Read the service's log in the trial's folder; start the service in the foreground.",
    explains_difference: true,
    ..BASE
};

pub(super) const SERVICE_KILLED: FindingInfo = FindingInfo {
    seen: "A service ignored its stop signal for 10 s and was killed.",
    severities: &[(Note, "")],
    meaning: "The figures are not affected, but every trial takes 10 s longer.",
    action: "Set a stop signal that ends the service.",
    ..BASE
};

pub(super) const SERVICE_LIMIT: FindingInfo = FindingInfo {
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

pub(super) const SERVICE_THROTTLED: FindingInfo = FindingInfo {
    seen: "A service used up the CPU quota of its control group (cgroup) and was stopped.",
    severities: &[(Warning, "in at least 1% of the quota's periods")],
    meaning: "The kernel stops all processes of the group until the next period, for up to 100 ms. \
        This lowers the rate and lengthens response times, but the CPU usage doesn't show it. The \
        kernel's counters of the service's group and its ancestors were read during the trial.",
    action: "Raise the quota, unless it is what you are comparing.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

pub(super) const SERVICE_LOG_CUT: FindingInfo = FindingInfo {
    seen: "A service logged more than 1 MiB in a trial.",
    severities: &[(Note, "")],
    meaning: "The stored log keeps the first and the last 512 KiB; a line between them gives the \
        number of missing bytes. Logging that much costs the service time.",
    action: "Make the service log less, unless its logging is what you are comparing.",
    ..BASE
};

pub(super) const CONNECTIONS_LIMITED: FindingInfo = FindingInfo {
    seen: "In a capacity search, requests waited for a free connection while the server was fast.",
    severities: &[(Warning, "")],
    meaning: "At least half of the probes that failed near the capacity failed only because of that \
              wait: their service times, which exclude the wait, meet the goals, and the median \
              service time is at most twice the shortest median of all probes. The connections, \
              not the server, may be the limit, and the capacity may be higher.",
    action: "Use more connections (`--connections`, or `connections` in `[load]`), unless their \
             number is part of what you measure.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

pub(super) const CAPACITY_UNKNOWN: FindingInfo = FindingInfo {
    seen: "A capacity search ended without a capacity.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "The search found only a bound: the goals are met at every rate that could be judged, or \
              at none. Averaging capacities with bounds would be meaningless, so the trial yields no capacity.",
    action: "The text names the cause: raise `max_rate`, give the load more cores, use longer probes \
             (`probe`), or set other goals.",
    ..BASE
};

pub(super) const TELEMETRY_LOST: FindingInfo = FindingInfo {
    seen: "The telemetry of a machine or of a remote service is missing in a trial.",
    severities: &[(Warning, "")],
    meaning: "The telemetry of the machine in `[telemetry] remote` could not be read over ssh, \
        or the `cgroup` or `pid_file` of a `remote` service led to no process. The load's own \
        figures are not affected.",
    action: "Check that `ssh` works without a prompt, and that `cgroup` or `pid_file` names the \
             running service.",
    ..BASE
};

pub(super) const CRYPTO_UNACCELERATED: FindingInfo = FindingInfo {
    seen: "The target's libcrypto does not use the processor's AES instructions.",
    severities: &[
        (
            Note,
            "another variant that uses TLS doesn't have this finding, so the comparison covers it",
        ),
        (Warning, "every variant that uses TLS has it"),
    ],
    meaning: "This is a conclusion from speeds. The load uses TLS, and the service's libcrypto encrypts less than twice as fast as \
        the same library without AES-NI and PCLMULQDQ, although the processor has them. This is \
        measured after a variant's first trial, once for each program, library and environment.",
    action: "Use a build of the library with assembly, and check OPENSSL_ia32cap.",
    explains_difference: true,
    ..BASE
};

pub(super) const NOT_IDLE: FindingInfo = FindingInfo {
    seen: "In an interleaved block, a variant's services used at least 2% of a core in the slices of other variants.",
    severities: &[(Warning, "")],
    meaning: "The services of all variants run at the same time, and each should be idle while \
        another variant is measured. Background work, such as garbage collection, timers or log \
        rotation, took CPU time from the other variants, and is missing from the variant's own \
        figures.",
    action: "Run the experiment with `--interleave off` as well and compare, or pin the services \
        to separate cores (`cores`).",
    explains_difference: true,
    per_variant: true,
    ..BASE
};
