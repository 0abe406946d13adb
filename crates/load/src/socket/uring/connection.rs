//! A connection of the io_uring backend, and the ring operations on it.

use std::os::fd::AsRawFd;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, Fixed};
use socket2::Socket;

use super::buffers;
use super::operation::{Kind, user_data};
use crate::socket::{Key, Outgoing, Sending};

/// Number of bytes that always fit into a socket's buffer. Shared sends of up to this size are
/// reported as done immediately.
const ALWAYS_ACCEPTED_BYTES: usize = 4096;
/// Maximum size of one send. Longer sends are split, because an operation reports the number of
/// sent bytes only when it ends.
pub(super) const SEND_BYTES_MAX: usize = 128 << 10;

pub(super) struct UringConnection<'run> {
    pub(super) socket: Socket,
    pub(super) key: Key,
    pub(super) stage: UringStage,
    pub(super) handle: Handle,
    /// True if a receive is armed in the kernel.
    pub(super) receiving: bool,
    /// The send in flight, and the number of its bytes that the kernel has accepted.
    pub(super) sending: Option<(Outgoing<'run>, usize)>,
    /// Number of bytes in a failed send that the kernel had not accepted.
    pub(super) unsent: usize,
}

/// The means by which operations identify the socket.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Handle {
    /// The socket's descriptor, which the kernel looks up for each operation.
    Descriptor,
    /// The socket's descriptor until the connection is established, and then its index in the
    /// ring's table. This is for connections that will carry many requests.
    ToBeFixed,
    /// The socket's index in the ring's table, which is cheaper to look up than a descriptor.
    Fixed,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum UringStage {
    Connecting,
    Open,
    /// The peer has closed its side. Nothing more is received.
    HalfClosed,
    /// The connection has failed. No more completions follow.
    Failed,
}

impl<'run> UringConnection<'run> {
    /// Returns the operation that receives until the peer closes the connection.
    pub(super) fn receive_entry(&self) -> Entry {
        let entry = match self.handle {
            Handle::Fixed => opcode::RecvMulti::new(Fixed(self.key.index), buffers::GROUP).build(),
            _ => {
                let descriptor = Fd(self.socket.as_raw_fd());
                opcode::RecvMulti::new(descriptor, buffers::GROUP).build()
            }
        };
        entry.user_data(user_data(Kind::Receive, self.key))
    }

    /// Begins a send of these bytes. Returns the operation for the ring, and the state of the send.
    pub(super) fn begin_send(&mut self, bytes: Outgoing<'run>) -> (Entry, Sending) {
        let entry = self.send_entry(bytes.bytes());
        match bytes {
            Outgoing::Shared(bytes) if bytes.len() <= ALWAYS_ACCEPTED_BYTES => {
                let quiet = entry.flags(Flags::SKIP_SUCCESS);
                let data = user_data(Kind::QuietSend, self.key);
                (quiet.user_data(data), Sending::Done)
            }
            bytes => {
                self.sending = Some((bytes, 0));
                let data = user_data(Kind::Send, self.key);
                (entry.user_data(data), Sending::InFlight)
            }
        }
    }

    pub(super) fn send_entry(&self, bytes: &[u8]) -> Entry {
        let (start, length) = (bytes.as_ptr(), bytes.len().min(SEND_BYTES_MAX) as u32);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        match self.handle {
            Handle::Fixed => opcode::Send::new(Fixed(self.key.index), start, length)
                .flags(flags)
                .build(),
            _ => opcode::Send::new(Fd(self.socket.as_raw_fd()), start, length)
                .flags(flags)
                .build(),
        }
    }
}
