//! A veth pair for tests of the backend that bypasses the kernel. The backend is at one end, in the
//! thread's own network namespace. The listeners are at the other end, in a second namespace.

use std::cell::RefCell;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;

use super::super::{XdpLink, XdpOptions, XdpSetup, XdpSockets};
use super::apparatus::Via;

/// Addresses of the end of the link at which the listeners are.
const FAR_V4: &str = "10.9.0.2";
const FAR_V6: &str = "fd09::2";
const FAR_MAC: &str = "02:00:00:00:09:02";
/// Source addresses that the kernel doesn't have, used in addition to the interface's addresses.
const FOREIGN: [&str; 2] = ["10.9.0.77", "fd09::77"];

thread_local! {
    /// The network namespace of this thread's listeners, if it differs from the thread's own
    /// namespace.
    static FAR_NAMESPACE: RefCell<Option<Arc<File>>> = const { RefCell::new(None) };
}

/// Returns the address at which this thread's listeners can be reached.
pub(super) fn listener_address(via: Via) -> SocketAddr {
    let is_far = FAR_NAMESPACE.with_borrow(Option::is_some);
    let address = match (via, is_far) {
        (Via::V4, true) => FAR_V4,
        (_, true) => FAR_V6,
        (Via::V4, false) => "127.0.0.1",
        (_, false) => "::1",
    };
    SocketAddr::new(address.parse().unwrap(), 0)
}

/// Returns a source address that connections of this thread can use.
pub(super) fn other_source(via: Via) -> IpAddr {
    let is_far = FAR_NAMESPACE.with_borrow(Option::is_some);
    let address = match (via, is_far) {
        (Via::V4, true) => FOREIGN[0],
        (_, true) => FOREIGN[1],
        (Via::V4, false) => "127.0.0.77",
        (_, false) => "::1",
    };
    address.parse().unwrap()
}

/// Runs `work` in the network namespace of this thread's listeners.
pub(super) fn at_listeners<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match FAR_NAMESPACE.with_borrow(Clone::clone) {
        None => work(),
        Some(namespace) => inside(&namespace, work),
    }
}

fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> T {
    let enter = || {
        // SAFETY: a plain system call on an open descriptor, which affects only this thread.
        let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(entered, 0, "{}", std::io::Error::last_os_error());
        work()
    };
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

fn enter_new_namespace() -> File {
    // SAFETY: a plain system call, which affects only this thread and its child processes.
    let made = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    let error = std::io::Error::last_os_error();
    assert_eq!(
        made, 0,
        "creating a network namespace requires root ({error})"
    );
    File::open("/proc/thread-self/ns/net").unwrap()
}

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    let status = status.expect("iproute2 must be installed (cargo xtask test installs it)");
    assert!(status.success(), "ip {words}: {status}");
}

/// Runs `work` with a backend, on a thread with its own network namespace. A link connects this
/// namespace to the namespace of the listeners.
pub(super) fn over_link(work: impl FnOnce(XdpSockets<'static>) + Send) {
    let with_link = || {
        let _near = enter_new_namespace();
        let far = std::thread::scope(|scope| scope.spawn(enter_new_namespace).join().unwrap());
        ip("link set lo up");
        ip(&format!(
            "link add near type veth peer name far address {FAR_MAC}"
        ));
        let path = format!("/proc/{}/fd/{}", std::process::id(), far.as_raw_fd());
        ip(&format!("link set far netns {path}"));
        ip("address add 10.9.0.1/24 dev near");
        ip("-6 address add fd09::1/64 dev near nodad");
        ip("link set near up");
        // A busy machine must not delay the contract until the kernel gives up asking for them.
        for address in [FAR_V4, FAR_V6] {
            ip(&format!("neighbor add {address} lladdr {FAR_MAC} dev near"));
        }
        inside(&far, || {
            ip("link set lo up");
            ip(&format!("address add {FAR_V4}/24 dev far"));
            ip(&format!("-6 address add {FAR_V6}/64 dev far nodad"));
            ip("link set far up");
        });
        FAR_NAMESPACE.set(Some(Arc::new(far)));
        let sockets = XdpSockets::new(link(), 0, 8);
        work(sockets);
    };
    std::thread::scope(|scope| {
        if let Err(panic) = scope.spawn(with_link).join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn link() -> Arc<XdpLink> {
    let options = XdpOptions {
        interface: "near".to_owned(),
        gateway_mac: None,
        busy_poll: false,
    };
    let targets = [FAR_V4, FAR_V6].map(|it| SocketAddr::new(it.parse().unwrap(), 80));
    let sources = ["10.9.0.1", "fd09::1", FOREIGN[0], FOREIGN[1]]
        .map(|it| prony_xdp::AddressRange::single(it.parse().unwrap()));
    let setup = XdpSetup::check(options, targets.to_vec(), &sources).unwrap();
    XdpLink::attach(&setup, 1).unwrap()
}
