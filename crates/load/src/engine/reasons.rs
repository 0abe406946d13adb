//! Reasons for failed requests, where the outcome's name alone doesn't explain the failure, counted
//! by outcome and text.

use prony_record::Outcome;

use crate::carrier::Reason;

/// Maximum number of distinct reasons. Failures for any other reason are counted by outcome only.
const REASONS_MAX: usize = 32;
/// Label for the failures that are counted by outcome only.
const OTHER_REASONS: &str = "other reasons";

/// Counts of failures by outcome and reason. They are not updated on the hot path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reasons {
    seen: Vec<(Outcome, Reason, u64)>,
}

impl Reasons {
    /// Counts a failure, if a reason for it is known.
    pub(crate) fn add(&mut self, outcome: Outcome, reason: Option<Reason>) {
        if let Some(reason) = reason {
            self.add_many(outcome, reason, 1);
        }
    }

    fn add_many(&mut self, outcome: Outcome, reason: Reason, count: u64) {
        let others = Reason::Text(OTHER_REASONS.to_owned());
        let room = self.seen.len() < REASONS_MAX || reason == others;
        let known = self
            .seen
            .iter_mut()
            .find(|(o, r, _)| *o == outcome && *r == reason);
        match known {
            Some((.., seen)) => *seen += count,
            None if room => self.seen.push((outcome, reason, count)),
            None => self.add_many(outcome, others, count),
        }
    }

    /// Adds the counts of another worker.
    pub(crate) fn merge(&mut self, other: Reasons) {
        for (outcome, reason, count) in other.seen {
            self.add_many(outcome, reason, count);
        }
    }

    /// Returns the reasons, the most frequent first.
    pub(crate) fn by_count(&self) -> Vec<(Outcome, String, u64)> {
        let mut all: Vec<_> = self
            .seen
            .iter()
            .map(|(o, reason, n)| (*o, reason.to_string(), *n))
            .collect();
        all.sort_by_key(|(.., n)| std::cmp::Reverse(*n));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_is_lost_for_any_number_of_reasons() {
        let mut all = Reasons::default();
        for worker in 0..3 {
            let mut one = Reasons::default();
            for n in 0..1000u64 {
                let outcome = [Outcome::Tls, Outcome::Reset][n as usize % 2];
                let reason = Reason::Text(format!("reason {} of worker {worker}", n % 100));
                one.add(outcome, Some(reason));
                one.add(outcome, None);
            }
            all.merge(one);
        }
        let by_count = all.by_count();
        assert!(by_count.len() <= REASONS_MAX + 2);
        assert_eq!(by_count.iter().map(|(.., n)| n).sum::<u64>(), 3000);
        assert_eq!(by_count[0].1, OTHER_REASONS);
    }
}
