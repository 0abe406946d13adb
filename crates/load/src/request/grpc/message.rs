//! Messages: from JSON to protobuf, compressed if they should be, and back.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use prony_protocol::grpc::{PREFIX_BYTES, write_message};
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions};

/// Maximum length of a decompressed message in a response, in bytes.
const DECOMPRESSED_BYTES_MAX: u64 = 4 << 20;

/// Encodes the messages of a method's calls.
#[derive(Debug, Clone)]
pub(crate) struct MessageEncoder {
    pub(super) method: MethodDescriptor,
    pub(super) is_gzip: bool,
}

impl MessageEncoder {
    /// Encodes the messages that `json` describes, with their prefixes: one, or a list of them if
    /// the method takes a stream.
    pub(crate) fn encode(&self, json: &str) -> Result<Vec<u8>, String> {
        let mut encoded = Vec::new();
        for message in messages(&self.method, json)? {
            if self.is_gzip {
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
}

/// Decodes the messages of the responses to a method's calls.
#[derive(Debug, Clone)]
pub(crate) struct ResponseDecoder {
    pub(super) kind: MessageDescriptor,
    pub(super) is_stream: bool,
}

impl ResponseDecoder {
    /// Returns the message in a body as JSON. A body with a stream becomes a list of its complete
    /// messages. Fields without a value have their defaults.
    pub(crate) fn json(&self, mut body: &[u8]) -> Result<Vec<u8>, String> {
        let mut json = Vec::new();
        while let Some((prefix, rest)) = body.split_first_chunk::<PREFIX_BYTES>() {
            let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
            let Some((message, rest)) = rest.split_at_checked(length as usize) else {
                break;
            };
            body = rest;
            json.push(if json.is_empty() { b'[' } else { b',' });
            let plain = match prefix[0] {
                0 => message.to_vec(),
                _ => decompressed(message)?,
            };
            let message = DynamicMessage::decode(self.kind.clone(), &*plain);
            let message = message.map_err(|error| self.unreadable(&error.to_string()))?;
            let mut serializer = serde_json::Serializer::new(&mut json);
            let options = SerializeOptions::new().skip_default_fields(false);
            let written = message.serialize_with_options(&mut serializer, &options);
            written.map_err(|error| self.unreadable(&error.to_string()))?;
        }
        match (json.is_empty(), self.is_stream) {
            (true, true) => json.push(b'['),
            (true, false) => return Err(self.unreadable("it is incomplete")),
            (false, true) => {}
            (false, false) => return Ok(json.split_off(1)),
        }
        json.push(b']');
        Ok(json)
    }

    fn unreadable(&self, cause: &str) -> String {
        format!("the response is not a {}: {cause}", self.kind.full_name())
    }
}

/// Decompresses a message, up to a limit.
fn decompressed(message: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let mut decoder = GzDecoder::new(message).take(DECOMPRESSED_BYTES_MAX + 1);
    let read = decoder.read_to_end(&mut plain);
    match read {
        Ok(_) if plain.len() as u64 > DECOMPRESSED_BYTES_MAX => {
            Err("a decompressed message has more than 4 MiB".to_owned())
        }
        Ok(_) => Ok(plain),
        Err(error) => Err(format!("a message can't be decompressed: {error}")),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(is_stream: bool) -> ResponseDecoder {
        let pool = prost_reflect::DescriptorPool::global();
        let kind = pool.get_message_by_name("google.protobuf.Duration");
        ResponseDecoder {
            kind: kind.unwrap(),
            is_stream,
        }
    }

    fn body(messages: &[(&[u8], bool)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (message, is_compressed) in messages {
            write_message(message, *is_compressed, &mut body);
        }
        body
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn responses_become_json() {
        let second: &[u8] = &[8, 1];
        let json = |is_stream, body: &[u8]| decoder(is_stream).json(body);
        let text = |json: Result<Vec<u8>, String>| String::from_utf8(json.unwrap()).unwrap();
        let (plain, zipped) = ((second, false), gzipped(second));
        assert_eq!(text(json(false, &body(&[plain]))), "\"1s\"");
        let two = body(&[plain, (&zipped, true)]);
        assert_eq!(text(json(true, &two)), "[\"1s\",\"1s\"]");
        assert_eq!(text(json(true, &two[..two.len() - 1])), "[\"1s\"]");
        assert_eq!(text(json(true, &[])), "[]");
        for wrong in [&[][..], &[0, 0, 0, 0, 2, 8], &[0, 255, 255, 255, 255, 8]] {
            assert!(json(false, wrong).unwrap_err().contains("incomplete"));
        }
        assert!(json(false, &body(&[(&[8], false)])).is_err());
        let corrupt = json(false, &body(&[(second, true)])).unwrap_err();
        assert!(corrupt.contains("can't be decompressed"), "{corrupt}");
        // A small message that becomes a very large one.
        let bomb = gzipped(&vec![0; 64 << 20]);
        let error = json(false, &body(&[(&bomb, true)])).unwrap_err();
        assert!(error.contains("more than 4 MiB"), "{error}");
    }
}
