//! Allocation of places, addresses and folders for the services of one trial.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use prony_plan::service::{Allocation, PlaceKind, PortProtocol, pick_endpoints};
use prony_plan::topology::Topology;

use super::LocalHost;
use super::service::LocalService;
use crate::host::{HostError, launch};
use crate::place::{self, NetworkTopology, Sandbox};
use crate::run_state::{self, RunState};
use crate::system::{self, port};

/// Size of the path field in a UNIX socket address, including the final NUL.
const SOCKET_PATH_MAX: usize = 108;

impl LocalHost {
    /// Creates the networks and sandboxes, then picks the endpoints. If this fails, the run state
    /// lists the resources that were already created.
    pub(super) fn try_allocate(
        &mut self,
        wanted: &[Allocation],
        topology: &Topology,
    ) -> Result<(), HostError> {
        let run = self
            .run
            .insert(RunState::create(&self.base, &system::boot_id())?);
        let prefix = run.resource_prefix();
        if !topology.is_empty() {
            self.network = Some(NetworkTopology::make(&prefix, topology, run)?);
        }
        let last_in_sandbox = wanted.iter().rposition(has_sandbox);
        if last_in_sandbox.is_some() {
            let base = place::free_base()?;
            for (number, wanted) in wanted.iter().enumerate() {
                if has_sandbox(wanted) {
                    let sandbox = Sandbox::make(&format!("{prefix}-{number}"), base, run)?;
                    let service = LocalService::new(wanted.place, Some(sandbox));
                    self.services.insert(wanted.service.clone(), service);
                }
            }
        }
        for (number, wanted) in wanted.iter().enumerate() {
            // A sandboxed service that starts after this one may need to reach it.
            let serves_sandbox = last_in_sandbox > Some(number);
            self.pick_endpoints(number, wanted, serves_sandbox)?;
        }
        Ok(())
    }

    /// Creates the service's folder and picks an endpoint for each of its listeners.
    fn pick_endpoints(
        &mut self,
        number: usize,
        wanted: &Allocation,
        serves_sandbox: bool,
    ) -> Result<(), HostError> {
        let Some(run) = &self.run else {
            return Err(HostError::NotAllocated(wanted.service.clone()));
        };
        let sandbox = self.services.values().find_map(|it| it.sandbox.as_ref());
        let host_address = sandbox.map(|sandbox| sandbox.outside);
        let service = self
            .services
            .entry(wanted.service.clone())
            .or_insert_with(|| LocalService::new(wanted.place, None));
        let address: IpAddr = match (&service.sandbox, self.address, host_address) {
            (Some(sandbox), _, _) => sandbox.inside.into(),
            (None, Some(address), _) if wanted.exposed => address,
            _ if matches!(wanted.place, PlaceKind::Named(_)) => Ipv4Addr::LOCALHOST.into(),
            (_, _, Some(address)) if serves_sandbox => address.into(),
            _ => Ipv4Addr::LOCALHOST.into(),
        };
        let files = run.folder().join("files");
        let files_dir = launch::inside(&files, &wanted.service)?;
        run_state::make_folder(&files)?;
        run_state::make_folder(&files_dir)?;
        service.allocated.files_dir = files_dir;
        let own_network = service.has_own_network();
        service.allocated.endpoints = pick_endpoints(
            &wanted.listen,
            |protocols| pick_address(address, protocols, own_network),
            |name| socket_path(&run.sockets(), &wanted.service, name, number),
        )?;
        Ok(())
    }
}

fn has_sandbox(wanted: &Allocation) -> bool {
    wanted.place == PlaceKind::Namespace
}

fn pick_address(
    address: IpAddr,
    protocols: &[PortProtocol],
    own_network: bool,
) -> Result<SocketAddr, HostError> {
    let port = if own_network {
        port::pick_in_own_network()
    } else {
        port::pick(address, protocols)
    };
    Ok(SocketAddr::new(address, port.ok_or(HostError::NoFreePort)?))
}

/// Returns a socket path that contains the service's name, or a shorter path if that one is too
/// long.
fn socket_path(
    folder: &Path,
    service: &str,
    listener: &str,
    number: usize,
) -> Result<PathBuf, HostError> {
    let name = if listener.is_empty() {
        service.to_owned()
    } else {
        format!("{service}-{listener}")
    };
    let path = launch::inside(folder, &format!("{}.sock", name.replace('/', "_")))?;
    if path.as_os_str().len() < SOCKET_PATH_MAX {
        return Ok(path);
    }
    let hash: u32 = listener.bytes().fold(0, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    let path = folder.join(format!("{number}{hash:x}"));
    if path.as_os_str().len() < SOCKET_PATH_MAX {
        Ok(path)
    } else {
        Err(HostError::PathTooLong(path))
    }
}
