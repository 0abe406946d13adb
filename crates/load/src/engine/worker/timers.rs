//! The times at which a worker has to act: deadlines, alarms and think times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use prony_record::Nanos;

use super::deadlines::Deadlines;

/// An action that is due on a connection at a set time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// Another connection attempt may begin after a failure.
    EndBackoff,
    /// A connection attempt is retried.
    RetryConnect,
    /// The connection's parked request slots become free.
    Unpark,
}

/// A timer that has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expired {
    /// An alarm of a connection. It applies only if the connection still has this generation.
    Alarm {
        connection: u32,
        generation: u32,
        alarm: Alarm,
    },
    /// The drain deadline of a connection.
    Drain(u32),
    /// The end of a connection's lifetime.
    Lifetime(u32),
    /// The connect deadline of a connection.
    Connect(u32),
    /// The deadline of the request in a slot.
    Request(u32),
    /// The deadline of the next event of the stream in a slot.
    Gap(u32),
}

/// A worker's deadlines by kind, its alarms and its think times.
pub(super) struct Timers {
    /// Request deadlines, by request slot.
    pub(super) requests: Deadlines,
    /// Deadlines of the next event of streams, by request slot.
    pub(super) gaps: Deadlines,
    /// Connect deadlines, by connection.
    pub(super) connects: Deadlines,
    /// Drain deadlines, by connection.
    pub(super) drains: Deadlines,
    /// Ends of lifetimes, by connection.
    pub(super) lifetimes: Deadlines,
    /// Alarms: time, connection, generation of the connection, and kind.
    alarms: BinaryHeap<Reverse<(Nanos, u32, u32, Alarm)>>,
    /// Ends of think times, each with its request slot.
    think_times: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl Timers {
    /// Creates timers without deadlines. `streams` is the number of request slots whose responses may
    /// be streams: all or none. `have_lifetimes` is true if the lifetime of connections is limited.
    pub(super) fn new(
        slots: usize,
        streams: usize,
        connections: usize,
        have_lifetimes: bool,
    ) -> Timers {
        Timers {
            requests: Deadlines::new(slots),
            gaps: Deadlines::new(streams),
            connects: Deadlines::new(connections),
            drains: Deadlines::new(connections),
            lifetimes: Deadlines::new(if have_lifetimes { connections } else { 0 }),
            alarms: BinaryHeap::with_capacity(connections),
            think_times: BinaryHeap::new(),
        }
    }

    pub(super) fn set_alarm(&mut self, at: Nanos, connection: u32, generation: u32, alarm: Alarm) {
        self.alarms
            .push(Reverse((at, connection, generation, alarm)));
    }

    /// Sets the end of a slot's think time.
    pub(super) fn think(&mut self, slot: u32, at: Nanos) {
        self.think_times.push(Reverse((at, slot)));
    }

    /// The earliest time at which a timer expires.
    #[inline]
    pub(super) fn next(&self) -> Nanos {
        self.next_of_connections()
            .min(self.requests.next())
            .min(self.gaps.next())
            .min(self.next_think_time())
    }

    /// The earliest time at which a connection's timer expires. Timers of requests are not
    /// included.
    pub(super) fn next_of_connections(&self) -> Nanos {
        let alarm = self.alarms.peek();
        let alarm = alarm.map_or(Nanos::MAX, |Reverse((at, ..))| *at);
        alarm
            .min(self.connects.next())
            .min(self.drains.next())
            .min(self.lifetimes.next())
    }

    fn next_think_time(&self) -> Nanos {
        let first = self.think_times.peek();
        first.map_or(Nanos::MAX, |Reverse((at, _))| *at)
    }

    /// Removes and returns an expired timer, if there is one. Think times are handled separately.
    #[inline]
    pub(super) fn expired(&mut self, now: Nanos) -> Option<Expired> {
        if let Some(&Reverse((at, connection, generation, alarm))) = self.alarms.peek()
            && at <= now
        {
            self.alarms.pop();
            return Some(Expired::Alarm {
                connection,
                generation,
                alarm,
            });
        }
        if let Some(connection) = self.drains.expired(now) {
            return Some(Expired::Drain(connection));
        }
        if let Some(connection) = self.lifetimes.expired(now) {
            return Some(Expired::Lifetime(connection));
        }
        if let Some(connection) = self.connects.expired(now) {
            return Some(Expired::Connect(connection));
        }
        if let Some(slot) = self.gaps.expired(now) {
            return Some(Expired::Gap(slot));
        }
        self.requests.expired(now).map(Expired::Request)
    }

    /// Removes and returns a slot whose think time is over, with the time at which it ended.
    pub(super) fn end_think_time(&mut self, now: Nanos) -> Option<(u32, Nanos)> {
        if self.next_think_time() > now {
            return None;
        }
        let Reverse((at, slot)) = self.think_times.pop()?;
        Some((slot, at))
    }

    /// Returns true if a connection has an alarm of this kind.
    #[cfg(test)]
    pub(super) fn has_alarm(&self, connection: u32, alarm: Alarm) -> bool {
        let mut alarms = self.alarms.iter();
        alarms.any(|Reverse((_, of, _, kind))| (*of, *kind) == (connection, alarm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_expires_once_in_order_of_its_kind() {
        let mut timers = Timers::new(2, 2, 2, false);
        let at = Nanos(10);
        timers.requests.set(1, at);
        timers.gaps.set(0, at);
        timers.connects.set(0, at);
        timers.drains.set(1, at);
        timers.set_alarm(at, 0, 7, Alarm::RetryConnect);
        timers.think(0, Nanos(5));
        assert_eq!(timers.next(), Nanos(5));
        assert_eq!(timers.end_think_time(Nanos(4)), None);
        assert_eq!(timers.end_think_time(Nanos(9)), Some((0, Nanos(5))));
        assert_eq!((timers.next(), timers.expired(Nanos(9))), (at, None));
        let expired: Vec<_> = std::iter::from_fn(|| timers.expired(at)).collect();
        let alarm = Expired::Alarm {
            connection: 0,
            generation: 7,
            alarm: Alarm::RetryConnect,
        };
        assert_eq!(
            expired,
            [
                alarm,
                Expired::Drain(1),
                Expired::Connect(0),
                Expired::Gap(0),
                Expired::Request(1)
            ]
        );
        assert_eq!(timers.next(), Nanos::MAX);
    }
}
