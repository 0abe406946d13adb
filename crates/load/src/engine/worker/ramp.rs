//! A closed loop with many connections opens all of them before it sends a request on any of them.
//!
//! A server accepts connections while it serves the existing ones. nginx accepts one connection
//! each time it has served a request on all others. If the first thousands of ten thousand
//! connections are already loaded, the last hundreds wait in the backlog for seconds. These waits
//! say nothing about how well the server serves requests, and they grow with the speed of the
//! generator. Therefore, requests on the first connections are held until all connections are
//! established or have failed, but at most for [`HOLD_TIME_MAX`]. The clock of a held request is
//! stopped: its response time is the sum of its connect time and the time of its response.

use prony_record::Nanos;

use super::pace::Pace;
use crate::spec::LoadSpec;

/// Minimum number of connections for a ramp. With fewer connections, a worker starts all requests
/// immediately.
const CONNECTIONS_MIN: u32 = 256;
/// Number of connections that the whole load begins per millisecond. A kernel completes connection
/// attempts on behalf of its server, so a successful one does not show how many connections are
/// waiting in the backlog. If the server does not run in the meantime, nginx's backlog of 511 is
/// full after 30 ms at this rate, and after 10 ms without the limit.
const STEP_CONNECTIONS: u32 = 16;
/// Maximum number of pending connection attempts, so that the server is not overrun.
const IN_FLIGHT_MAX: u32 = 256;
/// Time after which another [`IN_FLIGHT_MAX`] connection attempts may begin if the server has not
/// responded to the pending ones.
const IN_FLIGHT_RENEWAL: Nanos = Nanos::from_millis(100);
/// Maximum time for which a request is held. A SYN that was dropped because the backlog was full is
/// sent again after a second (RFC 6298 §2).
const HOLD_TIME_MAX: Nanos = Nanos::from_millis(1_500);
/// Time that the server gets to accept the connections that its kernel has already established.
const ACCEPT_TIME: Nanos = Nanos::from_millis(20);

/// Phase of one entry's first connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RampPhase {
    /// The connection is not part of the ramp, or has left it.
    Done,
    /// The connection is being established.
    Connecting,
    /// The request on the connection is held until the others are established.
    Held,
}

/// State of the ramp: the phase of a load until all connections are established.
pub(super) struct ConnectRamp {
    /// Phases of the connections, by entry.
    phases: Vec<RampPhase>,
    /// Number of connections that are still to be opened.
    left: u32,
    /// Time between two steps. In each step, up to [`STEP_CONNECTIONS`] connections begin.
    interval: Nanos,
    begun: u32,
    /// Number of connections that are being established.
    in_flight: u32,
    /// Time at which a connection was last established or failed.
    settled: Nanos,
    /// True if requests are no longer held.
    is_released: bool,
}

impl ConnectRamp {
    /// Creates the ramp of a load that opens this number of connections. Returns `None` if the load
    /// needs no ramp.
    pub(super) fn new(
        pace: &Pace,
        connections: u32,
        entries: u32,
        spec: &LoadSpec,
    ) -> Option<ConnectRamp> {
        let Pace::Closed { left } = pace else {
            return None;
        };
        // Users with think times begin at different times, so they need no ramp.
        if spec.think.is_some() {
            return None;
        }
        let left = u32::try_from(*left).unwrap_or(u32::MAX).min(connections);
        // With a warm-up and a limit on requests, no request may move from the warm-up to the
        // measured part.
        let is_counted_late = spec.span.requests.is_some() && spec.span.warmup > Nanos::ZERO;
        (spec.transport.keepalive && left > CONNECTIONS_MIN && !is_counted_late)
            .then(|| ConnectRamp::over(left, entries, false, spec))
    }

    /// Creates the ramp for connections that are opened before the load begins. No requests are
    /// held.
    pub(super) fn preconnect(connections: u32, entries: u32, spec: &LoadSpec) -> ConnectRamp {
        ConnectRamp::over(connections, entries, true, spec)
    }

    fn over(left: u32, entries: u32, is_released: bool, spec: &LoadSpec) -> ConnectRamp {
        ConnectRamp {
            phases: vec![RampPhase::Done; entries as usize],
            left,
            interval: Nanos::from_millis(u64::from(spec.placement.shards.of)),
            begun: 0,
            in_flight: 0,
            settled: Nanos::ZERO,
            is_released,
        }
    }

    /// Returns true if no further connection attempt may start now.
    pub(super) fn is_full(&self, now: Nanos) -> bool {
        let renewed = now.0 / IN_FLIGHT_RENEWAL.0 * u64::from(IN_FLIGHT_MAX);
        let is_crowded = self.in_flight >= IN_FLIGHT_MAX && u64::from(self.begun) >= renewed;
        self.left > 0 && (is_crowded || now < self.next_step())
    }

    /// Returns the earliest start of the next connection, provided that not too many are in flight.
    fn next_step(&self) -> Nanos {
        Nanos(self.interval.0 * u64::from(self.begun / STEP_CONNECTIONS))
    }

    /// Time at which [`ConnectRamp::end_if_due`] must be called next.
    pub(super) fn wake_at(&self, now: Nanos) -> Nanos {
        self.next_begin(now).min(self.held_until())
    }

    /// Earliest time at which another connection may begin; [`Nanos::MAX`] if that time is unknown.
    pub(super) fn next_begin(&self, now: Nanos) -> Nanos {
        match self.next_step() {
            next if self.left > 0 && next > now => next,
            _ => Nanos::MAX,
        }
    }

    /// Returns the time until which requests are held; [`Nanos::MAX`] if that time is unknown.
    fn held_until(&self) -> Nanos {
        match (self.left, self.in_flight) {
            (0, 0) => self.settled + ACCEPT_TIME,
            _ if self.is_released => Nanos::MAX,
            _ => HOLD_TIME_MAX,
        }
    }

    /// Records that the first connection of an entry begins.
    pub(super) fn begin(&mut self, index: u32) {
        if self.left > 0 {
            self.left -= 1;
            self.begun += 1;
            self.in_flight += 1;
            self.phases[index as usize] = RampPhase::Connecting;
        }
    }

    /// Records that the first connection of an entry was established or has failed.
    pub(super) fn settle(&mut self, index: u32, now: Nanos) {
        let phase = &mut self.phases[index as usize];
        if *phase == RampPhase::Connecting {
            *phase = RampPhase::Done;
            self.in_flight -= 1;
            self.settled = now;
        }
    }

    /// Records that the first connection of an entry was established. Returns true if its request
    /// is held.
    pub(super) fn hold(&mut self, index: u32, now: Nanos) -> bool {
        if self.phases[index as usize] == RampPhase::Done {
            return false;
        }
        self.settle(index, now);
        if self.is_released {
            return false;
        }
        self.phases[index as usize] = RampPhase::Held;
        true
    }

    /// Returns true if the request on a connection is held.
    #[inline]
    pub(super) fn is_held(&self, index: u32) -> bool {
        self.phases[index as usize] == RampPhase::Held
    }

    /// Ends the hold when it is due. Returns true if this call released requests.
    pub(super) fn end_if_due(&mut self, now: Nanos) -> bool {
        now >= self.held_until() && self.end_hold()
    }

    /// Ends the hold early. Returns true if this call released requests.
    pub(super) fn end_hold(&mut self) -> bool {
        !std::mem::replace(&mut self.is_released, true)
    }

    /// Returns true if the ramp is over and may be dropped.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        self.left == 0 && self.in_flight == 0 && now >= self.held_until()
    }

    /// Releases the request on a connection. Returns true if it was held.
    pub(super) fn release(&mut self, index: u32) -> bool {
        let phase = &mut self.phases[index as usize];
        let was_held = *phase == RampPhase::Held;
        if was_held {
            *phase = RampPhase::Done;
        }
        was_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::worker::tests::spec;

    const COUNT: u32 = 300;

    fn ramp(left: u64) -> Option<ConnectRamp> {
        ConnectRamp::new(&Pace::Closed { left }, COUNT, COUNT, &spec("-c 300"))
    }

    /// Creates a ramp whose connections have all begun.
    fn begun() -> ConnectRamp {
        let mut ramp = ramp(u64::MAX).unwrap();
        (0..COUNT).for_each(|index| ramp.begin(index));
        ramp
    }

    #[test]
    fn only_loads_with_many_connections_have_a_ramp() {
        assert!(ramp(u64::from(CONNECTIONS_MIN)).is_none());
        assert!(ramp(u64::from(CONNECTIONS_MIN) + 1).is_some());
        let mut ramp = ramp(u64::MAX).unwrap();
        assert!(!ramp.is_full(Nanos::ZERO));
        (0..STEP_CONNECTIONS).for_each(|index| ramp.begin(index));
        assert!(ramp.is_full(Nanos::ZERO) && !ramp.is_full(ramp.interval));
    }

    #[test]
    fn requests_are_held_until_all_connections_are_established() {
        let mut ramp = begun();
        let made = Nanos::from_millis(7);
        assert!((0..COUNT).all(|index| ramp.hold(index, made)));
        let end = made + ACCEPT_TIME;
        assert_eq!(ramp.wake_at(made), end);
        assert!(!ramp.end_if_due(Nanos(end.0 - 1)));
        assert!(ramp.end_if_due(end) && ramp.is_over(end));
        assert!(ramp.is_held(0) && ramp.release(0) && !ramp.release(0));
    }

    #[test]
    fn a_connection_that_hangs_holds_requests_for_a_bounded_time() {
        let mut ramp = begun();
        let made = Nanos::from_millis(7);
        assert!((1..COUNT).all(|index| ramp.hold(index, made)));
        assert!(ramp.end_if_due(HOLD_TIME_MAX) && !ramp.is_over(HOLD_TIME_MAX));
        // Once the hold is over, the request of a new connection is not held.
        assert!(!ramp.hold(0, HOLD_TIME_MAX) && !ramp.is_held(0));
        assert!(ramp.is_over(HOLD_TIME_MAX + ACCEPT_TIME));
    }
}
