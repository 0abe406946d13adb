//! A veth pair that connects two network namespaces, which exist until the test ends. The tests of
//! the load engine also include this module.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;

/// Runs `work` on a thread in a new network namespace. The namespace has the interface `near`, with
/// the addresses 10.9.0.1/16 and fd09::1/64 and the given number of queues. The other end of the
/// link, `far` with the addresses 10.9.0.2 and fd09::2, is in another namespace, to which `work`
/// receives a handle.
pub(crate) fn on_link(queues: u32, work: impl FnOnce(&FarEnd) + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter_new_namespace();
            let far = FarEnd::new();
            ip("link set lo up");
            let queues = format!("numrxqueues {queues} numtxqueues {queues}");
            let near = format!("link add near address 02:00:00:00:00:01 {queues} type veth");
            ip(&format!(
                "{near} peer name far address 02:00:00:00:00:02 {queues}"
            ));
            ip(&format!("link set far netns {}", far.path()));
            ip("address add 10.9.0.1/16 dev near");
            ip("-6 address add fd09::1/64 dev near nodad");
            ip("link set near up");
            far.run(|| {
                ip("link set lo up");
                ip("address add 10.9.0.2/16 dev far");
                ip("-6 address add fd09::2/64 dev far nodad");
                ip("link set far up");
            });
            work(&far);
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn enter_new_namespace() {
    // SAFETY: a plain system call, which affects only this thread and its child processes.
    let made = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    let error = std::io::Error::last_os_error();
    assert_eq!(made, 0, "a network namespace needs root ({error})");
}

/// Runs `ip` of iproute2 with the given arguments.
pub(crate) fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    let status = status.expect("ip of iproute2 (cargo xtask test installs it)");
    assert!(status.success(), "ip {words}: {status}");
}

/// The namespace at the other end of the link.
pub(crate) struct FarEnd(File);

impl FarEnd {
    /// Creates a network namespace without a link.
    pub(crate) fn new() -> FarEnd {
        let make = || {
            enter_new_namespace();
            File::open("/proc/thread-self/ns/net").unwrap()
        };
        FarEnd(std::thread::scope(|scope| {
            scope.spawn(make).join().unwrap()
        }))
    }

    /// Returns the path of the namespace, for use with iproute2.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Runs `work` on this thread, in the namespace. Programs that `work` starts stay in the
    /// namespace, and some of them end with the thread.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let near = File::open("/proc/thread-self/ns/net").unwrap();
        enter(&self.0);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        enter(&near);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn enter(namespace: &File) {
    // SAFETY: a plain system call on an open descriptor, which affects only this thread.
    let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(entered, 0, "{}", std::io::Error::last_os_error());
}
