//! Structure of a response in HTTP/2 and HTTP/3 (RFC 9113 §8.1, §8.5; RFC 9114 §4.1, §4.4).

use std::fmt;

use crate::compression::{CallMessageId, FieldFault, Fields};
use crate::h1::Expects;

/// Maximum number of interim responses (1xx) before the final one, as for HTTP/1.1.
const INTERIM_RESPONSES_MAX: u8 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseStage {
    /// The final head is expected. So far, `interims` interim heads have arrived.
    Head { interims: u8 },
    /// The rest of the body, or the trailer section after it, is expected.
    Body {
        /// Number of remaining body bytes, if the response has a Content-Length.
        left: Option<u64>,
    },
    /// The content of a tunnel, which is sent only in DATA frames (RFC 9113 §8.5, RFC 9114 §4.4).
    Tunnel,
}

/// Role of a list of fields in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectionRole {
    Interim(u16),
    Head(u16),
    Trailers,
}

/// A complete response of gRPC, recognized by its Content-Type. The status of the call is in the
/// trailers, or in a head without a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcCall {
    /// Status code of the call; 0 is success. `None` if the response has no valid `grpc-status`.
    pub status: Option<u16>,
    /// Identifies the server's explanation (`grpc-message`), if it was kept.
    pub message: Option<CallMessageId>,
    /// True if the head has a `grpc-status`, so that no body may follow.
    pub is_in_head: bool,
}

impl GrpcCall {
    /// Updates the call of a stream with a list of fields. Each head begins another response.
    #[inline]
    pub(crate) fn update(call: &mut Option<GrpcCall>, role: SectionRole, fields: &Fields) {
        let status = fields.grpc_status;
        match (role, call) {
            (SectionRole::Head(_), call) => {
                *call = fields.is_grpc.then_some(GrpcCall {
                    status,
                    message: fields.grpc_message,
                    is_in_head: status.is_some(),
                });
            }
            (SectionRole::Trailers, Some(call)) => {
                call.status = status.or(call.status);
                call.message = fields.grpc_message.or(call.message);
            }
            (SectionRole::Trailers | SectionRole::Interim(_), _) => {}
        }
    }
}

/// A request whose response was incomplete when the connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnfinishedRequest {
    /// Tag with which the request was started.
    pub tag: u32,
    /// True if any part of the response was received. Otherwise, the request may be retried if its
    /// method allows it (RFC 9110 §9.2.2).
    pub answered: bool,
}

/// The first violation of the rules for a response's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResponseFault {
    /// The fields in the head or in the trailers are malformed (RFC 9113 §8.1.1, RFC 9114 §4.1.2).
    Fields(FieldFault),
    /// Status 101, which exists only in HTTP/1.1 (RFC 9113 §8.6, RFC 9114 §4.5).
    SwitchingProtocols,
    /// More interim responses than the limit allows.
    TooManyInterim {
        /// Largest accepted number of interim responses.
        limit: u8,
    },
    /// DATA, or the end of the stream, before a final head.
    DataBeforeHead,
    /// HEADERS in the tunnel of a CONNECT (RFC 9113 §8.5, RFC 9114 §4.4).
    FieldsInTunnel,
    /// A body that is longer than its Content-Length, or a body where none is allowed.
    BodyTooLong,
    /// A body that is shorter than its Content-Length.
    BodyTooShort,
}

impl From<FieldFault> for ResponseFault {
    fn from(fault: FieldFault) -> ResponseFault {
        ResponseFault::Fields(fault)
    }
}

impl fmt::Display for ResponseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseFault::Fields(fault) => return fault.fmt(f),
            ResponseFault::SwitchingProtocols => "status 101, which exists only in HTTP/1.1",
            ResponseFault::TooManyInterim { limit } => {
                return write!(f, "more than {limit} interim responses (1xx)");
            }
            ResponseFault::DataBeforeHead => "the stream ends before the head of the response",
            ResponseFault::FieldsInTunnel => "HEADERS within a tunnel",
            ResponseFault::BodyTooLong => "a body longer than its Content-Length",
            ResponseFault::BodyTooShort => "a body shorter than its Content-Length",
        })
    }
}

impl ResponseStage {
    /// Initial stage, before any part of the response has arrived.
    pub(crate) const START: ResponseStage = ResponseStage::Head { interims: 0 };

    /// Determines the role of a list of fields in the response, and advances the stage. `expects`
    /// states which body the request allows.
    pub(crate) fn section(
        &mut self,
        fields: &Fields,
        expects: Expects,
    ) -> Result<SectionRole, ResponseFault> {
        let interims = match self {
            ResponseStage::Head { interims } => interims,
            ResponseStage::Tunnel => return Err(ResponseFault::FieldsInTunnel),
            ResponseStage::Body { .. } => {
                fields.check_trailers()?;
                return Ok(SectionRole::Trailers);
            }
        };
        let status = fields.head_status()?;
        match status {
            101 => Err(ResponseFault::SwitchingProtocols),
            100..=199 if *interims == INTERIM_RESPONSES_MAX => Err(ResponseFault::TooManyInterim {
                limit: INTERIM_RESPONSES_MAX,
            }),
            100..=199 => {
                *interims += 1;
                Ok(SectionRole::Interim(status))
            }
            _ => {
                *self = after_head(status, fields.content_length, expects);
                Ok(SectionRole::Head(status))
            }
        }
    }

    /// Counts `bytes` received bytes of the body. Returns an error if they come before the head or
    /// exceed the content length.
    #[inline]
    pub(crate) fn data(&mut self, bytes: u64) -> Result<(), ResponseFault> {
        match self {
            ResponseStage::Head { .. } => Err(ResponseFault::DataBeforeHead),
            ResponseStage::Body { left: None } | ResponseStage::Tunnel => Ok(()),
            ResponseStage::Body { left: Some(left) } => {
                *left = left.checked_sub(bytes).ok_or(ResponseFault::BodyTooLong)?;
                Ok(())
            }
        }
    }

    /// Checks that the response is complete.
    #[inline]
    pub(crate) fn check_end(&self) -> Result<(), ResponseFault> {
        match self {
            ResponseStage::Head { .. } => Err(ResponseFault::DataBeforeHead),
            ResponseStage::Body {
                left: None | Some(0),
            }
            | ResponseStage::Tunnel => Ok(()),
            ResponseStage::Body { left: Some(_) } => Err(ResponseFault::BodyTooShort),
        }
    }
}

/// Returns the stage that follows the final head, with the required length of the body (RFC 9113
/// §8.1.1 and §8.5, RFC 9114 §4.1.2 and §4.4, RFC 9110 §6.4.1 and §8.6).
fn after_head(status: u16, content_length: Option<u64>, expects: Expects) -> ResponseStage {
    let left = match (expects, status) {
        (Expects::Connect, 200..=299) => return ResponseStage::Tunnel,
        (Expects::NoBody, _) | (_, 204 | 304) => Some(0),
        _ => content_length,
    };
    ResponseStage::Body { left }
}
