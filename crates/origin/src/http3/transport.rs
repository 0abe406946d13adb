//! Adapts quinn's QUIC streams to the interface of h3.
//!
//! The sending half of each request's stream is shared with [`SendHandle`], so a fault can write
//! bytes that h3 would never send.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use quinn::{ConnectionError, ReadError, StoppedError, VarInt, WriteError};

/// A QUIC connection with the interface that h3 expects.
pub(super) struct Transport {
    opener: StreamOpener,
    accept_request: StreamFuture<(quinn::SendStream, quinn::RecvStream)>,
    accept_one_way: StreamFuture<quinn::RecvStream>,
    latest: LatestStream,
}

/// Opens the unidirectional streams of the server, such as the control stream.
pub(super) struct StreamOpener {
    connection: quinn::Connection,
    opening: Option<StreamFuture<quinn::SendStream>>,
}

/// Future that yields a stream once it has been accepted or opened.
type StreamFuture<S> = Pin<Box<dyn Future<Output = Result<S, ConnectionError>>>>;

/// Stream of the request that was accepted last.
pub(super) type LatestStream = Rc<RefCell<Option<SendHandle>>>;

impl Transport {
    pub(super) fn new(connection: quinn::Connection, latest: LatestStream) -> Self {
        Self {
            accept_request: accept_request(connection.clone()),
            accept_one_way: accept_one_way(connection.clone()),
            opener: StreamOpener {
                connection,
                opening: None,
            },
            latest,
        }
    }
}

fn accept_request(
    connection: quinn::Connection,
) -> StreamFuture<(quinn::SendStream, quinn::RecvStream)> {
    Box::pin(async move { connection.accept_bi().await })
}

fn accept_one_way(connection: quinn::Connection) -> StreamFuture<quinn::RecvStream> {
    Box::pin(async move { connection.accept_uni().await })
}

impl quic::Connection<Bytes> for Transport {
    type RecvStream = ReceiveHalf;
    type OpenStreams = StreamOpener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReceiveHalf, ConnectionErrorIncoming>> {
        let accepted = ready!(self.accept_one_way.as_mut().poll(cx)).map_err(connection_lost)?;
        self.accept_one_way = accept_one_way(self.opener.connection.clone());
        Poll::Ready(Ok(ReceiveHalf(accepted)))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RequestHalves, ConnectionErrorIncoming>> {
        let (send, receive) =
            ready!(self.accept_request.as_mut().poll(cx)).map_err(connection_lost)?;
        self.accept_request = accept_request(self.opener.connection.clone());
        let send = SendHalf::new(send);
        *self.latest.borrow_mut() = Some(SendHandle(Rc::clone(&send.stream)));
        Poll::Ready(Ok(RequestHalves {
            send,
            receive: ReceiveHalf(receive),
        }))
    }

    fn opener(&self) -> StreamOpener {
        StreamOpener {
            connection: self.opener.connection.clone(),
            opening: None,
        }
    }
}

impl quic::OpenStreams<Bytes> for Transport {
    type BidiStream = RequestHalves;
    type SendStream = SendHalf;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RequestHalves, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendHalf, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.opener.close(code, reason);
    }
}

impl quic::OpenStreams<Bytes> for StreamOpener {
    type BidiStream = RequestHalves;
    type SendStream = SendHalf;

    fn poll_open_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<RequestHalves, StreamErrorIncoming>> {
        // Servers open no bidirectional streams (RFC 9114 §6.1).
        let reason = "a server must not open bidirectional streams";
        Poll::Ready(Err(StreamErrorIncoming::Unknown(reason.into())))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendHalf, StreamErrorIncoming>> {
        let opening = self.opening.get_or_insert_with(|| {
            let connection = self.connection.clone();
            Box::pin(async move { connection.open_uni().await })
        });
        let opened = ready!(opening.as_mut().poll(cx));
        self.opening = None;
        Poll::Ready(opened.map(SendHalf::new).map_err(stream_lost))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(varint(code.value()), reason);
    }
}

/// Both halves of a request's stream.
pub(super) struct RequestHalves {
    send: SendHalf,
    receive: ReceiveHalf,
}

impl quic::BidiStream<Bytes> for RequestHalves {
    type SendStream = SendHalf;
    type RecvStream = ReceiveHalf;

    fn split(self) -> (SendHalf, ReceiveHalf) {
        (self.send, self.receive)
    }
}

impl quic::SendStream<Bytes> for RequestHalves {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.send.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl quic::RecvStream for RequestHalves {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.receive.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receive.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receive.recv_id()
    }
}

/// The half of a stream that sends to the client.
pub(super) struct SendHalf {
    stream: Rc<RefCell<quinn::SendStream>>,
    writing: Option<WriteBuf<Bytes>>,
}

impl SendHalf {
    fn new(stream: quinn::SendStream) -> Self {
        Self {
            stream: Rc::new(RefCell::new(stream)),
            writing: None,
        }
    }
}

impl quic::SendStream<Bytes> for SendHalf {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(data) = self.writing.as_mut().filter(|data| data.has_remaining()) {
            let mut stream = self.stream.borrow_mut();
            let written = Pin::new(&mut *stream).poll_write(cx, data.chunk());
            data.advance(ready!(written).map_err(write_failed)?);
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        // h3 waits for `poll_ready` after each call.
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let finished = self.stream.borrow_mut().finish();
        Poll::Ready(finished.map_err(|error| StreamErrorIncoming::Unknown(error.into())))
    }

    fn reset(&mut self, code: u64) {
        // This fails only on a stream that has ended.
        let _ = self.stream.borrow_mut().reset(varint(code));
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.stream.borrow().id())
    }
}

/// The half of a stream that receives from the client. If this is dropped while the client is still
/// sending, the client is asked to stop (STOP_SENDING with H3_NO_ERROR).
pub(super) struct ReceiveHalf(quinn::RecvStream);

impl quic::RecvStream for ReceiveHalf {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        // The future can be dropped after each poll, because the stream itself stores the task to
        // wake.
        let chunk = ready!(pin!(self.0.read_chunk(usize::MAX, true)).poll(cx));
        Poll::Ready(match chunk {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.bytes)),
            Err(error) => Err(read_failed(error)),
        })
    }

    fn stop_sending(&mut self, code: u64) {
        // This fails only on a stream that has ended.
        let _ = self.0.stop(varint(code));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.0.id())
    }
}

impl Drop for ReceiveHalf {
    fn drop(&mut self) {
        quic::RecvStream::stop_sending(self, Code::H3_NO_ERROR.value());
    }
}

/// A handle to the sending half of a request's stream, which bypasses h3's framing.
#[derive(Clone)]
pub(super) struct SendHandle(Rc<RefCell<quinn::SendStream>>);

impl SendHandle {
    /// Waits until the client has acknowledged the whole finished stream or has stopped reading it,
    /// or until the connection is lost.
    pub(super) fn settled(
        &self,
    ) -> impl Future<Output = Result<Option<VarInt>, StoppedError>> + use<> {
        self.0.borrow().stopped()
    }

    /// Sends bytes without any framing.
    pub(super) async fn send(&self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            let written = std::future::poll_fn(|cx| {
                Pin::new(&mut *self.0.borrow_mut()).poll_write(cx, bytes)
            });
            bytes = bytes.get(written.await?..).unwrap_or_default();
        }
        Ok(())
    }

    /// Ends the stream in an orderly way.
    pub(super) fn finish(&self) {
        // This fails only on a stream that has ended.
        let _ = self.0.borrow_mut().finish();
    }

    /// Ends the stream with an error. Bytes that weren't sent yet are dropped.
    pub(super) fn reset(&self, code: Code) {
        // This fails only on a stream that has ended.
        let _ = self.0.borrow_mut().reset(varint(code.value()));
    }
}

pub(super) fn varint(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn stream_id(id: quinn::StreamId) -> StreamId {
    // Both are 62-bit numbers, so the conversion can't fail.
    StreamId::try_from(u64::from(VarInt::from(id))).unwrap_or_else(|_| unreachable!())
}

fn connection_lost(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => ConnectionErrorIncoming::ApplicationClose {
            error_code: close.error_code.into_inner(),
        },
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

fn stream_lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming {
        connection_error: connection_lost(error),
    }
}

fn read_failed(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated {
            error_code: code.into_inner(),
        },
        ReadError::ConnectionLost(error) => stream_lost(error),
        error => StreamErrorIncoming::Unknown(error.into()),
    }
}

fn write_failed(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated {
            error_code: code.into_inner(),
        },
        WriteError::ConnectionLost(error) => stream_lost(error),
        error => StreamErrorIncoming::Unknown(error.into()),
    }
}
