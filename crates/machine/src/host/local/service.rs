//! A service on this machine: its allocation, processes and resources.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use prony_plan::service::{AllocatedService, Endpoint, FollowSpec, PlaceKind, PortProtocol};

use super::container::ServiceContainer;
use crate::host::HostError;
use crate::host::launch::RunningService;
use crate::place::{ControlGroup, Sandbox};
use crate::sampling::{SamplingRefused, SamplingSession};
use crate::system::hardware::CounterGroup;
use crate::system::port;

#[derive(Debug)]
pub(super) struct LocalService {
    pub(super) place: PlaceKind,
    pub(super) allocated: AllocatedService,
    pub(super) sandbox: Option<Sandbox>,
    pub(super) running: Option<RunningService>,
    /// Cores that the plan assigns to the service; empty means any core.
    pub(super) cores: Vec<usize>,
    /// Memory limit that the plan sets.
    pub(super) memory_bytes: Option<u64>,
    pub(super) follow: FollowSpec,
    /// Control group of the service; `None` if the plan sets no limit.
    pub(super) group: Option<ControlGroup>,
    /// Container of the service; `None` without one.
    pub(super) container: Option<ServiceContainer>,
    /// Program and arguments.
    pub(super) command: Vec<String>,
    pub(super) cwd: PathBuf,
    /// Value of `PATH` that the plan sets.
    pub(super) path: Option<String>,
    /// Hardware counters of the service's processes; `None` unless the plan requests counters by
    /// process.
    pub(super) counters: Option<CounterGroup>,
    /// Samples of the service's functions, or the reason why there are none; `None` unless the plan
    /// requests a profile.
    pub(super) sampling: Option<Result<SamplingSession, SamplingRefused>>,
    pub(super) log: Option<PathBuf>,
    /// Processes of the service that the run state lists, by ID and start time.
    pub(super) recorded: HashSet<(i32, u64)>,
}

impl LocalService {
    pub(super) fn new(place: PlaceKind, sandbox: Option<Sandbox>) -> Self {
        let allocated = AllocatedService {
            endpoints: BTreeMap::new(),
            files_dir: PathBuf::new(),
        };
        Self {
            place,
            allocated,
            sandbox,
            running: None,
            cores: Vec::new(),
            memory_bytes: None,
            follow: FollowSpec::default(),
            group: None,
            container: None,
            command: Vec::new(),
            cwd: PathBuf::new(),
            path: None,
            counters: None,
            sampling: None,
            log: None,
            recorded: HashSet::new(),
        }
    }

    /// Returns the folder of the control group that counts the service's CPU time.
    pub(super) fn accounting(&self) -> Option<&Path> {
        let container = self.container.as_ref();
        let container = container.and_then(ServiceContainer::group);
        let own = || self.group.as_ref().and_then(ControlGroup::accounting);
        container.or_else(own)
    }

    /// Returns true if the service's network and process IDs are separate from the host's. The
    /// first process of such a service is a copy of prony.
    pub(super) fn is_isolated(&self) -> bool {
        self.sandbox.is_some()
    }

    /// Returns true if the service has a network of its own, so that processes of the host can't
    /// occupy its ports.
    pub(super) fn has_own_network(&self) -> bool {
        self.is_isolated() || matches!(self.place, PlaceKind::Named(_))
    }

    /// Removes sockets that an earlier start left behind, and checks that the service's ports are
    /// free.
    pub(super) fn free_endpoints(&self, name: &str) -> Result<(), HostError> {
        for endpoint in self.allocated.endpoints.values() {
            match endpoint {
                Endpoint::Unix(path) => match fs::remove_file(path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(HostError::file("remove", path)(error));
                    }
                    _ => {}
                },
                Endpoint::Tcp(address) => self.check_port(name, *address, PortProtocol::Tcp)?,
                Endpoint::Udp(address) => self.check_port(name, *address, PortProtocol::Udp)?,
            }
        }
        Ok(())
    }

    fn check_port(
        &self,
        name: &str,
        address: SocketAddr,
        protocol: PortProtocol,
    ) -> Result<(), HostError> {
        if self.has_own_network() {
            return Ok(());
        }
        port::check_free(address, protocol).map_err(|holder| HostError::PortTaken {
            service: name.to_owned(),
            address,
            protocol,
            holder,
        })
    }

    /// Lets every user connect to the service's UNIX sockets. Many servers allow only their own
    /// user, but the load and other services may run as different users.
    pub(super) fn open_sockets(&self) {
        for endpoint in self.allocated.endpoints.values() {
            let Endpoint::Unix(path) = endpoint else {
                continue;
            };
            if let Ok(metadata) = path.symlink_metadata()
                && metadata.file_type().is_socket()
                && metadata.permissions().mode() & 0o777 != 0o666
            {
                // Ignore errors, because the error of a later connection attempt is more helpful.
                let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o666));
            }
        }
    }
}
