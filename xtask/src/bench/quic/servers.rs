//! The servers of the HTTP/3 rows: prony's origin and Caddy, each on one core.

use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::bench::process;
use crate::test::install::find_program;

/// Time limit for a server to listen.
const START_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerKind {
    Origin,
    Caddy,
}

impl ServerKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            ServerKind::Origin => "origin",
            ServerKind::Caddy => "Caddy",
        }
    }
}

/// A running server, terminated on drop.
pub(super) struct RunningServer {
    child: Child,
    kind: ServerKind,
    /// TCP port for HTTP/2, and UDP port for HTTP/3.
    pub(super) port: u16,
}

impl RunningServer {
    /// Starts a server on a core. Returns `None` if it is not installed.
    pub(super) fn start(
        kind: ServerKind,
        prony: &Path,
        folder: &Path,
        core: usize,
    ) -> Result<Option<RunningServer>, String> {
        let text = |e: std::io::Error| format!("{}: {e}", kind.name());
        let port = free_port().map_err(text)?;
        let mut command = match kind {
            ServerKind::Origin => {
                let mut command = Command::new(prony);
                command.args(["origin", "--tls", "--quic", "--listen"]);
                command.arg(format!("127.0.0.1:{port}"));
                command.args(["--cores", &core.to_string()]);
                command
            }
            ServerKind::Caddy => {
                let Some(program) = find_program("caddy") else {
                    return Ok(None);
                };
                certificate(folder)?;
                let file = folder.join("Caddyfile");
                std::fs::write(&file, caddyfile(folder, port)).map_err(text)?;
                for bytes in [13, 100_000] {
                    let path = folder.join(format!("{bytes}"));
                    std::fs::write(path, "x".repeat(bytes)).map_err(text)?;
                }
                let mut command = Command::new(program);
                command.args(["run", "--adapter", "caddyfile", "--config"]);
                command.arg(file).env("GOMAXPROCS", "1");
                command
                    .env("XDG_DATA_HOME", folder)
                    .env("XDG_CONFIG_HOME", folder);
                command
            }
        };
        let log = folder.join(format!("{}.log", kind.name()));
        process::log_into(&mut command, &log).map_err(text)?;
        let child = process::start_on(core, libc::SIGTERM, &mut command).map_err(text)?;
        let server = RunningServer { child, kind, port };
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if started.elapsed() > START_TIMEOUT {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("{} does not listen:\n{said}", kind.name()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(server))
    }

    /// Returns the path of a body of the given length.
    pub(super) fn path(&self, bytes: usize) -> String {
        match self.kind {
            ServerKind::Origin => format!("/bytes/{bytes}"),
            ServerKind::Caddy => format!("/{bytes}"),
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        process::terminate(&self.child);
        let _ = self.child.wait();
    }
}

/// A port that is free for TCP and UDP.
fn free_port() -> std::io::Result<u16> {
    let mut last = None;
    for _ in 0..100 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        match UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into()))
}

/// A self-signed certificate with a P-256 key.
fn certificate(folder: &Path) -> Result<(), String> {
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-nodes", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", "/CN=localhost", "-days", "30"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder);
    let output = command.output().map_err(|e| format!("openssl: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("openssl: {}\n{said}", output.status))
        }
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
