//! Reasons why a load can't use AF_XDP.

use std::fmt;
use std::io;
use std::net::IpAddr;

use crate::address_range::AddressRange;
use crate::filter::FilterSpec;

/// Reason why a load can't use AF_XDP on an interface.
#[derive(Debug)]
pub enum XdpError {
    /// The process lacks a capability (capabilities(7)).
    Capability(&'static str),
    /// The kernel is too old. Contains its version.
    Kernel(String),
    /// No interface has the given name.
    NoInterface(String),
    /// The interface is down.
    Down(String),
    /// The interface is not Ethernet.
    NotEthernet(String),
    /// The MTU of the interface is less than IPv6 requires (RFC 8200 §5).
    Mtu(String, u32),
    /// Another XDP program is attached to the interface. Contains the name of the interface and the
    /// ID of the program.
    ProgramAttached(String, u32),
    /// The interface has no address of the target's family.
    NoAddress(String, IpAddr),
    /// Some source addresses are outside the interface's subnets.
    OutsideSubnet {
        /// Name of the interface.
        interface: String,
        /// Source addresses of the load.
        range: AddressRange,
        /// List of the interface's subnets.
        subnets: String,
    },
    /// A source address can't be the sender of packets on the link.
    UnusableSource {
        /// Source addresses of the load.
        range: AddressRange,
        /// The address among them.
        address: IpAddr,
        /// Kind of the address, such as `a loopback address`.
        kind: &'static str,
    },
    /// The kernel's route to the target uses another interface, or there is no route to the target.
    OtherRoute {
        /// Name of the interface.
        interface: String,
        /// Address of the target.
        target: IpAddr,
        /// Name of the interface that the route uses; `None` if there is no route.
        route: Option<String>,
    },
    /// The next hop did not respond to ARP or neighbor discovery.
    NoNeighbor {
        /// Name of the interface.
        interface: String,
        /// Address of the next hop.
        next_hop: IpAddr,
    },
    /// More workers than receive queues were requested.
    Queues {
        /// Name of the interface.
        interface: String,
        /// Number of receive queues of the interface.
        queues: u32,
        /// Number of requested workers.
        workers: u32,
    },
    /// The load has too many ranges of source addresses.
    Ranges,
    /// The operating system refused a step. Contains a description of the step and the error.
    System(&'static str, io::Error),
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XdpError::Capability(name) => write!(
                f,
                "AF_XDP needs the capability {name}, which this process lacks (run prony as \
                 root, or give the program CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF)"
            ),
            XdpError::Kernel(version) => write!(
                f,
                "a load over AF_XDP needs Linux 5.11 or later, and this kernel is {version}"
            ),
            XdpError::NoInterface(name) => write!(
                f,
                "there is no interface {name} in this network namespace (`ip link` lists the \
                 interfaces)"
            ),
            XdpError::Down(name) => write!(f, "{name} is down (ip link set {name} up)"),
            XdpError::NotEthernet(name) => write!(
                f,
                "{name} is not an Ethernet interface; use the interface that leads to the server, \
                 or kernel sockets for loopback targets"
            ),
            XdpError::Mtu(name, mtu) => write!(
                f,
                "the MTU of {name} is {mtu}, and a load needs at least 1280 (ip link set {name} mtu \
                 1500)"
            ),
            XdpError::ProgramAttached(name, program) => write!(
                f,
                "{name} already has an XDP program (ID {program}), which would be replaced; detach \
                 it (ip link set {name} xdp off), or use another interface"
            ),
            XdpError::NoAddress(..)
            | XdpError::OutsideSubnet { .. }
            | XdpError::UnusableSource { .. }
            | XdpError::OtherRoute { .. }
            | XdpError::NoNeighbor { .. } => self.fmt_route(f),
            XdpError::Queues {
                interface,
                queues,
                workers,
            } => write!(
                f,
                "{interface} has {queues} receive queue{}, and {workers} workers need one each; use \
                 at most {queues} threads, or add queues (ethtool -L {interface})",
                if *queues == 1 { "" } else { "s" },
            ),
            XdpError::Ranges => write!(
                f,
                "a load can have at most {} ranges of source addresses; merge some of them",
                FilterSpec::RANGES_MAX
            ),
            XdpError::System(step, error) => write!(f, "{step}: {error}"),
        }
    }
}

impl XdpError {
    /// Writes an error about the addresses of a load or the routes to its targets.
    fn fmt_route(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            XdpError::NoAddress(name, target) => write!(
                f,
                "{name} has no {} address from which to reach {target}; add one, or give source \
                 addresses",
                match target {
                    IpAddr::V4(_) => "IPv4",
                    IpAddr::V6(_) => "global IPv6",
                }
            ),
            XdpError::OutsideSubnet {
                interface,
                range,
                subnets,
            } => write!(
                f,
                "{range} is outside the subnets of {interface} ({subnets}), so responses would \
                    not come back; use addresses in these subnets"
            ),
            XdpError::UnusableSource {
                range,
                address,
                kind,
            } if range.first == range.last => write!(
                f,
                "{address} is {kind}, so no responses would come back; use another source address"
            ),
            XdpError::UnusableSource {
                range,
                address,
                kind,
            } => write!(
                f,
                "the source addresses {range} contain {address}, which is {kind}; leave it out"
            ),
            XdpError::OtherRoute {
                interface,
                target,
                route: Some(route),
            } => write!(
                f,
                "{target} is not reached through {interface}: its route uses {route}; use that \
                 interface, or change the route (ip route get {target})"
            ),
            XdpError::OtherRoute {
                interface, target, ..
            } => write!(
                f,
                "{target} is not reached through {interface}: there is no route to it (ip route get \
                 {target})"
            ),
            XdpError::NoNeighbor {
                interface,
                next_hop,
            } => write!(
                f,
                "{next_hop} does not respond to {} on {interface}; check that it is up, or give its \
                 MAC address",
                match next_hop {
                    IpAddr::V4(_) => "ARP",
                    IpAddr::V6(_) => "neighbor discovery",
                }
            ),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for XdpError {}
