//! Requests of a load: URLs, methods and bodies as typed or listed, serialized once for each HTTP
//! version that may be used.

use std::path::Path;
use std::sync::Arc;

use prony_protocol::h1::{self, Expects, Version};
use prony_protocol::h2::{EncodedRequest, RequestScheme};
use rustls::pki_types::ServerName;

use crate::credentials::{self, Credentials};
use crate::error::{SettingsError, SpecError};
use crate::http_proxy::ResolvedProxy;
use crate::input_file::{self, DATA_BYTES_MAX};
use crate::permits::Permits;
use crate::protocols::Http;
use crate::resolve::{FixedAddress, Resolver};
use crate::settings::{HttpVersion, LoadSettings};
use crate::socket::Peer;
use crate::source::Sources;
use crate::target::{Target, TargetIndices};
use crate::url::Url;
use crate::url_list;

/// A serialized request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Bytes for HTTP/1; empty if only HTTP/2 is possible.
    pub(crate) bytes: Vec<u8>,
    /// Bytes for HTTP/2, if HTTP/2 is possible.
    pub(crate) frames: Option<EncodedRequest>,
    /// Number of bytes for HTTP/2, including the frame headers.
    pub(crate) bytes_in_frames: u64,
    /// Expected body of the response, judged by the request's method.
    pub(crate) expects: Expects,
    /// Number of expected responses; more than one if this is a batch of requests.
    pub(crate) response_count: u32,
    /// True if the request may be sent again when a reused connection lost it (RFC 9110 §9.2.2).
    pub(crate) idempotent: bool,
    /// Index of the request's [`Target`].
    pub(crate) target: u32,
    /// Method and URL, for messages.
    pub(crate) name: String,
    /// Method, such as `GET`.
    pub(crate) method: String,
    /// The whole URL.
    pub(crate) url: String,
    /// Parts that the request was written from, if redirects are followed and the request is not
    /// raw bytes.
    pub(crate) origin: Option<Arc<RequestParts>>,
}

/// Parts that a request was written from.
#[derive(Debug, Clone)]
pub(crate) struct RequestParts {
    pub(crate) url: Url,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// Method of the request, such as `GET`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The whole URL of the request.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Bytes of the request for HTTP/1, head and body; empty if only HTTP/2 is possible.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if the request may need more than one TCP segment.
    pub(crate) fn is_long(&self) -> bool {
        self.bytes.len() > SEGMENT_BYTES_MIN
    }

    /// Expected body of a response to this method.
    pub(crate) fn expects(method: &str) -> Expects {
        match method {
            "HEAD" => Expects::NoBody,
            _ => Expects::Body,
        }
    }

    /// Creates a request without bytes.
    pub(crate) fn unwritten(method: &str, url: &Url, target: u32) -> Request {
        Request {
            bytes: Vec::new(),
            frames: None,
            bytes_in_frames: 0,
            expects: Request::expects(method),
            response_count: 1,
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

/// Header that carries the client's credentials.
const AUTHORIZATION: &str = "Authorization";

/// Number of bytes that always fit into one TCP segment (RFC 9293 §3.7.1).
const SEGMENT_BYTES_MIN: usize = 536;

/// A request before it is serialized.
pub(crate) struct RequestDraft {
    pub(crate) url: Url,
    pub(crate) method: String,
    pub(crate) body: Vec<u8>,
    /// Prefix of messages about the request: a file and line, or empty.
    pub(crate) place: String,
}

/// The serialized requests of a load.
pub(crate) struct Requests {
    pub(crate) requests: Vec<Request>,
    /// Targets of the requests.
    pub(crate) targets: Vec<Target>,
    /// Index of each target, by address.
    pub(crate) indices: TargetIndices,
    /// URL of the load, or the first one in its list.
    pub(crate) base: Url,
    /// The HTTP proxy, if there is one.
    pub(crate) proxy: Option<ResolvedProxy>,
}

/// Serializes all requests of a load and determines their targets.
///
/// # Errors
///
/// Returns a [`SpecError`] that names the flag, or the file and line.
pub(crate) fn requests(
    url: Option<&str>,
    settings: &LoadSettings,
    permits: Option<&Permits>,
    sources: &Sources,
) -> Result<Requests, SpecError> {
    let fixed = FixedAddress::all(&settings.resolve)?;
    let resolver = Resolver {
        fixed: &fixed,
        sources,
        public: settings.public,
        permits,
        chosen_by_server: false,
    };
    let proxy = ResolvedProxy::new(settings, &resolver)?;
    let proxy = proxy.as_ref();
    let headers = headers(settings)?;
    let authorization = Authorization::new(url, settings)?;
    let mut indices = TargetIndices::new();
    let mut base = None;
    let mut targets: Vec<Target> = Vec::new();
    let mut requests = Vec::new();
    for draft in drafts(url, settings)? {
        let address = (draft.url.host.clone(), draft.url.port, draft.url.tls);
        let target = match indices.get(&address) {
            Some(&index) => index,
            None => {
                let new = target_of(&draft.url, settings, &resolver, proxy)?;
                let index = match proxy {
                    // All cleartext targets behind the proxy share their connections.
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
        let own = authorization.as_ref().filter(|it| it.is_for(&draft.url));
        let headers = headers
            .iter()
            .cloned()
            .chain(own.map(Authorization::header));
        let headers: Vec<(String, String)> = headers.collect();
        let request = encode(&draft, target, &headers, settings, proxy)?;
        targets[target as usize].nodelay |= request.is_long();
        requests.push(request);
        base.get_or_insert(draft.url);
    }
    match base {
        Some(base) => Ok(Requests {
            requests,
            targets,
            indices,
            base,
            proxy: proxy.cloned(),
        }),
        None => Err(SettingsError::from("there is nothing to request").into()),
    }
}

/// Reads the requests that the settings describe, without looking up any name.
pub(crate) fn drafts(
    url: Option<&str>,
    settings: &LoadSettings,
) -> Result<Vec<RequestDraft>, SpecError> {
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
        return Ok(vec![RequestDraft {
            url,
            method: settings.method().to_owned(),
            body,
            place: String::new(),
        }]);
    };
    let lines = url_list::read(file)?;
    lines
        .into_iter()
        .map(|line| {
            let place = format!("{}:{}: ", file.display(), line.number);
            let url = Url::parse(&line.url, base.as_ref())
                .map_err(|error| SettingsError::about("urls").text(place.clone() + &error))?;
            // A line that names a method is complete: the body of the flags doesn't apply to it.
            let (method, body) = match line.method {
                Some(method) => (method, line.body.unwrap_or_default()),
                None => (settings.method().to_owned(), body.clone()),
            };
            Ok(RequestDraft {
                url,
                method,
                body,
                place,
            })
        })
        .collect()
}

/// Parses the load's own URL, which may contain credentials.
fn base_url(typed: &str) -> Result<(Url, Option<Credentials>), SpecError> {
    let split = credentials::split_url(typed)?;
    let url = Url::parse(&split.0, None)?;
    Ok((url, split.1))
}

/// Basic authentication and the requests that it applies to.
struct Authorization {
    credentials: Credentials,
    /// Server whose URL contains the credentials; `None` for `--user`, which applies to every
    /// server of the load.
    only: Option<Url>,
}

impl Authorization {
    /// Authorization of the load itself. A typed Authorization header takes precedence over
    /// credentials in the URL.
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

/// Determines the target of requests for a URL.
pub(crate) fn target_of(
    url: &Url,
    settings: &LoadSettings,
    resolver: &Resolver,
    proxy: Option<&ResolvedProxy>,
) -> Result<Target, SpecError> {
    let peer = match (&settings.unix, proxy) {
        (Some(path), _) => {
            let name = format!("unix:{}", path.display());
            let permitted = resolver.permits.map_or(Ok(()), |it| it.ask(&name, None));
            permitted?;
            unix_peer(path)?
        }
        (None, Some(proxy)) => {
            proxy.judge(url, resolver)?;
            proxy.peer().clone()
        }
        (None, None) => resolver.peer(url)?,
    };
    let tunnel = match proxy {
        Some(proxy) if url.tls => Some(proxy.tunnel(url)?),
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

/// Serializes a request.
pub(crate) fn encode(
    draft: &RequestDraft,
    target: u32,
    headers: &[(String, String)],
    settings: &LoadSettings,
    proxy: Option<&ResolvedProxy>,
) -> Result<Request, SpecError> {
    let method = draft.method.as_str();
    if method == "CONNECT" {
        let error = SettingsError::value("method", "CONNECT")
            .text(": tunnels are not loaded; name the server itself");
        return Err(error.after(draft.place.clone()).into());
    }
    let host = draft.url.host_header();
    let (whole, all);
    let (path, headers) = match proxy {
        Some(proxy) => {
            (whole, all) = (draft.url.text(), proxy.headers(&draft.url, headers));
            let path = if draft.url.tls {
                &draft.url.path
            } else {
                &whole
            };
            (path, &all[..])
        }
        None => (&draft.url.path, headers),
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
        body: &draft.body,
        keep_alive: !settings.no_keepalive,
    };
    let wrong = |error| SpecError::from(format!("{}{error}", draft.place));
    let http = Http::of(settings);
    let bytes = match http {
        Http::Two => Vec::new(),
        Http::One | Http::Agreed => h1::encode_request(&request).map_err(wrong)?,
    };
    let scheme = match draft.url.tls {
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
            Arc::new(RequestParts {
                url: draft.url.clone(),
                headers: headers.to_vec(),
                body: draft.body.clone(),
            })
        }),
        ..Request::unwritten(method, &draft.url, target)
    })
}
