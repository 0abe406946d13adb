//! A load as it will be run: every flag resolved, every request serialised, every name looked up.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use prony_protocol::h1::{self, Expects, Version};
use prony_protocol::h2::{ClientSettings, EncodedRequest, Scheme};
use prony_record::{Finding, LoadInfo, Nanos};
use rustls::pki_types::ServerName;

use crate::expect::Expectations;
use crate::options::{ArrivalsFlag, HttpFlag, LoadOptions, Order};
use crate::pacing::{Arrivals, Share};
use crate::ports;
use crate::socket::{Backend, Peer, system};
use crate::source::Sources;
use crate::target::{Resolve, Resolver, Url};
use crate::{tls, urls};

/// Why a load can't be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecError {
    /// What was typed is wrong or contradicts itself.
    Arguments(String),
    /// A host's name has no address.
    Name {
        /// The name.
        host: String,
        /// The resolver's reason.
        error: String,
    },
    /// This machine can't do it.
    Environment(String),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::Arguments(text) | SpecError::Environment(text) => f.write_str(text),
            SpecError::Name { host, error } => {
                write!(
                    f,
                    "{host}: no address for this name ({error}); check it, or give one with --resolve"
                )
            }
        }
    }
}

impl std::error::Error for SpecError {}

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Model {
    /// The moment a connection is free.
    Closed,
    /// By a schedule that doesn't care about the server.
    Open {
        /// Arrivals a second, in total.
        rate_per_s: f64,
        /// How they are spaced.
        arrivals: Arrivals,
    },
}

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

/// What may be spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Protocols {
    pub(crate) http: Http,
    /// Requests at once on a connection, if it speaks HTTP/2.
    pub(crate) streams: u32,
}

impl Protocols {
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

/// One request, written out.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Its bytes for HTTP/1; none where only HTTP/2 will do.
    pub(crate) bytes: Vec<u8>,
    /// The same for HTTP/2, where that may be spoken...
    pub(crate) frames: Option<EncodedRequest>,
    /// ...and how many bytes that is, with the headers of its frames.
    pub(crate) bytes_in_frames: u64,
    /// What its method says about the answer's body.
    pub(crate) expects: Expects,
    /// Whether it may be sent again when a reused connection lost it (RFC 9110 §9.2.2).
    pub(crate) idempotent: bool,
    /// The index of its [`Target`].
    pub(crate) target: u32,
    /// Method and URL, for messages.
    pub(crate) name: String,
    /// Its method.
    pub(crate) method: String,
    /// Its URL.
    pub(crate) url: String,
}

/// Where requests go.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The address.
    pub(crate) peer: Peer,
    /// The server's name for TLS; none in clear.
    pub(crate) tls: Option<ServerName<'static>>,
    /// See [`Route::sends_in_a_row`](crate::socket::Route): TLS and HTTP/2 say much by themselves,
    /// and a long request has a last segment that would wait for the others' acknowledgement.
    pub(crate) sends_in_a_row: bool,
}

/// A load, ready to run. [`crate::run`] takes it.
#[derive(Clone)]
pub struct LoadSpec {
    pub(crate) requests: Vec<Request>,
    pub(crate) targets: Vec<Target>,
    pub(crate) tls: Option<Arc<tls::Settings>>,
    pub(crate) sources: Sources,
    /// What may go wrong, as far as it can be told before the load.
    pub(crate) forecast: Vec<Finding>,
    pub(crate) order: Order,
    pub(crate) seed: u64,
    pub(crate) model: Model,
    pub(crate) connections: u32,
    pub(crate) protocols: Protocols,
    pub(crate) threads: u32,
    pub(crate) cores: Vec<usize>,
    pub(crate) limit: Option<u64>,
    pub(crate) duration: Option<Nanos>,
    pub(crate) warmup: Nanos,
    pub(crate) keepalive: bool,
    pub(crate) timeout: Option<Nanos>,
    pub(crate) connect_timeout: Nanos,
    pub(crate) expect: Expectations,
    pub(crate) backend: Backend,
    /// Why the backend is not the best one, where the choice was free.
    pub(crate) fallback: Option<String>,
    pub(crate) info: LoadInfo,
}

/// Files that the process needs beside its connections: standard streams, libraries, results.
const FILES_BESIDE: u64 = 48;
/// Bytes that always fit into one TCP segment (RFC 9293 §3.7.1).
const ONE_SEGMENT: usize = 536;
/// Files that a worker needs beside its connections: its poller's.
const FILES_A_WORKER: u64 = 4;

impl LoadSpec {
    /// Resolves what was typed: reads files, serialises requests, looks names up, checks limits.
    ///
    /// `url` may be missing where `--urls` names absolute URLs.
    ///
    /// # Errors
    ///
    /// See [`SpecError`]; the text names the flag.
    pub fn resolve(url: Option<&str>, options: &LoadOptions) -> Result<LoadSpec, SpecError> {
        let mut sources = Sources::new(&options.source)?;
        let (requests, targets) = requests(url, options, &sources)?;
        let protocols = protocols(options, &targets)?;
        sources.check(&targets)?;
        let connections = u32::try_from(options.connections).unwrap_or(u32::MAX);
        let threads = threads(options, connections)?;
        check_open_files(connections, threads)?;
        let scarce = ports::foresee(connections, &mut sources, &targets)?;
        let model = match options.rate {
            None => Model::Closed,
            Some(rate_per_s) => Model::Open {
                rate_per_s,
                arrivals: arrivals(options),
            },
        };
        let duration = match (options.duration, options.requests) {
            (None, None) => Some(std::time::Duration::from_secs(10)),
            (duration, _) => duration,
        };
        let uses_tls = targets.iter().any(|target| target.tls.is_some());
        let tls = if uses_tls {
            Some(Arc::new(tls::Settings::resolve(options)?))
        } else {
            None
        };
        let nanos = |time: std::time::Duration| Nanos::from(time);
        let slots = connections.div_ceil(threads);
        let (backend, fallback) =
            Backend::choose(options.io, threads, slots).map_err(SpecError::Environment)?;
        let mut spec = LoadSpec {
            requests,
            targets,
            tls,
            sources,
            forecast: scarce.into_iter().collect(),
            order: options.order,
            seed: options.seed,
            model,
            connections,
            protocols,
            threads,
            cores: options
                .cores
                .clone()
                .map(|cores| cores.0)
                .unwrap_or_default(),
            limit: options.requests,
            duration: duration.map(nanos),
            warmup: nanos(options.warmup),
            keepalive: !options.no_keepalive,
            timeout: Some(nanos(options.timeout)).filter(|t| t.0 > 0),
            connect_timeout: nanos(options.connect_timeout),
            expect: Expectations::new(options),
            backend,
            fallback,
            info: LoadInfo::default(),
        };
        spec.info = spec.describe(url, options);
        Ok(spec)
    }

    /// What was asked for, as the record will say it.
    pub fn info(&self) -> &LoadInfo {
        &self.info
    }

    /// What may go wrong, as far as it can be told before the load; the record will have it, too.
    pub fn forecast(&self) -> &[Finding] {
        &self.forecast
    }

    /// How many distinct requests it makes.
    pub fn distinct_requests(&self) -> usize {
        self.requests.len()
    }

    /// The numbers of the requests that change nothing on the server, by their method.
    pub fn safe_requests(&self) -> Vec<usize> {
        let safe =
            |request: &Request| matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
        (0..self.requests.len())
            .filter(|&index| safe(&self.requests[index]))
            .collect()
    }

    /// Method and URL of a request.
    ///
    /// # Panics
    ///
    /// If there are not that many.
    pub fn request_name(&self, index: usize) -> &str {
        &self.requests[index].name
    }

    /// How long it will load, warm-up included, where time ends it.
    pub fn planned(&self) -> Option<Nanos> {
        self.duration.map(|duration| duration + self.warmup)
    }

    /// Requests that may be under way at once.
    pub fn concurrency(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.protocols.streams)
    }

    /// How many of the connections a worker has.
    pub(crate) fn slots(&self, share: Share) -> u32 {
        share.part(u64::from(self.connections)) as u32
    }

    fn describe(&self, url: Option<&str>, options: &LoadOptions) -> LoadInfo {
        let (rate, arrivals) = match self.model {
            Model::Closed => (None, None),
            Model::Open {
                rate_per_s,
                arrivals,
            } => (Some(rate_per_s), Some(arrivals.name().to_owned())),
        };
        LoadInfo {
            url: url.unwrap_or(&self.requests[0].url).to_owned(),
            model: if rate.is_some() { "open" } else { "closed" }.to_owned(),
            connections: self.connections,
            streams: self.protocols.streams,
            duration_s: self.duration.map(Nanos::as_secs_f64),
            requests: self.limit,
            warmup_s: self.warmup.as_secs_f64(),
            rate_per_s: rate,
            arrivals,
            http: match (options.http, &self.tls) {
                (Some(HttpFlag::Http10), _) => "1.0",
                (Some(HttpFlag::Http2), _) => "2",
                (None, Some(_)) => "auto",
                (Some(HttpFlag::Http11), _) | (None, None) => "1.1",
            }
            .to_owned(),
            keepalive: self.keepalive,
            tls: self.tls.as_ref().map(|_| describe_tls(options)),
            threads: self.threads,
            io: self.backend.name().to_owned(),
            urls: self.requests.len() as u32,
            timeout_s: self.timeout.unwrap_or_default().as_secs_f64(),
            sources: self.sources.count(),
        }
    }
}

fn describe_tls(options: &LoadOptions) -> String {
    let verified = if options.insecure {
        "unverified"
    } else {
        "verified"
    };
    let resumed = if options.no_resumption {
        "full handshakes"
    } else {
        "sessions resumed"
    };
    format!("{verified}, {resumed}")
}

/// The most requests that may be under way at once: each takes some 200 bytes.
const MOST_CONCURRENT: u64 = 4 * 1024 * 1024;

fn protocols(options: &LoadOptions, targets: &[Target]) -> Result<Protocols, SpecError> {
    let http = http(options);
    let streams = options.streams;
    let is_possible = match http {
        Http::One => false,
        Http::Two => true,
        Http::Agreed => targets.iter().all(|target| target.tls.is_some()),
    };
    let wrong = match streams {
        1 => None,
        _ if !is_possible => Some("needs HTTP/2; add --http 2".to_owned()),
        _ if options.no_keepalive => {
            Some("contradicts --no-keepalive, by which a connection carries one request".to_owned())
        }
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

fn http(options: &LoadOptions) -> Http {
    match options.http {
        Some(HttpFlag::Http10 | HttpFlag::Http11) => Http::One,
        Some(HttpFlag::Http2) => Http::Two,
        None => Http::Agreed,
    }
}

fn arrivals(options: &LoadOptions) -> Arrivals {
    match options.arrivals {
        Some(ArrivalsFlag::Poisson) => Arrivals::Poisson,
        Some(ArrivalsFlag::Constant) | None => Arrivals::Constant,
    }
}

fn threads(options: &LoadOptions, connections: u32) -> Result<u32, SpecError> {
    let cores = match &options.cores {
        Some(cores) => cores.0.len(),
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    let Some(threads) = options.threads else {
        return Ok(connections.min(u32::try_from(cores).unwrap_or(u32::MAX)));
    };
    if threads > u64::from(connections) {
        return Err(SpecError::Arguments(format!(
            "--threads {threads} is more than --connections {connections}; a thread without a \
             connection has nothing to do"
        )));
    }
    Ok(threads as u32)
}

fn check_open_files(connections: u32, threads: u32) -> Result<(), SpecError> {
    let limit = system::open_files_limit();
    let beside = FILES_BESIDE + FILES_A_WORKER * u64::from(threads);
    let needed = u64::from(connections) + beside;
    if needed <= limit {
        return Ok(());
    }
    Err(SpecError::Environment(format!(
        "--connections {connections} needs {needed} open files, and this process may have {limit}; \
         use at most {} connections, or raise the limit (ulimit -n, as root or in limits.conf)",
        limit.saturating_sub(beside)
    )))
}

/// What is to be requested, before it is written out.
struct Wanted {
    url: Url,
    method: String,
    body: Vec<u8>,
    /// What to put before a message about it: a file and line, or nothing.
    place: String,
}

fn requests(
    url: Option<&str>,
    options: &LoadOptions,
    sources: &Sources,
) -> Result<(Vec<Request>, Vec<Target>), SpecError> {
    let fixed = options
        .resolve
        .iter()
        .map(|typed| Resolve::parse(typed))
        .collect::<Result<Vec<_>, _>>()
        .map_err(SpecError::Arguments)?;
    let resolver = Resolver {
        fixed: &fixed,
        sources,
        public: options.public,
    };
    let headers = headers(options)?;
    let mut indices: HashMap<(String, u16, bool), u32> = HashMap::new();
    let mut targets: Vec<Target> = Vec::new();
    let mut requests = Vec::new();
    for wanted in wanted(url, options)? {
        let address = (wanted.url.host.clone(), wanted.url.port, wanted.url.tls);
        let target = match indices.get(&address) {
            Some(&index) => index,
            None => {
                targets.push(target(&wanted.url, options, &resolver)?);
                let index = targets.len() as u32 - 1;
                indices.insert(address, index);
                index
            }
        };
        let request = written(&wanted, target, &headers, options)?;
        targets[target as usize].sends_in_a_row |= request.bytes.len() > ONE_SEGMENT;
        requests.push(request);
    }
    Ok((requests, targets))
}

fn wanted(url: Option<&str>, options: &LoadOptions) -> Result<Vec<Wanted>, SpecError> {
    let base = url
        .map(|url| Url::parse(url, None))
        .transpose()
        .map_err(SpecError::Arguments)?;
    let body = match (&options.body, &options.body_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(file)) => read("--body-file", file)?,
        (None, None) => Vec::new(),
    };
    let Some(file) = &options.urls else {
        let url = base
            .ok_or_else(|| SpecError::Arguments("an URL is needed, or --urls FILE".to_owned()))?;
        return Ok(vec![Wanted {
            url,
            method: options.method.clone(),
            body,
            place: String::new(),
        }]);
    };
    let lines = urls::read(file).map_err(|error| SpecError::Arguments(error.to_string()))?;
    lines
        .into_iter()
        .map(|line| {
            let place = format!("{}:{}: ", file.display(), line.number);
            let url = Url::parse(&line.url, base.as_ref())
                .map_err(|error| SpecError::Arguments(format!("{place}{error}")))?;
            // A line that names a method means it whole: the flags' body isn't carried over.
            let (method, body) = match line.method {
                Some(method) => (method, line.body.unwrap_or_default()),
                None => (options.method.clone(), body.clone()),
            };
            Ok(Wanted {
                url,
                method,
                body,
                place,
            })
        })
        .collect()
}

fn target(url: &Url, options: &LoadOptions, resolver: &Resolver) -> Result<Target, SpecError> {
    let peer = match &options.unix {
        Some(path) => unix_peer(path)?,
        None => resolver.peer(url)?,
    };
    let name = options.sni.as_ref().unwrap_or(&url.host);
    let tls = url
        .tls
        .then(|| ServerName::try_from(name.clone()))
        .transpose()
        .map_err(|_| SpecError::Arguments(format!("\"{name}\" can't be a server's name in TLS")))?;
    let sends_in_a_row = tls.is_some() || http(options) == Http::Two;
    Ok(Target {
        peer,
        tls,
        sends_in_a_row,
    })
}

fn unix_peer(path: &Path) -> Result<Peer, SpecError> {
    match socket2::SockAddr::unix(path) {
        Ok(_) => Ok(Peer::Unix(path.to_owned())),
        Err(_) => Err(SpecError::Arguments(format!(
            "--unix {}: the path is longer than a UNIX socket's may be (107 bytes)",
            path.display()
        ))),
    }
}

fn headers(options: &LoadOptions) -> Result<Vec<(String, String)>, SpecError> {
    options
        .header
        .iter()
        .map(|typed| match typed.split_once(':') {
            Some((name, value)) => Ok((name.to_owned(), value.trim().to_owned())),
            None => Err(SpecError::Arguments(format!(
                "--header \"{typed}\": write it like 'Accept: text/html'"
            ))),
        })
        .collect()
}

fn read(flag: &str, file: &Path) -> Result<Vec<u8>, SpecError> {
    std::fs::read(file)
        .map_err(|error| SpecError::Arguments(format!("{flag} {}: {error}", file.display())))
}

fn written(
    wanted: &Wanted,
    target: u32,
    headers: &[(String, String)],
    options: &LoadOptions,
) -> Result<Request, SpecError> {
    let method = wanted.method.as_str();
    if method == "CONNECT" {
        return Err(SpecError::Arguments(format!(
            "{}--method CONNECT: tunnels are not loaded; name the server itself",
            wanted.place
        )));
    }
    let host = wanted.url.host_header();
    let request = h1::RequestSpec {
        method,
        target: &wanted.url.path,
        version: match options.http {
            Some(HttpFlag::Http10) => Version::Http10,
            _ => Version::Http11,
        },
        host: &host,
        headers,
        body: &wanted.body,
        keep_alive: !options.no_keepalive,
    };
    let wrong = |error| SpecError::Arguments(format!("{}{error}", wanted.place));
    let http = http(options);
    let bytes = match http {
        Http::Two => Vec::new(),
        Http::One | Http::Agreed => h1::encode_request(&request).map_err(wrong)?,
    };
    let scheme = match wanted.url.tls {
        true => Some(Scheme::Https),
        false if http == Http::Two => Some(Scheme::Http),
        false => None,
    };
    let frames = scheme
        .filter(|_| http != Http::One)
        .map(|scheme| EncodedRequest::new(&request, scheme))
        .transpose()
        .map_err(wrong)?;
    let bytes_in_frames = frames.as_ref().map_or(0, EncodedRequest::wire_bytes);
    Ok(Request {
        bytes,
        frames,
        bytes_in_frames,
        expects: if method == "HEAD" {
            Expects::NoBody
        } else {
            Expects::Body
        },
        idempotent: matches!(
            method,
            "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE"
        ),
        target,
        name: format!("{method} {}", wanted.url.text()),
        method: method.to_owned(),
        url: wanted.url.text(),
    })
}
