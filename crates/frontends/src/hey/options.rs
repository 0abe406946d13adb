//! Converts hey's arguments to settings of the load engine.

use std::time::Duration;

use prony_load::StatusSet;
use prony_load::{ArrivalRate, HttpVersion, LoadSettings, Notation};
use prony_record::Nanos;

use super::arguments::HeyArguments;
use crate::session::PUBLIC;

/// Duration, a thousand years, of a load that ends only when its workers stop.
const UNLIMITED_DURATION: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// Maximum number of redirects. Go's client sends at most ten requests.
const REDIRECTS_MAX: u64 = 9;

/// Streams per connection. Servers should allow at least 100 (RFC 9113, section 6.5.2).
const STREAMS_PER_CONNECTION: u64 = 100;

/// The engine's settings and hey's flags.
pub(crate) const NOTATION: Notation = Notation::Options(&[
    PUBLIC,
    ("connections", "-c"),
    ("requests", "-n"),
    ("duration", "-z"),
    ("rate", "-q times -c,"),
    ("threads", "-cpus"),
    ("header", "-H"),
    ("method", "-m"),
    ("body", "-d"),
    ("body_file", "-D"),
    ("proxy", "-x"),
    ("sni", "-host"),
]);

/// Number of connections, and of streams per connection, for the concurrent requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestDistribution {
    pub(super) connections: u64,
    pub(super) streams: u64,
}

impl RequestDistribution {
    /// Uses one connection per worker.
    pub(super) fn connections(workers: u64) -> RequestDistribution {
        RequestDistribution {
            connections: workers,
            streams: 1,
        }
    }

    /// Uses HTTP/2 streams on as few connections as possible.
    pub(super) fn streams(workers: u64) -> RequestDistribution {
        let connections = workers.div_ceil(STREAMS_PER_CONNECTION);
        RequestDistribution {
            connections,
            streams: workers.div_ceil(connections),
        }
    }
}

impl HeyArguments {
    /// Returns the total rate in requests per second, if there is one.
    pub(super) fn total_rate(&self) -> Option<f64> {
        self.rate.map(|rate| rate * self.workers as f64)
    }

    /// Returns the time after which no more requests are started. Requests that are in flight then
    /// are completed.
    pub(super) fn until(&self) -> Option<Nanos> {
        self.time.map(Nanos::from)
    }

    /// Returns the length of an open loop's schedule in seconds. The schedule determines the rate,
    /// so rates are computed over this time even if the last response arrives earlier.
    pub(super) fn schedule_s(&self) -> f64 {
        match (self.end(), self.total_rate()) {
            ((Some(requests), _), Some(rate)) => requests as f64 / rate,
            _ => 0.0,
        }
    }

    /// Returns the engine's settings for this load.
    pub(super) fn options(&self, spread: RequestDistribution) -> LoadSettings {
        let (requests, duration) = self.end();
        LoadSettings {
            connections: Some(spread.connections),
            streams: Some(spread.streams),
            rate: self.total_rate().map(ArrivalRate::Constant),
            requests,
            duration,
            threads: self.cores.map(|cores| cores.min(spread.connections)),
            method: Some(self.method.clone()),
            header: self.header_lines(),
            body: self.body.clone().filter(|_| self.body_file.is_none()),
            body_file: self.body_file.clone(),
            http: if self.h2 && self.is_tls() {
                None
            } else {
                Some(HttpVersion::Http11)
            },
            path_as_is: true,
            no_keepalive: !self.keepalive,
            follow: self.redirects.then_some(REDIRECTS_MAX),
            proxy: self.proxy.as_ref().map(|proxy| proxy.engines.clone()),
            timeout: Some(self.timeout.unwrap_or_default()),
            // hey's timeout covers the whole request, including the connect.
            connect_timeout: Some(self.timeout.unwrap_or(UNLIMITED_DURATION)),
            expect_status: Some(StatusSet::all()),
            insecure: true,
            sni: self.host_name().filter(|_| self.is_tls()),
            ..LoadSettings::from_environment()
        }
    }

    /// Returns the limits on requests and on time. In an open loop, a time limit determines the
    /// number of requests. In a closed loop, the workers stop at the time limit.
    fn end(&self) -> (Option<u64>, Option<Duration>) {
        match (self.time, self.total_rate()) {
            (None, _) => (Some(self.requests), None),
            (Some(time), Some(rate)) => {
                let due = (rate * time.as_secs_f64()).ceil().max(1.0);
                (Some(due as u64), None)
            }
            (Some(_), None) => (None, Some(UNLIMITED_DURATION)),
        }
    }

    fn header_lines(&self) -> Vec<String> {
        let host = self.host.as_ref().map(|host| ("Host", host.as_str()));
        // An empty Accept header prevents the engine from sending its default one.
        let no_accept = (!self.headers.contains_key("Accept")).then_some(("Accept", ""));
        let others = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        host.into_iter()
            .chain(no_accept)
            .chain(others)
            .map(|(name, value)| format!("{name}: {value}"))
            .collect()
    }

    /// Returns true if the URL is an https URL.
    pub(super) fn is_tls(&self) -> bool {
        self.url
            .get(..8)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
    }

    /// Returns the host name given with `-host`, without the port.
    fn host_name(&self) -> Option<String> {
        let host = self.host.as_deref()?;
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        Some(name.trim_matches(['[', ']']).to_owned())
    }
}
