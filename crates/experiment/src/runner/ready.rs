//! Waiting until a service answers.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use clap::{Args, FromArgMatches};
use prony_load::{LoadOptions, LoadSpec, probe};

use super::Interrupt;
use crate::host::Host;
use crate::place::Door;
use crate::plan::Ready;
use crate::service::{Allocated, Endpoint};

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// How long one try may take.
const TRY: Duration = Duration::from_secs(2);
/// Lines of its log that a service which never got ready is shown with.
const LOG_LINES: usize = 15;

/// Why a service is not ready.
#[derive(Debug)]
pub enum NotReady {
    /// It ended by itself.
    Ended {
        /// How.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// It did not answer in time.
    Silent {
        /// How long it was waited for.
        within: Duration,
        /// What the last try came to.
        last: String,
        /// The end of its log.
        log: String,
    },
    /// Somebody interrupted.
    Interrupted,
}

/// Waits until the service answers as `ready` says; where it lives in a named place, it is asked from
/// within, through `door`.
pub(crate) fn wait(
    service: &str,
    ready: &Ready,
    allocated: Option<&Allocated>,
    door: Option<&Door>,
    host: &mut dyn Host,
    interrupt: &Interrupt,
) -> Result<(), NotReady> {
    let until = Instant::now() + ready.within;
    let endpoint = ready
        .listener
        .as_ref()
        .and_then(|listener| allocated?.endpoints.get(listener));
    loop {
        if interrupt.is_stopped() {
            return Err(NotReady::Interrupted);
        }
        if let Err(exited) = host.alive(service) {
            return Err(NotReady::Ended {
                status: exited.status,
                log: exited.log_tail,
            });
        }
        let last = match endpoint {
            None => return Ok(()),
            Some(endpoint) => match try_in_place(door, endpoint, ready) {
                Ok(()) => return Ok(()),
                Err(why) => why,
            },
        };
        if Instant::now() >= until {
            let log = host.log_tail(service, LOG_LINES);
            return Err(NotReady::Silent {
                within: ready.within,
                last,
                log,
            });
        }
        std::thread::sleep(PAUSE);
    }
}

fn try_in_place(door: Option<&Door>, endpoint: &Endpoint, ready: &Ready) -> Result<(), String> {
    match door {
        Some(door) => door
            .within(|| try_once(endpoint, ready))
            .map_err(|error| format!("entering its place: {error}"))?,
        None => try_once(endpoint, ready),
    }
}

fn try_once(endpoint: &Endpoint, ready: &Ready) -> Result<(), String> {
    let Some(path) = &ready.get else {
        return accepts(endpoint);
    };
    let (url, unix) = match endpoint {
        Endpoint::Tcp(address) => (format!("{address}{path}"), None),
        Endpoint::Unix(socket) => (format!("localhost{path}"), Some(socket.clone())),
    };
    let scheme = if ready.https { "https" } else { "http" };
    let mut options = plain_options()?;
    options.unix = unix;
    // Readiness is no question of trust.
    options.insecure = true;
    let spec = LoadSpec::resolve(Some(&format!("{scheme}://{url}")), &options)
        .map_err(|error| error.to_string())?;
    let answer = probe(&spec, 0, TRY)?;
    match ready.accepts(answer.status) {
        true => Ok(()),
        false => Err(format!(
            "GET {path} was answered with status {}",
            answer.status
        )),
    }
}

fn accepts(endpoint: &Endpoint) -> Result<(), String> {
    match endpoint {
        Endpoint::Tcp(address) => TcpStream::connect_timeout(address, TRY).map(drop),
        Endpoint::Unix(path) => UnixStream::connect(path).map(drop),
    }
    .map_err(|error| format!("connecting: {error}"))
}

/// The flags of `prony load` with nothing typed.
fn plain_options() -> Result<LoadOptions, String> {
    let command = LoadOptions::augment_args(clap::Command::new("load").no_binary_name(true));
    command
        .try_get_matches_from(Vec::<String>::new())
        .and_then(|matches| LoadOptions::from_arg_matches(&matches))
        .map_err(|error| error.to_string())
}
