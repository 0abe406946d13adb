//! Provides server addresses to scripts.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use mlua::{Error, MetaMethod, UserData, UserDataMethods, Value};
use prony_load::{LoadSettings, Notation};

/// An IP address of a host, with a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// Timeout of a connection attempt that checks whether a server listens.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Address {
    /// Looks up all addresses of a host. The service is a port number, `http` or `https`.
    ///
    /// # Errors
    ///
    /// Returns the reason in wrk's words.
    pub fn all(host: &str, service: &str) -> Result<Vec<Address>, String> {
        let cause = |cause: &str| format!("unable to resolve {host}:{service} {cause}");
        let port = match service.to_ascii_lowercase().as_str() {
            "http" => Some(80),
            "https" => Some(443),
            number => number.parse().ok(),
        };
        let port = port.ok_or_else(|| cause("(neither a port number nor http or https)"))?;
        let found = (host, port).to_socket_addrs().map_err(|error| {
            let text = error.to_string();
            cause(text.rsplit(": ").next().unwrap_or_default())
        })?;
        Ok(found.map(Address).collect())
    }

    /// Connects to the address and closes the connection.
    pub fn connect(self) -> std::io::Result<()> {
        TcpStream::connect_timeout(&self.0, CONNECT_TIMEOUT).map(drop)
    }

    /// Implements `wrk.connect`.
    ///
    /// # Errors
    ///
    /// Returns an error, without sending anything, if the load is not allowed to use the address.
    pub(crate) fn connects(self, notation: Notation) -> mlua::Result<bool> {
        // Without a service the port is 0, so no connection attempt is possible.
        if self.0.port() != 0 {
            let url = format!("http://{}/", self.0);
            LoadSettings::from_environment()
                .resolve(Some(&url))
                .map_err(|error| Error::runtime(error.in_notation(notation)))?;
        }
        Ok(self.connect().is_ok())
    }

    /// Implements `wrk.lookup`.
    pub(crate) fn lookup((host, service): (String, Value)) -> mlua::Result<Vec<Address>> {
        let service = match service {
            Value::Nil => "0".to_owned(),
            other => other.to_string()?,
        };
        Address::all(&host, &service).map_err(Error::runtime)
    }
}

impl fmt::Display for Address {
    /// Formats an IPv6 address without brackets, as wrk does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.ip(), self.0.port())
    }
}

impl UserData for Address {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, address, ()| {
            Ok(address.to_string())
        });
    }
}
