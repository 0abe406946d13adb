//! The contract between a worker and the sockets that carry its bytes.
//!
//! The contract is built on *completions*: the worker submits an operation, continues, and later
//! reaps one [`Completion`] for it. io_uring maps to the contract directly; the readiness backend
//! emulates it by performing the operation once the system reports that it won't block. A
//! user-space stack or a simulation with its own clock fits the same contract. Nothing above this
//! module may assume a kernel socket.
//!
//! The kernel's backends and AF_XDP are tested against the rules of this contract. The backend for
//! QUIC carries streams instead of bytes: of these rules, those about keys, connecting, closing and
//! waiting apply to it, and it has tests of its own.
//!
//! 1. The worker chooses the [`Key`] of each connection: a free index, and a generation not used
//!    before with this index.
//! 2. [`Sockets::connect`] leads to exactly one `Connected` or `Failed`. After `Connected`,
//!    receiving begins without being requested. Nothing is sent before the worker submits it, so
//!    that the worker's clock reading before a send is never later than the send.
//! 3. [`Sockets::send`] leads to one `Sent` once the system has accepted the last byte, or to a
//!    `Failed`. If it returns [`Sending::Done`], only a `Failed` may follow. Only one send per
//!    connection is in flight at a time, and no send follows a failed one. The `Sent` of a request
//!    comes before the `Received` of its response: a response that is reaped before the `Sent` of
//!    its request counts as premature, and the worker closes the connection.
//! 4. The bytes of a `Received` stay readable by [`Sockets::received`] until the next call of
//!    [`Sockets::next`]. They arrive in order. `Closed` reports that the peer has closed its side
//!    in an orderly way. Nothing is received afterwards, but a send may still succeed.
//! 5. After the `Failed` of a connection attempt or a receive, the connection has ended. After the
//!    `Failed` of a send, the peer's bytes are still received up to their end. The worker then
//!    calls [`Sockets::close`] or, after a failed attempt, connects again at the same index with a
//!    new generation.
//! 6. After `close` no completion has that key, and the index is free again. Bytes of a send in
//!    flight may be lost. Bytes of a send that was `Done` reach the peer before an orderly close.
//! 7. Every submitted operation begins no later than the next [`Sockets::wait`].
//! 8. The backend provides the clock: [`Sockets::now`] never goes back, unless the clock is started
//!    again.

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
    /// Bytes have arrived: see [`Sockets::received`].
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

/// A socket backend, which must obey the module's contract.
pub(crate) trait Sockets<'run> {
    /// True if each connection has streams, which are read and written through [`Sockets::quic`].
    /// The other methods then neither send nor receive bytes.
    const HAS_STREAMS: bool = false;

    /// Maximum time for which a wait gathers completions; see [`WaitBatch`].
    const COALESCE_TIME_MAX: Nanos = Nanos::from_micros(50);

    /// Reads the clock. Returns the time since the load began.
    fn now(&self) -> Nanos;

    /// Returns the cached clock reading. This is the time at which the last wait ended, or the time
    /// of the completion that [`Sockets::next`] returned last. The reading may be a few
    /// microseconds old. Reading a clock for each completion would cost as much as parsing a
    /// response.
    fn cached_now(&self) -> Nanos;

    /// Begins to connect.
    fn connect(&mut self, key: Key, route: Route<'_>);

    /// Begins to send. A send of owned bytes always stays in flight until `Sent` returns the
    /// buffer.
    fn send(&mut self, key: Key, bytes: Outgoing<'run>) -> Sending;

    /// Returns the local address of an open connection; `None` for UNIX sockets.
    fn local_address(&self, key: Key) -> Option<SocketAddr>;

    /// Returns the number of unsent bytes of the send in flight on a connection, or of the last
    /// failed send. The number may be up to 128 KiB too high.
    fn unsent(&self, key: Key) -> u64;

    /// Acknowledges the bytes received so far immediately, if the transport allows it.
    fn acknowledge(&mut self, _key: Key) {}

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

    /// Returns the bytes of the `Received` that [`Sockets::next`] returned last.
    fn received(&self) -> &[u8];

    /// Returns the QUIC connection that carries the streams of an open connection; `None` for other
    /// transports.
    fn quic(&mut self, _key: Key) -> Option<&mut QuicConnection> {
        None
    }

    /// Sends all bytes that connections have written to their streams.
    fn flush(&mut self) {}

    /// Returns the QUIC counts of the closed connections; `None` for other transports.
    fn quic_use(&self) -> Option<QuicUse> {
        None
    }

    /// Returns the counts of packets and drops so far; `None` for backends other than AF_XDP.
    fn xdp_use(&self) -> Option<XdpUse> {
        None
    }
}
