//! Determines which coordinator leads a run and thus may stop it on Ctrl-C.
//!
//! The leader writes a key of the run every few seconds. A coordinator that attaches to the run
//! reads that key. As long as another coordinator writes it, the attached one only watches. When
//! the writes stop, the attached one becomes the leader.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::lease::LeaseTimeouts;
use crate::link::NatsLink;
use crate::names::{RUNS_BUCKET, RunId};

/// Interval at which the thread checks whether the run is over.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A coordinator's claim to lead a run.
#[derive(Debug)]
pub(super) struct Leadership {
    timeouts: LeaseTimeouts,
    key: String,
    /// Identifier of the claim. The claim whose identifier sorts first has precedence. `0`
    /// identifies the coordinator that started the run.
    id: String,
    other: Mutex<OtherLeader>,
    is_over: AtomicBool,
}

/// State of the key as written by another coordinator.
#[derive(Debug)]
struct OtherLeader {
    /// Value of the key when it was last read.
    beat: Option<String>,
    /// Time of another coordinator's last write; initially the time of attaching.
    absent_since: Instant,
}

impl Leadership {
    /// Creates the claim of the coordinator that starts a run.
    pub(super) fn of_starter(run: &RunId, timeouts: LeaseTimeouts) -> Leadership {
        Leadership::new(run, timeouts, format!("0-{:016x}", rand::random::<u64>()))
    }

    /// Creates the claim of a coordinator that attaches to a run. It takes the lead if no other
    /// coordinator has it.
    pub(super) fn attached(run: &RunId, timeouts: LeaseTimeouts) -> Leadership {
        Leadership::new(run, timeouts, format!("1-{:016x}", rand::random::<u64>()))
    }

    fn new(run: &RunId, timeouts: LeaseTimeouts, id: String) -> Leadership {
        Leadership {
            timeouts,
            key: format!("{run}.leader"),
            id,
            other: Mutex::new(OtherLeader {
                beat: None,
                absent_since: Instant::now(),
            }),
            is_over: AtomicBool::new(false),
        }
    }

    /// Returns true if another coordinator leads or may lead. Another coordinator may lead until
    /// [`LeaseTimeouts::leader`] has passed without a write.
    pub(super) fn is_elsewhere(&self) -> bool {
        let other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        other.absent_since.elapsed() < self.timeouts.leader()
    }

    /// Reads the run's key until the run is over, and writes it as long as no other coordinator
    /// does. Runs on its own thread.
    pub(super) fn keep(&self, link: &NatsLink) {
        let is_starter = self.id.starts_with('0');
        let mut count = 0u64;
        while !self.is_over() {
            let began = Instant::now();
            if !is_starter {
                self.read_key(link);
            }
            if is_starter || !self.is_elsewhere() {
                count += 1;
                let beat = format!("{} {count}", self.id);
                // A failed write does no harm, because the next one follows soon.
                let _ = link.store(&self.subject(), None, beat);
            }
            while began.elapsed() < self.timeouts.leader_interval() && !self.is_over() {
                thread::sleep(POLL_INTERVAL);
            }
        }
        if (is_starter || !self.is_elsewhere()) && link.is_connected() {
            // If the removal fails, the key expires with the run.
            let _ = link.remove(&self.subject());
        }
    }

    fn read_key(&self, link: &NatsLink) {
        let Ok(entry) = link.entry(RUNS_BUCKET, &self.key) else {
            return;
        };
        let beat = entry.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        let mut other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        // Of several attached coordinators, the one whose identifier sorts first leads.
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
        format!("$KV.{RUNS_BUCKET}.{}", self.key)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Ends a claim to leadership when dropped.
pub(super) struct LeadershipGuard<'a>(pub(super) &'a Leadership);

impl Drop for LeadershipGuard<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}
