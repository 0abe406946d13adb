//! Serves one HTTP/3 connection.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;

use bytes::Bytes;
use h3::error::Code;
use h3::server::RequestResolver;
use http::Response;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http_body::Body as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::body::RequestBody;
use super::context::{ConnectionContext, ResponseStream, StreamEnd};
use super::faults;
use super::transport::{LatestStream, SendHandle, Transport};
use crate::body::Body;
use crate::connection::{ThreadContext, serve_request};
use crate::respond::{BoxError, RequestResult};

/// A request whose head has not been read yet.
type Unresolved = RequestResolver<Transport, Bytes>;

/// Serves a connection until either side ends it.
pub(super) async fn serve(connecting: quinn::Connecting, context: Rc<ThreadContext>) {
    // Start serving before the handshake is complete, so that the server can respond to early data.
    let Ok((quic, _)) = connecting.into_0rtt() else {
        return;
    };
    let latest = LatestStream::default();
    let transport = Transport::new(quic.clone(), Rc::clone(&latest));
    let Ok(mut http) = h3::server::builder().build(transport).await else {
        return;
    };
    let context = Rc::new(ConnectionContext {
        quic,
        thread: context,
        go_away: Notify::new(),
    });
    let mut requests = JoinSet::new();
    let mut going_away = false;
    // Dropping `requests` ends the requests, and dropping `http` closes the connection with
    // H3_NO_ERROR.
    loop {
        tokio::select! {
            accepted = http.accept() => match accepted {
                Ok(Some(request)) => {
                    if let Some(stream) = latest.take() {
                        requests.spawn_local(serve_stream(request, stream, Rc::clone(&context)));
                    }
                }
                // The client has sent GOAWAY and received all responses, so it will close the
                // connection.
                Ok(None) => {
                    context.quic.closed().await;
                    return;
                }
                Err(_) => return,
            },
            Some(_) = requests.join_next() => {}
            () = context.go_away.notified(), if !going_away => {
                going_away = true;
                // GOAWAY contains the identifier of the stream after the last accepted one. The
                // client may retry requests with this identifier or a higher one on another
                // connection.
                if http.shutdown(1).await.is_err() {
                    return;
                }
            }
        }
        if going_away && requests.is_empty() {
            return;
        }
    }
}

/// Serves one request. Returns when the client has received the response or abandoned the request.
async fn serve_stream(request: Unresolved, stream: SendHandle, context: Rc<ConnectionContext>) {
    let mut settled = pin!(stream.settled());
    let end = tokio::select! {
        biased;
        _ = &mut settled => return,
        end = respond(request, &stream, &context) => end,
    };
    if end == StreamEnd::Aborted {
        return;
    }
    // This fails if the connection is lost, which also ends the request.
    let _ = settled.await;
    if end == StreamEnd::EndsConnection {
        context.close(Code::H3_NO_ERROR);
    }
}

async fn respond(
    request: Unresolved,
    stream: &SendHandle,
    context: &ConnectionContext,
) -> StreamEnd {
    // If the request is invalid, h3 has already responded with an error.
    let Ok((request, halves)) = request.resolve_request().await else {
        return StreamEnd::Aborted;
    };
    let (mut send, receive) = halves.split();
    let body = RequestBody::new(receive, request.headers());
    match serve_request(request.map(|()| body), &context.thread).await {
        RequestResult::Response(response) => {
            match send_response(&mut send, response, context).await {
                Ok(()) => StreamEnd::Finished,
                Err(_) => {
                    // The head is larger than the client accepts, the stream has already failed, or the
                    // body ends early.
                    stream.reset(Code::H3_INTERNAL_ERROR);
                    StreamEnd::Aborted
                }
            }
        }
        RequestResult::Takeover(fault) => faults::play(fault, send, stream, context).await,
    }
}

/// Sends a whole response. HTTP/3 forbids `Connection: close`, so that header is replaced by
/// GOAWAY, which ends the connection.
async fn send_response(
    stream: &mut ResponseStream,
    response: Response<Body>,
    context: &ConnectionContext,
) -> Result<(), BoxError> {
    let (mut parts, mut body) = response.into_parts();
    if parts.headers.remove(CONNECTION).is_some() {
        context.go_away.notify_one();
    }
    let length = body.size_hint().exact();
    if let Some(length) = length.filter(|_| !body.is_end_stream()) {
        parts.headers.entry(CONTENT_LENGTH).or_insert(length.into());
    }
    stream
        .send_response(Response::from_parts(parts, ()))
        .await?;
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame?.into_data() {
            stream.send_data(data).await?;
        }
    }
    Ok(stream.finish().await?)
}
