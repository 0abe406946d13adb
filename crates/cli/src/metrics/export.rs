//! Sends metrics to monitoring systems while a load runs: `--otlp` and `--remote-write`.
//!
//! Each endpoint has a thread of its own, which has at most one request in flight. An endpoint that
//! hangs or fails costs that thread's time only: the request is given up after [`TIMEOUT`], the
//! failure is counted, and the next request carries the whole totals again.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use prony_fleet::agent::host_name;
use prony_record::redact;
use prony_report::metrics::{Family, Labels, otlp, remote_write};
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::records::{ServedRecords, lock};
use crate::arguments::MonitoringArgs;
use crate::ending::Failure;
use crate::progress::Progress;

/// Time after which a request is given up.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between exports if `--export-interval` is absent.
const INTERVAL: Duration = Duration::from_secs(5);
/// Header fields for OTLP, as the OpenTelemetry specification defines them.
const OTLP_HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Exports to one endpoint, until this value is dropped. The last export then contains the results
/// of the whole load.
#[derive(Debug)]
pub(super) struct Export {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Protocol of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Otlp,
    RemoteWrite,
}

impl Protocol {
    fn flag(self) -> &'static str {
        match self {
            Protocol::Otlp => "--otlp",
            Protocol::RemoteWrite => "--remote-write",
        }
    }
}

/// Starts the exports that the arguments ask for.
pub(super) fn start(
    arguments: &MonitoringArgs,
    records: &Arc<Mutex<ServedRecords>>,
    progress: &Arc<Progress>,
) -> Result<Vec<Export>, Failure> {
    let endpoints = [
        (Protocol::Otlp, arguments.otlp.as_deref()),
        (Protocol::RemoteWrite, arguments.remote_write.as_deref()),
    ];
    let given = endpoints.map(|(protocol, url)| url.map(|url| (protocol, url)));
    let given: Vec<_> = given.into_iter().flatten().collect();
    if given.is_empty() && arguments.export_interval.is_some() {
        let what = "--export-interval applies to --otlp and --remote-write only";
        return Err(Failure::wrong(what));
    }
    let exports = given.into_iter().map(|(protocol, url)| {
        let endpoint = Endpoint::new(protocol, url)?;
        let interval = arguments.export_interval.unwrap_or(INTERVAL);
        let (records, progress) = (records.clone(), progress.clone());
        let (stop, stopped) = mpsc::channel();
        let export = move || {
            let mut tally = ExportTally::default();
            loop {
                let ended = stopped.recv_timeout(interval);
                let families = lock(&records).families();
                if let Some(families) = families {
                    tally.note(endpoint.send(&families), &endpoint, interval, &progress);
                }
                if ended != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            tally.report(&endpoint, &progress);
        };
        let thread = thread::Builder::new().name("export".to_owned());
        let thread = thread.spawn(export);
        let thread =
            thread.map_err(|error| Failure::refused(format!("{}: {error}", protocol.flag())))?;
        Ok(Export {
            stop: Some(stop),
            thread: Some(thread),
        })
    });
    exports.collect()
}

impl Drop for Export {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread doesn't affect any result.
            let _ = thread.join();
        }
    }
}

/// A place to which metrics are sent.
struct Endpoint {
    protocol: Protocol,
    url: String,
    /// Header fields that the user asked for.
    headers: Vec<(String, String)>,
    agent: ureq::Agent,
    started: SystemTime,
    /// Labels or attributes that name the sender.
    sender: Labels,
}

impl Endpoint {
    fn new(protocol: Protocol, url: &str) -> Result<Endpoint, Failure> {
        let flag = protocol.flag();
        let wrong = |reason: String| {
            let url = redact::url(url);
            Failure::wrong(format!("{flag} {url}: {reason}"))
        };
        let parsed: Uri = url
            .parse()
            .map_err(|error| wrong(format!("not a URL: {error}")))?;
        if !matches!(parsed.scheme_str(), Some("http" | "https")) || parsed.host().is_none() {
            return Err(wrong("expected http://HOST or https://HOST".to_owned()));
        }
        let mut url = url.to_owned();
        let headers = match protocol {
            Protocol::Otlp => {
                if matches!(parsed.path(), "" | "/") && parsed.query().is_none() {
                    url = format!("{}{}", url.trim_end_matches('/'), otlp::PATH);
                }
                let given = std::env::var(OTLP_HEADERS).unwrap_or_default();
                otlp_headers(&given).map_err(Failure::wrong)?
            }
            Protocol::RemoteWrite => Vec::new(),
        };
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0)
            .user_agent(concat!("prony/", env!("CARGO_PKG_VERSION")));
        let config = match parsed.scheme_str() {
            Some("https") => config.tls_config(tls_config()),
            _ => config,
        };
        let (host, id) = (host_name(), std::process::id());
        let sender = match protocol {
            Protocol::Otlp => vec![
                ("service.name", "prony".to_owned()),
                ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
                ("service.instance.id", format!("{host}-{id}")),
                ("host.name", host),
            ],
            Protocol::RemoteWrite => vec![("instance", host), ("job", "prony".to_owned())],
        };
        let sender = sender.into_iter();
        Ok(Endpoint {
            protocol,
            url,
            headers,
            agent: config.build().new_agent(),
            started: SystemTime::now(),
            sender: sender
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        })
    }

    /// Sends metrics. Returns the reason if they did not arrive.
    fn send(&self, families: &[Family]) -> Result<(), String> {
        let now = SystemTime::now();
        let since_1970 = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH);
            since.unwrap_or_default()
        };
        let mut request = self.agent.post(&self.url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = match self.protocol {
            Protocol::Otlp => {
                request = request.header("content-type", otlp::CONTENT_TYPE);
                let nanos = |time| u64::try_from(since_1970(time).as_nanos()).unwrap_or(u64::MAX);
                let span = otlp::Span {
                    start_ns: nanos(self.started),
                    end_ns: nanos(now),
                };
                let version = env!("CARGO_PKG_VERSION");
                otlp::request(families, &self.sender, version, span)
            }
            Protocol::RemoteWrite => {
                for (name, value) in remote_write::HEADERS {
                    request = request.header(name, value);
                }
                let millis = i64::try_from(since_1970(now).as_millis()).unwrap_or(i64::MAX);
                remote_write::request(families, &self.sender, millis)
                    .map_err(|error| error.to_string())?
            }
        };
        let sent = request.send(&body[..]);
        sent.map(drop).map_err(|error| error.to_string())
    }

    /// Returns the flag and the URL, without credentials.
    fn name(&self) -> String {
        format!("{} {}", self.protocol.flag(), redact::url(&self.url))
    }
}

/// Parses `name=value` pairs, which are separated by commas and whose values are percent-encoded.
fn otlp_headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let pairs = pairs.map(|pair| {
        let wrong = || {
            format!("{OTLP_HEADERS}: expected NAME=VALUE, separated by commas, with values that are percent-encoded")
        };
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?.into_owned();
        let name = name.trim().to_ascii_lowercase();
        let is_valid = ureq::http::HeaderName::from_bytes(name.as_bytes()).is_ok()
            && ureq::http::HeaderValue::from_str(&value).is_ok();
        is_valid.then_some((name, value)).ok_or_else(wrong)
    });
    pairs.collect()
}

/// TLS that trusts the certificates of this machine.
fn tls_config() -> TlsConfig {
    let roots = rustls_native_certs::load_native_certs().certs;
    let roots: Vec<_> = roots
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    TlsConfig::builder()
        .root_certs(RootCerts::from(roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build()
}

/// Number of exports, and of those that failed.
#[derive(Debug, Default)]
struct ExportTally {
    exports: u64,
    failed: u64,
    last_error: Option<String>,
}

impl ExportTally {
    /// Counts an export, and reports the first failure at once.
    fn note(
        &mut self,
        sent: Result<(), String>,
        endpoint: &Endpoint,
        interval: Duration,
        progress: &Progress,
    ) {
        self.exports += 1;
        self.last_error = sent.err();
        if let Some(error) = &self.last_error {
            self.failed += 1;
            if self.failed == 1 {
                let interval = humantime::format_duration(interval);
                let name = endpoint.name();
                progress.warn(format_args!(
                    "{name}: {error} (the load is not affected; the next try is in {interval}, or \
                     at the end)"
                ));
            }
        }
    }

    /// Reports failures at the end.
    fn report(&self, endpoint: &Endpoint, progress: &Progress) {
        let (failed, exports) = (self.failed, self.exports);
        let name = endpoint.name();
        match &self.last_error {
            Some(error) => progress.warn(format_args!(
                "{name}: {failed} of {exports} exports failed, and so did the last, so the final \
                 results are missing there: {error}"
            )),
            None if failed > 0 => progress.warn(format_args!(
                "{name}: {failed} of {exports} exports failed; the last contains all results"
            )),
            None => {}
        }
    }
}
