//! The texts of `grpc-message`, which explain why gRPC calls failed.

use std::num::NonZeroU8;

use super::fields::{CallMessageId, Field, Meaning, Name, NameKind};

/// Maximum number of texts that are kept for a connection. Others are dropped.
const MESSAGES_MAX: usize = 32;

/// Maximum length of a kept text in bytes; the rest is dropped.
const MESSAGE_BYTES_MAX: usize = 256;

/// The texts of `grpc-message` that a connection has received, each once, as they were sent:
/// percent-encoded. A server can't make them use more than a few KiB.
#[derive(Debug, Default)]
pub(crate) struct CallMessages {
    texts: Vec<Box<[u8]>>,
}

impl CallMessages {
    /// Interprets a field, and keeps its value if it is a `grpc-message`.
    #[inline]
    pub(crate) fn field(&mut self, name: Name, value: &[u8]) -> Field {
        let mut field = Field::read(name, value);
        if name.kind == NameKind::GrpcMessage && field.meaning == Meaning::Regular {
            field.meaning = self
                .keep(value)
                .map_or(Meaning::Regular, Meaning::GrpcMessage);
        }
        field
    }

    #[cold]
    fn keep(&mut self, text: &[u8]) -> Option<CallMessageId> {
        let text = &text[..text.len().min(MESSAGE_BYTES_MAX)];
        let known = self.texts.iter().position(|known| **known == *text);
        let at = match known {
            Some(at) => at,
            None if text.is_empty() || self.texts.len() == MESSAGES_MAX => return None,
            None => {
                self.texts.push(text.into());
                self.texts.len() - 1
            }
        };
        NonZeroU8::new(at as u8 + 1).map(CallMessageId)
    }

    /// Returns the text with this identifier.
    pub(crate) fn get(&self, id: CallMessageId) -> &[u8] {
        let at = usize::from(id.0.get()) - 1;
        self.texts.get(at).map_or(&[], |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_number_of_bounded_texts_is_kept() {
        let mut messages = CallMessages::default();
        let name = Name::read(b"grpc-message");
        let mut id = |value: &[u8]| match messages.field(name, value).meaning {
            Meaning::GrpcMessage(id) => Some(id),
            _ => None,
        };
        let first = id(b"no%20tea").unwrap();
        assert_eq!(id(b"no%20tea"), Some(first));
        assert_eq!(id(b""), None);
        let long = id(&[b'x'; 70_000]).unwrap();
        for number in 2..100 {
            let is_kept = id(format!("{number}").as_bytes()).is_some();
            assert_eq!(is_kept, number < MESSAGES_MAX);
        }
        assert_eq!(id(b"no%20tea"), Some(first));
        assert_eq!(messages.get(first), b"no%20tea");
        assert_eq!(messages.get(long), [b'x'; MESSAGE_BYTES_MAX]);
    }
}
