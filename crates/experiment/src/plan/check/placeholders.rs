//! Endpoints for rendering a variant before a host has allocated any.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::plan::render::{RemoteAddress, ServiceLayout, remote_allocated};
use crate::service::{Allocated, Endpoint, ListenKind};

/// The port of the first endpoint.
const FIRST_PORT: u16 = 20_000;

/// Endpoints of the right kind that no server listens on.
pub(super) fn placeholder_endpoints(services: &[ServiceLayout]) -> BTreeMap<String, Allocated> {
    let mut ports = FIRST_PORT..;
    let mut tcp = || {
        let port = ports.next().unwrap_or(FIRST_PORT);
        Endpoint::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    };
    let mut all = BTreeMap::new();
    for service in services {
        let files_dir = PathBuf::from("/nonexistent/prony").join(&service.name);
        let allocated = match &service.remote {
            Some((_, RemoteAddress::Unix(path))) => remote_allocated(Endpoint::Unix(path.into())),
            Some((_, RemoteAddress::Tcp { port, .. })) => remote_allocated(Endpoint::Tcp(
                SocketAddr::from((Ipv4Addr::LOCALHOST, *port)),
            )),
            None => {
                let endpoints = service.listen.iter().map(|(name, kind)| {
                    let endpoint = match kind {
                        ListenKind::Tcp => tcp(),
                        ListenKind::Unix => Endpoint::Unix(files_dir.join(format!("{name}.sock"))),
                    };
                    (name.clone(), endpoint)
                });
                Allocated {
                    endpoints: endpoints.collect(),
                    files_dir,
                }
            }
        };
        all.insert(service.name.clone(), allocated);
    }
    all
}
