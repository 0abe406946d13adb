//! Failures of gRPC calls: their names, and the status codes that cause them.

macro_rules! failures {
    ($($variant:ident = $name:literal, $code:expr, $doc:literal;)*) => {
        /// Reason why a gRPC call failed although its response arrived completely.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum CallFailure { $(#[doc = $doc] $variant,)* }

        impl CallFailure {
            /// Every failure, in the order in which records list them.
            pub const ALL: &'static [CallFailure] = &[$(CallFailure::$variant,)*];

            /// Name of the outcome in records.
            pub const fn name(self) -> &'static str {
                match self { $(CallFailure::$variant => $name,)* }
            }

            /// Status code that the server sent; `None` if the failure isn't a status.
            pub const fn code(self) -> Option<u16> {
                match self { $(CallFailure::$variant => $code,)* }
            }

            /// Meaning of the failure, for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(CallFailure::$variant => $doc,)* }
            }
        }
    };
}

failures! {
    Cancelled = "grpc_cancelled", Some(1), "the call was cancelled";
    Unknown = "grpc_unknown", Some(2), "the server reported an unknown error";
    InvalidArgument = "grpc_invalid_argument", Some(3), "the server rejected the message";
    DeadlineExceeded = "grpc_deadline_exceeded", Some(4), "the deadline passed at the server";
    NotFound = "grpc_not_found", Some(5), "the server did not find what the call names";
    AlreadyExists = "grpc_already_exists", Some(6), "what the call creates exists already";
    PermissionDenied = "grpc_permission_denied", Some(7), "the caller lacks a permission";
    ResourceExhausted = "grpc_resource_exhausted", Some(8), "a quota or another resource is used up";
    FailedPrecondition = "grpc_failed_precondition", Some(9), "the server is not in the state that the call needs";
    Aborted = "grpc_aborted", Some(10), "the server aborted the call";
    OutOfRange = "grpc_out_of_range", Some(11), "the call is beyond a valid range";
    Unimplemented = "grpc_unimplemented", Some(12), "the server doesn't have the method";
    Internal = "grpc_internal", Some(13), "the server reported an internal error";
    Unavailable = "grpc_unavailable", Some(14), "the service is unavailable";
    DataLoss = "grpc_data_loss", Some(15), "the server lost or damaged data";
    Unauthenticated = "grpc_unauthenticated", Some(16), "the caller has no valid credentials";
    NoStatus = "grpc_no_status", None, "the response has no valid grpc-status";
    ContentType = "grpc_content_type", None, "the response is not gRPC";
    Frame = "grpc_frame", None, "a message's length prefix is invalid, or the message is incomplete";
    Compression = "grpc_compression", None, "a message is compressed, but the request accepted no compression";
    MessageSize = "grpc_message_size", None, "a message is longer than the limit";
    MessageCount = "grpc_message_count", None, "the response to a unary call has no message, or several";
    Trailers = "grpc_trailers", None, "grpc-status is not at the end of the response";
}

impl CallFailure {
    /// Returns the failure with this status code; `None` for 0, which is success. Codes that gRPC
    /// doesn't define mean `Unknown`.
    pub fn of_code(code: u16) -> Option<CallFailure> {
        let mut all = CallFailure::ALL.iter().copied();
        match code {
            0 => None,
            code => Some(
                all.find(|failure| failure.code() == Some(code))
                    .unwrap_or(CallFailure::Unknown),
            ),
        }
    }

    /// Name of the status as gRPC writes it, such as `UNAVAILABLE`; `None` if the failure isn't a
    /// status.
    pub fn status_name(self) -> Option<String> {
        self.code()?;
        Some(self.name().trim_start_matches("grpc_").to_ascii_uppercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_failure() {
        assert_eq!(CallFailure::of_code(0), None);
        for code in 1..=16 {
            let failure = CallFailure::of_code(code).unwrap();
            assert_eq!(failure.code(), Some(code));
        }
        assert_eq!(CallFailure::of_code(17), Some(CallFailure::Unknown));
        let unavailable = CallFailure::of_code(14).and_then(CallFailure::status_name);
        assert_eq!(unavailable.as_deref(), Some("UNAVAILABLE"));
        assert_eq!(CallFailure::Frame.status_name(), None);
    }
}
