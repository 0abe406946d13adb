//! Servers: each runs on one core, with its files in the benchmark's folder, until it is dropped.

mod files;
pub(super) mod link;
mod nginx;
pub(super) mod plain;
mod running;
mod status;
mod witness;

use std::path::Path;

use super::rows::ServerKind;
use link::Link;
use nginx::Nginx;
use plain::PlainServer;
pub(super) use running::{Endpoint, Server};

impl ServerKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            ServerKind::Nginx | ServerKind::FarNginx => "nginx",
            ServerKind::Origin => "origin",
            ServerKind::Caddy => "Caddy",
            ServerKind::Arrivals | ServerKind::FarKernel => "responder",
            ServerKind::FleetStarts | ServerKind::FleetLoad | ServerKind::SimulatedFleet => "fleet",
        }
    }

    /// Returns the arguments that print the server's version; `None` if it is part of prony.
    pub(super) fn version_arguments(self) -> Option<&'static [&'static str]> {
        match self {
            ServerKind::Nginx | ServerKind::FarNginx => Some(&["-v"]),
            ServerKind::Caddy => Some(&["version"]),
            _ => None,
        }
    }

    /// Starts a server on a core, with its files in `folder`.
    pub(super) fn start(
        self,
        program: &Path,
        folder: &Path,
        core: usize,
    ) -> Result<Box<dyn Server>, String> {
        let nginx = |link| -> Result<Box<dyn Server>, String> {
            Ok(Box::new(Nginx::start(program, folder, core, link)?))
        };
        let plain = match self {
            ServerKind::Origin => PlainServer::origin(program, folder, core),
            ServerKind::Caddy => PlainServer::caddy(program, folder, core),
            ServerKind::FarKernel => PlainServer::far_kernel(program, folder, core),
            ServerKind::FarNginx => return nginx(Some(Link::new()?)),
            _ => return nginx(None),
        };
        Ok(Box::new(plain?))
    }
}
