//! Properties of a network interface.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::address_range::AddressRange;
use crate::error::XdpError;
use crate::ethernet::MacAddress;
use crate::ethtool::{self, Offloads, RssSettings};
use crate::netlink::{self, Request, RequestKind, attributes, encoded};

/// Messages and attributes of rtnetlink(7).
const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_ROUTE: u16 = 26;
/// Sizes in bytes of the fixed parts of messages about links and addresses.
const LINK_FIXED: usize = 16;
const ADDRESS_FIXED: usize = 8;

/// Number of checks for a program that is about to be detached, and the interval between two
/// checks.
const DETACH_CHECKS: u32 = 50;
const DETACH_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Smallest MTU that IPv6 allows, in bytes (RFC 8200 §5).
const MTU_MIN: u32 = 1280;
/// First Linux version that provides everything that a load needs.
const KERNEL_MIN: (u32, u32) = (5, 11);

/// Capabilities that a load requires, with their bits (capabilities(7)).
const CAPABILITIES: [(&str, u32); 3] =
    [("CAP_NET_ADMIN", 12), ("CAP_NET_RAW", 13), ("CAP_BPF", 39)];
/// The capability that includes CAP_BPF.
const CAP_SYS_ADMIN: u32 = 21;

/// An address of an interface, with the prefix length of its subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InterfaceAddress {
    interface: u32,
    address: IpAddr,
    prefix: u8,
}

/// XDP features of a driver (`enum netdev_xdp_act`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverFeatures {
    /// The driver can run XDP programs.
    pub native: bool,
    /// The driver can redirect packets.
    pub redirect: bool,
    /// The driver can exchange frames with AF_XDP sockets without copying them.
    pub zero_copy: bool,
}

/// A network interface in this thread's network namespace.
#[derive(Debug, Clone)]
pub struct Interface {
    name: String,
    index: u32,
    mac: MacAddress,
    mtu: u32,
    flags: u32,
    /// Hardware type of the interface (if_arp.h).
    hardware: u16,
    /// Number of receive queues that the driver has allocated.
    allocated_queues: u32,
    addresses: Vec<InterfaceAddress>,
}

impl Interface {
    /// Reads the properties of an interface.
    ///
    /// # Errors
    ///
    /// Returns an error if no interface has this name, or if the kernel can't describe it.
    pub fn find(name: &str) -> Result<Interface, XdpError> {
        let system = |error| XdpError::System("reading the interface", error);
        let missing = || XdpError::NoInterface(name.to_owned());
        let index = index_of(name).ok_or_else(missing)?;
        let link = link(index).map_err(system)?;
        let mut interface = Interface {
            name: name.to_owned(),
            index,
            mac: MacAddress([0; 6]),
            mtu: 0,
            flags: netlink::u32_value(link.get(8..).unwrap_or_default()).unwrap_or(0),
            hardware: link
                .get(2..)
                .and_then(|bytes| bytes.first_chunk())
                .map_or(0, |bytes| u16::from_ne_bytes(*bytes)),
            allocated_queues: 1,
            addresses: addresses().map_err(system)?,
        };
        for (kind, value) in attributes(&link, LINK_FIXED) {
            match (kind, netlink::u32_value(value)) {
                (1, _) => {
                    if let Ok(mac) = <[u8; 6]>::try_from(value) {
                        interface.mac = MacAddress(mac);
                    }
                }
                (4, Some(mtu)) => interface.mtu = mtu,
                (32, Some(queues)) => interface.allocated_queues = queues,
                _ => {}
            }
        }
        Ok(interface)
    }

    /// Checks if AF_XDP can be used on this interface: capabilities, kernel, link, MTU, and other
    /// programs. Changes nothing.
    ///
    /// # Errors
    ///
    /// Returns the first requirement that is not met.
    pub fn check(&self) -> Result<(), XdpError> {
        self.obstacles().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns all reasons why AF_XDP can't be used on this interface.
    pub fn obstacles(&self) -> Vec<XdpError> {
        let name = || self.name.clone();
        let mut obstacles = Vec::new();
        obstacles.extend(check_capabilities().err());
        obstacles.extend(check_kernel(&kernel_release()).err());
        if self.hardware != libc::ARPHRD_ETHER || !self.mac.is_unicast() {
            obstacles.push(XdpError::NotEthernet(name()));
        }
        if self.flags & libc::IFF_UP as u32 == 0 {
            obstacles.push(XdpError::Down(name()));
        }
        if self.mtu < MTU_MIN {
            obstacles.push(XdpError::Mtu(name(), self.mtu));
        }
        match self.lasting_program() {
            Ok(None) => {}
            Ok(Some(program)) => obstacles.push(XdpError::ProgramAttached(name(), program)),
            Err(error) => obstacles.push(XdpError::System("reading the interface", error)),
        }
        obstacles
    }

    /// Returns the XDP features of the driver; `None` if the kernel doesn't report them (before
    /// Linux 6.3).
    pub fn driver_features(&self) -> Option<DriverFeatures> {
        /// Command and attributes of the generic netlink family `netdev`.
        const GET_DEVICE: u8 = 1;
        const INTERFACE: u16 = 1;
        const FEATURES: u16 = 3;
        let asked = (INTERFACE, &self.index.to_ne_bytes()[..]);
        let found = netlink::generic("netdev", GET_DEVICE, asked).ok()?;
        let mut attributes = attributes(&found, netlink::GENERIC_FIXED);
        let (_, value) = attributes.find(|(kind, _)| *kind == FEATURES)?;
        let bits = u64::from_ne_bytes(*value.first_chunk()?);
        Some(DriverFeatures {
            native: bits & 1 != 0,
            redirect: bits & 2 != 0,
            zero_copy: bits & 8 != 0,
        })
    }

    /// Returns the name of the interface, such as `eth0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the index of the interface in this network namespace.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Returns the MAC address of the interface.
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    /// Returns the maximum size of an IP packet in bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Returns the number of receive queues in use.
    pub fn queues(&self) -> u32 {
        match ethtool::channels(&self.name) {
            Some((receive, _)) if receive > 0 => receive,
            _ => self.allocated_queues.max(1),
        }
    }

    /// Returns the maximum number of workers, each of which needs a separate receive queue and
    /// transmit queue.
    pub fn workers_max(&self) -> u32 {
        match ethtool::channels(&self.name) {
            Some((receive, transmit)) if receive.min(transmit) > 0 => receive.min(transmit),
            _ => self.allocated_queues.max(1),
        }
    }

    /// Returns the name of the driver, if the driver reports it.
    pub fn driver(&self) -> Option<String> {
        ethtool::driver(&self.name)
    }

    /// Returns the offloads, some of which affect the packets that AF_XDP receives.
    pub fn offloads(&self) -> Offloads {
        ethtool::offloads(&self.name)
    }

    /// Returns the hash that distributes packets among the receive queues, if the driver reports
    /// it.
    pub fn rss(&self) -> Option<RssSettings> {
        ethtool::rss(&self.name)
    }

    /// Returns true if the kernel has this address, on any interface.
    pub fn kernel_has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|it| it.address == address)
    }

    /// Returns the parts of a range without the kernel's own addresses.
    pub fn foreign(&self, range: AddressRange) -> Vec<AddressRange> {
        let own: Vec<IpAddr> = self.addresses.iter().map(|it| it.address).collect();
        range.without(&own)
    }

    /// Checks if responses from the targets to a range of source addresses reach this interface.
    /// This is the case if the range is within one of the interface's subnets, or if the kernel has
    /// a local route to it.
    ///
    /// # Errors
    ///
    /// Returns an error if responses don't reach the interface, which contains the subnets, or if
    /// the range has an address from which nothing can be sent to the targets.
    pub fn check_source(&self, range: AddressRange, targets: &[IpAddr]) -> Result<(), XdpError> {
        let own = || {
            self.addresses
                .iter()
                .filter(|it| it.interface == self.index)
        };
        let contains = |subnet: &InterfaceAddress| {
            is_in(range.first, subnet.address, subnet.prefix)
                && is_in(range.last, subnet.address, subnet.prefix)
        };
        if own().any(contains) || [range.first, range.last].into_iter().all(is_local) {
            let subnets = self.addresses.iter();
            let subnets = subnets.map(|subnet| (subnet.address, subnet.prefix));
            if let Some((address, kind)) = unusable(range, targets, subnets) {
                return Err(XdpError::UnusableSource {
                    range,
                    address,
                    kind,
                });
            }
            return Ok(());
        }
        let subnets: Vec<String> = own()
            .map(|it| format!("{}/{}", it.address, it.prefix))
            .collect();
        Err(XdpError::OutsideSubnet {
            interface: self.name.clone(),
            range,
            subnets: if subnets.is_empty() {
                "none".to_owned()
            } else {
                subnets.join(", ")
            },
        })
    }

    /// Returns the ID of an XDP program that stays attached to this interface for a second, if
    /// there is one.
    ///
    /// The program of a load that has just ended stays attached until the last copy of its file
    /// descriptor is closed. A process that is being started holds a copy for a moment.
    fn lasting_program(&self) -> io::Result<Option<u32>> {
        for _ in 0..DETACH_CHECKS {
            if self.attached_program()?.is_none() {
                return Ok(None);
            }
            std::thread::sleep(DETACH_CHECK_INTERVAL);
        }
        self.attached_program()
    }

    /// Returns the ID of the XDP program that is attached to this interface, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel doesn't report the interface.
    pub fn attached_program(&self) -> io::Result<Option<u32>> {
        const XDP: u16 = 43;
        let link = link(self.index)?;
        let nested = attributes(&link, LINK_FIXED).find(|(kind, _)| *kind == XDP);
        let Some((_, nested)) = nested else {
            return Ok(None);
        };
        let (mut is_attached, mut program) = (false, 0);
        for (kind, value) in attributes(nested, 0) {
            match kind {
                2 => is_attached = value.first().is_some_and(|mode| *mode != 0),
                // Attributes for the ID of a program, in any mode or in a specific mode.
                4..=7 => program = program.max(netlink::u32_value(value).unwrap_or(0)),
                _ => {}
            }
        }
        Ok(is_attached.then_some(program))
    }
}

fn index_of(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: the pointer refers to a string that ends with zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// Requests the kernel's message about a link.
fn link(index: u32) -> io::Result<Vec<u8>> {
    let mut fixed = [0; LINK_FIXED];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut links = Request::new(&fixed).send(GET_LINK, RequestKind::Get)?;
    links.pop().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns true if the kernel has a local route to an address.
fn is_local(address: IpAddr) -> bool {
    /// Value of a local route (RTN_LOCAL) in byte 7 of the fixed part, which is the type of the
    /// route.
    const LOCAL: u8 = 2;
    let (family, bytes) = encoded(address);
    let mut fixed = [0; 12];
    fixed[0] = family;
    fixed[1] = bytes.len() as u8 * 8;
    let request = Request::new(&fixed).attribute(1, &bytes);
    let routes = request.send(GET_ROUTE, RequestKind::Get);
    routes.is_ok_and(|routes| routes.first().and_then(|it| it.get(7)) == Some(&LOCAL))
}

/// Returns all addresses of this network namespace.
fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let messages = Request::new(&[0; ADDRESS_FIXED]).send(GET_ADDRESS, RequestKind::Dump)?;
    let addresses = messages.iter().filter_map(|message| {
        let interface = netlink::u32_value(message.get(4..)?)?;
        let prefix = *message.get(1)?;
        let (mut address, mut local) = (None, None);
        for (kind, value) in attributes(message, ADDRESS_FIXED) {
            match kind {
                1 => address = netlink::address(value),
                2 => local = netlink::address(value),
                _ => {}
            }
        }
        Some(InterfaceAddress {
            interface,
            address: local.or(address)?,
            prefix,
        })
    });
    Ok(addresses.collect())
}

/// Returns true if an address is in the subnet of another address.
fn is_in(address: IpAddr, other: IpAddr, prefix: u8) -> bool {
    let prefix = u32::from(prefix);
    match (address, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= prefix,
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= prefix,
        _ => false,
    }
}

/// Returns the first address of a range that can't be the sender of packets to the targets, and its
/// kind.
fn unusable(
    range: AddressRange,
    targets: &[IpAddr],
    subnets: impl Iterator<Item = (IpAddr, u8)>,
) -> Option<(IpAddr, &'static str)> {
    let mut special: Vec<(IpAddr, &'static str)> = targets
        .iter()
        .map(|target| (*target, "the server's own address"))
        .collect();
    for (address, prefix) in subnets {
        // Subnets of two addresses have neither (RFC 3021).
        if let (IpAddr::V4(address), 0..31) = (address, prefix) {
            let hosts = u32::MAX >> prefix;
            let network = Ipv4Addr::from_bits(address.to_bits() & !hosts);
            let broadcast = Ipv4Addr::from_bits(address.to_bits() | hosts);
            special.push((network.into(), "the address of a network"));
            special.push((broadcast.into(), "a broadcast address"));
        }
    }
    let mut special = special.into_iter();
    if let Some(found) = special.find(|(address, _)| range.contains(*address)) {
        return Some(found);
    }
    let kind = |address: IpAddr| match address {
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_multicast() => Some("a multicast address"),
        _ if address.is_unspecified() => Some("the unspecified address"),
        IpAddr::V4(Ipv4Addr::BROADCAST) => Some("a broadcast address"),
        _ => None,
    };
    // Ranges that cross the bounds of these address blocks are outside every subnet.
    let mut ends = [range.first, range.last].into_iter();
    ends.find_map(|address| Some((address, kind(address)?)))
}

fn check_capabilities() -> Result<(), XdpError> {
    let held = effective_capabilities()
        .map_err(|error| XdpError::System("reading the capabilities", error))?;
    let has = |bit: u32| held & (1 << bit) != 0;
    match CAPABILITIES
        .iter()
        .find(|(name, bit)| !(has(*bit) || *name == "CAP_BPF" && has(CAP_SYS_ADMIN)))
    {
        Some((name, _)) => Err(XdpError::Capability(name)),
        None => Ok(()),
    }
}

/// Returns the effective capabilities of this thread (capget(2)).
fn effective_capabilities() -> io::Result<u64> {
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = [VERSION_3, 0];
    // The data consists of the low words of the effective, permitted and inheritable capabilities,
    // followed by their high words.
    let mut data = [0u32; 6];
    // SAFETY: the header and the data have the layout of version 3.
    let result = unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), data.as_mut_ptr()) };
    match result {
        0 => Ok(u64::from(data[0]) | u64::from(data[3]) << 32),
        _ => Err(io::Error::last_os_error()),
    }
}

fn kernel_release() -> String {
    // SAFETY: a structure of characters, for which zero is valid.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes the structure.
    unsafe { libc::uname(&raw mut name) };
    let release = name.release.iter().take_while(|byte| **byte != 0);
    release.map(|byte| *byte as u8 as char).collect()
}

fn check_kernel(release: &str) -> Result<(), XdpError> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= KERNEL_MIN => Ok(()),
        _ => Err(XdpError::Kernel(release.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_can_not_send_are_found() {
        let find = |first: &str, last: &str| {
            let [first, last] = [first, last].map(|it| it.parse::<IpAddr>().unwrap());
            let targets = ["10.9.0.2", "fd09::2"].map(|it| it.parse().unwrap());
            let subnets = [
                ("10.9.0.1", 16),
                ("127.0.0.1", 8),
                ("10.3.0.2", 31),
                ("fd09::1", 64),
            ];
            let subnets = subnets.map(|(address, prefix)| (address.parse().unwrap(), prefix));
            let found = unusable(AddressRange { first, last }, &targets, subnets.into_iter());
            found.map(|(address, kind)| (address.to_string(), kind))
        };
        for (first, last, address, kind) in [
            (
                "10.9.0.2",
                "10.9.0.2",
                "10.9.0.2",
                "the server's own address",
            ),
            (
                "10.9.0.1",
                "10.9.0.9",
                "10.9.0.2",
                "the server's own address",
            ),
            ("fd09::1", "fd09::9", "fd09::2", "the server's own address"),
            ("127.0.0.9", "127.0.0.9", "127.0.0.9", "a loopback address"),
            ("::1", "::1", "::1", "a loopback address"),
            (
                "10.9.0.0",
                "10.9.0.0",
                "10.9.0.0",
                "the address of a network",
            ),
            (
                "10.9.255.0",
                "10.9.255.255",
                "10.9.255.255",
                "a broadcast address",
            ),
            (
                "255.255.255.255",
                "255.255.255.255",
                "255.255.255.255",
                "a broadcast address",
            ),
            ("224.0.0.1", "224.0.0.1", "224.0.0.1", "a multicast address"),
            ("0.0.0.0", "0.0.0.0", "0.0.0.0", "the unspecified address"),
        ] {
            assert_eq!(
                find(first, last),
                Some((address.to_owned(), kind)),
                "{first}-{last}"
            );
        }
        for (first, last) in [
            ("10.9.0.3", "10.9.255.254"),
            ("10.3.0.2", "10.3.0.3"),
            ("fd09::", "fd09::1"),
            ("10.9.1.0", "10.9.1.255"),
        ] {
            assert_eq!(find(first, last), None, "{first}-{last}");
        }
    }

    #[test]
    fn old_kernels_are_refused() {
        for good in ["5.11.0", "5.11-rc1", "6.1.0-13-amd64", "10.0"] {
            assert!(check_kernel(good).is_ok(), "{good}");
        }
        for bad in ["5.10.209", "4.19.0", "", "x"] {
            assert!(check_kernel(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn subnets_contain_their_addresses() {
        let is = |address: &str, other: &str, prefix| {
            is_in(address.parse().unwrap(), other.parse().unwrap(), prefix)
        };
        assert!(is("10.0.3.9", "10.0.0.1", 22));
        assert!(!is("10.0.4.9", "10.0.0.1", 22));
        assert!(is("fd00::9", "fd00::1", 64) && !is("fd00:0:0:1::9", "fd00::1", 64));
        assert!(is("10.0.0.1", "10.0.0.1", 32) && !is("::1", "10.0.0.1", 0));
    }

    #[test]
    fn a_missing_interface_and_the_loopback_are_refused() {
        assert!(matches!(
            Interface::find("prony-none"),
            Err(XdpError::NoInterface(_))
        ));
        let loopback = Interface::find("lo").unwrap();
        assert!(loopback.kernel_has("127.0.0.1".parse().unwrap()));
        let refused = loopback.check().unwrap_err();
        assert!(
            matches!(refused, XdpError::NotEthernet(_) | XdpError::Capability(_)),
            "{refused}"
        );
    }
}
