//! What is requested: URLs, methods and bodies as typed or listed, written out once for each HTTP
//! that may be spoken.

use std::path::Path;
use std::sync::Arc;

use prony_protocol::h1::{self, Expects, Version};
use prony_protocol::h2::{EncodedRequest, RequestScheme};
use rustls::pki_types::ServerName;

use crate::credentials::{self, Credentials};
use crate::forward::Forward;
use crate::input_file::{self, DATA_BYTES_MAX};
use crate::protocols::Http;
use crate::settings::{HttpVersion, LoadSettings, SettingsError};
use crate::socket::Peer;
use crate::source::Sources;
use crate::spec::SpecError;
use crate::target::{Resolve, Resolver, Url};
use crate::urls;
use crate::writer::Indices;

/// One request, written out.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its bytes for HTTP/1; none where only HTTP/2 will do.
    pub(crate) bytes: Vec<u8>,
    /// The same for HTTP/2, where that may be spoken...
    pub(crate) frames: Option<EncodedRequest>,
    /// ...and how many bytes that is, with the headers of its frames.
    pub(crate) bytes_in_frames: u64,
    /// What its method says about the answer's body.
    pub(crate) expects: Expects,
    /// How many answers are due to it: more than one where it is several requests in a row.
    pub(crate) answers: u32,
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
    /// What it was written from, where redirects are followed and it was not written by hand.
    pub(crate) origin: Option<Arc<Written>>,
}

/// What a request was written from.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) url: Url,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Its method, such as `GET`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Its URL, whole.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What is sent for it over HTTP/1, head and body; empty where only HTTP/2 will do.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it may take more than one segment.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes.len() > ONE_SEGMENT
    }

    /// What a method says about the answer's body.
    pub(crate) fn expects(method: &str) -> Expects {
        match method {
            "HEAD" => Expects::NoBody,
            _ => Expects::Body,
        }
    }

    /// A request of which nothing is written yet.
    pub(crate) fn unwritten(method: &str, url: &Url, target: u32) -> Request {
        Request {
            bytes: Vec::new(),
            frames: None,
            bytes_in_frames: 0,
            expects: Request::expects(method),
            answers: 1,
            idempotent: matches!(
                method,
                "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE"
            ),
            target,
            name: format!("{method} {}", url.text()),
            method: method.to_owned(),
            url: url.text(),
            origin: None,
        }
    }
}

/// Where requests go.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The address.
    pub(crate) peer: Peer,
    /// The server's name for TLS; none in clear.
    pub(crate) tls: Option<ServerName<'static>>,
    /// What asks the proxy for a tunnel there, if there is one between.
    pub(crate) tunnel: Option<Vec<u8>>,
    /// See [`Route::nodelay`](crate::socket::Route): TLS and HTTP/2 say much by themselves,
    /// and a long request has a last segment that would wait for the others' acknowledgement.
    pub(crate) nodelay: bool,
}

impl Target {
    /// Whether both are reached in clear at the same address.
    pub(crate) fn is_same_clear(&self, other: &Target) -> bool {
        self.tls.is_none() && other.tls.is_none() && self.peer == other.peer
    }
}

/// The header that names who asks.
const AUTHORIZATION: &str = "Authorization";

/// Bytes that always fit into one TCP segment (RFC 9293 §3.7.1).
const ONE_SEGMENT: usize = 536;

/// What is to be requested, before it is written out.
pub(crate) struct Wanted {
    pub(crate) url: Url,
    pub(crate) method: String,
    pub(crate) body: Vec<u8>,
    /// What to put before a message about it: a file and line, or nothing.
    pub(crate) place: String,
}

/// What a load is to request, written out.
pub(crate) struct Requests {
    pub(crate) requests: Vec<Request>,
    /// Where they go...
    pub(crate) targets: Vec<Target>,
    /// ...and which of them goes where.
    pub(crate) indices: Indices,
    /// The load's own URL, or the first in the list.
    pub(crate) base: Url,
    /// The proxy between.
    pub(crate) forward: Option<Forward>,
}

/// Every request of a load, written out, and where they go.
///
/// # Errors
///
/// See [`SpecError`]; the text names the flag, or the file and line.
pub(crate) fn requests(
    url: Option<&str>,
    settings: &LoadSettings,
    sources: &Sources,
) -> Result<Requests, SpecError> {
    let fixed = Resolve::all(&settings.resolve)?;
    let resolver = Resolver {
        fixed: &fixed,
        sources,
        public: settings.public,
        permits: settings.permits.as_ref(),
        chosen_by_server: false,
    };
    let forward = Forward::new(settings, &resolver)?;
    let forward = forward.as_ref();
    let headers = headers(settings)?;
    let authorization = Authorization::new(url, settings)?;
    let mut indices = Indices::new();
    let mut base = None;
    let mut targets: Vec<Target> = Vec::new();
    let mut requests = Vec::new();
    for wanted in wanted(url, settings)? {
        let address = (wanted.url.host.clone(), wanted.url.port, wanted.url.tls);
        let target = match indices.get(&address) {
            Some(&index) => index,
            None => {
                let new = target(&wanted.url, settings, &resolver, forward)?;
                let index = match forward {
                    // All that go to the proxy in clear share their connections.
                    Some(_) => targets.iter().position(|it| it.is_same_clear(&new)),
                    None => None,
                };
                let index = index.unwrap_or_else(|| {
                    targets.push(new);
                    targets.len() - 1
                });
                indices.insert(address, index as u32);
                index as u32
            }
        };
        let own = authorization.as_ref().filter(|it| it.is_for(&wanted.url));
        let headers = headers
            .iter()
            .cloned()
            .chain(own.map(Authorization::header));
        let headers: Vec<(String, String)> = headers.collect();
        let request = written(&wanted, target, &headers, settings, forward)?;
        targets[target as usize].nodelay |= request.is_long();
        requests.push(request);
        base.get_or_insert(wanted.url);
    }
    match base {
        Some(base) => Ok(Requests {
            requests,
            targets,
            indices,
            base,
            forward: forward.cloned(),
        }),
        None => Err(SettingsError::from("there is nothing to request").into()),
    }
}

pub(crate) fn wanted(url: Option<&str>, settings: &LoadSettings) -> Result<Vec<Wanted>, SpecError> {
    let base = url.map(base_url).transpose()?.map(|(base, _)| base);
    let body = match (&settings.body, &settings.body_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(file)) => read(file)?,
        (None, None) => Vec::new(),
    };
    let Some(file) = &settings.urls else {
        let url = base.ok_or_else(|| {
            let error = SettingsError::from("a URL is needed, or ");
            error.and_value("urls", "FILE")
        })?;
        return Ok(vec![Wanted {
            url,
            method: settings.method().to_owned(),
            body,
            place: String::new(),
        }]);
    };
    let lines = urls::read(file)?;
    lines
        .into_iter()
        .map(|line| {
            let place = format!("{}:{}: ", file.display(), line.number);
            let url = Url::parse(&line.url, base.as_ref())
                .map_err(|error| SettingsError::about("urls").text(place.clone() + &error))?;
            // A line that names a method means it whole: the flags' body isn't carried over.
            let (method, body) = match line.method {
                Some(method) => (method, line.body.unwrap_or_default()),
                None => (settings.method().to_owned(), body.clone()),
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

/// The load's own URL, which may hold credentials.
fn base_url(typed: &str) -> Result<(Url, Option<Credentials>), SpecError> {
    let split = credentials::split_url(typed)?;
    let url = Url::parse(&split.0, None)?;
    Ok((url, split.1))
}

/// Basic authentication, and the requests that have it.
struct Authorization {
    credentials: Credentials,
    /// The server whose URL holds the credentials; `--user` is for every server of the load.
    only: Option<Url>,
}

impl Authorization {
    /// The load's own. A typed Authorization header takes precedence over credentials in the URL.
    fn new(url: Option<&str>, settings: &LoadSettings) -> Result<Option<Authorization>, SpecError> {
        let mut names = settings
            .header
            .iter()
            .filter_map(|line| line.split_once(':'));
        let is_typed = names.any(|(name, _)| name.trim().eq_ignore_ascii_case(AUTHORIZATION));
        if let Some(credentials) = &settings.user {
            if is_typed {
                let error = SettingsError::of("user").text(" and ");
                let error = error.and_value("header", "'Authorization: …'");
                return Err(error.text(" set the same header; leave one out").into());
            }
            return Ok(Some(Authorization {
                credentials: credentials.clone(),
                only: None,
            }));
        }
        let Some((url, Some(credentials))) = url.map(base_url).transpose()? else {
            return Ok(None);
        };
        Ok((!is_typed).then_some(Authorization {
            credentials,
            only: Some(url),
        }))
    }

    fn is_for(&self, url: &Url) -> bool {
        let Some(own) = &self.only else { return true };
        (own.tls, own.port, &own.host) == (url.tls, url.port, &url.host)
    }

    fn header(&self) -> (String, String) {
        (AUTHORIZATION.to_owned(), self.credentials.basic())
    }
}

/// Where requests for a URL go.
pub(crate) fn target(
    url: &Url,
    settings: &LoadSettings,
    resolver: &Resolver,
    forward: Option<&Forward>,
) -> Result<Target, SpecError> {
    let peer = match (&settings.unix, forward) {
        (Some(path), _) => {
            let name = format!("unix:{}", path.display());
            let permitted = resolver.permits.map_or(Ok(()), |it| it.ask(&name, None));
            permitted?;
            unix_peer(path)?
        }
        (None, Some(forward)) => {
            forward.judge(url, resolver)?;
            forward.peer().clone()
        }
        (None, None) => resolver.peer(url)?,
    };
    let tunnel = match forward {
        Some(forward) if url.tls => Some(forward.tunnel(url)?),
        Some(_) if Http::of(settings) == Http::Two => {
            let error = SettingsError::of("proxy").text(" with ");
            let error = error.and_value("http", HttpVersion::Http2).text(
                ": HTTP/2 passes a proxy over TLS only, through a tunnel; load https:// URLs, or \
                 leave one of the two out",
            );
            return Err(error.into());
        }
        _ => None,
    };
    let name = settings.sni.as_ref().unwrap_or(&url.host);
    let tls = url
        .tls
        .then(|| ServerName::try_from(name.clone()))
        .transpose()
        .map_err(|_| {
            let error = match settings.sni {
                Some(_) => SettingsError::about("sni"),
                None => SettingsError::from(""),
            };
            error.text(format!("\"{name}\" can't be a server's name in TLS"))
        })?;
    let nodelay = tls.is_some() || Http::of(settings) == Http::Two;
    Ok(Target {
        peer,
        tls,
        tunnel,
        nodelay,
    })
}

fn unix_peer(path: &Path) -> Result<Peer, SpecError> {
    match socket2::SockAddr::unix(path) {
        Ok(_) => Ok(Peer::Unix(path.to_owned())),
        Err(_) => Err(SettingsError::value("unix", path.display())
            .text(": the path is longer than a UNIX socket's may be (107 bytes)")
            .into()),
    }
}

fn headers(settings: &LoadSettings) -> Result<Vec<(String, String)>, SpecError> {
    settings
        .header
        .iter()
        .map(|typed| match typed.split_once(':') {
            Some((name, value)) => Ok((name.to_owned(), value.trim().to_owned())),
            None => Err(SettingsError::value("header", format!("\"{typed}\""))
                .text(": write it like 'Accept: text/html'")
                .into()),
        })
        .collect()
}

fn read(file: &Path) -> Result<Vec<u8>, SettingsError> {
    input_file::read(file, DATA_BYTES_MAX).map_err(|error| {
        SettingsError::value("body_file", file.display()).text(format!(": {error}"))
    })
}

/// A request, written out.
pub(crate) fn written(
    wanted: &Wanted,
    target: u32,
    headers: &[(String, String)],
    settings: &LoadSettings,
    forward: Option<&Forward>,
) -> Result<Request, SpecError> {
    let method = wanted.method.as_str();
    if method == "CONNECT" {
        let error = SettingsError::value("method", "CONNECT")
            .text(": tunnels are not loaded; name the server itself");
        return Err(error.after(wanted.place.clone()).into());
    }
    let host = wanted.url.host_header();
    let (whole, all);
    let (path, headers) = match forward {
        Some(forward) => {
            (whole, all) = (wanted.url.text(), forward.headers(&wanted.url, headers));
            let path = if wanted.url.tls {
                &wanted.url.path
            } else {
                &whole
            };
            (path, &all[..])
        }
        None => (&wanted.url.path, headers),
    };
    let request = h1::RequestSpec {
        method,
        target: path,
        version: match settings.http {
            Some(HttpVersion::Http10) => Version::Http10,
            _ => Version::Http11,
        },
        host: &host,
        headers,
        body: &wanted.body,
        keep_alive: !settings.no_keepalive,
    };
    let wrong = |error| SpecError::from(format!("{}{error}", wanted.place));
    let http = Http::of(settings);
    let bytes = match http {
        Http::Two => Vec::new(),
        Http::One | Http::Agreed => h1::encode_request(&request).map_err(wrong)?,
    };
    let scheme = match wanted.url.tls {
        true => Some(RequestScheme::Https),
        false if http == Http::Two => Some(RequestScheme::Http),
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
        origin: (settings.follow.unwrap_or(0) > 0).then(|| {
            Arc::new(Written {
                url: wanted.url.clone(),
                headers: headers.to_vec(),
                body: wanted.body.clone(),
            })
        }),
        ..Request::unwritten(method, &wanted.url, target)
    })
}
