//! The contract between QUIC connections and the sockets that carry their datagrams.
//!
//! Each connection has its own socket. Source addresses are therefore chosen as for TCP, and the
//! system never has to distribute datagrams between workers. Every backend is tested against the
//! rules of this contract (`contract`):
//!
//! 1. [`Datagrams::open`] creates the socket of a connection. Nothing is sent.
//! 2. [`Datagrams::send`] accepts a batch as a whole or not at all. If the system has no room for
//!    it, a [`DatagramEvent::Writable`] follows. A datagram may be lost, duplicated, delayed or
//!    reordered without notice.
//! 3. An arriving batch is reported by a [`DatagramEvent::Received`] or continues one
//!    ([`Datagrams::next_received`]), and stays readable by [`Datagrams::received`] until the next
//!    batch or event is taken.
//! 4. A [`DatagramEvent::Failed`] reports an error from the network, such as that no program
//!    listens at the port. The socket stays usable.
//! 5. After [`Datagrams::close`], no event has that key.
//! 6. The backend provides the clocks of the worker and of QUIC. The worker's clock may restart or
//!    stop; QUIC's clock, [`Datagrams::instant`], never goes back.

#[cfg(test)]
mod contract;
#[cfg(test)]
pub(crate) mod simulated;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use prony_record::Nanos;
use quinn_proto::EcnCodepoint;

pub(crate) use udp::UdpDatagrams;

use super::{Key, Route};
use crate::quic::DatagramBatch;

/// An event on a socket.
#[derive(Debug)]
pub(crate) enum DatagramEvent {
    /// Datagrams have arrived: see [`Datagrams::received`].
    Received(Key),
    /// The socket has room for a batch again.
    Writable(Key),
    /// The system reports an error that an earlier send caused.
    Failed(Key, io::Error),
}

/// Datagrams that arrived together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedDatagrams<'a> {
    pub(crate) bytes: &'a [u8],
    /// Length of each datagram in bytes; the last one may be shorter.
    pub(crate) segment_bytes: usize,
    /// Congestion mark of all datagrams (RFC 3168).
    pub(crate) ecn: Option<EcnCodepoint>,
}

/// A datagram backend, which must obey the module's contract.
pub(crate) trait Datagrams {
    /// Returns the time since the load began.
    fn now(&self) -> Nanos;

    /// Returns the time on QUIC's clock, which never goes back.
    fn instant(&self) -> Instant;

    /// Creates the socket of a connection to this address.
    ///
    /// # Errors
    ///
    /// The system can't create the socket, or the source address isn't available.
    fn open(&mut self, key: Key, peer: SocketAddr, route: &Route<'_>) -> io::Result<()>;

    /// Returns the maximum number of datagrams in a batch.
    fn segments_max(&self, key: Key) -> usize;

    /// Sends a batch. Returns false if the system has no room for the batch.
    ///
    /// # Errors
    ///
    /// The system refuses the datagrams.
    fn send(&mut self, key: Key, bytes: &[u8], batch: DatagramBatch) -> io::Result<bool>;

    /// Returns the local address of a socket.
    fn local_address(&self, key: Key) -> Option<SocketAddr>;

    /// Closes a socket. Returns the number of datagrams that were dropped because its receive
    /// buffer was full.
    fn close(&mut self, key: Key) -> u64;

    /// Sleeps for `time` even if datagrams arrive, so that the next wait returns more of them. A
    /// backend that can't do this efficiently returns immediately.
    fn gather(&mut self, _time: Duration) {}

    /// Returns the number of system calls that sent datagrams, and the number of those that
    /// received some.
    fn calls(&self) -> (u64, u64);

    /// Sleeps until an event can be taken or the time has passed. May return earlier.
    ///
    /// # Errors
    ///
    /// The system can't wait for events.
    fn wait(&mut self, time: Duration) -> io::Result<()>;

    /// Returns the next event, if there is one. Does not wait.
    fn next(&mut self) -> Option<DatagramEvent>;

    /// Continues the `Received` that [`Datagrams::next`] returned last with the next batch, if that
    /// batch arrived on the same connection and can be taken without a system call.
    fn next_received(&mut self) -> bool;

    /// Returns the batch that [`Datagrams::next`] or [`Datagrams::next_received`] took last.
    fn received(&self) -> ReceivedDatagrams<'_>;
}
