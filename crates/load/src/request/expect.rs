//! Conditions that a response must meet to count as a success.

use std::sync::Arc;

use prony_record::Outcome;
use sha2::{Digest, Sha256};

use crate::exchange::{CallRules, ResponseReading};
use crate::settings::LoadSettings;
use crate::values::status_set::StatusSet;

/// Values of `--expect-status`, `--expect-size` and `--expect-sha256`, and the way in which responses
/// are read.
#[derive(Debug, Clone)]
pub(crate) struct Expectations {
    status: StatusSet,
    size: Option<u64>,
    sha256: Option<[u8; 32]>,
    reading: ResponseReading,
}

impl Expectations {
    /// Expectations that every response meets.
    pub(crate) fn anything() -> Expectations {
        Expectations {
            status: StatusSet::all(),
            size: None,
            sha256: None,
            reading: ResponseReading::Whole,
        }
    }

    /// Returns these expectations with any status accepted, for a caller that checks the status
    /// itself.
    pub(crate) fn with_any_status(self) -> Expectations {
        Expectations {
            status: StatusSet::all(),
            ..self
        }
    }

    /// Statuses that count as success.
    pub(crate) fn status(&self) -> &StatusSet {
        &self.status
    }

    /// Creates the expectations of a load, whose requests are calls if there are rules for them.
    pub(crate) fn new(settings: &LoadSettings, calls: Option<CallRules>) -> Expectations {
        let events = || settings.event_syntax().map(Arc::new);
        let whole = match settings.fan_out {
            Some(_) => ResponseReading::Deliveries,
            None => ResponseReading::Whole,
        };
        let events = || events().map_or(whole, ResponseReading::Events);
        Expectations {
            status: settings.expect_status(),
            size: settings.expect_size,
            sha256: settings.expect_sha256.map(|hash| hash.0),
            reading: calls.map_or_else(events, ResponseReading::Calls),
        }
    }

    /// Returns expectations that every response meets, which is read like those of a load with these
    /// expectations.
    pub(crate) fn anything_read_alike(&self) -> Expectations {
        Expectations {
            reading: self.reading.clone(),
            ..Expectations::anything()
        }
    }

    /// The way in which responses are read.
    #[inline]
    pub(crate) fn reading(&self) -> &ResponseReading {
        &self.reading
    }

    /// Returns true if some requests are gRPC calls with streamed responses.
    pub(crate) fn are_calls_streamed(&self) -> bool {
        matches!(&self.reading, ResponseReading::Calls(rules) if rules.has_streams)
    }

    /// Returns true if responses are streams, whose parts have times of their own.
    pub(crate) fn are_streams(&self) -> bool {
        let reading = &self.reading;
        matches!(
            reading,
            ResponseReading::Events(_) | ResponseReading::Deliveries
        ) || self.are_calls_streamed()
    }
}

/// Body of one response while it is being received.
#[derive(Debug, Default)]
pub(crate) struct ReceivedBody {
    length: u64,
    /// Hash of the bytes received so far. If present, every body is hashed. It is boxed because it
    /// is large and few loads need it.
    hash: Option<Box<Sha256>>,
}

impl ReceivedBody {
    /// Begins a new body.
    #[inline]
    pub(crate) fn start(&mut self, expected: &Expectations) {
        self.length = 0;
        if expected.sha256.is_some() || self.hash.is_some() {
            self.hash.get_or_insert_default().reset();
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(piece);
        }
    }

    /// Hashes every body from now on, even if no hash is expected. [`ReceivedBody::take_hash`]
    /// requires this.
    pub(crate) fn hash_always(&mut self) {
        self.hash.get_or_insert_default();
    }

    /// Removes and returns the hash of the bytes received since the body began.
    /// [`ReceivedBody::judge`] also removes the hash when it compares it with the expected one.
    pub(crate) fn take_hash(&mut self) -> [u8; 32] {
        match &mut self.hash {
            Some(hash) => hash.finalize_reset().into(),
            None => Sha256::digest([]).into(),
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Judges a complete response: first its status, then the size of its body, then its hash.
    #[inline]
    pub(crate) fn judge(&mut self, status: u16, expected: &Expectations) -> Outcome {
        if !expected.status.contains(status) {
            return Outcome::UnexpectedStatus;
        }
        self.judge_content(expected)
    }

    /// Judges the size and the hash of a complete body.
    #[inline]
    pub(crate) fn judge_content(&mut self, expected: &Expectations) -> Outcome {
        if expected.size.is_some_and(|size| size != self.length) {
            return Outcome::UnexpectedSize;
        }
        let (Some(expected), Some(hash)) = (expected.sha256, &mut self.hash) else {
            return Outcome::Ok;
        };
        if hash.finalize_reset()[..] == expected {
            Outcome::Ok
        } else {
            Outcome::UnexpectedBody
        }
    }
}
