//! The server: nginx with one worker on one core, with its own configuration and folder. It writes
//! no files during measurements.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::files::write_certificate;
use super::link::{self, Link};
use super::running::{Drive, Endpoint, Server};
use super::status::StatusPage;
use super::witness::{self, LogTotals};
use crate::bench::process::{self, Program};
use crate::bench::rows::{Http, Row, Security};

/// Name of the log of the `witnessed` ports, in nginx's folder.
const WITNESS_LOG: &str = "witness.log";

/// Paths of files and their sizes in bytes. The path `/13` is not a file but part of the
/// configuration.
const FILES: &[(&str, usize)] = &[
    ("1k", 1024),
    ("10k", 10 * 1024),
    ("100k", 100 * 1024),
    ("held", 1024),
];

/// A path that is served at [`SLOW_BYTES_PER_S`] to make concurrent requests visible.
const SLOW_PATH: &str = "/held";

/// Rate limit in bytes per second. nginx sends one second's worth of bytes immediately, and more in
/// the next second.
const SLOW_BYTES_PER_S: u32 = 768;

/// Number of concurrent streams per connection that nginx allows. It is more than any row needs.
const STREAMS_MAX: u32 = 256;

/// Time limit for nginx to close the connections of the last run.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Duration in seconds of the run that checks a tool's behavior.
const EXAMINED_SECONDS: u32 = 1;

/// Duration in seconds of the same run if the responses are slow.
const SLOW_EXAMINED_SECONDS: u32 = 3;

/// Maximum number of connections for which tools are checked. Rows with more connections are
/// measured without checks.
const EXAMINED_CONNECTIONS_MAX: u32 = 1000;

/// Kinds of connections: parameters of nginx's directive `listen`, and other directives.
const KINDS: [(&str, &str); 5] = [
    ("", ""),
    ("ssl", RESUMPTION),
    ("ssl", "ssl_session_tickets off; ssl_session_cache off;"),
    ("http2", ""),
    ("ssl http2", RESUMPTION),
];

const RESUMPTION: &str =
    "ssl_session_tickets on; ssl_session_cache shared:s:10m; ssl_session_timeout 1d;";

/// Index in [`KINDS`] of a row's connections.
fn kind(row: &Row) -> usize {
    match (row.http, row.security) {
        (Http::One, Security::Clear) => 0,
        (Http::One, Security::Resumable) => 1,
        (Http::One, Security::Full) => 2,
        (Http::Two { .. } | Http::Three { .. }, Security::Clear) => 3,
        (Http::Two { .. } | Http::Three { .. }, _) => 4,
    }
}

/// nginx's ports; each listens on every loopback address.
#[derive(Debug, Clone, Copy)]
struct Ports {
    /// A port for each kind of connections, for measurements.
    measured: [u16; KINDS.len()],
    /// The same, but the `server` block writes one log line per request.
    witnessed: [u16; KINDS.len()],
    status: u16,
}

/// A running nginx.
pub(super) struct Nginx {
    _program: Program,
    folder: PathBuf,
    ports: Ports,
    page: StatusPage,
    /// Number of runs so far, which determines the address of the next run.
    runs: u32,
    /// The link to nginx, if it isn't on the loopback interface.
    link: Option<Link>,
}

impl Nginx {
    /// Starts nginx on a core with all its files in `folder`.
    pub(super) fn start(
        program: &Path,
        folder: &Path,
        core: usize,
        link: Option<Link>,
    ) -> Result<Nginx, String> {
        let ports = free_ports().map_err(|e| format!("no free ports: {e}"))?;
        let text = |e: std::io::Error| format!("{}: {e}", folder.display());
        let files = folder.join("files");
        std::fs::create_dir_all(&files).map_err(text)?;
        for (name, bytes) in FILES {
            std::fs::write(files.join(name), "0123456\n".repeat(bytes / 8)).map_err(text)?;
        }
        write_certificate(folder)?;
        let path = folder.join("nginx.conf");
        std::fs::write(&path, configuration(folder, ports)).map_err(text)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-c").arg(&path);
        command.args(["-e", "stderr"]);
        let log = folder.join("nginx.out");
        let mut program = Program::start(Some(core), &mut command, log)?;
        let mut page = StatusPage::new(ports.status);
        program.wait_until(|_| page.read().is_ok())?;
        Ok(Nginx {
            _program: program,
            folder: folder.to_owned(),
            ports,
            page,
            runs: 0,
            link,
        })
    }

    /// The requests of a row at one of nginx's ports, at a new address if there are several.
    fn at_port(&mut self, row: &Row, port: u16) -> Endpoint {
        let host = match &self.link {
            Some(link) => link::host(Some(link)),
            None => address(self.runs),
        };
        self.runs += 1;
        Endpoint {
            host,
            port,
            path: row.path.to_owned(),
        }
    }
}

impl Server for Nginx {
    fn endpoint(&mut self, row: &Row) -> Endpoint {
        self.at_port(row, self.ports.measured[kind(row)])
    }

    fn settle(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while self.page.read()?.open > 0 {
            if started.elapsed() > SETTLE_TIMEOUT {
                return Err("nginx has not closed the last run's connections".to_string());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn requests(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(self.page.read()?.requests))
    }

    fn prepare(&self, command: &mut Command) -> Result<(), String> {
        self.link
            .as_ref()
            .map_or(Ok(()), |link| link.prepare(command))
    }

    fn examine(&mut self, row: &Row, drive: &mut Drive) -> Result<Option<String>, String> {
        if row.connections > EXAMINED_CONNECTIONS_MAX || self.link.is_some() {
            return Ok(None);
        }
        let log = self.folder.join(WITNESS_LOG);
        let text = |e: std::io::Error| format!("{}: {e}", log.display());
        // The log can be truncated while nginx runs, because nginx opened it in append mode.
        let file = File::options().write(true).open(&log).map_err(text)?;
        file.set_len(0).map_err(text)?;
        let before = self.page.read()?.connections;
        let endpoint = self.at_port(row, self.ports.witnessed[kind(row)]);
        drive(row, &endpoint, EXAMINED_SECONDS)?;
        self.settle()?;
        let opened = self.page.read()?.connections - before;
        let lines = std::fs::read_to_string(&log).map_err(text)?;
        let seen = LogTotals::of(&lines);
        if let Some(problem) = seen.objection(row) {
            return Err(problem);
        }
        if row.http != Http::One {
            // nginx sends a body of 13 bytes before it reads the next request. Concurrent requests
            // are visible at the server only if each takes a while.
            let slow = Row {
                path: SLOW_PATH,
                ..*row
            };
            let endpoint = self.endpoint(&slow);
            let run = || drive(&slow, &endpoint, SLOW_EXAMINED_SECONDS);
            let (ended, most) = self.page.watch(run);
            ended?;
            if let Some(problem) = witness::objection_to_most(row, most?) {
                return Err(problem);
            }
        }
        Ok(seen.remark(row, opened))
    }
}

/// Returns a different loopback address for each run, because connections in TIME_WAIT would use up
/// the ports of one address.
fn address(run: u32) -> String {
    let (high, low) = (run / 250 % 250, run % 250);
    format!("127.1.{high}.{}", low + 1)
}

/// Ports that are free on every address.
fn free_ports() -> std::io::Result<Ports> {
    // All listeners exist at the same time, so the ports differ.
    let listeners =
        [(); 2 * KINDS.len() + 1].map(|()| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)));
    let mut ports = [0; 2 * KINDS.len() + 1];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(Ports {
        measured: std::array::from_fn(|at| ports[at]),
        witnessed: std::array::from_fn(|at| ports[KINDS.len() + at]),
        status: ports[2 * KINDS.len()],
    })
}

fn configuration(folder: &Path, ports: Ports) -> String {
    // Each connection of a generator needs one descriptor, and nginx needs a few more.
    let descriptors = process::descriptor_limit();
    let connections = descriptors.saturating_sub(100).max(128);
    let user = if process::is_root() { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("    {name}_temp_path temporary_{name};\n"))
        .collect();
    let measured = servers(ports.measured, "off");
    let witnessed = servers(ports.witnessed, &format!("{WITNESS_LOG} witness"));
    let format = witness::FORMAT;
    let status = ports.status;
    let root = folder.join("files");
    let root = root.display();
    format!(
        "{user}
daemon off;
worker_processes 1;
worker_rlimit_nofile {descriptors};
pid nginx.pid;
error_log stderr error;
events {{ worker_connections {connections}; }}
http {{
    log_format witness '{format}';
    default_type text/plain;
    root \"{root}\";
    sendfile on;
    tcp_nopush on;
    open_file_cache max=100;
    open_file_cache_valid 1h;
    keepalive_requests 4000000000;
    keepalive_timeout 1h;
    http2_max_concurrent_streams {STREAMS_MAX};
    ssl_certificate cert.pem;
    ssl_certificate_key key.pem;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_ecdh_curve X25519;
{temporary}{measured}{witnessed}    server {{
        listen 127.0.0.1:{status};
        access_log off;
        location / {{ stub_status; }}
    }}
}}
"
    )
}

/// The server blocks, one for each kind of connection.
fn servers(ports: [u16; KINDS.len()], log: &str) -> String {
    let server = |(port, (listen, more)): (u16, (&str, &str))| {
        format!(
            "    server {{
        listen 0.0.0.0:{port} {listen} backlog=16384;
        access_log {log};
        {more}
        location = /13 {{ return 200 \"Hello, world!\"; }}
        location = {SLOW_PATH} {{ limit_rate {SLOW_BYTES_PER_S}; }}
    }}
"
        )
    };
    ports.into_iter().zip(KINDS).map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_connection_has_its_own_server() {
        let ports = Ports {
            measured: [1001, 1002, 1003, 1004, 1005],
            witnessed: [1006, 1007, 1008, 1009, 1010],
            status: 1000,
        };
        let text = configuration(Path::new("/srv/bench"), ports);
        for part in [
            "listen 127.0.0.1:1000;",
            "listen 0.0.0.0:1001  backlog=16384;\n        access_log off;",
            "listen 0.0.0.0:1002 ssl",
            "listen 0.0.0.0:1003 ssl",
            "listen 0.0.0.0:1008 ssl backlog=16384;\n        access_log witness.log witness;",
            "listen 0.0.0.0:1004 http2 backlog=16384;\n        access_log off;",
            "listen 0.0.0.0:1010 ssl http2 backlog=16384;\n        access_log witness.log",
            "ssl_session_tickets off",
            "root \"/srv/bench/files\"",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn every_run_has_its_own_address() {
        assert_eq!(address(0), "127.1.0.1");
        assert_eq!(address(251), "127.1.1.2");
        let all: std::collections::BTreeSet<String> = (0..5000).map(address).collect();
        assert_eq!(all.len(), 5000);
    }
}
