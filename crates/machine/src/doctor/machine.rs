//! Checks of this machine as a load generator: properties that can distort a measurement or limit a
//! load.

use std::path::Path;
use std::time::Instant;

use prony_record::number;

use super::check::{CheckResults, CheckStatus, CheckTopic, DoctorCheck};
use crate::system::linux::{self, read_small_file};
use crate::system::proc_files;
use crate::system::process::ProcessTable;

const PORTS: CheckTopic = CheckTopic {
    id: "local-ports",
    expected: "a wide range for loads without keep-alive: 1024 to 65535",
    why: "each connection uses a local port, and the side that closes first keeps the port in \
        TIME_WAIT for 60 s; a load that runs out of ports can't connect",
    change: "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\", or use several source \
        addresses (--source)",
    source: "ip(7), ip_local_port_range",
};

const TIME_WAIT: CheckTopic = CheckTopic {
    id: "time-wait",
    expected: "far fewer than the number of local ports",
    why: "each connection in TIME_WAIT occupies a local port, so new connections between the same \
        two hosts have fewer free ports and take longer to find one",
    change: "wait a minute, use keep-alive, or use several source addresses",
    source: "tcp(7), tcp_tw_reuse; RFC 9293, section 3.3.2",
};

const FILES: CheckTopic = CheckTopic {
    id: "generator-open-files",
    expected: "a hard limit above the load's number of connections; prony raises the soft \
        limit itself",
    why: "each connection is an open file",
    change: "raise ulimit -Hn, LimitNOFILE= of the systemd unit, or the limit in \
        /etc/security/limits.conf",
    source: "getrlimit(2), RLIMIT_NOFILE",
};

const SOMAXCONN: CheckTopic = CheckTopic {
    id: "somaxconn",
    expected: "4096 or more, the kernel's default since 5.4",
    why: "this value limits the backlog of every server on this machine",
    change: "sysctl -w net.core.somaxconn=4096",
    source: "listen(2)",
};

const GOVERNOR: CheckTopic = CheckTopic {
    id: "cpu-governor",
    expected: "performance",
    why: "with a governor that adapts the frequency to the load, cores are slow in the first \
        seconds, and slower under light loads than under heavy ones",
    change: "cpupower frequency-set -g performance",
    source: "the kernel's admin-guide/pm/cpufreq",
};

const QUOTA: CheckTopic = CheckTopic {
    id: "generator-cpu-quota",
    expected: "no quota, or a quota that the load never reaches",
    why: "a generator that has used up the quota of its control group is stopped until the next \
        period, for up to 100 ms, and so is every server in the same group",
    change: "raise the CPU limit of the container or systemd unit, or run the load outside of it",
    source: "cpu.max and cpu.stat in the kernel's admin-guide/cgroup-v2; scheduler/sched-bwc for \
        version 1",
};

const STEAL: CheckTopic = CheckTopic {
    id: "steal",
    expected: "less than 1% of the cores' time",
    why: "the hypervisor gave this time to other guests, so the server and the generator lack it; \
        nothing in this guest can change that",
    change: "measure at another time or on another machine, or use more blocks to average out the \
        disturbance",
    source: "proc_stat(5), steal",
};

const BUSY: CheckTopic = CheckTopic {
    id: "other-load",
    expected: "an idle machine",
    why: "CPU time that other processes use is not available to the server and the generator",
    change: "stop those processes for the measurement",
    source: "proc_stat(5)",
};

const CLOCK: CheckTopic = CheckTopic {
    id: "clocksource",
    expected: "a clock that can be read without a system call: tsc, kvm-clock, \
        hyperv_clocksource_tsc_page or arch_sys_counter",
    why: "the generator reads the clock several times per request; with hpet and acpi_pm, each \
        reading takes a microsecond",
    change: "boot with the kernel parameter clocksource=tsc, unless the kernel log reports the TSC \
        as unstable",
    source: "the kernel's timers/timekeeping",
};

const URING: CheckTopic = CheckTopic {
    id: "io-uring",
    expected: "allowed",
    why: "io_uring is prony's faster socket backend; without it prony uses epoll, and each core \
        generates less load",
    change: "sysctl -w kernel.io_uring_disabled=0; in a container, also allow it in the seccomp \
        profile",
    source: "io_uring_setup(2); kernel.io_uring_disabled in the kernel's admin-guide/sysctl/kernel",
};

const CONNTRACK: CheckTopic = CheckTopic {
    id: "conntrack",
    expected: "no connection tracking for the load, or a table with enough free entries",
    why: "each connection uses an entry for minutes; when the table is full, the kernel drops packets",
    change: "sysctl -w net.netfilter.nf_conntrack_max=1048576, or a NOTRACK rule for the load",
    source: "the kernel's networking/nf_conntrack-sysctl",
};

/// Processes and CPU totals at one point in time.
#[derive(Debug)]
pub(super) struct CpuSnapshot {
    at: Instant,
    table: ProcessTable,
    /// Busy time of all cores since boot, in seconds.
    busy_s: f64,
    /// Stolen time of all cores since boot, in seconds.
    steal_s: f64,
    /// Total time of all cores since boot, in seconds.
    all_s: f64,
}

impl CpuSnapshot {
    pub(super) fn now() -> Option<CpuSnapshot> {
        let cpu = proc_files::machine(&read_small_file("/proc/stat")?);
        let busy_s = cpu.cpu_user_s + cpu.cpu_system_s + cpu.cpu_irq_s + cpu.cpu_softirq_s;
        Some(CpuSnapshot {
            at: Instant::now(),
            table: linux::processes(),
            busy_s,
            steal_s: cpu.cpu_steal_s,
            all_s: busy_s + cpu.cpu_steal_s + cpu.cpu_idle_s,
        })
    }
}

/// Checks this machine. The snapshots are from the start and the end of a period during which prony
/// was idle. `own` lists the processes of the examined servers.
pub(super) fn check_machine(
    snapshots: Option<(CpuSnapshot, CpuSnapshot)>,
    own: &[i32],
) -> CheckResults {
    let mut results = CheckResults::default();
    check_ports(&mut results);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let text = match limit.maximum {
        Some(maximum) => format!("at most {}", number::count(maximum)),
        None => "no limit".to_owned(),
    };
    let few = limit.maximum.is_some_and(|maximum| maximum < 4096);
    results.add(FILES.check(CheckStatus::warning_if(few), text));
    check_number(
        &mut results,
        "/proc/sys/net/core/somaxconn",
        "somaxconn",
        |n| {
            let status = CheckStatus::warning_if(n < 4096);
            SOMAXCONN.check(status, n.to_string())
        },
    );
    check_governor(&mut results);
    super::limits::quotas("self", &QUOTA, &mut results);
    match snapshots {
        Some((before, after)) => check_cpu_shares(&before, &after, own, &mut results),
        None => results.add_undetermined("steal time and other load", "/proc/stat can't be read"),
    }
    check_clocksource(&mut results);
    check_io_uring(&mut results);
    check_conntrack(&mut results);
    results.extend(super::offload::check_offloads());
    results
}

/// Checks a kernel setting that is a single number.
fn check_number(
    results: &mut CheckResults,
    path: &str,
    name: &str,
    check: impl Fn(u64) -> DoctorCheck,
) {
    match read_small_file(path).and_then(|text| text.parse().ok()) {
        Some(number) => results.add(check(number)),
        None => results.add_undetermined(name, format!("{path} can't be read")),
    }
}

fn check_ports(results: &mut CheckResults) {
    let range =
        read_small_file("/proc/sys/net/ipv4/ip_local_port_range").and_then(|text| range(&text));
    let Some((first, last)) = range else {
        return results.add_undetermined("local port range", "ip_local_port_range can't be read");
    };
    let ports = last.saturating_sub(first) + 1;
    let status = CheckStatus::warning_if(ports < 28_000);
    let text = format!(
        "{} ports ({first} to {last}), enough for {} new connections per second to one destination \
         if each stays in TIME_WAIT for 60 s",
        number::count(ports),
        ports / 60
    );
    results.add(PORTS.check(status, text));
    match read_small_file("/proc/net/sockstat").and_then(|text| proc_files::time_wait(&text)) {
        Some(waiting) => {
            let status = match waiting as f64 / ports as f64 {
                share if share > 0.5 => CheckStatus::Warning,
                share if share > 0.1 => CheckStatus::Note,
                _ => CheckStatus::Ok,
            };
            let text = format!(
                "{} connections, for {} local ports",
                number::count(waiting),
                number::count(ports)
            );
            results.add(TIME_WAIT.check(status, text));
        }
        None => results.add_undetermined(
            "connections in TIME_WAIT",
            "/proc/net/sockstat can't be read",
        ),
    }
}

fn range(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

fn check_governor(results: &mut CheckResults) {
    let cpus = Path::new("/sys/devices/system/cpu");
    let entries = std::fs::read_dir(cpus).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .filter_map(|cpu| read_small_file(cpu.path().join("cpufreq/scaling_governor")))
        .collect();
    found.sort();
    found.dedup();
    match found.as_slice() {
        [] => results.add_undetermined(
            "CPU frequency governor",
            "this kernel has no frequency governor; in most virtual machines, the host controls \
             the frequency",
        ),
        [only] if only == "performance" => {
            results.add(GOVERNOR.check(CheckStatus::Ok, only.clone()))
        }
        several => results.add(GOVERNOR.check(CheckStatus::Warning, several.join(", "))),
    }
}

fn check_cpu_shares(
    before: &CpuSnapshot,
    after: &CpuSnapshot,
    own: &[i32],
    results: &mut CheckResults,
) {
    let all_s = (after.all_s - before.all_s).max(1.0 / proc_files::TICKS_PER_S);
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let steal = (after.steal_s - before.steal_s).max(0.0) / all_s * 100.0;
    let status = match steal {
        s if s >= 5.0 => CheckStatus::Warning,
        s if s >= 1.0 => CheckStatus::Note,
        _ => CheckStatus::Ok,
    };
    results.add(STEAL.check(status, format!("{steal:.1}% over {seconds:.0} s")));

    let busy = (after.busy_s - before.busy_s).max(0.0) / all_s * 100.0;
    let status = match busy {
        b if b >= 10.0 => CheckStatus::Warning,
        b if b >= 3.0 => CheckStatus::Note,
        _ => CheckStatus::Ok,
    };
    let busiest = busiest(&before.table, &after.table, own);
    let named = if busiest.is_empty() {
        String::new()
    } else {
        format!("; most by {}", busiest.join(", "))
    };
    let text = format!("{busy:.0}% of the cores' time in use over {seconds:.0} s{named}");
    results.add(BUSY.check(status, text));
}

/// Describes the three processes that used the most CPU time between two snapshots. Ignores prony
/// and processes that started between the snapshots.
fn busiest(before: &ProcessTable, after: &ProcessTable, own: &[i32]) -> Vec<String> {
    let own_pid = i32::try_from(std::process::id()).unwrap_or(0);
    let mut used: Vec<(f64, String)> = after
        .all()
        .filter(|process| process.pid != own_pid)
        .filter_map(|process| {
            let earlier = before
                .get(process.pid)
                .filter(|p| p.start == process.start)?;
            let used_s = process.user_s + process.system_s - earlier.user_s - earlier.system_s;
            let mark = if own.contains(&process.pid) {
                ", of the server"
            } else {
                ""
            };
            let name = format!("{} (process {}{mark})", process.name, process.pid);
            (used_s > 0.01).then_some((used_s, name))
        })
        .collect();
    used.sort_by(|a, b| b.0.total_cmp(&a.0));
    used.into_iter().take(3).map(|(_, name)| name).collect()
}

fn check_clocksource(results: &mut CheckResults) {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match read_small_file(path) {
        Some(name) => {
            let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];
            let status = match name.as_str() {
                name if slow.contains(&name) => CheckStatus::Warning,
                "xen" => CheckStatus::Note,
                _ => CheckStatus::Ok,
            };
            results.add(CLOCK.check(status, name));
        }
        None => results.add_undetermined("clocksource", format!("{path} can't be read")),
    }
}

/// Checks io_uring by creating a ring, because sysctls, seccomp filters and old kernels can all
/// prevent it.
fn check_io_uring(results: &mut CheckResults) {
    // SAFETY: the kernel writes at most the 120 bytes of struct io_uring_params and returns a new
    // descriptor, which is closed below.
    let result = unsafe {
        let mut parameters = [0u8; 120];
        let file = libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr());
        if file >= 0 {
            libc::close(file as i32);
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    match result {
        Ok(()) => results.add(URING.check(CheckStatus::Ok, "allowed")),
        Err(error) => results.add(URING.check(CheckStatus::Note, format!("refused: {error}"))),
    }
}

fn check_conntrack(results: &mut CheckResults) {
    let value = |name: &str| -> Option<u64> {
        read_small_file(Path::new("/proc/sys/net/netfilter").join(name))?
            .parse()
            .ok()
    };
    match (value("nf_conntrack_count"), value("nf_conntrack_max")) {
        (Some(count), Some(most)) => {
            let text = format!(
                "{} of {} entries",
                number::count(count),
                number::count(most)
            );
            let status = match count as f64 / most.max(1) as f64 {
                share if share > 0.8 => CheckStatus::Error,
                _ if most < 262_144 => CheckStatus::Note,
                _ => CheckStatus::Ok,
            };
            results.add(CONNTRACK.check(status, text));
        }
        _ => results.add(CONNTRACK.check(CheckStatus::Ok, "not loaded")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges_are_parsed() {
        assert_eq!(range("32768\t60999"), Some((32_768, 60_999)));
        assert_eq!(range("x"), None);
    }

    #[test]
    fn every_check_of_this_machine_is_complete() {
        let snapshots = CpuSnapshot::now().zip(CpuSnapshot::now());
        let results = check_machine(snapshots, &[]);
        for id in [
            "local-ports",
            "generator-open-files",
            "steal",
            "io-uring",
            "conntrack",
        ] {
            assert!(results.checks.iter().any(|line| line.id == id), "{id}");
        }
        for line in results.checks {
            for part in [&line.observed, &line.expected, &line.change] {
                assert!(!part.is_empty(), "{line:?}");
            }
        }
    }

    #[test]
    fn the_busiest_come_first_without_prony_itself() {
        let process = |pid, user_s| crate::system::process::Process {
            pid,
            user_s,
            name: format!("p{pid}"),
            ..Default::default()
        };
        let own_pid = i32::try_from(std::process::id()).unwrap();
        let before: ProcessTable = [process(1, 0.0), process(2, 0.0), process(own_pid, 0.0)]
            .into_iter()
            .collect();
        let after: ProcessTable = [process(1, 0.2), process(2, 0.9), process(own_pid, 1.0)]
            .into_iter()
            .collect();
        let expected = ["p2 (process 2, of the server)", "p1 (process 1)"];
        assert_eq!(busiest(&before, &after, &[2]), expected);
    }
}
