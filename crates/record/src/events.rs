//! Events of streamed responses: their counts and times.
//!
//! An event is counted when it arrives, in a closed as in an open loop: it belongs to the measured
//! part if it arrived in it. The time to the first event belongs to its request, and is recorded
//! when the request ends. A failed request therefore never improves it. The gaps before the events
//! of a stream that fails later stay counted, and the gap in which it failed is beyond every limit.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::{Distribution, Nanos, Outcome, Summary, unmeasured};

/// Settings of the events of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventInfo {
    /// Division of bodies into events: `sse`, `lines` or `chunks`.
    pub format: String,
    /// JSON field that events must have to be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Data that end a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_marker: Option<String>,
}

/// Events of a load over the measured part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EventResults {
    /// Events that arrived. If events must have a field, those that have it.
    pub events: u64,
    /// Events that lack the field that events must have.
    #[serde(default)]
    pub other_events: u64,
    /// Unicode characters in the fields of the events; `None` if events need no field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chars: Option<u64>,
    /// Events that arrived per second.
    pub events_per_s: f64,
    /// Mean number of events of a successful response; `None` if there is none.
    pub events_per_response: Option<f64>,
    /// Failed requests whose time to the first event isn't recorded as a lower bound.
    #[serde(default)]
    pub failed: u64,
    /// Streams that failed after an event, without a lower bound on the gap in which they failed.
    #[serde(default)]
    pub failed_in_gap: u64,
    /// Times from the intended start to the first event.
    #[serde(with = "unmeasured")]
    pub first_event_us: Summary,
    /// Times between successive events of a stream.
    #[serde(with = "unmeasured")]
    pub event_gap_us: Summary,
}

/// Counts and times of events in one interval of a load.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventDelta {
    /// See [`EventResults::events`].
    pub events: u64,
    /// See [`EventResults::other_events`].
    pub others: u64,
    /// See [`EventResults::chars`].
    pub chars: u64,
    /// Events of the requests that succeeded.
    pub of_ok: u64,
    /// Streams that succeeded.
    pub ok: u64,
    /// See [`EventResults::failed`].
    pub failed: u64,
    /// See [`EventResults::failed_in_gap`].
    pub failed_in_gap: u64,
    /// See [`EventResults::first_event_us`].
    pub first_event: Distribution,
    /// See [`EventResults::event_gap_us`].
    pub event_gap: Distribution,
}

/// Number of counts in an [`EventDelta`].
pub(crate) const EVENT_COUNTS: usize = 7;

/// Events that arrived together on one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArrivedEvents {
    /// Number of events.
    pub events: u32,
    /// Number of events without the field that events must have.
    pub others: u32,
    /// Characters in the fields of the events.
    pub chars: u32,
    /// Time since the previous event of the stream, if there was one.
    pub gap: Option<Nanos>,
}

/// Events of one stream until it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamedEvents {
    /// Number of events.
    pub events: u64,
    /// Times of the first and the last event.
    pub span: Option<(Nanos, Nanos)>,
}

/// Ages below which times that were cut off by the end of the load are left out, because every load
/// has such times.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UntimedBelow {
    pub(crate) first_event: Nanos,
    pub(crate) event_gap: Nanos,
}

impl EventDelta {
    /// Adds events that arrived together. All but the first of them have a gap of zero.
    pub(crate) fn arrived(&mut self, arrived: ArrivedEvents) {
        self.events += u64::from(arrived.events);
        self.others += u64::from(arrived.others);
        self.chars += u64::from(arrived.chars);
        let Some(together) = arrived.events.checked_sub(1) else {
            return;
        };
        if let Some(gap) = arrived.gap {
            self.event_gap.record(gap);
        }
        if together > 0 {
            self.event_gap.record_many(Nanos::ZERO, together.into());
        }
    }

    /// Adds the end of a request that was due at `intended`.
    pub(crate) fn ended(
        &mut self,
        (intended, ended): (Nanos, Nanos),
        outcome: Outcome,
        streamed: StreamedEvents,
        untimed: UntimedBelow,
    ) {
        let age = ended.since(intended);
        match (outcome, streamed.span) {
            (Outcome::Ok, span) => {
                self.of_ok += streamed.events;
                self.ok += 1;
                if let Some((first, _)) = span {
                    self.first_event.record(first.since(intended));
                }
            }
            (Outcome::Unfinished, Some((first, last))) => {
                self.first_event.record(first.since(intended));
                let gap = ended.since(last);
                if gap >= untimed.event_gap {
                    self.event_gap.record_at_least(gap);
                }
            }
            (Outcome::Unfinished, None) if age < untimed.first_event => {}
            (_, None) if outcome.is_censored() => self.first_event.record_at_least(age),
            (_, None) => self.failed += 1,
            (Outcome::Stalled, Some((_, last))) => {
                self.failed += 1;
                self.event_gap.record_at_least(ended.since(last));
            }
            (_, Some(_)) => {
                self.failed += 1;
                self.failed_in_gap += 1;
            }
        }
    }

    /// Adds the events of another interval or worker.
    pub fn merge(&mut self, other: &EventDelta) {
        for (mine, theirs) in self.counts_mut().into_iter().zip(other.counts()) {
            mine.add_assign(theirs);
        }
        self.first_event.merge(&other.first_event);
        self.event_gap.merge(&other.event_gap);
    }

    pub(crate) fn clear(&mut self) {
        self.counts_mut().into_iter().for_each(|count| *count = 0);
        self.first_event.clear();
        self.event_gap.clear();
    }

    pub(crate) fn counts_mut(&mut self) -> [&mut u64; EVENT_COUNTS] {
        [
            &mut self.events,
            &mut self.others,
            &mut self.chars,
            &mut self.of_ok,
            &mut self.ok,
            &mut self.failed,
            &mut self.failed_in_gap,
        ]
    }

    /// Returns the counts in the order of [`EventDelta::counts_mut`].
    pub(crate) fn counts(&self) -> [u64; EVENT_COUNTS] {
        [
            self.events,
            self.others,
            self.chars,
            self.of_ok,
            self.ok,
            self.failed,
            self.failed_in_gap,
        ]
    }

    /// Returns the results over a measured part of this length.
    pub(crate) fn results(&self, info: &EventInfo, elapsed: Nanos) -> EventResults {
        let per_s = match elapsed {
            Nanos::ZERO => 0.0,
            _ => self.events as f64 / elapsed.as_secs_f64(),
        };
        EventResults {
            events: self.events,
            other_events: self.others,
            chars: info.field.is_some().then_some(self.chars),
            events_per_s: per_s,
            events_per_response: (self.ok > 0).then(|| self.of_ok as f64 / self.ok as f64),
            failed: self.failed,
            failed_in_gap: self.failed_in_gap,
            first_event_us: self.first_event.summary(),
            event_gap_us: self.event_gap.summary(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn ended(outcome: Outcome, span: Option<(u64, u64)>) -> EventDelta {
        let streamed = StreamedEvents {
            events: 3,
            span: span.map(|(first, last)| (MS(first), MS(last))),
        };
        let untimed = UntimedBelow {
            first_event: MS(5),
            event_gap: MS(20),
        };
        let mut delta = EventDelta::default();
        delta.ended((MS(10), MS(100)), outcome, streamed, untimed);
        delta
    }

    fn bounds(times: &Distribution) -> (u64, u64, u64) {
        let max = times.summary().max as u64;
        (times.count(), times.censored(), max / 1000)
    }

    #[test]
    fn events_that_arrive_together_have_gaps_of_zero() {
        let mut delta = EventDelta::default();
        delta.arrived(ArrivedEvents {
            events: 3,
            gap: Some(MS(7)),
            ..ArrivedEvents::default()
        });
        let none = ArrivedEvents {
            others: 2,
            gap: Some(MS(9)),
            ..ArrivedEvents::default()
        };
        delta.arrived(none);
        assert_eq!((delta.events, delta.others), (3, 2));
        assert_eq!(bounds(&delta.event_gap), (3, 0, 7));
        assert_eq!(delta.event_gap.quantile(0.5).0, Nanos::ZERO);
    }

    #[test]
    fn a_failed_stream_never_improves_the_time_to_the_first_event() {
        let ok = ended(Outcome::Ok, Some((40, 90)));
        assert_eq!((bounds(&ok.first_event), ok.of_ok), ((1, 0, 30), 3));
        let cut = ended(Outcome::Truncated, Some((40, 90)));
        assert_eq!(
            (cut.first_event.count(), cut.failed, cut.failed_in_gap),
            (0, 1, 1)
        );
        let refused = ended(Outcome::ConnectRefused, None);
        assert_eq!((refused.failed, refused.failed_in_gap), (1, 0));
        let stalled = ended(Outcome::Stalled, Some((40, 60)));
        assert_eq!((stalled.first_event.count(), stalled.failed), (0, 1));
        assert_eq!(bounds(&stalled.event_gap), (1, 1, 40));
        let late = ended(Outcome::Timeout, None);
        assert_eq!((bounds(&late.first_event), late.failed), ((1, 1, 90), 0));
    }

    #[test]
    fn the_end_of_the_load_leaves_out_only_short_gaps() {
        let long = ended(Outcome::Unfinished, Some((40, 60)));
        assert_eq!(bounds(&long.first_event), (1, 0, 30));
        assert_eq!(bounds(&long.event_gap), (1, 1, 40));
        let short = ended(Outcome::Unfinished, Some((40, 90)));
        assert_eq!(short.event_gap.count(), 0);
        let waiting = ended(Outcome::Unfinished, None);
        assert_eq!(bounds(&waiting.first_event), (1, 1, 90));
        assert_eq!(waiting.failed, 0);
    }
}
