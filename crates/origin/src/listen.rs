//! Listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::config::{AcceptFault, Config};
use crate::error::OriginError;

/// Maximum backlog of a listener. The system may reduce it (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Backlog for [`AcceptFault::Never`]. It is small so that it fills up quickly.
const NEVER_ACCEPT_BACKLOG: i32 = 16;

/// Receive buffer of a UDP socket in bytes. It is large enough that no initial packets are lost
/// when many clients connect at the same time. The system may reduce it (`net.core.rmem_max`).
const UDP_RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Maximum number of attempts to find a port that is free for both TCP and UDP. Applies if the
/// system chooses the port.
const SHARED_PORT_ATTEMPTS: usize = 16;

/// Maximum length of a UNIX socket path in bytes, without the terminating zero.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// The listeners of one thread.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) tcp: Vec<TcpListener>,
    pub(crate) unix: Vec<UnixListener>,
    pub(crate) udp: Vec<UdpSocket>,
}

/// All listening sockets of an origin.
#[derive(Debug)]
pub(crate) struct BoundListeners {
    /// Listeners of each thread, in the order of the threads.
    pub(crate) threads: Vec<Listeners>,
    /// Actual TCP addresses, in the order of the configuration.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Actual UDP addresses: first those that share their port number with a TCP listener, then
    /// those of [`Config::quic`].
    pub(crate) quic_addresses: Vec<SocketAddr>,
    /// Files of the UNIX sockets, which are removed when this value is dropped.
    pub(crate) files: SocketFiles,
}

/// Files of UNIX sockets that this process created. They are removed when this value is dropped.
#[derive(Debug, Default)]
pub(crate) struct SocketFiles(pub(crate) Vec<PathBuf>);

impl Drop for SocketFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // This fails if the file was already removed.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Binds the configured addresses and paths for the given number of threads.
pub(crate) fn bind(config: &Config, threads: usize) -> Result<BoundListeners, OriginError> {
    if config.listen.is_empty() && config.unix.is_empty() && config.quic.is_empty() {
        return Err(OriginError::NothingToListenOn);
    }
    let backlog = match config.on_accept {
        Some(AcceptFault::Never) => NEVER_ACCEPT_BACKLOG,
        _ => BACKLOG,
    };
    let mut bound = BoundListeners {
        threads: (0..threads).map(|_| Listeners::default()).collect(),
        addresses: Vec::new(),
        quic_addresses: Vec::new(),
        files: SocketFiles::default(),
    };
    for &address in &config.listen {
        if config.quic_on_tcp_ports {
            bound.add_tcp_and_udp(address, threads, backlog)?;
        } else {
            bound.add_tcp(tcp(address, threads, backlog)?);
        }
    }
    for &address in &config.quic {
        bound.add_udp(udp(address, threads)?);
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

/// The sockets that all threads bind to the same address.
struct SharedAddress<S> {
    real: SocketAddr,
    sockets: Vec<S>,
}

impl BoundListeners {
    fn add_tcp(&mut self, bound: SharedAddress<TcpListener>) {
        self.addresses.push(bound.real);
        for (thread, listener) in self.threads.iter_mut().zip(bound.sockets) {
            thread.tcp.push(listener);
        }
    }

    fn add_udp(&mut self, bound: SharedAddress<UdpSocket>) {
        self.quic_addresses.push(bound.real);
        for (thread, socket) in self.threads.iter_mut().zip(bound.sockets) {
            thread.udp.push(socket);
        }
    }

    /// Binds the same port number for TCP and UDP. If the system chooses the TCP port, the UDP port
    /// with the same number may be in use. In that case, another TCP port is tried.
    fn add_tcp_and_udp(
        &mut self,
        address: SocketAddr,
        threads: usize,
        backlog: i32,
    ) -> Result<(), OriginError> {
        let mut attempts_left = match address.port() {
            0 => SHARED_PORT_ATTEMPTS - 1,
            _ => 0,
        };
        loop {
            let tcp = tcp(address, threads, backlog)?;
            match udp(tcp.real, threads) {
                Ok(udp) => {
                    self.add_tcp(tcp);
                    self.add_udp(udp);
                    return Ok(());
                }
                Err(_) if attempts_left > 0 => attempts_left -= 1,
                Err(error) => return Err(error),
            }
        }
    }
}

fn tcp(
    address: SocketAddr,
    threads: usize,
    backlog: i32,
) -> Result<SharedAddress<TcpListener>, OriginError> {
    let bind = |address, reuse_port| tcp_listener(address, reuse_port, backlog);
    share_address(address, threads, bind, TcpListener::local_addr)
        .map_err(|source| OriginError::Listen { address, source })
}

fn udp(address: SocketAddr, threads: usize) -> Result<SharedAddress<UdpSocket>, OriginError> {
    share_address(address, threads, udp_socket, UdpSocket::local_addr)
        .map_err(|source| OriginError::Quic { address, source })
}

/// Binds one socket per thread to the same address. The kernel distributes connections among the
/// sockets (SO_REUSEPORT). A single socket is bound without this option.
fn share_address<S>(
    address: SocketAddr,
    threads: usize,
    bind: impl Fn(SocketAddr, bool) -> io::Result<S>,
    local_address: impl Fn(&S) -> io::Result<SocketAddr>,
) -> io::Result<SharedAddress<S>> {
    let shared = threads > 1;
    if shared && address.port() != 0 {
        // First bind without SO_REUSEPORT. With this option, binding would succeed even if another
        // process also uses it on this address, and the two processes would silently share
        // connections.
        drop(bind(address, false)?);
    }
    let first = bind(address, shared)?;
    let real = local_address(&first)?;
    let mut sockets = vec![first];
    for _ in 1..threads {
        sockets.push(bind(real, true)?);
    }
    Ok(SharedAddress { real, sockets })
}

fn tcp_listener(address: SocketAddr, reuse_port: bool, backlog: i32) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    bind_address(&socket, address, reuse_port)?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

fn udp_socket(address: SocketAddr, reuse_port: bool) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    // Some systems reject a size above their limit. The socket then keeps its default size.
    let _ = socket.set_recv_buffer_size(UDP_RECEIVE_BUFFER_BYTES);
    bind_address(&socket, address, reuse_port)?;
    Ok(socket.into())
}

fn bind_address(socket: &Socket, address: SocketAddr, reuse_port: bool) -> io::Result<()> {
    if address.is_ipv6() {
        // This allows 0.0.0.0 and :: to use the same port.
        socket.set_only_v6(true)?;
    }
    if reuse_port {
        share_port(socket)?;
    }
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)
}

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

/// Removes the socket file that a killed process left behind, because binding fails if the file
/// exists.
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
