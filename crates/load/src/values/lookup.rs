//! Name lookups during a load. They run on separate threads, because a name server that doesn't
//! respond must not block a worker.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of concurrent lookups. Each may block its thread for as long as the system waits
/// for a name server.
const THREADS_MAX: u32 = 4;
/// Maximum number of lookups that wait for a thread.
const QUEUE_MAX: usize = 64;
/// Time after which a caller gives up waiting for a lookup.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// A lookup that is in progress or has finished. Clones share its result.
#[derive(Debug)]
pub(crate) struct Lookup<T>(Arc<Slot<T>>);

#[derive(Debug)]
struct Slot<T> {
    result: Mutex<Option<T>>,
    finished: Condvar,
}

impl<T> Clone for Lookup<T> {
    fn clone(&self) -> Lookup<T> {
        Lookup(self.0.clone())
    }
}

impl<T: Clone> Lookup<T> {
    fn new() -> Lookup<T> {
        Lookup(Arc::new(Slot {
            result: Mutex::new(None),
            finished: Condvar::new(),
        }))
    }

    /// The result, if the lookup has finished.
    pub(crate) fn result(&self) -> Option<T> {
        lock(&self.0.result).clone()
    }

    /// Waits up to [`LOOKUP_TIMEOUT`] for the result.
    pub(crate) fn wait(&self) -> Option<T> {
        let guard = lock(&self.0.result);
        let waited = self
            .0
            .finished
            .wait_timeout_while(guard, LOOKUP_TIMEOUT, |result| result.is_none());
        let (result, _) = waited.unwrap_or_else(PoisonError::into_inner);
        result.clone()
    }

    fn finish(&self, result: T) {
        *lock(&self.0.result) = Some(result);
        self.0.finished.notify_all();
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The threads and the queue for the lookups of one load. A thread ends when the queue is empty.
#[derive(Clone, Default)]
pub(crate) struct LookupPool(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    threads: u32,
    jobs: VecDeque<Job>,
}

impl LookupPool {
    /// Starts a lookup. Returns `None` if too many lookups are already waiting, or if the system
    /// can't start a thread.
    pub(crate) fn start<T: Clone + Send + 'static>(
        &self,
        look_up: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Lookup<T>> {
        let lookup = Lookup::new();
        let of_job = lookup.clone();
        let job: Job = Box::new(move || of_job.finish(look_up()));
        let mut queue = lock(&self.0);
        if queue.threads < THREADS_MAX {
            let pool = self.clone();
            let thread = std::thread::Builder::new().name("lookup".to_owned());
            thread.spawn(move || pool.work(job)).ok()?;
            queue.threads += 1;
        } else if queue.jobs.len() < QUEUE_MAX {
            queue.jobs.push_back(job);
        } else {
            return None;
        }
        Some(lookup)
    }

    fn work(&self, first: Job) {
        let mut next = Some(first);
        while let Some(job) = next {
            job();
            let mut queue = lock(&self.0);
            next = queue.jobs.pop_front();
            if next.is_none() {
                queue.threads -= 1;
            }
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn lookups_that_hang_delay_a_bounded_number_of_others() {
        let pool = LookupPool::default();
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let hanging: Vec<_> = (0..THREADS_MAX)
            .map(|_| {
                let gate = gate.clone();
                // The lookup ends when the sender is dropped.
                pool.start(move || lock(&gate).recv().is_ok()).unwrap()
            })
            .collect();
        let waiting: Vec<_> = (0..QUEUE_MAX)
            .map(|number| pool.start(move || number).unwrap())
            .collect();
        assert!(pool.start(|| ()).is_none());
        assert!(hanging.iter().all(|lookup| lookup.result().is_none()));
        assert!(waiting.iter().all(|lookup| lookup.result().is_none()));
        drop(release);
        assert!(hanging.iter().all(|lookup| lookup.wait().is_some()));
        let numbers: Vec<_> = waiting.iter().map(|lookup| lookup.wait()).collect();
        assert_eq!(numbers, (0..QUEUE_MAX).map(Some).collect::<Vec<_>>());
    }
}
