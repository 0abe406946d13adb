//! The processes of a server that prony did not start.

use std::net::SocketAddr;

use prony_plan::service::PortProtocol;

use crate::system::linux;

/// Returns the processes of the server that listens on a TCP address of this machine: the process
/// that listens, the processes above it that run the same program, and all their descendants. Empty
/// if no process that this user may inspect listens there.
pub(super) fn processes_listening(address: SocketAddr) -> Vec<i32> {
    let Some(holder) = linux::port_holder(address, PortProtocol::Tcp) else {
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
        assert!(processes_listening(address).contains(&own));
        drop(listener);
        assert!(!processes_listening(address).contains(&own));
    }
}
