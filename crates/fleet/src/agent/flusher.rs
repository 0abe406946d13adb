//! Flushes a result file to disk, so that a power failure loses at most the last second.
//!
//! Flushing runs on a separate thread, so that a slow disk doesn't delay sending results or
//! stopping a load whose lease has expired.

use std::fs::File;
use std::io;
use std::path::Path;
#[cfg(test)]
use std::sync::atomic::AtomicU64;
#[cfg(test)]
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Flushes one file. When the flusher is created and when it is dropped, it also flushes the file's
/// folder.
#[derive(Debug)]
pub(super) struct Flusher {
    wake: SyncSender<()>,
    status: Arc<FlushStatus>,
}

#[derive(Debug, Default)]
struct FlushStatus {
    #[cfg(test)]
    count: AtomicU64,
    /// First error of a flush.
    error: OnceLock<String>,
}

impl FlushStatus {
    fn note(&self, flushed: io::Result<()>) {
        match flushed {
            #[cfg(test)]
            Ok(()) => drop(self.count.fetch_add(1, Ordering::Release)),
            #[cfg(not(test))]
            Ok(()) => {}
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&self, error: &io::Error) {
        let _ = self.error.set(format!("flushing the file: {error}"));
    }
}

impl Flusher {
    /// Creates a flusher for a file in this folder.
    pub(super) fn new(file: &File, folder: &Path) -> io::Result<Flusher> {
        let (file, folder) = (file.try_clone()?, folder.to_owned());
        // A request that arrives during a flush causes one more flush.
        let (wake, woken) = sync_channel(1);
        let status = Arc::<FlushStatus>::default();
        let of_thread = status.clone();
        let flush = move || {
            let folder_flushed = File::open(&folder).and_then(|folder| folder.sync_all());
            folder_flushed.unwrap_or_else(|error| of_thread.fail(&error));
            for () in woken {
                of_thread.note(file.sync_data());
            }
            let last = file
                .sync_data()
                .and_then(|()| File::open(&folder)?.sync_all());
            of_thread.note(last);
        };
        thread::Builder::new()
            .name("disk".to_owned())
            .spawn(flush)?;
        Ok(Flusher { wake, status })
    }

    /// Requests a flush of everything written so far, without waiting for it.
    pub(super) fn flush(&self) {
        // A full queue already contains a request, which also covers this one.
        let _ = self.wake.try_send(());
    }

    /// Returns the first error of a flush.
    pub(super) fn error(&self) -> Option<&String> {
        self.status.error.get()
    }

    /// Returns the number of successful flushes.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.status.count.load(Ordering::Acquire)
    }
}
