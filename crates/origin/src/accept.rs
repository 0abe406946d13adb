//! The loops in which a thread accepts connections.

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
use crate::connection::{ThreadContext, serve};
use crate::http3;
use crate::listen::Listeners;
use crate::stream::{Socket, Stream};

/// Pause after a failed accept, to avoid a busy loop. An accept usually fails because no descriptor
/// is left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Interval at which the origin checks whether the client has closed a connection, if the origin
/// doesn't read from it.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Settings for the handling of accepted connections.
#[derive(Clone)]
pub(crate) struct ConnectionPolicy {
    pub(crate) tls: Option<TlsAcceptor>,
    /// Settings of QUIC; `None` if the origin has no UDP address.
    pub(crate) quic: Option<quinn::ServerConfig>,
    pub(crate) fault: Option<AcceptFault>,
}

/// A listening TCP or UNIX socket.
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(tcp) => {
                let (stream, _) = tcp.accept().await?;
                // This fails only if the client has already closed the connection, which the next
                // read detects.
                let _ = stream.set_nodelay(true);
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(unix) => Ok(Socket::Unix(unix.accept().await?.0)),
        }
    }
}

/// Starts to accept connections on all listeners of this thread, and follows the freeze schedule.
/// Returns the QUIC endpoints.
pub(crate) fn start(
    listeners: Listeners,
    policy: &ConnectionPolicy,
    context: &Rc<ThreadContext>,
) -> io::Result<Vec<quinn::Endpoint>> {
    let tcp = listeners
        .tcp
        .into_iter()
        .map(|tcp| TcpListener::from_std(tcp).map(Listener::Tcp));
    let unix = listeners
        .unix
        .into_iter()
        .map(|unix| UnixListener::from_std(unix).map(Listener::Unix));
    for listener in tcp.chain(unix) {
        tokio::task::spawn_local(accept(listener?, policy.clone(), Rc::clone(context)));
    }
    let mut endpoints = Vec::new();
    for socket in listeners.udp {
        if let Some(config) = policy.quic.clone() {
            endpoints.extend(http3::start(socket, config, policy.fault, context)?);
        }
    }
    let alarm = Rc::clone(&context.alarm);
    tokio::task::spawn_local(async move { alarm.run().await });
    tokio::task::spawn_local(freeze(Rc::clone(context)));
    Ok(endpoints)
}

async fn accept(listener: Listener, policy: ConnectionPolicy, context: Rc<ThreadContext>) {
    if policy.fault == Some(AcceptFault::Never) {
        // Waiting forever keeps the listener open.
        return pending().await;
    }
    loop {
        match listener.accept().await {
            Ok(socket) => {
                context.counters.connections.fetch_add(1, Ordering::Relaxed);
                tokio::task::spawn_local(welcome(socket, policy.clone(), Rc::clone(&context)));
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

async fn welcome(socket: Socket, policy: ConnectionPolicy, context: Rc<ThreadContext>) {
    match (policy.fault, policy.tls) {
        (Some(AcceptFault::Reset), _) => socket.reset_when_dropped(),
        (Some(AcceptFault::Close), _) => socket.cut(),
        (Some(AcceptFault::Ignore | AcceptFault::Never), _) => wait_until_closed(&socket).await,
        (None, None) => serve(Stream::Plain(socket), context).await,
        (None, Some(tls)) => {
            // Ignore a failed handshake, because the client reports it.
            if let Ok(stream) = tls.accept(socket).await {
                serve(Stream::Tls(Box::new(stream)), context).await;
            }
        }
    }
}

/// Waits until the client has closed its side of the connection, without reading. The state is
/// polled, because unread bytes keep the socket readable.
async fn wait_until_closed(socket: &Socket) {
    loop {
        let ready = match socket {
            Socket::Tcp(tcp) => tcp.ready(Interest::READABLE).await,
            Socket::Unix(unix) => unix.ready(Interest::READABLE).await,
        };
        match ready {
            Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(CLOSE_POLL_INTERVAL).await,
            _ => return,
        }
    }
}

/// Puts the thread to sleep when a freeze begins, even if no request arrives.
async fn freeze(context: Rc<ThreadContext>) {
    let mut changes: watch::Receiver<()> = context.freeze_gate.changes();
    loop {
        changes.mark_unchanged();
        let next = context
            .freeze_gate
            .stall()
            .map(|stall| stall.next_freeze(Instant::now()));
        let freeze = async {
            match next {
                Some(start) => context.alarm.until(start).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = freeze => context.freeze_gate.hold(),
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}
