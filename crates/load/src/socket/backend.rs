//! Choice of the socket backend for a load.

use std::io;

use crate::settings::IoChoice;
use crate::values::error::SettingsError;

/// Implementation of the sockets that a load uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// Completion-based: io_uring.
    Uring,
    /// Readiness-based: epoll.
    Poll,
    /// TCP in this process, over AF_XDP.
    Xdp,
}

impl Backend {
    /// Returns the name of the backend in records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Backend::Uring => "uring",
            Backend::Poll => "poll",
            Backend::Xdp => "xdp",
        }
    }

    /// Chooses the backend for the flag `--io`. If the automatic choice can't be the best backend,
    /// also returns the error of the operating system. Each of the `workers` has up to `capacity` connections.
    ///
    /// # Errors
    ///
    /// The requested backend is not available on this system.
    pub(crate) fn choose(
        flag: IoChoice,
        workers: u32,
        capacity: u32,
    ) -> Result<(Backend, Option<String>), SettingsError> {
        if flag == IoChoice::Poll {
            return Ok((Backend::Poll, None));
        }
        // The AF_XDP interface was already checked together with the targets.
        if flag == IoChoice::Xdp {
            return Ok((Backend::Xdp, None));
        }
        match (flag, io_uring(workers, capacity)) {
            (_, Ok(backend)) => Ok((backend, None)),
            (IoChoice::Uring, Err(error)) => {
                let refused = SettingsError::value("io", IoChoice::Uring).text(format!(
                    ": io_uring is not available on this system ({error}); it needs Linux 6.1 or \
                     later, and a kernel and container that allow it (kernel.io_uring_disabled, \
                     seccomp, ulimit -l)"
                ));
                let refused = refused.hint("").and_value("io", IoChoice::Auto);
                Err(refused.text(" uses the best backend that is available"))
            }
            (_, Err(error)) => Ok((Backend::Poll, Some(error.to_string()))),
        }
    }
}

/// Returns io_uring if a trial shows that it works for this number of workers.
fn io_uring(workers: u32, capacity: u32) -> io::Result<Backend> {
    super::uring::test_rings(workers, capacity as usize).map(|()| Backend::Uring)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a function on a thread on which one system call is forbidden, as in containers
    /// (seccomp(2)).
    fn without<T: Send>(call: libc::c_long, run: impl FnOnce() -> T + Send) -> T {
        let step = |code: u32, jf, k| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf,
            k,
        };
        let mut filter = [
            // The first word of the filter's input is the number of the system call.
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call as u32),
            step(
                libc::BPF_RET,
                0,
                libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            ),
            step(libc::BPF_RET, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let restrict = move || {
            let program = libc::sock_fprog {
                len: filter.len() as u16,
                filter: filter.as_mut_ptr(),
            };
            // SAFETY: the program and its steps outlive the calls, which copy them.
            unsafe {
                assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
                let mode = libc::SECCOMP_MODE_FILTER;
                assert_eq!(
                    libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
                    0
                );
            }
            run()
        };
        std::thread::scope(|scope| scope.spawn(restrict).join().unwrap())
    }

    #[test]
    fn without_io_uring_epoll_is_used_or_the_reason_is_reported() {
        for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter] {
            let (backend, error) =
                without(call, || Backend::choose(IoChoice::Auto, 2, 100)).unwrap();
            assert_eq!(backend, Backend::Poll);
            assert!(error.unwrap().contains("not permitted"));
            let refused = without(call, || Backend::choose(IoChoice::Uring, 2, 100)).unwrap_err();
            let refused = refused.to_string();
            assert!(refused.starts_with("--io uring: "), "{refused}");
            assert!(refused.contains("--io auto"), "{refused}");
            let asked = without(call, || Backend::choose(IoChoice::Poll, 2, 100));
            assert_eq!(asked, Ok((Backend::Poll, None)));
        }
        let free = Backend::choose(IoChoice::Uring, 2, 100);
        assert_eq!(free, Ok((Backend::Uring, None)));
    }
}
