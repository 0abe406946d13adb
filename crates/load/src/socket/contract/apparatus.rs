//! Listeners, keys and completions for the contract tests.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prony_record::Nanos;
use socket2::{Domain, SockAddr, Socket, Type};

use super::super::{ByteSockets, Completion, Key, Operation, Outgoing, Peer, Route, Sending};
use super::link::{at_listeners, listener_address};

/// Time after which a completion counts as lost. No assertion depends on its exact length.
pub(super) const COMPLETION_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Via {
    V4,
    V6,
    Unix,
}

/// A listener on an unused address.
pub(super) struct Listener {
    pub(super) socket: Socket,
    pub(super) peer: Peer,
    pub(super) _folder: tempfile::TempDir,
}

impl Listener {
    pub(super) fn new(via: Via) -> Listener {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (domain, address) = match via {
            Via::V4 => (Domain::IPV4, SockAddr::from(listener_address(via))),
            Via::V6 => (Domain::IPV6, SockAddr::from(listener_address(via))),
            Via::Unix => (Domain::UNIX, SockAddr::unix(&path).unwrap()),
        };
        let socket = at_listeners(|| Socket::new(domain, Type::STREAM, None).unwrap());
        socket.bind(&address).unwrap();
        socket.listen(16).unwrap();
        let peer = match via {
            Via::Unix => Peer::Unix(path),
            _ => Peer::Tcp(socket.local_addr().unwrap().as_socket().unwrap()),
        };
        Listener {
            socket,
            peer,
            _folder: folder,
        }
    }

    pub(super) fn accept(&self) -> Socket {
        let (socket, _) = self.socket.accept().unwrap();
        socket.set_read_timeout(Some(COMPLETION_TIMEOUT)).unwrap();
        socket
    }
}

/// Returns an address at which nothing listens. This is a path without a file, or a port that is
/// bound but not listening. The returned socket keeps the port bound.
pub(super) fn unused_address(via: Via) -> (Peer, Option<Socket>) {
    let domain = match via {
        Via::V4 => Domain::IPV4,
        Via::V6 => Domain::IPV6,
        Via::Unix => return (Peer::Unix(PathBuf::from("/nonexistent/socket")), None),
    };
    let socket = at_listeners(|| Socket::new(domain, Type::STREAM, None).unwrap());
    socket.bind(&SockAddr::from(listener_address(via))).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (Peer::Tcp(address), Some(socket))
}

pub(super) fn loopback(ip: &str) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), 0)
}

pub(super) fn key(index: u32, generation: u32) -> Key {
    Key { index, generation }
}

pub(super) fn to(peer: &Peer) -> Route<'_> {
    Route {
        server_name: None,
        peer,
        source: None,
        buffers: None,
        nodelay: true,
        keepalive: true,
    }
}

/// A completion, including the bytes that it delivers.
#[derive(Debug, PartialEq)]
pub(super) enum Observed {
    Connected(Key),
    Sent(Key, Option<Vec<u8>>),
    Received(Key, Vec<u8>),
    Closed(Key),
    Failed(Key, Operation, Option<i32>),
}

pub(super) fn poll_once<S: ByteSockets<'static>>(sockets: &mut S) -> Option<Observed> {
    Some(match sockets.next()? {
        Completion::Connected(key) => Observed::Connected(key),
        Completion::Sent(key, buffer) => Observed::Sent(key, buffer),
        Completion::Received(key) => Observed::Received(key, sockets.received().to_vec()),
        Completion::Closed(key) => Observed::Closed(key),
        Completion::Failed(key, operation, error) => {
            Observed::Failed(key, operation, error.raw_os_error())
        }
    })
}

pub(super) fn reap<S: ByteSockets<'static>>(sockets: &mut S) -> Observed {
    let begun = Instant::now();
    while begun.elapsed() < COMPLETION_TIMEOUT {
        if let Some(seen) = poll_once(sockets) {
            return seen;
        }
        sockets
            .wait(sockets.now() + Nanos::from_millis(100))
            .unwrap();
    }
    panic!("no completion arrived in time");
}

/// Waits for a short time, and returns the completions that arrive in the meantime.
pub(super) fn rest<S: ByteSockets<'static>>(sockets: &mut S) -> Vec<Observed> {
    let until = sockets.now() + Nanos::from_millis(30);
    let mut seen = Vec::new();
    while sockets.now() < until {
        sockets.wait(until).unwrap();
        seen.extend(std::iter::from_fn(|| poll_once(sockets)));
    }
    seen
}

/// Waits for a peer's thread to end. Meanwhile, the backend may send and retransmit bytes that it
/// has accepted, but must not report completions.
pub(super) fn join<S: ByteSockets<'static>, T>(sockets: &mut S, peer: JoinHandle<T>) -> T {
    while !peer.is_finished() {
        let until = sockets.now() + Nanos::from_millis(1);
        sockets.wait(until).unwrap();
        assert_eq!(poll_once(sockets), None);
    }
    peer.join().unwrap()
}

/// Receives until the peer closes. Returns the bytes and the last completion.
pub(super) fn receive_all<S: ByteSockets<'static>>(sockets: &mut S) -> (Vec<u8>, Observed) {
    let mut all = Vec::new();
    loop {
        match reap(sockets) {
            Observed::Received(_, bytes) => all.extend(bytes),
            end => return (all, end),
        }
    }
}

/// Sends shared bytes, and waits until they are sent.
pub(super) fn send_shared<S: ByteSockets<'static>>(
    sockets: &mut S,
    key: Key,
    bytes: &'static [u8],
) {
    match sockets.send(key, Outgoing::Shared(bytes)) {
        Sending::Done => sockets.wait(sockets.now()).unwrap(),
        Sending::InFlight => assert_eq!(reap(sockets), Observed::Sent(key, None)),
    }
}

pub(super) fn connected<S: ByteSockets<'static>>(
    sockets: &mut S,
    listener: &Listener,
    key: Key,
) -> Socket {
    sockets.connect(key, to(&listener.peer));
    assert_eq!(reap(sockets), Observed::Connected(key));
    finish_connect(sockets);
    listener.accept()
}

/// Lets a backend acknowledge the peer's part of a handshake. A kernel does so immediately. Without
/// a kernel, the next wait would send the acknowledgment together with the first request.
pub(super) fn finish_connect<S: ByteSockets<'static>>(sockets: &mut S) {
    sockets.wait(sockets.now()).unwrap();
}

/// Returns bytes, each of which differs from its neighbors.
pub(super) fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}
