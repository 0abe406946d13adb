//! HTTP versions that may be used, and the number of concurrent requests per connection.

use prony_protocol::h2::ClientSettings;

use crate::settings::{HttpVersion, LoadSettings, TlsVersion};
use crate::target::Target;
use crate::values::error::{SettingsError, SpecError};

/// Maximum number of requests in flight; each takes about 200 bytes.
const CONCURRENT_MAX: u64 = 4 * 1024 * 1024;

/// HTTP version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Http {
    /// HTTP/1.0 or 1.1.
    #[default]
    One,
    /// HTTP/2 only.
    Two,
    /// HTTP/3 only, over QUIC.
    Three,
    /// HTTP/2 or 1.1 as negotiated by ALPN over TLS; HTTP/1.1 in cleartext.
    Agreed,
}

impl Http {
    pub(crate) fn of(settings: &LoadSettings) -> Http {
        match settings.http_version() {
            Some(HttpVersion::Http10 | HttpVersion::Http11) => Http::One,
            Some(HttpVersion::Http2) => Http::Two,
            Some(HttpVersion::Http3) => Http::Three,
            None => Http::Agreed,
        }
    }
}

/// Reason why a connection carries fewer concurrent requests than configured. If there are several,
/// the lowest limit applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StreamsLimit {
    /// The peer's SETTINGS_MAX_CONCURRENT_STREAMS.
    Settings(u32),
    /// The number of concurrent streams that a QUIC connection had when the peer allowed no more
    /// (MAX_STREAMS, RFC 9000 §4.6).
    Quic(u32),
    /// The connection uses HTTP/1, which carries one request at a time.
    Http1,
}

/// HTTP versions that a connection may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Protocols {
    pub(crate) http: Http,
    /// Maximum number of concurrent requests on a connection that uses HTTP/2 or HTTP/3.
    pub(crate) streams: u32,
}

impl Protocols {
    /// Resolves the HTTP settings.
    ///
    /// # Errors
    ///
    /// The settings contradict each other.
    pub(crate) fn resolve(
        settings: &LoadSettings,
        targets: &[Target],
    ) -> Result<Protocols, SpecError> {
        let http = Http::of(settings);
        if http == Http::Three && settings.tcp_only {
            let error = SettingsError::of("tcp_only").text(" can't be combined with ");
            return Err(error.and_value("http", HttpVersion::Http3).into());
        }
        if http == Http::Three {
            check_three(settings, targets)?;
        }
        check_early_data(settings, http)?;
        let streams = settings.streams();
        let is_possible = match http {
            Http::One => false,
            Http::Two | Http::Three => true,
            Http::Agreed => targets.iter().all(|target| target.tls.is_some()),
        };
        let is_too_many = streams > u64::from(ClientSettings::STREAMS_MAX);
        let concurrent = streams.saturating_mul(settings.connections());
        let wrong = SettingsError::value("streams", streams);
        let wrong = match streams {
            1 => {
                return Ok(Protocols { http, streams: 1 });
            }
            _ if !is_possible => match settings.http {
                Some(http) => wrong
                    .text(" needs HTTP/2, which ")
                    .and_value("http", http)
                    .text(" excludes"),
                None => wrong
                    .text(" needs HTTP/2, which cleartext URLs use only with ")
                    .and_value("http", HttpVersion::Http2),
            },
            _ if settings.no_keepalive => wrong
                .text(" contradicts ")
                .name("no_keepalive")
                .text(", which limits a connection to one request"),
            _ if !settings.reuses_connections() => wrong
                .text(" contradicts ")
                .name(if settings.tcp_only {
                    "tcp_only"
                } else if settings.connection_rate.is_some() {
                    "connection_rate"
                } else {
                    "requests_per_connection"
                })
                .text(", which limits a connection to one request"),
            _ if is_too_many => wrong.text(format!(
                " is too many; a connection can have at most {}",
                ClientSettings::STREAMS_MAX
            )),
            _ if concurrent > CONCURRENT_MAX => wrong.text(format!(
                " on each of {} connections is more than {CONCURRENT_MAX} requests in flight; use \
                 fewer",
                settings.connections()
            )),
            _ => {
                return Ok(Protocols {
                    http,
                    streams: streams as u32,
                });
            }
        };
        Err(wrong.into())
    }

    /// Returns true if HTTP/3 is used, over QUIC.
    pub(crate) fn is_http3(self) -> bool {
        self.http == Http::Three
    }

    /// Returns true if only HTTP/2 may be used.
    pub(crate) fn is_http2_only(self) -> bool {
        self.http == Http::Two
    }
}

/// Checks that the settings and targets are compatible with HTTP/3.
fn check_three(settings: &LoadSettings, targets: &[Target]) -> Result<(), SpecError> {
    let given = SettingsError::value("http", HttpVersion::Http3);
    let excluded = [
        ("unix", settings.unix.is_some(), "QUIC needs UDP"),
        (
            "proxy",
            settings.proxy.is_some(),
            "HTTP proxies relay TCP only",
        ),
        (
            "proxy_protocol",
            settings.proxy_protocol.is_some(),
            "the PROXY protocol is for TCP",
        ),
    ];
    for (name, is_set, reason) in excluded {
        if is_set {
            let error = given.text(" can't be combined with ").name(name);
            let error = error.text(format!(": {reason}"));
            return Err(error.hint("remove one of them").into());
        }
    }
    if settings.tls_max == Some(TlsVersion::Tls12) {
        let error = given.text(" can't be combined with ");
        let error = error.and_value("tls_max", TlsVersion::Tls12);
        let error = error.text(": QUIC needs TLS 1.3");
        return Err(error.hint("remove one of them").into());
    }
    if targets.iter().any(|target| target.tls.is_none()) {
        let text = " needs https:// URLs, because QUIC is always encrypted";
        return Err(given.text(text).into());
    }
    Ok(())
}

/// Checks that early data is compatible with the other settings.
fn check_early_data(settings: &LoadSettings, http: Http) -> Result<(), SpecError> {
    if !settings.early_data {
        return Ok(());
    }
    let given = SettingsError::of("early_data");
    if http != Http::Three {
        let error = given.text(" needs ");
        return Err(error.and_value("http", HttpVersion::Http3).into());
    }
    let excluded = [
        (
            "no_resumption",
            settings.no_resumption,
            "only resumed sessions have early data",
        ),
        (
            "script",
            settings.script.is_some(),
            "a script may send methods other than GET and HEAD, which a server could process twice",
        ),
    ];
    for (name, is_set, reason) in excluded {
        if is_set {
            let error = given.text(" can't be combined with ").name(name);
            let error = error.text(format!(": {reason}"));
            return Err(error.hint("remove one of them").into());
        }
    }
    Ok(())
}

impl Default for Protocols {
    fn default() -> Protocols {
        Protocols {
            http: Http::One,
            streams: 1,
        }
    }
}
