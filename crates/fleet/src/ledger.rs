//! Adds up the results of all agents of a run, in any order and without duplicates.
//!
//! Each agent numbers its messages from 0. Repeated messages are ignored. Messages may arrive out
//! of order, because their sum doesn't depend on the order. The last message of an agent contains
//! the total number of messages. The agent's part is complete when all of them have arrived.

use std::collections::BTreeMap;

use prony_record::{Delta, DeltaTotals, EncodedDelta, ImplausibleDelta};

/// Messages received from one agent.
#[derive(Debug, Default)]
struct AgentLedger {
    counted: DeltaTotals,
    /// All messages with numbers below this one have arrived.
    below: u64,
    /// Numbers of the messages that arrived out of order, all above `below`.
    above: std::collections::BTreeSet<u64>,
    /// Total number of messages; `None` until the agent's last message has arrived.
    of: Option<u64>,
    repeats: u64,
}

/// Messages received from all agents of one run.
#[derive(Debug, Default)]
pub struct Ledger {
    accounts: BTreeMap<String, AgentLedger>,
    /// Sum of the results in all messages.
    total: Delta,
}

/// Maximum accepted gap in the message numbers. Tracking a larger gap would take too much memory.
const SEQUENCE_AHEAD_MAX: u64 = 1 << 20;

impl Ledger {
    /// Creates a ledger for these agents. Messages from other agents are rejected.
    pub fn new(agents: impl IntoIterator<Item = String>) -> Ledger {
        let accounts = agents
            .into_iter()
            .map(|name| (name, AgentLedger::default()));
        Ledger {
            accounts: accounts.collect(),
            total: Delta::default(),
        }
    }

    /// Adds a message. Returns false if it is a duplicate.
    ///
    /// # Errors
    ///
    /// See [`LedgerError`]. Nothing in a rejected message is counted.
    pub fn take(
        &mut self,
        agent: &str,
        sequence: u64,
        packed: &EncodedDelta,
    ) -> Result<bool, LedgerError> {
        let account = account(&mut self.accounts, agent)?;
        if sequence >= account.below + SEQUENCE_AHEAD_MAX
            || account.of.is_some_and(|of| sequence >= of)
        {
            return Err(LedgerError::BeyondEnd(sequence));
        }
        if sequence < account.below || account.above.contains(&sequence) {
            account.repeats += 1;
            return Ok(false);
        }
        packed
            .add_to(&mut self.total)
            .map_err(LedgerError::Implausible)?;
        packed.count_into(&mut account.counted);
        account.above.insert(sequence);
        while account.above.remove(&account.below) {
            account.below += 1;
        }
        Ok(true)
    }

    /// Sets an agent's total number of messages.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Ledger::take`], and an error if the number contradicts messages
    /// that have arrived.
    pub fn end(&mut self, agent: &str, of: u64) -> Result<(), LedgerError> {
        let account = account(&mut self.accounts, agent)?;
        let last = account.above.last().copied();
        let come = last.map_or(account.below, |last| last + 1);
        match account.of {
            Some(before) if before != of => return Err(LedgerError::BeyondEnd(of)),
            _ if come > of => return Err(LedgerError::BeyondEnd(come)),
            _ => account.of = Some(of),
        }
        Ok(())
    }

    /// Returns true if all messages from an agent have arrived.
    pub fn is_whole(&self, agent: &str) -> bool {
        self.accounts
            .get(agent)
            .is_some_and(|account| account.of == Some(account.below))
    }

    /// Returns the number of an agent's missing messages. Once the agent's last message has
    /// arrived, all gaps are counted; before that, only gaps below the highest sequence number
    /// received so far.
    pub fn missing(&self, agent: &str) -> u64 {
        let Some(account) = self.accounts.get(agent) else {
            return 0;
        };
        let highest = account.above.last().map_or(account.below, |last| last + 1);
        let until = account.of.unwrap_or(highest);
        until - account.below - account.above.len() as u64
    }

    /// Returns the counts received from one agent so far.
    pub fn agent(&self, agent: &str) -> Option<&DeltaTotals> {
        self.accounts.get(agent).map(|account| &account.counted)
    }

    /// Returns the sum of all messages so far.
    pub fn total(&self) -> Delta {
        self.total.clone()
    }

    /// Returns the number of repeated messages.
    pub fn repeats(&self) -> u64 {
        self.accounts.values().map(|account| account.repeats).sum()
    }
}

fn account<'a>(
    accounts: &'a mut BTreeMap<String, AgentLedger>,
    agent: &str,
) -> Result<&'a mut AgentLedger, LedgerError> {
    accounts
        .get_mut(agent)
        .ok_or_else(|| LedgerError::Stranger(agent.to_owned()))
}

/// Reason why a message is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerError {
    /// The agent is not part of the run.
    Stranger(String),
    /// The message's number exceeds the number of the agent's last message.
    BeyondEnd(u64),
    /// The values are implausible.
    Implausible(ImplausibleDelta),
}

impl std::fmt::Display for LedgerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LedgerError::Stranger(name) => write!(f, "agent {name} has no part in this run"),
            LedgerError::BeyondEnd(sequence) => {
                write!(f, "message {sequence} is beyond the agent's last message")
            }
            LedgerError::Implausible(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LedgerError {}

#[cfg(test)]
mod tests {
    use prony_record::Nanos;

    use super::*;

    fn packed(n: u64) -> (Delta, EncodedDelta) {
        let mut delta = Delta::default();
        (delta.started, delta.bytes_in) = (n, n * n);
        delta.response_time.record(Nanos(n * 1_000));
        let packed = EncodedDelta::of(&delta);
        (delta, packed)
    }

    fn ledger() -> Ledger {
        Ledger::new(["a".to_owned(), "b".to_owned()])
    }

    #[test]
    fn duplicates_and_reordering_change_nothing() {
        let mut whole = Delta::default();
        for n in 0..40 {
            whole.merge(&packed(n).0);
        }
        let mut ledger = ledger();
        for round in 0..3 {
            for n in 0..40u64 {
                let n = (n * 17 + round * 5) % 40;
                let is_new = ledger.take("a", n, &packed(n).1).unwrap();
                assert_eq!(is_new, round == 0);
            }
            assert_eq!(ledger.missing("a"), 0);
        }
        ledger.end("a", 40).unwrap();
        assert!(ledger.is_whole("a"));
        assert_eq!(ledger.total(), whole);
        let counted = ledger.agent("a").unwrap();
        assert_eq!((counted.started, counted.span), (whole.started, whole.span));
        assert_eq!(ledger.agent("b"), Some(&DeltaTotals::default()));
        assert_eq!(ledger.repeats(), 80);
    }

    #[test]
    fn missing_messages_are_counted() {
        let mut ledger = ledger();
        ledger.take("a", 0, &packed(0).1).unwrap();
        ledger.take("a", 3, &packed(3).1).unwrap();
        assert_eq!(ledger.missing("a"), 2);
        ledger.end("a", 6).unwrap();
        assert_eq!(ledger.missing("a"), 4);
        assert!(!ledger.is_whole("a"));
        assert!(!ledger.is_whole("b") && !ledger.is_whole("c"));
    }

    #[test]
    fn invalid_messages_are_refused_and_not_counted() {
        let mut ledger = ledger();
        let one = packed(1).1;
        assert!(matches!(
            ledger.take("c", 0, &one),
            Err(LedgerError::Stranger(_))
        ));
        assert!(ledger.take("a", u64::MAX / 2, &one).is_err());
        ledger.take("a", 4, &one).unwrap();
        assert_eq!(ledger.end("a", 4), Err(LedgerError::BeyondEnd(5)));
        ledger.end("a", 5).unwrap();
        assert!(ledger.end("a", 9).is_err());
        assert!(ledger.take("a", 5, &one).is_err());
        assert_eq!(ledger.total().started, 1);
    }
}
