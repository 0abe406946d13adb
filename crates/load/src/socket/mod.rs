//! The contract between a worker and the sockets of its connections.
//!
//! The contract is built on *completions*: the worker submits an operation, continues, and later
//! reaps one [`Completion`] for it. io_uring maps to the contract directly; the readiness backend
//! emulates it by performing the operation once the system reports that it won't block. A
//! user-space stack or a simulation with its own clock fits the same contract. Nothing above this
//! module may assume a kernel socket.
//!
//! [`Sockets`] is what all backends have in common. On top of it, a backend carries either bytes
//! ([`ByteSockets`]: TCP, UNIX sockets, AF_XDP) or streams ([`StreamSockets`]: QUIC). Each trait
//! states its rules, and `contract/` tests each rule over every backend that it applies to.

mod backend;
#[cfg(test)]
mod contract;
mod datagram;
pub(crate) mod local;
mod poll;
mod poller;
mod quic;
#[cfg(test)]
pub(crate) mod simulated;
pub(crate) mod system;
mod uring;
mod xdp;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use prony_record::{Nanos, QuicUse, XdpUse};
use rustls::pki_types::ServerName;

pub(crate) use backend::Backend;
pub(crate) use datagram::UdpDatagrams;
#[cfg(test)]
pub(crate) use datagram::simulated as simulated_datagrams;
pub(crate) use poll::PollSockets;
pub(crate) use quic::QuicSockets;
pub(crate) use uring::UringSockets;
pub(crate) use xdp::{XdpLink, XdpOptions, XdpSetup, XdpSockets};

use crate::quic::QuicConnection;

/// Identifies one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The connection's index in the worker's table. Indices are reused.
    pub(crate) index: u32,
    /// Distinguishes successive connections with the same index.
    pub(crate) generation: u32,
}

impl Key {
    /// Returns the key as a single number, which an interface below can return with its events.
    fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Returns the key that [`Key::to_bits`] converted.
    fn from_bits(bits: u64) -> Key {
        Key {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// The remote end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// An address and port.
    Tcp(SocketAddr),
    /// The path of a UNIX stream socket.
    Unix(PathBuf),
    /// An address and UDP port for QUIC.
    Quic(SocketAddr),
}

impl Peer {
    /// Returns the peer's address; `None` for UNIX sockets.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Peer::Tcp(address) | Peer::Quic(address) => Some(*address),
            Peer::Unix(_) => None,
        }
    }
}

/// A peer, and options of the connection to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route<'a> {
    pub(crate) peer: &'a Peer,
    /// Server name for TLS. Only QUIC needs the name to connect.
    pub(crate) server_name: Option<&'a ServerName<'static>>,
    /// The local source; `None` for the system's choice.
    pub(crate) source: Option<local::Source>,
    /// Size of a TCP socket's send and receive buffers in bytes; `None` for the system's choice.
    pub(crate) buffers: Option<u32>,
    /// True to send without waiting for the peer's acknowledgment of earlier bytes (TCP_NODELAY,
    /// RFC 9293 §3.7.4).
    pub(crate) nodelay: bool,
    /// True if the connection will carry many requests, so a costly preparation is worthwhile.
    pub(crate) keepalive: bool,
}

/// Bytes to send.
#[derive(Debug)]
pub(crate) enum Outgoing<'run> {
    /// Bytes that stay valid for the whole run, such as a request that was serialized beforehand.
    Shared(&'run [u8]),
    /// Bytes in a buffer that the `Sent` completion returns.
    Owned(Vec<u8>),
}

impl Outgoing<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Outgoing::Shared(bytes) => bytes,
            Outgoing::Owned(bytes) => bytes,
        }
    }
}

/// The state of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// The system has accepted all bytes, or is certain to accept them. No completion follows
    /// unless the send fails.
    Done,
    /// The send is in flight. `Sent` or `Failed` will follow.
    InFlight,
}

/// The way in which a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// Orderly: TCP sends FIN.
    Orderly,
    /// Immediate: unsent and unread bytes are dropped, TCP sends RST, and no TIME_WAIT remains.
    Abort,
}

/// An operation whose failure a [`Completion::Failed`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// The connect.
    Connect,
    /// A send.
    Send,
    /// Receiving bytes from the peer.
    Receive,
}

/// An event on a connection.
#[derive(Debug)]
pub(crate) enum Completion {
    /// The connection is established, and receiving has begun.
    Connected(Key),
    /// All bytes of the send were accepted. An owned buffer is returned.
    Sent(Key, Option<Vec<u8>>),
    /// Bytes have arrived: see [`ByteSockets::received`].
    Received(Key),
    /// The peer closed its side in an orderly way.
    Closed(Key),
    /// The operation failed. After a failed connect or receive, the connection has ended; after a
    /// failed send, bytes may still be received.
    Failed(Key, Operation, io::Error),
}

impl Completion {
    /// Returns the key of the connection.
    pub(crate) fn key(&self) -> Key {
        match self {
            Completion::Connected(key)
            | Completion::Sent(key, _)
            | Completion::Received(key)
            | Completion::Closed(key)
            | Completion::Failed(key, ..) => *key,
        }
    }
}

/// Limits on the batch of completions that a wait may gather; see [`Sockets::wait_coalesced`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitBatch {
    /// Number of completions at which the wait ends.
    pub(crate) max_completions: u32,
    /// Maximum time to wait for the batch, from the beginning of the wait.
    pub(crate) max_wait: Nanos,
}

/// Counts of a backend's own, for the record; `None` for backends without such counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct SocketCounts {
    /// Packets and system calls of the closed QUIC connections.
    pub(crate) quic: Option<QuicUse>,
    /// Packets and drops of AF_XDP.
    pub(crate) xdp: Option<XdpUse>,
}

/// Sockets of any kind.
///
/// 1. The worker chooses the [`Key`] of each connection: a free index, and a generation not used
///    before with this index.
/// 2. [`Sockets::connect`] leads to exactly one `Connected` or `Failed`. After `Connected`,
///    receiving begins without being requested. Nothing is sent before the worker submits it, so
///    that the worker's clock reading before a send is never later than the send.
/// 3. After the `Failed` of a connection attempt or a receive, the connection has ended. The worker
///    then calls [`Sockets::close`] or, after a failed attempt, connects again at the same index
///    with a new generation.
/// 4. After `close` no completion has that key, and the index is free again.
/// 5. Every submitted operation begins no later than the next [`Sockets::wait`].
/// 6. The backend provides the clock: [`Sockets::now`] never goes back, unless the clock is started
///    again.
pub(crate) trait Sockets {
    /// Reads the clock. Returns the time since the load began.
    fn now(&self) -> Nanos;

    /// Returns the cached clock reading. This is the time at which the last wait ended, or the time
    /// of the completion that [`Sockets::next`] returned last. The reading may be a few
    /// microseconds old. Reading a clock for each completion would cost as much as parsing a
    /// response.
    fn cached_now(&self) -> Nanos;

    /// Begins to connect.
    fn connect(&mut self, key: Key, route: Route<'_>);

    /// Returns the local address of an open connection; `None` for UNIX sockets.
    fn local_address(&self, key: Key) -> Option<SocketAddr>;

    /// Ends a connection and all operations on it. Does nothing if the connection has already
    /// ended.
    fn close(&mut self, key: Key, how: Close);

    /// Sleeps until a completion can be reaped or the time `until` is reached. May return earlier.
    ///
    /// # Errors
    ///
    /// The system can't wait for events. The load can't continue.
    fn wait(&mut self, until: Nanos) -> io::Result<()>;

    /// Like [`Sockets::wait`], but may continue to sleep after the first completions until the
    /// batch is full or its time is up. A backend that can't do this efficiently just waits.
    ///
    /// # Errors
    ///
    /// The same as for [`Sockets::wait`].
    fn wait_coalesced(&mut self, until: Nanos, _batch: WaitBatch) -> io::Result<()> {
        self.wait(until)
    }

    /// Returns the next completion, if there is one. Does not wait.
    fn next(&mut self) -> Option<Completion>;

    /// Returns the backend's own counts so far.
    fn counts(&self) -> SocketCounts {
        SocketCounts::default()
    }
}

/// Sockets that carry one sequence of bytes in each direction.
///
/// In addition to the rules of [`Sockets`]:
///
/// 1. [`ByteSockets::send`] leads to one `Sent` once the system has accepted the last byte, or to a
///    `Failed`. If it returns [`Sending::Done`], only a `Failed` may follow. Only one send per
///    connection is in flight at a time, and no send follows a failed one. The `Sent` of a request
///    comes before the `Received` of its response: a response that is reaped before the `Sent` of
///    its request counts as premature, and the worker closes the connection.
/// 2. The bytes of a `Received` stay readable by [`ByteSockets::received`] until the next call of
///    [`Sockets::next`]. They arrive in order. `Closed` reports that the peer has closed its side
///    in an orderly way. Nothing is received afterwards, but a send may still succeed.
/// 3. After the `Failed` of a send, the peer's bytes are still received up to their end.
/// 4. Bytes of a send in flight may be lost by a `close`. Bytes of a send that was `Done` reach the
///    peer before an orderly close.
pub(crate) trait ByteSockets<'run>: Sockets {
    /// Begins to send. A send of owned bytes always stays in flight until `Sent` returns the
    /// buffer.
    fn send(&mut self, key: Key, bytes: Outgoing<'run>) -> Sending;

    /// Returns the number of unsent bytes of the send in flight on a connection, or of the last
    /// failed send. The number may be up to 128 KiB too high.
    fn unsent(&self, key: Key) -> u64;

    /// Returns the bytes of the `Received` that [`Sockets::next`] returned last.
    fn received(&self) -> &[u8];

    /// Acknowledges the bytes received so far immediately. Returns false if the transport can't.
    fn acknowledge(&mut self, _key: Key) -> bool {
        false
    }
}

/// Sockets whose connections carry streams, and secure them.
///
/// In addition to the rules of [`Sockets`]:
///
/// 1. `Connected` means that the handshake, including TLS, is complete, or that early data can be
///    sent. In the latter case, the first `Received` follows the end of the handshake; if the
///    handshake fails, a `Failed` for the connect follows the `Connected`.
/// 2. From `Connected` until `close`, [`StreamSockets::streams`] returns the connection.
/// 3. A `Received` means that the connection has events. They stay available until they are read.
///    An established connection ends with such an event, never with a `Closed` or `Failed`.
/// 4. Bytes that were written to streams are sent by the next [`StreamSockets::flush`] or
///    [`Sockets::wait`]. Each stream's bytes arrive in order, and `close` may lose those that are
///    not acknowledged.
pub(crate) trait StreamSockets: Sockets {
    /// Returns the streams of an open connection.
    fn streams(&mut self, key: Key) -> Option<&mut QuicConnection>;

    /// Sends all bytes that connections have written to their streams.
    fn flush(&mut self);
}
