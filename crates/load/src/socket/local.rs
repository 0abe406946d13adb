//! The local end of a connection: its address, and the available ports.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;

use socket2::{Domain, SockAddr, Socket, Type};

/// A local address and local ports that override the system's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Source {
    /// Local address to bind to; `None` for the system's choice.
    pub(crate) address: Option<IpAddr>,
    /// Permission that a bind to the address requires.
    pub(crate) binding: Binding,
    /// The local ports to choose from; `None` for the system's range.
    pub(crate) ports: Option<LocalPorts>,
}

/// Permission that a bind to an address requires, in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Binding {
    /// No permission: the machine has the address or, for IPv4, a local route to it.
    #[default]
    Usual,
    /// Permission to bind to an address that no interface has (IP_FREEBIND, ip(7)). For IPv6, Linux
    /// otherwise accepts only the interfaces' own addresses; a local route to a block is not
    /// enough.
    Free,
}

/// A range of local ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalPorts {
    low: u16,
    high: u16,
}

impl LocalPorts {
    /// The lowest and the highest port.
    pub(crate) fn ends(self) -> std::ops::RangeInclusive<u16> {
        self.low..=self.high
    }

    /// Number of ports in the range.
    pub(crate) fn count(self) -> u64 {
        u64::from(self.high.saturating_sub(self.low)) + 1
    }
}

/// Counts of the local ports that other sockets hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct HeldPorts {
    pub(crate) count: u64,
    /// Number of held ports that are in TIME_WAIT.
    pub(crate) waiting: u64,
}

/// Binds a socket to its source address before it connects.
///
/// Only the address is bound. The connect chooses the port, so one port can be used for several
/// destinations (IP_BIND_ADDRESS_NO_PORT, ip(7)). By default, Linux tries all ports of one parity
/// before those of the other. Once half of the ports are in use, each connect spends about half a
/// millisecond searching. If the port range is set explicitly, even to the system's own, Linux 6.8
/// tries the ports in sequence instead.
///
/// # Errors
///
/// The address does not belong to this machine.
pub(crate) fn bind_to_source(socket: &Socket, source: Source) -> io::Result<()> {
    if let Some(LocalPorts { low, high }) = source.ports {
        // IP_LOCAL_PORT_RANGE (ip(7)), since Linux 6.3. Older kernels reject the option and use the
        // system's range.
        set_ip_option(socket, 51, u32::from(high) << 16 | u32::from(low));
    }
    let Some(address) = source.address else {
        return Ok(());
    };
    // If the system refuses this option, the bind chooses a port.
    set_ip_option(socket, libc::IP_BIND_ADDRESS_NO_PORT, 1);
    if source.binding == Binding::Free {
        // If the system refuses this option, the bind fails with an error.
        set_ip_option(socket, libc::IP_FREEBIND, 1);
    }
    socket.bind(&SockAddr::from(SocketAddr::new(address, 0)))
}

/// Sets the size of a socket's send and receive buffers. Must be called before the connect, which
/// announces the receive window to the peer (RFC 7323 §2.2). The system may round the size, and
/// imposes an upper limit (net.core.rmem_max and wmem_max of socket(7)).
pub(crate) fn size_buffers(socket: &Socket, bytes: u32) -> io::Result<()> {
    socket.set_send_buffer_size(bytes as usize)?;
    socket.set_recv_buffer_size(bytes as usize)
}

fn set_ip_option(socket: &Socket, option: libc::c_int, value: u32) {
    // SAFETY: the pointer refers to a local integer, whose size is passed along.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        );
    }
}

/// Tests whether connections can use an address as their source. Returns the permission that the
/// bind requires.
///
/// # Errors
///
/// Returns the system's error if connections can't use the address.
pub(crate) fn try_source(address: IpAddr) -> io::Result<Binding> {
    let domain = Domain::for_address(SocketAddr::new(address, 0));
    let bind = |binding| {
        let source = Source {
            address: Some(address),
            binding,
            ports: None,
        };
        bind_to_source(&Socket::new(domain, Type::STREAM, None)?, source)?;
        Ok(binding)
    };
    bind(Binding::Usual).or_else(|error| match address {
        // IP_FREEBIND permits a bind to any address, but responses reach this machine only if there
        // is a local route.
        IpAddr::V6(v6) if has_local_route(v6) => bind(Binding::Free),
        _ => Err(error),
    })
}

/// Returns true if a local route delivers packets for an IPv6 address to this machine.
fn has_local_route(address: Ipv6Addr) -> bool {
    let routes = std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
    routes
        .lines()
        .filter_map(local_route)
        .any(|(network, length)| {
            let apart = network.to_bits() ^ address.to_bits();
            apart.leading_zeros() >= length
        })
}

/// Parses a line of /proc/net/ipv6_route. Returns the network and the prefix length of a local
/// route. Fields: destination, length, source, length, gateway, metric, two counts, flags,
/// interface.
fn local_route(line: &str) -> Option<(Ipv6Addr, u32)> {
    /// Flag RTF_LOCAL of linux/ipv6_route.h, which marks local routes.
    const LOCAL: u32 = 0x8000_0000;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [network, length, _, _, _, _, _, _, flags, _] = words[..] else {
        return None;
    };
    let is_local = u32::from_str_radix(flags, 16).ok()? & LOCAL != 0;
    let network = u128::from_str_radix(network, 16).ok()?;
    let length = u32::from_str_radix(length, 16).ok()?;
    is_local.then(|| (Ipv6Addr::from_bits(network), length))
}

/// Returns the system's range of local ports, if the system reports it.
pub(crate) fn local_ports() -> Option<LocalPorts> {
    port_range(&std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

/// Returns the number of TCP sockets in use and in TIME_WAIT in this network namespace.
pub(crate) fn sockets_in_use() -> u64 {
    // Only Linux has the `sockstat` files (proc(5)).
    let read =
        |name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default();
    count_sockets(&read("sockstat")) + count_sockets(&read("sockstat6"))
}

/// Counts the ports that other sockets hold in connections to these destinations, from addresses
/// for which `is_source` returns true. Reads the list of all connections, which takes about 100 ms
/// for 100,000 connections.
pub(crate) fn held_ports(
    destinations: &BTreeSet<SocketAddr>,
    is_source: impl Fn(IpAddr) -> bool,
) -> HeldPorts {
    let reuse = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_tw_reuse").unwrap_or_default();
    let mut held = HeldPorts::default();
    for name in ["tcp", "tcp6"] {
        let Ok(file) = File::open(format!("/proc/thread-self/net/{name}")) else {
            continue;
        };
        // The file is read line by line, because a list of 100,000 connections takes 15 MB.
        for line in BufReader::new(file).lines().map_while(Result::ok).skip(1) {
            let Some(seen) = connection(&line) else {
                continue;
            };
            if !destinations.contains(&seen.remote) || !is_source(seen.local.ip()) {
                continue;
            }
            if seen.is_waiting {
                if is_reused(reuse.trim(), seen.remote.ip()) {
                    continue;
                }
                held.waiting += 1;
            }
            held.count += 1;
        }
    }
    held
}

/// Returns true if the system assigns ports in TIME_WAIT to new connections (net.ipv4.tcp_tw_reuse
/// in ip-sysctl.txt: 1 always, 2 within the loopback).
fn is_reused(setting: &str, remote: IpAddr) -> bool {
    match setting {
        "1" => true,
        "2" => remote.is_loopback(),
        _ => false,
    }
}

fn port_range(text: &str) -> Option<LocalPorts> {
    let mut ends = text.split_whitespace().map(str::parse);
    match (ends.next(), ends.next()) {
        (Some(Ok(low)), Some(Ok(high))) if low <= high => Some(LocalPorts { low, high }),
        _ => None,
    }
}

/// Returns the number of TCP sockets in use and in TIME_WAIT from the text of /proc/net/sockstat.
fn count_sockets(text: &str) -> u64 {
    let line = text.lines().find_map(|line| {
        line.strip_prefix("TCP: ")
            .or_else(|| line.strip_prefix("TCP6: "))
    });
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    words
        .chunks_exact(2)
        .filter(|pair| matches!(pair[0], "inuse" | "tw"))
        .filter_map(|pair| pair[1].parse::<u64>().ok())
        .sum()
}

/// An entry of /proc/net/tcp or tcp6 (proc(5)).
struct TcpTableEntry {
    local: SocketAddr,
    remote: SocketAddr,
    is_waiting: bool,
}

fn connection(line: &str) -> Option<TcpTableEntry> {
    let mut words = line.split_ascii_whitespace().skip(1);
    Some(TcpTableEntry {
        local: endpoint(words.next()?)?,
        remote: endpoint(words.next()?)?,
        is_waiting: words.next()? == "06",
    })
}

/// Parses an endpoint such as `0100007F:1F90`. The address consists of words of four bytes, each a
/// number in this machine's byte order. The port follows the colon.
fn endpoint(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |index: usize| {
        let digits = address.get(index * 8..index * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let ip: IpAddr = match address.len() {
        8 => word(0)?.into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            IpAddr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_at_least_as_large_as_requested() {
        use socket2::{Domain, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        size_buffers(&socket, 20_000).unwrap();
        let sizes = [socket.recv_buffer_size(), socket.send_buffer_size()];
        for size in sizes.map(Result::unwrap) {
            // Linux adds its own overhead and reports twice the size.
            assert!((20_000..=40_000).contains(&size), "{size}");
        }
    }

    #[test]
    fn linux_values_are_parsed() {
        let ports = port_range("32768\t60999\n").unwrap();
        assert_eq!(ports.count(), 28_232);
        assert_eq!(port_range("9 5"), None);
        assert_eq!(port_range("x"), None);
        let sockstat =
            "sockets: used 225\nTCP: inuse 17 orphan 2 tw 30 alloc 40 mem 5\nUDP: inuse 3 mem 1\n";
        assert_eq!(count_sockets(sockstat), 47);
        assert_eq!(count_sockets("TCP6: inuse 4\nUDP6: inuse 3\n"), 4);
        assert_eq!(count_sockets(""), 0);
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn lines_of_the_connection_list_are_parsed() {
        let line = "   3: 0100007F:9C40 0200007F:1F90 06 00000000:00000000 03:00001770 00000000";
        let seen = connection(line).unwrap();
        assert_eq!(seen.local, "127.0.0.1:40000".parse().unwrap());
        assert_eq!(seen.remote, "127.0.0.2:8080".parse().unwrap());
        assert!(seen.is_waiting);
        let v6 = "00000000000000000000000001000000:0050";
        assert_eq!(endpoint(v6), Some("[::1]:80".parse().unwrap()));
        let mapped = "0000000000000000FFFF00000100007F:0050";
        assert_eq!(endpoint(mapped), Some("127.0.0.1:80".parse().unwrap()));
        for bad in ["", "x:y", "0100007F", "01:1F90", "0100007F:XX"] {
            assert_eq!(endpoint(bad), None, "{bad}");
        }
    }

    #[test]
    fn local_routes_are_distinguished_from_others() {
        let line = |flags: &str| {
            let zero = "00000000000000000000000000000000";
            format!(
                "fd000005{} 40 {zero} 00 {zero} 00000000 00000001 00000000 {flags}       lo",
                "0".repeat(24)
            )
        };
        let block = ("fd00:5::".parse().unwrap(), 64);
        assert_eq!(local_route(&line("80200001")), Some(block));
        assert_eq!(local_route(&line("00000001")), None);
        assert_eq!(local_route("x"), None);
        assert!(has_local_route("::1".parse().unwrap()));
        assert!(!has_local_route("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn ports_in_time_wait_count_unless_the_system_reuses_them() {
        let [near, far] = ["127.0.0.1", "10.0.0.1"].map(|ip| ip.parse().unwrap());
        assert!(is_reused("2", near) && !is_reused("2", far));
        assert!(is_reused("1", far) && !is_reused("0", near));
    }

    #[test]
    fn an_open_connection_holds_a_port() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let _client = std::net::TcpStream::connect(address).unwrap();
        let destinations = [address].into();
        let held = held_ports(&destinations, |_| true);
        assert_eq!((held.count, held.waiting), (1, 0));
        assert_eq!(held_ports(&destinations, |_| false).count, 0);
        assert!(sockets_in_use() >= 2);
        assert!(local_ports().is_some());
    }
}
