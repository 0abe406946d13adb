//! Parsers for the output of FreeBSD's commands in the C locale, as pure functions. Missing and
//! malformed values are omitted, never guessed.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::system::process::{PortHolder, Process};
use crate::telemetry::{
    HostSample, InterfaceCounters, MemoryKind, NetworkBytes, ServiceSample, TcpCounters,
};

/// Arguments of ps(1) that produce the input of [`process`]. With `-S`, the CPU time of a process
/// includes its reaped children.
pub const PS_ARGUMENTS: [&str; 27] = [
    "-S",
    "-axww",
    "-o",
    "pid=",
    "-o",
    "ppid=",
    "-o",
    "sid=",
    "-o",
    "state=",
    "-o",
    "nlwp=",
    "-o",
    "rss=",
    "-o",
    "usertime=",
    "-o",
    "systime=",
    "-o",
    "nvcsw=",
    "-o",
    "nivcsw=",
    "-o",
    "lstart=",
    "-o",
    "comm=",
    "-c",
];

/// Parses a line that `ps` prints with the arguments [`PS_ARGUMENTS`].
#[must_use]
pub fn process(line: &str) -> Option<Process> {
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
#[must_use]
pub fn cpu_ticks(text: &str) -> Option<[u64; 5]> {
    let ticks: Vec<u64> = text
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    ticks.try_into().ok()
}

/// Parses a field of a structure that sysctl(8) prints, such as the field `stathz` in `{ hz = 1000,
/// tick = 1000, profhz = 8126, stathz = 127 }`.
#[must_use]
pub fn field(text: &str, name: &str) -> Option<u64> {
    let inside = text.split_once('{')?.1.split_once('}')?.0;
    let pairs = inside.split(',').filter_map(|pair| pair.split_once('='));
    let value = pairs
        .filter(|(key, _)| key.trim() == name)
        .map(|(_, value)| value)
        .next()?;
    value.trim().parse().ok()
}

/// Parses the first number in the output of `sysctl -n vm.loadavg`, such as `{ 0.14 0.23 0.18 }`.
#[must_use]
pub fn load_average(text: &str) -> Option<f64> {
    text.trim_start_matches(['{', ' '])
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Names of the sysctls that [`machine`] parses.
pub const MACHINE_SYSCTLS: [&str; 10] = [
    "kern.cp_time",
    "kern.clockrate",
    "vm.loadavg",
    "hw.ncpu",
    "hw.pagesize",
    "hw.physmem",
    "vm.stats.vm.v_free_count",
    "vm.stats.vm.v_inactive_count",
    "vm.stats.sys.v_swtch",
    "kern.openfiles",
];

/// Parses the output of `sysctl` for [`MACHINE_SYSCTLS`], with one `name: value` per line.
#[must_use]
pub fn machine(text: &str) -> HostSample {
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
#[must_use]
pub fn service(members: &[&Process]) -> ServiceSample {
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
#[must_use]
pub fn interfaces(text: &str) -> BTreeMap<String, InterfaceCounters> {
    let mut lines = text.lines();
    let Some(columns) = lines.next().and_then(InterfaceColumns::read) else {
        return BTreeMap::new();
    };
    let of_line = |line: &str| Some((link_line(line)?.to_owned(), columns.of(line)?));
    lines.filter_map(of_line).collect()
}

/// Parses the traffic of an address (such as `10.213.0.2`) or of a whole interface (its `<Link#…>`
/// line) from the output of `netstat -ibn`.
#[must_use]
pub fn network_bytes(
    text: &str,
    interface: &str,
    address: Option<Ipv4Addr>,
) -> Option<NetworkBytes> {
    let mut lines = text.lines();
    let columns = InterfaceColumns::read(lines.next()?)?;
    let address = address.map(|address| address.to_string());
    let line = lines.find(|line| match &address {
        None => link_line(line) == Some(interface),
        Some(address) => {
            let words: Vec<&str> = line.split_whitespace().collect();
            let name = words.first().map(|name| name.trim_end_matches('*'));
            name == Some(interface) && words.get(3) == Some(&address.as_str())
        }
    })?;
    let found = columns.of(line)?;
    Some(NetworkBytes {
        sent: found.sent,
        received: found.received,
        packets_sent: found.packets_sent,
        packets_received: found.packets_received,
        shared: address.is_none(),
    })
}

/// Parses the output of `netstat -s -p tcp`, in which each line is a number followed by a
/// description. A value is 0 if its description differs in this FreeBSD release.
#[must_use]
pub fn tcp_counters(text: &str) -> TcpCounters {
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
#[must_use]
pub fn port_holder(text: &str, address: SocketAddr) -> Option<PortHolder> {
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
#[must_use]
pub fn open_files(text: &str) -> u64 {
    let descriptors = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    descriptors
        .filter(|word| word.parse::<u32>().is_ok())
        .count() as u64
}

/// Parses the files mapped into a process from the last column of `procstat -v <pid>`.
#[must_use]
pub fn mapped_files(text: &str) -> Vec<PathBuf> {
    let paths = text
        .lines()
        .filter_map(|line| line.find(" /").map(|at| &line[at + 1..]));
    let mut paths: Vec<PathBuf> = paths.map(|path| PathBuf::from(path.trim_end())).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// Parses the executable of a process from the output of `procstat -b <pid>` (`PID COMM OSREL
/// PATH`).
#[must_use]
pub fn executable(text: &str) -> Option<PathBuf> {
    let line = text.lines().nth(1)?;
    line.find(" /")
        .map(|at| PathBuf::from(line[at + 1..].trim_end()))
}

/// Parses the arguments of a process from the output of `procstat -c <pid>` (`PID COMM ARGS`).
/// Arguments that contain spaces are split.
#[must_use]
pub fn arguments(text: &str) -> Vec<String> {
    let words = text.lines().nth(1).unwrap_or_default().split_whitespace();
    words.skip(2).map(str::to_owned).collect()
}

/// Parses the addresses of an interface from the output of `ifconfig <interface> inet`.
#[must_use]
pub fn addresses(text: &str) -> Vec<Ipv4Addr> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("inet "));
    lines
        .filter_map(|rest| rest.split_whitespace().next()?.parse().ok())
        .collect()
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
        for name in MACHINE_SYSCTLS {
            assert!(text.contains(&format!("{name}: ")), "{name}");
        }
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
    fn bytes_of_an_interface_and_of_an_address() {
        let bytes = |interface, address| {
            network_bytes(NETSTAT, interface, address)
                .map(|bytes| (bytes.sent, bytes.received, bytes.shared))
        };
        assert_eq!(bytes("lo0", None), Some((90_002, 90_001, true)));
        assert_eq!(bytes("em0", None), Some((2_501_234, 60_012_345, true)));
        assert_eq!(
            bytes("lo0", Some(Ipv4Addr::new(10, 213, 0, 2))),
            Some((20_002, 20_001, false))
        );
        assert_eq!(bytes("lo0", Some(Ipv4Addr::new(10, 213, 0, 1))), None);
        assert_eq!(bytes("lo1", None), None);
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
        let bytes = network_bytes(&without_address, "lo0", None).unwrap();
        assert_eq!((bytes.sent, bytes.received), (90_002, 90_001));
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
    fn procstat_tables() {
        let files = "  PID COMM                FD T V FLAGS    REF  OFFSET PRO NAME\n\
            \x20 812 nginx             text v r r-------   -       - -   /usr/local/sbin/nginx\n\
            \x20 812 nginx              cwd v d r-------   -       - -   /\n\
            \x20 812 nginx                0 v c rw------   3       0 -   /dev/null\n\
            \x20 812 nginx                6 s - rw------   1       0 TCP 127.0.0.1:8080 0.0.0.0:0\n";
        assert_eq!(open_files(files), 2);
        let maps = "  PID              START                END PRT  RES PRES REF SHD FLAG  TP PATH\n\
            \x20 812           0x200000           0x22a000 r--   42  210   3   1 CN--- vn /usr/local/sbin/nginx\n\
            \x20 812        0x801234000        0x801240000 r-x   12   40   5   2 CN--- vn /lib/libcrypto.so.30\n\
            \x20 812        0x801240000        0x801250000 rw-   12   12   1   0 C---- sw \n";
        assert_eq!(
            mapped_files(maps),
            ["/lib/libcrypto.so.30", "/usr/local/sbin/nginx"].map(PathBuf::from)
        );
        let binary = "  PID COMM                OSREL PATH\n  812 nginx             1302001 /usr/local/sbin/nginx\n";
        assert_eq!(
            executable(binary),
            Some(PathBuf::from("/usr/local/sbin/nginx"))
        );
        let line = "  PID COMM             ARGS\n  900 python3.9        /usr/local/bin/python3.9 /usr/local/bin/gunicorn a:b\n";
        assert_eq!(
            arguments(line),
            ["/usr/local/bin/python3.9", "/usr/local/bin/gunicorn", "a:b"]
        );
    }

    #[test]
    fn addresses_of_an_interface() {
        let text = "lo0: flags=8049<UP,LOOPBACK,RUNNING,MULTICAST> metric 0 mtu 16384\n\
            \tinet 127.0.0.1 netmask 0xff000000\n\tinet 10.213.0.2 netmask 0xffffffff\n\tgroups: lo\n";
        assert_eq!(
            addresses(text),
            [Ipv4Addr::LOCALHOST, Ipv4Addr::new(10, 213, 0, 2)]
        );
    }
}
