//! A server under load: its transports, and functions to load it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use prony_load::wait_for_server;
use prony_origin::{Config, Origin};
use prony_record::Record;

use crate::load;
use crate::process::{Port, Process};
use crate::site::Site;
use crate::{apache, caddy, haproxy, nghttpd, nginx};

/// Transport of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// TLS, with HTTP/2 selected by ALPN.
    Tls,
    /// Cleartext, with HTTP/2 by prior knowledge.
    Clear,
}

impl Transport {
    pub(crate) const BOTH: [Transport; 2] = [Transport::Tls, Transport::Clear];
}

/// A running server, with its folder and addresses.
pub(crate) struct Server {
    /// Dropped first, because the processes must not outlive their folder.
    processes: Vec<Process>,
    pub(crate) site: Site,
    tls: u16,
    clear: u16,
    _ports: Vec<Port>,
    _origins: Vec<Origin>,
}

/// Environment of a server before it starts: a folder, a port for each transport, and the embedded
/// origin.
pub(crate) struct ServerSetup {
    pub(crate) site: Site,
    tls: Port,
    clear: Port,
    origin: Origin,
}

impl ServerSetup {
    pub(crate) fn new() -> ServerSetup {
        ServerSetup {
            site: Site::new(),
            tls: Port::new(),
            clear: Port::new(),
            origin: origin(None),
        }
    }

    /// Inserts the folder, the ports and the origin into a configuration. The origin's `/echo`
    /// returns the request body.
    pub(crate) fn fill(&self, template: &str) -> String {
        template
            .replace("{folder}", text(self.site.root()))
            .replace("{tls}", &self.tls.number.to_string())
            .replace("{clear}", &self.clear.number.to_string())
            .replace("{origin}", &self.origin.addresses()[0].to_string())
    }

    /// Starts the server and waits until its process accepts connections on both ports.
    pub(crate) fn start(self, command: &mut Command) -> Server {
        let log = self.site.path("log");
        let process = Process::start(command, &log, &[&self.tls, &self.clear]);
        self.served_by(vec![process])
    }

    /// Starts two processes, one for TLS and one for cleartext, and waits until both accept
    /// connections.
    pub(crate) fn start_both(self, tls: &mut Command, clear: &mut Command) -> Server {
        let (one, other) = (self.site.path("tls.log"), self.site.path("clear.log"));
        let processes = vec![
            Process::start(tls, &one, &[&self.tls]),
            Process::start(clear, &other, &[&self.clear]),
        ];
        self.served_by(processes)
    }

    fn served_by(self, processes: Vec<Process>) -> Server {
        Server {
            processes,
            site: self.site,
            tls: self.tls.number,
            clear: self.clear.number,
            _ports: vec![self.tls, self.clear],
            _origins: vec![self.origin],
        }
    }
}

/// Starts the embedded origin on its own port.
fn origin(tls: Option<prony_origin::Tls>) -> Origin {
    let origin = Origin::start(Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        tls,
        ..Config::default()
    });
    origin.unwrap()
}

impl Server {
    /// The embedded origin itself, over TLS and in cleartext.
    pub(crate) fn embedded() -> Server {
        let site = Site::new();
        let origins = vec![
            origin(Some(prony_origin::Tls::Files {
                certificate: site.path("certificate.pem"),
                key: site.path("key.pem"),
            })),
            origin(None),
        ];
        Server {
            processes: Vec::new(),
            site,
            tls: origins[0].addresses()[0].port(),
            clear: origins[1].addresses()[0].port(),
            _ports: Vec::new(),
            _origins: origins,
        }
    }

    pub(crate) fn url(&self, way: Transport, path: &str) -> String {
        match way {
            Transport::Tls => format!("https://127.0.0.1:{}{path}", self.tls),
            Transport::Clear => format!("http://127.0.0.1:{}{path}", self.clear),
        }
    }

    /// Runs a load against `path` on this server. `words` holds flags, separated by spaces. The
    /// server's certificate is trusted.
    pub(crate) fn load(&self, way: Transport, path: &str, words: &str) -> Record {
        let ca = self.site.path("certificate.pem");
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.extend(["--ca", text(&ca)]);
        load::run(&self.url(way, path), &words)
    }

    /// Waits until the server accepts QUIC connections on its port for TLS.
    pub(crate) fn wait_for_http3(&self) {
        let settings = load::settings(&["-n", "1", "--http", "3", "--insecure"]);
        let spec = settings.resolve(Some(&self.url(Transport::Tls, "/")));
        let limit = Duration::from_secs(60);
        wait_for_server(&spec.unwrap(), limit, &|| false, &|_| {}).unwrap();
    }

    /// Returns the process group of the server's first process.
    pub(crate) fn group(&self) -> libc::pid_t {
        self.processes[0].group()
    }

    /// Sends a signal to the server's first process, which handles it for all of them.
    pub(crate) fn signal(&self, signal: libc::c_int) {
        self.processes[0].signal(signal);
    }
}

/// Returns every server that supports HTTP/2, with its name.
pub(crate) fn servers() -> Vec<(&'static str, Server)> {
    vec![
        ("nginx", nginx::start("")),
        ("Apache httpd", apache::start()),
        ("HAProxy", haproxy::start()),
        ("Caddy", caddy::start()),
        ("nghttpd", nghttpd::start(&[])),
        ("hyper", Server::embedded()),
    ]
}

/// Returns all [`servers`] except the named one, which lacks the tested feature.
pub(crate) fn servers_but(name: &str) -> impl Iterator<Item = (&'static str, Server)> {
    servers()
        .into_iter()
        .filter(move |(other, _)| *other != name)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
