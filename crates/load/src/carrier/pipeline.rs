//! Responses to pipelined requests (RFC 9112 §9.3.2). A load counts a batch of pipelined requests
//! as one request, which ends with the last response.
//!
//! Only wrk's front end sends batches. The front end can't separate the responses itself, because
//! only the connection knows where one response ends and the next begins. On a connection without a
//! batch, the only cost is one pointer check per response.

use prony_protocol::h1::Expects;
use prony_record::Outcome;

/// The expected and received responses to a batch of requests in flight.
#[derive(Debug)]
pub(super) struct Pipeline {
    /// Number of responses in the batch after the first.
    additional: u32,
    /// Number of responses expected after the current one.
    due: u32,
    expects: Expects,
    /// Outcome of the first response that failed; `Ok` if none has failed.
    outcome: Outcome,
    /// Total length of the complete bodies, in bytes.
    body_bytes: u64,
    complete: Vec<PipelinedResponse>,
}

/// A complete response that was not the last of its batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PipelinedResponse {
    pub(crate) status: u16,
    /// The captured part of the head.
    pub(crate) head: Vec<u8>,
    /// The captured part of the body.
    pub(crate) body: Vec<u8>,
    /// Length of the whole body.
    pub(crate) length: u64,
}

impl Pipeline {
    /// Creates a pipeline for a batch with this number of responses; `None` for a single response.
    pub(super) fn new(responses: u32, expects: Expects) -> Option<Pipeline> {
        let additional = responses.checked_sub(1).filter(|count| *count > 0)?;
        Some(Pipeline {
            additional,
            due: additional,
            expects,
            outcome: Outcome::Ok,
            body_bytes: 0,
            complete: Vec::new(),
        })
    }

    /// Returns true if more responses are expected after the current one.
    pub(super) fn is_more_due(&self) -> bool {
        self.due > 0
    }

    /// Returns true if any response of the batch is complete, even if it was already taken.
    pub(super) fn has_begun(&self) -> bool {
        self.due < self.additional
    }

    /// Adds a complete response. Returns the parser's expectations for the next response.
    pub(super) fn add(&mut self, response: PipelinedResponse, outcome: Outcome) -> Expects {
        self.due -= 1;
        self.body_bytes += response.length;
        self.outcome = self.outcome_with(outcome);
        self.complete.push(response);
        self.expects
    }

    /// Outcome of the batch, given the outcome of its last response.
    pub(super) fn outcome_with(&self, last: Outcome) -> Outcome {
        match self.outcome {
            Outcome::Ok => last,
            first => first,
        }
    }

    /// Body bytes of the responses before the current one.
    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Removes and returns the complete responses.
    pub(super) fn take(&mut self) -> Vec<PipelinedResponse> {
        std::mem::take(&mut self.complete)
    }
}
