//! Splits files into chunks that fit into messages.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Maximum size of a chunk in bytes, before base64, so that it fits into a NATS message.
pub const CHUNK_BYTES_MAX: usize = 256 * 1024;

/// One chunk of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChunk {
    /// Name of the file in the run's folder.
    pub name: String,
    /// Position of the chunk in the file, in bytes.
    pub offset: u64,
    /// Content of the chunk, as base64.
    pub bytes: String,
    /// Length of the whole file in bytes.
    pub length: u64,
    /// SHA-256 of the whole file, in hexadecimal. It is checked when all chunks have arrived.
    pub sha256: String,
}

impl FileChunk {
    /// Decodes the content of the chunk.
    ///
    /// # Errors
    ///
    /// They are not base64.
    pub(crate) fn decode(&self) -> Result<Vec<u8>, ChunkFault> {
        BASE64.decode(&self.bytes).map_err(|_| ChunkFault::Encoding)
    }
}

/// Reason why a chunk is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkFault {
    /// The file's name leads out of the folder.
    Name,
    /// The bytes are not base64.
    Encoding,
    /// The chunk is too large, or all files of the run together are.
    TooLarge,
    /// The log is too long.
    LongLog {
        /// Length of the log.
        bytes: u64,
        /// Maximum length.
        bytes_max: u64,
    },
    /// The chunk doesn't match an earlier one.
    Contradiction,
    /// An earlier chunk has not arrived.
    Gap,
    /// The chunk of a log has another length, or belongs elsewhere.
    Misplaced {
        /// Length of the chunk.
        bytes: u64,
        /// Offset of the chunk.
        offset: u64,
        /// Length of the expected chunk.
        expected_bytes: u64,
        /// Offset of the expected chunk.
        expected_offset: u64,
    },
    /// The checksum of the whole file differs.
    Checksum,
}

impl fmt::Display for ChunkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkFault::Name => f.write_str("the name is not a path within the run's folder"),
            ChunkFault::Encoding => f.write_str("its bytes are not base64"),
            ChunkFault::TooLarge => f.write_str(
                "the chunk's size or the total size of the run's files exceeds the limit",
            ),
            ChunkFault::LongLog { bytes, bytes_max } => write!(
                f,
                "the agent claims a length of {bytes} bytes; at most {bytes_max} are accepted"
            ),
            ChunkFault::Contradiction => f.write_str("its chunks contradict each other"),
            ChunkFault::Gap => f.write_str("a chunk is missing before this one"),
            ChunkFault::Misplaced {
                bytes,
                offset,
                expected_bytes,
                expected_offset,
            } => write!(
                f,
                "got {bytes} bytes at offset {offset}, expected {expected_bytes} at \
                 {expected_offset}"
            ),
            ChunkFault::Checksum => f.write_str("damaged in transit (the SHA-256 differs)"),
        }
    }
}

/// Splits a file into chunks. An empty file has one empty chunk.
pub(crate) fn file_chunks<'a>(
    name: &'a str,
    bytes: &'a [u8],
) -> impl Iterator<Item = FileChunk> + 'a {
    let sha256 = sha256_hex(bytes);
    let count = bytes.len().div_ceil(CHUNK_BYTES_MAX).max(1);
    (0..count).map(move |number| {
        let offset = number * CHUNK_BYTES_MAX;
        let end = bytes.len().min(offset + CHUNK_BYTES_MAX);
        FileChunk {
            name: name.to_owned(),
            offset: offset as u64,
            bytes: BASE64.encode(&bytes[offset..end]),
            length: bytes.len() as u64,
            sha256: sha256.clone(),
        }
    })
}

/// Returns the SHA-256 of these bytes, in hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
