//! The words that prony and a service's keeper exchange, and the socket that carries them.
//!
//! Both ends die with their owner, and each end takes the other's silence for a command: a keeper
//! whose prony is gone kills its service. Everything here is safe between `fork` and `exec`: no
//! allocation, no lock.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// From the keeper to prony.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// A step before the service's program failed; the cause comes through `spawn` itself.
    Failed(Step),
    /// The main process is about to execute the service's program; its id.
    MainStarted(i32),
    /// The main process ended with this wait status.
    MainEnded(i32),
}

/// What happens between `fork` and `exec`; each system takes its own of these steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "each system takes its own steps")
)]
pub(crate) enum Step {
    Session = 1,
    Orphans,
    Fork,
    JoinNetwork,
    NewProcessSpace,
    NewMountSpace,
    MountProc,
    NewUserSpace,
    MapUsers,
    Cores,
    OpenFiles,
    EnterJail,
}

impl Step {
    const ALL: [Self; 12] = [
        Self::Session,
        Self::Orphans,
        Self::Fork,
        Self::JoinNetwork,
        Self::NewProcessSpace,
        Self::NewMountSpace,
        Self::MountProc,
        Self::NewUserSpace,
        Self::MapUsers,
        Self::Cores,
        Self::OpenFiles,
        Self::EnterJail,
    ];

    /// What the step does, to stand after "could not".
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Session => "begin a session",
            Self::Orphans => "become the parent of orphans",
            Self::Fork => "fork",
            Self::JoinNetwork => "join the network namespace",
            Self::NewProcessSpace => "make a process namespace (in a container: run it privileged)",
            Self::NewMountSpace => "make a mount namespace (in a container: run it privileged)",
            Self::MountProc => "mount /proc in the namespace",
            Self::NewUserSpace => "make a user namespace (see sysctl user.max_user_namespaces)",
            Self::MapUsers => "map users into the namespace",
            Self::Cores => "bind to the plan's cores (are they online and allowed?)",
            Self::OpenFiles => "set the limit of open files",
            Self::EnterJail => "enter the jail",
        }
    }
}

/// Makes the two ends: prony's, which never blocks, and the keeper's. Both close on `exec`.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` has room for the two descriptors that the call writes.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so both descriptors are open and ours alone.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Sends news to prony. If prony is gone there is nobody left to tell, so failures are ignored.
pub(super) fn tell(channel: RawFd, news: News) {
    let words: [i32; 2] = match news {
        News::Failed(step) => [1, step as i32],
        News::MainEnded(status) => [2, status],
        News::MainStarted(pid) => [3, pid],
    };
    // SAFETY: the buffer is the eight bytes of `words`.
    unsafe {
        libc::send(
            channel,
            words.as_ptr().cast(),
            8,
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
}

/// Reads one piece of news without waiting; `None` if there is none now.
pub(super) fn hear(channel: &OwnedFd) -> Option<News> {
    let mut words = [0_i32; 2];
    // SAFETY: the buffer is the eight bytes of `words`.
    let got = unsafe {
        libc::recv(
            channel.as_raw_fd(),
            words.as_mut_ptr().cast(),
            8,
            libc::MSG_DONTWAIT,
        )
    };
    if got != 8 {
        return None;
    }
    match words[0] {
        1 => Step::ALL
            .into_iter()
            .find(|step| *step as i32 == words[1])
            .map(News::Failed),
        2 => Some(News::MainEnded(words[1])),
        3 => Some(News::MainStarted(words[1])),
        _ => None,
    }
}

/// Asks the keeper to pass a signal on to its service.
pub(super) fn ask_to_signal(channel: &OwnedFd, signal: i32) -> io::Result<()> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the buffer is the four bytes of `signal`.
    let sent = unsafe { libc::send(channel.as_raw_fd(), (&raw const signal).cast(), 4, flags) };
    if sent == 4 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// What the keeper reads from prony.
pub(super) enum Request {
    /// Pass this signal on.
    Signal(i32),
    /// Prony is gone or wants the service gone.
    End,
}

/// Reads one request; the keeper calls it when its end is readable.
pub(super) fn take_request(channel: RawFd) -> Option<Request> {
    let mut signal = 0_i32;
    // SAFETY: the buffer is the four bytes of `signal`.
    let got = unsafe { libc::recv(channel, (&raw mut signal).cast(), 4, libc::MSG_DONTWAIT) };
    match got {
        4 => Some(Request::Signal(signal)),
        0 => Some(Request::End),
        _ if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => None,
        _ => Some(Request::End),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_arrives_as_it_was_told() {
        let (ours, theirs) = pair().unwrap();
        assert_eq!(hear(&ours), None);
        for step in Step::ALL {
            tell(theirs.as_raw_fd(), News::Failed(step));
            assert_eq!(hear(&ours), Some(News::Failed(step)));
        }
        tell(theirs.as_raw_fd(), News::MainEnded(9));
        assert_eq!(hear(&ours), Some(News::MainEnded(9)));
    }

    #[test]
    fn a_closed_end_asks_for_the_end() {
        let (ours, theirs) = pair().unwrap();
        assert!(take_request(theirs.as_raw_fd()).is_none());
        ask_to_signal(&ours, libc::SIGHUP).unwrap();
        assert!(matches!(
            take_request(theirs.as_raw_fd()),
            Some(Request::Signal(libc::SIGHUP))
        ));
        drop(ours);
        assert!(matches!(
            take_request(theirs.as_raw_fd()),
            Some(Request::End)
        ));
    }
}
