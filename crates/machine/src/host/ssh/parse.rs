//! Parsers of what commands on another machine print about ports, addresses and the machine itself.
//! The commands are in `systems.sh`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use prony_plan::service::Endpoint;

use crate::host::remote::{RemoteSystem, Sections, section};

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
        // No machine has so many cores; a longer list would only use memory.
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
