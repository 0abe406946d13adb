//! Tests that io_uring works on this system, and retries while too little locked memory is
//! available.

use std::io;
use std::time::Duration;

use prony_record::Nanos;

use super::buffers::ReceiveBuffers;
use super::ring::{Ring, is_out_of_memory};

/// Maximum number of attempts to create a ring while memory is short.
const ATTEMPTS_MAX: u32 = 20;
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Tries to create and use a ring of this capacity for each worker.
///
/// # Errors
///
/// The kernel refuses to create or use a ring.
pub(in crate::socket) fn test_rings(workers: u32, capacity: usize) -> io::Result<()> {
    retry_for_memory(|| {
        let rings = (0..workers).map(|_| parts(capacity));
        let mut rings = rings.collect::<io::Result<Vec<_>>>()?;
        // A container may allow processes to create rings but not to use them.
        rings
            .iter_mut()
            .try_for_each(|(ring, _)| ring.wait(ring.now() + Nanos(1)))
    })
}

/// Creates the ring and the receive buffers of a backend. The ring must be dropped before the
/// buffers.
pub(super) fn parts(capacity: usize) -> io::Result<(Ring, ReceiveBuffers)> {
    let ring = Ring::new(capacity)?;
    let buffers = ReceiveBuffers::register(ring.registry())?;
    Ok((ring, buffers))
}

/// Retries `make` while memory is short. The kernel releases the memory of a dropped ring only
/// after some milliseconds, and counts it per user. Rings in other processes of the same user
/// therefore count as well.
pub(super) fn retry_for_memory<T>(make: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..ATTEMPTS_MAX {
        match make() {
            Err(error) if is_out_of_memory(&error) => std::thread::sleep(RETRY_PAUSE),
            result => return result,
        }
    }
    make()
}
