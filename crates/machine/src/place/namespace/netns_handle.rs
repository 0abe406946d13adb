//! The network of a named place, for threads of this process.

use std::io;

use super::NamespaceFd;

/// Handle to the network namespace of a named place, in which threads of this process can run.
#[derive(Debug)]
pub struct NetnsHandle(NamespaceFd);

impl NetnsHandle {
    /// Creates a handle to the network namespace of `entry`.
    pub(crate) fn to(entry: &NamespaceFd) -> io::Result<Self> {
        entry.try_clone().map(Self)
    }

    /// Runs `work` on a new thread in the namespace, and waits for it to end. Threads that `work`
    /// starts also run in the namespace. All of them share the files and memory of this process.
    ///
    /// # Errors
    /// The namespace can't be entered; `work` was not run.
    pub fn run_inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        self.0.run_inside(work)
    }
}
