//! Which HTTP may be spoken, and how many requests at once a connection may carry.

use prony_protocol::h2::ClientSettings;

use crate::options::{HttpFlag, LoadOptions};
use crate::request::Target;
use crate::spec::SpecError;

/// The most requests that may be under way at once: each takes some 200 bytes.
const MOST_CONCURRENT: u64 = 4 * 1024 * 1024;

/// Which HTTP a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Http {
    /// HTTP/1.0 or 1.1.
    #[default]
    One,
    /// HTTP/2, and nothing else will do.
    Two,
    /// Over TLS what ALPN agrees on, of HTTP/2 and 1.1; in clear HTTP/1.1.
    Agreed,
}

impl Http {
    pub(crate) fn of(options: &LoadOptions) -> Http {
        match options.http {
            Some(HttpFlag::Http10 | HttpFlag::Http11) => Http::One,
            Some(HttpFlag::Http2) => Http::Two,
            None => Http::Agreed,
        }
    }
}

/// What let a connection carry fewer requests at once than were wanted; the lowest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StreamsLimit {
    /// The peer's SETTINGS_MAX_CONCURRENT_STREAMS.
    Settings(u32),
    /// It speaks HTTP/1, which carries one.
    Http1,
}

/// What may be spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Protocols {
    pub(crate) http: Http,
    /// Requests at once on a connection, if it speaks HTTP/2.
    pub(crate) streams: u32,
}

impl Protocols {
    /// # Errors
    ///
    /// Where the flags don't go together; the text names them.
    pub(crate) fn resolve(
        options: &LoadOptions,
        targets: &[Target],
    ) -> Result<Protocols, SpecError> {
        let http = Http::of(options);
        let streams = options.streams;
        let is_possible = match http {
            Http::One => false,
            Http::Two => true,
            Http::Agreed => targets.iter().all(|target| target.tls.is_some()),
        };
        let wrong = match streams {
            1 => None,
            _ if !is_possible => Some(match options.http {
                Some(typed) => format!("needs HTTP/2, and --http {} rules it out", typed.name()),
                None => {
                    "needs HTTP/2, which http:// URLs are loaded by with --http 2 only".to_owned()
                }
            }),
            _ if options.no_keepalive => Some(
                "contradicts --no-keepalive, by which a connection carries one request".to_owned(),
            ),
            _ if streams > u64::from(ClientSettings::STREAMS_MAX) => Some(format!(
                "is too many; a connection has at most {}",
                ClientSettings::STREAMS_MAX
            )),
            _ if streams.saturating_mul(options.connections) > MOST_CONCURRENT => Some(format!(
                "on each of {} connections are more than {MOST_CONCURRENT} requests at once; use fewer",
                options.connections
            )),
            _ => None,
        };
        match wrong {
            Some(wrong) => Err(SpecError::Arguments(format!("--streams {streams} {wrong}"))),
            None => Ok(Protocols {
                http,
                streams: streams as u32,
            }),
        }
    }

    /// It will be HTTP/2, or nothing.
    pub(crate) fn is_two_known(self) -> bool {
        self.http == Http::Two
    }
}

impl Default for Protocols {
    fn default() -> Protocols {
        Protocols {
            http: Http::One,
            streams: 1,
        }
    }
}
