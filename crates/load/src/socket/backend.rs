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
    ///
    /// # Errors
    ///
    /// Where this system hasn't what was asked for.
    pub(crate) fn choose(flag: IoFlag) -> Result<(Backend, Option<String>), String> {
        match (flag, io_uring()) {
            (IoFlag::Poll, _) => Ok((Backend::Poll, None)),
            #[cfg(target_os = "linux")]
            (_, Ok(())) => Ok((Backend::Uring, None)),
            #[cfg(not(target_os = "linux"))]
            (IoFlag::Auto, Err(_)) | (_, Ok(())) => Ok((Backend::Poll, None)),
            #[cfg(target_os = "linux")]
            (IoFlag::Auto, Err(error)) => {
                let note = format!("io_uring can't be had here ({error}), so epoll was used");
                Ok((Backend::Poll, Some(note)))
            }
            (IoFlag::Uring, Err(error)) => Err(format!(
                "--io uring: io_uring can't be had here ({error}); it needs Linux 6.1 and a kernel \
                 and container that allow it (kernel.io_uring_disabled); --io auto takes what there is"
            )),
        }
    }
}

/// Whether io_uring does all that is needed, by trying.
fn io_uring() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return super::UringSockets::new(1).map(drop);
    #[cfg(not(target_os = "linux"))]
    Err(io::ErrorKind::Unsupported.into())
}
