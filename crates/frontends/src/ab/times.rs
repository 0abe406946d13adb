//! Collects times for ab's four columns.

use prony_record::{Distribution, Nanos};

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

/// Times in one column. All statistics are exact, except for quantiles, which may be off by up to
/// 0.1%.
#[derive(Debug, Clone, Default)]
pub(super) struct Column {
    count: u64,
    sum_ns: u128,
    /// Sum of the squared times.
    squares: u128,
    min: Option<Nanos>,
    max: Nanos,
    spread: Distribution,
}

impl Column {
    pub(super) fn add(&mut self, time: Nanos) {
        let ns = u128::from(time.0);
        self.count += 1;
        self.sum_ns += ns;
        self.squares += ns * ns;
        self.min = Some(self.min.map_or(time, |min| min.min(time)));
        self.max = self.max.max(time);
        self.spread.record(time);
    }

    /// Adds all times of another column.
    pub(super) fn merge(&mut self, other: &Column) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.squares += other.squares;
        self.min = match (self.min, other.min) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.max = self.max.max(other.max);
        self.spread.merge(&other.spread);
    }

    /// Returns the number of recorded times.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the minimum in milliseconds, or 0 without any times.
    pub(super) fn min_ms(&self) -> f64 {
        ms(self.min.unwrap_or_default())
    }

    /// Returns the maximum in milliseconds.
    pub(super) fn max_ms(&self) -> f64 {
        ms(self.max)
    }

    /// Returns the arithmetic mean in milliseconds.
    pub(super) fn mean_ms(&self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.sum_ns as f64 / count as f64 / 1e6,
        }
    }

    /// Returns the sample standard deviation in milliseconds, or 0 for fewer than two times.
    pub(super) fn deviation_ms(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let sum = self.sum_ns as f64;
        let squared = self.squares as f64 - sum * (sum / self.count as f64);
        (squared.max(0.0) / (self.count - 1) as f64).sqrt() / 1e6
    }

    /// Returns the median in milliseconds.
    pub(super) fn median_ms(&self) -> f64 {
        self.at_ms(self.count / 2)
    }

    /// Returns the time at this zero-based index in ascending order, in milliseconds. If the index
    /// is too large, returns the last time.
    pub(super) fn at_ms(&self, index: u64) -> f64 {
        if index == 0 {
            return self.min_ms();
        }
        if index >= self.count.saturating_sub(1) {
            return self.max_ms();
        }
        // Half a rank is added, so that rounding can't select a neighboring rank.
        let quantile = (index as f64 + 0.5) / self.count as f64;
        let (time, _) = self.spread.quantile(quantile);
        // The upper end of a histogram bucket may exceed the maximum.
        ms(time).min(self.max_ms())
    }
}

fn ms(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Times in all of ab's columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    /// Time for the connect and the TLS handshake.
    pub(super) connect: Column,
    /// Time from the first byte sent to the end of the request.
    pub(super) processing: Column,
    /// Time from the first byte sent to the first byte received.
    pub(super) waiting: Column,
    /// Time of the whole request.
    pub(super) total: Column,
}

impl Times {
    pub(super) fn add(&mut self, row: &RequestTimes) {
        self.connect.add(row.connect);
        self.total.add(row.total());
        row.processing
            .iter()
            .for_each(|time| self.processing.add(*time));
        row.waiting.iter().for_each(|time| self.waiting.add(*time));
    }

    /// Adds all times of another load or worker.
    pub(super) fn merge(&mut self, other: &Times) {
        self.connect.merge(&other.connect);
        self.processing.merge(&other.processing);
        self.waiting.merge(&other.waiting);
        self.total.merge(&other.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times_ms: &[u64]) -> Column {
        let mut column = Column::default();
        times_ms
            .iter()
            .for_each(|ms| column.add(Nanos::from_millis(*ms)));
        column
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() <= other.abs() * 0.001 + 1e-9
    }

    #[test]
    fn figures_are_those_of_a_naive_reckoning() {
        let column = of(&[7, 1, 3, 9, 5]);
        assert_eq!(
            (column.min_ms(), column.max_ms(), column.mean_ms()),
            (1.0, 9.0, 5.0)
        );
        assert!(near(column.median_ms(), 5.0));
        assert!(
            near(column.deviation_ms(), 10.0_f64.sqrt()),
            "{}",
            column.deviation_ms()
        );
        for (index, expected) in [1.0, 3.0, 5.0, 7.0, 9.0, 9.0].into_iter().enumerate() {
            assert!(near(column.at_ms(index as u64), expected), "{index}");
        }
        // For an even count, ab uses the upper of the two middle values.
        assert!(near(of(&[1, 2, 3, 4]).median_ms(), 3.0));
    }

    #[test]
    fn each_rank_is_found_among_many() {
        let column = of(&(1..=1000).rev().collect::<Vec<_>>());
        for index in 0..1000 {
            let found = column.at_ms(index);
            assert!(near(found, index as f64 + 1.0), "{index}: {found}");
        }
    }

    #[test]
    fn one_and_none_have_no_deviation() {
        let none = of(&[]);
        assert_eq!(
            (
                none.min_ms(),
                none.mean_ms(),
                none.median_ms(),
                none.deviation_ms()
            ),
            (0.0, 0.0, 0.0, 0.0)
        );
        assert_eq!(of(&[4]).deviation_ms(), 0.0);
        assert_eq!(of(&[4, 4, 4]).deviation_ms(), 0.0);
    }

    #[test]
    fn merging_equals_adding_all_at_once() {
        let mut merged = of(&[3, 8]);
        merged.merge(&of(&[1, 20, 2]));
        merged.merge(&of(&[]));
        let whole = of(&[3, 8, 1, 20, 2]);
        let figures = |c: &Column| {
            (
                c.count(),
                c.min_ms(),
                c.mean_ms(),
                c.deviation_ms(),
                c.median_ms(),
                c.max_ms(),
            )
        };
        assert_eq!(figures(&merged), figures(&whole));
    }
}
