//! From a listener to connections, on one thread.

use std::future::pending;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::config::AcceptFault;
use crate::connection::{Bench, serve};
use crate::listen::Listeners;
use crate::stream::{Socket, Stream};

/// After a failed accept (no descriptor left, mostly), so as not to spin.
const RETRY: Duration = Duration::from_millis(20);

/// How often a connection that is not read is asked whether its client has left.
const LOOK: Duration = Duration::from_millis(200);

/// What to do with each connection.
#[derive(Clone)]
pub(crate) struct Manners {
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) fault: Option<AcceptFault>,
}

/// One listener, of whichever kind.
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(tcp) => {
                let (stream, _) = tcp.accept().await?;
                // Fails only if the client has already gone, which shows soon enough.
                let _ = stream.set_nodelay(true);
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(unix) => Ok(Socket::Unix(unix.accept().await?.0)),
        }
    }
}

/// Starts accepting on all listeners of this thread, and keeps to the freeze schedule.
pub(crate) fn start(listeners: Listeners, manners: &Manners, bench: &Rc<Bench>) -> io::Result<()> {
    let tcp = listeners
        .tcp
        .into_iter()
        .map(|tcp| TcpListener::from_std(tcp).map(Listener::Tcp));
    let unix = listeners
        .unix
        .into_iter()
        .map(|unix| UnixListener::from_std(unix).map(Listener::Unix));
    for listener in tcp.chain(unix) {
        tokio::task::spawn_local(accept(listener?, manners.clone(), Rc::clone(bench)));
    }
    let alarm = Rc::clone(&bench.alarm);
    tokio::task::spawn_local(async move { alarm.run().await });
    tokio::task::spawn_local(freeze(Rc::clone(bench)));
    Ok(())
}

async fn accept(listener: Listener, manners: Manners, bench: Rc<Bench>) {
    if manners.fault == Some(AcceptFault::Never) {
        // Holds the listener open.
        return pending().await;
    }
    loop {
        match listener.accept().await {
            Ok(socket) => {
                bench.counters.connections.fetch_add(1, Ordering::Relaxed);
                tokio::task::spawn_local(welcome(socket, manners.clone(), Rc::clone(&bench)));
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

async fn welcome(socket: Socket, manners: Manners, bench: Rc<Bench>) {
    match (manners.fault, manners.tls) {
        (Some(AcceptFault::Reset), _) => socket.reset_when_dropped(),
        (Some(AcceptFault::Close), _) => socket.cut(),
        (Some(AcceptFault::Ignore | AcceptFault::Never), _) => until_left(&socket).await,
        (None, None) => serve(Stream::Plain(socket), bench).await,
        (None, Some(tls)) => {
            // A handshake that fails is the client's to report.
            if let Ok(stream) = tls.accept(socket).await {
                serve(Stream::Tls(Box::new(stream)), bench).await;
            }
        }
    }
}

/// Waits until the client has closed its side, without reading. Unread bytes keep the socket
/// ready for ever, so it looks again from time to time.
async fn until_left(socket: &Socket) {
    loop {
        let ready = match socket {
            Socket::Tcp(tcp) => tcp.ready(Interest::READABLE).await,
            Socket::Unix(unix) => unix.ready(Interest::READABLE).await,
        };
        match ready {
            Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(LOOK).await,
            _ => return,
        }
    }
}

/// Puts the thread to sleep when a freeze begins, whether or not there are requests.
async fn freeze(bench: Rc<Bench>) {
    let mut changes: watch::Receiver<()> = bench.brake.changes();
    loop {
        changes.mark_unchanged();
        let next = bench
            .brake
            .stall()
            .map(|stall| stall.next_freeze(Instant::now()));
        let freeze = async {
            match next {
                Some(start) => bench.alarm.until(start).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = freeze => bench.brake.hold(),
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}
