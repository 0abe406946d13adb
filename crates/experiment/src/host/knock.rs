//! One question to a listener: is anybody there, and what does a path answer with?

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use clap::{Args, FromArgMatches};
use prony_load::{LoadOptions, LoadSpec, probe};
use serde::{Deserialize, Serialize};

use crate::service::Endpoint;

/// How long one try may take.
const TRY: Duration = Duration::from_secs(2);

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Knock {
    /// The listener.
    pub endpoint: Endpoint,
    /// The path to get; without one it is enough that a connection is accepted.
    pub get: Option<String>,
    /// Whether the path is asked for over TLS, whatever the certificate.
    pub https: bool,
}

impl Knock {
    /// Asks once, from where the calling thread is: the status of the answer, or none where nothing
    /// but a connection was asked for.
    ///
    /// # Errors
    /// Why there is no answer, in words.
    pub fn once(&self) -> Result<Option<u16>, String> {
        let Some(path) = &self.get else {
            return self.connects().map(|()| None);
        };
        let (url, unix) = match &self.endpoint {
            Endpoint::Tcp(address) => (format!("{address}{path}"), None),
            Endpoint::Unix(socket) => (format!("localhost{path}"), Some(socket.clone())),
        };
        let scheme = if self.https { "https" } else { "http" };
        let mut options = plain_options()?;
        options.unix = unix;
        // Readiness is no question of trust.
        options.insecure = true;
        let spec = LoadSpec::resolve(Some(&format!("{scheme}://{url}")), &options)
            .map_err(|error| error.to_string())?;
        probe(&spec, 0, TRY).map(|answer| Some(answer.status))
    }

    fn connects(&self) -> Result<(), String> {
        match &self.endpoint {
            Endpoint::Tcp(address) => TcpStream::connect_timeout(address, TRY).map(drop),
            Endpoint::Unix(path) => UnixStream::connect(path).map(drop),
        }
        .map_err(|error| format!("connecting: {error}"))
    }
}

/// The flags of `prony load` with nothing typed.
fn plain_options() -> Result<LoadOptions, String> {
    let command = LoadOptions::augment_args(clap::Command::new("load").no_binary_name(true));
    command
        .try_get_matches_from(Vec::<String>::new())
        .and_then(|matches| LoadOptions::from_arg_matches(&matches))
        .map_err(|error| error.to_string())
}
