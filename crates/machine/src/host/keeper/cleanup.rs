//! The command that a keeper runs before and after it kills a service. It is prepared before the fork,
//! because the keeper must not allocate.

use std::ffi::{CString, c_char};
use std::io;

use super::calls::exit;
use crate::system::fork::fork;

/// A program and its arguments.
pub(crate) struct CleanupCommand {
    words: Vec<CString>,
    /// Room for the addresses of the words and the final null.
    addresses: Vec<*const c_char>,
}

// SAFETY: the addresses are those of the words, which the command owns and never changes.
unsafe impl Send for CleanupCommand {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for CleanupCommand {}

impl CleanupCommand {
    /// Prepares a command whose first word is the path of the program. Returns `None` if a word
    /// contains a NUL byte.
    pub(in crate::host) fn new(words: Vec<String>) -> Option<Self> {
        let words: Result<Vec<CString>, _> = words.into_iter().map(CString::new).collect();
        let words = words.ok().filter(|words| !words.is_empty())?;
        let mut addresses: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        addresses.push(std::ptr::null());
        Some(Self { words, addresses })
    }

    /// Runs the command and waits until it has ended.
    pub(super) fn run(&self) {
        let child = fork();
        if child == 0 {
            self.become_command();
        }
        // SAFETY: the call accepts no status.
        let wait = || unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        while child > 0
            && wait() < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }

    /// Executes the program with all signals unblocked, and with the null device as its standard
    /// files: the keeper has closed all descriptors but its channel.
    fn become_command(&self) -> ! {
        unsafe extern "C" {
            static environ: *const *const c_char;
        }
        // SAFETY: the set and the strings are valid for the calls, the addresses end with a null,
        // and the environment is that of prony, which this forked process doesn't change.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            for standard in 0..=2 {
                if null != standard {
                    libc::dup2(null, standard);
                }
            }
            libc::execve(self.words[0].as_ptr(), self.addresses.as_ptr(), environ);
        }
        exit(127)
    }
}
