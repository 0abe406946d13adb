//! The contract between the worker and whatever carries its bytes.
//!
//! It is shaped around *completions*: the worker submits an operation, goes on, and later reaps one
//! [`Completion`] for it. A readiness backend performs the operation when the system says that it
//! won't block; a completion backend hands it over as it is; a user-space stack or a simulation
//! (which has its own clock) fits the same shape. Nothing above this module may assume a kernel
//! socket.
//!
//! The contract, which the tests force on every backend:
//!
//! 1. A connection lives under a [`Key`] of the worker's choice: a slot that is free, and a
//!    generation that this slot has not had before.
//! 2. [`Sockets::connect`] is answered by exactly one `Connected` or `Failed`. After `Connected`
//!    receiving has begun: it is never asked for. Nothing is sent before the worker asks for it, so
//!    that the worker's clock reading before a send is never later than the send.
//! 3. [`Sockets::send`] is answered by one `Sent` once the last byte was taken over, or by a
//!    `Failed`; where it is [`Sending::Done`] at once, only by a `Failed`, if at all. One send a
//!    connection is under way at a time, and none follows one that failed. A send's `Sent` comes
//!    before the `Received` that answers it: an answer that is reaped while its request is still
//!    under way counts as early, and costs the connection.
//! 4. `Received` carries bytes that stay readable by [`Sockets::received`] until the next call of
//!    [`Sockets::next`]. They come in order. `Closed` means the peer's orderly end; nothing is
//!    received after it, but a send may still go out.
//! 5. `Failed` of a connect or a receive ends the connection; after that of a send what the peer
//!    had said is still received, up to its end. In each case the worker calls [`Sockets::close`].
//! 6. After `close` no completion bears that key; the slot is free again. Bytes of a send that was
//!    under way may be lost; those of one that was `Done` reach the peer before an orderly end.
//! 7. What is asked for is begun by the next [`Sockets::wait`] at the latest.
//! 8. Time is the backend's: [`Sockets::now`] never goes back, unless the clock is started anew.

mod backend;
#[cfg(test)]
mod contract;
pub(crate) mod local;
mod poll;
#[cfg(test)]
pub(crate) mod simulated;
pub(crate) mod system;
#[cfg(target_os = "linux")]
mod uring;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use prony_record::Nanos;

pub(crate) use backend::Backend;
pub(crate) use poll::PollSockets;
#[cfg(target_os = "linux")]
pub(crate) use uring::UringSockets;

/// Names one connection for as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// A small number, reused.
    pub(crate) index: u32,
    /// Differs each time the slot is.
    pub(crate) generation: u32,
}

/// What to connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// An address and port.
    Tcp(SocketAddr),
    /// A path of a UNIX stream socket.
    Unix(PathBuf),
}

/// A way to a peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route<'a> {
    pub(crate) peer: &'a Peer,
    /// Where to come from; the system's choice where nothing is said.
    pub(crate) source: Option<local::Source>,
    /// Bytes of a TCP socket's send and receive buffers; the system's choice where nothing is said.
    pub(crate) buffers: Option<u32>,
    /// Whether a send may follow one that the peer has not acknowledged: such a send must not wait
    /// for the acknowledgement (TCP_NODELAY, RFC 9293 §3.7.4).
    pub(crate) nodelay: bool,
    /// Whether the connection is to carry many requests, which is worth some preparation.
    pub(crate) keepalive: bool,
}

/// Bytes to send.
#[derive(Debug)]
pub(crate) enum Outgoing<'run> {
    /// Bytes that outlive the run: a request serialised beforehand.
    Shared(&'run [u8]),
    /// Bytes whose buffer the `Sent` completion gives back.
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

/// How a send stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// Nothing is left to be told, unless it fails: all bytes were taken over, or surely will be.
    Done,
    /// `Sent` or `Failed` will follow.
    InFlight,
}

/// How a connection is taken down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// As usual.
    Orderly,
    /// At once, and unsent or unread bytes are dropped (TCP sends RST, and no TIME_WAIT stays).
    Abort,
}

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Making the connection.
    Connect,
    /// Sending.
    Send,
    /// Receiving.
    Receive,
}

/// What happened to a connection.
#[derive(Debug)]
pub(crate) enum Completion {
    /// It is made, and receiving has begun.
    Connected(Key),
    /// All bytes of the send were taken over; an owned buffer comes back.
    Sent(Key, Option<Vec<u8>>),
    /// Bytes came: see [`Sockets::received`].
    Received(Key),
    /// The peer closed its side in order.
    Closed(Key),
    /// The operation failed and the connection with it.
    Failed(Key, Operation, io::Error),
}

impl Completion {
    /// The connection that it is about.
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

/// What is worth a moment's wait for more, where much is under way: see [`Sockets::wait_coalesced`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitBatch {
    /// With so many completions there is no more to wait for.
    pub(crate) most: u32,
    /// How long to wait for them, from the beginning.
    pub(crate) within: Nanos,
}

/// A backend: see the module's contract.
pub(crate) trait Sockets<'run> {
    /// The time since the load began.
    fn now(&self) -> Nanos;

    /// The time of the last wait's end, or of the completion that [`Sockets::next`] gave last. It may
    /// be some microseconds old: reading a clock for each completion costs as much as parsing an
    /// answer.
    fn cached_now(&self) -> Nanos;

    /// Begins a connection.
    fn connect(&mut self, key: Key, route: Route<'_>);

    /// Begins to send. Owned bytes are always under way until `Sent` gives them back.
    fn send(&mut self, key: Key, bytes: Outgoing<'run>) -> Sending;

    /// The address of this end of a connection that stands; none where it has none, as with UNIX
    /// sockets.
    fn local_address(&self, key: Key) -> Option<SocketAddr>;

    /// Bytes of the send that is under way on a connection, or that failed last, which were not sent as
    /// far as that is known: a backend may count up to 128 KiB too much.
    fn unsent(&self, key: Key) -> u64;

    /// Ends a connection, whatever is under way on it; nothing happens where it has ended.
    fn close(&mut self, key: Key, how: Close);

    /// Sleeps until something can be reaped or the moment `until` has come; now and then it ends
    /// sooner.
    ///
    /// # Errors
    ///
    /// Where the system's own waiting fails; the load can't go on.
    fn wait(&mut self, until: Nanos) -> io::Result<()>;

    /// The same, but what can be reaped early may be left until the lot is full or its time is up. A
    /// backend that can't do this at a profit just waits.
    ///
    /// # Errors
    ///
    /// As for [`Sockets::wait`].
    fn wait_coalesced(&mut self, until: Nanos, _lot: WaitBatch) -> io::Result<()> {
        self.wait(until)
    }

    /// The next thing that happened, if any, without waiting.
    fn next(&mut self) -> Option<Completion>;

    /// The bytes of the `Received` that [`Sockets::next`] gave last.
    fn received(&self) -> &[u8];
}
