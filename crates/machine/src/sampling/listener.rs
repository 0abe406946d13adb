//! The processes of a server that prony did not start.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use prony_plan::service::PortProtocol;

use crate::system::linux;

/// The address of a server on this machine.
#[derive(Debug, Clone, Copy)]
pub enum Listener<'a> {
    /// TCP address.
    Tcp(SocketAddr),
    /// Path of a UNIX socket.
    Unix(&'a Path),
}

impl fmt::Display for Listener<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Returns the processes of a server: the process that listens, the processes above it that run the
/// same program, and all their descendants. Empty if no process that this user may inspect listens
/// there.
pub(super) fn processes_listening(listener: Listener<'_>) -> Vec<i32> {
    let holder = match listener {
        Listener::Tcp(address) => linux::port_holder(address, PortProtocol::Tcp),
        Listener::Unix(path) => linux::unix_socket_holder(path),
    };
    let Some(holder) = holder else {
        return Vec::new();
    };
    let table = linux::processes();
    let root = linux::program_root(&table, holder.pid);
    let below = table.descendants(root);
    std::iter::once(root)
        .chain(below.iter().map(|it| it.pid))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_of_this_process_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let own = std::process::id().cast_signed();
        assert!(processes_listening(Listener::Tcp(address)).contains(&own));
        drop(listener);
        assert!(!processes_listening(Listener::Tcp(address)).contains(&own));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(processes_listening(Listener::Unix(&path)).contains(&own));
        drop(listener);
        assert!(processes_listening(Listener::Unix(&path)).is_empty());
    }
}
