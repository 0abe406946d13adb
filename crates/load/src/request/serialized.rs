//! A request, serialized once for each HTTP version that may be used.

use std::borrow::Cow;
use std::sync::Arc;

use prony_protocol::h1::{self, Expects, RequestError, Version};
use prony_protocol::h2::{self, RequestScheme};
use prony_protocol::h3;

use crate::exchange::RequestKind;
use crate::request::draft::RequestDraft;
use crate::request::encodings::Encodings;
use crate::request::protocols::Http;
use crate::settings::{HttpVersion, LoadSettings};
use crate::target::http_proxy::ResolvedProxy;
use crate::values::error::{SettingsError, SpecError};
use crate::values::url::Url;

/// A request in serialized form, ready to be sent.
#[derive(Debug, Clone)]
pub struct Request {
    /// The request for each HTTP version that may carry it.
    pub(crate) encodings: Encodings,
    /// Kind of body that a response to this request may have.
    pub(crate) expects: Expects,
    /// The kind of exchange that the request begins.
    pub(crate) kind: RequestKind,
    /// True if the request may be sent again if a reused connection closed before the response (RFC
    /// 9110 §9.2.2).
    pub(crate) idempotent: bool,
    /// True if the request's HTTP/1 head asks the server to close the connection, so that no other
    /// request may follow on it.
    pub(crate) closes: bool,
    /// Index of the request's [`Target`](crate::target::Target).
    pub(crate) target: u32,
    /// Method and URL, for messages.
    pub(crate) name: String,
    /// Method, such as `GET`.
    pub(crate) method: String,
    /// The whole URL.
    pub(crate) url: String,
    /// Parts that the request was encoded from; `None` if neither redirects, cookies nor a script
    /// need them, or if the request is raw bytes.
    pub(crate) origin: Option<Arc<RequestParts>>,
}

/// Parts that a request was encoded from.
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

    /// Head and body for HTTP/1; empty if only later versions are possible.
    #[inline]
    pub fn http1(&self) -> &[u8] {
        self.encodings.http1()
    }

    /// Returns true if the request may need more than one TCP segment.
    pub(crate) fn is_long(&self) -> bool {
        self.http1().len() > SEGMENT_BYTES_MIN
    }

    /// Kind of body that is expected in a response to this method.
    pub(crate) fn expects(method: &str) -> Expects {
        match method {
            "HEAD" => Expects::NoBody,
            _ => Expects::Body,
        }
    }

    /// Creates a request with empty encodings.
    pub(crate) fn unwritten(method: &str, url: &str, target: u32) -> Request {
        Request {
            encodings: Encodings::Http1(Vec::new()),
            expects: Request::expects(method),
            kind: RequestKind::Single,
            idempotent: matches!(
                method,
                "GET" | "HEAD" | "PUT" | "DELETE" | "OPTIONS" | "TRACE"
            ),
            closes: false,
            target,
            name: format!("{method} {url}"),
            method: method.to_owned(),
            url: url.to_owned(),
            origin: None,
        }
    }
}

/// Number of bytes that always fit into one TCP segment (RFC 9293 §3.7.1).
const SEGMENT_BYTES_MIN: usize = 536;

/// The parts of a draft in the form that the serializers take.
pub(crate) struct SerializedParts<'a> {
    draft: &'a RequestDraft,
    host: String,
    path: Cow<'a, str>,
    headers: Cow<'a, [(String, String)]>,
    version: Version,
    keep_alive: bool,
    http: Http,
}

impl<'a> SerializedParts<'a> {
    pub(crate) fn new(
        draft: &'a RequestDraft,
        settings: &LoadSettings,
        proxy: Option<&ResolvedProxy>,
    ) -> SerializedParts<'a> {
        let url = &draft.url;
        let (path, headers) = match proxy {
            Some(proxy) => {
                let path = if url.tls {
                    Cow::from(&url.path)
                } else {
                    Cow::from(url.text())
                };
                (path, Cow::from(proxy.headers(url, &draft.headers)))
            }
            None => (Cow::from(&url.path), Cow::from(&draft.headers)),
        };
        SerializedParts {
            draft,
            host: url.host_header(),
            path,
            headers,
            version: match settings.http {
                Some(HttpVersion::Http10) => Version::Http10,
                _ => Version::Http11,
            },
            keep_alive: settings.reuses_connections(),
            http: Http::of(settings),
        }
    }

    /// Returns the parts as the encoders of the HTTP versions take them.
    pub(crate) fn spec(&self) -> h1::RequestSpec<'_> {
        h1::RequestSpec {
            method: &self.draft.method,
            target: &self.path,
            version: self.version,
            host: &self.host,
            headers: &self.headers,
            body: &self.draft.body,
            keep_alive: self.keep_alive,
        }
    }

    /// Encodes the request for each HTTP version that may carry it.
    fn encode(&self) -> Result<Encodings, RequestError> {
        let request = self.spec();
        let http1 = || h1::encode_request(&request);
        let http2 = |scheme| h2::EncodedRequest::new(&request, scheme);
        Ok(match (self.http, self.scheme()) {
            (Http::Three, _) => {
                Encodings::Http3(h3::EncodedRequest::new(&request, RequestScheme::Https)?)
            }
            (Http::Two, Some(scheme)) => Encodings::Http2(http2(scheme)?),
            (_, Some(scheme)) => Encodings::Http1Or2 {
                http1: http1()?,
                http2: http2(scheme)?,
            },
            (_, None) => Encodings::Http1(http1()?),
        })
    }

    /// Returns true if the request is for HTTP/3.
    pub(crate) fn is_http3(&self) -> bool {
        self.http == Http::Three
    }

    /// The scheme for HTTP/2; `None` if HTTP/2 is not possible.
    pub(crate) fn scheme(&self) -> Option<RequestScheme> {
        let scheme = match self.draft.url.tls {
            true => Some(RequestScheme::Https),
            false if self.http == Http::Two => Some(RequestScheme::Http),
            false => None,
        };
        scheme.filter(|_| matches!(self.http, Http::Two | Http::Agreed))
    }
}

/// Returns true if redirects, cookies or a script need the parts of requests.
fn keeps_parts(settings: &LoadSettings) -> bool {
    settings.follow.unwrap_or(0) > 0 || settings.uses_cookies() || settings.script.is_some()
}

/// Serializes a request.
pub(crate) fn encode(
    draft: &RequestDraft,
    target: u32,
    settings: &LoadSettings,
    proxy: Option<&ResolvedProxy>,
) -> Result<Request, SpecError> {
    let method = draft.method.as_str();
    if method == "CONNECT" {
        let error = SettingsError::value("method", "CONNECT")
            .text(": CONNECT is not supported")
            .hint("use a method that the server itself handles");
        return Err(error.at(&draft.place).into());
    }
    if draft.url.is_websocket {
        let error = SettingsError::from("a WebSocket can only be the load's own URL, with ");
        return Err(error.name("message").at(&draft.place).into());
    }
    let parts = SerializedParts::new(draft, settings, proxy);
    let wrong = |error: RequestError| {
        let text = error.to_string();
        let marks = draft.marks.as_ref();
        let text = marks.map_or(text.clone(), |marks| marks.unmark(&text));
        SpecError::from(SettingsError::from(text).at(&draft.place))
    };
    let encodings = parts.encode().map_err(wrong)?;
    Ok(Request {
        closes: h1::asks_to_close(encodings.http1()),
        encodings,
        origin: keeps_parts(settings).then(|| {
            Arc::new(RequestParts {
                url: draft.url.clone(),
                headers: parts.headers.to_vec(),
                body: draft.body.clone(),
            })
        }),
        ..Request::unwritten(method, &draft.shown_url(), target)
    })
}
