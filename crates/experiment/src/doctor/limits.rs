//! What caps a server from outside: open files, cores, a quota of CPU.

use procfs::process::{LimitValue, Process};

use super::line::{Level, Seen, Topic, thousands};
use super::process::Server;

/// The limit of open files below which a server can't hold the connections of a usual load test.
const FEW_FILES: u64 = 4096;

const FILES: Topic = Topic {
    id: "open-files",
    expected: "a limit well above the connections that it is to hold, two for each where it is a \
        proxy",
    why: "each connection is an open file; at the limit the server can't accept, and says so in \
        its error log only",
    change: "LimitNOFILE= in its systemd unit, worker_rlimit_nofile (nginx), ulimit-n (HAProxy), \
        rlimit_files (php-fpm), or ulimit -n before it is started",
    source: "getrlimit(2), RLIMIT_NOFILE; systemd.exec(5)",
};

const QUOTA: Topic = Topic {
    id: "cpu-quota",
    expected: "no quota, or one that it never reaches",
    why: "a server that has used its share is stopped until the next period begins, up to 100 ms: \
        response times show it, its CPU use does not",
    change: "CPUQuota= of its systemd unit, or the container's limit of CPU",
    source: "cpu.max and cpu.stat in the kernel's admin-guide/cgroup-v2",
};

/// What is to be said of a server's limits.
pub(super) fn look(server: &Server) -> Seen {
    let mut seen = Seen::default();
    files(server, &mut seen);
    quota(server, &mut seen);
    seen
}

/// The process of the family that is nearest to its limit.
fn files(server: &Server, seen: &mut Seen) {
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
            seen_limit(limit, *pid, seen);
            continue;
        };
        let open = open as u64;
        let share = |open: u64, limit: u64| open as f64 / limit.max(1) as f64;
        if nearest.is_none_or(|(_, o, l)| share(open, limit) > share(o, l)) {
            nearest = Some((*pid, open, limit));
        }
    }
    if hidden > 0 {
        let why = "another user's; run it as root or as the process's user";
        seen.unknown(format!("open files of {hidden} of its processes"), why);
    }
    let Some((pid, open, limit)) = nearest else {
        return;
    };
    let text = match limit {
        u64::MAX => format!("{} open in process {pid}, without a limit", thousands(open)),
        limit => format!(
            "{} open of {} in process {pid}",
            thousands(open),
            thousands(limit)
        ),
    };
    seen.line(FILES.line(level(open, limit), text));
}

/// What the limit alone says, where the open files can't be counted.
fn seen_limit(limit: u64, pid: i32, seen: &mut Seen) {
    if level(0, limit) > Level::Ok {
        let text = format!("a limit of {} in process {pid}", thousands(limit));
        seen.line(FILES.line(level(0, limit), text));
    }
}

fn level(open: u64, limit: u64) -> Level {
    match open as f64 / limit.max(1) as f64 {
        share if share >= 0.95 => Level::Error,
        share if share >= 0.7 => Level::Warning,
        _ if limit < FEW_FILES => Level::Note,
        _ => Level::Ok,
    }
}

/// The quotas of its control group and of those above it, which bind it, too.
fn quota(server: &Server, seen: &mut Seen) {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{}/cgroup", server.pid)) else {
        return seen.unknown("its quota of CPU", "its control group can't be read");
    };
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
        return seen.unknown(
            "its quota of CPU",
            "only control groups of version 2 are read",
        );
    };
    let mut path = path.trim_start_matches('/').to_owned();
    let mut seen_any = false;
    loop {
        let read = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{path}/{name}"));
        if let Some(cores) = read("cpu.max").ok().and_then(|text| cores(&text)) {
            let throttled = read("cpu.stat").ok().and_then(|text| throttled(&text));
            let text = format!(
                "{cores:.2} cores by the control group /{path}, stopped {} times",
                throttled.map_or("an unknown number of".to_owned(), thousands)
            );
            let level = match throttled {
                Some(0) => Level::Note,
                _ => Level::Warning,
            };
            seen.line(QUOTA.line(level, text));
            seen_any = true;
        }
        match path.rfind('/') {
            Some(end) => path.truncate(end),
            None if path.is_empty() => break,
            None => path.clear(),
        }
    }
    if !seen_any {
        seen.line(QUOTA.line(Level::Ok, "none"));
    }
}

/// The cores that `max 100000` or `50000 100000` allow; `None` without a limit.
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
    fn files_are_judged_by_their_share_of_the_limit() {
        assert_eq!(level(10, 1024), Level::Note);
        assert_eq!(level(10, 65_536), Level::Ok);
        assert_eq!(level(10, u64::MAX), Level::Ok);
        assert_eq!(level(50_000, 65_536), Level::Warning);
        assert_eq!(level(1_024, 1_024), Level::Error);
    }

    #[test]
    fn quotas_are_cores() {
        assert_eq!(cores("50000 100000\n"), Some(0.5));
        assert_eq!(cores("max 100000\n"), None);
        assert_eq!(throttled("nr_periods 5\nnr_throttled 3\n"), Some(3));
    }

    #[test]
    fn this_process_has_a_limit() {
        let own = i32::try_from(std::process::id()).unwrap();
        let seen = look(&Server::of(own).unwrap());
        assert!(
            seen.lines.iter().any(|line| line.id == "open-files"),
            "{seen:?}"
        );
    }
}
