//! The folder of a server: locks, the last setup, and private files.

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::ServerError;

/// Configuration file of the server.
pub(super) const CONFIG: &str = "nats.conf";
/// File with the process ID of the server.
pub(super) const PID: &str = "store/nats.pid";
/// File with the server's certificate.
pub(super) const CERTIFICATE: &str = "server.pem";
/// File with the private key of the server's certificate.
pub(super) const PRIVATE_KEY: &str = "server.key";
/// Names that agents can't have, because credentials of other roles use these file names.
pub(super) const RESERVED: [&str; 2] = ["coordinator", "registrar"];
/// Log of the server.
pub(super) const LOG: &str = "nats.log";
/// Folder with the server's data.
pub(super) const STORE: &str = "store";

/// Exclusive lock on a folder, which prevents other prony processes from running a server in it.
#[derive(Debug)]
pub struct FolderLock {
    pub(super) folder: PathBuf,
    _file: fs::File,
}

impl FolderLock {
    /// Locks the folder, and creates it if necessary. Returns `None` if another process holds the
    /// lock.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder can't be created or written to.
    pub fn hold(folder: &Path) -> Result<Option<FolderLock>, ServerError> {
        make_folder(folder)?;
        let path = folder.join("lock");
        let failed = |error| ServerError::File(path.clone(), error);
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(FolderLock {
                folder: folder.to_owned(),
                _file: file,
            })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// Waits for the lock on the folder's configuration. Dropping the returned file releases the lock.
pub(super) fn lock_for_writing(folder: &Path) -> Result<fs::File, ServerError> {
    make_folder(folder)?;
    let path = folder.join("write.lock");
    let failed = |error| ServerError::File(path.clone(), error);
    let mut options = fs::OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// The most recent setup of the server in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownServer {
    /// Address of the server.
    pub listen: SocketAddr,
    /// Names at which agents reach the server; see [`super::ServerSetup`].
    pub names: Vec<String>,
}

impl KnownServer {
    /// Reads the most recent setup from a folder. Returns `None` if the folder has had no server
    /// yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is invalid.
    pub fn read(folder: &Path) -> Result<Option<KnownServer>, ServerError> {
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

/// Creates a folder that only its owner can access. Keeps the permissions of an existing folder,
/// except those of the store.
pub(super) fn make_folder(folder: &Path) -> Result<(), ServerError> {
    let failed = |error| ServerError::File(folder.to_owned(), error);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).map_err(failed)?;
    let store = folder.join(STORE);
    builder.create(&store).map_err(failed)?;
    fs::set_permissions(&store, fs::Permissions::from_mode(0o700)).map_err(failed)
}

/// Writes a file that only its owner can read. Replaces the file atomically, so that no key is ever
/// lost.
pub(super) fn write_secret(path: &Path, text: &str) -> Result<(), ServerError> {
    let failed = |error| ServerError::File(path.to_owned(), error);
    let temporary = path.with_extension("new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&temporary).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_lock_holder() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FolderLock::hold(folder.path()).unwrap();
        assert!(lock.is_some());
        assert!(FolderLock::hold(folder.path()).unwrap().is_none());
        drop(lock);
        assert!(FolderLock::hold(folder.path()).unwrap().is_some());
    }

    #[test]
    fn the_last_setup_survives_serialization() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(KnownServer::read(folder.path()).unwrap(), None);
        let known = KnownServer {
            listen: "127.0.0.1:4222".parse().unwrap(),
            names: vec!["localhost".to_owned()],
        };
        known.write(folder.path()).unwrap();
        assert_eq!(KnownServer::read(folder.path()).unwrap(), Some(known));
    }

    #[test]
    fn rewriting_a_secret_removes_access_of_others() {
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
