//! Parsers for files in Linux's /proc, as pure functions of their text. The text comes from this
//! machine or, over ssh, from another machine. Values that a kernel doesn't report are 0.
//!
//! This module parses data about the machine, and all data that is sampled during a load. The
//! `procfs` crate parses data that is read once per process: memory maps, limits, open files and
//! sockets.

use std::collections::BTreeMap;

use crate::system::process::Process;
use crate::telemetry::IoCounters;
use crate::telemetry::{
    CoreTimes, HostSample, InterfaceCounters, NetworkBytes, TcpCounters, UdpCounters,
};

/// Clock ticks per second in /proc: 100 on all current architectures.
pub(crate) const TICKS_PER_S: f64 = 100.0;

/// Page size in bytes that is assumed for a remote machine.
pub(crate) const REMOTE_PAGE_BYTES: u64 = 4096;

/// Contents of the /proc files of a network namespace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NetFiles<'a> {
    /// Content of `net/snmp`.
    pub(crate) snmp: &'a str,
    /// Content of `net/snmp6`; empty if the kernel has no IPv6.
    pub(crate) snmp6: &'a str,
    /// Content of `net/netstat`.
    pub(crate) netstat: &'a str,
    /// Content of `net/sockstat`.
    pub(crate) sockstat: &'a str,
}

/// Parses the TCP counters of a network namespace.
pub(crate) fn tcp_counters(texts: &NetFiles<'_>) -> TcpCounters {
    let snmp = |name: &str| paired(texts.snmp, "Tcp:", name).unwrap_or(0);
    let extended = |name: &str| paired(texts.netstat, "TcpExt:", name).unwrap_or(0);
    TcpCounters {
        listen_overflows: extended("ListenOverflows"),
        listen_drops: extended("ListenDrops"),
        syn_cookies_sent: extended("SyncookiesSent"),
        connects: snmp("ActiveOpens"),
        segments_sent: snmp("OutSegs"),
        retransmitted_segments: snmp("RetransSegs"),
        resets_sent: snmp("OutRsts"),
        established_resets: snmp("EstabResets"),
        established: snmp("CurrEstab"),
        time_wait: time_wait(texts.sockstat).unwrap_or(0),
    }
}

/// Parses the number of TCP connections in TIME_WAIT from `net/sockstat`.
pub(crate) fn time_wait(sockstat: &str) -> Option<u64> {
    let line = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "tw");
    words.nth(1)?.parse().ok()
}

/// Parses the UDP counters of a network namespace.
pub(crate) fn udp_counters(texts: &NetFiles<'_>) -> UdpCounters {
    let both = |name: &str| {
        let of_version_6 = listed(texts.snmp6, &format!("Udp6{name}"));
        paired(texts.snmp, "Udp:", name).unwrap_or(0) + of_version_6.unwrap_or(0)
    };
    UdpCounters {
        received: both("InDatagrams"),
        sent: both("OutDatagrams"),
        receive_buffer_drops: both("RcvbufErrors"),
        send_buffer_drops: both("SndbufErrors"),
    }
}

/// Parses `net/dev` into interfaces by name.
pub(crate) fn interfaces(dev: &str) -> BTreeMap<String, InterfaceCounters> {
    dev.lines().filter_map(interface).collect()
}

/// Parses a line such as `name: bytes packets errs drop …`, with eight fields for received data and
/// eight for sent data.
fn interface(line: &str) -> Option<(String, InterfaceCounters)> {
    let (name, rest) = line.rsplit_once(':')?;
    let values: Vec<u64> = rest
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let at = |index: usize| values.get(index).copied();
    let interface = InterfaceCounters {
        received: at(0)?,
        packets_received: at(1)?,
        sent: at(8)?,
        packets_sent: at(9)?,
        packets_dropped: at(3)? + at(11)?,
    };
    Some((name.trim().to_owned(), interface))
}

/// Adds up the traffic of all interfaces except the loopback interface. If there is no other
/// interface, or if the network is shared, returns the traffic of the loopback interface.
pub(crate) fn traffic(
    interfaces: &BTreeMap<String, InterfaceCounters>,
    shared: bool,
) -> NetworkBytes {
    let outer = |name: &&String| !shared && name.as_str() != "lo";
    let has_outer = interfaces.keys().any(|name| outer(&name));
    let mut sum = NetworkBytes {
        shared,
        ..NetworkBytes::default()
    };
    for (name, interface) in interfaces {
        if (has_outer && outer(&name)) || (!has_outer && name == "lo") {
            sum.sent += interface.sent;
            sum.received += interface.received;
            sum.packets_sent += interface.packets_sent;
            sum.packets_received += interface.packets_received;
        }
    }
    sum
}

/// Parses the CPU times, cores and context switches from `stat`.
pub(crate) fn machine(stat: &str) -> HostSample {
    let mut host = HostSample::default();
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("cpu") => {
                let all = core_times(words);
                host.cpu_user_s = all.user_s;
                host.cpu_system_s = all.system_s;
                host.cpu_idle_s = all.idle_s;
                host.cpu_irq_s = all.irq_s;
                host.cpu_softirq_s = all.softirq_s;
                host.cpu_steal_s = all.steal_s;
            }
            Some(word) if word.starts_with("cpu") => {
                host.cores += 1;
                if let Ok(core) = word[3..].parse() {
                    host.core_times.insert(core, core_times(words));
                }
            }
            Some("ctxt") => {
                host.context_switches = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }
    host.softirq_included = softirq_included(stat);
    host
}

/// Parses the columns of a `cpu` line of `stat`.
fn core_times<'a>(words: impl Iterator<Item = &'a str>) -> CoreTimes {
    let ticks: Vec<f64> = words.map_while(|word| word.parse().ok()).collect();
    let seconds = |index: usize| ticks.get(index).copied().unwrap_or(0.0) / TICKS_PER_S;
    CoreTimes {
        // The user and nice columns include the guest columns.
        user_s: seconds(0) + seconds(1),
        system_s: seconds(2),
        idle_s: seconds(3) + seconds(4),
        irq_s: seconds(5),
        softirq_s: seconds(6),
        steal_s: seconds(7),
    }
}

/// Detects from `stat` if the CPU time of processes includes the interrupts that occurred while
/// they ran; `None` if `stat` doesn't show this.
///
/// A kernel with interrupt time accounting reads a clock at each hard interrupt, so its `irq`
/// column increases. Other kernels charge each clock tick to the interrupted process, and the `irq`
/// column stays 0. With few interrupts since boot, the two kinds of kernels can't be distinguished.
fn softirq_included(stat: &str) -> Option<bool> {
    /// Minimum number of interrupts for a conclusion. They take at least some tenths of a second,
    /// which is many ticks.
    const INTERRUPTS_MIN: u64 = 100_000;
    let all_cores = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let irq_ticks = all_cores.split_whitespace().nth(5)?;
    let interrupts = number_after(stat, "intr ").unwrap_or(0);
    match irq_ticks.parse::<u64>().ok()? {
        0 if interrupts >= INTERRUPTS_MIN => Some(true),
        0 => None,
        _ => Some(false),
    }
}

/// Like `softirq_included`, but detects this from the kernel's build configuration,
/// `/boot/config-RELEASE`.
pub(crate) fn softirq_included_by_config(config: &str) -> Option<bool> {
    let mut options = config.lines().map(str::trim);
    if options.any(|line| line == "CONFIG_IRQ_TIME_ACCOUNTING=y") {
        return Some(false);
    }
    config.contains("CONFIG_").then_some(true)
}

/// Parses the boot time from `stat`, in seconds of the UNIX epoch.
pub(crate) fn boot_time_s(stat: &str) -> Option<u64> {
    number_after(stat, "btime ")
}

/// Parses the total memory in bytes from `meminfo`.
pub(crate) fn memory_bytes(meminfo: &str) -> u64 {
    number_after(meminfo, "MemTotal:").unwrap_or(0) * 1024
}

/// Parses the available memory in bytes from `meminfo`; `None` if the kernel doesn't report it.
pub(crate) fn memory_available_bytes(meminfo: &str) -> Option<u64> {
    Some(number_after(meminfo, "MemAvailable:")? * 1024)
}

/// Parses the used memory in bytes from `meminfo`.
pub(crate) fn memory_used_bytes(meminfo: &str) -> u64 {
    let available = memory_available_bytes(meminfo).unwrap_or(0);
    memory_bytes(meminfo).saturating_sub(available)
}

/// Parses the number of open files on the whole machine from `sys/fs/file-nr`.
pub(crate) fn open_files(file_nr: &str) -> u64 {
    first_number(file_nr).unwrap_or(0)
}

/// Parses the load average over one minute from `loadavg`.
pub(crate) fn load_average(loadavg: &str) -> f64 {
    let first = loadavg.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Parses the time in nanoseconds that was spent running on a core from `schedstat`.
pub(crate) fn run_ns(schedstat: &str) -> Option<u64> {
    first_number(schedstat)
}

/// Parses the numbers of voluntary and involuntary context switches from a thread's `status`.
pub(crate) fn switches(status: &str) -> (u64, u64) {
    let value = |name: &str| number_after(status, name).unwrap_or(0);
    (
        value("voluntary_ctxt_switches:"),
        value("nonvoluntary_ctxt_switches:"),
    )
}

/// Parses the proportional set size in bytes from `smaps_rollup`.
pub(crate) fn proportional_bytes(smaps_rollup: &str) -> Option<u64> {
    Some(number_after(smaps_rollup, "Pss:")? * 1024)
}

/// Parses the number of read and write calls, and of bytes written to disk, from a process's `io`.
pub(crate) fn io_counters(io: &str) -> Option<IoCounters> {
    let value = |name: &str| number_after(io, name);
    Some(IoCounters {
        calls: value("syscr:")? + value("syscw:")?,
        disk_written_bytes: value("write_bytes:")?,
    })
}

/// Parses the total, user and kernel CPU seconds of a control group (version 2) from `cpu.stat`.
pub(crate) fn cgroup_cpu_s(cpu_stat: &str) -> Option<(f64, f64, f64)> {
    let seconds = |name: &str| {
        let mut lines = cpu_stat.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(key, _)| *key == name)?;
        Some(value.trim().parse::<u64>().ok()? as f64 / 1e6)
    };
    Some((
        seconds("usage_usec")?,
        seconds("user_usec")?,
        seconds("system_usec")?,
    ))
}

/// Parses a process's `stat`. The process name is enclosed in parentheses, and may itself contain
/// parentheses.
pub(crate) fn process(stat: &str, page_bytes: u64) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    // Fields are numbered as in proc(5), where the state is field 3.
    let field = |number: usize| fields.get(number - 3).copied();
    let number = |index: usize| field(index)?.parse::<i64>().ok();
    let seconds = |index: usize| Some(number(index)?.max(0) as f64 / TICKS_PER_S);
    Some(Process {
        pid: pid.trim().parse().ok()?,
        parent: field(4)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        start: field(22)?.parse().ok()?,
        name: name.to_owned(),
        zombie: matches!(field(3)?, "Z" | "X"),
        user_s: seconds(14)?,
        system_s: seconds(15)?,
        reaped_user_s: seconds(16)?,
        reaped_system_s: seconds(17)?,
        threads: number(20)?.max(0).unsigned_abs(),
        resident_bytes: number(24)?.max(0).unsigned_abs() * page_bytes,
        core: number(39).and_then(|core| usize::try_from(core).ok()),
        context_switches: None,
    })
}

/// Parses the inodes of the sockets that listen on a port from `net/tcp` or `net/tcp6`.
pub(crate) fn listeners(tcp: &str, port: u16) -> Vec<u64> {
    const LISTENING: &str = "0A";
    let of_line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, local) = words.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(local, 16).ok()? == port && *words.get(3)? == LISTENING;
        is_it.then(|| words.get(9)?.parse().ok())?
    };
    tcp.lines().filter_map(of_line).collect()
}

/// Returns true if a socket is bound to the port, according to `net/udp` or `net/udp6`.
pub(crate) fn has_udp_port(udp: &str, port: u16) -> bool {
    let of_line = |line: &str| {
        let (_, local) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
        u16::from_str_radix(local, 16).ok()
    };
    udp.lines().any(|line| of_line(line) == Some(port))
}

/// Returns the processes that have one of the given sockets open, according to the output of `ls -l
/// /proc/[0-9]*/fd`. The output has a heading for each folder, followed by its links.
pub(crate) fn holders(listing: &str, inodes: &[u64]) -> Vec<i32> {
    let mut pid = None;
    let mut found = Vec::new();
    for line in listing.lines() {
        if let Some(heading) = line.strip_prefix("/proc/") {
            pid = heading.split('/').next().and_then(|pid| pid.parse().ok());
        } else if let (Some(holder), Some((_, socket))) = (pid, line.rsplit_once("-> socket:[")) {
            let inode = socket.trim_end_matches(']').parse().ok();
            if inode.is_some_and(|inode| inodes.contains(&inode)) && found.last() != Some(&holder) {
                found.push(holder);
            }
        }
    }
    found
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Looks up the number after the prefix in the first line that starts with this prefix.
fn number_after(text: &str, prefix: &str) -> Option<u64> {
    first_number(text.lines().find_map(|line| line.strip_prefix(prefix))?)
}

/// Looks up a value in a file with pairs of lines: a line of names, and a line of values with the
/// same prefix.
pub(crate) fn paired(text: &str, prefix: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = pairs.find(|(candidate, _)| *candidate == name)?;
    value.parse().ok()
}

/// Looks up a value in a file that has one name and one value per line.
fn listed(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = lines.find(|(candidate, _)| *candidate == name)?;
    first_number(value)
}

#[cfg(test)]
mod tests;
