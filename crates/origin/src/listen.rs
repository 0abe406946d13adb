//! Listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::config::{AcceptFault, Config};
use crate::error::OriginError;

/// Backlog of a listener; the system may allow less (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Backlog for [`AcceptFault::Never`]; small, so that it fills up quickly.
const NEVER_ACCEPT_BACKLOG: i32 = 16;

/// Longest UNIX socket path in bytes, without the closing zero.
const UNIX_PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The listeners of one thread.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) tcp: Vec<TcpListener>,
    pub(crate) unix: Vec<UnixListener>,
}

/// All listening sockets.
#[derive(Debug)]
pub(crate) struct Bound {
    /// Listeners of each thread.
    pub(crate) threads: Vec<Listeners>,
    /// Actual TCP addresses.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Socket files, removed when this is dropped.
    pub(crate) files: SocketFiles,
}

/// Socket files that this process created; removed on drop.
#[derive(Debug, Default)]
pub(crate) struct SocketFiles(pub(crate) Vec<PathBuf>);

impl Drop for SocketFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // The file may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Binds the configured addresses and paths for the given number of threads.
pub(crate) fn bind(config: &Config, threads: usize) -> Result<Bound, OriginError> {
    if config.listen.is_empty() && config.unix.is_empty() {
        return Err(OriginError::NothingToListenOn);
    }
    let backlog = match config.on_accept {
        Some(AcceptFault::Never) => NEVER_ACCEPT_BACKLOG,
        _ => BACKLOG,
    };
    let mut bound = Bound {
        threads: (0..threads).map(|_| Listeners::default()).collect(),
        addresses: Vec::new(),
        files: SocketFiles::default(),
    };
    for &address in &config.listen {
        let listeners = tcp(address, threads, backlog)
            .map_err(|source| OriginError::Listen { address, source })?;
        if let Some(first) = listeners.first() {
            let real = first.local_addr();
            bound
                .addresses
                .push(real.map_err(|source| OriginError::Listen { address, source })?);
        }
        for (thread, listener) in bound.threads.iter_mut().zip(listeners) {
            thread.tcp.push(listener);
        }
    }
    for path in &config.unix {
        let failed = |source| OriginError::Unix {
            path: path.clone(),
            source,
        };
        let listener = unix(path, backlog)?;
        bound.files.0.push(path.clone());
        for thread in &mut bound.threads {
            thread.unix.push(listener.try_clone().map_err(failed)?);
        }
    }
    Ok(bound)
}

/// One listener per thread on the same address, between which the kernel distributes connections
/// (SO_REUSEPORT). A single listener is bound without it.
fn tcp(address: SocketAddr, threads: usize, backlog: i32) -> io::Result<Vec<TcpListener>> {
    if threads == 1 {
        return Ok(vec![tcp_listener(address, false, backlog)?]);
    }
    if address.port() != 0 {
        // With SO_REUSEPORT, binding would succeed next to another process that uses it too, and
        // the two would silently share connections.
        drop(tcp_listener(address, false, backlog)?);
    }
    let first = tcp_listener(address, true, backlog)?;
    let real = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(tcp_listener(real, true, backlog)?);
    }
    Ok(listeners)
}

fn tcp_listener(address: SocketAddr, reuse_port: bool, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Allows 0.0.0.0 and :: on the same port.
        socket.set_only_v6(true)?;
    }
    if reuse_port {
        share_port(&socket)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(target_os = "freebsd")]
fn share_port(socket: &Socket) -> io::Result<()> {
    // On this system, plain SO_REUSEPORT gives every connection to the last listener.
    socket.set_reuse_port_lb(true)
}

#[cfg(not(target_os = "freebsd"))]
fn share_port(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

fn unix(path: &Path, backlog: i32) -> Result<UnixListener, OriginError> {
    let failed = |source| OriginError::Unix {
        path: path.into(),
        source,
    };
    if path.as_os_str().len() > UNIX_PATH_BYTES_MAX {
        return Err(OriginError::UnixPathTooLong {
            path: path.into(),
            limit: UNIX_PATH_BYTES_MAX,
        });
    }
    remove_dead_socket(path)?;
    let address = SockAddr::unix(path).map_err(failed)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    socket.bind(&address).map_err(failed)?;
    socket.listen(backlog).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(socket.into())
}

/// Removes the socket file of a process that was killed; binding would fail on it.
fn remove_dead_socket(path: &Path) -> Result<(), OriginError> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(OriginError::UnixPathOccupied { path: path.into() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|source| OriginError::Unix {
                path: path.into(),
                source,
            })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        _ => Err(OriginError::UnixPathInUse { path: path.into() }),
    }
}
