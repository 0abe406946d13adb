//! A trial of io_uring on this system, and retries while memory is short.

use std::io;
use std::time::Duration;

use prony_record::Nanos;

use super::buffers::ReceiveBuffers;
use super::ring::{Ring, is_memory};

/// Maximum number of attempts to make a ring while memory is short.
const ATTEMPTS_MAX: u32 = 20;
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Tries to make a ring of this capacity for each worker.
///
/// # Errors
///
/// The kernel refuses.
pub(in crate::socket) fn try_out(workers: u32, capacity: usize) -> io::Result<()> {
    patiently(|| {
        let rings = (0..workers).map(|_| parts(capacity));
        let mut rings = rings.collect::<io::Result<Vec<_>>>()?;
        // A container may allow rings to be made, but not to be entered.
        rings
            .iter_mut()
            .try_for_each(|(ring, _)| ring.wait(ring.now() + Nanos(1)))
    })
}

/// The parts of a backend. The ring must be dropped first.
pub(super) fn parts(capacity: usize) -> io::Result<(Ring, ReceiveBuffers)> {
    let ring = Ring::new(capacity)?;
    let buffers = ReceiveBuffers::register(ring.registry())?;
    Ok((ring, buffers))
}

/// Tries again while memory is short. The memory of rings that were dropped, perhaps by another
/// process of the same user, is returned some milliseconds later.
pub(super) fn patiently<T>(make: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..ATTEMPTS_MAX {
        match make() {
            Err(error) if is_memory(&error) => std::thread::sleep(RETRY_PAUSE),
            result => return result,
        }
    }
    make()
}
