//! A readiness probe: one connection or one GET request to a service, or a check that its UDP port
//! is bound.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use prony_load::{HttpVersion, LoadSettings, probe};
use serde::{Deserialize, Serialize};

use crate::service::Endpoint;
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

impl ReadinessProbe {
    /// Probes the service once, in the network of the calling thread. Returns the HTTP status, or
    /// `None` if the probe has no path.
    ///
    /// # Errors
    /// Returns the reason why the service isn't ready, as a message for the user.
    pub fn run(&self) -> Result<Option<u16>, String> {
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
        let spec = spec.map_err(|error| error.to_string())?;
        probe(&spec, 0, PROBE_TIMEOUT).map(|response| Some(response.status))
    }

    /// Returns true if the probe only reads the socket table and sends nothing.
    pub(super) fn looks_at_ports(&self) -> bool {
        self.get.is_none() && matches!(self.endpoint, Endpoint::Udp(_))
    }

    fn accepts(&self) -> Result<(), String> {
        match &self.endpoint {
            // UDP has no connections, so only check that the port is bound.
            Endpoint::Udp(address) => {
                return match system::udp_is_bound(address.port()) {
                    true => Ok(()),
                    false => Err(format!("no socket is bound to UDP {address}")),
                };
            }
            Endpoint::Tcp(address) => TcpStream::connect_timeout(address, PROBE_TIMEOUT).map(drop),
            Endpoint::Unix(path) => UnixStream::connect(path).map(drop),
        }
        .map_err(|error| format!("connecting: {error}"))
    }
}
