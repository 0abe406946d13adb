//! Why requests failed, where the outcome's name doesn't say: counted by variant and wording.

use prony_record::Outcome;

use crate::connection::Reason;

/// Different reasons that are told apart; further ones are counted together.
const MOST: usize = 32;

/// Counts of (outcome, reason). Only failures come here, never the hot path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reasons {
    seen: Vec<(Outcome, Reason, u64)>,
    /// Failures whose reason found no room.
    pub(crate) others: u64,
}

impl Reasons {
    /// Counts a failure, if it has a reason.
    pub(crate) fn add(&mut self, outcome: Outcome, reason: Option<Reason>) {
        if let Some(reason) = reason {
            self.add_many(outcome, reason, 1);
        }
    }

    fn add_many(&mut self, outcome: Outcome, reason: Reason, count: u64) {
        let room = self.seen.len() < MOST;
        let known = self
            .seen
            .iter_mut()
            .find(|(o, r, _)| *o == outcome && *r == reason);
        match known {
            Some((.., seen)) => *seen += count,
            None if room => self.seen.push((outcome, reason, count)),
            None => self.others += count,
        }
    }

    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: Reasons) {
        for (outcome, reason, count) in other.seen {
            self.add_many(outcome, reason, count);
        }
        self.others += other.others;
    }

    /// The reasons, the most frequent first.
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
