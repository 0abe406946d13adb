//! Requests of a WebSocket load: the opening handshake, and the messages.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prony_protocol::websocket::{Opcode, accept_source, write_frame};
use prony_record::random_at;

use crate::exchange::RequestKind;
use crate::request::Request;
use crate::request::draft::RequestDraft;
use crate::request::encodings::Encodings;
use crate::settings::{HttpVersion, LoadSettings};
use crate::values::error::{SettingsError, SpecError};

use super::serialized::encode;

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

/// The handshake of a load's WebSockets.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// The request, in HTTP/1.1.
    pub(crate) request: Vec<u8>,
    /// The expected value of `Sec-WebSocket-Accept`.
    pub(crate) accept: String,
    /// The offered subprotocols, separated by commas.
    pub(crate) protocols: String,
}

/// Returns true if a URL has a scheme of WebSockets.
pub(crate) fn is_websocket(url: &str) -> bool {
    let has = |scheme: &&str| {
        url.get(..scheme.len())
            .is_some_and(|it| it.eq_ignore_ascii_case(scheme))
    };
    SCHEMES.iter().any(has)
}

/// The settings of a load with this URL: a WebSocket begins with HTTP/1.1.
///
/// # Errors
///
/// The URL and the settings contradict each other.
pub(crate) fn settings_for(
    url: Option<&str>,
    settings: &LoadSettings,
) -> Result<Option<LoadSettings>, SettingsError> {
    if !url.is_some_and(is_websocket) {
        if settings.message.is_empty() {
            return Ok(None);
        }
        let error =
            SettingsError::of("message").text(" needs a URL that begins with ws:// or wss://");
        return Err(error);
    }
    if settings.message.is_empty() {
        let error = SettingsError::from("a WebSocket load needs messages");
        return Err(error.hint("add ").and_value("message", "TEXT"));
    }
    match settings.http {
        None | Some(HttpVersion::Http11) => Ok(Some(LoadSettings {
            http: Some(HttpVersion::Http11),
            ..settings.clone()
        })),
        Some(other) => {
            let error = SettingsError::value("http", other);
            Err(error.text(" is not supported for WebSockets, which begin with HTTP/1.1"))
        }
    }
}

/// Encodes the handshake, and each message as a request.
///
/// # Errors
///
/// The handshake can't be encoded, or a header contradicts it.
pub(crate) fn encode_messages(
    draft: &RequestDraft,
    target: u32,
    settings: &LoadSettings,
) -> Result<(Upgrade, Vec<Request>), SpecError> {
    if draft.marks.is_some() {
        let error = SettingsError::from("placeholders are not supported in WebSocket loads");
        return Err(error.into());
    }
    let seed = settings.seed.unwrap_or(0);
    let random = |index| random_at(seed, index).to_be_bytes();
    let mut headers = draft.headers.clone();
    let own = |name: &str| OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str());
    if let Some((name, _)) = headers.iter().find(|(name, _)| own(name)) {
        let error = SettingsError::value("header", name);
        return Err(error
            .text(" is a header that WebSockets set themselves")
            .into());
    }
    let is_protocol = |name: &str| name.eq_ignore_ascii_case("sec-websocket-protocol");
    let protocols = headers.iter().filter(|(name, _)| is_protocol(name));
    let protocols: Vec<&str> = protocols.map(|(_, value)| value.as_str()).collect();
    let protocols = protocols.join(",");
    let key = STANDARD.encode([random(0), random(1)].concat());
    for (name, value) in [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Key", &key),
        ("Sec-WebSocket-Version", "13"),
    ] {
        headers.push((name.to_owned(), value.to_owned()));
    }
    let draft = RequestDraft::plain("GET", draft.url.clone(), &headers, &[]);
    // A request to close the connection would contradict the handshake.
    let kept = LoadSettings {
        no_keepalive: false,
        requests_per_connection: None,
        connection_rate: None,
        ..settings.clone()
    };
    let handshake = encode(&draft, target, &kept, None)?;
    let source = accept_source(&key);
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, source.as_bytes());
    let opcode = if settings.binary {
        Opcode::Binary
    } else {
        Opcode::Text
    };
    let messages = settings.message.iter().zip(2..).map(|(message, index)| {
        let [a, b, c, d, ..] = random(index);
        let mut frame = Vec::new();
        write_frame(opcode, message.as_bytes(), [a, b, c, d], &mut frame);
        Request {
            encodings: Encodings::Http1(frame),
            kind: RequestKind::Single,
            idempotent: false,
            closes: false,
            origin: None,
            ..handshake.clone()
        }
    });
    let upgrade = Upgrade {
        request: handshake.http1().to_vec(),
        accept: STANDARD.encode(hash),
        protocols,
    };
    Ok((upgrade, messages.collect()))
}
