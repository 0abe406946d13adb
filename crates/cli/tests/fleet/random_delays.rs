//! Random delays that are reproducible from a seed.

use std::time::{Duration, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Generates delays from a seed, which a failed test prints.
pub(crate) struct RandomDelays(ChaCha8Rng);

impl RandomDelays {
    pub(crate) fn new() -> RandomDelays {
        let text = std::env::var("PRONY_TEST_SEED").ok();
        let seed = text.map(|it| it.parse().expect("PRONY_TEST_SEED is a number"));
        let seed = seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.unwrap().as_nanos() as u64 % 1_000_000
        });
        eprintln!("PRONY_TEST_SEED={seed}");
        RandomDelays(ChaCha8Rng::seed_from_u64(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.random()
    }

    /// Returns a random index below `many`.
    pub(crate) fn one_of(&mut self, many: usize) -> usize {
        (self.next() % many as u64) as usize
    }

    /// Sleeps for a random time within the given range, in milliseconds.
    pub(crate) fn wait(&mut self, ms: std::ops::Range<u64>) {
        let length = ms.start + self.next() % (ms.end - ms.start);
        eprintln!("after {length} ms");
        std::thread::sleep(Duration::from_millis(length));
    }
}
