//! The servers of the HTTP/3 rows: prony's origin and Caddy. HTTP/2 has the same port on TCP.

use std::path::Path;
use std::process::Command;

use super::{Endpoint, Server, free_port, write_certificate};
use crate::bench::process::Program;
use crate::bench::rows::{ROWS, Row, ServerKind};

/// prony's origin.
pub(super) struct Origin {
    _program: Program,
    port: u16,
}

impl Origin {
    pub(super) fn start(prony: &Path, folder: &Path, core: usize) -> Result<Origin, String> {
        let port = free_port()?;
        let mut command = Command::new(prony);
        command.args(["origin", "--tls", "--quic", "--listen"]);
        command.arg(format!("127.0.0.1:{port}"));
        command.args(["--cores", &core.to_string()]);
        let log = folder.join("origin.out");
        let mut program = Program::start(Some(core), &mut command, log)?;
        program.wait_for_port(port)?;
        Ok(Origin {
            _program: program,
            port,
        })
    }
}

impl Server for Origin {
    fn endpoint(&mut self, row: &Row) -> Endpoint {
        Endpoint::local(self.port, &format!("/bytes{}", row.path))
    }
}

/// Caddy.
pub(super) struct Caddy {
    _program: Program,
    port: u16,
}

impl Caddy {
    pub(super) fn start(caddy: &Path, folder: &Path, core: usize) -> Result<Caddy, String> {
        let port = free_port()?;
        let text = |e: std::io::Error| format!("{}: {e}", folder.display());
        write_certificate(folder)?;
        let file = folder.join("Caddyfile");
        std::fs::write(&file, caddyfile(folder, port)).map_err(text)?;
        for row in ROWS
            .iter()
            .filter(|row| row.servers.contains(&ServerKind::Caddy))
        {
            // The name of a file is its length.
            let name = row.path.trim_start_matches('/');
            let bytes = name.parse().unwrap_or_default();
            std::fs::write(folder.join(name), "x".repeat(bytes)).map_err(text)?;
        }
        let mut command = Command::new(caddy);
        command.args(["run", "--adapter", "caddyfile", "--config"]);
        command.arg(file).env("GOMAXPROCS", "1");
        command.env("XDG_DATA_HOME", folder);
        command.env("XDG_CONFIG_HOME", folder);
        let log = folder.join("caddy.out");
        let mut program = Program::start(Some(core), &mut command, log)?;
        program.wait_for_port(port)?;
        Ok(Caddy {
            _program: program,
            port,
        })
    }
}

impl Server for Caddy {
    fn endpoint(&mut self, row: &Row) -> Endpoint {
        Endpoint::local(self.port, row.path)
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
