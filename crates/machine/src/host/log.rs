//! Logs of services. The disk usage of a log is limited while its service runs. After the service
//! has ended, the log is cut to its head and tail.
//!
//! A service writes directly to its log. A pipe through this process could limit the size exactly,
//! but it would wake this process for every line and disturb the measurement.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of bytes to keep at each end of a log.
pub(super) const KEPT_BYTES: u64 = 512 * 1024;
/// Minimum number of bytes between the head and the tail that are worth freeing.
const TRIM_BYTES_MIN: u64 = 4 * 1024 * 1024;
/// Interval at which the sizes of the logs are checked.
const TRIM_INTERVAL: Duration = Duration::from_millis(50);
/// Number of bytes at the end of a log that [`tail`] searches for lines.
const TAIL_WINDOW_BYTES: u64 = 64 * 1024;

/// A thread that frees the disk space used by the middle of growing logs.
#[derive(Debug, Default)]
pub(super) struct LogTrimmer {
    shared: Arc<TrimmerShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct TrimmerShared {
    state: Mutex<TrimmerState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TrimmerState {
    logs: Vec<TrimmedLog>,
    ended: bool,
}

#[derive(Debug)]
struct TrimmedLog {
    path: PathBuf,
    freed_to: u64,
}

impl LogTrimmer {
    /// Limits the disk usage of a log until [`LogTrimmer::forget`] is called.
    pub(super) fn watch(&mut self, log: &Path) {
        self.shared.lock().logs.push(TrimmedLog {
            path: log.to_owned(),
            freed_to: KEPT_BYTES,
        });
        if self.thread.is_none() {
            let shared = self.shared.clone();
            let builder = std::thread::Builder::new().name("log trimmer".to_owned());
            self.thread = builder.spawn(move || shared.trim_until_ended()).ok();
        }
    }

    /// Stops limiting the disk usage of a log, after its service has ended.
    pub(super) fn forget(&self, log: &Path) {
        self.shared
            .lock()
            .logs
            .retain(|trimmed| trimmed.path != log);
    }

    /// Ends the thread, and with it the limits on all logs.
    pub(super) fn end(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, its message was already printed, and the logs are still cut
            // after their services have ended.
            let _ = thread.join();
        }
        self.shared = Arc::default();
    }
}

impl Drop for LogTrimmer {
    fn drop(&mut self) {
        self.end();
    }
}

impl TrimmerShared {
    fn lock(&self) -> std::sync::MutexGuard<'_, TrimmerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trim_until_ended(&self) {
        let mut state = self.lock();
        while !state.ended {
            for log in &mut state.logs {
                log.trim();
            }
            let waited = self.changed.wait_timeout(state, TRIM_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl TrimmedLog {
    /// Punches a hole between the head and the tail of the file. Writers are not affected, because
    /// they append.
    fn trim(&mut self) {
        let size = fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        let tail = size.saturating_sub(KEPT_BYTES);
        if tail < self.freed_to + TRIM_BYTES_MIN {
            return;
        }
        // Keep the file open only briefly, because a process that starts in the meantime inherits
        // the descriptor.
        if let Ok(file) = File::options().write(true).open(&self.path) {
            use rustix::fs::{FallocateFlags, fallocate};
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // On a file system that doesn't support holes, the log keeps its size until the service
            // has ended.
            let _ = fallocate(&file, hole, self.freed_to, tail - self.freed_to);
        }
        self.freed_to = tail;
    }
}

/// Cuts the log of an ended service to its head and tail, at line ends, and inserts a note about
/// the cut. Returns the number of removed bytes; 0 if the log is short enough.
///
/// # Errors
/// The log can't be read or replaced.
pub(super) fn cut(log: &Path) -> io::Result<u64> {
    let mut file = File::open(log)?;
    let size = file.metadata()?.len();
    if size <= 2 * KEPT_BYTES {
        return Ok(0);
    }
    let mut head = Vec::new();
    (&file).take(KEPT_BYTES).read_to_end(&mut head)?;
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(size - KEPT_BYTES))?;
    file.take(KEPT_BYTES).read_to_end(&mut tail)?;
    write_cut(log, size, head, tail)
}

/// Writes the head and the tail of a log of `size` bytes, cut at line ends, with a note about the
/// removed bytes. Returns their number.
///
/// # Errors
/// The log can't be replaced.
pub(super) fn write_cut(
    log: &Path,
    size: u64,
    mut head: Vec<u8>,
    mut tail: Vec<u8>,
) -> io::Result<u64> {
    // A line longer than the head or the tail is cut in its middle.
    if let Some(end) = head.iter().rposition(|byte| *byte == b'\n') {
        head.truncate(end + 1);
    }
    if let Some(end) = tail.iter().position(|byte| *byte == b'\n') {
        tail.drain(..=end);
    }
    let cut = size.saturating_sub(head.len() as u64 + tail.len() as u64);
    let short = log.with_extension("log.short");
    let mut out = File::create(&short)?;
    out.write_all(&head)?;
    write!(
        out,
        "\n[prony removed {cut} bytes here; it keeps the first and the last {KEPT_BYTES} bytes of \
         a log]\n\n"
    )?;
    out.write_all(&tail)?;
    fs::rename(&short, log)?;
    Ok(cut)
}

/// Returns the last lines of a log, at most [`TAIL_WINDOW_BYTES`] in total; empty if the log can't
/// be read.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_WINDOW_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_WINDOW_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_log_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("web.log");
        let text = "line\n".repeat(1000);
        fs::write(&log, &text).unwrap();
        assert_eq!(cut(&log).unwrap(), 0);
        assert_eq!(fs::read_to_string(&log).unwrap(), text);
    }

    #[test]
    fn a_long_log_keeps_complete_lines_of_both_ends_and_counts_removed_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("web.log");
        let text: String = (0..1_000_000).map(|n| format!("line {n}\n")).collect();
        fs::write(&log, &text).unwrap();
        let cut = cut(&log).unwrap();
        let short = fs::read_to_string(&log).unwrap();
        assert!(short.len() as u64 <= 2 * KEPT_BYTES + 200);
        assert!(short.starts_with("line 0\nline 1\n"));
        assert!(short.ends_with("line 999998\nline 999999\n"));
        let (head, rest) = short.split_once("\n\n[prony removed ").unwrap();
        let (number, tail) = rest.split_once(" bytes here; ").unwrap();
        assert_eq!(number.parse::<u64>().unwrap(), cut);
        let tail = tail.split_once("]\n\n").unwrap().1;
        assert_eq!(
            (head.len() + 1 + tail.len()) as u64 + cut,
            text.len() as u64
        );
        assert!(text.starts_with(head) && text.ends_with(tail));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_middle_of_a_growing_log_uses_no_disk_space() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.log");
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        let mut log = TrimmedLog {
            path: path.clone(),
            freed_to: KEPT_BYTES,
        };
        let line = [b'x'; 1023]
            .iter()
            .chain(b"\n")
            .copied()
            .collect::<Vec<_>>();
        for _ in 0..32 * 1024 {
            file.write_all(&line).unwrap();
            log.trim();
        }
        file.sync_all().unwrap();
        let metadata = path.metadata().unwrap();
        assert_eq!(metadata.len(), 32 * 1024 * 1024);
        let on_disk = metadata.blocks() * 512;
        assert!(on_disk <= 2 * KEPT_BYTES + 2 * TRIM_BYTES_MIN, "{on_disk}");
        drop(file);
        let cut = cut(&path).unwrap();
        let text = fs::read(&path).unwrap();
        assert!(cut > 30 * 1024 * 1024);
        assert!(!text.contains(&0), "the kept parts must not contain a hole");
    }
}
