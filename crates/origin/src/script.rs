//! Scripts of faults, which run on the raw connection.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::alarm::Alarm;
use crate::fault::Fault;
use crate::stream::Shared;

/// Time for which the origin continues to read during an orderly close. If it closed a socket with
/// unread bytes, the kernel would send a reset, and the client could lose the response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

enum ScriptStep {
    /// Text that is sent in one piece.
    Send(&'static str),
    /// Bytes that aren't text and are sent in one piece.
    Raw(&'static [u8]),
    /// Text that is sent byte by byte, with a [`PAUSE_INTERVAL`] before each byte.
    Slowly(&'static str),
    /// A pause of [`PAUSE_INTERVAL`].
    Rest,
    /// Text that is sent repeatedly, until the client leaves.
    Forever(&'static str),
}

enum ScriptEnd {
    /// Closes the sending side (over TLS, after sending `close_notify`), then the socket.
    Close,
    /// Like `Close`, but without sending `close_notify`.
    Cut,
    /// Resets a TCP connection.
    Reset,
    /// Reads and discards input until the client disconnects.
    Hold,
    /// Returns the connection to hyper.
    Resume,
}

/// State of the connection after a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterScript {
    /// The connection has ended and must be dropped.
    Over,
    /// The connection can carry more requests.
    Resumed,
}

use ScriptStep::{Forever, Raw, Rest, Send, Slowly};

const PAUSE_INTERVAL: Duration = Duration::from_millis(10);

const HELLO: &str = crate::HELLO;
const OK_13: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\n";
const OK_26: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 26\r\n\r\n";
const OK_5: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\n";
const OK_CLOSE: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\n";
const OK_KEEP: &str = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 13\r\n\r\n";
const OK_OLD: &str = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n";
const OK_CHUNKED: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
const OK_BOTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nTransfer-Encoding: chunked\r\n\r\n";
const OK_TWO_LENGTHS: &str = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Length: 5\r\n\r\n";
const OK_BAD_LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1e1\r\n\r\n";
const OK_BAD_STATUS: &str = "HTTP/1.1 20000 OK\r\nContent-Length: 13\r\n\r\n";
const EARLY_HINTS: &str =
    "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload; as=style\r\n\r\n";
const ONE_CHUNK: &str = "d\r\nHello, world!\r\n";
const LAST_CHUNK: &str = "0\r\n\r\n";

/// 64 bytes of text without a line end.
const FILLER_LINE: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn acts(fault: Fault) -> &'static [ScriptStep] {
    match fault {
        // `ConnectionError` does not exist over HTTP/1.
        Fault::Reset | Fault::Stall | Fault::Close | Fault::ConnectionError => &[],
        Fault::Truncate | Fault::StallBody | Fault::ResetBody => &[Send(OK_26), Send(HELLO)],
        Fault::Garbage => &[Raw(b"\x00\x01\xfe\xffno HTTP here\x80\r\n\r\n")],
        Fault::Half => &[Send("HTTP/1.1 200 OK\r\nContent-Ty")],
        Fault::EarlyCloseKeepalive => &[Send(OK_KEEP), Send(HELLO)],
        Fault::CloseButOpen | Fault::EarlyResponse => &[Send(OK_CLOSE), Send(HELLO)],
        Fault::LiesShort => &[Send(OK_5), Send(HELLO)],
        Fault::Interim => &[Send(EARLY_HINTS), Rest, Send(OK_13), Send(HELLO)],
        Fault::Continue => &[
            Send("HTTP/1.1 100 Continue\r\n\r\n"),
            Rest,
            Send(OK_13),
            Send(HELLO),
        ],
        Fault::SlowBody => &[Send(OK_13), Slowly(HELLO)],
        Fault::BadChunk => &[
            Send(OK_CHUNKED),
            Send(ONE_CHUNK),
            Send("zz\r\nwhat?\r\n"),
            Send(LAST_CHUNK),
        ],
        Fault::TruncateChunked => &[Send(OK_CHUNKED), Send(ONE_CHUNK)],
        Fault::Trailers => &[
            Send(OK_CHUNKED),
            Send("7;colour=red\r\nHello, \r\n6;a=\"b;c\";d\r\nworld!\r\n"),
            Send("0;last\r\nPieces: 2\r\nContent-Length: 99\r\n\r\n"),
        ],
        Fault::HugeHead => &[Send("HTTP/1.1 200 OK\r\nEndless: "), Forever(FILLER_LINE)],
        Fault::ManyHeaders => &[Send("HTTP/1.1 200 OK\r\n"), Forever("Another: header\r\n")],
        Fault::TwoLengths => &[Send(OK_TWO_LENGTHS), Send(HELLO)],
        Fault::BadLength => &[Send(OK_BAD_LENGTH), Send(HELLO)],
        Fault::LengthAndChunked => &[Send(OK_BOTH), Send(ONE_CHUNK), Send(LAST_CHUNK)],
        Fault::BadStatus => &[Send(OK_BAD_STATUS), Send(HELLO)],
        Fault::NoLength | Fault::NoCloseNotify => &[Send(OK_OLD), Send(HELLO)],
    }
}

fn ending(fault: Fault) -> ScriptEnd {
    match fault {
        Fault::Reset | Fault::ResetBody => ScriptEnd::Reset,
        Fault::Stall | Fault::StallBody | Fault::CloseButOpen => ScriptEnd::Hold,
        Fault::NoCloseNotify => ScriptEnd::Cut,
        Fault::LiesShort | Fault::Interim | Fault::Continue | Fault::SlowBody | Fault::Trailers => {
            ScriptEnd::Resume
        }
        Fault::Truncate
        | Fault::Garbage
        | Fault::Half
        | Fault::Close
        | Fault::EarlyCloseKeepalive
        | Fault::BadChunk
        | Fault::TruncateChunked
        | Fault::HugeHead
        | Fault::ManyHeaders
        | Fault::TwoLengths
        | Fault::BadLength
        | Fault::LengthAndChunked
        | Fault::BadStatus
        | Fault::EarlyResponse
        | Fault::NoLength
        | Fault::ConnectionError => ScriptEnd::Close,
    }
}

/// Runs the script of a fault. Ends early if the client closes the connection.
pub(crate) async fn play(fault: Fault, stream: &mut Shared, alarm: &Rc<Alarm>) -> AfterScript {
    if perform(acts(fault), stream, alarm).await.is_err() {
        return AfterScript::Over;
    }
    match ending(fault) {
        ScriptEnd::Resume => return AfterScript::Resumed,
        ScriptEnd::Reset => stream.reset_when_dropped(),
        ScriptEnd::Hold => read_until_gone(stream).await,
        ScriptEnd::Close => close(stream).await,
        ScriptEnd::Cut => {
            stream.cut();
            linger(stream).await;
        }
    }
    AfterScript::Over
}

/// Closes a connection in an orderly way: closes the sending side, then continues to read for a
/// while.
pub(crate) async fn close(stream: &mut Shared) {
    if stream.shutdown().await.is_ok() {
        linger(stream).await;
    }
}

async fn perform(acts: &[ScriptStep], stream: &mut Shared, alarm: &Rc<Alarm>) -> io::Result<()> {
    for act in acts {
        match act {
            Send(text) => send(stream, text.as_bytes()).await?,
            Raw(bytes) => send(stream, bytes).await?,
            Rest => alarm.until(Instant::now() + PAUSE_INTERVAL).await,
            Slowly(text) => {
                for byte in text.as_bytes() {
                    alarm.until(Instant::now() + PAUSE_INTERVAL).await;
                    send(stream, &[*byte]).await?;
                }
            }
            Forever(text) => {
                let batch = text.repeat(256);
                loop {
                    send(stream, batch.as_bytes()).await?;
                }
            }
        }
    }
    Ok(())
}

/// Sends bytes and flushes them. Without the flush, TLS would keep bytes that the socket does not
/// accept immediately.
async fn send(stream: &mut Shared, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn linger(stream: &mut Shared) {
    // A timeout here isn't an error, because the client had enough time to close.
    let _ = tokio::time::timeout(LINGER_TIMEOUT, read_until_gone(stream)).await;
}

async fn read_until_gone(stream: &mut Shared) {
    let mut dropped = [0; 4096];
    while let Ok(1..) = stream.read(&mut dropped).await {}
}
