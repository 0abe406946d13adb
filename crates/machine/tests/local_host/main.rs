//! Tests of `LocalHost` with real processes: start, state, stop, and cleanup.
//!
//! The services are shells and other basic programs, so no server needs to be installed. Tests with
//! namespaces require root and iproute2, and fail if these are missing.

mod cleanup;
mod keepers;
mod limits;
mod namespaces;
mod services;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use prony_machine::host::local::LocalHost;
use prony_machine::host::{Host, HostError, ReadinessProbe};
use prony_machine::place;
use prony_plan::service::{Allocation, Endpoint, ListenKind, PlaceKind, ServiceSpec};
use prony_plan::topology::Topology;

/// Timeout for every wait. It is long enough for a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// Lock that each test holds. A host whose keeper was killed kills all children of this process
/// that don't belong to one of its own keepers, so a test that kills a keeper must run alone.
static HOSTS: RwLock<()> = RwLock::new(());

/// Guard of the lock [`HOSTS`], which is either shared with other tests or exclusive.
enum HostsGuard {
    Shared(#[expect(dead_code, reason = "held until dropped")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held until dropped")] RwLockWriteGuard<'static, ()>),
}

impl HostsGuard {
    fn shared() -> HostsGuard {
        HostsGuard::Shared(HOSTS.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn alone() -> HostsGuard {
        HostsGuard::Alone(HOSTS.write().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Bench {
    folder: tempfile::TempDir,
    host: LocalHost,
    // This field must be dropped after the host.
    _hosts: HostsGuard,
}

impl Bench {
    /// Creates a host for a test that can run at the same time as other tests.
    fn new() -> Self {
        Self::with(HostsGuard::shared())
    }

    /// Creates a host for a test that kills a keeper and therefore runs alone.
    fn alone() -> Self {
        Self::with(HostsGuard::alone())
    }

    fn with(hosts: HostsGuard) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Let other users reach the sockets, as in the usual state folder.
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let state = folder.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let host = LocalHost::with_state_in(state);
        Self {
            folder,
            host,
            _hosts: hosts,
        }
    }

    fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    fn allocate(&mut self, place: PlaceKind, listen: &[ListenKind]) -> Vec<Endpoint> {
        let listen = listen
            .iter()
            .enumerate()
            .map(|(n, kind)| (n.to_string(), *kind))
            .collect();
        let wanted = Allocation {
            jail: None,
            service: "s".to_owned(),
            host: None,
            exposed: false,
            place,
            listen,
        };
        let allocated = self
            .host
            .allocate(&[wanted], &Topology::default())
            .unwrap_or_else(|error| panic!("{error}"));
        allocated["s"].endpoints.values().cloned().collect()
    }

    fn start(&mut self, place: PlaceKind, script: &str) {
        let logs = self.logs();
        self.host
            .start(&shell(place, script), &logs)
            .unwrap_or_else(|error| panic!("{error}"));
    }

    fn log(&self) -> String {
        self.host.log_tail("s", 100)
    }

    /// Waits until the log contains a line with the given prefix. Returns the text after the
    /// prefix.
    fn logged(&self, prefix: &str) -> String {
        wait_for(&format!("{prefix:?} in the log"), || {
            self.log()
                .lines()
                .find_map(|line| line.strip_prefix(prefix))
                .map(str::to_owned)
        })
    }
}

fn shell(place: PlaceKind, script: &str) -> ServiceSpec {
    ServiceSpec {
        jail: None,
        name: "s".to_owned(),
        command: vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()],
        wrapper_words: 0,
        env: BTreeMap::new(),
        cwd: PathBuf::from("/"),
        files: BTreeMap::new(),
        secrets: BTreeMap::new(),
        cores: Vec::new(),
        place,
        stop_signal: libc::SIGTERM,
        library_path: None,
        open_files: None,
        limits: Default::default(),
        container: None,
        follow: Default::default(),
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < WAIT_TIMEOUT, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn places() -> [PlaceKind; 2] {
    place::check_kind(PlaceKind::Namespace).expect("these tests require root and iproute2");
    [PlaceKind::Native, PlaceKind::Namespace]
}

/// Waits until no process has a log in `folder` open. While another test is starting a service, the
/// forked process briefly has copies of all open files.
fn wait_for_end_of_writers(folder: &Path) {
    wait_for("the end of all processes with a log in the folder", || {
        (log_writers(folder) == 0).then_some(())
    });
}

/// Counts the processes that have a log in `folder` open.
fn log_writers(folder: &Path) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter(|entry| entry.file_name().to_string_lossy().parse::<i32>().is_ok());
    pids.filter(|entry| {
        let files = std::fs::read_dir(entry.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|target| {
                target.starts_with(folder)
                    && target
                        .extension()
                        .is_some_and(|extension| extension == "log")
            })
    })
    .count()
}
