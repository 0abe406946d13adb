//! Messages between prony and a service's keeper, and the socket that carries them.
//!
//! When prony ends, the kernel closes prony's end of the socket, and the keeper then kills its
//! service. All functions in this module may be called between `fork` and `exec`, because they
//! don't allocate or lock.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::system::fork::LaunchStep;

/// Message from the keeper to prony.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeeperMessage {
    /// A step before `exec` failed; the error that `spawn` returns gives the cause.
    Failed(LaunchStep),
    /// The main process, which has this ID, is about to execute the service's program.
    MainStarted(i32),
    /// The main process ended with this wait status.
    MainEnded(i32),
}

/// Creates the socket pair and returns prony's end and the keeper's end. Both are closed on `exec`.
pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` has room for the two descriptors that the call writes.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so both descriptors are open and nothing else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Sends a message to prony. Ignores errors, which mean that prony has ended.
pub(super) fn send(channel: RawFd, message: KeeperMessage) {
    let words: [i32; 2] = match message {
        KeeperMessage::Failed(step) => [1, step as i32],
        KeeperMessage::MainEnded(status) => [2, status],
        KeeperMessage::MainStarted(pid) => [3, pid],
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

/// Reads one message from the keeper without blocking; `None` if no message has arrived.
pub(super) fn receive(channel: &OwnedFd) -> Option<KeeperMessage> {
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
        1 => LaunchStep::ALL
            .into_iter()
            .find(|step| *step as i32 == words[1])
            .map(KeeperMessage::Failed),
        2 => Some(KeeperMessage::MainEnded(words[1])),
        3 => Some(KeeperMessage::MainStarted(words[1])),
        _ => None,
    }
}

/// Asks the keeper to forward a signal to its service.
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

/// Command from prony to the keeper.
pub(super) enum KeeperCommand {
    /// Forward this signal to the service.
    Signal(i32),
    /// Kill the service: prony has closed the channel or has ended.
    End,
}

/// Reads one command from prony. The keeper calls this function when its end of the socket is
/// readable.
pub(super) fn take_command(channel: RawFd) -> Option<KeeperCommand> {
    let mut signal = 0_i32;
    // SAFETY: the buffer is the four bytes of `signal`.
    let got = unsafe { libc::recv(channel, (&raw mut signal).cast(), 4, libc::MSG_DONTWAIT) };
    match got {
        4 => Some(KeeperCommand::Signal(signal)),
        0 => Some(KeeperCommand::End),
        _ if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => None,
        _ => Some(KeeperCommand::End),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_unchanged() {
        let (ours, theirs) = pair().unwrap();
        assert_eq!(receive(&ours), None);
        for step in LaunchStep::ALL {
            send(theirs.as_raw_fd(), KeeperMessage::Failed(step));
            assert_eq!(receive(&ours), Some(KeeperMessage::Failed(step)));
        }
        send(theirs.as_raw_fd(), KeeperMessage::MainEnded(9));
        assert_eq!(receive(&ours), Some(KeeperMessage::MainEnded(9)));
    }

    #[test]
    fn a_closed_channel_means_kill() {
        let (ours, theirs) = pair().unwrap();
        assert!(take_command(theirs.as_raw_fd()).is_none());
        ask_to_signal(&ours, libc::SIGHUP).unwrap();
        assert!(matches!(
            take_command(theirs.as_raw_fd()),
            Some(KeeperCommand::Signal(libc::SIGHUP))
        ));
        drop(ours);
        assert!(matches!(
            take_command(theirs.as_raw_fd()),
            Some(KeeperCommand::End)
        ));
    }
}
