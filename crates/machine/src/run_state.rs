//! The state folder, which lists the resources of each run. A resource is listed before or when it
//! is created, so the next start can remove the leftovers of a killed run ([`crate::sweep`]).
//!
//! ```text
//! /run/prony-<uid>/            or $XDG_RUNTIME_DIR/prony-<uid>, or $TMPDIR/prony-<uid>
//!   lock                       held while a run's folder is created, and during a sweep
//!   <pid>-<n>/                 one per run that is alive or was killed
//!     lock                     held by the run; the kernel releases it when the run ends
//!     made                     one JSON object per line: processes, namespaces, links, groups, containers
//!     s/                       UNIX sockets; any user may create one here, as in /tmp
//!     files/<service>/         the service's rendered files
//! ```
//!
//! Every user may enter the folders, because servers often switch to another user.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::system::HostError;

/// A resource that a run created, stored as one line of the file `made`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum CreatedResource {
    /// The boot during which the run began. Process IDs are not valid after a reboot.
    Boot {
        /// ID that the kernel assigned to the boot.
        id: String,
    },
    /// A process of a service.
    Process {
        /// Process ID.
        pid: i32,
        /// Start time in a unit that depends on the operating system. The process ID and the start
        /// time together are unique.
        start: u64,
    },
    /// A named network namespace that the run created.
    Namespace {
        /// Name of the namespace.
        name: String,
    },
    /// A container of a service.
    Container {
        /// Path of podman or docker.
        program: PathBuf,
        /// Name of the container.
        name: String,
    },
    /// A folder of a service's control group.
    ControlGroup {
        /// The folder below `/sys/fs/cgroup`.
        folder: PathBuf,
    },
    /// The host's end of a veth pair.
    Link {
        /// Name of the link. Another run may reuse it after this run has ended.
        name: String,
        /// Namespace at the other end. Its name is also the link's alias, which identifies the run
        /// that created the link.
        namespace: String,
    },
}

/// A resource that a killed run left behind and that a sweep has removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovedResource {
    /// A process, by its ID and name.
    Process(i32, String),
    /// A network namespace, by its name.
    Namespace(String),
    /// A container, by its name.
    Container(String),
    /// A folder of a control group.
    ControlGroup(PathBuf),
    /// The host's end of a veth pair.
    Link(String),
    /// The folder of a run, with its files and sockets.
    Folder(PathBuf),
}

impl fmt::Display for RemovedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid, name) => write!(f, "process {pid} ({name})"),
            Self::Namespace(name) => write!(f, "network namespace {name}"),
            Self::Container(name) => write!(f, "container {name}"),
            Self::ControlGroup(folder) => write!(f, "control group {}", folder.display()),
            Self::Link(name) => write!(f, "network link {name}"),
            Self::Folder(path) => write!(f, "folder {}", path.display()),
        }
    }
}

/// The folder of one run, locked for as long as this value lives.
#[derive(Debug)]
pub(crate) struct RunState {
    folder: PathBuf,
    made: File,
    created: Vec<CreatedResource>,
    _lock: File,
}

impl RunState {
    /// Creates the folder of a new run below `base`.
    ///
    /// # Errors
    /// [`HostError::File`] if the folder or one of its files can't be created.
    pub(crate) fn create(base: &Path, boot: &str) -> Result<Self, HostError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let _held = lock_base(base)?;
        let folder = loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = base.join(format!("{}-{number}", std::process::id()));
            match fs::create_dir(&folder) {
                Ok(()) => break folder,
                // A folder with this name was left behind by a killed run with the same process ID.
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
            created: Vec::new(),
            _lock: lock,
        };
        state.record(&CreatedResource::Boot {
            id: boot.to_owned(),
        })?;
        Ok(state)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a prefix for names of the run's resources: `prony-` followed by the name of the run's
    /// folder. It is unique as long as the folder exists.
    pub(crate) fn resource_prefix(&self) -> String {
        let run = self.folder.file_name().unwrap_or_default();
        format!("prony-{}", run.to_string_lossy())
    }

    /// Returns the folder for UNIX sockets.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.folder.join("s")
    }

    /// Returns the created resources other than processes and files, in order of creation.
    pub(crate) fn created(&self) -> &[CreatedResource] {
        &self.created
    }

    /// Adds a resource to the file `made`.
    pub(crate) fn record(&mut self, made: &CreatedResource) -> Result<(), HostError> {
        if !matches!(
            made,
            CreatedResource::Boot { .. } | CreatedResource::Process { .. }
        ) {
            self.created.push(made.clone());
        }
        let line = serde_json::to_string(made).map_err(io::Error::from);
        line.and_then(|line| self.made.write_all(format!("{line}\n").as_bytes()))
            .map_err(HostError::file("write", self.folder.join("made")))
    }

    /// Removes the folder. This is the last step of a run.
    pub(crate) fn remove(&self) -> Result<(), HostError> {
        remove_folder(&self.folder)
    }
}

/// Removes a folder and its contents. Does nothing if the folder does not exist.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), HostError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(HostError::file("remove", folder)(error))
        }
        _ => Ok(()),
    }
}

/// Creates a folder that every user may enter.
pub(crate) fn make_folder(path: &Path) -> Result<(), HostError> {
    fs::create_dir_all(path).map_err(HostError::file("create", path))?;
    set_mode(path, 0o755)
}

/// Sets the mode of a file or folder, regardless of the umask.
fn set_mode(path: &Path, mode: u32) -> Result<(), HostError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(HostError::file("set the mode of", path))
}

/// A run whose prony process was killed.
pub(crate) struct DeadRun {
    /// Folder that the killed run left behind.
    pub(crate) folder: PathBuf,
    /// Resources that the run recorded.
    pub(crate) made: Vec<CreatedResource>,
}

/// Returns the killed runs below `base`, and a lock that prevents new runs while it is held.
///
/// # Errors
/// [`HostError::File`] if `base` can't be locked or read.
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
        // If the lock file is missing, prony was killed while it was creating the folder, with the
        // lock of `base` held.
        let lives =
            lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err());
        if !lives {
            let text = fs::read_to_string(folder.join("made")).unwrap_or_default();
            // The last line may be incomplete. Its resource was not created yet, or it will be
            // removed along with the others.
            let made = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect();
            dead.push(DeadRun { folder, made });
        }
    }
    Ok((held, dead))
}

/// Returns the state folder of this user, creating it if necessary.
///
/// # Errors
/// [`HostError::File`] if the folder can't be created, or if it belongs to another user.
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

/// Creates the state folder, or checks that this user owns the existing one, because any user could
/// have created a folder in /tmp.
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
                    "the folder belongs to another user",
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
    fn a_dropped_run_is_dead() {
        let base = tempfile::tempdir().unwrap();
        let mut state = RunState::create(base.path(), "boot").unwrap();
        let other = RunState::create(base.path(), "boot").unwrap();
        state
            .record(&CreatedResource::Process { pid: 7, start: 9 })
            .unwrap();
        assert!(dead_runs(base.path()).unwrap().1.is_empty());
        let folder = state.folder().to_owned();
        drop(state);
        let (held, dead) = dead_runs(base.path()).unwrap();
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].folder, folder);
        assert_eq!(
            dead[0].made,
            [
                CreatedResource::Boot { id: "boot".into() },
                CreatedResource::Process { pid: 7, start: 9 }
            ]
        );
        drop(held);
        other.remove().unwrap();
        assert!(!other.folder().exists());
    }

    #[test]
    fn an_incomplete_line_is_ignored() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("12-0");
        fs::create_dir(&folder).unwrap();
        fs::write(
            folder.join("made"),
            "{\"kind\":\"namespace\",\"name\":\"prony3\"}\n{\"kind\":\"na",
        )
        .unwrap();
        let (_held, dead) = dead_runs(base.path()).unwrap();
        assert_eq!(
            dead[0].made,
            [CreatedResource::Namespace {
                name: "prony3".into()
            }]
        );
    }

    #[test]
    fn every_user_may_enter_the_folders() {
        let base = tempfile::tempdir().unwrap();
        let state = RunState::create(base.path(), "boot").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(state.folder()), 0o755);
        assert_eq!(mode(&state.sockets()), 0o1777);
    }

    #[test]
    fn other_folders_are_ignored() {
        let base = tempfile::tempdir().unwrap();
        for name in ["notes", "12-x", "a-0"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        assert!(dead_runs(base.path()).unwrap().1.is_empty());
    }

    #[test]
    fn a_symlink_in_place_of_the_state_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prony-0");
        std::os::unix::fs::symlink("/", &path).unwrap();
        assert!(prepare_base(&path, rustix::process::geteuid().as_raw()).is_err());
    }
}
