//! Placeholder endpoints, used to render a variant before a host has allocated real ones.

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

use crate::render::{RemoteAddress, ServiceLayout, remote_allocated};
use crate::service::{AllocatedService, Endpoint, PortProtocol, pick_endpoints};

/// Port of the first placeholder endpoint.
const FIRST_PORT: u16 = 20_000;
/// Number of ports, beginning with `FIRST_PORT`, that count as placeholders.
const PORTS: u16 = 1_000;
/// Folder of all placeholder files. It must not exist.
const FOLDER: &str = "/nonexistent/prony";

/// Returns true if a port in rendered text is a placeholder.
pub fn is_placeholder_port(port: u16) -> bool {
    (FIRST_PORT..FIRST_PORT + PORTS).contains(&port)
}

/// Returns true if a path in rendered text is a placeholder.
pub fn is_placeholder_path(path: &Path) -> bool {
    path.starts_with(FOLDER)
}

/// Creates placeholder endpoints for the services' listeners. No server listens on them.
pub(super) fn placeholder_endpoints(
    services: &[ServiceLayout],
) -> BTreeMap<String, AllocatedService> {
    let mut ports = FIRST_PORT..;
    let mut address = |_: &[PortProtocol]| {
        let port = ports.next().unwrap_or(FIRST_PORT);
        Ok::<_, Infallible>(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    let mut all = BTreeMap::new();
    for service in services {
        let files_dir = PathBuf::from(FOLDER).join(&service.name);
        let allocated = match &service.remote {
            Some((_, RemoteAddress::Unix(path))) => remote_allocated(Endpoint::Unix(path.into())),
            Some((_, RemoteAddress::Tcp { port, .. })) => remote_allocated(Endpoint::Tcp(
                SocketAddr::from((Ipv4Addr::LOCALHOST, *port)),
            )),
            None => {
                let path = |name: &str| Ok(files_dir.join(format!("{name}.sock")));
                let Ok(endpoints) = pick_endpoints(&service.listen, &mut address, path);
                AllocatedService {
                    endpoints,
                    files_dir,
                }
            }
        };
        all.insert(service.name.clone(), allocated);
    }
    all
}
