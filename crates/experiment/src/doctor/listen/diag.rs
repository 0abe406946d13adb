//! The kernel's list of listening sockets, by netlink (sock_diag(7)), as ss(8) reads it.

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

/// One answer of the kernel's is never longer.
const ANSWER_BYTES: usize = 64 << 10;

/// One listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listener {
    /// An address, or `unix:` and a path.
    pub(super) address: String,
    /// Connections that wait to be accepted.
    pub(super) waiting: u32,
    /// How many may.
    pub(super) backlog: u32,
    /// Which socket it is.
    pub(super) inode: u32,
}

/// Runs something in a process's network namespace, on a thread that ends with it. In prony's own
/// namespace no permission is needed.
pub(super) fn in_network_of<T: Send>(
    pid: i32,
    look: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let theirs = format!("/proc/{pid}/ns/net");
    if std::fs::read_link(&theirs)? == std::fs::read_link("/proc/self/ns/net")? {
        return look();
    }
    let namespace = File::open(theirs)?;
    std::thread::scope(|scope| {
        let entered = scope.spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            look()
        });
        let failed = || Err(io::Error::other("the thread that looked there ended"));
        entered.join().unwrap_or_else(|_| failed())
    })
}

/// What the kernel listed.
#[derive(Debug)]
pub(super) struct Listed {
    /// Every listening socket in the network namespace.
    pub(super) listeners: Vec<Listener>,
    /// Why UNIX sockets are not among them: some kernels list TCP alone.
    pub(super) without_unix: Option<io::Error>,
}

/// The listening sockets in a process's network namespace.
pub(super) fn listeners_of(pid: i32) -> io::Result<Listed> {
    in_network_of(pid, || {
        let mut listeners = ask(tcp(AF_INET, SocketId::new_v4()))?;
        listeners.extend(ask(tcp(AF_INET6, SocketId::new_v6()))?);
        let without_unix = match ask(unix()) {
            Ok(unix) => {
                listeners.extend(unix);
                None
            }
            Err(error) => Some(error),
        };
        Ok(Listed {
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

/// Asks the kernel for a list, in the thread's network namespace.
fn ask(request: SockDiagMessage) -> io::Result<Vec<Listener>> {
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
        let mut answer = Vec::with_capacity(ANSWER_BYTES);
        socket.recv(&mut answer, 0)?;
        if answer.is_empty() || read(&answer, &mut found)? {
            return Ok(found);
        }
    }
}

/// Reads one answer; whether it was the last.
fn read(answer: &[u8], found: &mut Vec<Listener>) -> io::Result<bool> {
    let mut rest = answer;
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
        // Messages begin at multiples of four.
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
