//! Requests in which some field values or the body differ each time the request is sent.

use super::qpack::Qpack;
use super::request::EncodedRequest;
use crate::field_pattern::FieldPattern;
use crate::h1::{RequestError, RequestSpec};
use crate::request_fields::RequestScheme;

/// A request whose field values or body vary. Its other fields are encoded once.
///
/// Varying values are written as plain octets, without Huffman coding.
#[derive(Debug, Clone)]
pub struct RequestPattern {
    fields: FieldPattern,
}

impl RequestPattern {
    /// Encodes the fixed parts of a request. A field varies if `is_varying` returns true for its
    /// value. If `body_varies` is true, the body of `spec` only determines whether `content-length`
    /// is sent.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`EncodedRequest::new`].
    pub fn new(
        spec: &RequestSpec,
        scheme: RequestScheme,
        is_varying: impl Fn(&str) -> bool,
        body_varies: bool,
    ) -> Result<RequestPattern, RequestError> {
        let fields = FieldPattern::new::<Qpack>(spec, scheme, is_varying, body_varies)?;
        Ok(RequestPattern { fields })
    }

    /// Returns the values of the varying fields in the [`RequestSpec`] from which the pattern was
    /// created, in the order of the fields.
    pub fn varying_values(&self) -> impl Iterator<Item = &str> {
        self.fields.varying_values()
    }

    /// Encodes one request into `request`, reusing its memory. `write_value` appends the value of
    /// the varying field with the given index. `further` is an optional additional field, with its
    /// name in lower case.
    pub fn encode(
        &self,
        body: &[u8],
        further: Option<(&str, &str)>,
        write_value: impl FnMut(usize, &mut Vec<u8>),
        request: &mut EncodedRequest,
    ) {
        request.set_expects(self.fields.expects());
        let body_bytes = body.len() as u64;
        request.write(body, |out| {
            self.fields
                .encode::<Qpack>(body_bytes, further, write_value, out)
        });
    }
}
