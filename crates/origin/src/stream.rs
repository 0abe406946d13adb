//! An accepted connection: any kind of socket, with or without TLS.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A raw socket. TCP and UNIX sockets share one enum, so hyper and rustls are compiled only once.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Makes TCP send a reset instead of an orderly close when the socket is dropped.
    pub(crate) fn reset_when_dropped(&self) {
        if let Self::Tcp(tcp) = self {
            // This fails only on a socket that is already closed.
            let _ = tcp.set_zero_linger();
        }
    }

    /// Closes the sending side of the socket.
    pub(crate) fn cut(&self) {
        let socket = match self {
            Self::Tcp(tcp) => SockRef::from(tcp),
            Self::Unix(unix) => SockRef::from(unix),
        };
        // This fails only on a socket that is already closed.
        let _ = socket.shutdown(Shutdown::Write);
    }
}

/// A connection in cleartext or with TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }
}

/// Evaluates an expression with the content of an enum that has two variants.
macro_rules! either {
    ($self:expr, $first:path, $second:path, $inner:ident => $poll:expr) => {
        match $self.get_mut() {
            $first($inner) => $poll,
            $second($inner) => $poll,
        }
    };
}

macro_rules! forward_io {
    ($type:ty, $first:path, $second:path) => {
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                either!(self, $first, $second, io => Pin::new(io).poll_read(cx, buffer))
            }
        }

        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                either!(self, $first, $second, io => Pin::new(io).poll_write(cx, bytes))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                pieces: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                either!(self, $first, $second, io => Pin::new(io).poll_write_vectored(cx, pieces))
            }

            fn is_write_vectored(&self) -> bool {
                match self {
                    $first(io) => io.is_write_vectored(),
                    $second(io) => io.is_write_vectored(),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                either!(self, $first, $second, io => Pin::new(io).poll_flush(cx))
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                either!(self, $first, $second, io => Pin::new(io).poll_shutdown(cx))
            }
        }
    };
}

forward_io!(Socket, Socket::Tcp, Socket::Unix);
forward_io!(Stream, Stream::Plain, Stream::Tls);

/// A stream that hyper serves and that can be taken back from hyper. Both owners hold a reference
/// on the same thread, and only one of them uses the stream at a time.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Rc<RefCell<Stream>>);

impl Shared {
    pub(crate) fn new(stream: Stream) -> Self {
        Self(Rc::new(RefCell::new(stream)))
    }

    /// Makes TCP send a reset when the socket is dropped. See [`Socket::reset_when_dropped`].
    pub(crate) fn reset_when_dropped(&self) {
        self.0.borrow().socket().reset_when_dropped();
    }

    /// Closes the sending side of the socket without `close_notify`.
    pub(crate) fn cut(&self) {
        self.0.borrow().socket().cut();
    }
}

impl AsyncRead for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.borrow().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(cx)
    }
}
