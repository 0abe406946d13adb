//! Renews the leases of agents' machines.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::session::AgentSession;

/// Maximum interval between renewals. Short leases are renewed more often.
const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the thread checks whether the reservations have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Renews leases. Each lease has its own thread, so that a silent agent doesn't delay other
/// renewals.
#[derive(Debug, Default)]
pub(super) struct LeaseKeeper {
    over: Arc<AtomicBool>,
}

impl LeaseKeeper {
    pub(super) fn new() -> LeaseKeeper {
        LeaseKeeper::default()
    }

    /// Renews the lease of a session until the session is dropped, its agent is lost, or the keeper
    /// ends.
    pub(super) fn keep(&self, session: &Arc<AgentSession>) {
        let (session, over) = (Arc::downgrade(session), self.over.clone());
        // If the thread can't be started, the lease expires, and that is reported like any other
        // loss.
        let _ = thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || renew(&session, &over));
    }

    /// Stops all renewals.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}

fn renew(session: &Weak<AgentSession>, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let began = Instant::now();
        let interval = match session.upgrade() {
            Some(session) if session.loss().is_none() => {
                session.renew();
                RENEW_INTERVAL.min(session.lease() / 5)
            }
            _ => return,
        };
        while began.elapsed() < interval && !over.load(Ordering::Acquire) {
            thread::sleep(POLL_INTERVAL);
        }
    }
}
