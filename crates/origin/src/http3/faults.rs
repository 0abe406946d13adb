//! Faults of an HTTP/3 stream or connection.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h3::error::Code;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LINK, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use quinn::WriteError;

use super::context::{ConnectionContext, ResponseStream, StreamEnd};
use super::transport::SendHandle;
use crate::HELLO;
use crate::fault::Fault;

/// Pause after an interim response, and before a reset.
const PAUSE: Duration = Duration::from_millis(10);

/// The first half of a HEADERS frame of 32 bytes: `:status` 200 and the beginning of a field.
const HALF_HEAD: &[u8] = b"\x01\x20\x00\x00\xd9\x27\x00another";

/// A HEADERS frame whose `:status` has five digits, and a DATA frame.
const BAD_STATUS: &[u8] = b"\x01\x0a\x00\x00\x5f\x09\x0520000\x00\x0dHello, world!";

/// A frame of a type that exists only in HTTP/2 and is forbidden in HTTP/3 (RFC 9114 §7.2.8).
const HTTP2_FRAME: &[u8] = b"\x02\x05\x00\x00\x00\x00\x10";

/// A DATA frame that declares 26 bytes, but contains only 13.
const HALF_DATA: &[u8] = b"\x00\x1aHello, world!";

/// The beginning of a HEADERS frame that declares a length of 1 TiB: `:status` 200.
const ENDLESS_HEAD: &[u8] = b"\x01\xc0\x00\x01\x00\x00\x00\x00\x00\x00\x00\xd9";

/// The name of a field, followed by the length of its value, 1 GiB.
const ENDLESS_FIELD: &[u8] = b"\x27\x00endless\x7f\x81\xff\xff\xff\x03";

/// A complete field line: a name and a value.
const ANOTHER_FIELD: &[u8] = b"\x27\x00another\x06header";

/// Error of a script that ended early because the client has left.
type ClientLeft = Box<dyn std::error::Error>;

/// Performs a fault for which [`Fault::over_http3`] returns true.
pub(super) async fn play(
    fault: Fault,
    http: ResponseStream,
    stream: &SendHandle,
    context: &ConnectionContext,
) -> StreamEnd {
    let played = perform(fault, http, stream, context).await;
    played.unwrap_or(StreamEnd::Aborted)
}

async fn perform(
    fault: Fault,
    mut http: ResponseStream,
    stream: &SendHandle,
    context: &ConnectionContext,
) -> Result<StreamEnd, ClientLeft> {
    let pause = || async {
        let end = Instant::now() + PAUSE;
        context.thread.alarm.until(end).await;
    };
    match fault {
        Fault::Reset => return Ok(abort(stream)),
        Fault::Close => {
            context.close(Code::H3_NO_ERROR);
            return Ok(StreamEnd::Aborted);
        }
        Fault::ConnectionError => {
            context.close(Code::H3_INTERNAL_ERROR);
            return Ok(StreamEnd::Aborted);
        }
        Fault::ResetBody => {
            send(&mut http, head(&[(CONTENT_LENGTH, "26")])).await?;
            // A pause is needed, because a reset drops bytes that aren't sent yet.
            pause().await;
            return Ok(abort(stream));
        }
        Fault::EarlyCloseKeepalive => {
            send(&mut http, head(&[(CONTENT_LENGTH, "13")])).await?;
            stream.finish();
            return Ok(StreamEnd::EndsConnection);
        }
        Fault::Garbage => stream.send(HTTP2_FRAME).await?,
        Fault::Half => stream.send(HALF_HEAD).await?,
        Fault::BadStatus => stream.send(BAD_STATUS).await?,
        Fault::TruncateChunked => {
            http.send_response(head(&[])).await?;
            stream.send(HALF_DATA).await?;
        }
        Fault::Interim | Fault::Continue => {
            http.send_response(interim(fault)).await?;
            pause().await;
            send(&mut http, head(&[(CONTENT_LENGTH, "13")])).await?;
        }
        Fault::Trailers => {
            send(&mut http, head(&[])).await?;
            http.send_trailers(trailers()).await?;
        }
        Fault::HugeHead => {
            stream.send(ENDLESS_HEAD).await?;
            stream.send(ENDLESS_FIELD).await?;
            repeat(b"a", stream).await?;
        }
        Fault::ManyHeaders => {
            stream.send(ENDLESS_HEAD).await?;
            repeat(ANOTHER_FIELD, stream).await?;
        }
        Fault::TwoLengths | Fault::BadLength | Fault::LengthAndChunked => {
            send(&mut http, head(contradiction(fault))).await?;
        }
        Fault::EarlyResponse => send(&mut http, head(&[(CONTENT_LENGTH, "13")])).await?,
        // `respond` handles these faults with an ordinary response, or with none.
        Fault::Stall
        | Fault::StallBody
        | Fault::SlowBody
        | Fault::Truncate
        | Fault::LiesShort
        // These faults don't exist over HTTP/3.
        | Fault::BadChunk
        | Fault::CloseButOpen
        | Fault::NoLength
        | Fault::NoCloseNotify => std::future::pending().await,
    }
    stream.finish();
    Ok(StreamEnd::Finished)
}

fn abort(stream: &SendHandle) -> StreamEnd {
    stream.reset(Code::H3_INTERNAL_ERROR);
    StreamEnd::Aborted
}

/// Sends a response head and the 13 bytes of the body of `/`.
async fn send(http: &mut ResponseStream, head: Response<()>) -> Result<(), ClientLeft> {
    http.send_response(head).await?;
    let hello = Bytes::from_static(HELLO.as_bytes());
    Ok(http.send_data(hello).await?)
}

/// Sends the given bytes repeatedly, until the client stops reading.
async fn repeat(bytes: &[u8], stream: &SendHandle) -> Result<(), WriteError> {
    let batch = bytes.repeat(256);
    loop {
        stream.send(&batch).await?;
    }
}

fn head(fields: &[(HeaderName, &'static str)]) -> Response<()> {
    let mut head = Response::new(());
    let headers = head.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    for (name, value) in fields {
        headers.append(name, HeaderValue::from_static(value));
    }
    head
}

/// Returns fields of a response head that contradict each other or the rules of HTTP/3.
fn contradiction(fault: Fault) -> &'static [(HeaderName, &'static str)] {
    match fault {
        Fault::TwoLengths => &[(CONTENT_LENGTH, "13"), (CONTENT_LENGTH, "5")],
        Fault::LengthAndChunked => &[(CONTENT_LENGTH, "13"), (TRANSFER_ENCODING, "chunked")],
        _ => &[(CONTENT_LENGTH, "1e1")],
    }
}

fn interim(fault: Fault) -> Response<()> {
    let mut head = Response::new(());
    if fault == Fault::Continue {
        *head.status_mut() = StatusCode::CONTINUE;
    } else {
        *head.status_mut() = StatusCode::EARLY_HINTS;
        let link = HeaderValue::from_static("</style.css>; rel=preload; as=style");
        head.headers_mut().insert(LINK, link);
    }
    head
}

fn trailers() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("pieces", HeaderValue::from_static("1"));
    trailers
}
