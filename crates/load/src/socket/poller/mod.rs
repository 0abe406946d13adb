//! Waits until sockets are ready (epoll).
//!
//! Events are level-triggered: a wait reports a socket as long as it is ready.

mod epoll;
mod event;

use std::io;
use std::time::Duration;

use socket2::Socket;

use self::epoll::EpollPoller as SystemPoller;
pub(super) use self::event::{Interest, ReadyEvent};
use super::Key;

/// Waits for events of many sockets. A socket must be removed before it is closed.
pub(super) struct SocketPoller {
    system: SystemPoller,
    /// Unhandled events of the last wait, in reverse order.
    events: Vec<ReadyEvent>,
}

impl SocketPoller {
    /// Creates a poller without sockets.
    ///
    /// # Errors
    ///
    /// The system can't create a poller.
    pub(super) fn new() -> io::Result<SocketPoller> {
        Ok(SocketPoller {
            system: SystemPoller::new()?,
            events: Vec::new(),
        })
    }

    /// Adds a socket.
    ///
    /// # Errors
    ///
    /// The system accepts no more sockets.
    pub(super) fn add(&self, socket: &Socket, key: Key, interest: Interest) -> io::Result<()> {
        self.system.add(socket, key, interest)
    }

    /// Changes the interest in a socket.
    ///
    /// # Errors
    ///
    /// The system rejects the change.
    pub(super) fn modify(&self, socket: &Socket, key: Key, interest: Interest) -> io::Result<()> {
        self.system.modify(socket, key, interest)
    }

    /// Removes a socket. Does nothing if the socket was never added.
    pub(super) fn remove(&self, socket: &Socket) {
        self.system.remove(socket);
    }

    /// Returns true if an event of the last wait has not been returned by [`SocketPoller::next`].
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Waits for events, for at most `time`. May return early without an event. Returns
    /// immediately if there are unhandled events.
    ///
    /// # Errors
    ///
    /// The system can't wait.
    pub(super) fn wait(&mut self, time: Duration) -> io::Result<()> {
        if self.has_events() {
            return Ok(());
        }
        match self.system.wait(time, &mut self.events) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        // Events are taken from the end. The order is reversed so that the first reported event is
        // handled first.
        self.events.reverse();
        Ok(())
    }

    /// Returns the next event of the last wait.
    pub(super) fn next(&mut self) -> Option<ReadyEvent> {
        self.events.pop()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    const KEY: Key = Key {
        index: 7,
        generation: u32::MAX,
    };
    const READING: Interest = Interest {
        reading: true,
        writing: false,
    };

    /// Adds one end of a pair of sockets. Returns the poller, this end and the other end.
    fn added(interest: Interest) -> (SocketPoller, Socket, UnixStream) {
        let poller = SocketPoller::new().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let near = Socket::from(near);
        poller.add(&near, KEY, interest).unwrap();
        (poller, near, far)
    }

    /// Waits until there is an event.
    fn event(poller: &mut SocketPoller) -> ReadyEvent {
        while !poller.has_events() {
            poller.wait(Duration::from_secs(60)).unwrap();
        }
        poller.next().unwrap()
    }

    #[test]
    fn a_socket_is_reported_as_long_as_it_is_ready() {
        let (mut poller, near, mut far) = added(READING);
        poller.wait(Duration::ZERO).unwrap();
        assert_eq!(poller.next(), None);
        far.write_all(b"x").unwrap();
        for _ in 0..2 {
            let readable = ReadyEvent {
                key: KEY,
                readable: true,
                writable: false,
            };
            assert_eq!(event(&mut poller), readable);
        }
        let writing = Interest {
            reading: false,
            writing: true,
        };
        poller.modify(&near, KEY, writing).unwrap();
        let event = event(&mut poller);
        assert!(event.writable && !event.readable, "{event:?}");
        poller.remove(&near);
        poller.wait(Duration::ZERO).unwrap();
        assert_eq!(poller.next(), None);
    }

    #[test]
    fn waits_end_without_events_whatever_their_order_and_length() {
        let (mut poller, _near, far) = added(READING);
        // The same wait twice, a shorter one, a longer one, and one after an expired timer.
        for time in [2_000, 2_000, 500, 3_000, 0, 1, 3_000].map(Duration::from_micros) {
            poller.wait(time).unwrap();
            assert_eq!(poller.next(), None, "{time:?}");
        }
        drop(far);
        assert!(event(&mut poller).readable);
    }

    #[test]
    fn a_wait_that_an_event_ended_does_not_affect_the_next_one() {
        let (mut poller, mut near, mut far) = added(READING);
        far.write_all(b"x").unwrap();
        poller.wait(Duration::from_secs(3600)).unwrap();
        assert!(poller.next().is_some());
        assert_eq!(near.read(&mut [0; 8]).unwrap(), 1);
        poller.wait(Duration::from_millis(1)).unwrap();
        assert_eq!(poller.next(), None);
    }
}
