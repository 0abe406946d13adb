//! Rendering of a template in a child process that has little memory and time.

use std::os::fd::AsRawFd;
use std::panic::AssertUnwindSafe;

use crate::system::fork::fork;

/// Maximum memory that rendering may add.
const MEMORY_MAX: u64 = 64 << 20;

/// Maximum CPU time of a rendering.
const CPU_SECONDS_MAX: u64 = 5;

/// Time after which the child process ends even if it waits, in seconds. A lock that another thread
/// held during the fork is never released in the child.
const CHILD_SECONDS_MAX: u32 = 60;

/// Runs `render` in a forked process with limits. Its effects are lost with that process.
///
/// # Errors
/// The reason why `render` didn't end normally.
pub(super) fn rehearse(render: &mut dyn FnMut()) -> Result<(), &'static str> {
    let child = fork();
    if child == 0 {
        limit_resources();
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(render)).is_err();
        // SAFETY: the call ends the forked process immediately.
        unsafe { libc::_exit(i32::from(panicked)) };
    }
    let mut status = 0;
    loop {
        // SAFETY: `status` has room for the wait status.
        let ended = child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } == child;
        if ended {
            break;
        }
        if child < 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Err("the template can't be checked, because prony could not fork");
        }
    }
    match (libc::WIFSIGNALED(status), libc::WTERMSIG(status)) {
        (true, libc::SIGXCPU | libc::SIGALRM) => Err("the template takes more than 5 s to render"),
        (true, _) => Err("the template is nested too deeply, or needs more than 64 MiB of memory"),
        _ if libc::WEXITSTATUS(status) == 0 => Ok(()),
        _ => Err("the template engine can't compute this value; it may be too large"),
    }
}

/// Limits memory and CPU time of this process, and discards what it writes to standard error.
fn limit_resources() {
    let limit = |resource, soft, hard| {
        let limit = libc::rlimit {
            rlim_cur: soft,
            rlim_max: hard,
        };
        // SAFETY: the call reads the structure.
        unsafe { libc::setrlimit(resource, &raw const limit) };
    };
    // SAFETY: the calls take no pointers. Without a handler, the alarm ends the process.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(CHILD_SECONDS_MAX);
    }
    limit(libc::RLIMIT_CORE, 0, 0);
    limit(libc::RLIMIT_CPU, CPU_SECONDS_MAX, CPU_SECONDS_MAX + 1);
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split(' ')
        .next()
        .and_then(|size| size.parse::<u64>().ok());
    if let Some(pages) = pages {
        let max = pages * rustix::param::page_size() as u64 + MEMORY_MAX;
        limit(libc::RLIMIT_AS, max, max);
    }
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        // SAFETY: both descriptors are open.
        unsafe { libc::dup2(null.as_raw_fd(), libc::STDERR_FILENO) };
    }
}
