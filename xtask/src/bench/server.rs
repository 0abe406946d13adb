//! The server: nginx with one worker on one core, with its own configuration and folder. It writes
//! no files during measurements.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::process;
use super::rows::{Http, Row, Security};
use super::status::StatusPage;
use super::witness;

/// Name of the log of the `witnessed` ports, in nginx's folder.
pub(super) const WITNESS_LOG: &str = "witness.log";

/// Paths of files and their sizes in bytes. The path `/13` is not a file but part of the
/// configuration.
const FILES: &[(&str, usize)] = &[
    ("1k", 1024),
    ("10k", 10 * 1024),
    ("100k", 100 * 1024),
    ("held", 1024),
];

/// A path that is served at [`SLOW_BYTES_PER_S`] to make concurrent requests visible.
pub(super) const SLOW_PATH: &str = "/held";

/// Rate limit in bytes per second. nginx sends one second's worth of bytes immediately, and more in
/// the next second.
const SLOW_BYTES_PER_S: u32 = 768;

/// Number of concurrent streams per connection that nginx allows. It is more than any row needs.
const STREAMS_MAX: u32 = 256;

/// Time limit for nginx to start, and to close the connections of the last run.
const NGINX_TIMEOUT: Duration = Duration::from_secs(10);

/// nginx's ports; each listens on every loopback address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ports {
    /// Ports for measurements.
    measured: Listeners,
    /// Ports for which the matching `server` block writes one log line per request.
    witnessed: Listeners,
    status: u16,
}

/// A port for each kind of connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listeners {
    clear: u16,
    resumable: u16,
    full: u16,
    /// Port for HTTP/2 in cleartext, by prior knowledge.
    clear_h2: u16,
    /// Port for HTTP/2 over TLS, negotiated by ALPN.
    secure_h2: u16,
}

impl Listeners {
    fn port(self, row: &Row) -> u16 {
        match (row.http, row.security) {
            (Http::One, Security::Clear) => self.clear,
            (Http::One, Security::Resumable) => self.resumable,
            (Http::One, Security::Full) => self.full,
            (Http::Two { .. }, Security::Clear) => self.clear_h2,
            (Http::Two { .. }, Security::Resumable | Security::Full) => self.secure_h2,
        }
    }
}

/// A running nginx, terminated on drop.
pub(super) struct Nginx {
    child: Child,
    ports: Ports,
    pub(super) page: StatusPage,
}

impl Nginx {
    /// Starts nginx on a core with all its files in `folder`.
    pub(super) fn start(program: &Path, folder: &Path, core: usize) -> Result<Nginx, String> {
        let ports = free_ports().map_err(|e| format!("no free ports: {e}"))?;
        let text = |e: std::io::Error| format!("{}: {e}", folder.display());
        let files = folder.join("files");
        std::fs::create_dir_all(&files).map_err(text)?;
        for (name, bytes) in FILES {
            std::fs::write(files.join(name), "0123456\n".repeat(bytes / 8)).map_err(text)?;
        }
        certificate(folder)?;
        let path = folder.join("nginx.conf");
        std::fs::write(&path, configuration(folder, ports)).map_err(text)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-c").arg(&path);
        command.args(["-e", "error.log"]);
        process::log_into(&mut command, &folder.join("nginx.out")).map_err(text)?;
        let child = process::start_on(core, libc::SIGTERM, &mut command)
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let mut nginx = Nginx {
            child,
            ports,
            page: StatusPage::new(ports.status),
        };
        nginx.wait_until_it_listens(folder)?;
        Ok(nginx)
    }

    /// Port for the kind of connections that a row uses.
    pub(super) fn port(&self, row: &Row) -> u16 {
        self.ports.measured.port(row)
    }

    /// Port for HTTP/1.1 without TLS.
    pub(super) fn clear_port(&self) -> u16 {
        self.ports.measured.clear
    }

    /// Like [`Nginx::port`], but a port whose requests are logged.
    pub(super) fn witnessed_port(&self, row: &Row) -> u16 {
        self.ports.witnessed.port(row)
    }

    /// Waits until all connections of the last run are closed.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let started = Instant::now();
        while self.page.read()?.open > 0 {
            if started.elapsed() > NGINX_TIMEOUT {
                return Err("nginx has not closed the last run's connections".to_string());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn wait_until_it_listens(&mut self, folder: &Path) -> Result<(), String> {
        let started = Instant::now();
        while !self.page.is_there() {
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || started.elapsed() > NGINX_TIMEOUT {
                let said: String = ["nginx.out", "error.log"]
                    .iter()
                    .filter_map(|name| std::fs::read_to_string(folder.join(name)).ok())
                    .collect();
                return Err(format!("nginx does not listen:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        process::terminate(&self.child);
        let _ = self.child.wait();
    }
}

/// Ports that are free on every address.
fn free_ports() -> std::io::Result<Ports> {
    let listeners = [(); 11].map(|()| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)));
    let mut ports = [0; 11];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports.into())
}

impl From<[u16; 11]> for Ports {
    fn from([status, ports @ ..]: [u16; 11]) -> Ports {
        let listeners = |at: usize| Listeners {
            clear: ports[at],
            resumable: ports[at + 1],
            full: ports[at + 2],
            clear_h2: ports[at + 3],
            secure_h2: ports[at + 4],
        };
        Ports {
            measured: listeners(0),
            witnessed: listeners(5),
            status,
        }
    }
}

/// A self-signed certificate with a P-256 key.
fn certificate(folder: &Path) -> Result<(), String> {
    let mut command = Command::new("openssl");
    command
        .args(["req", "-x509", "-nodes", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", "/CN=localhost", "-days", "30"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder);
    let output = command.output().map_err(|e| format!("openssl: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("openssl: {}\n{said}", output.status));
    }
    Ok(())
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
error_log error.log error;
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
fn servers(ports: Listeners, log: &str) -> String {
    let resumption = "ssl_session_tickets on; ssl_session_cache shared:s:10m; \
                      ssl_session_timeout 1d;";
    let kinds = [
        (format!("{}", ports.clear), ""),
        (format!("{} ssl", ports.resumable), resumption),
        (
            format!("{} ssl", ports.full),
            "ssl_session_tickets off; ssl_session_cache off;",
        ),
        (format!("{} http2", ports.clear_h2), ""),
        (format!("{} ssl http2", ports.secure_h2), resumption),
    ];
    let server = |(listen, more): &(String, &str)| {
        format!(
            "    server {{
        listen 0.0.0.0:{listen} backlog=16384;
        access_log {log};
        {more}
        location = /13 {{ return 200 \"Hello, world!\"; }}
        location = {SLOW_PATH} {{ limit_rate {SLOW_BYTES_PER_S}; }}
    }}
"
        )
    };
    kinds.iter().map(server).collect()
}

/// Folder for one run of the benchmark, removed on drop. Creating one also removes the folders of
/// runs that were killed.
pub(super) struct BenchFolder {
    path: PathBuf,
}

impl BenchFolder {
    /// Creates a folder below `parent`.
    pub(super) fn new(parent: &Path) -> std::io::Result<BenchFolder> {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(|n| n.strip_prefix("run-"));
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        let path = parent.join(format!("run-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(BenchFolder { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_connection_has_its_own_server() {
        let ports = Ports::from(std::array::from_fn(|n| 1000 + n as u16));
        let text = configuration(Path::new("/srv/bench"), ports);
        for part in [
            "listen 127.0.0.1:1000;",
            "listen 0.0.0.0:1001 backlog=16384;\n        access_log off;",
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
    fn folders_of_runs_that_are_gone_are_swept() {
        let parent = std::env::temp_dir().join(format!("xtask-bench-{}", std::process::id()));
        let stale = parent.join("run-999999999");
        std::fs::create_dir_all(&stale).unwrap();
        let folder = BenchFolder::new(&parent).unwrap();
        assert!(folder.path().is_dir() && !stale.exists());
        drop(folder);
        assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0);
        std::fs::remove_dir(&parent).unwrap();
    }
}
