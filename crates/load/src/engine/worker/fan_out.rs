//! Messages of WebSockets that are sent on one connection and arrive on many.
//!
//! Each receiver is a request slot, whose WebSocket was open when the message was sent. A closed loop
//! has one message in flight at a time, which the connections send in turn.

use std::collections::VecDeque;

use memchr::memmem;
use prony_record::{Nanos, Outcome};

use super::Worker;
use super::dispatcher::RequestPhase;
use crate::carrier::{Carrier, Transport};
use crate::exchange::EventCounts;
use crate::settings;

/// Interval at which lost connections are opened again.
const REOPEN_INTERVAL: Nanos = Nanos::from_secs(1);
/// Maximum number of lost connections that are opened at the same time.
const REOPENED_MAX: u32 = 256;

/// The messages of a fan-out that are in flight.
pub(super) struct FanOut {
    receivers: settings::FanOut,
    in_flight: VecDeque<Broadcast>,
    looked: Nanos,
}

/// A message that is to arrive on many connections.
struct Broadcast {
    /// Slot of the sender.
    slot: u32,
    /// Part of the message by which it is recognized; empty until the first arrival.
    marker: Vec<u8>,
    /// True for each slot on which the message has yet to arrive.
    missing: Vec<bool>,
    left: u32,
}

impl FanOut {
    pub(super) fn new(receivers: settings::FanOut) -> FanOut {
        FanOut {
            receivers,
            in_flight: VecDeque::new(),
            looked: Nanos::ZERO,
        }
    }

    /// Begins a message of this slot, which is to arrive on the slots that are open.
    fn begin(&mut self, slot: u32, mut missing: Vec<bool>) {
        missing[slot as usize] = self.receivers == settings::FanOut::All;
        let left = missing.iter().filter(|it| **it).count() as u32;
        self.in_flight.push_back(Broadcast {
            slot,
            marker: Vec::new(),
            missing,
            left,
        });
    }

    /// Finds the message that arrived on a slot: the oldest one that it contains and that has yet to
    /// arrive there. `sent` returns the message of a slot, once it is in flight. Returns the sender's
    /// slot, and true if the message has now arrived everywhere.
    fn deliver(
        &mut self,
        receiver: u32,
        message: &[u8],
        sent: impl Fn(u32) -> Option<Vec<u8>>,
    ) -> Option<(u32, bool)> {
        for broadcast in &mut self.in_flight {
            let is_missing = &mut broadcast.missing[receiver as usize];
            if !*is_missing {
                continue;
            }
            if broadcast.marker.is_empty() {
                let Some(sent) = sent(broadcast.slot) else {
                    continue;
                };
                broadcast.marker = marker_of(&sent).to_vec();
            }
            if contains_word(message, &broadcast.marker) {
                *is_missing = false;
                broadcast.left -= 1;
                return Some((broadcast.slot, broadcast.left == 0));
            }
        }
        None
    }

    /// Ends the messages of the slots for which `is_over` returns true. Returns the number of
    /// receivers on which they have not arrived.
    fn end(&mut self, is_over: impl Fn(u32) -> bool) -> u32 {
        let mut lost = 0;
        self.in_flight.retain(|broadcast| {
            let is_over = is_over(broadcast.slot);
            lost += if is_over { broadcast.left } else { 0 };
            !is_over
        });
        lost
    }
}

/// Returns the part of a message by which it is recognized: the first UUID in it, or else the whole
/// message.
fn marker_of(message: &[u8]) -> &[u8] {
    const UUID: &[u8; 36] = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    let fits = |(byte, pattern): (&u8, &u8)| match pattern {
        b'-' => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    let mut windows = message.windows(UUID.len());
    let uuid = windows.find(|window| window.iter().zip(UUID).all(fits));
    uuid.unwrap_or(message)
}

/// Returns true if a message contains a marker, and not as a part of a longer word or number.
fn contains_word(message: &[u8], marker: &[u8]) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    message == marker
        || memmem::find_iter(message, marker).any(|at| {
            let before = at.checked_sub(1).and_then(|at| message.get(at));
            let after = message.get(at + marker.len());
            let is_part = is_word(before) && is_word(marker.first())
                || is_word(after) && is_word(marker.last());
            !is_part
        })
}

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Takes the next message of a fan-out, with the slot that sends it.
    pub(super) fn take_broadcast(&mut self) -> Option<(u32, u32)> {
        let (slot, request) = self.take_listed()?;
        self.dispatcher.advance_list(slot);
        let slots = self.dispatcher.slots.iter().map(|slot| {
            let session = self.connections[slot.connection].session();
            session.is_some_and(|session| session.carrier.receives_deliveries(slot.stream()))
        });
        let open = Vec::from_iter(slots);
        let dispatcher = &self.dispatcher;
        if let Some(fan_out) = &mut self.fan_out {
            // A message may have ended with its connection.
            let lost = fan_out.end(|slot| dispatcher.slot(slot).pending().is_none());
            self.sink.websocket.deliveries_lost += u64::from(lost);
            fan_out.begin(slot, open);
        }
        Some((slot, request))
    }

    /// Handles a message on this slot that no exchange awaits, unless a fan-out does.
    pub(super) fn message_arrived(&mut self, index: u32, slot: u32, now: Nanos) {
        let stream = self.dispatcher.slot(slot).stream();
        let session = self.connections[index].session_mut();
        let message = session.and_then(|session| session.carrier.take_delivery(stream));
        let found = match (&mut self.fan_out, message) {
            (Some(fan_out), Some(message)) => {
                let (dispatcher, requests) = (&self.dispatcher, &self.spec.requests);
                fan_out.deliver(slot, &message, |slot| {
                    let taken = dispatcher.slot(slot);
                    let is_sent = taken.phase() == Some(RequestPhase::InFlight);
                    let request = taken.request(requests).filter(|_| is_sent)?;
                    Some(request.http1().to_vec())
                })
            }
            _ => None,
        };
        let Some((sender, is_complete)) = found else {
            self.sink.message_unawaited(now);
            return;
        };
        let pending = self.dispatcher.slot(sender).pending();
        let is_settling = pending.is_some_and(|pending| pending.is_settling);
        let is_measured = !is_settling && self.sink.recorder.is_measured_at(now);
        self.sink.websocket.deliveries += u64::from(is_measured);
        if let Some(times) = &mut self.event_times {
            let counts = EventCounts {
                events: 1,
                ..EventCounts::default()
            };
            let arrived = times.arrived(sender, counts, now);
            self.sink.recorder.events_arrived(now, is_settling, arrived);
        }
        if is_complete {
            self.end_broadcast(sender, Outcome::Ok, now);
        }
    }

    /// Ends a message of a fan-out. Its connection stays open.
    pub(super) fn end_broadcast(&mut self, slot: u32, outcome: Outcome, now: Nanos) {
        if let Some(fan_out) = &mut self.fan_out {
            let lost = fan_out.end(|it| it == slot);
            let is_measured = self.sink.recorder.is_measured_at(now);
            self.sink.websocket.deliveries_lost += u64::from(lost) * u64::from(is_measured);
        }
        let taken = self.dispatcher.slot(slot);
        let (index, stream) = (taken.connection, taken.stream());
        if let Some(session) = self.connections[index].session_mut() {
            session.has_served = true;
            session.carrier.end_fan_out(stream);
        }
        self.record_end(slot, outcome, None, now);
        self.dispatcher.set_free(slot, now);
    }

    /// Opens the lost connections of a fan-out again, because a closed loop doesn't use all of them.
    pub(super) fn reopen_receivers(&mut self, now: Nanos) {
        if let Some(fan_out) = &mut self.fan_out
            && now.since(fan_out.looked) >= REOPEN_INTERVAL
        {
            fan_out.looked = now;
            self.reopen(REOPENED_MAX, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_recognized_by_their_text_or_by_a_uuid() {
        let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        let message = format!("{{\"id\":\"{uuid}\",\"text\":\"x\"}}");
        assert_eq!(marker_of(message.as_bytes()), uuid.as_bytes());
        assert_eq!(marker_of(b"message 7"), b"message 7");
        assert!(contains_word(b"message 7", b"message 7"));
        assert!(contains_word(b"{\"text\":\"message 7\"}", b"message 7"));
        assert!(contains_word(b"message 71, message 7", b"message 7"));
        assert!(!contains_word(b"message 71", b"message 7"));
        assert!(!contains_word(b"", b"message 7"));
    }

    #[test]
    fn each_receiver_counts_once_for_the_oldest_message_that_it_lacks() {
        let mut fan_out = FanOut::new(settings::FanOut::Others);
        let sent = |_: u32| Some(b"hi".to_vec());
        fan_out.begin(0, vec![true; 3]);
        fan_out.begin(1, vec![true, true, false]);
        assert_eq!(fan_out.deliver(1, b"hi", sent), Some((0, false)));
        assert_eq!(fan_out.deliver(1, b"hi", sent), None);
        assert_eq!(fan_out.deliver(2, b"other", sent), None);
        assert_eq!(fan_out.deliver(0, b"hi", sent), Some((1, true)));
        assert_eq!(fan_out.deliver(2, b"hi", sent), Some((0, true)));
        assert_eq!(fan_out.deliver(2, b"hi", sent), None);
        fan_out.begin(2, vec![true; 3]);
        assert_eq!(fan_out.end(|slot| slot == 2), 2);
        assert_eq!(fan_out.end(|slot| slot == 1), 0);
    }
}
