//! The PROXY protocol: a connection begins with a header that contains the addresses of the
//! original client and server (proxy-protocol.txt of haproxy.org, sections 2.1 and 2.2). This
//! module only writes bytes; the worker sends them.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::settings::{ProxyVersion, SourceOrder};
use crate::socket::Peer;
use crate::target::Target;
use crate::target::address_list::{AddressList, SourceSelector};

/// First bytes of a header of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command LOCAL: the sender made the connection on its own behalf.
const LOCAL: u8 = 0x20;
/// Version 2, command PROXY: the sender made the connection for a client.
const PROXY: u8 = 0x21;
/// The first port that systems assign to clients, and the number of such ports (RFC 6335 §6).
const CLIENT_PORTS: (u16, u64) = (49_152, 16_384);

/// PROXY protocol settings of a load's connections.
#[derive(Debug, Clone)]
pub(crate) struct ProxyProtocol {
    version: ProxyVersion,
    /// Addresses for the headers; if empty, each header contains the address of its own connection.
    announced: AddressList,
}

/// Content of a PROXY header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    /// The header contains the connection's own addresses.
    Own,
    /// The connection relays a client at `from` that connected to `to`. Both addresses belong to
    /// the same family.
    Relayed { from: SocketAddr, to: SocketAddr },
}

/// Both ends of a connection that begins with a PROXY header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionEnds<'a> {
    pub(crate) peer: &'a Peer,
    /// Local address of the connection, if it has one.
    pub(crate) local: Option<SocketAddr>,
    /// Default port of the URL's scheme, used if the peer is a UNIX socket.
    pub(crate) port: u16,
}

impl<'a> ConnectionEnds<'a> {
    /// Describes a connection from `local` to a peer of a target.
    pub(crate) fn to(
        target: &Target,
        peer: &'a Peer,
        local: Option<SocketAddr>,
    ) -> ConnectionEnds<'a> {
        ConnectionEnds {
            peer,
            local,
            port: if target.tls.is_some() { 443 } else { 80 },
        }
    }
}

impl ProxyProtocol {
    pub(crate) fn new(version: ProxyVersion, announced: AddressList) -> ProxyProtocol {
        ProxyProtocol { version, announced }
    }

    /// Addresses that replace the connections' own addresses in the headers.
    pub(crate) fn announced(&self) -> &AddressList {
        &self.announced
    }

    /// Returns true if the headers contain addresses other than those of their connections.
    pub(crate) fn replaces_addresses(&self) -> bool {
        self.announced.count() > 0
    }

    /// Appends the header of a connection, at most 107 bytes.
    pub(crate) fn write(
        &self,
        ends: ConnectionEnds<'_>,
        selector: SourceSelector,
        order: SourceOrder,
        out: &mut Vec<u8>,
    ) {
        let announced = order
            .index(selector, self.announced.count())
            .and_then(|index| self.announced.nth(index))
            .map(|address| SocketAddr::new(address, self.port(selector, order)));
        let to = match (ends.peer, announced) {
            (Peer::Tcp(address) | Peer::Quic(address), _) => Some(*address),
            // A UNIX socket is on this machine, so its clients would have connected to the
            // loopback.
            (Peer::Unix(_), Some(from)) => Some(SocketAddr::new(
                match from {
                    SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                },
                ends.port,
            )),
            (Peer::Unix(_), None) => None,
        };
        let header = match (announced.or(ends.local), to) {
            (Some(from), Some(to)) => relayed(from, to),
            _ => Header::Own,
        };
        match self.version {
            ProxyVersion::V1 => write_v1(header, out),
            ProxyVersion::V2 => write_v2(header, out),
        }
    }

    /// Port for an address in a header. In round-robin order, each reuse of an address gets a new
    /// port, so that no two connections look the same to the server.
    fn port(&self, selector: SourceSelector, order: SourceOrder) -> u16 {
        let number = match order {
            SourceOrder::RoundRobin => selector.connection / self.announced.count().max(1),
            SourceOrder::Random | SourceOrder::PerUser => selector.connection,
        };
        // The sum of 49,152 and a number below 16,384 is a valid port.
        CLIENT_PORTS.0 + (number % CLIENT_PORTS.1) as u16
    }
}

/// Converts both ends to IPv6 if their families differ (RFC 4291 §2.5.5.2).
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

/// Writes a header of version 1 (section 2.1).
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

/// Writes an address. All groups of an IPv6 address are hexadecimal, including the groups of an
/// embedded IPv4 address.
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

/// Writes a header of version 2 (section 2.2).
fn write_v2(header: Header, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    match header {
        // The address family is unspecified, and no addresses follow.
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

    fn proxy(version: ProxyVersion, announced: &[&str]) -> ProxyProtocol {
        let announced: Vec<_> = announced.iter().map(|text| text.parse().unwrap()).collect();
        ProxyProtocol::new(version, AddressList::new(&announced).unwrap())
    }

    fn header(proxy: &ProxyProtocol, peer: &str, local: Option<&str>, connection: u64) -> Vec<u8> {
        let peer = match peer.parse() {
            Ok(address) => Peer::Tcp(address),
            Err(_) => Peer::Unix(peer.into()),
        };
        let ends = ConnectionEnds {
            peer: &peer,
            local: local.map(|local| local.parse().unwrap()),
            port: 443,
        };
        let selector = SourceSelector {
            connection,
            user: 0,
            seed: 0,
        };
        let mut out = b"before".to_vec();
        proxy.write(ends, selector, SourceOrder::RoundRobin, &mut out);
        out.split_off(6)
    }

    fn line(announced: &[&str], peer: &str, local: Option<&str>, connection: u64) -> String {
        let header = header(&proxy(ProxyVersion::V1, announced), peer, local, connection);
        assert!(header.len() <= 107);
        String::from_utf8(header).unwrap()
    }

    #[test]
    fn version_1_is_a_line() {
        let own = Some("127.0.0.1:5555");
        for (announced, peer, local, expected) in [
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
            assert_eq!(line(announced, peer, local, 0), expected);
        }
    }

    #[test]
    fn given_addresses_are_used_in_turn_with_new_ports() {
        let announced = ["10.0.0.1-10.0.0.2", "fd00::5"];
        let header_of = |connection| line(&announced, "/s", None, connection);
        let start = |connection, expected: &str| {
            let line = header_of(connection);
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
