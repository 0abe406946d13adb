//! Finds responses whose rest arrives only after the generator's kernel has acknowledged their
//! beginning: Nagle's algorithm in the server, together with delayed acknowledgments here.
//!
//! The time between a response's first and last byte shows the delay, but not its cause: a server
//! may as well need that time for the body. Once many responses were late by about the time of the
//! kernel's delayed acknowledgment (40 ms on Linux), the worker therefore acknowledges the
//! beginnings of a few responses immediately. If their rest then arrives earlier than that of the
//! responses between them, by the time of a delayed acknowledgment, the server was waiting for the
//! acknowledgment. The times of large bodies over a slow link overlap instead.

use prony_record::finding::DelayedAcks;
use prony_record::{Exchange, Finding, Nanos, Severity};

/// Minimum time from the first to the last byte of a delayed response. The kernel's timer takes 40
/// ms, and the first byte may be read late.
const DELAY_MIN: Nanos = Nanos::from_millis(35);
/// Part of the delay that must disappear if the kernel acknowledges immediately. The rest is the
/// round trip, which an immediate acknowledgment takes as well.
const DELAY_SAVED_MIN: Nanos = Nanos::from_millis(30);
/// Maximum part of the delay that can disappear. The kernel's timer takes up to 200 ms.
const DELAY_SAVED_MAX: Nanos = Nanos::from_millis(250);
/// Number of delayed responses of a worker after which it begins to acknowledge immediately.
const DELAYED_MIN: u64 = 10;
/// Minimum share of delayed responses among those that arrived in several parts.
const DELAYED_SHARE_MIN: f64 = 0.5;
/// Minimum and maximum number of responses that a worker acknowledges immediately. The minimum is
/// for the whole load.
const TESTS_MIN: u64 = 4;
const TESTS_MAX: u64 = 8;
/// Number of responses in parts per test: small for the first tests, so that a short load has
/// enough of them.
const TEST_EVERY: [u64; 2] = [2, 16];
/// One in this many tests may be late nevertheless, and one in this many of the responses between them
/// may be early.
const EXCEPTION_EVERY: usize = 8;

/// Times from the first to the last byte of successful responses that arrived in several parts.
#[derive(Debug, Clone, Default)]
pub(crate) struct BodyWaits {
    /// Responses that arrived in several parts, without the tests.
    in_parts: u64,
    /// Number of delayed responses among them, and the sum of their times.
    delayed: (u64, Nanos),
    /// The slot whose response is a test.
    tested_slot: Option<u32>,
    /// Times of the tests.
    tested: Vec<Nanos>,
    /// Times of the responses after each test.
    between: Vec<Nanos>,
    /// True if the transport can't acknowledge immediately.
    has_given_up: bool,
}

impl BodyWaits {
    /// Adds another worker's times.
    pub(crate) fn merge(&mut self, other: BodyWaits) {
        self.in_parts += other.in_parts;
        self.delayed.0 += other.delayed.0;
        self.delayed.1 = self.delayed.1 + other.delayed.1;
        self.tested.extend(other.tested);
        self.between.extend(other.between);
    }

    /// Records the end of a slot's request.
    #[inline]
    pub(super) fn ended(&mut self, slot: u32, exchange: &Exchange, is_ok: bool) {
        let begun = exchange.first_byte.unwrap_or(exchange.ended);
        let wait = exchange.ended.since(begun);
        if wait > Nanos::ZERO || self.tested_slot.is_some() {
            self.add(slot, wait, is_ok);
        }
    }

    fn add(&mut self, slot: u32, wait: Nanos, is_ok: bool) {
        let is_test = self.tested_slot == Some(slot);
        if is_test {
            self.tested_slot = None;
        }
        if !is_ok || wait == Nanos::ZERO {
            return;
        }
        if is_test {
            self.tested.push(wait);
            return;
        }
        self.in_parts += 1;
        if self.between.len() < self.tested.len() {
            self.between.push(wait);
        }
        if wait >= DELAY_MIN {
            self.delayed = (self.delayed.0 + 1, self.delayed.1 + wait);
        }
    }

    /// Returns true if the worker should look for a response to acknowledge immediately.
    #[inline]
    pub(super) fn is_testing(&self) -> bool {
        self.delayed.0 >= DELAYED_MIN
            && !self.has_given_up
            && (self.tested_slot.is_some() || self.is_test_due())
    }

    /// Ends the tests, because the transport can't acknowledge immediately.
    #[cold]
    pub(super) fn give_up(&mut self) {
        self.has_given_up = true;
        self.tested_slot = None;
    }

    fn is_test_due(&self) -> bool {
        let tests = self.tested.len() as u64;
        let every = TEST_EVERY[usize::from(tests >= TESTS_MIN)];
        tests < TESTS_MAX
            && self.has_many_delayed()
            && (self.in_parts + tests).is_multiple_of(every)
    }

    fn has_many_delayed(&self) -> bool {
        self.delayed.0 as f64 >= DELAYED_SHARE_MIN * self.in_parts as f64
    }

    /// Decides if the beginning of a slot's response, which has just arrived, is acknowledged
    /// immediately.
    pub(super) fn tests(&mut self, slot: u32) -> bool {
        *self.tested_slot.get_or_insert(slot) == slot
    }

    /// The finding about responses whose rest waits for an acknowledgment. `ok` is the number of
    /// successful requests.
    pub(crate) fn finding(&self, ok: u64) -> Option<Finding> {
        let (delayed, sum) = self.delayed;
        let tests = self.tested.len();
        if delayed < DELAYED_MIN || (tests as u64) < TESTS_MIN || !self.has_many_delayed() {
            return None;
        }
        let mean = Nanos(sum.0 / delayed);
        let (mut tested, mut between) = (self.tested.clone(), self.between.clone());
        tested.sort_unstable();
        between.sort_unstable();
        let latest = tested[tests - 1 - tests / EXCEPTION_EVERY];
        let earliest = *between.get(between.len() / EXCEPTION_EVERY)?;
        let saved = between[between.len() / 2].since(tested[tests / 2]);
        if latest + DELAY_SAVED_MIN > earliest || saved > DELAY_SAVED_MAX {
            return None;
        }
        let figures = DelayedAcks {
            delayed,
            ok,
            delay_us: mean.as_micros_f64(),
            acknowledged: tests as u64,
            acknowledged_delay_us: tested[tests / 2].as_micros_f64(),
        };
        Some(Finding::of(Severity::Warning, &figures))
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// Returns the finding of a worker with one connection. The response with a given number takes
    /// `wait_ms` from its first to its last byte; the function's second argument is true if the
    /// response's beginning is acknowledged immediately.
    fn finding_of(responses: u64, wait_ms: impl Fn(u64, bool) -> u64) -> Option<DelayedAcks> {
        let mut waits = BodyWaits::default();
        for number in 0..responses {
            let is_test = waits.is_testing() && waits.tests(7);
            let exchange = Exchange {
                intended: Nanos::ZERO,
                sent: Nanos::ZERO,
                first_byte: Some(Nanos::from_millis(1)),
                ended: Nanos::from_millis(1 + wait_ms(number, is_test)),
                status: Some(200),
                bytes_in: 40,
                body_bytes_in: 2,
                bytes_out: 40,
                is_settling: false,
                entry: 0,
            };
            waits.ended(7, &exchange, true);
        }
        waits.finding(responses)?.figures()
    }

    #[test]
    fn responses_that_wait_for_an_acknowledgment_are_found() {
        let nagle = |number, is_test| if is_test { 1 } else { 41 + number % 4 * 4 };
        let found = finding_of(200, nagle).unwrap();
        assert_eq!((found.delayed, found.ok, found.acknowledged), (192, 200, 8));
        assert_eq!(found.acknowledged_delay_us, 1_000.0);
        assert!((found.delay_us - 47_200.0).abs() < 100.0, "{found:?}");
        assert!(finding_of(20, nagle).is_some());
        assert_eq!(finding_of(12, nagle), None, "too few responses");
        let distant = |number, is_test| 80 + nagle(number, is_test);
        assert!(finding_of(200, distant).is_some(), "a round trip of 80 ms");
    }

    #[test]
    fn slow_bodies_are_no_finding() {
        assert_eq!(finding_of(500, |_, _| 40), None, "a constant pause");
        assert_eq!(
            finding_of(500, |number, _| number * 37 % 120),
            None,
            "a spread"
        );
        assert_eq!(finding_of(500, |_, _| 900), None, "a stream");
        assert_eq!(finding_of(500, |_, _| 1), None, "large bodies");
        let rising = |number, _| 40 + number * 10;
        assert_eq!(finding_of(500, rising), None, "a queue that grows");
        let stalls = |_, is_test| if is_test { 300 } else { 900 };
        assert_eq!(
            finding_of(500, stalls),
            None,
            "more than the kernel's timer"
        );
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        let found = (0..1_000).filter(|_| {
            let times: Vec<u64> = (0..500).map(|_| random.random_range(40..600)).collect();
            finding_of(500, |number, _| times[number as usize]).is_some()
        });
        let found = found.count();
        assert!(found <= 10, "a slow link: {found} of 1,000");
        assert_eq!(finding_of(500, |_, _| 0), None, "one part each");
    }

    #[test]
    fn a_few_delayed_responses_among_many_in_parts_are_no_finding() {
        let rare = |number: u64, _| if number.is_multiple_of(10) { 44 } else { 1 };
        assert_eq!(finding_of(500, rare), None);
    }
}
