//! What each fault writes on the bare connection.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::alarm::Alarm;
use crate::fault::Fault;
use crate::stream::Shared;

/// How long an orderly close goes on reading what the client still sends: closing a socket with
/// unread bytes would send a reset and could take the answer from the client.
const LINGER: Duration = Duration::from_secs(5);

/// One act of a script.
enum Act {
    /// Text, all at once.
    Send(&'static str),
    /// Bytes that are no text, all at once.
    Raw(&'static [u8]),
    /// Text, byte by byte, with a [`GAP`] between.
    Slowly(&'static str),
    /// A [`GAP`] without a byte.
    Rest,
    /// The same text again and again, until the client leaves.
    Forever(&'static str),
}

/// How a script ends.
enum Ending {
    /// The sending side is closed (TLS: after `close_notify`), then the socket.
    Close,
    /// As `Close`, but TLS is not told.
    Cut,
    /// TCP: a reset.
    Reset,
    /// Reads and drops what comes until the client leaves.
    Hold,
    /// The connection goes back to hyper.
    Resume,
}

/// What is left of the connection after a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It is over; the stream is to be dropped.
    Over,
    /// It can be served on.
    Resumed,
}

use Act::{Forever, Raw, Rest, Send, Slowly};

const GAP: Duration = Duration::from_millis(10);

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

/// 64 bytes with no line end.
const FILLING: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn acts(fault: Fault) -> &'static [Act] {
    match fault {
        Fault::Reset | Fault::Stall | Fault::Close => &[],
        Fault::Truncate | Fault::StallBody | Fault::ResetBody => &[Send(OK_26), Send(HELLO)],
        Fault::Garbage => &[Raw(b"\x00\x01\xfe\xffno HTTP here\x80\r\n\r\n")],
        Fault::Half => &[Send("HTTP/1.1 200 OK\r\nContent-Ty")],
        Fault::EarlyCloseKeepalive => &[Send(OK_KEEP), Send(HELLO)],
        Fault::CloseButOpen | Fault::EarlyAnswer => &[Send(OK_CLOSE), Send(HELLO)],
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
        Fault::HugeHead => &[Send("HTTP/1.1 200 OK\r\nEndless: "), Forever(FILLING)],
        Fault::ManyHeaders => &[Send("HTTP/1.1 200 OK\r\n"), Forever("Another: header\r\n")],
        Fault::TwoLengths => &[Send(OK_TWO_LENGTHS), Send(HELLO)],
        Fault::BadLength => &[Send(OK_BAD_LENGTH), Send(HELLO)],
        Fault::LengthAndChunked => &[Send(OK_BOTH), Send(ONE_CHUNK), Send(LAST_CHUNK)],
        Fault::BadStatus => &[Send(OK_BAD_STATUS), Send(HELLO)],
        Fault::NoLength | Fault::NoCloseNotify => &[Send(OK_OLD), Send(HELLO)],
    }
}

fn ending(fault: Fault) -> Ending {
    match fault {
        Fault::Reset | Fault::ResetBody => Ending::Reset,
        Fault::Stall | Fault::StallBody | Fault::CloseButOpen => Ending::Hold,
        Fault::NoCloseNotify => Ending::Cut,
        Fault::LiesShort | Fault::Interim | Fault::Continue | Fault::SlowBody | Fault::Trailers => {
            Ending::Resume
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
        | Fault::EarlyAnswer
        | Fault::NoLength => Ending::Close,
    }
}

/// Plays the fault's script. Whatever the client breaks off ends it.
pub(crate) async fn play(fault: Fault, stream: &mut Shared, alarm: &Rc<Alarm>) -> After {
    if perform(acts(fault), stream, alarm).await.is_err() {
        return After::Over;
    }
    match ending(fault) {
        Ending::Resume => return After::Resumed,
        Ending::Reset => stream.reset_when_dropped(),
        Ending::Hold => read_until_gone(stream).await,
        Ending::Close => close(stream).await,
        Ending::Cut => {
            stream.cut();
            linger(stream).await;
        }
    }
    After::Over
}

/// An orderly close: says that no more comes, then reads on for a while.
pub(crate) async fn close(stream: &mut Shared) {
    if stream.shutdown().await.is_ok() {
        linger(stream).await;
    }
}

async fn perform(acts: &[Act], stream: &mut Shared, alarm: &Rc<Alarm>) -> io::Result<()> {
    for act in acts {
        match act {
            Send(text) => send(stream, text.as_bytes()).await?,
            Raw(bytes) => send(stream, bytes).await?,
            Rest => alarm.until(Instant::now() + GAP).await,
            Slowly(text) => {
                for byte in text.as_bytes() {
                    alarm.until(Instant::now() + GAP).await;
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

/// Flushes too: TLS would otherwise keep what the socket did not take at once.
async fn send(stream: &mut Shared, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn linger(stream: &mut Shared) {
    // Being late here is no failure: the client had its chance.
    let _ = tokio::time::timeout(LINGER, read_until_gone(stream)).await;
}

async fn read_until_gone(stream: &mut Shared) {
    let mut dropped = [0; 4096];
    while let Ok(1..) = stream.read(&mut dropped).await {}
}
