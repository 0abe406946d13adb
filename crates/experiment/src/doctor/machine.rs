//! This machine as a generator: what bends a measurement, and what caps a load.

use std::path::Path;
use std::time::Instant;

use procfs::{CurrentSI, KernelStats};

use super::line::{Level, Seen, Topic, thousands};
use crate::host::linux::{self, read};
use crate::host::process::Table;

const PORTS: Topic = Topic {
    id: "local-ports",
    expected: "a wide range for loads without keep-alive: 1024 to 65535",
    why: "a connection holds a port for its destination, and 60 s longer in TIME_WAIT on the side \
        that closes first: a load that runs out fails to connect",
    change: "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\", or several source addresses \
        (--source)",
    source: "ip(7), ip_local_port_range",
};

const TIME_WAIT: Topic = Topic {
    id: "time-wait",
    expected: "few against the range of local ports",
    why: "each holds its pair of addresses and ports: new connections between the same two find \
        fewer free ones, and search longer",
    change: "wait a minute, keep connections alive, or use several source addresses",
    source: "tcp(7), tcp_tw_reuse; RFC 9293, section 3.3.2",
};

const FILES: Topic = Topic {
    id: "generator-open-files",
    expected: "a hard limit above the connections of the load; prony raises the soft one itself",
    why: "each connection is an open file",
    change: "ulimit -Hn, LimitNOFILE= of the systemd unit, or /etc/security/limits.conf",
    source: "getrlimit(2), RLIMIT_NOFILE",
};

const SOMAXCONN: Topic = Topic {
    id: "somaxconn",
    expected: "4096 or more, the kernel's default since 5.4",
    why: "it caps the backlog of every server that is started here",
    change: "sysctl -w net.core.somaxconn=4096",
    source: "listen(2)",
};

const GOVERNOR: Topic = Topic {
    id: "cpu-governor",
    expected: "performance",
    why: "a core that changes its frequency with the load makes the first seconds slow, and light \
        loads slower than heavy ones",
    change: "cpupower frequency-set -g performance",
    source: "the kernel's admin-guide/pm/cpufreq",
};

const STEAL: Topic = Topic {
    id: "steal",
    expected: "less than 1% of the cores' time",
    why: "the hypervisor gave that time to other guests: it is missing from the server and from the \
        generator, and nothing in the guest can win it back",
    change: "another time or another machine; more blocks average it out",
    source: "proc_stat(5), steal",
};

const BUSY: Topic = Topic {
    id: "other-load",
    expected: "an idle machine",
    why: "what others use is missing from the server and from the generator",
    change: "stop it for the measurement",
    source: "proc_stat(5)",
};

const CLOCK: Topic = Topic {
    id: "clocksource",
    expected: "one that is read without a system call: tsc, kvm-clock, hyperv_clocksource_tsc_page, \
        arch_sys_counter",
    why: "the generator reads the clock several times a request; hpet and acpi_pm cost a microsecond \
        each time",
    change: "the kernel's parameter clocksource=tsc, if the kernel's log doesn't call it unstable",
    source: "the kernel's timers/timekeeping",
};

const URING: Topic = Topic {
    id: "io-uring",
    expected: "allowed",
    why: "prony's faster way to its sockets; without it the load is driven by readiness (epoll), and \
        a generator's core carries less",
    change: "sysctl -w kernel.io_uring_disabled=0; in a container its seccomp profile decides",
    source: "io_uring_setup(2); kernel.io_uring_disabled in the kernel's admin-guide/sysctl/kernel",
};

const CONNTRACK: Topic = Topic {
    id: "conntrack",
    expected: "no connection tracking in the load's way, or a table with room",
    why: "each connection takes an entry for minutes; when the table is full the kernel drops packets",
    change: "sysctl -w net.netfilter.nf_conntrack_max=1048576, or a NOTRACK rule for the load",
    source: "the kernel's networking/nf_conntrack-sysctl",
};

/// Totals at one moment.
#[derive(Debug)]
pub(super) struct Moment {
    at: Instant,
    table: Table,
    /// Busy, stolen and all time of the cores, in ticks.
    busy: u64,
    steal: u64,
    all: u64,
}

impl Moment {
    pub(super) fn now() -> Option<Moment> {
        let cpu = KernelStats::current().ok()?.total;
        let steal = cpu.steal.unwrap_or(0);
        let idle = cpu.idle + cpu.iowait.unwrap_or(0);
        let busy =
            cpu.user + cpu.nice + cpu.system + cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0);
        Some(Moment {
            at: Instant::now(),
            table: linux::processes(),
            busy,
            steal,
            all: busy + steal + idle,
        })
    }
}

/// What is to be said of this machine; `before` and `after` are the ends of a quiet moment, in which
/// prony itself did nothing. `own` are the processes of the servers that are looked at.
pub(super) fn look(moments: Option<(Moment, Moment)>, own: &[i32]) -> Seen {
    let mut seen = Seen::default();
    ports(&mut seen);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let text = match limit.maximum {
        Some(most) => format!("{} at most", thousands(most)),
        None => "no limit".to_owned(),
    };
    let few = limit.maximum.is_some_and(|most| most < 4096);
    seen.line(FILES.line(if few { Level::Warning } else { Level::Ok }, text));
    number(
        &mut seen,
        "/proc/sys/net/core/somaxconn",
        "somaxconn",
        |n| {
            let level = if n < 4096 { Level::Warning } else { Level::Ok };
            SOMAXCONN.line(level, n.to_string())
        },
    );
    governor(&mut seen);
    match moments {
        Some((before, after)) => share_of_cores(&before, &after, own, &mut seen),
        None => seen.unknown("steal time and other load", "/proc/stat can't be read"),
    }
    clocksource(&mut seen);
    io_uring(&mut seen);
    conntrack(&mut seen);
    seen.extend(super::offload::look());
    seen
}

/// A line about a kernel setting that is one number; without it, that it isn't known.
fn number(seen: &mut Seen, path: &str, name: &str, line: impl Fn(u64) -> super::Line) {
    match read(path).and_then(|text| text.parse().ok()) {
        Some(number) => seen.line(line(number)),
        None => seen.unknown(name, format!("{path} can't be read")),
    }
}

fn ports(seen: &mut Seen) {
    let range = read("/proc/sys/net/ipv4/ip_local_port_range").and_then(|text| range(&text));
    let Some((first, last)) = range else {
        return seen.unknown("range of local ports", "ip_local_port_range can't be read");
    };
    let ports = last.saturating_sub(first) + 1;
    let level = if ports < 28_000 {
        Level::Warning
    } else {
        Level::Ok
    };
    let text = format!(
        "{} ports ({first} to {last}): {} new connections a second to one destination for as long \
         as each waits 60 s",
        thousands(ports),
        ports / 60
    );
    seen.line(PORTS.line(level, text));
    let sockstat = read("/proc/net/sockstat").unwrap_or_default();
    match time_wait(&sockstat) {
        Some(waiting) => {
            let level = match waiting as f64 / ports as f64 {
                share if share > 0.5 => Level::Warning,
                share if share > 0.1 => Level::Note,
                _ => Level::Ok,
            };
            let text = format!("{} now, for {} ports", thousands(waiting), thousands(ports));
            seen.line(TIME_WAIT.line(level, text));
        }
        None => seen.unknown(
            "connections in TIME_WAIT",
            "/proc/net/sockstat can't be read",
        ),
    }
}

fn range(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

fn time_wait(sockstat: &str) -> Option<u64> {
    let line = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "tw");
    words.nth(1)?.parse().ok()
}

fn governor(seen: &mut Seen) {
    let cpus = Path::new("/sys/devices/system/cpu");
    let entries = std::fs::read_dir(cpus).into_iter().flatten().flatten();
    let mut found: Vec<String> = entries
        .filter_map(|cpu| read(cpu.path().join("cpufreq/scaling_governor")))
        .collect();
    found.sort();
    found.dedup();
    match found.as_slice() {
        [] => seen.unknown(
            "CPU frequency governor",
            "the kernel has none here, as in most virtual machines: the host decides",
        ),
        [only] if only == "performance" => seen.line(GOVERNOR.line(Level::Ok, only.clone())),
        several => seen.line(GOVERNOR.line(Level::Warning, several.join(", "))),
    }
}

fn share_of_cores(before: &Moment, after: &Moment, own: &[i32], seen: &mut Seen) {
    let all = after.all.saturating_sub(before.all).max(1) as f64;
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let steal = after.steal.saturating_sub(before.steal) as f64 / all * 100.0;
    let level = match steal {
        s if s >= 5.0 => Level::Warning,
        s if s >= 1.0 => Level::Note,
        _ => Level::Ok,
    };
    seen.line(STEAL.line(level, format!("{steal:.1}% over {seconds:.0} s")));

    let busy = after.busy.saturating_sub(before.busy) as f64 / all * 100.0;
    let level = match busy {
        b if b >= 10.0 => Level::Warning,
        b if b >= 3.0 => Level::Note,
        _ => Level::Ok,
    };
    let busiest = busiest(&before.table, &after.table, own);
    let named = match busiest.is_empty() {
        true => String::new(),
        false => format!("; most by {}", busiest.join(", ")),
    };
    let text = format!("{busy:.0}% of the cores' time in use over {seconds:.0} s{named}");
    seen.line(BUSY.line(level, text));
}

/// The three processes that used most CPU meanwhile, with their share of one core.
fn busiest(before: &Table, after: &Table, own: &[i32]) -> Vec<String> {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let mut used: Vec<(f64, String)> = after
        .all()
        .filter(|process| process.pid != me)
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

fn clocksource(seen: &mut Seen) {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match read(path) {
        Some(name) => {
            let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"];
            let level = match name.as_str() {
                name if slow.contains(&name) => Level::Warning,
                "xen" => Level::Note,
                _ => Level::Ok,
            };
            seen.line(CLOCK.line(level, name));
        }
        None => seen.unknown("clocksource", format!("{path} can't be read")),
    }
}

/// A ring is set up and closed again: sysctls, seccomp and old kernels all show in that.
fn io_uring(seen: &mut Seen) {
    // SAFETY: the kernel writes no more than the 120 bytes of struct io_uring_params; what it gives
    // is an open file, which is closed.
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
        Ok(()) => seen.line(URING.line(Level::Ok, "allowed")),
        Err(error) => seen.line(URING.line(Level::Note, format!("refused: {error}"))),
    }
}

fn conntrack(seen: &mut Seen) {
    let value = |name: &str| -> Option<u64> {
        read(Path::new("/proc/sys/net/netfilter").join(name))?
            .parse()
            .ok()
    };
    match (value("nf_conntrack_count"), value("nf_conntrack_max")) {
        (Some(count), Some(most)) => {
            let text = format!("{} of {} entries", thousands(count), thousands(most));
            let level = match count as f64 / most.max(1) as f64 {
                share if share > 0.8 => Level::Error,
                _ if most < 262_144 => Level::Note,
                _ => Level::Ok,
            };
            seen.line(CONNTRACK.line(level, text));
        }
        _ => seen.line(CONNTRACK.line(Level::Ok, "not loaded")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_files_are_read() {
        assert_eq!(range("32768\t60999"), Some((32_768, 60_999)));
        assert_eq!(range("x"), None);
        let sockstat = "sockets: used 5\nTCP: inuse 1 orphan 0 tw 42 alloc 3 mem 0\n";
        assert_eq!(time_wait(sockstat), Some(42));
    }

    #[test]
    fn every_line_of_this_machine_has_all_its_parts() {
        let moments = Moment::now().zip(Moment::now());
        let seen = look(moments, &[]);
        for id in [
            "local-ports",
            "generator-open-files",
            "steal",
            "io-uring",
            "conntrack",
        ] {
            assert!(seen.lines.iter().any(|line| line.id == id), "{id}");
        }
        for line in seen.lines {
            for part in [&line.seen, &line.expected, &line.change] {
                assert!(!part.is_empty(), "{line:?}");
            }
        }
    }

    #[test]
    fn the_busiest_come_first_and_prony_itself_not_at_all() {
        let process = |pid, user_s| crate::host::process::Process {
            pid,
            user_s,
            name: format!("p{pid}"),
            ..Default::default()
        };
        let me = i32::try_from(std::process::id()).unwrap();
        let before: Table = [process(1, 0.0), process(2, 0.0), process(me, 0.0)]
            .into_iter()
            .collect();
        let after: Table = [process(1, 0.2), process(2, 0.9), process(me, 1.0)]
            .into_iter()
            .collect();
        let expected = ["p2 (process 2, of the server)", "p1 (process 1)"];
        assert_eq!(busiest(&before, &after, &[2]), expected);
    }
}
