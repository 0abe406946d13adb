//! A NATS server for a test, and connections to it.

use std::net::{SocketAddr, TcpListener};

use prony_fleet::credentials::Credentials;
use prony_fleet::link::Link;
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::server::{Prepared, Server, Wanted};

/// A server in a folder of its own.
pub(crate) struct Ground {
    pub(crate) prepared: Prepared,
    pub(crate) server: Option<Server>,
    pub(crate) listen: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn agent(name: &str) -> Role {
    Role::Agent(name.parse().unwrap())
}

fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

impl Ground {
    /// Starts a server that knows these agents.
    pub(crate) fn new(agents: &[&str]) -> Ground {
        let folder = tempfile::tempdir().unwrap();
        // Another process may take the port in between; then another one is tried.
        for attempt in 0.. {
            let listen = free_port();
            let wanted = Wanted {
                folder: folder.path().to_owned(),
                listen,
                names: vec!["127.0.0.1".to_owned()],
                agents: agents
                    .iter()
                    .map(|name| name.parse::<AgentName>().unwrap())
                    .collect(),
            };
            let prepared = wanted.prepare().unwrap();
            match prepared.start() {
                Ok(server) => {
                    return Ground {
                        prepared,
                        server: Some(server),
                        listen,
                        folder,
                    };
                }
                Err(error) if attempt > 3 => panic!("{error}"),
                Err(_) => {}
            }
        }
        unreachable!()
    }

    pub(crate) fn credentials(&self, role: &Role) -> Credentials {
        Credentials::read(&self.prepared.credentials(role)).unwrap()
    }

    pub(crate) fn link(&self, role: &Role) -> Link {
        Link::connect(None, &self.credentials(role), role).unwrap()
    }
}
