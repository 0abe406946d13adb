//! Checks the limits of a server's processes: open files and CPU quota.

use procfs::process::{LimitValue, Process};

use prony_load::CpuQuotas;
use prony_record::{Throttling, number};

use super::check::{CheckResults, CheckStatus, CheckTopic};
use super::process::ServerProcess;

/// Minimum recommended limit on open files. With a lower limit, a server can't hold the connections
/// of a typical load test.
const OPEN_FILES_MIN: u64 = 4096;

const FILES: CheckTopic = CheckTopic {
    id: "open-files",
    expected: "a limit well above the server's number of connections (for a proxy, above twice \
        that number)",
    why: "each connection is an open file; at the limit, the server can't accept connections, and \
        reports this only in its error log",
    change: "raise LimitNOFILE= in the server's systemd unit, worker_rlimit_nofile (nginx), \
        ulimit-n (HAProxy), rlimit_files (php-fpm), or ulimit -n before the server starts",
    source: "getrlimit(2), RLIMIT_NOFILE; systemd.exec(5)",
};

const QUOTA: CheckTopic = CheckTopic {
    id: "cpu-quota",
    expected: "no quota, or a quota that the server never reaches",
    why: "a server that has used up its quota is throttled until the next period, for up to 100 \
        ms; this affects response times, but CPU usage doesn't show it",
    change: "raise CPUQuota= in the server's systemd unit, or the CPU limit of the container",
    source: "cpu.max and cpu.stat in the kernel's admin-guide/cgroup-v2; scheduler/sched-bwc for \
        version 1",
};

pub(super) fn check_limits(server: &ServerProcess) -> CheckResults {
    let mut results = CheckResults::default();
    check_open_files(server, &mut results);
    check_quota(server, &mut results);
    results
}

/// Finds the server process that is closest to its limit on open files, and checks its number of
/// open files.
fn check_open_files(server: &ServerProcess, results: &mut CheckResults) {
    let mut nearest: Option<(i32, u64, u64)> = None;
    let mut hidden = 0;
    for pid in &server.family {
        let Ok(process) = Process::new(*pid) else {
            continue;
        };
        let limit = match process
            .limits()
            .map(|limits| limits.max_open_files.soft_limit)
        {
            Ok(LimitValue::Value(limit)) => limit,
            Ok(LimitValue::Unlimited) => u64::MAX,
            Err(_) => {
                hidden += 1;
                continue;
            }
        };
        let Ok(open) = process.fd_count() else {
            hidden += 1;
            check_limit(limit, *pid, results);
            continue;
        };
        let open = open as u64;
        let share = |open: u64, limit: u64| open as f64 / limit.max(1) as f64;
        if nearest.is_none_or(|(_, o, l)| share(open, limit) > share(o, l)) {
            nearest = Some((*pid, open, limit));
        }
    }
    if hidden > 0 {
        let why = "the processes belong to another user (run prony as root or as that user)";
        results.add_undetermined(
            format!("open files in {hidden} of the server's processes"),
            why,
        );
    }
    let Some((pid, open, limit)) = nearest else {
        return;
    };
    let text = match limit {
        u64::MAX => format!(
            "{} open in process {pid}, without a limit",
            number::count(open)
        ),
        limit => format!(
            "{} open of {} in process {pid}",
            number::count(open),
            number::count(limit)
        ),
    };
    results.add(FILES.check(status(open, limit), text));
}

/// Checks the limit on open files of a process whose open files can't be counted.
fn check_limit(limit: u64, pid: i32, results: &mut CheckResults) {
    if status(0, limit) > CheckStatus::Ok {
        let text = format!("a limit of {} in process {pid}", number::count(limit));
        results.add(FILES.check(status(0, limit), text));
    }
}

fn status(open: u64, limit: u64) -> CheckStatus {
    match open as f64 / limit.max(1) as f64 {
        share if share >= 0.95 => CheckStatus::Error,
        share if share >= 0.7 => CheckStatus::Warning,
        _ if limit < OPEN_FILES_MIN => CheckStatus::Note,
        _ => CheckStatus::Ok,
    }
}

/// Checks the CPU quotas of the server's control group and of all its ancestors, because each of
/// them applies.
fn check_quota(server: &ServerProcess, results: &mut CheckResults) {
    if std::fs::read_to_string(format!("/proc/{}/cgroup", server.pid)).is_err() {
        return results.add_undetermined("CPU quota", "the server's control group can't be read");
    }
    quotas(&server.pid.to_string(), &QUOTA, results);
}

/// Checks the CPU quotas of a process, given by its ID or `self`.
pub(super) fn quotas(process: &str, topic: &CheckTopic, results: &mut CheckResults) {
    let quotas = CpuQuotas::of_process(process);
    for group in quotas.groups() {
        let throttling = group.throttling();
        let throttled = throttling.map(|it| it.throttled_periods);
        let text = format!(
            "{} for the control group {}, throttled {} times",
            Throttling::cores_text(group.cores),
            group.name,
            throttled.map_or("an unknown number of".to_owned(), number::count)
        );
        let status = match throttled {
            Some(0) => CheckStatus::Note,
            _ => CheckStatus::Warning,
        };
        results.add(topic.check(status, text));
    }
    if quotas.groups().is_empty() {
        results.add(topic.check(CheckStatus::Ok, "none"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_compared_with_the_limit() {
        assert_eq!(status(10, 1024), CheckStatus::Note);
        assert_eq!(status(10, 65_536), CheckStatus::Ok);
        assert_eq!(status(10, u64::MAX), CheckStatus::Ok);
        assert_eq!(status(50_000, 65_536), CheckStatus::Warning);
        assert_eq!(status(1_024, 1_024), CheckStatus::Error);
    }

    #[test]
    fn this_process_has_a_limit() {
        let own = i32::try_from(std::process::id()).unwrap();
        let results = check_limits(&ServerProcess::of(own).unwrap());
        assert!(
            results.checks.iter().any(|line| line.id == "open-files"),
            "{results:?}"
        );
    }
}
