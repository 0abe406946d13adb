//! Counts siege's transactions.

use prony_record::Nanos;

use crate::tally::{Tally, TimeSummary, share};

/// Counts and times of transactions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SiegeTally {
    /// Number of complete responses that are not failures.
    pub(super) transactions: u64,
    /// Number of transactions whose status is 401, 407, or less than 400.
    pub(super) successful: u64,
    pub(super) failed: u64,
    /// Number of body bytes as received.
    pub(super) body_bytes: u64,
    /// Times of all complete responses, with any status.
    pub(super) times: TimeSummary,
}

/// Classification of a complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseClass {
    /// A successful transaction.
    Success,
    /// A transaction that did not succeed, such as 404.
    Other,
    /// A failure of the server, which is not a transaction.
    Failure,
}

impl ResponseClass {
    /// Classifies a status code.
    pub(super) fn of(status: u16) -> ResponseClass {
        match status {
            ..=399 | 401 | 407 => ResponseClass::Success,
            408 | 500.. => ResponseClass::Failure,
            _ => ResponseClass::Other,
        }
    }
}

impl SiegeTally {
    /// Counts a complete response.
    pub(super) fn response(&mut self, verdict: ResponseClass, took: Nanos, body_bytes: u64) {
        match verdict {
            ResponseClass::Success => {
                self.transactions += 1;
                self.successful += 1;
            }
            ResponseClass::Other => self.transactions += 1,
            ResponseClass::Failure => self.failed += 1,
        }
        self.body_bytes += body_bytes;
        self.times.add(took);
    }

    /// Counts a request without a complete response.
    pub(super) fn failure(&mut self) {
        self.failed += 1;
    }

    /// Returns the percentage of attempts that were transactions.
    pub(super) fn availability_percent(&self) -> f64 {
        share(
            self.transactions as f64,
            (self.transactions + self.failed) as f64,
        ) * 100.0
    }

    /// Returns the mean time of a complete response, in seconds.
    pub(super) fn response_time_s(&self) -> f64 {
        share(self.times.sum_s(), self.times.count() as f64)
    }
}

impl Tally for SiegeTally {
    fn merge(&mut self, other: SiegeTally) {
        self.transactions += other.transactions;
        self.successful += other.successful;
        self.failed += other.failed;
        self.body_bytes += other.body_bytes;
        self.times.merge(other.times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_judged_as_siege_does() {
        for (statuses, verdict) in [
            (
                &[100, 200, 204, 301, 304, 399, 401, 407][..],
                ResponseClass::Success,
            ),
            (&[400, 403, 404, 409, 429, 499], ResponseClass::Other),
            (&[408, 500, 502, 509, 599], ResponseClass::Failure),
        ] {
            for &status in statuses {
                assert_eq!(ResponseClass::of(status), verdict, "{status}");
            }
        }
    }

    #[test]
    fn merging_equals_counting_all_at_once() {
        let ms = Nanos::from_millis;
        let mut one = SiegeTally::default();
        one.response(ResponseClass::Success, ms(10), 13);
        one.response(ResponseClass::Failure, ms(40), 1);
        let mut two = SiegeTally::default();
        two.response(ResponseClass::Other, ms(4), 5);
        two.failure();
        one.merge(two);
        assert_eq!((one.transactions, one.successful, one.failed), (2, 1, 2));
        assert_eq!(
            (one.body_bytes, one.times.max(), one.times.min()),
            (19, ms(40), ms(4))
        );
        assert_eq!(one.availability_percent(), 50.0);
        assert!((one.response_time_s() - 0.018).abs() < 1e-12);
        let mut empty = SiegeTally::default();
        empty.merge(one.clone());
        assert_eq!(empty, one);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let none = SiegeTally::default();
        assert_eq!(
            (none.availability_percent(), none.response_time_s()),
            (0.0, 0.0)
        );
    }
}
