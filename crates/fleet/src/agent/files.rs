//! Files that a coordinator sends for a run, in pieces.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use crate::messages::{LONGEST_PIECE, Piece};

/// Bytes that the files of one run may have together.
const MOST: u64 = 1 << 30;

/// The files of one run, in a folder of their own that goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Files {
    folder: PathBuf,
    /// What is known of each, and how many bytes have come: pieces come in order.
    coming: BTreeMap<String, Coming>,
}

#[derive(Debug)]
struct Coming {
    length: u64,
    sha256: String,
    come: u64,
}

impl Files {
    /// An empty folder at `folder`.
    pub(crate) fn new(folder: PathBuf) -> Result<Files, String> {
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Files {
            folder,
            coming: BTreeMap::new(),
        })
    }

    /// Takes a piece. One that has come before is passed over, so that an order may be repeated.
    ///
    /// # Errors
    ///
    /// Why it can't be taken; a file whose bytes turned out to be others is forgotten whole.
    pub(crate) fn take(&mut self, piece: &Piece) -> Result<(), String> {
        let wrong = |why: &str| Err(format!("file {:?}: {why}", piece.name));
        if !is_name(&piece.name) {
            return wrong("a file's name is a path within the run's folder");
        }
        let Ok(bytes) = BASE64.decode(&piece.bytes) else {
            return wrong("its bytes are not base64");
        };
        let total: u64 = self.coming.values().map(|file| file.length).sum();
        let is_new = !self.coming.contains_key(&piece.name);
        if bytes.len() > LONGEST_PIECE || (is_new && total.saturating_add(piece.length) > MOST) {
            return wrong("it is too long");
        }
        let file = self.coming.entry(piece.name.clone()).or_insert(Coming {
            length: piece.length,
            sha256: piece.sha256.clone(),
            come: 0,
        });
        let end = piece.offset.saturating_add(bytes.len() as u64);
        if file.length != piece.length || file.sha256 != piece.sha256 || end > file.length {
            return wrong("its pieces contradict each other");
        }
        if end <= file.come && file.come > 0 {
            return Ok(());
        }
        if piece.offset != file.come {
            return wrong("a piece is missing before this one");
        }
        let path = self.folder.join(&piece.name);
        write_at(&path, piece.offset, &bytes)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        file.come = end;
        let is_whole = end == file.length;
        if is_whole && !self.is_as_told(&piece.name) {
            self.coming.remove(&piece.name);
            return wrong("what came is not what was sent: its SHA-256 differs");
        }
        Ok(())
    }

    fn is_as_told(&self, name: &str) -> bool {
        let told = self.coming.get(name).map(|file| file.sha256.as_str());
        let hash = fs::read(self.folder.join(name)).map(|bytes| hex(&Sha256::digest(bytes)));
        hash.is_ok_and(|hash| told == Some(hash.as_str()))
    }

    /// The files that have come whole, by name, and where they lie.
    pub(crate) fn whole(&self) -> BTreeMap<String, PathBuf> {
        let whole = self
            .coming
            .iter()
            .filter(|(_, file)| file.come == file.length);
        let place = |(name, _): (&String, _)| (name.clone(), self.folder.join(name));
        whole.map(place).collect()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What can't be removed is swept by the system's own care for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The pieces of a file, for sending.
pub(crate) fn pieces<'a>(name: &'a str, bytes: &'a [u8]) -> impl Iterator<Item = Piece> + 'a {
    let sha256 = hex(&Sha256::digest(bytes));
    let count = bytes.len().div_ceil(LONGEST_PIECE).max(1);
    (0..count).map(move |number| {
        let offset = number * LONGEST_PIECE;
        let end = bytes.len().min(offset + LONGEST_PIECE);
        Piece {
            name: name.to_owned(),
            offset: offset as u64,
            bytes: BASE64.encode(&bytes[offset..end]),
            length: bytes.len() as u64,
            sha256: sha256.clone(),
        }
    })
}

/// A relative path that leads nowhere else.
fn is_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    name.len() < 1024
        && !name.contains('\0')
        && components.clone().next().is_some()
        && components.all(|part| matches!(part, Component::Normal(_)))
}

fn write_at(path: &Path, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // Certificates' keys are among them.
    let mut options = fs::OpenOptions::new();
    options.create(true).write(true).mode(0o600);
    let mut file = options.truncate(offset == 0).open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path().join("run")).unwrap();
        (folder, files)
    }

    #[test]
    fn files_come_whole_however_long() {
        let (folder, mut files) = files();
        for length in [
            0,
            1,
            LONGEST_PIECE,
            LONGEST_PIECE + 1,
            3 * LONGEST_PIECE + 7,
        ] {
            let name = format!("sub/{length}.bin");
            let bytes: Vec<u8> = (0..length).map(|n| (n * 7 % 251) as u8).collect();
            let all: Vec<_> = pieces(&name, &bytes).collect();
            for piece in &all {
                if length > 0 {
                    assert_eq!(files.whole().get(&name), None);
                }
                files.take(piece).unwrap();
                files.take(piece).unwrap();
            }
            assert_eq!(fs::read(&files.whole()[&name]).unwrap(), bytes);
        }
        drop(files);
        assert!(!folder.path().join("run").exists());
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let (_folder, mut files) = files();
        for name in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            ".",
            "a\0b",
            "./../x",
        ] {
            let piece = pieces(name, b"x").next().unwrap();
            assert!(files.take(&piece).is_err(), "{name:?}");
        }
    }

    #[test]
    fn pieces_that_are_wrong_are_told_and_the_file_is_not_there() {
        let (_folder, mut files) = files();
        let bytes = vec![7; LONGEST_PIECE + 10];
        let all: Vec<_> = pieces("a", &bytes).collect();
        assert!(files.take(&all[1]).unwrap_err().contains("missing"));
        files.take(&all[0]).unwrap();
        let other = Piece {
            bytes: BASE64.encode([8; 10]),
            ..all[1].clone()
        };
        assert!(files.take(&other).unwrap_err().contains("SHA-256"));
        assert_eq!(files.whole().get("a"), None);
        let longer = Piece {
            length: u64::MAX,
            ..all[0].clone()
        };
        assert!(files.take(&longer).unwrap_err().contains("long"));
        for piece in &all {
            files.take(piece).unwrap();
        }
        assert!(files.whole().contains_key("a"));
    }
}
