//! Fetches the logs of services from agents' machines.

use prony_machine::host::HostError;

use super::session::{AgentSession, unexpected};
use crate::wire::{
    CHUNK_BYTES_MAX, ChunkFault, FileChunk, HostCall, HostReply, LOG_SENT_BYTES_MAX, sha256_hex,
};

/// Fetches a complete log.
pub(super) fn fetch(session: &AgentSession, service: &str) -> Result<Vec<u8>, HostError> {
    let mut log = LogAssembly::default();
    loop {
        let call = HostCall::Log {
            service: service.to_owned(),
            offset: log.bytes.len() as u64,
        };
        let chunk = match session.call(call)? {
            HostReply::Chunk(chunk) => chunk,
            other => return Err(session.error(unexpected(&other))),
        };
        match log.add(&chunk) {
            Ok(true) => return Ok(log.bytes),
            Ok(false) => {}
            Err(why) => {
                return Err(session.error(format!("the log of service \"{service}\": {why}")));
            }
        }
    }
}

/// Assembles a log from chunks that arrive in order. The first chunk determines the length, which
/// is limited. Every chunk except the last must have the maximum length, so that the number of
/// chunks is limited, too.
#[derive(Debug, Default)]
struct LogAssembly {
    bytes: Vec<u8>,
    /// Length and SHA-256 of the whole log, from the first chunk.
    claim: Option<(u64, String)>,
}

impl LogAssembly {
    /// Adds the next chunk. Returns true once the log is complete.
    fn add(&mut self, chunk: &FileChunk) -> Result<bool, ChunkFault> {
        let claimed = (chunk.length, chunk.sha256.clone());
        let (length, sha256) = self.claim.get_or_insert(claimed);
        if *length > LOG_SENT_BYTES_MAX {
            return Err(ChunkFault::LongLog {
                bytes: *length,
                bytes_max: LOG_SENT_BYTES_MAX,
            });
        }
        if (chunk.length, &chunk.sha256) != (*length, sha256) {
            return Err(ChunkFault::Contradiction);
        }
        let bytes = chunk.decode()?;
        let offset = self.bytes.len() as u64;
        let expected = (*length - offset).min(CHUNK_BYTES_MAX as u64);
        if chunk.offset != offset || bytes.len() as u64 != expected {
            return Err(ChunkFault::Misplaced {
                bytes: bytes.len() as u64,
                offset: chunk.offset,
                expected_bytes: expected,
                expected_offset: offset,
            });
        }
        self.bytes.extend(bytes);
        if (self.bytes.len() as u64) < *length {
            return Ok(false);
        }
        if sha256_hex(&self.bytes) == *sha256 {
            Ok(true)
        } else {
            Err(ChunkFault::Checksum)
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;

    use super::*;
    use crate::wire::file_chunks;

    #[test]
    fn a_log_is_assembled_from_its_chunks() {
        for length in [0, 1, CHUNK_BYTES_MAX, 2 * CHUNK_BYTES_MAX + 7] {
            let text = vec![b'x'; length];
            let mut log = LogAssembly::default();
            let added: Vec<_> = file_chunks("web", &text).map(|it| log.add(&it)).collect();
            assert_eq!(added.last(), Some(&Ok(true)));
            assert!(added[..added.len() - 1].iter().all(|it| *it == Ok(false)));
            assert_eq!(log.bytes, text);
        }
    }

    #[test]
    fn a_forged_log_takes_bounded_memory_and_time() {
        let text = vec![b'x'; 3 * CHUNK_BYTES_MAX];
        let honest: Vec<FileChunk> = file_chunks("web", &text).collect();
        let forged = |change: &dyn Fn(&mut FileChunk)| {
            let mut log = LogAssembly::default();
            log.add(&honest[0]).unwrap();
            let mut chunk = honest[1].clone();
            change(&mut chunk);
            let added = log.add(&chunk);
            assert!(log.bytes.len() <= 2 * CHUNK_BYTES_MAX);
            added.unwrap_err()
        };
        // The length must not change, because a log that grows with each chunk would never end.
        let longer = forged(&|it| it.length += CHUNK_BYTES_MAX as u64);
        assert_eq!(longer, ChunkFault::Contradiction);
        // Chunks must be full, because a log with one byte per chunk would take millions of calls.
        let is_misplaced = |fault| matches!(fault, ChunkFault::Misplaced { .. });
        assert!(is_misplaced(forged(&|it| it.bytes = BASE64.encode("x"))));
        assert!(is_misplaced(forged(&|it| it.bytes.clear())));
        assert!(is_misplaced(forged(&|it| it.offset = 0)));
        let mut endless = honest[0].clone();
        endless.length = u64::MAX;
        let fault = LogAssembly::default().add(&endless).unwrap_err();
        assert!(matches!(fault, ChunkFault::LongLog { .. }));
    }
}
