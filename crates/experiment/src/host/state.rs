//! The state folder: what a run has made, written down before or as it is made, so that the next
//! start can remove what a killed run left ([`crate::sweep`]).
//!
//! ```text
//! /run/prony-<uid>/            or $XDG_RUNTIME_DIR/prony-<uid>, or $TMPDIR/prony-<uid>
//!   lock                       held while a run's folder is made, and during a sweep
//!   <pid>-<n>/                 one for each host that lives or died without cleaning up
//!     lock                     held by the run; the kernel releases it however the run ends
//!     made                     one JSON object a line: processes, namespaces, links
//!     s/                       UNIX sockets; any user may create one here, as in /tmp
//!     <service>/               the service's rendered files
//! ```
//!
//! All folders can be entered by every user, since servers change to users of their own.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::HostError;

/// One line of the file `made`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Made {
    /// The boot in which the run began; process ids mean nothing in another.
    Boot {
        /// The kernel's name for the boot.
        id: String,
    },
    /// A process that was started, or seen below one that was.
    Process {
        /// Its id.
        pid: i32,
        /// When it started, in the system's own unit; with the id it names the process for good.
        start: u64,
    },
    /// A named network namespace.
    Namespace {
        /// The name.
        name: String,
    },
    /// The host's end of a veth pair.
    Link {
        /// The name, which another run may use once this one has given it up.
        name: String,
        /// The namespace to which it leads; the link bears its name as alias, which tells whose it
        /// is.
        namespace: String,
    },
    /// A jail.
    Jail {
        /// The name.
        name: String,
    },
    /// An address that was added to the loopback interface.
    Address {
        /// The address.
        address: Ipv4Addr,
    },
}

/// The folder of one run, locked for as long as this value lives.
#[derive(Debug)]
pub(crate) struct RunState {
    folder: PathBuf,
    made: File,
    places: Vec<Made>,
    _lock: File,
}

impl RunState {
    /// Makes the folder of a new run below `base`.
    ///
    /// # Errors
    /// [`HostError::File`].
    pub(crate) fn create(base: &Path, boot: &str) -> Result<Self, HostError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let _held = lock_base(base)?;
        let folder = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = base.join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => break folder,
                // Left by a run of the same process id that died.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(HostError::file("create", folder)(error)),
            }
        };
        set_mode(&folder, 0o755)?;
        let lock = open_lock(&folder.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| HostError::file("lock", folder.join("lock"))(error.into()))?;
        let path = folder.join("made");
        let made = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(HostError::file("create", path))?;
        let sockets = folder.join("s");
        fs::create_dir(&sockets).map_err(HostError::file("create", &sockets))?;
        set_mode(&sockets, 0o1777)?;
        let mut state = Self {
            folder,
            made,
            places: Vec::new(),
            _lock: lock,
        };
        state.record(&Made::Boot {
            id: boot.to_owned(),
        })?;
        Ok(state)
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where sockets go.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.folder.join("s")
    }

    /// What was made that is neither a process nor a file, in the order in which it was made.
    pub(crate) fn places(&self) -> &[Made] {
        &self.places
    }

    /// Appends a line.
    pub(crate) fn record(&mut self, made: &Made) -> Result<(), HostError> {
        if !matches!(made, Made::Boot { .. } | Made::Process { .. }) {
            self.places.push(made.clone());
        }
        let line = serde_json::to_string(made).map_err(io::Error::from);
        line.and_then(|line| self.made.write_all(format!("{line}\n").as_bytes()))
            .map_err(HostError::file("write", self.folder.join("made")))
    }

    /// Removes the folder; the last thing that a run does.
    pub(crate) fn remove(&self) -> Result<(), HostError> {
        remove_folder(&self.folder)
    }
}

/// Removes a folder and all in it; one that is gone already is no error.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), HostError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(HostError::file("remove", folder)(error))
        }
        _ => Ok(()),
    }
}

/// Makes a folder that every user may enter.
pub(crate) fn make_folder(path: &Path) -> Result<(), HostError> {
    fs::create_dir_all(path).map_err(HostError::file("create", path))?;
    set_mode(path, 0o755)
}

/// Sets the mode whatever the umask is.
fn set_mode(path: &Path, mode: u32) -> Result<(), HostError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(HostError::file("set the mode of", path))
}

/// The folder of the runs whose owner is dead, or `None` if it lives.
pub(crate) struct DeadRun {
    /// The run's folder.
    pub(crate) folder: PathBuf,
    /// What it had made, as far as it was written down.
    pub(crate) made: Vec<Made>,
}

/// The runs below `base` whose prony is dead, and the lock that keeps new ones from beginning.
///
/// # Errors
/// [`HostError::File`] if the base can't be locked or read.
pub(crate) fn dead_runs(base: &Path) -> Result<(File, Vec<DeadRun>), HostError> {
    let held = lock_base(base)?;
    let mut dead = Vec::new();
    for entry in fs::read_dir(base)
        .map_err(HostError::file("read", base))?
        .flatten()
    {
        let folder = entry.path();
        let name = entry.file_name();
        let is_run = name.to_str().is_some_and(|name| {
            name.split_once('-')
                .is_some_and(|(pid, n)| pid.parse::<u32>().is_ok() && n.parse::<u32>().is_ok())
        });
        if !is_run || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let lock = OpenOptions::new().write(true).open(folder.join("lock"));
        // No lock at all: it died while it made the folder, which happens under the base's lock.
        let lives =
            lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err());
        if !lives {
            let text = fs::read_to_string(folder.join("made")).unwrap_or_default();
            // The last line may be cut off; then nothing was made of it yet or it dies with the rest.
            let made = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect();
            dead.push(DeadRun { folder, made });
        }
    }
    Ok((held, dead))
}

/// The state folder of this user.
///
/// # Errors
/// [`HostError::File`] if none can be made, or if the one in a shared folder belongs to another.
pub fn base() -> Result<PathBuf, HostError> {
    let user = rustix::process::geteuid();
    let name = format!("prony-{}", user.as_raw());
    let mut parents = Vec::new();
    if user.is_root() {
        parents.push(PathBuf::from("/run"));
    }
    parents.extend(
        std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute()),
    );
    parents.push(std::env::temp_dir());
    let mut failure = None;
    for parent in parents {
        match prepare_base(&parent.join(&name), user.as_raw()) {
            Ok(base) => return Ok(base),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or(HostError::BadName(name)))
}

/// Makes a base or checks that the existing one is ours: in /tmp anybody could have made it.
fn prepare_base(path: &Path, user: u32) -> Result<PathBuf, HostError> {
    match DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => set_mode(path, 0o755)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let metadata = path
                .symlink_metadata()
                .map_err(HostError::file("read", path))?;
            if !metadata.is_dir() || metadata.uid() != user {
                let taken = io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "it belongs to somebody else",
                );
                return Err(HostError::file("use", path)(taken));
            }
        }
        Err(error) => return Err(HostError::file("create", path)(error)),
    }
    Ok(path.to_owned())
}

fn open_lock(path: &Path) -> Result<File, HostError> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(HostError::file("create", path))
}

fn lock_base(base: &Path) -> Result<File, HostError> {
    let path = base.join("lock");
    let lock = open_lock(&path)?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|error| HostError::file("lock", path)(error.into()))?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_run_is_not_dead_and_a_dropped_one_is() {
        let base = tempfile::tempdir().unwrap();
        let mut state = RunState::create(base.path(), "boot").unwrap();
        let other = RunState::create(base.path(), "boot").unwrap();
        state.record(&Made::Process { pid: 7, start: 9 }).unwrap();
        assert!(dead_runs(base.path()).unwrap().1.is_empty());
        let folder = state.folder().to_owned();
        drop(state);
        let (held, dead) = dead_runs(base.path()).unwrap();
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].folder, folder);
        assert_eq!(
            dead[0].made,
            [
                Made::Boot { id: "boot".into() },
                Made::Process { pid: 7, start: 9 }
            ]
        );
        drop(held);
        other.remove().unwrap();
        assert!(!other.folder().exists());
    }

    #[test]
    fn a_line_cut_off_by_death_is_passed_over() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("12-0");
        fs::create_dir(&folder).unwrap();
        fs::write(
            folder.join("made"),
            "{\"kind\":\"jail\",\"name\":\"prony3\"}\n{\"kind\":\"ja",
        )
        .unwrap();
        let (_held, dead) = dead_runs(base.path()).unwrap();
        assert_eq!(
            dead[0].made,
            [Made::Jail {
                name: "prony3".into()
            }]
        );
    }

    #[test]
    fn folders_can_be_entered_by_others() {
        let base = tempfile::tempdir().unwrap();
        let state = RunState::create(base.path(), "boot").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(state.folder()), 0o755);
        assert_eq!(mode(&state.sockets()), 0o1777);
    }

    #[test]
    fn strangers_folders_are_passed_over() {
        let base = tempfile::tempdir().unwrap();
        for name in ["notes", "12-x", "a-0"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        assert!(dead_runs(base.path()).unwrap().1.is_empty());
    }

    #[test]
    fn a_base_that_is_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prony-0");
        std::os::unix::fs::symlink("/", &path).unwrap();
        assert!(prepare_base(&path, rustix::process::geteuid().as_raw()).is_err());
    }
}
