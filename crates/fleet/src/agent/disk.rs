//! What was written down reaches the disk, so that it survives a power cut but for the last second.
//!
//! On a thread of its own: a slow disk must keep neither results from being sent nor a load from ending
//! with its lease.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Flushes one file, and the folder that it is in at the beginning and at the end, when this is dropped.
#[derive(Debug)]
pub(super) struct Disk {
    wake: SyncSender<()>,
    seen: Arc<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    flushed: AtomicU64,
    failed: OnceLock<String>,
}

impl Seen {
    fn note(&self, flushed: io::Result<()>) {
        match flushed {
            Ok(()) => drop(self.flushed.fetch_add(1, Ordering::Release)),
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&self, error: &io::Error) {
        // The first reason is the one.
        let _ = self.failed.set(format!("flushing it: {error}"));
    }
}

impl Disk {
    /// For a file in this folder.
    pub(super) fn of(file: &File, folder: &Path) -> io::Result<Disk> {
        let (file, folder) = (file.try_clone()?, folder.to_owned());
        // What comes while it flushes is one more time.
        let (wake, woken) = sync_channel(1);
        let seen = Arc::<Seen>::default();
        let sees = seen.clone();
        let flush = move || {
            let has_folder = File::open(&folder).and_then(|folder| folder.sync_all());
            has_folder.unwrap_or_else(|error| sees.fail(&error));
            for () in woken {
                sees.note(file.sync_data());
            }
            let whole = file
                .sync_data()
                .and_then(|()| File::open(&folder)?.sync_all());
            sees.note(whole);
        };
        thread::Builder::new()
            .name("disk".to_owned())
            .spawn(flush)?;
        Ok(Disk { wake, seen })
    }

    /// Has what is written by now flushed, and waits for nothing.
    pub(super) fn flush(&self) {
        // One that waits already is as good.
        let _ = self.wake.try_send(());
    }

    /// Why something could not be flushed.
    pub(super) fn failed(&self) -> Option<&String> {
        self.seen.failed.get()
    }

    /// How often it was flushed.
    #[cfg(test)]
    pub(super) fn flushed(&self) -> u64 {
        self.seen.flushed.load(Ordering::Acquire)
    }
}
