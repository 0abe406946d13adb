//! One request and its response.

use prony_protocol::GrpcCall;
use prony_record::Outcome;

use super::kind::{CompleteResponse, ExchangeKind, ResponseEnd};

/// An exchange that ends with its only response.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleResponse;

impl ExchangeKind for SingleResponse {
    /// A call that failed has a status of HTTP that says success.
    #[inline]
    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        match response.call {
            Some(GrpcCall { status }) if response.outcome == Outcome::Ok && status != Some(0) => {
                ResponseEnd::FailedCall(status)
            }
            _ => ResponseEnd::Exchange(response.outcome),
        }
    }
}
