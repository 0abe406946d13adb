//! Moments that nobody chose.

use std::time::{Duration, SystemTime};

/// Draws moments; says its seed, which is seen where the test fails.
pub(crate) struct Moments(u64);

impl Moments {
    pub(crate) fn new() -> Moments {
        let typed = std::env::var("PRONY_TEST_SEED").ok();
        let seed = typed.map(|it| it.parse().expect("PRONY_TEST_SEED is a number"));
        let seed = seed.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.unwrap().as_nanos() as u64 % 1_000_000
        });
        eprintln!("PRONY_TEST_SEED={seed}");
        Moments(seed)
    }

    /// The next number (Steele, Lea and Flood 2014: SplitMix64).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of so many.
    pub(crate) fn one_of(&mut self, many: usize) -> usize {
        (self.next() % many as u64) as usize
    }

    /// Waits for so many milliseconds or more, but less than that.
    pub(crate) fn wait(&mut self, ms: std::ops::Range<u64>) {
        let length = ms.start + self.next() % (ms.end - ms.start);
        eprintln!("after {length} ms");
        std::thread::sleep(Duration::from_millis(length));
    }
}
