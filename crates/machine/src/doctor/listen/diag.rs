//! Reads the kernel's list of listening sockets over netlink (sock_diag(7)), as ss(8) does.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use prony_xdp::netlink;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// TCP_LISTEN as a bit of the states to list.
const LISTENING: u32 = 1 << 10;

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listener {
    /// TCP address, or `unix:` followed by a path.
    pub(super) address: String,
    /// Number of connections that are waiting to be accepted.
    pub(super) waiting: u32,
    /// Maximum number of connections that can wait to be accepted.
    pub(super) backlog: u32,
    /// The inode of the socket.
    pub(super) inode: u32,
}

/// Runs a function on a new thread in a process's network namespace. If that is prony's own
/// namespace, runs the function on the calling thread, which requires no permission.
pub(super) fn in_network_of<T: Send>(
    pid: i32,
    read: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let theirs = format!("/proc/{pid}/ns/net");
    if std::fs::read_link(&theirs)? == std::fs::read_link("/proc/self/ns/net")? {
        return read();
    }
    let namespace = File::open(theirs)?;
    std::thread::scope(|scope| {
        let entered = scope.spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            read()
        });
        let failed = || {
            Err(io::Error::other(
                "the thread in the server's network namespace ended",
            ))
        };
        entered.join().unwrap_or_else(|_| failed())
    })
}

/// Listening sockets of a network namespace.
#[derive(Debug)]
pub(super) struct ListenerList {
    /// Sockets that the kernel listed.
    pub(super) listeners: Vec<Listener>,
    /// Error that occurred when listing the UNIX sockets; `None` if they were listed. Some kernels
    /// list only TCP sockets.
    pub(super) without_unix: Option<io::Error>,
}

/// Lists the listening sockets of a process's network namespace.
pub(super) fn listeners_of(pid: i32) -> io::Result<ListenerList> {
    in_network_of(pid, || {
        let mut listeners = tcp(libc::AF_INET)?;
        listeners.extend(tcp(libc::AF_INET6)?);
        let without_unix = match unix() {
            Ok(unix) => {
                listeners.extend(unix);
                None
            }
            Err(error) => Some(error),
        };
        Ok(ListenerList {
            listeners,
            without_unix,
        })
    })
}

/// Lists the TCP sockets of an address family.
fn tcp(family: i32) -> io::Result<Vec<Listener>> {
    // `inet_diag_req_v2`: family, protocol, extensions and states, then a socket's identity, which
    // is zero for all sockets.
    let mut request = [0; 56];
    request[0] = family as u8;
    request[1] = libc::IPPROTO_TCP as u8;
    request[4..8].copy_from_slice(&LISTENING.to_ne_bytes());
    let found = netlink::sockets(&request)?;
    Ok(found.iter().filter_map(|body| of_tcp(body)).collect())
}

/// Lists the UNIX sockets.
fn unix() -> io::Result<Vec<Listener>> {
    /// UDIAG_SHOW_NAME and UDIAG_SHOW_RQLEN.
    const SHOWN: u32 = 0x01 | 0x10;
    // `unix_diag_req`: family, protocol, states, inode, attributes to return and cookie.
    let mut request = [0; 24];
    request[0] = libc::AF_UNIX as u8;
    request[4..8].copy_from_slice(&LISTENING.to_ne_bytes());
    request[12..16].copy_from_slice(&SHOWN.to_ne_bytes());
    request[16..24].fill(0xff);
    let found = netlink::sockets(&request)?;
    Ok(found.iter().filter_map(|body| of_unix(body)).collect())
}

/// Returns the number at this position of a message.
fn number(body: &[u8], at: usize) -> Option<u32> {
    let bytes = body.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

/// Parses an `inet_diag_msg`.
fn of_tcp(body: &[u8]) -> Option<Listener> {
    let ip = match i32::from(*body.first()?) {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(*body.get(8..)?.first_chunk::<4>()?)),
        _ => IpAddr::from(Ipv6Addr::from(*body.get(8..)?.first_chunk::<16>()?)),
    };
    let port = u16::from_be_bytes(*body.get(4..)?.first_chunk()?);
    Some(Listener {
        address: SocketAddr::new(ip, port).to_string(),
        waiting: number(body, 56)?,
        backlog: number(body, 60)?,
        inode: number(body, 68)?,
    })
}

/// Parses a `unix_diag_msg` with its attributes.
fn of_unix(body: &[u8]) -> Option<Listener> {
    /// Size of the message's fixed part.
    const FIXED: usize = 16;
    /// UNIX_DIAG_NAME and UNIX_DIAG_RQLEN.
    const NAME: u16 = 0;
    const QUEUES: u16 = 4;
    let value = |kind| netlink::attributes(body, FIXED).find(|(found, _)| *found == kind);
    let name = value(NAME).map(|(_, name)| match name {
        // The name of an abstract socket begins with a zero byte.
        [0, name @ ..] => format!("@{}", String::from_utf8_lossy(name)),
        path => String::from_utf8_lossy(path)
            .trim_end_matches('\0')
            .to_owned(),
    });
    let (_, queues) = value(QUEUES)?;
    Some(Listener {
        address: format!("unix:{}", name.unwrap_or_default()),
        waiting: number(queues, 0)?,
        backlog: number(queues, 4)?,
        inode: number(body, 4)?,
    })
}
