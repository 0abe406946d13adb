//! A queue with one server and a constant service time.
//!
//! Serving a request takes time but no CPU, so the capacity doesn't depend on the machine's speed.
//! With Poisson arrivals, this is an M/D/1 queue.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The queue of an origin, shared by all of its threads. One request is served at a time, in the
/// order of arrival.
#[derive(Debug)]
pub(crate) struct ServiceQueue {
    service_time: Duration,
    /// Time at which the service of the last request in the queue ends; `None` before the first
    /// request.
    free_at: Mutex<Option<Instant>>,
}

impl ServiceQueue {
    pub(crate) fn new(service_time: Duration) -> ServiceQueue {
        ServiceQueue {
            service_time,
            free_at: Mutex::new(None),
        }
    }

    /// Adds a request and returns the time at which its service ends. A request is served even if
    /// its client leaves earlier.
    pub(crate) fn enter(&self, arrival: Instant) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let start = free_at.map_or(arrival, |free_at| free_at.max(arrival));
        let end = start + self.service_time;
        *free_at = Some(end);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_served_one_after_the_other() {
        let queue = ServiceQueue::new(Duration::from_millis(10));
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        assert_eq!(queue.enter(at(0)), at(10));
        assert_eq!(queue.enter(at(3)), at(20));
        assert_eq!(queue.enter(at(20)), at(30));
        // The server was idle when this request arrived.
        assert_eq!(queue.enter(at(50)), at(60));
    }
}
