//! The stream of a request, which carries one exchange.

use super::{FrameType, Violation, limits};
use crate::buffer::emptied;
use crate::compression::Fields;
use crate::h1::Expects;
use crate::response_stage::{GrpcCall, ResponseFault, ResponseStage, SectionRole};

/// Stage of an exchange (RFC 9114 §4.1).
///
/// ```text
///            start          last byte of trailers
///   Closed ---------> Response ---------> Trailed
///     ^                  |                   |
///     `------------------+-------------------'
///          FIN, reset by either side, malformed response
/// ```
///
/// QUIC manages the state of the stream itself and its flow control.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ExchangeStage {
    #[default]
    Closed,
    Response(ResponseStage),
    /// The trailers have arrived. Only the end of the stream may follow.
    Trailed,
}

/// Meaning of the next byte on a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum FrameReading {
    /// The header of a frame.
    #[default]
    Header,
    /// The payload of HEADERS, which is processed as a whole.
    Section { length: usize },
    /// The rest of a DATA frame; at least 1 byte.
    Data { left: u64 },
    /// The rest of an unknown frame, at least 1 byte.
    Skip { left: u64 },
}

/// Content of a slot. By default, it carries no exchange.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) id: u64,
    pub(super) tag: u32,
    pub(super) stage: ExchangeStage,
    pub(super) expects: Expects,
    /// The gRPC call, once the head of the response has arrived.
    pub(super) call: Option<GrpcCall>,
    pub(super) reading: FrameReading,
    /// The part of an incomplete frame header or field section that has arrived. The memory is
    /// reused for the next stream.
    pub(super) kept: Vec<u8>,
}

impl Stream {
    /// Returns a slot without an exchange, which takes over the memory unless it is large.
    #[inline]
    pub(super) fn renewed(&mut self) -> Stream {
        let mut kept = emptied(&mut self.kept);
        if kept.capacity() > limits::RETAINED_BUFFER_BYTES_MAX {
            kept = Vec::new();
        }
        Stream {
            kept,
            ..Stream::default()
        }
    }

    #[inline]
    pub(super) fn is_live(&self) -> bool {
        self.stage != ExchangeStage::Closed
    }

    /// Returns true if any part of the response was received.
    pub(super) fn is_answered(&self) -> bool {
        self.stage != ExchangeStage::Response(ResponseStage::START)
    }

    /// Returns the number of stored bytes of an incomplete field section.
    pub(super) fn partial_bytes(&self) -> usize {
        match self.reading {
            FrameReading::Section { .. } => self.kept.len(),
            _ => 0,
        }
    }

    /// Checks that a frame of this type may follow (RFC 9114 §4.1 and §7.2).
    #[inline]
    pub(super) fn check_frame(&self, kind: FrameType) -> Result<(), Violation> {
        match (kind, self.stage) {
            (FrameType::Data | FrameType::Headers, ExchangeStage::Trailed) => {
                Err(Violation::AfterTrailers(kind))
            }
            (FrameType::Data, ExchangeStage::Response(ResponseStage::Head { .. })) => {
                Err(Violation::DataBeforeHead)
            }
            (FrameType::Headers, ExchangeStage::Response(ResponseStage::Tunnel)) => {
                Err(Violation::FieldsInTunnel)
            }
            (FrameType::PushPromise, _) => Err(Violation::Push),
            (FrameType::Data | FrameType::Headers | FrameType::Unknown, _) => Ok(()),
            _ => Err(Violation::OnRequestStream(kind)),
        }
    }

    /// Applies a decoded field section to the response, and returns its role.
    #[inline]
    pub(super) fn section(&mut self, fields: &Fields) -> Result<SectionRole, ResponseFault> {
        let ExchangeStage::Response(response) = &mut self.stage else {
            // `check_frame` has already rejected HEADERS.
            return Ok(SectionRole::Trailers);
        };
        let role = response.section(fields, self.expects)?;
        GrpcCall::update(&mut self.call, role, fields);
        if role == SectionRole::Trailers {
            response.check_end()?;
            self.stage = ExchangeStage::Trailed;
        }
        Ok(role)
    }

    /// Counts a DATA frame with `bytes` bytes of the body. The body must not exceed the content
    /// length.
    #[inline]
    pub(super) fn data(&mut self, bytes: u64) -> Result<(), ResponseFault> {
        match &mut self.stage {
            ExchangeStage::Response(response) => response.data(bytes),
            // `check_frame` has already rejected DATA.
            ExchangeStage::Trailed | ExchangeStage::Closed => Ok(()),
        }
    }

    /// Checks that the response is complete when the peer ends the stream.
    #[inline]
    pub(super) fn check_end(&self) -> Result<(), ResponseFault> {
        match self.stage {
            ExchangeStage::Response(response) => response.check_end(),
            ExchangeStage::Trailed | ExchangeStage::Closed => Ok(()),
        }
    }
}
