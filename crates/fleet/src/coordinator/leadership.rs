//! Decides which coordinator leads a run, and thus may stop it on Ctrl-C.
//!
//! The leader writes a key of the run every few seconds. A coordinator that attached to the run
//! reads that key. While another coordinator writes it, this one only watches; afterwards it leads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::lease::LeaseTimeouts;
use crate::link::NatsLink;
use crate::names::{RUNS_BUCKET, RunId};

/// Interval at which the end of the run is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A coordinator's claim to the leadership of a run.
#[derive(Debug)]
pub(super) struct Leadership {
    timeouts: LeaseTimeouts,
    key: String,
    /// Sorts by precedence: `0` for the coordinator that started the run.
    id: String,
    other: Mutex<OtherLeader>,
    is_over: AtomicBool,
}

/// The last known write of another coordinator.
#[derive(Debug)]
struct OtherLeader {
    /// The last value read.
    beat: Option<String>,
    /// Last message of another coordinator; initially the time of attaching.
    absent_since: Instant,
}

impl Leadership {
    /// The claim of the coordinator that starts a run.
    pub(super) fn of_starter(run: &RunId, timeouts: LeaseTimeouts) -> Leadership {
        Leadership::new(run, timeouts, format!("0-{:016x}", rand::random::<u64>()))
    }

    /// The claim of a coordinator that attaches to a run; it leads if no other one does.
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

    /// Returns true if another coordinator leads, or may lead: until [`LeaseTimeouts::leader`] has passed
    /// without a message of one.
    pub(super) fn is_elsewhere(&self) -> bool {
        let other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        other.absent_since.elapsed() < self.timeouts.leader()
    }

    /// Reads the key, and writes it while no other coordinator does, until the run is over; for a
    /// thread of its own.
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
                // If this write is lost, the next one may arrive.
                let _ = link.store(&self.subject(), None, beat);
            }
            while began.elapsed() < self.timeouts.leader_interval() && !self.is_over() {
                thread::sleep(POLL_INTERVAL);
            }
        }
        if (is_starter || !self.is_elsewhere()) && link.is_connected() {
            // If this fails, the key expires with the run.
            let _ = link.remove(&self.subject());
        }
    }

    fn read_key(&self, link: &NatsLink) {
        let Ok(entry) = link.entry(RUNS_BUCKET, &self.key) else {
            return;
        };
        let beat = entry.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        let mut other = self.other.lock().unwrap_or_else(PoisonError::into_inner);
        // Among attached coordinators, the one whose id sorts first leads.
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

/// Ends a claim when dropped.
pub(super) struct LeadershipGuard<'a>(pub(super) &'a Leadership);

impl Drop for LeadershipGuard<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}
