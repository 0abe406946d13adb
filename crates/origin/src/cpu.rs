//! CPU cost of each request, which makes a variant slower by a known amount.
//!
//! The cost is busy work on the thread that serves the request, not a pause. Meanwhile, no other
//! request is served on the same core.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Gap between two clock readings above which the thread counts as preempted. The excess of a
/// longer gap doesn't count as work.
const PREEMPTION_THRESHOLD: Duration = Duration::from_micros(20);

/// Busy work per request, in addition to serving it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// CPU time, accurate to about 0.1 µs. If the thread is preempted, at most 20 µs of the
    /// interruption count.
    CpuTime(Duration),
    /// Rounds of an arithmetic loop, which take one to two nanoseconds each. Each round depends on
    /// the previous one. Like the other costs of a request, this cost varies with the machine's
    /// speed, so "10% more" stays 10% when the speed drifts.
    Rounds(u32),
}

impl Work {
    /// Performs the busy work for one request.
    pub(crate) fn run(self) {
        match self {
            Self::Rounds(rounds) => spin(rounds),
            Self::CpuTime(price) => spend(price),
        }
    }
}

/// Keeps the CPU busy for the duration `price`. Reads the monotonic clock, because reading the
/// thread's CPU clock is a system call, which would cost as much as the work itself.
fn spend(price: Duration) {
    let mut spent = Duration::ZERO;
    let mut last = Instant::now();
    while spent < price {
        spin(20);
        let now = Instant::now();
        spent += (now - last).min(PREEMPTION_THRESHOLD);
        last = now;
    }
}

fn spin(rounds: u32) {
    let mut state = 1_u32;
    for _ in 0..rounds {
        state = black_box(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};

    fn thread_cpu_time() -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(
            now.tv_sec.try_into().unwrap(),
            now.tv_nsec.try_into().unwrap(),
        )
    }

    #[test]
    fn cpu_time_is_spent_and_not_slept() {
        let price = Duration::from_millis(20);
        let before = thread_cpu_time();
        Work::CpuTime(price).run();
        // The tolerance covers preemptions that are too short to be detected.
        assert!(thread_cpu_time() - before >= price / 2);
    }

    #[test]
    fn more_rounds_cost_more() {
        let cost = |rounds| {
            let before = thread_cpu_time();
            Work::Rounds(rounds).run();
            thread_cpu_time() - before
        };
        assert!(cost(20_000_000) > cost(20_000));
    }
}
