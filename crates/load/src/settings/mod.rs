//! The settings of a load: one type that is filled from flags, plans and agents' messages.
//!
//! Settings that were not given are absent; [`LoadSettings::resolve`] applies the defaults. Names
//! are the same as in a plan's `[load]` table. The flags of `prony load` have the same names with
//! `-` for `_`.

mod combined;
mod form;
mod http_proxy;
mod rate;
mod source_range;
mod text;
mod think_time;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use form::FormField;
pub(crate) use form::{BodyPiece, encode as encode_form};
pub use http_proxy::HttpProxy;
pub use rate::{ArrivalRate, Stage};
pub use source_range::SourceRange;
pub use think_time::{ThinkDistribution, ThinkTime};
pub use values::{
    CoreList, DataOrder, GatewayMac, HttpVersion, IoChoice, ProxyVersion, RequestOrder, Sha256,
    SourceOrder, TlsVersion,
};

use crate::credentials::Credentials;
use crate::error::{SettingsError, flag_of};
use crate::pacing::Arrivals;
use crate::status_set::StatusSet;
use crate::url_list;

/// The settings of a load that were given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadSettings {
    /// Connections to keep open; by default 50.
    #[serde(deserialize_with = "text::count", skip_serializing_if = "is_none")]
    pub connections: Option<u64>,
    /// Number of requests after which the load ends; by default no limit.
    #[serde(deserialize_with = "text::count", skip_serializing_if = "is_none")]
    pub requests: Option<u64>,
    /// Length of the measured part; by default 10 s, or until all `requests` have ended.
    #[serde(with = "text::positive_time", skip_serializing_if = "is_none")]
    pub duration: Option<Duration>,
    /// Duration of the warm-up, which precedes the measured part; by default 0.
    #[serde(with = "text::time", skip_serializing_if = "is_none")]
    pub warmup: Option<Duration>,
    /// Requests per second in total. Makes the load an open loop.
    #[serde(skip_serializing_if = "is_none")]
    pub rate: Option<ArrivalRate>,
    /// Stages of a rate that changes over time, in place of `rate` and `duration`.
    #[serde(deserialize_with = "text::list", skip_serializing_if = "is_empty")]
    pub stages: Vec<Stage>,
    /// Spacing of an open loop's requests; by default constant.
    #[serde(skip_serializing_if = "is_none")]
    pub arrivals: Option<Arrivals>,
    /// Pauses of each virtual user of a closed loop between its requests; by default none.
    #[serde(skip_serializing_if = "is_none")]
    pub think: Option<ThinkTime>,
    /// Worker threads; by default one per core, at most one per connection.
    #[serde(deserialize_with = "text::count", skip_serializing_if = "is_none")]
    pub threads: Option<u64>,
    /// Cores to run the workers on; by default any.
    #[serde(skip_serializing_if = "is_none")]
    pub cores: Option<CoreList>,
    /// Seed of Poisson arrivals, think times and random orders; by default 0.
    #[serde(deserialize_with = "text::whole", skip_serializing_if = "is_none")]
    pub seed: Option<u64>,

    /// Method of the requests; by default POST with a form, otherwise GET.
    #[serde(deserialize_with = "text::text", skip_serializing_if = "is_none")]
    pub method: Option<String>,
    /// Header lines to send, such as `Accept: text/html`.
    #[serde(deserialize_with = "text::headers", skip_serializing_if = "is_empty")]
    pub header: Vec<String>,
    /// User and password for basic authentication.
    #[serde(skip_serializing_if = "is_none")]
    pub user: Option<Credentials>,
    /// Body of the requests.
    #[serde(deserialize_with = "text::text", skip_serializing_if = "is_none")]
    pub body: Option<String>,
    /// File that holds the body of the requests.
    #[serde(with = "text::path", skip_serializing_if = "is_none")]
    pub body_file: Option<PathBuf>,
    /// Fields of a multipart form, which is the body of the requests.
    #[serde(deserialize_with = "text::texts_of", skip_serializing_if = "is_empty")]
    pub form: Vec<FormField>,
    /// Dot segments in paths (`/a/../b`) are sent as written, not removed.
    #[serde(deserialize_with = "text::switch", skip_serializing_if = "is_off")]
    pub path_as_is: bool,
    /// HTTP version; by default negotiated by ALPN over TLS, and 1.1 in cleartext.
    #[serde(skip_serializing_if = "is_none")]
    pub http: Option<HttpVersion>,
    /// Requests in flight on each HTTP/2 or HTTP/3 connection; by default 1.
    #[serde(deserialize_with = "text::count", skip_serializing_if = "is_none")]
    pub streams: Option<u64>,
    /// Each request uses its own connection.
    #[serde(deserialize_with = "text::switch", skip_serializing_if = "is_off")]
    pub no_keepalive: bool,
    /// Each virtual user keeps the cookies that its responses set.
    #[serde(deserialize_with = "text::switch", skip_serializing_if = "is_off")]
    pub cookies: bool,
    /// File with one request per line.
    #[serde(with = "text::path", skip_serializing_if = "is_none")]
    pub urls: Option<PathBuf>,
    /// Number of redirects that a request follows; by default 0.
    #[serde(deserialize_with = "text::whole", skip_serializing_if = "is_none")]
    pub follow: Option<u64>,
    /// Order in which the requests of `urls` are sent; by default by weight if any request has one,
    /// as listed for each user with `cookies`, and otherwise as listed.
    #[serde(skip_serializing_if = "is_none")]
    pub order: Option<RequestOrder>,
    /// CSV file whose columns provide values for URLs, headers and bodies.
    #[serde(with = "text::path", skip_serializing_if = "is_none")]
    pub data: Option<PathBuf>,
    /// Order in which requests take the rows of `data`; by default as in the file.
    #[serde(skip_serializing_if = "is_none")]
    pub data_order: Option<DataOrder>,
    /// File of a script that writes the requests.
    #[serde(with = "text::path", skip_serializing_if = "is_none")]
    pub script: Option<PathBuf>,
    /// Arguments of the script.
    #[serde(deserialize_with = "text::texts", skip_serializing_if = "is_empty")]
    pub script_args: Vec<String>,

    /// UNIX socket to connect to. The URL then provides only the host and path.
    #[serde(with = "text::path", skip_serializing_if = "is_none")]
    pub unix: Option<PathBuf>,
    /// HTTP proxy to send requests through.
    #[serde(skip_serializing_if = "is_none")]
    pub proxy: Option<HttpProxy>,
    /// Addresses of this machine to connect from.
    #[serde(deserialize_with = "text::list", skip_serializing_if = "is_empty")]
    pub source: Vec<SourceRange>,
    /// Order in which connections take source addresses; by default round-robin.
    #[serde(skip_serializing_if = "is_none")]
    pub source_order: Option<SourceOrder>,
    /// Version of the PROXY protocol whose header begins each connection.
    #[serde(skip_serializing_if = "is_none")]
    pub proxy_protocol: Option<ProxyVersion>,
    /// Addresses in PROXY headers, in place of the connection's own.
    #[serde(deserialize_with = "text::list", skip_serializing_if = "is_empty")]
    pub proxy_source: Vec<SourceRange>,
    /// Addresses of host names, each as `HOST:PORT:ADDR[,ADDR]…`.
    #[serde(deserialize_with = "text::texts", skip_serializing_if = "is_empty")]
    pub resolve: Vec<String>,
    /// Time after which a request fails, 0 for never; by default 20 s.
    #[serde(with = "text::time", skip_serializing_if = "is_none")]
    pub timeout: Option<Duration>,
    /// Time after which an attempt to connect fails; by default 5 s.
    #[serde(with = "text::positive_time", skip_serializing_if = "is_none")]
    pub connect_timeout: Option<Duration>,
    /// Maximum wait for the server to accept connections before the load begins; by default no
    /// wait.
    #[serde(with = "text::positive_time", skip_serializing_if = "is_none")]
    pub wait_for_server: Option<Duration>,
    /// Send and receive buffers of each TCP socket, in bytes; by default the system's.
    #[serde(deserialize_with = "text::size", skip_serializing_if = "is_none")]
    pub socket_buffer: Option<u64>,
    /// Kernel interface for sockets; by default the best available.
    #[serde(skip_serializing_if = "is_none")]
    pub io: Option<IoChoice>,
    /// Network interface of a load that bypasses the kernel's TCP (`io` is `xdp`).
    #[serde(deserialize_with = "text::text", skip_serializing_if = "is_none")]
    pub interface: Option<String>,
    /// MAC address of the next hop from `interface`; by default the one in the kernel's tables.
    #[serde(skip_serializing_if = "is_none")]
    pub gateway_mac: Option<GatewayMac>,
    /// Workers on `interface` spin instead of sleeping.
    #[serde(deserialize_with = "text::switch", skip_serializing_if = "is_off")]
    pub busy_poll: bool,

    /// Statuses that count as success; by default 200-399.
    #[serde(skip_serializing_if = "is_none")]
    pub expect_status: Option<StatusSet>,
    /// Required size of a body, in bytes.
    #[serde(deserialize_with = "text::size", skip_serializing_if = "is_none")]
    pub expect_size: Option<u64>,
    /// Required SHA-256 of a body.
    #[serde(skip_serializing_if = "is_none")]
    pub expect_sha256: Option<Sha256>,

    /// Any server certificate is accepted.
    #[serde(deserialize_with = "text::switch", skip_serializing_if = "is_off")]
    pub insecure: bool,
    /// PEM file of trusted certificates; by default the system's.
    #[serde(with = "text::path", skip_serializing_if = "is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate chain.
    #[serde(with = "text::path", skip_serializing_if = "is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the client's private key; by default the file of the certificate.
    #[serde(with = "text::path", skip_serializing_if = "is_none")]
    pub key: Option<PathBuf>,
    /// Server name for the TLS handshake; by default the URL's host.
    #[serde(deserialize_with = "text::text", skip_serializing_if = "is_none")]
    pub sni: Option<String>,
    /// Lowest TLS version to offer; by default 1.2.
    #[serde(skip_serializing_if = "is_none")]
    pub tls_min: Option<TlsVersion>,
    /// Highest TLS version to offer; by default 1.3.
    #[serde(skip_serializing_if = "is_none")]
    pub tls_max: Option<TlsVersion>,
    /// Cipher suites to offer, by IANA or OpenSSL names; by default the library's.
    #[serde(deserialize_with = "text::list", skip_serializing_if = "is_empty")]
    pub ciphers: Vec<String>,
    /// Every connection makes a full handshake.
    #[serde(deserialize_with = "text::switch", skip_serializing_if = "is_off")]
    pub no_resumption: bool,
    /// HTTP/3: resumed connections send requests before the end of the handshake (0-RTT).
    #[serde(deserialize_with = "text::switch", skip_serializing_if = "is_off")]
    pub early_data: bool,

    /// Each response is handled as soon as it arrives; see `--no-coalescing`.
    #[serde(deserialize_with = "text::switch", skip_serializing_if = "is_off")]
    pub no_coalescing: bool,

    /// Targets outside the loopback and private ranges are allowed.
    #[serde(deserialize_with = "text::switch", skip_serializing_if = "is_off")]
    pub public: bool,
}

fn is_none<T>(value: &Option<T>) -> bool {
    value.is_none()
}

fn is_empty<T>(values: &[T]) -> bool {
    values.is_empty()
}

fn is_off(switch: &bool) -> bool {
    !switch
}

/// Environment variable that has the effect of `public`.
pub const PUBLIC_VARIABLE: &str = "PRONY_PUBLIC";

/// Length of the measured part unless a time or a number of requests is given.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// One setting that was given, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenSetting {
    /// Key of the setting, such as `no_keepalive`.
    pub key: String,
    /// Values of the setting; empty for a switch.
    pub values: Vec<String>,
}

impl GivenSetting {
    /// The flags that set this value on the command line: `--header=A: 1`, or `--insecure`.
    pub fn flags(&self) -> Vec<String> {
        let flag = flag_of(&self.key);
        match self.values.as_slice() {
            [] => vec![flag],
            // A value after "=" may begin with a dash.
            values => values
                .iter()
                .map(|value| format!("{flag}={value}"))
                .collect(),
        }
    }
}

impl LoadSettings {
    /// The keys of all settings, in the order of the fields.
    pub const KEYS: &[&str] = &[
        "connections",
        "requests",
        "duration",
        "warmup",
        "rate",
        "stages",
        "arrivals",
        "think",
        "threads",
        "cores",
        "seed",
        "method",
        "header",
        "user",
        "body",
        "body_file",
        "form",
        "path_as_is",
        "http",
        "streams",
        "no_keepalive",
        "cookies",
        "urls",
        "follow",
        "order",
        "data",
        "data_order",
        "script",
        "script_args",
        "unix",
        "proxy",
        "source",
        "source_order",
        "proxy_protocol",
        "proxy_source",
        "resolve",
        "timeout",
        "connect_timeout",
        "wait_for_server",
        "socket_buffer",
        "io",
        "interface",
        "gateway_mac",
        "busy_poll",
        "expect_status",
        "expect_size",
        "expect_sha256",
        "insecure",
        "ca",
        "cert",
        "key",
        "sni",
        "tls_min",
        "tls_max",
        "ciphers",
        "no_resumption",
        "early_data",
        "no_coalescing",
        "public",
    ];

    /// Returns the settings that environment variables contain. Only `public` can be set in this
    /// way.
    pub fn from_environment() -> LoadSettings {
        LoadSettings {
            public: is_public_by_environment(),
            ..LoadSettings::default()
        }
    }

    /// The given settings, in the order of [`LoadSettings::KEYS`], including passwords.
    pub fn given(&self) -> Vec<GivenSetting> {
        use serde_json::Value;
        let Ok(Value::Object(settings)) = serde_json::to_value(self) else {
            return Vec::new();
        };
        let text = |value: Value| match value {
            Value::String(text) => text,
            // The JSON writer would write a whole float with a fraction, such as `2.0`.
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => float.to_string(),
                _ => number.to_string(),
            },
            other => other.to_string(),
        };
        let settings = settings.into_iter().map(|(key, value)| GivenSetting {
            key,
            values: match value {
                Value::Bool(_) => Vec::new(),
                Value::Array(values) => values.into_iter().map(text).collect(),
                value => vec![text(value)],
            },
        });
        settings.collect()
    }

    /// Length of the measured part, if it is limited by time.
    pub fn planned(&self) -> Option<Duration> {
        match (self.duration, self.requests) {
            _ if !self.stages.is_empty() => self.stages_length(),
            (None, None) => Some(DEFAULT_DURATION),
            (duration, _) => duration,
        }
    }

    /// Every file that the load reads, including the files named in its list of URLs, as paths to
    /// open.
    ///
    /// # Errors
    ///
    /// The list can't be read.
    pub fn files(&self) -> Result<Vec<PathBuf>, SettingsError> {
        let named = [
            &self.body_file,
            &self.urls,
            &self.data,
            &self.script,
            &self.ca,
            &self.cert,
            &self.key,
        ];
        let mut files: Vec<PathBuf> = named.into_iter().flatten().cloned().collect();
        files.extend(self.form.iter().filter_map(FormField::file).cloned());
        if let Some(list) = &self.urls {
            files.extend(url_list::bodies(list)?);
        }
        Ok(files)
    }

    /// Checks that no settings contradict each other, and that each has the other settings that it
    /// needs. The command line makes the same checks when it parses flags.
    ///
    /// # Errors
    ///
    /// Returns the first contradiction.
    pub fn check(&self) -> Result<(), SettingsError> {
        let (body, body_file) = (self.body.is_some(), self.body_file.is_some());
        let (proxy, source) = (self.proxy.is_some(), !self.source.is_empty());
        let (form, unix) = (!self.form.is_empty(), self.unix.is_some());
        let excluding = [
            ("body", body, "body_file", body_file),
            ("form", form, "body", body),
            ("form", form, "body_file", body_file),
            ("think", self.think.is_some(), "rate", self.rate.is_some()),
            (
                "think",
                self.think.is_some(),
                "stages",
                !self.stages.is_empty(),
            ),
            ("proxy", proxy, "unix", unix),
            ("source", source, "unix", unix),
            ("ca", self.ca.is_some(), "insecure", self.insecure),
        ];
        for (one, has_one, other, has_other) in excluding {
            if has_one && has_other {
                let error = SettingsError::of(one).text(" can't be combined with ");
                return Err(error.name(other).text("; remove one of them"));
            }
        }
        self.check_script()?;
        if self.arrivals.is_some() && !self.is_open() {
            let error = SettingsError::of("arrivals").text(" needs ").name("rate");
            return Err(error.text(" or ").name("stages").text(" as well"));
        }
        let proxy_source = !self.proxy_source.is_empty();
        let script_args = !self.script_args.is_empty();
        let (cert, key) = (self.cert.is_some(), self.key.is_some());
        let needing = [
            (
                "data_order",
                self.data_order.is_some(),
                "data",
                self.data.is_some(),
            ),
            ("script_args", script_args, "script", self.script.is_some()),
            (
                "proxy_source",
                proxy_source,
                "proxy_protocol",
                self.proxy_protocol.is_some(),
            ),
            ("key", key, "cert", cert),
        ];
        for (one, has_one, other, has_other) in needing {
            if has_one && !has_other {
                let error = SettingsError::of(one).text(" needs ");
                return Err(error.name(other).text(" as well"));
            }
        }
        self.check_rate()
    }

    /// Checks that a script is not combined with settings that the script replaces.
    fn check_script(&self) -> Result<(), SettingsError> {
        let excluding = [
            (
                "urls",
                self.urls.is_some(),
                "because the script chooses the requests; list them in the script",
            ),
            (
                "data",
                self.data.is_some(),
                "because the script writes the requests; read the file in the script",
            ),
            (
                "cookies",
                self.cookies,
                "because the script writes the header fields; set Cookie in the script",
            ),
            (
                "think",
                self.think.is_some(),
                "because the script has pauses of its own; return them from delay()",
            ),
        ];
        for (other, has_other, reason) in excluding {
            if self.script.is_some() && has_other {
                let error = SettingsError::of("script").text(" can't be combined with ");
                let reason = format!(", {reason}, or remove one of the two");
                return Err(error.name(other).text(reason));
            }
        }
        Ok(())
    }

    /// Returns the order of the list. If requests have weights, `weighted` is the default, because
    /// weights have no effect in another order. Users with cookies each go through the list, because
    /// a request may need the cookies of earlier ones.
    pub(crate) fn order_of(&self, has_weights: bool) -> RequestOrder {
        let default_order = match (has_weights, self.cookies) {
            (true, _) => RequestOrder::Weighted,
            (false, true) => RequestOrder::PerUser,
            (false, false) => RequestOrder::Sequence,
        };
        self.order.unwrap_or(default_order)
    }

    /// Connections to keep open.
    pub fn connections(&self) -> u64 {
        self.connections.unwrap_or(50)
    }

    /// Duration of the warm-up, which precedes the measured part.
    pub fn warmup(&self) -> Duration {
        self.warmup.unwrap_or_default()
    }

    pub(crate) fn arrivals(&self) -> Arrivals {
        self.arrivals.unwrap_or(Arrivals::Constant)
    }

    pub(crate) fn method(&self) -> &str {
        let default = if self.form.is_empty() { "GET" } else { "POST" };
        self.method.as_deref().unwrap_or(default)
    }

    /// Requests in flight on each HTTP/2 or HTTP/3 connection.
    pub fn streams(&self) -> u64 {
        self.streams.unwrap_or(1)
    }

    /// Time after which a request fails; zero for never.
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(20))
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout.unwrap_or(Duration::from_secs(5))
    }

    pub(crate) fn expect_status(&self) -> StatusSet {
        self.expect_status
            .clone()
            .unwrap_or_else(StatusSet::success)
    }
}

/// Returns true if `PRONY_PUBLIC` is set, except to `0`, `false`, `no`, `off` and similar values.
fn is_public_by_environment() -> bool {
    let Some(value) = std::env::var_os(PUBLIC_VARIABLE) else {
        return false;
    };
    let value = value.to_string_lossy().to_ascii_lowercase();
    !["", "n", "no", "f", "false", "off", "0"].contains(&value.as_str())
}

#[cfg(test)]
mod tests;
