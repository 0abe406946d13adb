//! Parsers for the output of FreeBSD's commands in the C locale, as pure functions. Missing and
//! malformed values are omitted, never guessed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::system::process::{PortHolder, Process};
use crate::telemetry::{HostSample, InterfaceCounters, MemoryKind, ServiceSample, TcpCounters};

/// Parses a line that the script's `ps` prints. With `-S`, the CPU time of a process includes its
/// reaped children.
pub(super) fn process(line: &str) -> Option<Process> {
    let mut words = line.split_whitespace();
    let mut next = || words.next();
    let pid = next()?.parse().ok()?;
    let parent = next()?.parse().ok()?;
    let session = next()?.parse().ok()?;
    let state = next()?;
    let threads = next()?.parse().ok()?;
    let resident_kibibytes: u64 = next()?.parse().ok()?;
    let user_s = cpu_time_s(next()?)?;
    let system_s = cpu_time_s(next()?)?;
    let voluntary: u64 = next()?.parse().ok()?;
    let involuntary: u64 = next()?.parse().ok()?;
    let _weekday = next()?;
    let start = start_mark([next()?, next()?, next()?, next()?])?;
    let name: Vec<&str> = words.collect();
    Some(Process {
        pid,
        parent,
        session,
        start,
        name: name.join(" "),
        zombie: state.starts_with('Z'),
        user_s,
        system_s,
        reaped_user_s: 0.0,
        reaped_system_s: 0.0,
        threads,
        resident_bytes: resident_kibibytes * 1024,
        context_switches: Some((voluntary, involuntary)),
        core: None,
    })
}

/// Converts a time in the format `minutes:seconds.hundredths` to seconds.
fn cpu_time_s(word: &str) -> Option<f64> {
    let (minutes, seconds) = word.split_once(':')?;
    let seconds: f64 = seconds.parse().ok()?;
    Some(60.0 * f64::from(minutes.parse::<u32>().ok()?) + seconds)
}

/// Converts a date such as `Nov 21 21:21:55 2026` to a unique number. A later date has a larger
/// number.
fn start_mark([month, day, time, year]: [&str; 4]) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let month = MONTHS.iter().position(|name| *name == month)? as u64;
    let mut parts = time.split(':').map(str::parse::<u64>);
    let mut next = || parts.next()?.ok();
    let seconds = (next()? * 60 + next()?) * 60 + next()?;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    Some(((year * 12 + month) * 32 + day) * 86_400 + seconds)
}

/// Parses the output of `sysctl -n kern.cp_time`: CPU times in ticks for user, nice, system,
/// interrupt and idle.
pub(super) fn cpu_ticks(text: &str) -> Option<[u64; 5]> {
    let ticks: Vec<u64> = text
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    ticks.try_into().ok()
}

/// Parses a field of a structure that sysctl(8) prints, such as the field `stathz` in `{ hz = 1000,
/// tick = 1000, profhz = 8126, stathz = 127 }`.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    let inside = text.split_once('{')?.1.split_once('}')?.0;
    let pairs = inside.split(',').filter_map(|pair| pair.split_once('='));
    let value = pairs
        .filter(|(key, _)| key.trim() == name)
        .map(|(_, value)| value)
        .next()?;
    value.trim().parse().ok()
}

/// Parses the first number in the output of `sysctl -n vm.loadavg`, such as `{ 0.14 0.23 0.18 }`.
pub(super) fn load_average(text: &str) -> Option<f64> {
    text.trim_start_matches(['{', ' '])
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Parses the output of the script's `sysctl`, with one `name: value` per line.
pub(super) fn machine(text: &str) -> HostSample {
    let value = |name: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(": "));
        pairs
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.trim())
    };
    let number = |name: &str| value(name).and_then(|value| value.parse::<u64>().ok());
    let clock = value("kern.clockrate").unwrap_or_default();
    let ticks_per_s = field(clock, "stathz").unwrap_or(127) as f64;
    let ticks = value("kern.cp_time")
        .and_then(cpu_ticks)
        .unwrap_or_default();
    let [user, nice, system, interrupt, idle] = ticks.map(|ticks| ticks as f64 / ticks_per_s);
    let pages = |name: &str| number(name).unwrap_or(0) * number("hw.pagesize").unwrap_or(4096);
    // Inactive memory counts as available, as on Linux.
    let available = pages("vm.stats.vm.v_free_count") + pages("vm.stats.vm.v_inactive_count");
    HostSample {
        cores: number("hw.ncpu")
            .and_then(|cores| usize::try_from(cores).ok())
            .unwrap_or(0),
        cpu_user_s: user + nice,
        cpu_system_s: system,
        cpu_irq_s: interrupt,
        cpu_idle_s: idle,
        memory_used_bytes: number("hw.physmem").unwrap_or(0).saturating_sub(available),
        context_switches: number("vm.stats.sys.v_swtch").unwrap_or(0),
        open_files: number("kern.openfiles").unwrap_or(0),
        load_average: value("vm.loadavg").and_then(load_average).unwrap_or(0.0),
        ..HostSample::default()
    }
}

/// Adds up the resource usage of a service's processes, including reaped children.
pub(super) fn service(members: &[&Process]) -> ServiceSample {
    let mut sample = ServiceSample {
        memory_kind: MemoryKind::Resident,
        processes: members.len() as u64,
        ..ServiceSample::default()
    };
    for process in members {
        sample.cpu_user_s += process.user_s;
        sample.cpu_system_s += process.system_s;
        sample.memory_bytes += process.resident_bytes;
        sample.threads += process.threads;
        let (voluntary, involuntary) = process.context_switches.unwrap_or_default();
        sample.voluntary_switches += voluntary;
        sample.involuntary_switches += involuntary;
    }
    sample.cpu_s = sample.cpu_user_s + sample.cpu_system_s;
    sample
}

/// Positions of the columns of `netstat -ibn`. They are counted from the end of a line, because the
/// link line of a loopback interface has no address.
struct InterfaceColumns {
    places: [usize; 5],
}

impl InterfaceColumns {
    /// Finds the columns in the heading line; `None` if a column is missing.
    fn read(heading: &str) -> Option<Self> {
        let header: Vec<&str> = heading.split_whitespace().collect();
        let from_end = |name: &str| header.iter().rev().position(|column| *column == name);
        Some(Self {
            places: [
                from_end("Obytes")?,
                from_end("Ibytes")?,
                from_end("Opkts")?,
                from_end("Ipkts")?,
                from_end("Idrop")?,
            ],
        })
    }

    fn of(&self, line: &str) -> Option<InterfaceCounters> {
        let words: Vec<&str> = line.split_whitespace().rev().collect();
        let value = |place: usize| words.get(self.places[place])?.parse::<u64>().ok();
        Some(InterfaceCounters {
            sent: value(0)?,
            received: value(1)?,
            packets_sent: value(2)?,
            packets_received: value(3)?,
            packets_dropped: value(4).unwrap_or(0), // missing on lines of addresses
        })
    }
}

/// Returns the name of the interface if a line of `netstat -ibn` covers a whole interface.
fn link_line(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let name = words.next()?.trim_end_matches('*');
    words.nth(1)?.starts_with("<Link").then_some(name)
}

/// Parses the output of `netstat -ibn` into interfaces by name.
pub(super) fn interfaces(text: &str) -> BTreeMap<String, InterfaceCounters> {
    let mut lines = text.lines();
    let Some(columns) = lines.next().and_then(InterfaceColumns::read) else {
        return BTreeMap::new();
    };
    let of_line = |line: &str| Some((link_line(line)?.to_owned(), columns.of(line)?));
    lines.filter_map(of_line).collect()
}

/// Parses the output of `netstat -s -p tcp`, in which each line is a number followed by a
/// description. A value is 0 if its description differs in this FreeBSD release.
pub(super) fn tcp_counters(text: &str) -> TcpCounters {
    let find = |is_it: &dyn Fn(&str) -> bool| -> Option<u64> {
        let mut lines = text
            .lines()
            .filter_map(|line| line.trim_start().split_once(' '));
        let found = lines.find(|(_, words)| is_it(words));
        found.and_then(|(number, _)| number.parse().ok())
    };
    let count = |what: &str| find(&|words: &str| words.contains(what)).unwrap_or(0);
    let count_between = |begin: &str, end: &str| {
        let is_it = |words: &str| words.starts_with(begin) && words.ends_with(end);
        find(&is_it).unwrap_or(0)
    };
    TcpCounters {
        listen_overflows: count("listen queue overflow"),
        listen_drops: count("listen queue overflow"),
        retransmitted_segments: count_between("data packet", "retransmitted"),
        connects: count("connection request"),
        segments_sent: count_between("packet", "sent"),
        resets_sent: 0,        // reported only as a sum with SYN and FIN
        established_resets: 0, // reported only as a sum with other drops
        syn_cookies_sent: count("cookies sent"),
        established: count("in ESTABLISHED state"),
        time_wait: count("in TIME-WAIT state"),
    }
}

/// Finds the process that listens on an address in the output of `sockstat -4 -6 -l -P tcp`.
pub(super) fn port_holder(text: &str, address: SocketAddr) -> Option<PortHolder> {
    let host = address.ip().to_string();
    let port = address.port().to_string();
    text.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, pid, local) = (*words.get(1)?, words.get(2)?.parse().ok()?, *words.get(5)?);
        let (local_host, local_port) = local.rsplit_once(':')?;
        let is_host = local_host == "*" || local_host == host || address.ip().is_unspecified();
        (is_host && local_port == port).then(|| PortHolder {
            pid,
            name: name.to_owned(),
        })
    })
}

/// Counts the open files in the output of `procstat -f <pid>`. Lines whose descriptor is a word
/// (`text`, `cwd`, `root`) don't count.
pub(super) fn open_files(text: &str) -> u64 {
    let descriptors = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    descriptors
        .filter(|word| word.parse::<u32>().is_ok())
        .count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ps_becomes_a_process() {
        let line = "  812   811   812 Ss    2  9876   1:02.50   0:03.25   120  30 Sat Nov 21 21:21:55 2026 nginx: worker";
        let process = process(line).unwrap();
        assert_eq!(
            (
                process.pid,
                process.parent,
                process.session,
                process.threads
            ),
            (812, 811, 812, 2)
        );
        assert!((process.user_s - 62.5).abs() < 1e-9 && (process.system_s - 3.25).abs() < 1e-9);
        assert_eq!(
            (process.resident_bytes, process.context_switches),
            (9876 * 1024, Some((120, 30)))
        );
        assert_eq!(process.name, "nginx: worker");
        assert!(!process.zombie);
    }

    #[test]
    fn malformed_lines_are_left_out() {
        let good = "1 0 1 Ss 1 9 0:00.00 0:00.00 1 1 Sat Nov 21 21:21:55 2026 init";
        assert!(process(good).is_some());
        let words: Vec<&str> = good.split(' ').collect();
        for cut in 0..words.len() - 1 {
            assert!(process(&words[..cut].join(" ")).is_none(), "{cut} words");
        }
        assert!(process(&good.replace("0:00.00", "0.00")).is_none());
        assert!(process(&good.replace("Nov", "Nox")).is_none());
    }

    #[test]
    fn start_marks_differ_and_are_in_order() {
        let mark = |text: &str| {
            let words: Vec<&str> = text.split(' ').collect();
            start_mark(words.try_into().unwrap()).unwrap()
        };
        let marks = [
            "Jan 31 23:59:59 2026",
            "Feb 1 00:00:00 2026",
            "Feb 1 00:01:00 2026",
            "Dec 31 00:00:00 2026",
            "Jan 1 00:00:00 2027",
        ]
        .map(mark);
        assert!(marks.is_sorted_by(|a, b| a < b), "{marks:?}");
    }

    #[test]
    fn sysctl_values() {
        assert_eq!(
            cpu_ticks("1203 4 560 78 99000\n"),
            Some([1203, 4, 560, 78, 99000])
        );
        assert_eq!(cpu_ticks("1203 4 560"), None);
        let clock = "{ hz = 1000, tick = 1000, profhz = 8126, stathz = 127 }\n";
        assert_eq!(field(clock, "stathz"), Some(127));
        assert_eq!(field(clock, "hz"), Some(1000));
        assert_eq!(field("", "hz"), None);
        assert_eq!(load_average("{ 0.14 0.23 0.18 }\n"), Some(0.14));
    }

    #[test]
    fn a_machine_by_its_sysctls() {
        let text = "kern.cp_time: 1270 127 254 381 12700\n\
            kern.clockrate: { hz = 1000, tick = 1000, profhz = 8126, stathz = 127 }\n\
            vm.loadavg: { 0.14 0.23 0.18 }\nhw.ncpu: 4\nhw.pagesize: 4096\nhw.physmem: 1048576\n\
            vm.stats.vm.v_free_count: 100\nvm.stats.vm.v_inactive_count: 50\n\
            vm.stats.sys.v_swtch: 987654\nkern.openfiles: 321\n";
        let host = machine(text);
        assert_eq!(
            (host.cores, host.context_switches, host.open_files),
            (4, 987_654, 321)
        );
        assert_eq!(host.memory_used_bytes, 1_048_576 - 150 * 4096);
        let near = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}");
        near(host.cpu_user_s, 11.0);
        near(host.cpu_system_s, 2.0);
        near(host.cpu_irq_s, 3.0);
        near(host.cpu_idle_s, 100.0);
        near(host.load_average, 0.14);
        assert_eq!(machine(""), HostSample::default());
    }

    const NETSTAT: &str = "\
Name    Mtu Network       Address              Ipkts Ierrs Idrop     Ibytes    Opkts Oerrs     Obytes  Coll
em0    1500 <Link#1>      08:00:27:9e:1d:7c    51234     0     0   60012345    31200     0    2501234     0
em0       - 10.0.2.0/24   10.0.2.15            51000     -     -   59000000    31000     -    2400000     -
lo0   16384 <Link#2>      lo0                    900     0     0      90001      901     0      90002     0
lo0       - 127.0.0.0/8   127.0.0.1              700     -     -      70001      701     -      70002     -
lo0       - 10.213.0.2/32 10.213.0.2             200     -     -      20001      201     -      20002     -
";

    #[test]
    fn counters_of_interfaces() {
        let all = interfaces(NETSTAT);
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        assert_eq!(names, ["em0", "lo0"]);
        let em0 = all["em0"];
        assert_eq!(
            (em0.packets_sent, em0.packets_received, em0.packets_dropped),
            (31_200, 51_234, 0)
        );
        assert!(interfaces("").is_empty());
        let without_address = NETSTAT.replace("<Link#2>      lo0 ", "<Link#2>          ");
        let lo0 = interfaces(&without_address)["lo0"];
        assert_eq!((lo0.sent, lo0.received), (90_002, 90_001));
    }

    #[test]
    fn tcp_counters_by_their_words() {
        let text = "tcp:\n\t5012 packets sent\n\t\t2001 data packets (300123 bytes)\n\t\t17 data packets (2400 bytes) retransmitted\n\
            \t\t3 data packets unnecessarily retransmitted\n\t40 connection requests\n\t9 listen queue overflows\n\
            syncache:\n\t\t38 syncache entries added\n\t\t5 cookies sent\n\t\t4 cookies received\n\
            TCP connection count by state:\n\t4 connections in ESTABLISHED state\n\t31 connections in TIME-WAIT state\n";
        let counters = tcp_counters(text);
        assert_eq!(
            (counters.retransmitted_segments, counters.listen_overflows),
            (17, 9)
        );
        assert_eq!((counters.established, counters.time_wait), (4, 31));
        assert_eq!(counters.connects, 40);
        assert_eq!(
            (counters.segments_sent, counters.syn_cookies_sent),
            (5012, 5)
        );
        assert_eq!(tcp_counters(""), TcpCounters::default());
    }

    #[test]
    fn the_holder_of_a_port() {
        let text = "USER     COMMAND    PID   FD PROTO  LOCAL ADDRESS         FOREIGN ADDRESS\n\
            root     sshd       790   4  tcp4   *:22                  *:*\n\
            www      nginx      812   6  tcp4   127.0.0.1:8080        *:*\n";
        let holder =
            |address: &str| port_holder(text, address.parse().unwrap()).map(|holder| holder.pid);
        assert_eq!(holder("127.0.0.1:8080"), Some(812));
        assert_eq!(holder("10.0.0.1:22"), Some(790));
        assert_eq!(holder("10.0.0.1:8080"), None);
        assert_eq!(holder("0.0.0.0:8080"), Some(812));
    }

    #[test]
    fn open_files_are_counted() {
        let files = "  PID COMM                FD T V FLAGS    REF  OFFSET PRO NAME\n\
            \x20 812 nginx             text v r r-------   -       - -   /usr/local/sbin/nginx\n\
            \x20 812 nginx              cwd v d r-------   -       - -   /\n\
            \x20 812 nginx                0 v c rw------   3       0 -   /dev/null\n\
            \x20 812 nginx                6 s - rw------   1       0 TCP 127.0.0.1:8080 0.0.0.0:0\n";
        assert_eq!(open_files(files), 2);
    }
}
