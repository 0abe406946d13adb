//! Failures of streams of events.

use prony_record::Outcome;

/// Reason why the events of a response couldn't be read, or why its stream is incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFailure {
    /// The response has no event.
    NoEvent,
    /// The response ended within an event.
    WithinEvent,
    /// The response lacks the end marker.
    NoEndMarker,
    /// The body isn't valid for its content coding.
    Corrupt,
    /// The body has a content coding that streams can't have.
    UnknownCoding,
}

impl StreamFailure {
    /// Outcome of the request.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            StreamFailure::NoEvent | StreamFailure::WithinEvent => Outcome::StoppedEarly,
            StreamFailure::NoEndMarker => Outcome::NoEndMarker,
            StreamFailure::Corrupt | StreamFailure::UnknownCoding => Outcome::Protocol,
        }
    }

    /// The reason in words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            StreamFailure::NoEvent => "the response has no event",
            StreamFailure::WithinEvent => "the response ended within an event",
            StreamFailure::NoEndMarker => "the response ended without the end marker",
            StreamFailure::Corrupt => "the body is not valid for its Content-Encoding",
            StreamFailure::UnknownCoding => {
                "the events are encoded, but not with gzip, deflate or br; request another \
                 Accept-Encoding"
            }
        }
    }
}
