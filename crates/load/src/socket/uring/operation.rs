//! User data that identifies operations of the ring.

use std::io;

use io_uring::squeue::{Entry, Flags};

use crate::socket::Key;

/// The kind of an operation, in the three top bits of its user data.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Connect = 0,
    Send = 1,
    Receive = 2,
    /// A send that completes only if it fails.
    QuietSend = 3,
    /// The timer that ends a wait.
    Alarm = 4,
    /// An operation whose result is ignored. It posts a completion only if it fails.
    Other = 5,
}

const GENERATION_BITS: u32 = 29;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// Returns the user data of an operation, which contains its kind and its connection. Generations
/// that differ by 2^29 have the same user data, but no operation outlasts that many connections.
pub(super) fn user_data(kind: Kind, key: Key) -> u64 {
    (kind as u64) << 61 | u64::from(key.generation & GENERATION_MASK) << 32 | u64::from(key.index)
}

impl Kind {
    /// Returns true if operations of this kind always have a completion, even if they succeed.
    pub(super) fn always_completes(self) -> bool {
        !matches!(self, Kind::QuietSend | Kind::Other)
    }
}

pub(super) fn kind_of(user_data: u64) -> Kind {
    match user_data >> 61 {
        0 => Kind::Connect,
        1 => Kind::Send,
        2 => Kind::Receive,
        3 => Kind::QuietSend,
        4 => Kind::Alarm,
        _ => Kind::Other,
    }
}

/// User data of the alarm.
pub(super) const ALARM: u64 = (Kind::Alarm as u64) << 61;

/// Returns the index of the connection that an operation belongs to.
pub(super) fn index_of(user_data: u64) -> usize {
    (user_data & u64::from(u32::MAX)) as usize
}

/// Returns true if an operation belongs to this connection. The caller must have checked that the
/// index matches.
pub(super) fn is_of(user_data: u64, key: Key) -> bool {
    (user_data >> 32) as u32 & GENERATION_MASK == key.generation & GENERATION_MASK
}

/// Marks an operation as one whose result is ignored.
pub(super) fn quiet(entry: Entry) -> Entry {
    entry
        .flags(Flags::SKIP_SUCCESS)
        .user_data((Kind::Other as u64) << 61)
}

/// Returns the error in an operation's result, if there is one.
pub(super) fn error_of(result: i32) -> Option<io::Error> {
    (result < 0).then(|| io::Error::from_raw_os_error(-result))
}

/// Returns true for transient errors, after which a receive is retried immediately.
pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}
