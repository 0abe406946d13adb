//! Detects a QUIC server at an address without opening a connection.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Number of probes, and the time to wait for a response to each probe. The total time equals the
/// limit for a TCP connect.
const TRIES: usize = 3;
const TRY_TIMEOUT: Duration = Duration::from_millis(100);
/// Length of a probe. Servers ignore shorter datagrams with an unknown version (RFC 9000 §6.1).
const PROBE_BYTES: usize = 1200;
/// A version that no server supports (RFC 9000 §15).
const RESERVED_VERSION: [u8; 4] = [0x1a, 0x2a, 0x3a, 0x4a];
/// Form bit and fixed bit of a long header (RFC 9000 §17.2).
const LONG_HEADER: u8 = 0xc0;

/// Returns true if a QUIC server responds at an address. The probe has a version that no server
/// supports, so a server responds with a Version Negotiation packet and keeps no state (RFC 9000
/// §6). A server that doesn't respond in this way is considered missing.
pub(crate) fn has_server(address: &SocketAddr) -> bool {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let probe = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(TRY_TIMEOUT))?;
        let mut buffer = [0; PROBE_BYTES];
        let mut error = None;
        for _ in 0..TRIES {
            socket.send(&probe_datagram())?;
            match socket.recv(&mut buffer) {
                Ok(length) => return Ok(is_version_negotiation(&buffer[..length])),
                // A datagram or its response may be lost. If no program listens at the port, the
                // system reports an error.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => return Err(e),
                Err(e) => error = Some(e),
            }
        }
        error.map_or(Ok(false), Err)
    };
    probe().unwrap_or(false)
}

/// Creates a probe: a long header with an unknown version and two identifiers of 8 bytes, padded
/// with zeros.
fn probe_datagram() -> Vec<u8> {
    let mut datagram = vec![LONG_HEADER];
    datagram.extend(RESERVED_VERSION);
    for identifier in [b"prony-to", b"prony-of"] {
        datagram.push(identifier.len() as u8);
        datagram.extend(identifier);
    }
    datagram.resize(PROBE_BYTES, 0);
    datagram
}

/// Returns true for a Version Negotiation packet (RFC 9000 §17.2.1).
fn is_version_negotiation(datagram: &[u8]) -> bool {
    matches!(datagram, [first, 0, 0, 0, 0, ..] if first & 0x80 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a server that sends `response` to the first datagram.
    fn server(response: &'static [u8]) -> (SocketAddr, std::thread::JoinHandle<Vec<u8>>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            let (length, from) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(response, from).unwrap();
            buffer[..length].to_vec()
        });
        (address, thread)
    }

    #[test]
    fn only_a_server_of_quic_is_found() {
        let (address, thread) = server(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!(has_server(&address));
        assert_eq!(thread.join().unwrap().len(), PROBE_BYTES);
        let (address, thread) = server(b"no such command");
        assert!(!has_server(&address));
        thread.join().unwrap();
        // Nothing listens at the address any more.
        assert!(!has_server(&address));
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(!has_server(&silent.local_addr().unwrap()));
    }
}
