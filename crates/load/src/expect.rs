//! What an answer has to be to count as a success.

use prony_record::Outcome;
use sha2::{Digest, Sha256};

use crate::options::LoadOptions;
use crate::quantity::StatusSet;

/// `--expect-status`, `--expect-size`, `--expect-sha256`.
#[derive(Debug, Clone)]
pub(crate) struct Expectations {
    status: StatusSet,
    size: Option<u64>,
    sha256: Option<[u8; 32]>,
}

impl Expectations {
    pub(crate) fn new(options: &LoadOptions) -> Expectations {
        Expectations {
            status: options.expect_status.clone(),
            size: options.expect_size,
            sha256: options.expect_sha256.map(|hash| hash.0),
        }
    }
}

/// The body of one answer as it comes.
#[derive(Debug, Default)]
pub(crate) struct Body {
    length: u64,
    hash: Option<Sha256>,
}

impl Body {
    /// Begins a new body.
    pub(crate) fn start(&mut self, expected: &Expectations) {
        self.length = 0;
        self.hash = expected.sha256.map(|_| Sha256::new());
    }

    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(piece);
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Judges a whole answer: its status first, then the body's size, then its hash.
    pub(crate) fn judge(&mut self, status: u16, expected: &Expectations) -> Outcome {
        if !expected.status.contains(status) {
            return Outcome::UnexpectedStatus;
        }
        if expected.size.is_some_and(|size| size != self.length) {
            return Outcome::UnexpectedSize;
        }
        let hash = self.hash.take().map(|hash| hash.finalize());
        match (expected.sha256, hash) {
            (Some(expected), Some(hash)) if expected[..] != hash[..] => Outcome::UnexpectedBody,
            _ => Outcome::Ok,
        }
    }
}
