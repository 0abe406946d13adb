//! Messages of WebSockets that are sent on one connection and arrive on many.
//!
//! Each receiver is a request slot, whose WebSocket was open when the message was sent. A closed loop
//! has one message in flight at a time, which the connections send in turn.

use std::collections::VecDeque;

use memchr::memmem;
use prony_record::Nanos;

use crate::settings;

/// Interval at which lost connections are opened again.
const REOPEN_INTERVAL: Nanos = Nanos::from_secs(1);

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

    /// Returns true if lost connections should be opened again now.
    pub(super) fn is_reopening_due(&mut self, now: Nanos) -> bool {
        let is_due = now.since(self.looked) >= REOPEN_INTERVAL;
        if is_due {
            self.looked = now;
        }
        is_due
    }

    /// Begins a message of this slot, which is to arrive on the slots that are open.
    pub(super) fn begin(&mut self, slot: u32, mut missing: Vec<bool>) {
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
    pub(super) fn deliver(
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
    pub(super) fn end(&mut self, is_over: impl Fn(u32) -> bool) -> u32 {
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
