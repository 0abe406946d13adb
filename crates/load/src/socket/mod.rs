//! The contract between the worker and the sockets that carry its bytes.
//!
//! It is built on *completions*: the worker submits an operation, continues, and later reaps one
//! [`Completion`] for it. io_uring maps to it directly; the readiness backend emulates it by
//! performing the operation once the system says that it won't block. A user-space stack or a
//! simulation with its own clock fits the same contract. Nothing above this module may assume a
//! kernel socket.
//!
//! The contract, which tests force on every backend:
//!
//! 1. The worker chooses the [`Key`] of each connection: a free index, and a generation that this
//!    index has not had before.
//! 2. [`Sockets::connect`] leads to exactly one `Connected` or `Failed`. After `Connected`, receiving
//!    has begun without a request for it. Nothing is sent before the worker submits it, so that the
//!    worker's clock reading before a send is never later than the send.
//! 3. [`Sockets::send`] leads to one `Sent` once the last byte was taken over, or to a `Failed`. If it
//!    returns [`Sending::Done`], only a `Failed` may follow. One send per connection is in flight at a
//!    time, and none follows one that failed. The `Sent` of a request comes before the `Received` of
//!    its response: a response that is reaped while its request is in flight counts as early, and
//!    costs the connection.
//! 4. The bytes of a `Received` stay readable by [`Sockets::received`] until the next call of
//!    [`Sockets::next`]. They come in order. `Closed` is the peer's orderly end. Nothing is received
//!    after it, but a send may still go out.
//! 5. After the `Failed` of a connect or a receive, the connection has ended. After the `Failed` of a
//!    send, the peer's bytes are still received up to their end. In each case the worker calls
//!    [`Sockets::close`].
//! 6. After `close` no completion has that key, and the index is free again. Bytes of a send in flight
//!    may be lost. Bytes of a send that was `Done` reach the peer before an orderly end.
//! 7. Every submitted operation begins by the next [`Sockets::wait`] at the latest.
//! 8. The backend is the clock: [`Sockets::now`] never goes back, unless the clock is started again.

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
    /// Differs for each connection with the same index.
    pub(crate) generation: u32,
}

/// The other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// An address and port.
    Tcp(SocketAddr),
    /// A path of a UNIX stream socket.
    Unix(PathBuf),
}

/// A peer, and options of the connection to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route<'a> {
    pub(crate) peer: &'a Peer,
    /// The local address. The system chooses by default.
    pub(crate) source: Option<local::Source>,
    /// Bytes of a TCP socket's send and receive buffers. The system chooses by default.
    pub(crate) buffers: Option<u32>,
    /// A send may follow one that the peer has not acknowledged, and must not wait for the
    /// acknowledgement (TCP_NODELAY, RFC 9293 §3.7.4).
    pub(crate) nodelay: bool,
    /// The connection will carry many requests, which is worth some preparation.
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

/// The state of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// No completion follows unless it fails: all bytes were taken over, or certainly will be.
    Done,
    /// `Sent` or `Failed` will follow.
    InFlight,
}

/// The way in which a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// In order: TCP sends FIN.
    Orderly,
    /// At once. Unsent and unread bytes are dropped: TCP sends RST, and no TIME_WAIT remains.
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

/// Something that happened to a connection.
#[derive(Debug)]
pub(crate) enum Completion {
    /// It is made, and receiving has begun.
    Connected(Key),
    /// All bytes of the send were taken over. An owned buffer comes back.
    Sent(Key, Option<Vec<u8>>),
    /// Bytes arrived: see [`Sockets::received`].
    Received(Key),
    /// The peer closed its side in order.
    Closed(Key),
    /// The operation failed and the connection with it.
    Failed(Key, Operation, io::Error),
}

impl Completion {
    /// The connection that it concerns.
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

/// A batch of completions that a wait may gather: see [`Sockets::wait_coalesced`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitBatch {
    /// The wait ends with this number of completions.
    pub(crate) max_completions: u32,
    /// Time to wait for them, from the beginning of the wait.
    pub(crate) max_wait: Nanos,
}

/// A backend: see the module's contract.
pub(crate) trait Sockets<'run> {
    /// The time since the load began.
    fn now(&self) -> Nanos;

    /// The time of the last wait's end, or of the completion that [`Sockets::next`] returned last.
    /// It may be some microseconds old: reading a clock for each completion costs as much as
    /// parsing a response.
    fn cached_now(&self) -> Nanos;

    /// Begins a connection.
    fn connect(&mut self, key: Key, route: Route<'_>);

    /// Begins to send. Owned bytes are always in flight until `Sent` returns them.
    fn send(&mut self, key: Key, bytes: Outgoing<'run>) -> Sending;

    /// The local address of an open connection. UNIX sockets have none.
    fn local_address(&self, key: Key) -> Option<SocketAddr>;

    /// Bytes of the send in flight on a connection, or of the one that failed last, that were not
    /// sent as far as that is known. A backend may count up to 128 KiB too much.
    fn unsent(&self, key: Key) -> u64;

    /// Ends a connection with all operations on it. Does nothing if it has ended.
    fn close(&mut self, key: Key, how: Close);

    /// Sleeps until a completion can be reaped or the time `until` has come. Sometimes it ends
    /// sooner.
    ///
    /// # Errors
    ///
    /// The system's own waiting fails. The load can't continue.
    fn wait(&mut self, until: Nanos) -> io::Result<()>;

    /// Like [`Sockets::wait`], but early completions may be left until the batch is full or its
    /// time is up. A backend without an efficient way to do this just waits.
    ///
    /// # Errors
    ///
    /// As for [`Sockets::wait`].
    fn wait_coalesced(&mut self, until: Nanos, _batch: WaitBatch) -> io::Result<()> {
        self.wait(until)
    }

    /// The next completion, if there is one. Does not wait.
    fn next(&mut self) -> Option<Completion>;

    /// The bytes of the `Received` that [`Sockets::next`] returned last.
    fn received(&self) -> &[u8];
}
