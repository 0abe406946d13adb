//! Error numbers, threads and processes of the operating system. Only this module and the backends
//! depend on them.

use std::cell::Cell;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::time::Duration;

use prony_record::{Nanos, Outcome};
use rustix::thread::{CpuSet, sched_setaffinity};
use socket2::Socket;

/// Returns the outcome of a request whose connect failed with this error.
pub(crate) fn connect_outcome(error: &io::Error) -> Outcome {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => Outcome::ConnectRefused,
        Some(libc::ETIMEDOUT) => Outcome::ConnectTimeout,
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::ENETDOWN) => {
            Outcome::ConnectUnreachable
        }
        // The two error numbers distinguish a missing address from a missing port. In both cases,
        // no local port is available.
        Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE) => Outcome::NoLocalPort,
        Some(libc::EMFILE | libc::ENFILE) => Outcome::TooManyFiles,
        Some(libc::ECONNRESET) => Outcome::Reset,
        _ => Outcome::ConnectFailed,
    }
}

/// Returns true if a connection attempt failed because nothing listens at the address, or because
/// no socket exists at the path.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNREFUSED | libc::ENOENT)
    )
}

/// Returns true if a connection attempt failed because the backlog of a UNIX socket is full
/// (connect(2)). The connect can then be retried until its timeout.
pub(crate) fn connect_would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Returns the number of bytes that the system has accepted but not yet sent on a TCP connection; 0
/// if the system does not report it.
pub(crate) fn unsent_in_kernel(socket: &Socket) -> u64 {
    /// Reads the part of the send queue that was not sent (tcp(7)).
    const SIOCOUTQNSD: libc::Ioctl = 0x894b;
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one integer to a local variable.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCOUTQNSD, &raw mut bytes) };
    if done == 0 {
        return u64::try_from(bytes).unwrap_or(0);
    }
    0
}

/// Returns the number of cores that this thread may run on. Unlike
/// `std::thread::available_parallelism`, it disregards CPU quotas.
pub(crate) fn usable_cores() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |cores| cores.count() as usize)
}

/// Acknowledges the received bytes of a TCP connection immediately, and leaves the rules for later
/// bytes as they are. Returns false on other sockets.
pub(crate) fn acknowledge(socket: &Socket) -> bool {
    // An even value other than zero acknowledges once (tcp(7), TCP_QUICKACK).
    let once: libc::c_int = 2;
    // SAFETY: the pointer refers to an integer, whose size is passed along.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUICKACK,
            (&raw const once).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    set == 0
}

/// Closes a connection immediately. Unsent and unread bytes are dropped, TCP sends RST, and no
/// TIME_WAIT remains. Threads that are waiting for the socket wake up.
pub(crate) fn abort(socket: &Socket) {
    // SAFETY: an address consists of integers, for which zero is valid.
    let mut nowhere: libc::sockaddr = unsafe { std::mem::zeroed() };
    nowhere.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    // Connecting to an address without a family (AF_UNSPEC) resets the connection (connect(2)).
    // SAFETY: the pointer refers to a complete local address, whose size is passed along.
    let dissolved = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            &raw const nowhere,
            size_of_val(&nowhere) as libc::socklen_t,
        )
    };
    if dissolved != 0 {
        // A UNIX socket can't be reset and has no unsent bytes. Shutdown fails only if the socket
        // is already closed.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

/// Returns the calling thread's CPU time so far, in user mode and in the kernel.
pub(crate) fn thread_cpu() -> (Nanos, Nanos) {
    let usage = usage(libc::RUSAGE_THREAD);
    (span(usage.ru_utime), span(usage.ru_stime))
}

/// Returns the time for which the calling thread was ready to run but had no core; zero if the
/// system does not report it (the second value in schedstat, proc(5)).
pub(crate) fn thread_run_delay() -> Nanos {
    if let Ok(text) = std::fs::read_to_string("/proc/thread-self/schedstat")
        && let Some(delay) = text.split_whitespace().nth(1)
    {
        return Nanos(delay.parse().unwrap_or(0));
    }
    Nanos::ZERO
}

/// Returns the time for which the machine has been suspended since it started, or slightly less.
/// CLOCK_BOOTTIME includes this time and
/// CLOCK_MONOTONIC does not (clock_gettime(2)).
pub(crate) fn suspended_time() -> Nanos {
    use rustix::time::{ClockId, clock_gettime};
    let nanos = |clock| {
        let time = clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Nanos(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
    };
    // The clocks are read in this order so that a preemption between the readings can only
    // make the result smaller.
    let since_boot = nanos(ClockId::Boottime);
    since_boot.since(nanos(ClockId::Monotonic))
}

/// Sleeps for a few microseconds. Linux may prolong a thread's sleeps by up to 50 µs unless the
/// thread asks for less (PR_SET_TIMERSLACK, prctl(2)).
pub(crate) fn sleep_precisely(time: Duration) {
    const SLACK_NANOS: libc::c_ulong = 1_000;
    thread_local! {
        static IS_PRECISE: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_PRECISE.replace(true) {
        // SAFETY: this option takes a number. If it fails, sleeps take longer.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NANOS, 0, 0, 0) };
    }
    std::thread::sleep(time);
}

/// Time slice that [`request_short_slice`] requests, in nanoseconds. It is the kernel's minimum.
const SLICE_NANOS: u64 = 100_000;

/// Requests a short time slice for the calling thread. After a wake-up, the thread then seldom
/// waits until another thread on its core has used up a slice of several milliseconds. Linux grants
/// such requests since version 6.12 (sched_setattr(2)). A thread whose scheduling policy is not the
/// default is left unchanged.
pub(crate) fn request_short_slice() {
    // SAFETY: the attributes consist of integers, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of_val(&attributes) as u32;
    // SAFETY: the pointer refers to local attributes, whose size is passed along.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if read != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.sched_runtime = SLICE_NANOS;
    // SAFETY: as above. If the call fails, the thread keeps its slice.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Returns the process's peak resident memory in bytes.
pub(crate) fn peak_memory_bytes() -> u64 {
    // Linux reports kibibytes (getrusage(2)).
    u64::try_from(usage(libc::RUSAGE_SELF).ru_maxrss).unwrap_or(0) * 1024
}

fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage consists of integers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer refers to a complete local rusage. With a valid `who` and pointer, the
    // call can't fail. If it did, the zeros would remain.
    unsafe { libc::getrusage(who, &mut usage) };
    usage
}

fn span(time: libc::timeval) -> Nanos {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Nanos(seconds * 1_000_000_000 + micros * 1_000)
}

/// Raises the process's soft limit on open files to the hard limit. Returns the resulting limit.
pub(crate) fn open_files_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: limit.maximum,
                ..limit
            },
        );
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Pins the calling thread to one core.
///
/// # Errors
///
/// This process is not allowed to run on that core.
pub(crate) fn pin_thread(core: usize) -> Result<(), String> {
    let mut cores = CpuSet::new();
    // `CpuSet::set` panics for cores beyond its size.
    if core < CpuSet::MAX_CPU {
        cores.set(core);
    }
    sched_setaffinity(None, &cores)
        .map_err(|_| format!("--cores: this process is not allowed to run on core {core}"))
}
