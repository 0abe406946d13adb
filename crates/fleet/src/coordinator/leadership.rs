//! Which coordinator leads a run: the one that stops it on Ctrl-C.
//!
//! The leader writes a key of the run's every few seconds. A coordinator that attached to the run reads
//! that key: as long as another one writes it the run is only watched from here. When nobody writes it
//! any more, the attached coordinator leads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::link::Link;
use crate::names::{RUNS, RunId};

/// Interval at which the leader writes its key.
const BEAT_INTERVAL: Duration = Duration::from_secs(2);
/// Silence after which a leader is taken to be gone.
const LEADER_TIMEOUT: Duration = Duration::from_secs(7);
/// How soon the end of the run is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// One coordinator's claim to lead a run.
#[derive(Debug)]
pub(super) struct Leadership {
    key: String,
    /// Sorts by precedence: `0` for the coordinator that started the run.
    id: String,
    other: Mutex<OtherLeader>,
    is_over: AtomicBool,
}

/// Another coordinator that writes the key, as far as it is known.
#[derive(Debug)]
struct OtherLeader {
    /// The last value read.
    beat: Option<String>,
    /// Since when no other coordinator has been seen; at first the moment of attaching.
    absent_since: Instant,
}

impl Leadership {
    /// The coordinator that starts a run leads it.
    pub(super) fn of_starter(run: &RunId) -> Leadership {
        Leadership::new(run, format!("0-{:016x}", rand::random::<u64>()))
    }

    /// A coordinator that attaches to a run leads it if no other one does.
    pub(super) fn attached(run: &RunId) -> Leadership {
        Leadership::new(run, format!("1-{:016x}", rand::random::<u64>()))
    }

    fn new(run: &RunId, id: String) -> Leadership {
        Leadership {
            key: format!("{run}.leader"),
            id,
            other: Mutex::new(OtherLeader {
                beat: None,
                absent_since: Instant::now(),
            }),
            is_over: AtomicBool::new(false),
        }
    }

    /// Whether another coordinator leads, or may lead: until [`LEADER_TIMEOUT`] has passed without a
    /// sign of one.
    pub(super) fn is_elsewhere(&self) -> bool {
        let other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        other.absent_since.elapsed() < LEADER_TIMEOUT
    }

    /// Reads the key, and writes it while no other coordinator does, until the run is over; for a
    /// thread of its own.
    pub(super) fn keep(&self, link: &Link) {
        let is_starter = self.id.starts_with('0');
        let mut count = 0u64;
        while !self.is_over() {
            let began = Instant::now();
            if !is_starter {
                self.look(link);
            }
            if is_starter || !self.is_elsewhere() {
                count += 1;
                let beat = format!("{} {count}", self.id);
                // The next one may get through.
                let _ = link.store(&self.subject(), None, beat);
            }
            while began.elapsed() < BEAT_INTERVAL && !self.is_over() {
                thread::sleep(POLL_INTERVAL);
            }
        }
        if (is_starter || !self.is_elsewhere()) && link.is_up() {
            // Otherwise it expires with the run.
            let _ = link.remove(&self.subject());
        }
    }

    fn look(&self, link: &Link) {
        let Ok(entry) = link.entry(RUNS, &self.key) else {
            return;
        };
        let beat = entry.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        let mut other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        // Of two that attached the one whose id sorts first leads.
        let is_other = beat.as_ref().is_some_and(|beat| {
            let id = beat.split(' ').next().unwrap_or_default();
            id < self.id.as_str()
        });
        if is_other && beat != other.beat {
            other.absent_since = Instant::now();
            other.beat = beat;
        }
    }

    fn subject(&self) -> String {
        format!("$KV.{RUNS}.{}", self.key)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Ends a claim when it goes out of scope, whatever the reason.
pub(super) struct Leading<'a>(pub(super) &'a Leadership);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}
