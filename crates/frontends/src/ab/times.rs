//! Collects times for ab's four columns.

use prony_record::{Distribution, Nanos};

use crate::tally::{Tally, TimeSummary};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestTimes {
    /// Start of the request, relative to the start of the load.
    pub(super) start: Nanos,
    /// Time for the connect and the TLS handshake; zero on a reused connection.
    pub(super) connect: Nanos,
    /// Time from the first byte sent to the end of the request; `None` if nothing was sent.
    pub(super) processing: Option<Nanos>,
    /// Time from the first byte sent to the first byte received.
    pub(super) waiting: Option<Nanos>,
}

impl RequestTimes {
    /// Returns the time from the start of the connect to the end of the request.
    pub(super) fn total(&self) -> Nanos {
        self.connect + self.processing.unwrap_or_default()
    }
}

/// Times in one column, in milliseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct TimesColumn {
    times: TimeSummary,
    spread: Distribution,
}

impl TimesColumn {
    pub(super) fn add(&mut self, time: Nanos) {
        self.times.add(time);
        self.spread.record(time);
    }

    /// Returns the number of recorded times.
    pub(super) fn count(&self) -> u64 {
        self.times.count()
    }

    /// Returns the minimum, or 0 without any times.
    pub(super) fn min_ms(&self) -> f64 {
        ms(self.times.min())
    }

    /// Returns the maximum, or 0 without any times.
    pub(super) fn max_ms(&self) -> f64 {
        ms(self.times.max())
    }

    /// Returns the arithmetic mean, or 0 without any times.
    pub(super) fn mean_ms(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            _ => self.times.mean_ns() / 1e6,
        }
    }

    /// Returns the sample standard deviation, or 0 for fewer than two times.
    pub(super) fn deviation_ms(&self) -> f64 {
        self.times.deviation_ns() / 1e6
    }

    /// Returns the median; of an even number of times, the upper of the two in the middle, as ab
    /// does.
    pub(super) fn median_ms(&self) -> f64 {
        self.at_ms(self.count() / 2)
    }

    /// Returns the time at this zero-based index in ascending order; see [`TimeSummary::at`].
    pub(super) fn at_ms(&self, index: u64) -> f64 {
        ms(self.times.at(index, &self.spread))
    }
}

impl Tally for TimesColumn {
    fn merge(&mut self, other: TimesColumn) {
        self.times.merge(other.times);
        self.spread.merge(&other.spread);
    }
}

fn ms(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Times in all of ab's columns.
#[derive(Debug, Clone, Default)]
pub(super) struct ColumnTimes {
    /// Time for the connect and the TLS handshake.
    pub(super) connect: TimesColumn,
    /// Time from the first byte sent to the end of the request.
    pub(super) processing: TimesColumn,
    /// Time from the first byte sent to the first byte received.
    pub(super) waiting: TimesColumn,
    /// Time of the whole request.
    pub(super) total: TimesColumn,
}

impl ColumnTimes {
    pub(super) fn add(&mut self, row: &RequestTimes) {
        self.connect.add(row.connect);
        self.total.add(row.total());
        row.processing
            .iter()
            .for_each(|time| self.processing.add(*time));
        row.waiting.iter().for_each(|time| self.waiting.add(*time));
    }
}

impl Tally for ColumnTimes {
    fn merge(&mut self, other: ColumnTimes) {
        self.connect.merge(other.connect);
        self.processing.merge(other.processing);
        self.waiting.merge(other.waiting);
        self.total.merge(other.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_milliseconds_and_medians_those_of_ab() {
        let mut column = TimesColumn::default();
        assert_eq!((column.mean_ms(), column.median_ms()), (0.0, 0.0));
        for ms in [1, 2, 3, 4] {
            column.add(Nanos::from_millis(ms));
        }
        assert_eq!((column.min_ms(), column.max_ms()), (1.0, 4.0));
        assert_eq!(column.mean_ms(), 2.5);
        assert!((column.median_ms() - 3.0).abs() < 0.003);
        let variance = column.deviation_ms() * column.deviation_ms();
        assert!((variance - 5.0 / 3.0).abs() < 1e-9);
        let mut both = column.clone();
        both.merge(column);
        assert_eq!((both.count(), both.mean_ms()), (8, 2.5));
    }
}
