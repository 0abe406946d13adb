//! Requests of a WebSocket load: the opening handshake, and the messages.

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prony_protocol::h2;
use prony_protocol::websocket::{Offer, Opcode, accept_source};

use super::serialized::{SerializedParts, encode};
use crate::request::Request;
use crate::request::draft::RequestDraft;
use crate::request::encodings::Encodings;
use crate::settings::{HttpVersion, LoadSettings};
use crate::values::error::{SettingsError, SpecError};

/// The schemes of WebSocket URLs.
const SCHEMES: [&str; 2] = ["ws://", "wss://"];
/// Headers of the handshake that the load sets itself.
const OWN_HEADERS: [&str; 5] = [
    "connection",
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-extensions",
];
/// Number of random bytes in `Sec-WebSocket-Key`.
const KEY_BYTES: usize = 16;
/// Place in the handshake at which each connection's key is inserted.
const KEY_PLACE: &str = "Sec-WebSocket-Key: ";

/// The handshake of a load's WebSockets.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// The request in HTTP/1.1, before and after the key.
    request: [Vec<u8>; 2],
    /// The request in HTTP/2 (RFC 8441), if it is used.
    pub(crate) http2: Option<h2::EncodedRequest>,
    pub(crate) offer: Offer,
    /// True if each message is received on several connections.
    pub(crate) is_fan_out: bool,
}

/// Returns true if a URL has a scheme of WebSockets.
pub(crate) fn is_websocket(url: &str) -> bool {
    let has = |scheme: &&str| {
        url.get(..scheme.len())
            .is_some_and(|it| it.eq_ignore_ascii_case(scheme))
    };
    SCHEMES.iter().any(has)
}

/// The settings of a load with this URL: a WebSocket begins with HTTP/1.1, unless the settings choose
/// HTTP/2.
///
/// # Errors
///
/// The URL and the settings contradict each other.
pub(crate) fn settings_for(
    url: Option<&str>,
    settings: &LoadSettings,
) -> Result<Option<LoadSettings>, SettingsError> {
    if !url.is_some_and(is_websocket) {
        let given = [
            ("message", !settings.message.is_empty()),
            ("message_file", !settings.message_file.is_empty()),
            ("messages", settings.messages.is_some()),
            ("binary", settings.binary),
            ("deflate", settings.deflate.is_some()),
            ("fan_out", settings.fan_out.is_some()),
        ];
        let Some((setting, _)) = given.iter().find(|(_, is_given)| *is_given) else {
            return Ok(None);
        };
        let error = SettingsError::of(setting);
        return Err(error.text(" needs a URL that begins with ws:// or wss://"));
    }
    if !settings.has_messages() {
        let error = SettingsError::from("a WebSocket load needs messages");
        return Err(error.hint("add ").and_value("message", "TEXT"));
    }
    match settings.http {
        None | Some(HttpVersion::Http11) => Ok(Some(LoadSettings {
            http: Some(HttpVersion::Http11),
            ..settings.clone()
        })),
        Some(HttpVersion::Http2) => Ok(Some(settings.clone())),
        Some(other) => {
            let error = SettingsError::value("http", other);
            Err(error.text(" is not supported for WebSockets, which begin with HTTP/1.1 or 2"))
        }
    }
}

impl Upgrade {
    /// Encodes the handshake of messages with this draft.
    ///
    /// # Errors
    ///
    /// The handshake can't be encoded, or a header contradicts it.
    pub(crate) fn new(draft: &RequestDraft, settings: &LoadSettings) -> Result<Upgrade, SpecError> {
        let mut headers = draft.headers.clone();
        let own = |name: &str| OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str());
        if let Some((name, _)) = headers.iter().find(|(name, _)| own(name)) {
            let error = SettingsError::value("header", name);
            let error = error.text(" is a header that WebSockets set themselves");
            return Err(error.into());
        }
        let is_protocol = |name: &str| name.eq_ignore_ascii_case("sec-websocket-protocol");
        let protocols = headers.iter().filter(|(name, _)| is_protocol(name));
        let protocols: Vec<&str> = protocols.map(|(_, value)| value.as_str()).collect();
        let offer = Offer {
            protocols: protocols.join(","),
            deflate: settings.deflate.as_ref().map(|offer| offer.parameters()),
        };
        for (name, value) in [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
        ] {
            headers.push((name.to_owned(), value.to_owned()));
        }
        if let Some(deflate) = &offer.deflate {
            headers.push(("Sec-WebSocket-Extensions".to_owned(), deflate.to_string()));
        }
        let mut url = draft.url.clone();
        url.is_websocket = false;
        let draft = RequestDraft::plain("GET", url, &headers, &[]);
        // A request to close the connection would contradict the handshake.
        let kept = LoadSettings {
            no_keepalive: false,
            requests_per_connection: None,
            connection_rate: None,
            ..settings.clone()
        };
        let parts = SerializedParts::new(&draft, &kept, None);
        let http2 = parts.scheme().map(|scheme| {
            h2::EncodedRequest::extended_connect(&parts.spec(), scheme, "websocket")
                .map_err(|error| SpecError::from(SettingsError::from(error.to_string())))
        });
        let http2 = http2.transpose()?;
        let before = match http2 {
            Some(_) => Vec::new(),
            None => {
                let mut head = encode(&draft, 0, &kept, None)?.http1().to_vec();
                head.truncate(head.len() - b"\r\n".len());
                head.extend_from_slice(KEY_PLACE.as_bytes());
                head
            }
        };
        Ok(Upgrade {
            request: [before, b"\r\n\r\n".to_vec()],
            http2,
            offer,
            is_fan_out: settings.fan_out.is_some(),
        })
    }

    /// The request in HTTP/1.1 for one connection, with a random key, and the expected value of
    /// `Sec-WebSocket-Accept`.
    pub(crate) fn with_key(&self) -> (Vec<u8>, String) {
        let mut key = [0; KEY_BYTES];
        // Without random numbers, the key is not random, which only proxies could exploit.
        let _ = rand::fill(&mut key);
        let key = STANDARD.encode(key);
        let source = accept_source(&key);
        let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, source.as_bytes());
        let [before, after] = &self.request;
        let request = [before, key.as_bytes(), after].concat();
        (request, STANDARD.encode(hash))
    }
}

/// Encodes a message as a request.
pub(crate) fn encode_message(
    draft: &RequestDraft,
    target: u32,
    settings: &LoadSettings,
) -> Request {
    let opcode = if settings.binary {
        Opcode::Binary
    } else {
        Opcode::Text
    };
    let payload = draft.body.clone();
    Request {
        encodings: Encodings::Message { opcode, payload },
        idempotent: false,
        ..Request::unwritten("GET", &draft.shown_url(), target)
    }
}
