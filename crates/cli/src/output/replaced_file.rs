//! Replaces files atomically: writes the new content next to the old file and renames it into
//! place, so that a killed run or a full disk leaves the old content unchanged. A file that can't
//! be renamed over, such as one that is mounted into a container, is written in place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Maximum number of symbolic links to follow, the same as the kernel's limit.
const LINKS_MAX: usize = 40;

/// Mode of a new file, before the umask is applied.
const NEW_FILE_MODE: u32 = 0o666;

/// A file that has been found writable and will be written once.
#[derive(Debug)]
pub(crate) enum ReplacedFile {
    /// A regular file, or a file that doesn't exist yet. Symbolic links in the path are resolved.
    Renamed(PathBuf),
    /// A pipe, a device, a stream of this process, or a file in a folder where no file can be
    /// created. It is written in place.
    InPlace(File),
}

impl ReplacedFile {
    /// Checks that `path` can be written, without changing anything.
    pub(crate) fn prepare(path: &Path) -> io::Result<ReplacedFile> {
        let path = behind_links(path)?;
        if is_of_process(&path) {
            let file = OpenOptions::new().append(true).open(&path)?;
            return Ok(ReplacedFile::InPlace(file));
        }
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                // Renaming would succeed even if the old file is read-only, but the user expects an
                // error. If renaming fails, the file is written in place.
                let file = OpenOptions::new().write(true).open(&path)?;
                match draft(&path) {
                    Ok(_) => Ok(ReplacedFile::Renamed(path)),
                    Err(_) => Ok(ReplacedFile::InPlace(file)),
                }
            }
            Ok(_) => OpenOptions::new()
                .write(true)
                .open(&path)
                .map(ReplacedFile::InPlace),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
                {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                draft(&path).map(|_| ReplacedFile::Renamed(path))
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn write(self, content: &[u8]) -> io::Result<()> {
        match self {
            ReplacedFile::Renamed(path) => replace(&path, content),
            ReplacedFile::InPlace(mut file) => {
                if file.metadata()?.is_file() && !is_appended(&file) {
                    file.set_len(0)?;
                }
                file.write_all(content)
            }
        }
    }
}

/// Writes a temporary file next to `path` and renames it to `path`. If that isn't possible, an
/// existing file is written in place.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let path = &behind_links(path)?;
    let mut draft = match draft(path) {
        Ok(draft) => draft,
        Err(error) => return overwrite(path, content, error),
    };
    draft.as_file_mut().write_all(content)?;
    if let Ok(old) = fs::metadata(path) {
        let mode = fs::Permissions::from_mode(old.mode() & 0o7777);
        // Keep the old owner if the process may set it. A failure to do so must not lose the
        // content.
        let _ = std::os::unix::fs::chown(draft.path(), Some(old.uid()), Some(old.gid()));
        draft.as_file().set_permissions(mode)?;
    }
    draft.as_file().sync_all()?;
    match draft.persist(path) {
        Ok(_) => Ok(()),
        // The target of a mount can't be replaced (EBUSY), nor can another user's file in a folder
        // with the sticky bit (EPERM).
        Err(refused) => overwrite(path, content, refused.error),
    }
}

/// Writes an existing file in place, because it can't be replaced. Returns the error of the
/// replacement if there is no such file.
fn overwrite(path: &Path, content: &[u8], not_replaced: io::Error) -> io::Result<()> {
    let mut file = match OpenOptions::new().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_replaced),
        Err(error) => return Err(error),
    };
    file.set_len(0)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Creates an empty temporary file in the folder of `path`. It is removed unless it is renamed.
fn draft(path: &Path) -> io::Result<NamedTempFile> {
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix: String = name.chars().take(64).collect();
    // The closure keeps the name of the temporary file out of errors, which `tempfile_in` adds.
    tempfile::Builder::new()
        .prefix(&format!(".{prefix}."))
        .suffix(".new")
        .make_in(parent.unwrap_or(Path::new(".")), |draft| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(NEW_FILE_MODE)
                .open(draft)
        })
}

/// Resolves symbolic links in the last component of the path, up to a link that names a stream of
/// this process.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let is_link = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink());
        if !is_link || is_of_process(&path) {
            return Ok(path);
        }
        let target = fs::read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns true for a path that names a stream or a device, such as `/dev/stdout`, `/dev/fd/3` or
/// `/proc/self/fd/1`.
fn is_of_process(path: &Path) -> bool {
    let is_shared_memory = path.starts_with("/dev/shm");
    (path.starts_with("/dev") && !is_shared_memory) || path.starts_with("/proc")
}

fn is_appended(file: &File) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::APPEND))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_file_keeps_its_content_until_it_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("r.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let file = ReplacedFile::prepare(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        // Before the write, the folder contains only the target. A killed process would leave no
        // temporary file.
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
        file.write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(mode(&path), 0o640);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_still_points_to_its_file() {
        let scratch = tempfile::tempdir().unwrap();
        let (file, link) = (scratch.path().join("file"), scratch.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        ReplacedFile::prepare(&link).unwrap().write(b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }

    #[test]
    fn pipes_and_devices_are_written_in_place() {
        let null = Path::new("/dev/null");
        let file = ReplacedFile::prepare(null).unwrap();
        assert!(matches!(file, ReplacedFile::InPlace(_)));
        file.write(b"x").unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let pipe = scratch.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from(0o600),
            0,
        )
        .unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        ReplacedFile::prepare(&pipe).unwrap().write(b"x").unwrap();
        assert_eq!(reader.join().unwrap(), "x");
        assert!(!fs::metadata(&pipe).unwrap().is_file());
    }

    #[test]
    fn what_can_not_be_written_is_refused_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["missing/x", "", "missing/"] {
            let refused = ReplacedFile::prepare(&scratch.path().join(name)).unwrap_err();
            // No error names the temporary file.
            assert!(!refused.to_string().contains(".new"), "{name:?}: {refused}");
        }
    }
}
