//! The path to a target: its route and its next hop.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use crate::error::XdpError;
use crate::ethernet::MacAddress;
use crate::interface::Interface;
use crate::netlink::{self, Request, RequestKind, attributes, encoded};

/// Types of rtnetlink(7) messages.
const GET_ROUTE: u16 = 26;
const NEW_NEIGHBOR: u16 = 28;
const GET_NEIGHBOR: u16 = 30;
/// Sizes in bytes of the fixed parts of messages about routes and neighbors.
const ROUTE_FIXED: usize = 12;
const NEIGHBOR_FIXED: usize = 12;

/// States of a neighbor in which its MAC address is known: reachable, stale, delay, probe, no ARP
/// and permanent.
const KNOWN_STATES: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;
/// Flag that makes the kernel resolve a neighbor immediately (NTF_USE).
const FLAG_USE: u8 = 0x01;

/// Maximum number of checks while a neighbor is being resolved, and the interval between them. The
/// kernel gives up after three seconds.
const RESOLVE_CHECKS_MAX: u32 = 350;
const RESOLVE_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Number of checks between two requests to resolve a neighbor. The kernel forgets a request if the
/// interface was not ready or the neighbor's entry was removed.
const CHECKS_PER_REQUEST: u32 = 100;

/// The next hop from an interface to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// Address of the gateway or, without a gateway, of the target itself.
    pub address: IpAddr,
    /// MAC address of the next hop.
    pub mac: MacAddress,
    /// Source address that the kernel would use, if it has one.
    pub source: Option<IpAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Route {
    interface: Option<u32>,
    gateway: Option<IpAddr>,
    source: Option<IpAddr>,
}

impl NextHop {
    /// Checks that the kernel routes packets for `target` through `interface`. Changes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the route uses another interface, or if there is no route.
    pub fn check(interface: &Interface, target: IpAddr) -> Result<(), XdpError> {
        usable_route(interface, target).map(|_| ())
    }

    /// Returns the source address that the kernel would use for a target.
    ///
    /// # Errors
    ///
    /// Returns an error if the route uses another interface, or if the interface has no address of
    /// the target's family.
    pub fn default_source(interface: &Interface, target: IpAddr) -> Result<IpAddr, XdpError> {
        let route = usable_route(interface, target)?;
        route
            .source
            .ok_or_else(|| XdpError::NoAddress(interface.name().to_owned(), target))
    }

    /// Finds the next hop to a target. Uses the MAC address `mac` if it is given. Otherwise, if the
    /// kernel doesn't know the MAC address of the next hop, resolves it, which takes up to three
    /// seconds.
    ///
    /// # Errors
    ///
    /// Returns an error if the route uses another interface, or if the next hop doesn't respond.
    pub fn find(
        interface: &Interface,
        target: IpAddr,
        mac: Option<MacAddress>,
    ) -> Result<NextHop, XdpError> {
        let route = usable_route(interface, target)?;
        let address = route.gateway.unwrap_or(target);
        let mac = match mac {
            Some(mac) => mac,
            None => resolve(interface, address)?,
        };
        Ok(NextHop {
            address,
            mac,
            source: route.source,
        })
    }
}

/// Returns the route to a target, if the route uses the given interface.
fn usable_route(interface: &Interface, target: IpAddr) -> Result<Route, XdpError> {
    let found = route(target).unwrap_or_default();
    if found.interface == Some(interface.index()) {
        return Ok(found);
    }
    Err(XdpError::OtherRoute {
        interface: interface.name().to_owned(),
        target,
        route: found.interface.and_then(name_of),
    })
}

fn route(target: IpAddr) -> io::Result<Route> {
    let (family, bytes) = encoded(target);
    let mut fixed = [0; ROUTE_FIXED];
    fixed[0] = family;
    fixed[1] = bytes.len() as u8 * 8;
    let messages = Request::new(&fixed)
        .attribute(1, &bytes)
        .send(GET_ROUTE, RequestKind::Get)?;
    let mut route = Route::default();
    let Some(message) = messages.first() else {
        return Ok(route);
    };
    for (kind, value) in attributes(message, ROUTE_FIXED) {
        match kind {
            4 => route.interface = netlink::u32_value(value),
            5 => route.gateway = netlink::address(value),
            7 => route.source = netlink::address(value),
            // This is a gateway of another address family. The first two bytes are its family.
            18 => route.gateway = value.get(2..).and_then(netlink::address),
            _ => {}
        }
    }
    Ok(route)
}

fn name_of(interface: u32) -> Option<String> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the call requires.
    let found = unsafe { libc::if_indextoname(interface, name.as_mut_ptr()) };
    let bytes = name.iter().take_while(|byte| **byte != 0);
    (!found.is_null()).then(|| bytes.map(|byte| *byte as u8 as char).collect())
}

fn resolve(interface: &Interface, address: IpAddr) -> Result<MacAddress, XdpError> {
    for check in 0..RESOLVE_CHECKS_MAX {
        if let Ok(Some(mac)) = neighbor(interface.index(), address) {
            return Ok(mac);
        }
        if check % CHECKS_PER_REQUEST == 0 {
            let step = "resolving the next hop";
            use_neighbor(interface.index(), address)
                .map_err(|error| XdpError::System(step, error))?;
        }
        std::thread::sleep(RESOLVE_CHECK_INTERVAL);
    }
    Err(XdpError::NoNeighbor {
        interface: interface.name().to_owned(),
        next_hop: address,
    })
}

/// Creates the fixed part of a message about a neighbor.
fn neighbor_fixed(family: u8, interface: u32, flags: u8) -> [u8; NEIGHBOR_FIXED] {
    let mut fixed = [0; NEIGHBOR_FIXED];
    fixed[0] = family;
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    fixed[10] = flags;
    fixed
}

/// Returns the MAC address of a neighbor, if the kernel knows it.
fn neighbor(interface: u32, address: IpAddr) -> io::Result<Option<MacAddress>> {
    let (family, bytes) = encoded(address);
    let messages = Request::new(&neighbor_fixed(family, interface, 0))
        .attribute(1, &bytes)
        .send(GET_NEIGHBOR, RequestKind::Get)?;
    let found = messages.first().and_then(|message| {
        let state = u16::from_ne_bytes(*message.get(8..)?.first_chunk()?);
        let mut attributes = attributes(message, NEIGHBOR_FIXED);
        let (_, mac) = attributes.find(|(kind, _)| *kind == 2)?;
        let mac = MacAddress(mac.try_into().ok()?);
        (state & KNOWN_STATES != 0).then_some(mac)
    });
    Ok(found)
}

/// Makes the kernel resolve a neighbor.
fn use_neighbor(interface: u32, address: IpAddr) -> io::Result<()> {
    let (family, bytes) = encoded(address);
    Request::new(&neighbor_fixed(family, interface, FLAG_USE))
        .attribute(1, &bytes)
        .send(NEW_NEIGHBOR, RequestKind::Create)?;
    Ok(())
}
