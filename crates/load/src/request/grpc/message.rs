//! Messages: from JSON to protobuf, compressed if they should be.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prony_protocol::grpc::write_message;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};

/// Encodes the messages that `json` describes, with their prefixes.
pub(super) fn encode(
    method: &MethodDescriptor,
    json: &str,
    is_gzip: bool,
) -> Result<Vec<u8>, String> {
    let mut encoded = Vec::new();
    for message in messages(method, json)? {
        if is_gzip {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            let compressed = encoder.write_all(&message).and_then(|()| encoder.finish());
            let compressed = compressed.map_err(|error| error.to_string())?;
            write_message(&compressed, true, &mut encoded);
        } else {
            write_message(&message, false, &mut encoded);
        }
    }
    Ok(encoded)
}

fn messages(method: &MethodDescriptor, json: &str) -> Result<Vec<Vec<u8>>, String> {
    let kind = method.input();
    let is_list = json.trim_start().starts_with('[');
    match (is_list, method.is_client_streaming()) {
        (true, true) => {
            let list: Vec<serde_json::Value> =
                serde_json::from_str(json).map_err(|error| error.to_string())?;
            let each = list.into_iter().enumerate().map(|(index, value)| {
                let message = DynamicMessage::deserialize(kind.clone(), value);
                let message = message.map_err(|error| format!("message {}: {error}", index + 1))?;
                Ok(message.encode_to_vec())
            });
            each.collect()
        }
        (true, false) => Err(format!(
            "{} takes one message, not a list",
            method.full_name()
        )),
        (false, _) => Ok(vec![message(kind, json)?]),
    }
}

fn message(kind: MessageDescriptor, json: &str) -> Result<Vec<u8>, String> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(kind.clone(), &mut reader)
        .and_then(|message| reader.end().map(|()| message));
    let message = message.map_err(|error| format!("not a {}: {error}", kind.full_name()))?;
    Ok(message.encode_to_vec())
}
