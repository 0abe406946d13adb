//! Pipelined requests (RFC 9112 §9.3.2). A load counts a batch of them as one exchange, which ends
//! with the last response.
//!
//! Only wrk's front end sends batches.

use prony_record::Outcome;

use super::kind::{CompleteResponse, ExchangeKind, ResponseEnd};

/// The expected and received responses to a batch of requests in flight.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Number of responses expected after the current one.
    due: u32,
    /// Outcome of the first response that failed; `Ok` if none has failed.
    outcome: Outcome,
    earlier: Vec<EarlierResponse>,
    /// Total length of the earlier bodies, in bytes.
    earlier_body_bytes: u64,
}

/// A complete response that was not the last of its batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EarlierResponse {
    pub(crate) status: u16,
    /// The captured part of the head.
    pub(crate) head: Vec<u8>,
    /// The captured part of the body.
    pub(crate) body: Vec<u8>,
    /// Length of the whole body.
    pub(crate) length: u64,
}

impl Batch {
    /// Creates a batch with this number of responses, at least one.
    pub(super) fn new(responses: u32) -> Batch {
        Batch {
            due: responses.saturating_sub(1),
            outcome: Outcome::Ok,
            earlier: Vec::new(),
            earlier_body_bytes: 0,
        }
    }

    /// Total length of the bodies before the current one, in bytes.
    pub(super) fn earlier_body_bytes(&self) -> u64 {
        self.earlier_body_bytes
    }

    /// Removes and returns the complete responses before the current one.
    pub(super) fn take(&mut self) -> Vec<EarlierResponse> {
        std::mem::take(&mut self.earlier)
    }
}

impl ExchangeKind for Batch {
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        if self.outcome == Outcome::Ok {
            self.outcome = response.outcome;
        }
        let Some(due) = self.due.checked_sub(1) else {
            return ResponseEnd::Exchange(self.outcome);
        };
        self.due = due;
        self.earlier_body_bytes += response.length;
        self.earlier.push(EarlierResponse {
            status: response.status,
            head: response.head.to_vec(),
            body: response.body.to_vec(),
            length: response.length,
        });
        ResponseEnd::Message
    }
}
