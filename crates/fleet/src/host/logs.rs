//! Services' logs, brought from agents' machines.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_experiment::host::HostError;
use sha2::{Digest, Sha256};

use super::calls::{Answer, Call};
use super::seat::Seat;
use super::{Remote, unexpected};

impl Remote {
    /// Brings the log of a service that was started into the trial's folder, once. Of a lost agent there
    /// is none to be had.
    pub(super) fn bring_log(&mut self, service: &str) -> Result<(), HostError> {
        let Some(path) = self.log.take() else {
            return Ok(());
        };
        let log = whole(&self.seat, service);
        match log {
            Err(_) if self.seat.lost().is_some() => Ok(()),
            log => write(&path, &log?),
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), HostError> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(path, bytes));
    written.map_err(|source| HostError::File {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

/// All pieces of a log.
fn whole(seat: &Seat, service: &str) -> Result<Vec<u8>, HostError> {
    let mut bytes = Vec::new();
    loop {
        let offset = bytes.len() as u64;
        let service = service.to_owned();
        let piece = match seat.ask(Call::Log { service, offset })? {
            Answer::Piece(piece) => piece,
            other => return Err(seat.error(unexpected(&other))),
        };
        let wrong = |why: &str| seat.error(format!("the log of {}: {why}", piece.name));
        let more = BASE64.decode(&piece.bytes);
        let more = more.map_err(|_| wrong("its bytes are not base64"))?;
        let is_next = piece.offset == offset;
        if !is_next || (more.is_empty() && offset < piece.length) {
            return Err(wrong("a piece is missing"));
        }
        bytes.extend(more);
        if bytes.len() as u64 >= piece.length {
            let hash = Sha256::digest(&bytes);
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            return match hash == piece.sha256 {
                true => Ok(bytes),
                false => Err(wrong("what came is not what was sent: its SHA-256 differs")),
            };
        }
    }
}
