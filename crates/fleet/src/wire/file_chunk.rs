//! Splits files into chunks that fit into messages.

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
    /// Returns a message if it is not base64.
    pub(crate) fn decode(&self) -> Result<Vec<u8>, &'static str> {
        BASE64
            .decode(&self.bytes)
            .map_err(|_| "its bytes are not base64")
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
