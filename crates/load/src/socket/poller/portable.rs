//! The poller of systems other than Linux, by the `polling` crate.

use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use polling::{Event, Events, PollMode, Poller};
use socket2::Socket;

use super::{EVENTS_MAX, Interest, ReadyEvent};
use crate::socket::Key;

pub(super) struct PortablePoller {
    poller: Poller,
    events: Events,
}

impl PortablePoller {
    pub(super) fn new() -> io::Result<PortablePoller> {
        let capacity = NonZeroUsize::new(EVENTS_MAX).unwrap_or(NonZeroUsize::MIN);
        Ok(PortablePoller {
            poller: Poller::new()?,
            events: Events::with_capacity(capacity),
        })
    }

    pub(super) fn add(&self, socket: &Socket, key: Key, interest: Interest) -> io::Result<()> {
        // SAFETY: the caller removes the socket before closing it, as `SocketPoller` requires.
        unsafe {
            self.poller
                .add_with_mode(socket, event(key, interest), PollMode::Level)
        }
    }

    pub(super) fn modify(&self, socket: &Socket, key: Key, interest: Interest) -> io::Result<()> {
        self.poller
            .modify_with_mode(socket, event(key, interest), PollMode::Level)
    }

    pub(super) fn remove(&self, socket: &Socket) {
        // Removing fails only for a socket that was never added.
        let _ = self.poller.delete(socket);
    }

    pub(super) fn wait(&mut self, time: Duration, ready: &mut Vec<ReadyEvent>) -> io::Result<()> {
        self.events.clear();
        self.poller.wait(&mut self.events, Some(time))?;
        ready.extend(self.events.iter().map(|event| ReadyEvent {
            key: Key::from_bits(event.key as u64),
            readable: event.readable,
            writable: event.writable,
        }));
        Ok(())
    }
}

fn event(key: Key, interest: Interest) -> Event {
    Event::new(key.to_bits() as usize, interest.reading, interest.writing)
}
