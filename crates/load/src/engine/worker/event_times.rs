//! Times of the events of streamed responses.

use prony_record::{ArrivedEvents, Nanos, StreamedEvents};

use crate::exchange::EventCounts;

/// The events that have arrived on the stream of each request slot.
pub(super) struct EventTimes {
    streams: Vec<StreamedEvents>,
}

impl EventTimes {
    /// Creates the times of streams that have not begun.
    pub(super) fn new(slots: usize) -> EventTimes {
        EventTimes {
            streams: vec![StreamedEvents::default(); slots],
        }
    }

    /// Adds events that arrived together on a slot's stream. Returns them with their gap.
    pub(super) fn arrived(&mut self, slot: u32, counts: EventCounts, now: Nanos) -> ArrivedEvents {
        let stream = &mut self.streams[slot as usize];
        let gap = stream.span.map(|(_, last)| now.since(last));
        if counts.events > 0 {
            let (first, _) = stream.span.unwrap_or((now, now));
            stream.span = Some((first, now));
            stream.events += u64::from(counts.events);
        }
        ArrivedEvents {
            events: counts.events,
            others: counts.others,
            chars: counts.chars,
            gap,
        }
    }

    /// Removes and returns the events of a slot's stream.
    pub(super) fn take(&mut self, slot: u32) -> StreamedEvents {
        std::mem::take(&mut self.streams[slot as usize])
    }
}
