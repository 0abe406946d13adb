//! Servers that need nothing between runs and don't count requests.

use std::path::Path;
use std::process::Command;

use super::files::{free_port, write_certificate};
use super::link::{self, Link};
use super::running::{Endpoint, Server};
use crate::bench::process::{Program, Usage};
use crate::bench::rows::{ROWS, Row, ServerKind};

/// Port of the responder in the kernel.
const KERNEL_PORT: u16 = 8080;

/// Name of the file in which the responder records when each request arrives.
const ARRIVALS: &str = "arrivals";

/// A running server.
pub(in crate::bench) struct PlainServer {
    program: Program,
    port: u16,
    /// Prefix of the paths.
    prefix: &'static str,
    /// The link to the server, if it isn't on the loopback interface.
    link: Option<Link>,
}

impl Server for PlainServer {
    fn endpoint(&mut self, row: &Row) -> Endpoint {
        Endpoint {
            host: link::host(self.link.as_ref()),
            port: self.port,
            path: format!("{}{}", self.prefix, row.path),
        }
    }

    fn prepare(&self, command: &mut Command) -> Result<(), String> {
        self.link
            .as_ref()
            .map_or(Ok(()), |link| link.prepare(command))
    }
}

impl PlainServer {
    /// Starts a server and waits until it listens.
    fn start(
        mut command: Command,
        folder: &Path,
        core: usize,
        port: u16,
    ) -> Result<PlainServer, String> {
        let mut program = Program::start(Some(core), &mut command, folder.join("server.out"))?;
        program.wait_for_port(port)?;
        Ok(PlainServer {
            program,
            port,
            prefix: "",
            link: None,
        })
    }

    /// Starts prony's origin for HTTP/3, and for HTTP/2 on the same port of TCP.
    pub(super) fn origin(prony: &Path, folder: &Path, core: usize) -> Result<PlainServer, String> {
        let port = free_port()?;
        let mut command = Command::new(prony);
        command.args(["origin", "--tls", "--quic", "--listen"]);
        command.arg(format!("127.0.0.1:{port}"));
        command.args(["--cores", &core.to_string()]);
        Ok(PlainServer {
            prefix: "/bytes",
            ..PlainServer::start(command, folder, core, port)?
        })
    }

    /// Starts Caddy for HTTP/3 and HTTP/2.
    pub(super) fn caddy(caddy: &Path, folder: &Path, core: usize) -> Result<PlainServer, String> {
        let port = free_port()?;
        let text = |e: std::io::Error| format!("{}: {e}", folder.display());
        write_certificate(folder)?;
        let file = folder.join("Caddyfile");
        std::fs::write(&file, caddyfile(folder, port)).map_err(text)?;
        for row in ROWS {
            if row.servers.contains(&ServerKind::Caddy) {
                // The name of a file is its length.
                let name = row.path.trim_start_matches('/');
                let bytes = name.parse().unwrap_or_default();
                std::fs::write(folder.join(name), "x".repeat(bytes)).map_err(text)?;
            }
        }
        let mut command = Command::new(caddy);
        command.args(["run", "--adapter", "caddyfile", "--config"]);
        command.arg(file).env("GOMAXPROCS", "1");
        command.env("XDG_DATA_HOME", folder);
        command.env("XDG_CONFIG_HOME", folder);
        PlainServer::start(command, folder, core, port)
    }

    /// Starts the responder that records when each request arrives.
    pub(in crate::bench) fn arrivals(
        responder: &Path,
        folder: &Path,
        core: usize,
    ) -> Result<PlainServer, String> {
        let port = free_port()?;
        let mut command = Command::new(responder);
        command.arg(format!("127.0.0.1:{port}"));
        command.arg(folder.join(ARRIVALS));
        PlainServer::start(command, folder, core, port)
    }

    /// Stops the responder that records arrivals. Returns its resource usage and the record.
    pub(in crate::bench) fn stop(self, folder: &Path) -> Result<(Usage, Vec<u8>), String> {
        let usage = self.program.stop()?;
        let record = std::fs::read(folder.join(ARRIVALS));
        Ok((usage, record.map_err(|e| format!("{ARRIVALS}: {e}"))?))
    }

    /// Starts the responder in the kernel, at the far end of a link.
    ///
    /// On a virtual link, its XDP program would run on the core of the sender. Threaded NAPI moves
    /// it to a separate kernel thread, which is pinned to the server's core.
    pub(in crate::bench) fn far_kernel(
        responder: &Path,
        folder: &Path,
        core: usize,
    ) -> Result<PlainServer, String> {
        let link = Link::new()?;
        let mut command = Command::new(responder);
        command.args(["--xdp", "far", &KERNEL_PORT.to_string()]);
        let mut program = Program::start(Some(core), &mut command, folder.join("server.out"))?;
        program.wait_for("attached")?;
        link::receive_on(core)?;
        Ok(PlainServer {
            program,
            port: KERNEL_PORT,
            prefix: "",
            link: Some(link),
        })
    }
}

fn caddyfile(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    format!(
        "{{
    admin off
    servers {{
        protocols h1 h2 h3
    }}
}}
https://127.0.0.1:{port} {{
    bind 127.0.0.1
    tls {folder}/cert.pem {folder}/key.pem
    root * {folder}
    file_server
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caddy_serves_the_folder_with_all_versions() {
        let text = caddyfile(Path::new("/srv"), 9);
        assert!(text.contains("protocols h1 h2 h3") && text.contains("root * /srv"));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
