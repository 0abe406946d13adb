//! Free TCP ports, and who holds one that is taken.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::Mutex;

/// Who listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: i32,
    /// Its short name.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// Ports that this process has handed out. A server that has just ended leaves connections in
/// TIME_WAIT behind, and two hosts of one process must not meet, so none is handed out twice before
/// the range is used up.
static HANDED_OUT: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Picks a port that nobody listens on at `address`; `None` if there is none.
///
/// It lies below the range from which the kernel takes the source ports of connections, so that the
/// load can't occupy a server's port.
#[must_use]
pub fn pick(address: IpAddr) -> Option<u16> {
    pick_where(&candidates(first_source_port()), |port| {
        TcpListener::bind((address, port)).is_ok()
    })
}

/// Picks a port in a network of its own, where nobody else listens.
#[must_use]
pub fn pick_in_own_network() -> Option<u16> {
    pick_where(&candidates(first_source_port()), |_| true)
}

fn pick_where(range: &Range<u16>, is_free: impl Fn(u16) -> bool) -> Option<u16> {
    // A panic elsewhere can't have left the set half-changed.
    let mut taken = HANDED_OUT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if taken.len() >= range.len() {
        taken.clear();
    }
    // Runs on one machine begin at different ports; which ones matters to no result.
    let offset = RandomState::new().build_hasher().finish() as usize % range.len();
    let found = range
        .clone()
        .cycle_from(offset)
        .find(|port| !taken.contains(port) && is_free(*port))?;
    taken.insert(found);
    Some(found)
}

trait CycleFrom: Iterator<Item = u16> + Clone + Sized {
    /// All items once, beginning at an offset.
    fn cycle_from(self, offset: usize) -> impl Iterator<Item = u16> {
        self.clone().skip(offset).chain(self.take(offset))
    }
}

impl CycleFrom for Range<u16> {}

/// The ports to choose from, given the first one that the kernel uses as a source.
fn candidates(first_source: u16) -> Range<u16> {
    const LOWEST: u16 = 10_240;
    const ENOUGH: u16 = 1_024;
    if first_source >= LOWEST + ENOUGH {
        LOWEST..first_source
    } else {
        LOWEST..u16::MAX
    }
}

/// The first port that the kernel gives to connections without one.
fn first_source_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
    // FreeBSD's net.inet.ip.portrange.first is 49152 unless set otherwise.
    range
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}

/// Checks that `address` can be listened on right now.
///
/// # Errors
/// The holder of the port if the system tells, `None` inside otherwise.
pub fn check_free(address: SocketAddr) -> Result<(), Option<Holder>> {
    match TcpListener::bind(address) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(holder(address)),
        // Any other error (such as a port below 1024 without permission) is the service's to report.
        _ => Ok(()),
    }
}

/// Who listens on that address or on the wildcard address with the same port.
#[must_use]
pub fn holder(address: SocketAddr) -> Option<Holder> {
    super::system::port_holder(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_comes_twice_and_none_is_a_source_port() {
        let first_source = first_source_port();
        let mut seen = BTreeSet::new();
        for _ in 0..50 {
            let port = pick(IpAddr::from([127, 0, 0, 1])).unwrap();
            assert!(
                port < first_source || first_source < 12_000,
                "{port} may be taken by a connection"
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
    fn hosts_that_use_all_ports_as_sources_still_get_one() {
        assert_eq!(candidates(1_024), 10_240..u16::MAX);
        assert_eq!(candidates(32_768), 10_240..32_768);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_holder_of_a_port_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let holder = check_free(address)
            .unwrap_err()
            .expect("we may see our own sockets");
        assert_eq!(holder.pid, i32::try_from(std::process::id()).unwrap());
        drop(listener);
        assert_eq!(check_free(address), Ok(()));
    }
}
