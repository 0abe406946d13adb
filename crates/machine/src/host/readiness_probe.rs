//! A readiness probe: one connection or one GET request to a service, or a check that its UDP port
//! is bound.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use prony_load::{CheckError, HttpVersion, LoadSettings, SpecError, check_request};
use prony_plan::service::Endpoint;
use serde::{Deserialize, Serialize};

use crate::system;

const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// A check that a service is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadinessProbe {
    /// Listener to connect to.
    pub endpoint: Endpoint,
    /// Path to request. If it is `None`, an accepted connection or a bound UDP port is enough.
    pub get: Option<String>,
    /// True if the path is requested over TLS, without verification of the certificate. Always true
    /// for UDP, because the request then uses HTTP/3.
    pub https: bool,
    /// Server name for TLS, if it is not the endpoint's host.
    #[serde(default)]
    pub sni: Option<String>,
    /// Value of the Host header, if it is not the endpoint's address.
    #[serde(default)]
    pub host: Option<String>,
}

/// Reason why a service isn't ready.
#[derive(Debug)]
pub enum ProbeFailure {
    /// The probe's request can't be sent.
    Settings(SpecError),
    /// The request has no response, for this reason.
    NoResponse(CheckError),
    /// The response to the request has a status that doesn't mean "ready".
    Status {
        /// Path that was requested.
        path: String,
        /// Status of the response.
        status: u16,
    },
    /// No socket is bound to the UDP port.
    Unbound(SocketAddr),
    /// The service doesn't accept connections.
    Connect(io::Error),
    /// The service's place can't be entered.
    Unentered(Box<dyn std::error::Error + Send>),
    /// The reason that the agent on the service's machine gave.
    Remote(String),
}

impl fmt::Display for ProbeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeFailure::Settings(error) => error.fmt(f),
            ProbeFailure::NoResponse(error) => error.fmt(f),
            ProbeFailure::Remote(reason) => f.write_str(reason),
            ProbeFailure::Status { path, status } => {
                write!(f, "the response to GET {path} has status {status}")
            }
            ProbeFailure::Unbound(address) => write!(f, "no socket is bound to UDP {address}"),
            ProbeFailure::Connect(error) => write!(f, "connecting: {error}"),
            ProbeFailure::Unentered(error) => {
                write!(f, "could not enter the service's place: {error}")
            }
        }
    }
}

impl ReadinessProbe {
    /// Probes the service once, in the network of the calling thread. Returns the HTTP status, or
    /// `None` if the probe has no path.
    ///
    /// # Errors
    /// Returns the reason why the service isn't ready.
    pub fn run(&self) -> Result<Option<u16>, ProbeFailure> {
        let Some(path) = &self.get else {
            return self.accepts().map(|()| None);
        };
        let (url, unix, http) = match &self.endpoint {
            Endpoint::Tcp(address) => (format!("{address}{path}"), None, None),
            Endpoint::Udp(address) => (format!("{address}{path}"), None, Some(HttpVersion::Http3)),
            Endpoint::Unix(socket) => (format!("localhost{path}"), Some(socket.clone()), None),
        };
        let scheme = if self.https { "https" } else { "http" };
        let settings = LoadSettings {
            unix,
            http,
            sni: self.sni.clone().filter(|_| self.https),
            header: self
                .host
                .iter()
                .map(|host| format!("Host: {host}"))
                .collect(),
            // Accept any certificate, because readiness does not depend on it.
            insecure: true,
            ..LoadSettings::from_environment()
        };
        let spec = settings.resolve(Some(&format!("{scheme}://{url}")));
        let spec = spec.map_err(ProbeFailure::Settings)?;
        let response = check_request(&spec, 0, PROBE_TIMEOUT);
        Ok(Some(response.map_err(ProbeFailure::NoResponse)?.status))
    }

    /// Returns true if the probe only reads the socket table and sends nothing.
    pub(super) fn looks_at_ports(&self) -> bool {
        self.get.is_none() && matches!(self.endpoint, Endpoint::Udp(_))
    }

    fn accepts(&self) -> Result<(), ProbeFailure> {
        match &self.endpoint {
            // UDP has no connections, so only check that the port is bound.
            Endpoint::Udp(address) => {
                return if system::udp_is_bound(address.port()) {
                    Ok(())
                } else {
                    Err(ProbeFailure::Unbound(*address))
                };
            }
            Endpoint::Tcp(address) => TcpStream::connect_timeout(address, PROBE_TIMEOUT).map(drop),
            Endpoint::Unix(path) => UnixStream::connect(path).map(drop),
        }
        .map_err(ProbeFailure::Connect)
    }
}
