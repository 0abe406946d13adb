//! The leases of all agents' machines, renewed for as long as somebody needs them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::seat::Seat;

/// The longest time between two renewals; a short lease is renewed more often.
const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// How soon its end is noticed.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Renews leases, each on a thread of its own: one agent that is silent keeps no other waiting.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    over: Arc<AtomicBool>,
}

impl Keeper {
    pub(super) fn new() -> Keeper {
        Keeper::default()
    }

    /// Renews this seat's lease until it is given up, its agent is lost, or all is over.
    pub(super) fn keep(&self, seat: &Arc<Seat>) {
        let (seat, over) = (Arc::downgrade(seat), self.over.clone());
        // Without a thread the lease ends by itself, and that is told like any other loss.
        let _ = thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || renew(&seat, &over));
    }

    /// No lease is renewed from now on.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}

fn renew(seat: &Weak<Seat>, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let began = Instant::now();
        let interval = match seat.upgrade() {
            Some(seat) if seat.lost().is_none() => {
                seat.renew();
                RENEW_INTERVAL.min(seat.lease() / 5)
            }
            _ => return,
        };
        while began.elapsed() < interval && !over.load(Ordering::Acquire) {
            thread::sleep(LOOK_UP);
        }
    }
}
