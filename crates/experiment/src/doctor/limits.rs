//! Checks the limits of a server's processes: open files and CPU quota.

use procfs::process::{LimitValue, Process};

use prony_record::number;

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
    source: "cpu.max and cpu.stat in the kernel's admin-guide/cgroup-v2",
};

pub(super) fn check(server: &ServerProcess) -> CheckResults {
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
    let Ok(text) = std::fs::read_to_string(format!("/proc/{}/cgroup", server.pid)) else {
        return results.add_undetermined("CPU quota", "the server's control group can't be read");
    };
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
        return results.add_undetermined(
            "CPU quota",
            "prony reads only the quotas of version 2 control groups",
        );
    };
    let mut path = path.trim_start_matches('/').to_owned();
    let mut found_any = false;
    loop {
        let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{path}/{name}"));
        if let Some(cores) = read("cpu.max").ok().and_then(|text| cores(&text)) {
            let throttled = read("cpu.stat").ok().and_then(|text| throttled(&text));
            let text = format!(
                "{cores:.2} cores for the control group /{path}, throttled {} times",
                throttled.map_or("an unknown number of".to_owned(), number::count)
            );
            let status = match throttled {
                Some(0) => CheckStatus::Note,
                _ => CheckStatus::Warning,
            };
            results.add(QUOTA.check(status, text));
            found_any = true;
        }
        match path.rfind('/') {
            Some(end) => path.truncate(end),
            None if path.is_empty() => break,
            None => path.clear(),
        }
    }
    if !found_any {
        results.add(QUOTA.check(CheckStatus::Ok, "none"));
    }
}

/// Parses a CPU quota as a number of cores: 0.5 for `50000 100000`, `None` for `max 100000`.
fn cores(cpu_max: &str) -> Option<f64> {
    let mut words = cpu_max.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (period > 0.0).then(|| quota / period)
}

fn throttled(cpu_stat: &str) -> Option<u64> {
    let line = cpu_stat
        .lines()
        .find_map(|line| line.strip_prefix("nr_throttled "));
    line?.trim().parse().ok()
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
    fn quotas_are_in_cores() {
        assert_eq!(cores("50000 100000\n"), Some(0.5));
        assert_eq!(cores("max 100000\n"), None);
        assert_eq!(throttled("nr_periods 5\nnr_throttled 3\n"), Some(3));
    }

    #[test]
    fn this_process_has_a_limit() {
        let own = i32::try_from(std::process::id()).unwrap();
        let results = check(&ServerProcess::of(own).unwrap());
        assert!(
            results.checks.iter().any(|line| line.id == "open-files"),
            "{results:?}"
        );
    }
}
