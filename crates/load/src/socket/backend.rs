//! Which backend carries a load.

use std::io;

use crate::options::IoFlag;

/// A way to sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// Completions: io_uring.
    #[cfg(target_os = "linux")]
    Uring,
    /// Readiness: epoll or kqueue.
    Poll,
}

impl Backend {
    /// Its name in records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            Backend::Uring => "uring",
            Backend::Poll => "poll",
        }
    }

    /// The backend for what was typed, and why it is not the best one where the choice was free.
    /// `workers` are to have up to `slots` connections each.
    ///
    /// # Errors
    ///
    /// Where this system hasn't what was asked for.
    pub(crate) fn choose(
        flag: IoFlag,
        workers: u32,
        slots: u32,
    ) -> Result<(Backend, Option<String>), String> {
        if flag == IoFlag::Poll {
            return Ok((Backend::Poll, None));
        }
        match (flag, io_uring(workers, slots)) {
            (_, Ok(backend)) => Ok((backend, None)),
            (IoFlag::Uring, Err(error)) => Err(format!(
                "--io uring: io_uring can't be had here ({error}); it needs Linux 6.1, and a kernel \
                 and container that allow it (kernel.io_uring_disabled, seccomp, ulimit -l); \
                 --io auto takes what there is"
            )),
            (_, Err(error)) => {
                let note = format!("io_uring can't be had here ({error}), so epoll was used");
                Ok((Backend::Poll, cfg!(target_os = "linux").then_some(note)))
            }
        }
    }
}

/// io_uring, if it does all that is needed for so many workers, by trying.
#[cfg(target_os = "linux")]
fn io_uring(workers: u32, slots: u32) -> io::Result<Backend> {
    super::uring::try_out(workers, slots as usize).map(|()| Backend::Uring)
}

/// There is none here.
#[cfg(not(target_os = "linux"))]
fn io_uring(_workers: u32, _slots: u32) -> io::Result<Backend> {
    Err(io::ErrorKind::Unsupported.into())
}
