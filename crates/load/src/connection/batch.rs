//! Answers to several requests that were sent at once (pipelining, RFC 9112 §9.3.2). For the load
//! they are one request, whose answer is whole when the last of them is.

use prony_protocol::h1::Expects;
use prony_record::Outcome;

/// A batch of requests under way.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Answers that are due after the first...
    all: u32,
    /// ...and after the one under way.
    further: u32,
    expects: Expects,
    /// What was wrong first.
    outcome: Outcome,
    /// Of the bodies that came whole.
    body_bytes: u64,
    whole: Vec<Whole>,
}

/// A whole answer that was not the last of its batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) status: u16,
    /// As far as it is seen; so is the body.
    pub(crate) head: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// The body's whole length.
    pub(crate) length: u64,
}

impl Batch {
    /// A batch with so many answers; none for a single one.
    pub(super) fn of(answers: u32, expects: Expects) -> Option<Batch> {
        let further = answers.checked_sub(1).filter(|further| *further > 0)?;
        Some(Batch {
            all: further,
            further,
            expects,
            outcome: Outcome::Ok,
            body_bytes: 0,
            whole: Vec::new(),
        })
    }

    /// Whether answers are due after the one under way.
    pub(super) fn has_further(&self) -> bool {
        self.further > 0
    }

    /// Whether any answer came whole, taken or not.
    pub(super) fn has_begun(&self) -> bool {
        self.further < self.all
    }

    /// One of them came whole; what is expected of the next.
    pub(super) fn keep(&mut self, whole: Whole, outcome: Outcome) -> Expects {
        self.further -= 1;
        self.body_bytes += whole.length;
        self.outcome = self.outcome_with(outcome);
        self.whole.push(whole);
        self.expects
    }

    /// The outcome of all when the last has this one.
    pub(super) fn outcome_with(&self, last: Outcome) -> Outcome {
        match self.outcome {
            Outcome::Ok => last,
            first => first,
        }
    }

    /// Bytes of the bodies before the one under way.
    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// The whole answers, which are then forgotten.
    pub(super) fn take(&mut self) -> Vec<Whole> {
        std::mem::take(&mut self.whole)
    }
}
