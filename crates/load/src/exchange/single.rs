//! One request and its response.

use prony_protocol::GrpcCall;
use prony_record::{CallFailure, Outcome};

use super::kind::{CompleteResponse, ExchangeKind, ResponseEnd};

/// An exchange that ends with its only response.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleResponse;

impl ExchangeKind for SingleResponse {
    /// A call that failed has a status of HTTP that says success.
    #[inline]
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        match response.call {
            Some(call) if response.outcome == Outcome::Ok && call.status != Some(0) => {
                ResponseEnd::FailedCall(failure_of(call))
            }
            _ => ResponseEnd::Exchange(response.outcome),
        }
    }
}

/// Returns the failure of a call whose status isn't 0.
pub(super) fn failure_of(call: GrpcCall) -> CallFailure {
    let failure = call.status.and_then(CallFailure::of_code);
    failure.unwrap_or(CallFailure::NoStatus)
}
