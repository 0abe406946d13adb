//! Reads the kernel's list of listening sockets over netlink (sock_diag(7)), as ss(8) does.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{self, ExtensionFlags, InetRequest, InetResponse, SocketId};
use netlink_packet_sock_diag::unix::nlas::{Nla, UnixDiagName};
use netlink_packet_sock_diag::unix::{self, ShowFlags, UnixRequest, UnixResponse};
use netlink_sys::{Socket, protocols::NETLINK_SOCK_DIAG};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Maximum length of a kernel reply in bytes.
const REPLY_BYTES_MAX: usize = 64 << 10;

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
        let mut listeners = request_list(tcp(AF_INET, SocketId::new_v4()))?;
        listeners.extend(request_list(tcp(AF_INET6, SocketId::new_v6()))?);
        let without_unix = match request_list(unix()) {
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

fn tcp(family: u8, socket_id: SocketId) -> SockDiagMessage {
    SockDiagMessage::InetRequest(InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: inet::StateFlags::LISTEN,
        socket_id,
    })
}

fn unix() -> SockDiagMessage {
    SockDiagMessage::UnixRequest(UnixRequest {
        state_flags: unix::StateFlags::LISTEN,
        inode: 0,
        show_flags: ShowFlags::NAME | ShowFlags::RQLEN,
        cookie: [0xff; 8],
    })
}

/// Requests a list of sockets in the network namespace of the calling thread.
fn request_list(request: SockDiagMessage) -> io::Result<Vec<Listener>> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    let mut message = NetlinkMessage::from(request);
    message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut found = Vec::new();
    loop {
        let mut reply = Vec::with_capacity(REPLY_BYTES_MAX);
        socket.recv(&mut reply, 0)?;
        if reply.is_empty() || read_reply(&reply, &mut found)? {
            return Ok(found);
        }
    }
}

/// Parses one reply from the kernel. Returns true if it was the last one.
fn read_reply(reply: &[u8], found: &mut Vec<Listener>) -> io::Result<bool> {
    let mut rest = reply;
    while !rest.is_empty() {
        let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest);
        let message = message.map_err(|error| io::Error::other(error.to_string()))?;
        match message.payload {
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => {
                found.push(of_tcp(&socket));
            }
            NetlinkPayload::InnerMessage(SockDiagMessage::UnixResponse(socket)) => {
                found.extend(of_unix(&socket));
            }
            _ => {}
        }
        // Messages are aligned to four bytes.
        let length = (message.header.length as usize).next_multiple_of(4).max(4);
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(false)
}

fn of_tcp(socket: &InetResponse) -> Listener {
    let id = &socket.header.socket_id;
    Listener {
        address: SocketAddr::new(id.source_address, id.source_port).to_string(),
        waiting: socket.header.recv_queue,
        backlog: socket.header.send_queue,
        inode: socket.header.inode,
    }
}

fn of_unix(socket: &UnixResponse) -> Option<Listener> {
    let name = socket.nlas.iter().find_map(|nla| match nla {
        Nla::Name(UnixDiagName::Pathname(path)) => Some(path.to_string_lossy().into_owned()),
        Nla::Name(UnixDiagName::Abstract(name)) => {
            Some(format!("@{}", String::from_utf8_lossy(name)))
        }
        _ => None,
    });
    Some(Listener {
        address: format!("unix:{}", name.unwrap_or_default()),
        waiting: socket.number_of_pending_connection()?,
        backlog: socket.max_number_of_pending_connection()?,
        inode: socket.header.inode,
    })
}
