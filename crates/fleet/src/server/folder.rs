//! A server's folder: who works on it, what it was last, and files that nobody else may read.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ServerError;

/// The server's configuration.
pub(super) const CONFIG: &str = "nats.conf";
/// Where its process is named.
pub(super) const PID: &str = "store/nats.pid";
/// The server's certificate.
pub(super) const CERTIFICATE: &str = "server.pem";
/// Its key.
pub(super) const KEY: &str = "server.key";
/// Names that no agent may have: their files are somebody else's.
pub(super) const RESERVED: [&str; 2] = ["coordinator", "registrar"];
/// What it says.
pub(super) const LOG: &str = "nats.log";
/// Where its streams are.
pub(super) const STORE: &str = "store";

/// A folder that no other process of prony runs a server in, until this is dropped.
#[derive(Debug)]
pub struct Lock {
    pub(super) folder: PathBuf,
    _file: fs::File,
}

impl Lock {
    /// Holds the folder, which is made if it isn't there; none where another process holds it.
    ///
    /// # Errors
    ///
    /// Where the folder can't be made or written in.
    pub fn hold(folder: &Path) -> Result<Option<Lock>, ServerError> {
        make(folder)?;
        let path = folder.join("lock");
        let failed = |error| ServerError::File(path.clone(), error);
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock {
                folder: folder.to_owned(),
                _file: file,
            })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// Waits until no other process writes the folder's configuration; none does as long as the result is
/// kept.
pub(super) fn lock_for_writing(folder: &Path) -> Result<fs::File, ServerError> {
    make(folder)?;
    let path = folder.join("write.lock");
    let failed = |error| ServerError::File(path.clone(), error);
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// How a folder's server was last reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The names of [`super::Wanted`].
    pub names: Vec<String>,
}

impl Known {
    /// What a folder tells; none where no server was there yet.
    ///
    /// # Errors
    ///
    /// Where the folder's file is not what it should be.
    pub fn read(folder: &Path) -> Result<Option<Known>, ServerError> {
        let path = folder.join("up.toml");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ServerError::File(path, error)),
        };
        let known = toml::from_str(&text);
        known
            .map(Some)
            .map_err(|error| ServerError::Unfit(path, error.message().to_owned()))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), ServerError> {
        let text = toml::to_string(self).expect("an address and strings");
        write_secret(&folder.join("up.toml"), &text)
    }
}

/// Makes a folder that only its owner may enter; one that is there already is left as it is, but for
/// the store's own.
pub(super) fn make(folder: &Path) -> Result<(), ServerError> {
    let failed = |error| ServerError::File(folder.to_owned(), error);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).map_err(failed)?;
    let store = folder.join(STORE);
    builder.create(&store).map_err(failed)?;
    fs::set_permissions(&store, fs::Permissions::from_mode(0o700)).map_err(failed)
}

/// Writes a file that only its owner may read: whole, or not at all, so that a key is never lost.
pub(super) fn write_secret(path: &Path, text: &str) -> Result<(), ServerError> {
    let failed = |error| ServerError::File(path.to_owned(), error);
    let beside = path.with_extension("new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&beside).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::hold(folder.path()).unwrap();
        assert!(lock.is_some());
        assert!(Lock::hold(folder.path()).unwrap().is_none());
        drop(lock);
        assert!(Lock::hold(folder.path()).unwrap().is_some());
    }

    #[test]
    fn what_is_known_is_known_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Known::read(folder.path()).unwrap(), None);
        let known = Known {
            listen: "127.0.0.1:4222".parse().unwrap(),
            names: vec!["localhost".to_owned()],
        };
        known.write(folder.path()).unwrap();
        assert_eq!(Known::read(folder.path()).unwrap(), Some(known));
    }

    #[test]
    fn a_secret_that_was_open_to_others_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.creds");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write_secret(&path, "new").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(
            (mode & 0o777, fs::read_to_string(&path).unwrap()),
            (0o600, "new".to_owned())
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
