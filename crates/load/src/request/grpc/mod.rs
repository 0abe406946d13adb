//! gRPC calls: their methods, from descriptors, and their messages, which are encoded once before
//! the load.

mod message;
mod schema;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use prost_reflect::MethodDescriptor;

use crate::exchange::CallRules;
use crate::request::template::{CellSet, MarkedPiece, Marks, Value};
use crate::settings::{HttpVersion, LoadSettings};
use crate::values::error::{SettingsError, SpecError};
use crate::values::input_file::DATA_BYTES_MAX;

pub use schema::{compiled_schema, proto_imports};

/// The method that a load calls.
pub(crate) struct CallMethod {
    descriptor: MethodDescriptor,
    is_gzip: bool,
    pub(crate) rules: CallRules,
}

/// Name and value of a header.
type HeaderPair = (String, String);

impl CallMethod {
    /// Finds the method that the settings name in its descriptors; `None` if the load doesn't call
    /// one.
    ///
    /// # Errors
    ///
    /// The settings contradict gRPC, the descriptors can't be read, or they lack the method.
    pub(crate) fn of(settings: &LoadSettings) -> Result<Option<CallMethod>, SettingsError> {
        let Some(name) = &settings.grpc else {
            return Ok(None);
        };
        if let Some(http @ (HttpVersion::Http10 | HttpVersion::Http11)) = settings.http {
            let error = SettingsError::of("grpc").text(" can't be combined with ");
            let error = error.and_value("http", http);
            return Err(error.text(", which has no trailers").hint("use HTTP/2"));
        }
        let descriptor = schema::method(name, settings)?;
        let max = settings.grpc_message_max();
        let message_bytes_max = u32::try_from(max).map_err(|_| {
            let error = SettingsError::value("grpc_message_max", max);
            error.text(": a message has less than 4 GiB")
        })?;
        Ok(Some(CallMethod {
            rules: CallRules {
                message_bytes_max,
                accepts_compressed: settings.grpc_gzip,
                is_stream: descriptor.is_server_streaming(),
            },
            is_gzip: settings.grpc_gzip,
            descriptor,
        }))
    }

    /// URL of the method on the server with the given URL.
    pub(crate) fn url(&self, server: &str) -> Result<String, SettingsError> {
        let (service, method) = (self.descriptor.parent_service(), self.descriptor.name());
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
    pub(crate) fn headers(&self, settings: &LoadSettings) -> Vec<HeaderPair> {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = vec![
            pair("content-type", "application/grpc"),
            pair("te", "trailers"),
        ];
        // The timeout of a stream covers the time until its first message only.
        if !self.rules.is_stream && settings.timeout() > Duration::ZERO {
            headers.push(pair("grpc-timeout", &timeout_text(settings.timeout())));
        }
        if self.is_gzip {
            headers.push(pair("grpc-encoding", "gzip"));
            headers.push(pair("grpc-accept-encoding", "gzip"));
        }
        headers
    }

    /// Encodes the messages that `json` describes, with their prefixes: one, or a list of them if
    /// the method takes a stream.
    pub(crate) fn messages(&self, json: &str) -> Result<Vec<u8>, String> {
        message::encode(&self.descriptor, json, self.is_gzip)
    }
}

/// Encodes the messages of each row of the data file. `marked` is their JSON with marks in place of
/// the row's values.
pub(crate) fn messages_of_rows(
    method: &CallMethod,
    marked: &str,
    marks: &Marks,
    rows: usize,
) -> Result<Arc<CellSet>, SettingsError> {
    let is_column = |value: &Value| matches!(value, Value::Column(_));
    if !marks.values().iter().all(is_column) {
        let error = SettingsError::from(
            "a message is encoded before the load, so its placeholders can only be columns of ",
        );
        return Err(error.name("data"));
    }
    let pieces = marks.split(marked.as_bytes());
    let (mut json, mut all) = (Vec::new(), CellSet::default());
    for row in 0..rows {
        json.clear();
        for piece in &pieces {
            match piece {
                MarkedPiece::Bytes(bytes) => json.extend_from_slice(bytes),
                MarkedPiece::Value(number) => {
                    if let Some(Value::Column(cells)) = marks.values().get(*number) {
                        json.extend_from_slice(cells.cell(row));
                    }
                }
            }
        }
        let in_row = |error: String| SettingsError::from(format!("row {}: {error}", row + 1));
        let text = std::str::from_utf8(&json).map_err(|error| in_row(error.to_string()))?;
        all.push(&method.messages(text).map_err(in_row)?);
        if all.bytes() as u64 > DATA_BYTES_MAX {
            return Err(in_row("the messages need more than 1 GiB".to_owned()));
        }
    }
    Ok(Arc::new(all))
}

/// Returns true if responses are read as streams: of events, or of the messages of gRPC calls.
pub fn has_streamed_responses(settings: &LoadSettings) -> bool {
    let method = || CallMethod::of(settings).ok().flatten();
    settings.events.is_some() || method().is_some_and(|method| method.rules.is_stream)
}

/// Base64 with or without padding, as metadata may have it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Checks the values of binary metadata, whose names end in `-bin`, and removes their padding.
pub(crate) fn checked_metadata(headers: Vec<HeaderPair>) -> Result<Vec<HeaderPair>, SpecError> {
    let checked = headers.into_iter().map(|(name, value)| {
        let is_binary = name.trim().to_ascii_lowercase().ends_with("-bin");
        if !is_binary || value.contains("{{") {
            return Ok((name, value));
        }
        match BASE64.decode(&value) {
            Ok(bytes) => Ok((name, BASE64.encode(bytes))),
            Err(_) => Err(
                SettingsError::value("header", format!("\"{name}: {value}\""))
                    .text(": binary metadata (-bin) is written in base64")
                    .into(),
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
