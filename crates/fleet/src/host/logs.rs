//! Services' logs, brought from agents' machines.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_experiment::host::HostError;
use sha2::{Digest, Sha256};

use super::calls::{Answer, Call, LOG_SENT_MAX};
use super::seat::Seat;
use super::{Remote, unexpected};
use crate::messages::{LONGEST_PIECE, Piece};

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
    let mut log = LogAssembly::default();
    loop {
        let call = Call::Log {
            service: service.to_owned(),
            offset: log.bytes.len() as u64,
        };
        let piece = match seat.ask(call)? {
            Answer::Piece(piece) => piece,
            other => return Err(seat.error(unexpected(&other))),
        };
        match log.add(&piece) {
            Ok(true) => return Ok(log.bytes),
            Ok(false) => {}
            Err(why) => return Err(seat.error(format!("the log of service \"{service}\": {why}"))),
        }
    }
}

/// A log whose pieces come one after the other. Its length is fixed by the first piece and bounded, and
/// each piece is as long as it can be, so that the number of pieces is bounded, too.
#[derive(Debug, Default)]
struct LogAssembly {
    bytes: Vec<u8>,
    /// Length and SHA-256 of the whole log, as the first piece says.
    claim: Option<(u64, String)>,
}

impl LogAssembly {
    /// Adds the next piece; true if the log is complete.
    fn add(&mut self, piece: &Piece) -> Result<bool, String> {
        let claimed = (piece.length, piece.sha256.clone());
        let (length, sha256) = self.claim.get_or_insert(claimed);
        if *length > LOG_SENT_MAX {
            return Err(format!(
                "the agent claims that it has {length} bytes, and sends {LOG_SENT_MAX} at most"
            ));
        }
        if (piece.length, &piece.sha256) != (*length, sha256) {
            return Err("its pieces contradict each other".to_owned());
        }
        let bytes = BASE64.decode(&piece.bytes);
        let bytes = bytes.map_err(|_| "its bytes are not base64".to_owned())?;
        let offset = self.bytes.len() as u64;
        let expected = (*length - offset).min(LONGEST_PIECE as u64);
        if piece.offset != offset || bytes.len() as u64 != expected {
            return Err(format!(
                "{} bytes came at offset {} where {expected} were due at {offset}",
                bytes.len(),
                piece.offset
            ));
        }
        self.bytes.extend(bytes);
        if (self.bytes.len() as u64) < *length {
            return Ok(false);
        }
        let hash = Sha256::digest(&self.bytes);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        match hash == *sha256 {
            true => Ok(true),
            false => Err("what came is not what was sent: its SHA-256 differs".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::files::pieces;

    #[test]
    fn a_log_is_put_together_from_its_pieces() {
        for length in [0, 1, LONGEST_PIECE, 2 * LONGEST_PIECE + 7] {
            let text = vec![b'x'; length];
            let mut log = LogAssembly::default();
            let added: Vec<_> = pieces("web", &text).map(|it| log.add(&it)).collect();
            assert_eq!(added.last(), Some(&Ok(true)));
            assert!(added[..added.len() - 1].iter().all(|it| *it == Ok(false)));
            assert_eq!(log.bytes, text);
        }
    }

    #[test]
    fn a_forged_log_takes_no_memory_and_comes_to_an_end() {
        let text = vec![b'x'; 3 * LONGEST_PIECE];
        let honest: Vec<Piece> = pieces("web", &text).collect();
        let forged = |change: &dyn Fn(&mut Piece)| {
            let mut log = LogAssembly::default();
            log.add(&honest[0]).unwrap();
            let mut piece = honest[1].clone();
            change(&mut piece);
            let added = log.add(&piece);
            assert!(log.bytes.len() <= 2 * LONGEST_PIECE);
            added.unwrap_err()
        };
        // One that grows with each piece never ends.
        assert!(forged(&|it| it.length += LONGEST_PIECE as u64).contains("contradict"));
        // One byte at a time takes millions of calls.
        assert!(forged(&|it| it.bytes = BASE64.encode("x")).contains("were due"));
        assert!(forged(&|it| it.bytes.clear()).contains("were due"));
        assert!(forged(&|it| it.offset = 0).contains("were due"));
        let mut endless = honest[0].clone();
        endless.length = u64::MAX;
        let error = LogAssembly::default().add(&endless).unwrap_err();
        assert!(error.contains("at most"), "{error}");
    }
}
