//! Waits of threads: the functions in which they leave their cores, the time and the reason.
//!
//! Recording each context switch would cost too much, so it happens in short periods. Threads that
//! left their cores before a period have no record in it, and are looked up in `/proc`.

use std::collections::{BTreeSet, HashMap};

use procfs::process::{FDTarget, Process, Syscall};
use prony_record::sampling::WaitReason;

use super::events::{Observation, USER_MARKER};

/// Maximum number of threads that are followed at the same time.
const THREADS_MAX: usize = 4_096;

/// Time that a thread spent off its core, without names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RawWait {
    /// Indexes of addresses, the innermost first.
    pub(super) chain: Box<[u32]>,
    pub(super) context: WaitContext,
}

/// Facts about a wait in addition to its call chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct WaitContext {
    /// True if the thread could still run.
    pub(super) preempted: bool,
    /// The kernel's function that waits, if the chain doesn't contain the kernel's part.
    pub(super) kernel_function: Option<&'static str>,
    pub(super) object: WaitObject,
}

/// The object that the first argument of a system call refers to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) enum WaitObject {
    /// A connection that the service has accepted.
    Client,
    /// A futex of which a thread waits for the value to change, as mutexes do.
    Mutex,
    #[default]
    Other,
}

/// A thread that is off its core, or about to leave it.
#[derive(Debug, Clone, Default)]
struct OffCore {
    pid: i32,
    chain: Vec<u64>,
    context: WaitContext,
    /// Since when; `None` if it is still on the core.
    since_ns: Option<u64>,
}

/// Follows threads through one period.
#[derive(Debug)]
pub(super) struct WaitTracker {
    start_ns: u64,
    threads: HashMap<i32, OffCore>,
    sockets: AcceptedSockets,
}

impl WaitTracker {
    pub(super) fn new(start_ns: u64) -> Self {
        Self {
            start_ns,
            threads: HashMap::new(),
            sockets: AcceptedSockets::default(),
        }
    }

    /// Adds a thread that was found off its core in a system call. It has been off its core since the
    /// start, unless it has been observed since.
    pub(super) fn found(&mut self, pid: i32, tid: i32, call: &Syscall) {
        let Syscall::Blocked {
            syscall_number,
            argument_registers: [first, second, ..],
            program_counter,
            ..
        } = call
        else {
            return;
        };
        if self.threads.contains_key(&tid) || self.threads.len() >= THREADS_MAX {
            return;
        }
        let object = self.object(pid, [*first, *second]);
        let context = WaitContext {
            preempted: false,
            kernel_function: Some(kernel_function_of(*syscall_number, object)),
            object,
        };
        let off_core = OffCore {
            pid,
            chain: vec![USER_MARKER, *program_counter],
            context,
            since_ns: Some(self.start_ns),
        };
        self.threads.insert(tid, off_core);
    }

    /// Processes an observation. `on_wait` receives the process, call chain, context and duration of
    /// a wait that has ended.
    pub(super) fn observe(
        &mut self,
        time_ns: u64,
        observed: Observation,
        on_wait: &mut impl FnMut(i32, &[u64], WaitContext, u64),
    ) {
        match observed {
            Observation::Blocked {
                pid,
                tid,
                chain,
                arguments,
                ..
            } => {
                let context = WaitContext {
                    object: self.object(pid, arguments),
                    ..WaitContext::default()
                };
                if !self.is_full_for(tid) {
                    let thread = OffCore {
                        pid,
                        chain,
                        context,
                        since_ns: None,
                    };
                    self.threads.insert(tid, thread);
                }
            }
            Observation::SwitchedOut { tid, preempted } => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.context.preempted = preempted;
                    thread.since_ns = Some(time_ns);
                }
            }
            Observation::SwitchedIn { tid } => {
                if self.is_full_for(tid) {
                    return;
                }
                let thread = self.threads.entry(tid).or_default();
                if let Some(since_ns) = thread.since_ns.take() {
                    let ns = time_ns.saturating_sub(since_ns);
                    on_wait(thread.pid, &thread.chain, thread.context, ns);
                }
            }
            _ => {}
        }
    }

    /// Ends the period. Threads that are still off their cores have waited until now.
    pub(super) fn end(self, time_ns: u64, on_wait: &mut impl FnMut(i32, &[u64], WaitContext, u64)) {
        for thread in self.threads.into_values() {
            if let Some(since_ns) = thread.since_ns {
                let ns = time_ns.saturating_sub(since_ns);
                on_wait(thread.pid, &thread.chain, thread.context, ns);
            }
        }
    }

    fn is_full_for(&self, tid: i32) -> bool {
        self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&tid)
    }

    fn object(&mut self, pid: i32, [first, second]: [u64; 2]) -> WaitObject {
        /// Descriptors are small numbers, and addresses are not.
        const DESCRIPTOR_MAX: u64 = 1 << 20;
        const FUTEX_COMMAND_MASK: u64 = 0x7f;

        match i32::try_from(first) {
            Ok(descriptor) if first <= DESCRIPTOR_MAX => {
                if self.sockets.contain(pid, descriptor) {
                    WaitObject::Client
                } else {
                    WaitObject::Other
                }
            }
            // FUTEX_WAIT is 0. The C library uses it for mutexes, and FUTEX_WAIT_BITSET for condition
            // variables and semaphores.
            _ if second & FUTEX_COMMAND_MASK == 0 => WaitObject::Mutex,
            _ => WaitObject::Other,
        }
    }
}

/// Descriptors of connections that processes have accepted.
#[derive(Debug, Default)]
struct AcceptedSockets {
    known: HashMap<(i32, i32), bool>,
    /// Inodes of accepted sockets, by network of a process.
    inodes: HashMap<i32, BTreeSet<u64>>,
}

impl AcceptedSockets {
    fn contain(&mut self, pid: i32, descriptor: i32) -> bool {
        if let Some(known) = self.known.get(&(pid, descriptor)) {
            return *known;
        }
        let mut find = || {
            let process = Process::new(pid).ok()?;
            let FDTarget::Socket(inode) = process.fd_from_fd(descriptor).ok()?.target else {
                return None;
            };
            let inodes = self.inodes.entry(pid);
            Some(
                inodes
                    .or_insert_with(|| accepted(&process))
                    .contains(&inode),
            )
        };
        let is_accepted = find().unwrap_or(false);
        if self.known.len() < THREADS_MAX {
            self.known.insert((pid, descriptor), is_accepted);
        }
        is_accepted
    }
}

/// Returns the inodes of all sockets at the addresses of listening sockets, in a process's network.
fn accepted(process: &Process) -> BTreeSet<u64> {
    use procfs::net::TcpState;

    let tcp = process.tcp().into_iter().chain(process.tcp6()).flatten();
    let tcp: Vec<_> = tcp.collect();
    let listening = tcp.iter().filter(|it| it.state == TcpState::Listen);
    let ports: BTreeSet<u16> = listening.map(|it| it.local_address.port()).collect();
    let of_tcp = tcp
        .iter()
        .filter(|it| ports.contains(&it.local_address.port()));
    // Only the accepting end of a UNIX connection has a path.
    let unix = process.unix().unwrap_or_default();
    let of_unix = unix.iter().filter(|it| it.path.is_some());
    of_tcp
        .map(|it| it.inode)
        .chain(of_unix.map(|it| it.inode))
        .collect()
}

/// Returns a kernel function in which a system call waits.
fn kernel_function_of(number: i64, object: WaitObject) -> &'static str {
    #[allow(clippy::unnecessary_cast, reason = "the type depends on the system")]
    let calls: &[(i64, &'static str)] = &[
        (libc::SYS_futex as i64, "futex_wait"),
        (libc::SYS_clock_nanosleep as i64, "do_nanosleep"),
        (libc::SYS_nanosleep as i64, "do_nanosleep"),
        (libc::SYS_recvfrom as i64, "sk_wait_data"),
        (libc::SYS_recvmsg as i64, "sk_wait_data"),
        (libc::SYS_read as i64, "pipe_read"),
        (libc::SYS_sendto as i64, "sk_stream_wait_memory"),
        (libc::SYS_sendmsg as i64, "sk_stream_wait_memory"),
        (libc::SYS_connect as i64, "inet_wait_for_connect"),
        (libc::SYS_accept4 as i64, "inet_csk_accept"),
        (libc::SYS_accept as i64, "inet_csk_accept"),
        (libc::SYS_epoll_pwait as i64, "ep_poll"),
        (libc::SYS_epoll_pwait2 as i64, "ep_poll"),
        (libc::SYS_ppoll as i64, "do_sys_poll"),
        (libc::SYS_pselect6 as i64, "do_select"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_epoll_wait as i64, "ep_poll"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_poll as i64, "do_sys_poll"),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_select as i64, "do_select"),
        (libc::SYS_io_uring_enter as i64, "io_cqring_wait"),
        (libc::SYS_fsync as i64, "io_schedule"),
        (libc::SYS_fdatasync as i64, "io_schedule"),
        (libc::SYS_pread64 as i64, "io_schedule"),
        (libc::SYS_pwrite64 as i64, "io_schedule"),
        (libc::SYS_write as i64, "io_schedule"),
        (libc::SYS_openat as i64, "io_schedule"),
        (libc::SYS_flock as i64, "flock_lock_inode_wait"),
        // Outside of a system call, threads wait for memory that is read from a disk.
        (-1, "io_schedule"),
    ];
    let found = calls.iter().find(|(call, _)| *call == number);
    match (object, found) {
        // Programs also read from connections and write to them as if they were files.
        (WaitObject::Client, Some((_, "pipe_read" | "io_schedule"))) => "sk_wait_data",
        (_, found) => found.map_or("other", |(_, function)| function),
    }
}

/// Returns the reason of a wait from the kernel's functions in its call chain, the innermost first.
pub(super) fn reason<'a>(
    mut kernel: impl Iterator<Item = &'a str>,
    context: WaitContext,
) -> WaitReason {
    if context.preempted {
        return WaitReason::Core;
    }
    let reason = kernel.find_map(|name| reason_of(name, context.object));
    reason.unwrap_or(WaitReason::Other)
}

/// Returns the reason of a wait that a function of the kernel implies.
fn reason_of(kernel_function: &str, object: WaitObject) -> Option<WaitReason> {
    use WaitReason::{Core, Disk, Lock, Requests, Sleep, Thread, Upstream};

    let starts_with = |names: &[&str]| names.iter().any(|name| kernel_function.starts_with(name));
    let of_connection = if object == WaitObject::Client {
        Requests
    } else {
        Upstream
    };
    if starts_with(&["futex_"]) {
        let is_mutex = object == WaitObject::Mutex;
        Some(if is_mutex { Lock } else { Thread })
    } else if starts_with(&["hrtimer_nanosleep", "do_nanosleep", "common_nsleep"]) {
        Some(Sleep)
    } else if starts_with(&[
        "io_schedule",
        "folio_wait",
        "submit_bio_wait",
        "blk_",
        "jbd2_",
    ]) {
        Some(Disk)
    } else if starts_with(&[
        "ep_poll",
        "do_epoll_wait",
        "do_sys_poll",
        "do_poll",
        "do_select",
        "inet_csk_accept",
        "unix_accept",
        "io_cqring_wait",
    ]) {
        Some(Requests)
    } else if starts_with(&[
        "sk_wait_data",
        "tcp_recvmsg",
        "unix_stream_read",
        "unix_stream_data_wait",
        "__skb_wait_for_more_packets",
        "sk_stream_wait",
        "sock_alloc_send",
    ]) {
        Some(of_connection)
    } else if starts_with(&[
        "inet_wait_for_connect",
        "__inet_stream_connect",
        "unix_stream_connect",
    ]) {
        Some(Upstream)
    } else if starts_with(&[
        "__mutex_lock",
        "rwsem_down",
        "__down",
        "flock_lock",
        "fcntl_setlk",
    ]) {
        Some(Lock)
    } else if starts_with(&["do_sched_yield", "__x64_sys_sched_yield"]) {
        Some(Core)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u64 = 0_u64.wrapping_sub(128);

    fn blocked(tid: i32, arguments: [u64; 2]) -> Observation {
        Observation::Blocked {
            pid: 7,
            tid,
            chain: vec![KERNEL, 1, USER_MARKER, 2],
            arguments,
            stack: Vec::new(),
        }
    }

    fn out(tid: i32, preempted: bool) -> Observation {
        Observation::SwitchedOut { tid, preempted }
    }

    fn call(number: i64) -> Syscall {
        Syscall::Blocked {
            syscall_number: number,
            argument_registers: [1 << 40, 0, 0, 0, 0, 0],
            stack_pointer: 0,
            program_counter: 2,
        }
    }

    #[test]
    fn waits_last_from_a_switch_to_the_next() {
        let mut waits = Vec::new();
        let mut on_wait = |_, chain: &[u64], context: WaitContext, ns| {
            waits.push((chain.len(), context.preempted, context.object, ns));
        };
        let mut tracker = WaitTracker::new(100);
        let mutex = [1 << 40, 128];
        for (time, observed) in [
            (110, blocked(1, mutex)),
            (111, out(1, false)),
            (150, Observation::SwitchedIn { tid: 1 }),
            (160, blocked(1, [1 << 40, 137])),
            (161, out(1, true)),
            // This thread was on a core at first.
            (165, Observation::SwitchedIn { tid: 2 }),
        ] {
            tracker.observe(time, observed, &mut on_wait);
        }
        // The second thread has returned since, and the first one is known better.
        for tid in [1, 2, 3] {
            tracker.found(7, tid, &call(libc::SYS_futex));
        }
        tracker.found(7, 4, &Syscall::Running);
        tracker.end(200, &mut on_wait);
        let expected = [
            (4, true, WaitObject::Other, 39),
            (4, false, WaitObject::Mutex, 39),
            (2, false, WaitObject::Mutex, 100),
        ];
        waits.sort_by_key(|it| (it.3, !it.1));
        assert_eq!(waits, expected);
    }

    #[test]
    fn the_number_of_threads_is_limited() {
        let mut tracker = WaitTracker::new(0);
        for tid in 0..2 * THREADS_MAX as i32 {
            let observed = match tid % 3 {
                0 => blocked(tid, [0; 2]),
                1 => Observation::SwitchedIn { tid },
                _ => out(tid, false),
            };
            tracker.observe(1, observed, &mut |_, _, _, _| {});
            tracker.found(7, tid, &call(libc::SYS_read));
        }
        assert_eq!(tracker.threads.len(), THREADS_MAX);
    }

    #[test]
    fn accepted_connections_are_told_from_opened_ones() {
        use std::os::fd::AsRawFd;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let opened = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let own = std::process::id().cast_signed();
        let mut sockets = AcceptedSockets::default();
        assert!(sockets.contain(own, accepted.as_raw_fd()));
        assert!(!sockets.contain(own, opened.as_raw_fd()));
        assert!(!sockets.contain(own, 1 << 19) && !sockets.contain(1 << 30, 1));
    }
}
