//! Parsers of what commands on another machine print about ports, addresses and the machine itself.
//! The commands are in `systems.sh`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use prony_plan::service::Endpoint;

use crate::environment::MachineFacts;
use crate::host::remote::{RemoteSystem, Sections, section};
use crate::system::proc_files;

/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";
/// Flags of a listening socket in `/proc/net/unix`.
const ACCEPTS_CONNECTIONS: u32 = 0x1_0000;

/// Ports and sockets of a machine that are in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OccupiedPorts {
    pub(super) tcp: BTreeSet<u16>,
    pub(super) udp: BTreeSet<u16>,
    pub(super) unix: BTreeSet<String>,
}

impl OccupiedPorts {
    /// Returns true if a socket is bound to the endpoint.
    pub(super) fn has(&self, endpoint: &Endpoint) -> bool {
        match endpoint {
            Endpoint::Tcp(address) => self.tcp.contains(&address.port()),
            Endpoint::Udp(address) => self.udp.contains(&address.port()),
            Endpoint::Unix(path) => path.to_str().is_some_and(|path| self.unix.contains(path)),
        }
    }
}

/// Parses the sockets that are in use.
pub(super) fn occupied(system: RemoteSystem, sections: &Sections) -> OccupiedPorts {
    match system {
        RemoteSystem::Linux => OccupiedPorts {
            tcp: linux_ports(section(sections, "tcp"), Some(LISTENING)),
            udp: linux_ports(section(sections, "udp"), None),
            unix: linux_unix_sockets(section(sections, "unix")),
        },
        RemoteSystem::FreeBsd => freebsd_sockets(section(sections, "sockets")),
    }
}

/// Returns the local ports in `/proc/net/tcp` or `/proc/net/udp`, of sockets in the given state.
fn linux_ports(text: &str, state: Option<&str>) -> BTreeSet<u16> {
    let port = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (_, port) = words.next()?.rsplit_once(':')?;
        let is_it = state.is_none_or(|state| words.nth(1) == Some(state));
        u16::from_str_radix(port, 16).ok().filter(|_| is_it)
    };
    text.lines().filter_map(port).collect()
}

/// Returns the paths of listening sockets in `/proc/net/unix`.
fn linux_unix_sockets(text: &str) -> BTreeSet<String> {
    let path = |line: &str| {
        let mut words = line.split_whitespace().skip(3);
        let flags = u32::from_str_radix(words.next()?, 16).ok()?;
        // The path is the rest of the line and may contain spaces.
        let path = line.get(line.find('/')?..)?;
        (flags & ACCEPTS_CONNECTIONS != 0).then(|| path.trim_end().to_owned())
    };
    text.lines().filter_map(path).collect()
}

/// Parses the output of `sockstat -l`: USER, COMMAND, PID, FD, PROTO, LOCAL ADDRESS, FOREIGN
/// ADDRESS.
fn freebsd_sockets(text: &str) -> OccupiedPorts {
    let mut occupied = OccupiedPorts::default();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(4);
        let (Some(protocol), Some(local)) = (words.next(), words.next()) else {
            continue;
        };
        let port = || {
            local
                .rsplit_once(':')
                .and_then(|(_, it)| it.parse::<u16>().ok())
        };
        if protocol.starts_with("tcp") {
            occupied.tcp.extend(port());
        } else if protocol.starts_with("udp") {
            occupied.udp.extend(port());
        } else if protocol == "stream" {
            occupied.unix.insert(local.to_owned());
        }
    }
    occupied
}

/// Parses `SSH_CONNECTION`: the client's and the server's address, each followed by a port.
pub(super) fn ssh_connection(text: &str) -> Option<(IpAddr, IpAddr)> {
    let mut words = text.split_whitespace();
    let mut address = |skip: usize| {
        let word = words.nth(skip)?;
        // The zone of a link-local address is not a part of it.
        let word = word.split_once('%').map_or(word, |(address, _)| address);
        word.parse::<IpAddr>().ok().map(|it| it.to_canonical())
    };
    Some((address(0)?, address(1)?))
}

/// Parses the free space in the output of `df -Pk`.
pub(super) fn available_kib(text: &str) -> Option<String> {
    let line = text.lines().filter(|line| !line.trim().is_empty()).nth(1)?;
    let word = line.split_whitespace().nth(3)?;
    word.parse::<i64>().ok()?;
    Some(word.to_owned())
}

/// Parses the cores in `Cpus_allowed_list: 0-3,6` of Linux, or in FreeBSD's `pid 7 mask: 0, 1, 2`.
pub(super) fn cores(text: &str) -> Vec<usize> {
    let Some((_, list)) = text.trim().rsplit_once(':') else {
        return Vec::new();
    };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // No machine has more cores than this; a longer list would only use memory.
        (last < 65_536).then_some(first..=last)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Parses the addresses of a machine; empty if it doesn't list them.
pub(super) fn addresses(system: RemoteSystem, sections: &Sections) -> Vec<IpAddr> {
    match system {
        RemoteSystem::Linux => {
            let mut addresses = linux_local_addresses(section(sections, "fib"));
            let six = section(sections, "inet6").lines().filter_map(|line| {
                let digits = line.split_whitespace().next()?;
                let bits = u128::from_str_radix(digits, 16).ok()?;
                (digits.len() == 32).then(|| IpAddr::from(bits.to_be_bytes()))
            });
            addresses.extend(six);
            addresses
        }
        RemoteSystem::FreeBsd => {
            let address = |line: &str| {
                let mut words = line.split_whitespace();
                let is_address = matches!(words.next()?, "inet" | "inet6");
                let word = words.next().filter(|_| is_address)?;
                let word = word.split_once('%').map_or(word, |(address, _)| address);
                word.parse().ok()
            };
            let lines = section(sections, "inet").lines();
            lines.filter_map(address).collect()
        }
    }
}

/// Returns the local addresses in `/proc/net/fib_trie`: those above a line with `host LOCAL`.
fn linux_local_addresses(text: &str) -> Vec<IpAddr> {
    let mut last = None;
    let mut found: Vec<IpAddr> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<IpAddr>().ok();
        } else if line.ends_with("host LOCAL")
            && let Some(address) = last.filter(|address| !found.contains(address))
        {
            found.push(address);
        }
    }
    found
}

/// Root folder and addresses of a jail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JailFacts {
    pub(super) root: String,
    /// Addresses of its own; empty if it uses those of the machine.
    pub(super) addresses: Vec<IpAddr>,
}

/// Parses the output of `jls -n`, which is `path=/usr/jails/web ip4.addr=10.0.0.3,10.0.0.4`.
pub(super) fn jail(text: &str) -> Option<JailFacts> {
    let (mut root, mut addresses) = (None, Vec::new());
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some(("path", path)) => root = Some(path.trim_matches('"').to_owned()),
            Some(("ip4.addr" | "ip6.addr", list)) => {
                addresses.extend(list.split(',').filter_map(|it| it.parse::<IpAddr>().ok()));
            }
            _ => {}
        }
    }
    let root = root.filter(|root| root.starts_with('/'))?;
    Some(JailFacts { root, addresses })
}

/// Parses the facts about a machine for `environment.json`.
pub(super) fn facts(system: RemoteSystem, sections: &Sections) -> MachineFacts {
    let text = |name: &str| section(sections, name);
    let mut uname = text("uname").lines();
    let mut word = || uname.next().unwrap_or_default().trim().to_owned();
    let (kernel, architecture) = (word(), word());
    let mut limits = text("limits").lines().map(|line| line.trim().parse().ok());
    let mut limit = || limits.next().flatten();
    let common = MachineFacts {
        kernel,
        architecture,
        open_files: (limit(), limit()),
        sysctls: pairs(text("sysctl")),
        hardware_counters: "none: the machine is read over ssh".to_owned(),
        ..MachineFacts::default()
    };
    match system {
        RemoteSystem::Linux => {
            let cpu = crate::system::cpu_facts(text("cpuinfo"));
            let governor = text("governor").trim();
            MachineFacts {
                system: "Linux".to_owned(),
                distribution: crate::system::distribution(text("distribution")),
                cpu: cpu.model,
                cores: cpu.cores,
                virtualised: cpu.virtualised,
                memory_bytes: proc_files::memory_bytes(text("meminfo")),
                cpu_governor: (!governor.is_empty()).then(|| governor.to_owned()),
                mitigations: pairs(text("mitigations")),
                ..common
            }
        }
        RemoteSystem::FreeBsd => {
            let values = pairs(text("facts"));
            let value = |name: &str| values.get(name).map_or("", String::as_str);
            MachineFacts {
                system: "FreeBSD".to_owned(),
                distribution: format!("FreeBSD {}", text("distribution").trim()),
                cpu: value("hw.model").to_owned(),
                cores: value("hw.ncpu").parse().unwrap_or(0),
                virtualised: !matches!(value("kern.vm_guest"), "" | "none"),
                memory_bytes: value("hw.physmem").parse().unwrap_or(0),
                ..common
            }
        }
    }
}

/// Parses lines of `name: value`.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        let value: Vec<&str> = value.split_whitespace().collect();
        Some((name.to_owned(), value.join(" ")))
    };
    text.lines().filter_map(pair).collect()
}

/// Kernel settings of FreeBSD that affect servers.
pub(super) const FREEBSD_SYSCTLS: [&str; 14] = [
    "kern.ipc.maxsockbuf",
    "kern.ipc.soacceptqueue",
    "kern.maxfiles",
    "kern.maxfilesperproc",
    "kern.timecounter.hardware",
    "net.inet.ip.portrange.first",
    "net.inet.ip.portrange.last",
    "net.inet.tcp.cc.algorithm",
    "net.inet.tcp.functions_default",
    "net.inet.tcp.msl",
    "net.inet.tcp.recvspace",
    "net.inet.tcp.sendspace",
    "net.inet.tcp.syncache.hashsize",
    "net.inet.tcp.syncookies",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(of: &[(&str, &str)]) -> Sections {
        let own = of.iter();
        own.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect()
    }

    fn addresses_of(system: RemoteSystem, of: &[(&str, &str)]) -> Vec<String> {
        let addresses = addresses(system, &sections(of));
        addresses.iter().map(IpAddr::to_string).collect()
    }

    #[test]
    fn occupied_ports_of_linux() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
            \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0 0 1\n\
            \x20  1: 0100007F:1F91 0100007F:D431 01 00000000:00000000 00:00000000 00000000  0 0 2\n\
            \x20  0: 00000000000000000000000001000000:0050 0:0000 0A 0:0 00:0 0 0 0 3\n";
        let udp =
            "  sl  local_address rem_address   st\n  72: 00000000:01BB 00000000:0000 07 0:0\n";
        let unix = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 25 /run/a b.sock\n\
            0000: 00000003 00000000 00000000 0001 03 26 /run/connected\n\
            0000: 00000003 00000000 00010000 0001 03 26\n";
        let all = sections(&[("tcp", tcp), ("udp", udp), ("unix", unix)]);
        let occupied = occupied(RemoteSystem::Linux, &all);
        assert_eq!(occupied.tcp, [80, 8080].into());
        assert_eq!(occupied.udp, [443].into());
        assert_eq!(occupied.unix, ["/run/a b.sock".to_owned()].into());
    }

    #[test]
    fn occupied_ports_of_freebsd() {
        // The columns of sockstat(1).
        let text = "USER     COMMAND    PID   FD  PROTO  LOCAL ADDRESS         FOREIGN ADDRESS\n\
            www      nginx      812   6   tcp4   *:80                  *:*\n\
            www      nginx      812   7   tcp6   *:443                 *:*\n\
            bind     named      700   20  udp46  10.0.0.2:53           *:*\n\
            USER     COMMAND    PID   FD  PROTO  ADDRESS\n\
            root     devd       500   4   stream /var/run/devd.pipe\n";
        let occupied = occupied(RemoteSystem::FreeBsd, &sections(&[("sockets", text)]));
        assert_eq!(occupied.tcp, [80, 443].into());
        assert_eq!(occupied.udp, [53].into());
        assert_eq!(occupied.unix, ["/var/run/devd.pipe".to_owned()].into());
    }

    #[test]
    fn addresses_of_both_systems() {
        let fib = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
            Local:\n           |-- 10.0.0.2\n              /32 host LOCAL\n\
            \x20          |-- 10.0.0.255\n              /32 link BROADCAST\n";
        let inet6 = "00000000000000000000000000000001 01 80 10 80       lo\nx 01\n";
        assert_eq!(
            addresses_of(RemoteSystem::Linux, &[("fib", fib), ("inet6", inet6)]),
            ["10.0.0.2", "::1"]
        );
        let ifconfig = "em0: flags=8843<UP,BROADCAST,RUNNING> metric 0 mtu 1500\n\
            \tether 00:0c:29:aa:bb:cc\n\
            \tinet 10.0.0.2 netmask 0xffffff00 broadcast 10.0.0.255\n\
            \tinet6 fe80::1%em0 prefixlen 64 scopeid 0x1\n";
        assert_eq!(
            addresses_of(RemoteSystem::FreeBsd, &[("inet", ifconfig)]),
            ["10.0.0.2", "fe80::1"]
        );
    }

    #[test]
    fn cores_of_both_systems() {
        assert_eq!(cores("Cpus_allowed_list:\t0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cores("pid 812 mask: 0, 1, 3\n"), [0, 1, 3]);
        assert_eq!(
            cores("Cpus_allowed_list: 0-99999999999"),
            <[usize; 0]>::default()
        );
        assert_eq!(cores("x"), <[usize; 0]>::default());
    }

    #[test]
    fn jails_and_connections() {
        let web = jail("path=/usr/jails/web ip4.addr=10.0.0.3,10.0.0.4 ip6.addr=-\n").unwrap();
        assert_eq!(web.root, "/usr/jails/web");
        assert_eq!(web.addresses.len(), 2);
        assert_eq!(jail("jls: jail \"web\" not found"), None);
        let (own, other) = ssh_connection("10.0.0.1 40000 10.0.0.2 22\n").unwrap();
        assert_eq!(
            own.to_string() + " " + &other.to_string(),
            "10.0.0.1 10.0.0.2"
        );
        let (_, other) = ssh_connection("fe80::2%em0 1 ::ffff:10.0.0.2 22").unwrap();
        assert_eq!(other.to_string(), "10.0.0.2");
        assert_eq!(ssh_connection(""), None);
        let df =
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 100 60 40 60% /\n";
        assert_eq!(available_kib(df).as_deref(), Some("40"));
        assert_eq!(available_kib("df: not found"), None);
    }

    #[test]
    fn facts_of_freebsd() {
        let all = sections(&[
            ("uname", "14.1-RELEASE\namd64\n"),
            ("distribution", "14.1-RELEASE-p3\n"),
            (
                "facts",
                "hw.model: Intel(R) Xeon(R) CPU E5-2670\nhw.ncpu: 4\nhw.physmem: 8589934592\n\
                 kern.vm_guest: none\n",
            ),
            ("limits", "117504\nunlimited\n"),
            ("sysctl", "kern.ipc.soacceptqueue: 128\n"),
        ]);
        let facts = facts(RemoteSystem::FreeBsd, &all);
        assert_eq!(facts.distribution, "FreeBSD 14.1-RELEASE-p3");
        assert_eq!((facts.cores, facts.memory_bytes), (4, 8 << 30));
        assert!(!facts.virtualised);
        assert_eq!(facts.open_files, (Some(117_504), None));
        assert_eq!(facts.sysctls["kern.ipc.soacceptqueue"], "128");
    }
}
