//! The PROXY protocol: the first bytes of a connection say for whom it was made (proxy-protocol.txt
//! of haproxy.org, sections 2.1 and 2.2). Bytes only; the worker sends them.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::request::Target;
use crate::settings::{ProxyVersion, SourceOrder};
use crate::socket::Peer;
use crate::source::{Addresses, Turn};

/// What begins a header of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and the connection is made by whoever speaks, for themselves.
const LOCAL: u8 = 0x20;
/// Version 2, and the connection is made for somebody else.
const PROXY: u8 = 0x21;
/// The ports that systems give to clients (RFC 6335 §6): the first, and how many.
const CLIENT_PORTS: (u16, u64) = (49_152, 16_384);

/// What connections tell of where they come from.
#[derive(Debug, Clone)]
pub(crate) struct Proxy {
    version: ProxyVersion,
    /// Told in turn; where there are none, the connection's own address is.
    told: Addresses,
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    /// The connection is what it seems.
    Own,
    /// It was made for `from`, who wanted to connect to `to`; both of one family.
    Relayed { from: SocketAddr, to: SocketAddr },
}

/// The connection that a header begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun<'a> {
    pub(crate) peer: &'a Peer,
    /// Its own end, where it has an address.
    pub(crate) local: Option<SocketAddr>,
    /// Where the peer is a UNIX socket: the port that the URL's scheme has.
    pub(crate) port: u16,
}

impl<'a> Begun<'a> {
    /// A connection to a target, from this end.
    pub(crate) fn to(target: &'a Target, local: Option<SocketAddr>) -> Begun<'a> {
        Begun {
            peer: &target.peer,
            local,
            port: if target.tls.is_some() { 443 } else { 80 },
        }
    }
}

impl Proxy {
    pub(crate) fn new(version: ProxyVersion, told: Addresses) -> Proxy {
        Proxy { version, told }
    }

    /// The addresses that are told in place of the connections' own.
    pub(crate) fn told(&self) -> &Addresses {
        &self.told
    }

    /// Whether it tells other addresses than the connections'.
    pub(crate) fn tells_others(&self) -> bool {
        self.told.count() > 0
    }

    /// Appends the header of a connection, at most 107 bytes.
    pub(crate) fn write(
        &self,
        begun: Begun<'_>,
        turn: Turn,
        order: SourceOrder,
        out: &mut Vec<u8>,
    ) {
        let told = order
            .index(turn, self.told.count())
            .and_then(|index| self.told.nth(index))
            .map(|address| SocketAddr::new(address, self.port(turn, order)));
        let to = match (begun.peer, told) {
            (Peer::Tcp(address), _) => Some(*address),
            // A UNIX socket is on this machine, so this is where its clients would have gone.
            (Peer::Unix(_), Some(from)) => Some(SocketAddr::new(
                match from {
                    SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                },
                begun.port,
            )),
            (Peer::Unix(_), None) => None,
        };
        let header = match (told.or(begun.local), to) {
            (Some(from), Some(to)) => relayed(from, to),
            _ => Header::Own,
        };
        match self.version {
            ProxyVersion::V1 => write_v1(header, out),
            ProxyVersion::V2 => write_v2(header, out),
        }
    }

    /// A port for a told address: in turn a new one each time that the address comes round, so that
    /// the server sees no two connections as one.
    fn port(&self, turn: Turn, order: SourceOrder) -> u16 {
        let number = match order {
            SourceOrder::RoundRobin => turn.connection / self.told.count().max(1),
            SourceOrder::Random | SourceOrder::PerUser => turn.connection,
        };
        // Less than 16,384 above 49,152 is a port.
        CLIENT_PORTS.0 + (number % CLIENT_PORTS.1) as u16
    }
}

/// Both ends in one family: where they differ, as IPv6 (RFC 4291 §2.5.5.2).
fn relayed(from: SocketAddr, to: SocketAddr) -> Header {
    if from.is_ipv4() == to.is_ipv4() {
        return Header::Relayed { from, to };
    }
    Header::Relayed {
        from: SocketAddr::new(mapped(from.ip()).into(), from.port()),
        to: SocketAddr::new(mapped(to.ip()).into(), to.port()),
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// Section 2.1.
fn write_v1(header: Header, out: &mut Vec<u8>) {
    // Writing to memory doesn't fail.
    let _ = match header {
        Header::Own => out.write_all(b"PROXY UNKNOWN\r\n"),
        Header::Relayed { from, to } => {
            out.extend_from_slice(match from {
                SocketAddr::V4(_) => b"PROXY TCP4 ",
                SocketAddr::V6(_) => b"PROXY TCP6 ",
            });
            write_text(from.ip(), out);
            out.push(b' ');
            write_text(to.ip(), out);
            write!(out, " {} {}\r\n", from.port(), to.port())
        }
    };
}

/// The groups of an IPv6 address are all hexadecimal there, also those of an IPv4 address within.
fn write_text(address: IpAddr, out: &mut Vec<u8>) {
    let mapped = match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    // Writing to memory doesn't fail.
    let _ = match mapped {
        Some(v4) => {
            let bits = v4.to_bits();
            write!(out, "::ffff:{:x}:{:x}", bits >> 16, bits & 0xffff)
        }
        None => write!(out, "{address}"),
    };
}

/// Section 2.2.
fn write_v2(header: Header, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    match header {
        // No family, and no addresses.
        Header::Own => out.extend_from_slice(&[LOCAL, 0x00, 0, 0]),
        Header::Relayed { from, to } => {
            match (from.ip(), to.ip()) {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    out.extend_from_slice(&[PROXY, 0x11, 0, 12]);
                    out.extend_from_slice(&from.octets());
                    out.extend_from_slice(&to.octets());
                }
                (from, to) => {
                    out.extend_from_slice(&[PROXY, 0x21, 0, 36]);
                    out.extend_from_slice(&mapped(from).octets());
                    out.extend_from_slice(&mapped(to).octets());
                }
            }
            out.extend_from_slice(&from.port().to_be_bytes());
            out.extend_from_slice(&to.port().to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(version: ProxyVersion, told: &[&str]) -> Proxy {
        let told: Vec<_> = told.iter().map(|typed| typed.parse().unwrap()).collect();
        Proxy::new(version, Addresses::new(&told).unwrap())
    }

    fn header(proxy: &Proxy, peer: &str, local: Option<&str>, connection: u64) -> Vec<u8> {
        let peer = match peer.parse() {
            Ok(address) => Peer::Tcp(address),
            Err(_) => Peer::Unix(peer.into()),
        };
        let begun = Begun {
            peer: &peer,
            local: local.map(|local| local.parse().unwrap()),
            port: 443,
        };
        let turn = Turn {
            connection,
            user: 0,
            seed: 0,
        };
        let mut out = b"before".to_vec();
        proxy.write(begun, turn, SourceOrder::RoundRobin, &mut out);
        out.split_off(6)
    }

    fn line(told: &[&str], peer: &str, local: Option<&str>, connection: u64) -> String {
        let header = header(&proxy(ProxyVersion::V1, told), peer, local, connection);
        assert!(header.len() <= 107);
        String::from_utf8(header).unwrap()
    }

    #[test]
    fn version_1_is_a_line() {
        let own = Some("127.0.0.1:5555");
        for (told, peer, local, expected) in [
            (
                &[][..],
                "127.0.0.2:80",
                own,
                "PROXY TCP4 127.0.0.1 127.0.0.2 5555 80\r\n",
            ),
            (
                &[],
                "[::1]:80",
                Some("[fd00::9]:7"),
                "PROXY TCP6 fd00::9 ::1 7 80\r\n",
            ),
            (&[], "/socket", None, "PROXY UNKNOWN\r\n"),
            (&[], "127.0.0.2:80", None, "PROXY UNKNOWN\r\n"),
            (
                &["10.1.0.0/16"],
                "127.0.0.2:80",
                own,
                "PROXY TCP4 10.1.0.1 127.0.0.2 49152 80\r\n",
            ),
            (
                &["10.1.0.1"],
                "/socket",
                None,
                "PROXY TCP4 10.1.0.1 127.0.0.1 49152 443\r\n",
            ),
            (
                &["fd00::1"],
                "/socket",
                None,
                "PROXY TCP6 fd00::1 ::1 49152 443\r\n",
            ),
            (
                &["fd00::1"],
                "127.0.0.2:80",
                own,
                "PROXY TCP6 fd00::1 ::ffff:7f00:2 49152 80\r\n",
            ),
        ] {
            assert_eq!(line(told, peer, local, 0), expected);
        }
    }

    #[test]
    fn given_addresses_are_used_in_turn_with_new_ports() {
        let told = ["10.0.0.1-10.0.0.2", "fd00::5"];
        let told_of = |connection| line(&told, "/s", None, connection);
        let start = |connection, expected: &str| {
            let line = told_of(connection);
            assert!(line.starts_with(expected), "{connection}: {line}");
        };
        start(0, "PROXY TCP4 10.0.0.1 127.0.0.1 49152 ");
        start(1, "PROXY TCP4 10.0.0.2 127.0.0.1 49152 ");
        start(2, "PROXY TCP6 fd00::5 ::1 49152 ");
        start(3, "PROXY TCP4 10.0.0.1 127.0.0.1 49153 ");
        start(3 * 16_384, "PROXY TCP4 10.0.0.1 127.0.0.1 49152 ");
    }

    #[test]
    fn version_2_is_binary() {
        let begin = [&SIGNATURE[..], &[0x21, 0x11, 0, 12]].concat();
        let rest = [10, 1, 0, 1, 127, 0, 0, 2, 0xc0, 0x00, 0, 80];
        let v4 = proxy(ProxyVersion::V2, &["10.1.0.1"]);
        let seen = header(&v4, "127.0.0.2:80", None, 0);
        assert_eq!(seen, [&begin[..], &rest].concat());

        let v6 = proxy(ProxyVersion::V2, &[]);
        let seen = header(&v6, "[::1]:443", Some("[fd00::9]:258"), 0);
        assert_eq!(seen[12..16], [0x21, 0x21, 0, 36]);
        assert_eq!(seen.len(), 16 + 36);
        assert_eq!(seen[16..18], [0xfd, 0]);
        assert_eq!((seen[31], seen[47]), (9, 1));
        assert_eq!(seen[48..], [1, 2, 1, 187]);

        let own = header(&v6, "/socket", None, 0);
        assert_eq!(own, [&SIGNATURE[..], &[0x20, 0, 0, 0]].concat());
    }
}
