//! Checks before a load over AF_XDP, and the results of these checks.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use prony_xdp::{AddressRange, FilterSpec, Interface, MacAddress, NextHop, XdpError};
use rustix::time::{ClockId, clock_gettime};

use crate::socket::local;

/// Lowest local port used with source addresses that are assigned to this machine. Services often
/// use lower ports.
const SHARED_PORTS_MIN: u16 = 10_000;
/// Lowest local port used with source addresses that only the load uses.
const OWN_PORTS_MIN: u16 = 1024;

/// Settings of a load over AF_XDP.
#[derive(Debug, Clone)]
pub(crate) struct XdpOptions {
    pub(crate) interface: String,
    /// MAC address of the next hop; `None` to ask the kernel.
    pub(crate) gateway_mac: Option<MacAddress>,
    /// True if workers spin instead of sleeping.
    pub(crate) busy_poll: bool,
}

/// The setup of a load over AF_XDP, whose interface and addresses have been checked.
#[derive(Debug, Clone)]
pub(crate) struct XdpSetup {
    pub(super) options: XdpOptions,
    pub(super) interface: Interface,
    pub(super) filter: FilterSpec,
    pub(super) targets: Vec<SocketAddr>,
}

impl XdpSetup {
    /// Checks everything that can be checked without changing the system. Without sources, the
    /// interface's own addresses are used.
    ///
    /// # Errors
    ///
    /// The first requirement that is not met.
    pub(crate) fn check(
        options: XdpOptions,
        targets: Vec<SocketAddr>,
        sources: &[AddressRange],
    ) -> Result<XdpSetup, XdpError> {
        let interface = Interface::find(&options.interface)?;
        interface.check()?;
        let mut own = sources.to_vec();
        let peers: Vec<IpAddr> = targets.iter().map(SocketAddr::ip).collect();
        for source in sources {
            interface.check_source(*source, &peers)?;
        }
        for target in &targets {
            NextHop::check(&interface, target.ip())?;
            let has_source = own
                .iter()
                .any(|range| range.first.is_ipv4() == target.is_ipv4());
            if !has_source {
                let source = NextHop::default_source(&interface, target.ip())?;
                own.push(AddressRange::single(source));
            }
        }
        if own.len() > FilterSpec::RANGES_MAX {
            return Err(XdpError::Ranges);
        }
        let foreign = own.iter().flat_map(|range| interface.foreign(*range));
        let answered: Vec<AddressRange> = foreign.collect();
        let filter = FilterSpec {
            ports: if answered == own {
                OWN_PORTS_MIN..=u16::MAX
            } else {
                shared_ports(local::local_ports().map(local::LocalPorts::ends))
            },
            sources: own,
            answered,
        };
        Ok(XdpSetup {
            options,
            interface,
            filter,
            targets,
        })
    }

    /// Returns the maximum number of workers.
    pub(crate) fn workers_max(&self) -> u32 {
        self.interface.workers_max()
    }

    /// Returns the number of local ports per source address.
    pub(crate) fn port_count(&self) -> u64 {
        self.filter.ports.len() as u64
    }
}

/// Returns local ports that the kernel doesn't choose for its own connections: the ports below or
/// above the kernel's range, whichever are more. If the kernel's range covers nearly all ports,
/// returns a part of that range.
fn shared_ports(kernel: Option<RangeInclusive<u16>>) -> RangeInclusive<u16> {
    const FEW: usize = 256;
    let Some(kernel) = kernel else {
        return SHARED_PORTS_MIN..=u16::MAX;
    };
    let below = SHARED_PORTS_MIN..=kernel.start().saturating_sub(1);
    let above = kernel.end().saturating_add(1)..=u16::MAX;
    let [below_count, above_count] = [&below, &above].map(|range| range.len());
    match () {
        () if below_count.max(above_count) < FEW => SHARED_PORTS_MIN..=u16::MAX,
        () if below_count >= above_count => below,
        () => above,
    }
}

/// Returns the number of milliseconds since the machine started.
pub(super) fn monotonic_millis() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

/// Returns a random number.
pub(super) fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_outside_of_the_kernels_range() {
        assert_eq!(shared_ports(Some(32_768..=60_999)), 10_000..=32_767);
        assert_eq!(shared_ports(Some(10_000..=30_000)), 30_001..=65_535);
        assert_eq!(shared_ports(Some(1_024..=65_535)), 10_000..=65_535);
        assert_eq!(shared_ports(Some(9_000..=65_500)), 10_000..=65_535);
        assert_eq!(shared_ports(None), 10_000..=65_535);
    }
}
