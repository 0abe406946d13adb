//! Starts NATS servers for tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use prony_fleet::credentials::FleetCredentials;
use prony_fleet::link::NatsLink;
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::server::{PreparedServer, ServerProcess, ServerSetup};
use prony_machine::system::port;
use prony_plan::service::PortProtocol;

/// A running server and its folder.
pub(crate) struct TestServer {
    pub(crate) prepared: PreparedServer,
    pub(crate) process: Option<ServerProcess>,
    pub(crate) listen: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn agent(name: &str) -> Role {
    Role::Agent(name.parse().unwrap())
}

/// Returns a free address that no connection can occupy as its source.
fn free_address() -> SocketAddr {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let port = port::pick(loopback, &[PortProtocol::Tcp]).unwrap();
    SocketAddr::new(loopback, port)
}

impl TestServer {
    /// Starts a server and creates credentials for these agents.
    pub(crate) fn new(agents: &[&str]) -> TestServer {
        let folder = tempfile::tempdir().unwrap();
        // If another process takes the free port before the server listens, try another port.
        for attempt in 0.. {
            let listen = free_address();
            let wanted = ServerSetup {
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
                    return TestServer {
                        prepared,
                        process: Some(server),
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

    pub(crate) fn credentials(&self, role: &Role) -> FleetCredentials {
        FleetCredentials::read(&self.prepared.credentials(role)).unwrap()
    }

    pub(crate) fn link(&self, role: &Role) -> NatsLink {
        NatsLink::connect(None, &self.credentials(role), role).unwrap()
    }
}
