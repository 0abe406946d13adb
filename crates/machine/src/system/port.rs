//! Selection of free ports, and detection of the process that occupies a port.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::Mutex;

use prony_plan::service::PortProtocol;

use super::process::PortHolder;

/// Ports that this process has handed out. A port is reused only when the range is exhausted,
/// because a server that has just ended leaves connections in TIME_WAIT, and because two hosts in
/// one process must not get the same port.
static HANDED_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Picks a port that is free at `address` for all given protocols; `None` if all ports are taken.
///
/// The port is below the kernel's range of source ports, so connections of the load can't occupy a
/// server's port.
#[must_use]
pub fn pick(address: IpAddr, protocols: &[PortProtocol]) -> Option<u16> {
    pick_where(&candidates(first_source_port()), |port| {
        let mut protocols = protocols.iter();
        protocols.all(|protocol| try_bind((address, port).into(), *protocol).is_ok())
    })
}

fn try_bind(address: SocketAddr, protocol: PortProtocol) -> io::Result<()> {
    match protocol {
        PortProtocol::Tcp => TcpListener::bind(address).map(drop),
        PortProtocol::Udp => UdpSocket::bind(address).map(drop),
    }
}

/// Picks a port for a service that is alone in its network namespace.
#[must_use]
pub fn pick_in_own_network() -> Option<u16> {
    pick_where(&candidates(first_source_port()), |_| true)
}

/// Lowest source port of connections on most systems.
const COMMON_FIRST_SOURCE_PORT: u16 = 32_768;

/// Picks a port on another machine, of which `is_free` knows the occupied ports.
pub(crate) fn pick_elsewhere(is_free: impl Fn(u16) -> bool) -> Option<u16> {
    pick_where(&candidates(COMMON_FIRST_SOURCE_PORT), is_free)
}

fn pick_where(range: &Range<u16>, is_free: impl Fn(u16) -> bool) -> Option<u16> {
    // Ignore poisoning, because no panic can leave the set in an inconsistent state.
    let mut taken = HANDED_OUT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if taken.len() >= range.len() {
        taken.clear();
    }
    // A random offset makes conflicts with other runs on this machine unlikely. It doesn't affect
    // results.
    let offset = RandomState::new().build_hasher().finish() as usize % range.len();
    let found = range
        .clone()
        .cycle_from(offset)
        .find(|port| !taken.contains(port) && is_free(*port))?;
    taken.insert(found);
    Some(found)
}

trait CycleFrom: Iterator<Item = u16> + Clone + Sized {
    /// Iterates once over all ports of the range, starting at an offset and wrapping around at the
    /// end.
    fn cycle_from(self, offset: usize) -> impl Iterator<Item = u16> {
        self.clone().skip(offset).chain(self.take(offset))
    }
}

impl CycleFrom for Range<u16> {}

/// Returns the range of ports to choose from. `first_source` is the kernel's first source port.
fn candidates(first_source: u16) -> Range<u16> {
    const PORT_MIN: u16 = 10_240;
    const PORTS_MIN: u16 = 1_024;
    if first_source >= PORT_MIN + PORTS_MIN {
        PORT_MIN..first_source
    } else {
        PORT_MIN..u16::MAX
    }
}

/// Returns the first port that the kernel uses as a source port.
fn first_source_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
    // Without the file, assume the kernel's default.
    range
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}

/// Checks that `address` is free for a listener.
///
/// # Errors
/// The port is in use. The error contains the process that uses the port, if it is visible.
pub fn check_free(address: SocketAddr, protocol: PortProtocol) -> Result<(), Option<PortHolder>> {
    match try_bind(address, protocol) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(holder(address, protocol)),
        // Other errors, such as a missing permission for a port below 1024, are reported by the
        // service.
        _ => Ok(()),
    }
}

/// Returns the process that has bound this address, or the wildcard address with the same port.
#[must_use]
pub fn holder(address: SocketAddr, protocol: PortProtocol) -> Option<PortHolder> {
    super::port_holder(address, protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_unique_and_no_source_ports() {
        let first_source = first_source_port();
        let mut seen = BTreeSet::new();
        for _ in 0..50 {
            let both = [PortProtocol::Tcp, PortProtocol::Udp];
            let port = pick(IpAddr::from([127, 0, 0, 1]), &both).unwrap();
            assert!(
                port < first_source || first_source < 12_000,
                "{port} is a source port"
            );
            assert!(seen.insert(port), "{port} was handed out twice");
        }
    }

    #[test]
    fn a_taken_port_is_not_picked() {
        let range = 20_000..20_004;
        assert_eq!(pick_where(&range, |port| port == 20_002), Some(20_002));
        assert_eq!(pick_where(&range, |_| false), None);
    }

    #[test]
    fn all_ports_as_source_ports_leave_candidates() {
        assert_eq!(candidates(1_024), 10_240..u16::MAX);
        assert_eq!(candidates(32_768), 10_240..32_768);
    }

    #[test]
    fn the_holder_of_a_port_is_named() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let taken = [
            (tcp.local_addr().unwrap(), PortProtocol::Tcp),
            (udp.local_addr().unwrap(), PortProtocol::Udp),
        ];
        // Children that other tests fork hold a copy of the sockets until they end.
        let until = |is_so: &dyn Fn() -> bool| {
            (0..3_000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                is_so()
            })
        };
        let own = i32::try_from(std::process::id()).unwrap();
        for (address, protocol) in taken {
            assert!(until(&|| {
                let holder = check_free(address, protocol).unwrap_err();
                holder.is_some_and(|holder| holder.pid == own)
            }));
        }
        drop((tcp, udp));
        for (address, protocol) in taken {
            assert!(until(&|| check_free(address, protocol).is_ok()));
        }
    }
}
