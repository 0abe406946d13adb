//! Files that a coordinator sends in chunks for a run.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use crate::wire::{CHUNK_BYTES_MAX, ChunkFault, FileChunk, sha256_hex};

/// Maximum total size of one run's files, in bytes.
const RUN_FILES_BYTES_MAX: u64 = 1 << 30;

/// Files of one run, in a folder that is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct ReceivedFiles {
    folder: PathBuf,
    /// Progress of each file, by name.
    files: BTreeMap<String, ReceivedFile>,
}

#[derive(Debug)]
struct ReceivedFile {
    length: u64,
    sha256: String,
    /// Number of bytes received so far. Chunks must arrive in order.
    received: u64,
}

/// Error of a received file.
#[derive(Debug)]
pub(super) enum ReceivedFileError {
    /// The file or its folder can't be written.
    File(PathBuf, io::Error),
    /// A chunk of the file with this name is rejected.
    Rejected(String, ChunkFault),
}

impl fmt::Display for ReceivedFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, fault) = match self {
            ReceivedFileError::File(path, error) => {
                return write!(f, "{}: {error}", path.display());
            }
            ReceivedFileError::Rejected(name, fault) => (name, fault),
        };
        write!(f, "file {name:?}: {fault}")
    }
}

impl ReceivedFiles {
    /// Creates the folder.
    pub(super) fn new(folder: PathBuf) -> Result<ReceivedFiles, ReceivedFileError> {
        fs::create_dir_all(&folder)
            .map_err(|error| ReceivedFileError::File(folder.clone(), error))?;
        Ok(ReceivedFiles {
            folder,
            files: BTreeMap::new(),
        })
    }

    /// Stores a chunk. Ignores a repeated chunk.
    ///
    /// # Errors
    ///
    /// The chunk is rejected, or the file can't be written. If the checksum of the whole file is
    /// wrong, the file is discarded.
    pub(super) fn take(&mut self, chunk: &FileChunk) -> Result<(), ReceivedFileError> {
        let wrong = |fault| Err(ReceivedFileError::Rejected(chunk.name.clone(), fault));
        if !is_name(&chunk.name) {
            return wrong(ChunkFault::Name);
        }
        let bytes = match chunk.decode() {
            Ok(bytes) => bytes,
            Err(fault) => return wrong(fault),
        };
        let total: u64 = self.files.values().map(|file| file.length).sum();
        let is_new = !self.files.contains_key(&chunk.name);
        if bytes.len() > CHUNK_BYTES_MAX
            || (is_new && total.saturating_add(chunk.length) > RUN_FILES_BYTES_MAX)
        {
            return wrong(ChunkFault::TooLarge);
        }
        let file = self
            .files
            .entry(chunk.name.clone())
            .or_insert(ReceivedFile {
                length: chunk.length,
                sha256: chunk.sha256.clone(),
                received: 0,
            });
        let end = chunk.offset.saturating_add(bytes.len() as u64);
        if file.length != chunk.length || file.sha256 != chunk.sha256 || end > file.length {
            return wrong(ChunkFault::Contradiction);
        }
        if end <= file.received && file.received > 0 {
            return Ok(());
        }
        if chunk.offset != file.received {
            return wrong(ChunkFault::Gap);
        }
        let path = self.folder.join(&chunk.name);
        write_at(&path, chunk.offset, &bytes)
            .map_err(|error| ReceivedFileError::File(path, error))?;
        file.received = end;
        let is_complete = end == file.length;
        if is_complete && !self.has_right_checksum(&chunk.name) {
            self.files.remove(&chunk.name);
            return wrong(ChunkFault::Checksum);
        }
        Ok(())
    }

    fn has_right_checksum(&self, name: &str) -> bool {
        let expected = self.files.get(name).map(|file| file.sha256.as_str());
        let hash = fs::read(self.folder.join(name)).map(|bytes| sha256_hex(&bytes));
        hash.is_ok_and(|hash| expected == Some(hash.as_str()))
    }

    /// Returns the paths of the complete files, by name.
    pub(super) fn complete(&self) -> BTreeMap<String, PathBuf> {
        let complete = self
            .files
            .iter()
            .filter(|(_, file)| file.received == file.length);
        let path = |(name, _): (&String, _)| (name.clone(), self.folder.join(name));
        complete.map(path).collect()
    }
}

impl Drop for ReceivedFiles {
    fn drop(&mut self) {
        // A folder that can't be removed now is removed at the agent's next start.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns true if `name` is a relative path that doesn't leave the folder.
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
    // Only the owner may read the files, because they may be private keys.
    let mut options = fs::OpenOptions::new();
    options.create(true).write(true).mode(0o600);
    let mut file = options.truncate(offset == 0).open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;

    use super::*;
    use crate::wire::file_chunks;

    fn files() -> (tempfile::TempDir, ReceivedFiles) {
        let folder = tempfile::tempdir().unwrap();
        let files = ReceivedFiles::new(folder.path().join("run")).unwrap();
        (folder, files)
    }

    #[test]
    fn files_of_any_length_are_assembled() {
        let (folder, mut files) = files();
        for length in [
            0,
            1,
            CHUNK_BYTES_MAX,
            CHUNK_BYTES_MAX + 1,
            3 * CHUNK_BYTES_MAX + 7,
        ] {
            let name = format!("sub/{length}.bin");
            let bytes: Vec<u8> = (0..length).map(|n| (n * 7 % 251) as u8).collect();
            let all: Vec<_> = file_chunks(&name, &bytes).collect();
            for chunk in &all {
                if length > 0 {
                    assert_eq!(files.complete().get(&name), None);
                }
                files.take(chunk).unwrap();
                files.take(chunk).unwrap();
            }
            assert_eq!(fs::read(&files.complete()[&name]).unwrap(), bytes);
        }
        drop(files);
        assert!(!folder.path().join("run").exists());
    }

    #[test]
    fn paths_outside_the_folder_are_refused() {
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
            let chunk = file_chunks(name, b"x").next().unwrap();
            assert!(files.take(&chunk).is_err(), "{name:?}");
        }
    }

    fn fault(taken: Result<(), ReceivedFileError>) -> ChunkFault {
        match taken {
            Err(ReceivedFileError::Rejected(_, fault)) => fault,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wrong_chunks_are_refused_and_leave_no_file() {
        let (_folder, mut files) = files();
        let bytes = vec![7; CHUNK_BYTES_MAX + 10];
        let all: Vec<_> = file_chunks("a", &bytes).collect();
        assert_eq!(fault(files.take(&all[1])), ChunkFault::Gap);
        files.take(&all[0]).unwrap();
        let other = FileChunk {
            bytes: BASE64.encode([8; 10]),
            ..all[1].clone()
        };
        assert_eq!(fault(files.take(&other)), ChunkFault::Checksum);
        assert_eq!(files.complete().get("a"), None);
        let longer = FileChunk {
            length: u64::MAX,
            ..all[0].clone()
        };
        assert_eq!(fault(files.take(&longer)), ChunkFault::TooLarge);
        for chunk in &all {
            files.take(chunk).unwrap();
        }
        assert!(files.complete().contains_key("a"));
    }
}
