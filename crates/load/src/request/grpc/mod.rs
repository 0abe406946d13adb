//! gRPC calls: their methods, from descriptors, and their messages, which are encoded once before
//! the load unless their values change.

mod changing;
mod message;
mod schema;

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::exchange::{CallRules, RequestKind};
use crate::settings::{GrpcMethod, HttpVersion, LoadSettings};
use crate::values::error::SettingsError;

pub(crate) use changing::changing_messages;
pub(crate) use message::{MessageEncoder, ResponseDecoder};
use schema::CallSchema;
pub(crate) use schema::undescribed;
pub use schema::{compiled_schema, proto_imports};

/// Name and value of a header.
type HeaderPair = (String, String);

/// Creates the calls of a load.
pub(crate) struct CallReader<'a> {
    schema: CallSchema,
    settings: &'a LoadSettings,
    message_bytes_max: u32,
}

impl<'a> CallReader<'a> {
    /// Reads the descriptors of the methods; `None` if the load calls none.
    ///
    /// # Errors
    ///
    /// The settings contradict gRPC, or the descriptors can't be read.
    pub(crate) fn of(settings: &'a LoadSettings) -> Result<Option<CallReader<'a>>, SettingsError> {
        if !settings.has_calls() {
            return Ok(None);
        }
        if let Some(http @ (HttpVersion::Http10 | HttpVersion::Http11)) = settings.http {
            let error = SettingsError::of("grpc").text(" can't be combined with ");
            let error = error.and_value("http", http);
            return Err(error.text(", which has no trailers").hint("use HTTP/2"));
        }
        let max = settings.grpc_message_max();
        let message_bytes_max = u32::try_from(max).map_err(|_| {
            let error = SettingsError::value("grpc_message_max", max);
            error.text(": a message has less than 4 GiB")
        })?;
        Ok(Some(CallReader {
            schema: CallSchema::of(settings)?,
            settings,
            message_bytes_max,
        }))
    }

    /// Finds a method.
    ///
    /// # Errors
    ///
    /// The descriptors lack it.
    pub(crate) fn method(&self, name: &GrpcMethod) -> Result<CallMethod, SettingsError> {
        let descriptor = self.schema.method(name)?;
        let timeout = self.settings.timeout();
        // The timeout of a stream covers the time until its first message only.
        let has_deadline = !descriptor.is_server_streaming() && timeout > Duration::ZERO;
        Ok(CallMethod {
            encoder: MessageEncoder {
                method: descriptor,
                is_gzip: self.settings.grpc_gzip,
            },
            deadline: has_deadline.then_some(timeout),
        })
    }

    /// Rules for the responses of calls, some of which are streams or not.
    pub(crate) fn rules(&self, has_streams: bool) -> CallRules {
        CallRules {
            message_bytes_max: self.message_bytes_max,
            accepts_compressed: self.settings.grpc_gzip,
            has_streams,
        }
    }
}

/// A method that a load calls.
pub(crate) struct CallMethod {
    pub(crate) encoder: MessageEncoder,
    /// Time limit that the server sees.
    deadline: Option<Duration>,
}

impl CallMethod {
    /// The kind of the calls.
    pub(crate) fn kind(&self) -> RequestKind {
        let is_stream = self.encoder.method.is_server_streaming();
        RequestKind::Call { is_stream }
    }

    /// The decoder of the responses.
    pub(crate) fn decoder(&self) -> ResponseDecoder {
        ResponseDecoder {
            kind: self.encoder.method.output(),
            is_stream: self.encoder.method.is_server_streaming(),
        }
    }

    /// URL of the method on the server with the given URL. If that is empty, the path of the method.
    pub(crate) fn url(&self, server: &str) -> Result<String, SettingsError> {
        let method = &self.encoder.method;
        let (service, method) = (method.parent_service(), method.name());
        let path = format!("/{}/{method}", service.full_name());
        let after_scheme = server.find("://").map_or(0, |at| at + 3);
        let host = server.strip_suffix(&path).unwrap_or(server);
        let host = host.trim_end_matches('/');
        if host.len() > after_scheme && host[after_scheme..].contains(['/', '?', '#']) {
            let error = format!("\"{server}\" has a path, but the path of a call is its method");
            return Err(SettingsError::from(error).hint("give the server without a path"));
        }
        Ok(host.to_owned() + &path)
    }

    /// The headers of a call, without those that the user gave.
    pub(crate) fn headers(&self) -> Vec<HeaderPair> {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![
            pair("content-type", "application/grpc"),
            pair("te", "trailers"),
        ];
        if let Some(deadline) = self.deadline {
            headers.push(pair("grpc-timeout", &timeout_text(deadline)));
        }
        if self.encoder.is_gzip {
            headers.push(pair("grpc-encoding", "gzip"));
            headers.push(pair("grpc-accept-encoding", "gzip"));
        }
        headers
    }
}

/// Returns true if responses are read as streams: of events, or of the messages of gRPC calls.
pub fn has_streamed_responses(settings: &LoadSettings) -> bool {
    let streams = || {
        let reader = CallReader::of(settings).ok()??;
        let methods = settings.grpc_methods();
        let mut methods = methods.iter().filter_map(|name| reader.method(name).ok());
        Some(methods.any(|method| method.kind().may_stream()))
    };
    settings.events.is_some() || streams().unwrap_or(false)
}

/// Base64 with or without padding, as metadata may have it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Checks the values of binary metadata, whose names end in `-bin`, and removes their padding.
pub(crate) fn checked_metadata(headers: Vec<HeaderPair>) -> Result<Vec<HeaderPair>, SettingsError> {
    let checked = headers.into_iter().map(|(name, value)| {
        let is_binary = name.trim().to_ascii_lowercase().ends_with("-bin");
        if !is_binary || value.contains("{{") {
            return Ok((name, value));
        }
        match BASE64.decode(&value) {
            Ok(bytes) => Ok((name, BASE64.encode(bytes))),
            Err(_) => Err(
                SettingsError::value("header", format!("\"{name}: {value}\""))
                    .text(": binary metadata (-bin) is written in base64"),
            ),
        }
    });
    checked.collect()
}

/// Writes a timeout as the header `grpc-timeout` has it: at most eight digits and a unit.
fn timeout_text(timeout: Duration) -> String {
    const DIGITS_MAX: u128 = 99_999_999;
    let units = [
        (timeout.as_nanos(), 'n'),
        (timeout.as_micros(), 'u'),
        (timeout.as_millis(), 'm'),
    ];
    match units.into_iter().find(|(number, _)| *number <= DIGITS_MAX) {
        Some((number, unit)) => format!("{number}{unit}"),
        None => format!("{}S", u128::from(timeout.as_secs()).min(DIGITS_MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_at_most_eight_digits() {
        for (timeout, text) in [
            (Duration::from_millis(50), "50000000n"),
            (Duration::from_millis(100), "100000u"),
            (Duration::from_secs(20), "20000000u"),
            (Duration::from_secs(3600), "3600000m"),
            (Duration::from_secs(1_000_000), "1000000S"),
        ] {
            assert_eq!(timeout_text(timeout), text);
        }
    }

    #[test]
    fn binary_metadata_is_sent_without_padding() {
        let checked = |value: &str| checked_metadata(vec![("Id-Bin".to_owned(), value.to_owned())]);
        assert_eq!(checked("AQI=").unwrap()[0].1, "AQI");
        assert_eq!(checked("AQI").unwrap()[0].1, "AQI");
        assert!(checked("!").is_err());
    }
}
