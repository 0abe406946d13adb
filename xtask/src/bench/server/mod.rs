//! Servers: each runs on one core, with its files in the benchmark's folder, until it is dropped.

pub(super) mod link;
mod nginx;
pub(super) mod plain;
mod status;
mod witness;

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;

use super::process;
use super::rows::{Row, ServerKind};
use link::Link;
use nginx::Nginx;
use plain::PlainServer;

/// Where a run sends its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
}

/// A running server.
pub(super) trait Server {
    /// Where the next run sends the requests of a row.
    fn endpoint(&mut self, row: &Row) -> Endpoint;

    /// Waits until all connections of the last run are closed.
    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Number of requests so far; `None` if the server doesn't count, so that the tools' own counts
    /// are used.
    fn requests(&mut self) -> Result<Option<u64>, String> {
        Ok(None)
    }

    /// Changes a tool's command so that the tool reaches the server.
    fn prepare(&self, command: &mut Command) -> Result<(), String> {
        let _ = command;
        Ok(())
    }

    /// Checks that a tool behaves as a row requires. `drive` runs the tool for some seconds.
    /// Returns a remark, if there is one, or the deviation as an error.
    fn examine(&mut self, row: &Row, drive: &mut Drive) -> Result<Option<String>, String> {
        let _ = (row, drive);
        Ok(None)
    }
}

/// Runs a tool with the load of a row against an endpoint, for some seconds.
pub(super) type Drive<'a> = dyn FnMut(&Row, &Endpoint, u32) -> Result<(), String> + 'a;

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

/// A port that is free for TCP and UDP, on every address.
fn free_port() -> Result<u16, String> {
    let mut last = None;
    for _ in 0..100 {
        let bound = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|it| it.local_addr());
        let port = bound.map_err(|e| format!("no free port: {e}"))?.port();
        match UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = Some(error),
        }
    }
    Err(format!("no free port: {last:?}"))
}

/// Writes a self-signed certificate with a P-256 key, valid for 30 days: `cert.pem` and `key.pem`.
fn write_certificate(folder: &Path) -> Result<(), String> {
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-nodes", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", "/CN=localhost", "-days", "30"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder);
    process::output_of(&mut command).map(drop)
}
