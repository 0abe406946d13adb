//! Request bodies over HTTP/3.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::StreamError;
use h3::server::RequestStream;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Frame, SizeHint};

use super::transport::ReceiveHalf;

/// A request body that is read as it arrives.
pub(super) struct RequestBody {
    stream: RequestStream<ReceiveHalf, Bytes>,
    announced: Option<u64>,
}

impl RequestBody {
    pub(super) fn new(stream: RequestStream<ReceiveHalf, Bytes>, headers: &HeaderMap) -> Self {
        let announced = headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok());
        Self { stream, announced }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let data = ready!(self.stream.poll_recv_data(cx)).transpose();
        Poll::Ready(
            data.map(|data| data.map(|mut data| Frame::data(data.copy_to_bytes(data.remaining())))),
        )
    }

    /// Returns the Content-Length of the request. This is correct only until the first frame is
    /// read, but `respond` doesn't use the hint later.
    fn size_hint(&self) -> SizeHint {
        self.announced.map(SizeHint::with_exact).unwrap_or_default()
    }
}
