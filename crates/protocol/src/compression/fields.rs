//! Interpretation of response fields, and errors in them (RFC 9113 §8.2, §8.3; RFC 9114 §4.2,
//! §4.3).

use std::fmt;
use std::num::NonZeroU8;

use super::FIELD_OVERHEAD_BYTES;
use crate::field::{is_token, is_value, trim};

/// Error in the fields of a response, which makes the response malformed (RFC 9113 §8.1.1, RFC 9114
/// §4.1.2). The error ends the stream, but not the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldFault {
    /// An uppercase letter in a name (RFC 9113 §8.2.1, RFC 9114 §4.2).
    UppercaseName,
    /// A name that is empty or not a token (RFC 9113 §8.2.1, RFC 9110 §5.1).
    Name,
    /// A control character in a value (RFC 9113 §8.2.1, RFC 9110 §5.5).
    Value,
    /// White space before or after a value (RFC 9113 §8.2.1).
    SpaceAroundValue,
    /// A pseudo-header field other than `:status` (RFC 9113 §8.3, RFC 9114 §4.3).
    PseudoHeader,
    /// A pseudo-header field after another field (RFC 9113 §8.3, RFC 9114 §4.3).
    PseudoHeaderLate,
    /// A pseudo-header field in the trailers (RFC 9113 §8.1, RFC 9114 §4.3).
    PseudoHeaderInTrailers,
    /// A missing `:status` (RFC 9113 §8.3.2, RFC 9114 §4.3.2).
    NoStatus,
    /// A second `:status` (RFC 9113 §8.3).
    StatusTwice,
    /// A `:status` that is not three digits (RFC 9113 §8.3.2).
    Status,
    /// A field that applies only to an HTTP/1.1 connection, such as Transfer-Encoding (RFC 9113
    /// §8.2.2, RFC 9114 §4.2).
    ConnectionSpecific,
    /// A Content-Length that isn't a number of at most 64 bits (RFC 9110 §8.6).
    Length,
    /// Two different values of Content-Length (RFC 9113 §8.1.1).
    LengthsDiffer,
    /// A field list larger than SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113 §10.5.1) or
    /// SETTINGS_MAX_FIELD_SECTION_SIZE (RFC 9114 §4.2.2) allows.
    ListTooLong {
        /// Largest accepted list, in bytes as counted by RFC 9113 §6.5.2.
        limit_bytes: u32,
    },
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldFault::UppercaseName => "an uppercase letter in a header's name",
            FieldFault::Name => "a header's name is empty or contains an invalid character",
            FieldFault::Value => "a control character in a header's value",
            FieldFault::SpaceAroundValue => "whitespace around a header's value",
            FieldFault::PseudoHeader => "a pseudo-header other than :status",
            FieldFault::PseudoHeaderLate => "a pseudo-header after other headers",
            FieldFault::PseudoHeaderInTrailers => "a pseudo-header in the trailers",
            FieldFault::NoStatus => "no :status",
            FieldFault::StatusTwice => ":status twice",
            FieldFault::Status => "the :status is not three digits",
            FieldFault::ConnectionSpecific => {
                "a header that is allowed only in HTTP/1.1, such as Connection or Transfer-Encoding"
            }
            FieldFault::Length => "Content-Length is not a number",
            FieldFault::LengthsDiffer => "two different Content-Length values",
            FieldFault::ListTooLong { limit_bytes } => {
                return write!(f, "headers of more than {limit_bytes} bytes");
            }
        })
    }
}

/// Identifies a text of `grpc-message` on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallMessageId(pub(super) NonZeroU8);

/// Summary of a list of fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fields {
    /// Value of `:status`, 0 to 999.
    pub status: Option<u16>,
    /// Value of Content-Length, in bytes.
    pub content_length: Option<u64>,
    /// Size of the list, in bytes as counted by RFC 9113 §6.5.2.
    pub list_bytes: u64,
    /// True if the Content-Type is gRPC's.
    pub is_grpc: bool,
    /// Value of `grpc-status`.
    pub grpc_status: Option<u16>,
    /// Identifies the value of `grpc-message`, if it was kept.
    pub grpc_message: Option<CallMessageId>,
    /// First fault that makes the list invalid both as headers and as trailers.
    pub fault: Option<FieldFault>,
    /// True after the first field that isn't a pseudo-header field.
    regular: bool,
}

impl Fields {
    #[inline]
    pub(crate) fn add(&mut self, field: &Field) {
        self.list_bytes += u64::from(field.bytes);
        match field.meaning {
            Meaning::Regular => self.regular = true,
            Meaning::Status(status) => {
                if self.regular {
                    self.blame(FieldFault::PseudoHeaderLate);
                } else if self.status.is_some() {
                    self.blame(FieldFault::StatusTwice);
                }
                self.status = Some(status);
            }
            Meaning::Length(length) => {
                self.regular = true;
                if self.content_length.is_some_and(|other| other != length) {
                    self.blame(FieldFault::LengthsDiffer);
                }
                self.content_length = Some(length);
            }
            Meaning::GrpcContent => {
                self.regular = true;
                self.is_grpc = true;
            }
            Meaning::GrpcStatus(status) => {
                self.regular = true;
                self.grpc_status = Some(status);
            }
            Meaning::GrpcMessage(message) => {
                self.regular = true;
                self.grpc_message = Some(message);
            }
            Meaning::Fault(fault) => self.blame(fault),
        }
    }

    pub(crate) fn blame(&mut self, fault: FieldFault) {
        self.fault.get_or_insert(fault);
    }

    /// Returns the status code if these fields can be the head of a response.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    pub fn head_status(&self) -> Result<u16, FieldFault> {
        match (self.fault, self.status) {
            (Some(fault), _) => Err(fault),
            (None, Some(status)) => Ok(status),
            (None, None) => Err(FieldFault::NoStatus),
        }
    }

    /// Checks that these fields can be trailers.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    pub fn check_trailers(&self) -> Result<(), FieldFault> {
        match (self.fault, self.status) {
            (Some(fault), _) => Err(fault),
            (None, Some(_)) => Err(FieldFault::PseudoHeaderInTrailers),
            (None, None) => Ok(()),
        }
    }
}

/// Properties of a field that the decoder needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    /// Size in a list or in a dynamic table, in bytes (RFC 7541 §4.1).
    pub(crate) bytes: u32,
    pub(crate) name: Name,
    pub(crate) meaning: Meaning,
}

/// Properties of a field's name that the decoder needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) bytes: u32,
    pub(crate) kind: NameKind,
}

/// Names that the decoder distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    Status,
    ContentLength,
    ContentType,
    GrpcStatus,
    GrpcMessage,
    /// A name whose values are irrelevant to the decoder.
    Regular,
    /// A name that makes the response malformed, whatever its value.
    Fault(FieldFault),
}

/// Information that the decoder needs from a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Status(u16),
    Length(u64),
    /// A Content-Type of gRPC.
    GrpcContent,
    GrpcStatus(u16),
    /// A `grpc-message` whose value is kept.
    GrpcMessage(CallMessageId),
    Regular,
    Fault(FieldFault),
}

impl Name {
    /// Interprets a name.
    #[inline]
    pub(crate) fn read(name: &[u8]) -> Name {
        let kind = match name {
            [b':', ..] if name == b":status" => NameKind::Status,
            [b':', ..] => NameKind::Fault(FieldFault::PseudoHeader),
            b"content-length" => NameKind::ContentLength,
            b"content-type" => NameKind::ContentType,
            b"grpc-status" => NameKind::GrpcStatus,
            b"grpc-message" => NameKind::GrpcMessage,
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding"
            | b"upgrade" => NameKind::Fault(FieldFault::ConnectionSpecific),
            _ if !is_token(name) => NameKind::Fault(FieldFault::Name),
            _ if name.iter().any(u8::is_ascii_uppercase) => {
                NameKind::Fault(FieldFault::UppercaseName)
            }
            _ => NameKind::Regular,
        };
        let bytes = name.len() as u32;
        Name { bytes, kind }
    }
}

impl Field {
    /// Interprets a field with this name and value.
    #[inline]
    pub(crate) fn read(name: Name, value: &[u8]) -> Field {
        let meaning = match name.kind {
            NameKind::Regular | NameKind::GrpcMessage => match regular_fault(value) {
                None => Meaning::Regular,
                Some(fault) => Meaning::Fault(fault),
            },
            NameKind::ContentType | NameKind::GrpcStatus => match regular_fault(value) {
                Some(fault) => Meaning::Fault(fault),
                None if name.kind == NameKind::GrpcStatus => grpc_status(value),
                None if is_grpc(value) => Meaning::GrpcContent,
                None => Meaning::Regular,
            },
            NameKind::Status => match value {
                [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
                    let digit = |byte: &u8| u16::from(byte - b'0');
                    Meaning::Status(digit(a) * 100 + digit(b) * 10 + digit(c))
                }
                _ => Meaning::Fault(FieldFault::Status),
            },
            NameKind::ContentLength => match decimal(value) {
                Some(length) => Meaning::Length(length),
                None => Meaning::Fault(FieldFault::Length),
            },
            NameKind::Fault(fault) => Meaning::Fault(fault),
        };
        Field {
            bytes: name.bytes + value.len() as u32 + FIELD_OVERHEAD_BYTES,
            name,
            meaning,
        }
    }
}

fn regular_fault(value: &[u8]) -> Option<FieldFault> {
    if !is_value(value) {
        Some(FieldFault::Value)
    } else if trim(value).len() < value.len() {
        Some(FieldFault::SpaceAroundValue)
    } else {
        None
    }
}

/// Returns true if this Content-Type is gRPC's, with any message format. gRPC-Web, which sends its
/// status in the body, has another type.
fn is_grpc(value: &[u8]) -> bool {
    let (kind, rest) = value
        .split_at_checked(b"application/grpc".len())
        .unwrap_or_default();
    kind.eq_ignore_ascii_case(b"application/grpc") && matches!(rest, [] | [b'+' | b';' | b' ', ..])
}

fn grpc_status(value: &[u8]) -> Meaning {
    let status = decimal(value).and_then(|status| u16::try_from(status).ok());
    status.map_or(Meaning::Regular, Meaning::GrpcStatus)
}

/// Parses one or more digits (RFC 9110 §8.6).
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in list {
            fields.add(&Field::read(Name::read(name.as_bytes()), value.as_bytes()));
        }
        fields
    }

    #[test]
    fn a_head_has_one_status_before_other_fields() {
        let good = fields(&[(":status", "204"), ("server", "x"), ("a", "")]);
        assert_eq!(good.head_status(), Ok(204));
        assert_eq!(good.list_bytes, 42 + 39 + 33);
        let rows: [(&[(&str, &str)], FieldFault); 10] = [
            (&[], FieldFault::NoStatus),
            (&[("a", "b")], FieldFault::NoStatus),
            (
                &[("a", "b"), (":status", "200")],
                FieldFault::PseudoHeaderLate,
            ),
            (
                &[("content-length", "1"), (":status", "200")],
                FieldFault::PseudoHeaderLate,
            ),
            (
                &[(":status", "200"), (":status", "200")],
                FieldFault::StatusTwice,
            ),
            (
                &[(":status", "200"), (":path", "/")],
                FieldFault::PseudoHeader,
            ),
            (
                &[(":status", "200"), (":new", "/")],
                FieldFault::PseudoHeader,
            ),
            (&[(":status", "20")], FieldFault::Status),
            (&[(":status", "2000")], FieldFault::Status),
            (&[(":status", "+20")], FieldFault::Status),
        ];
        for (list, fault) in rows {
            assert_eq!(fields(list).head_status(), Err(fault), "{list:?}");
        }
    }

    #[test]
    fn names_and_values_are_checked() {
        let rows = [
            ("Server", "x", FieldFault::UppercaseName),
            ("Content-Length", "1", FieldFault::UppercaseName),
            ("", "x", FieldFault::Name),
            ("a b", "x", FieldFault::Name),
            ("a:", "x", FieldFault::Name),
            ("\u{e4}", "x", FieldFault::Name),
            ("a", "x\ry", FieldFault::Value),
            ("a", "x\0", FieldFault::Value),
            ("a", "\x7f", FieldFault::Value),
            ("a", " x", FieldFault::SpaceAroundValue),
            ("a", "x\t", FieldFault::SpaceAroundValue),
            ("connection", "close", FieldFault::ConnectionSpecific),
            (
                "transfer-encoding",
                "chunked",
                FieldFault::ConnectionSpecific,
            ),
            ("content-length", "", FieldFault::Length),
            ("content-length", "-1", FieldFault::Length),
            ("content-length", "18446744073709551616", FieldFault::Length),
        ];
        for (name, value, fault) in rows {
            let head = fields(&[(":status", "200"), (name, value)]);
            assert_eq!(head.head_status(), Err(fault), "{name}: {value}");
            assert_eq!(fields(&[(name, value)]).check_trailers(), Err(fault));
        }
    }

    #[test]
    fn lengths_may_be_the_same_but_not_differ() {
        let same = fields(&[("content-length", "12"), ("content-length", "12")]);
        assert_eq!((same.content_length, same.fault), (Some(12), None));
        let differ = fields(&[("content-length", "12"), ("content-length", "13")]);
        assert_eq!(differ.fault, Some(FieldFault::LengthsDiffer));
        let most = fields(&[("content-length", "18446744073709551615")]);
        assert_eq!(most.content_length, Some(u64::MAX));
    }

    #[test]
    fn trailers_have_no_pseudo_headers() {
        assert_eq!(fields(&[("a", "b")]).check_trailers(), Ok(()));
        assert_eq!(fields(&[]).check_trailers(), Ok(()));
        assert_eq!(
            fields(&[(":status", "200")]).check_trailers(),
            Err(FieldFault::PseudoHeaderInTrailers)
        );
    }
}
