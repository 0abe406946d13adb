//! A price in CPU that each request pays: a variant that is dearer by construction.
//!
//! It is busy work on the thread that serves the request, not a pause: the core is taken for that
//! long, and nothing else is served on it meanwhile.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A step of the clock longer than this means that the thread did not run meanwhile.
const PREEMPTED: Duration = Duration::from_micros(20);

/// Busy work that each request costs on top of being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// So much CPU time, to about 0.1 µs. Time in which the thread was preempted for more than
    /// 20 µs doesn't count as work.
    CpuTime(Duration),
    /// So many rounds of an arithmetic loop in which each waits for the one before, one to two
    /// nanoseconds each. It gets dearer and cheaper with the machine, as the rest of a request
    /// does, so that "10% dearer" stays 10% when the core's speed drifts.
    Rounds(u32),
}

impl Work {
    /// Does the work.
    pub(crate) fn run(self) {
        match self {
            Self::Rounds(rounds) => spin(rounds),
            Self::CpuTime(price) => spend(price),
        }
    }
}

/// Asks the monotonic clock, because the CPU clock of a thread is a system call that would cost
/// as much as the work that it is to measure.
fn spend(price: Duration) {
    let mut spent = Duration::ZERO;
    let mut last = Instant::now();
    while spent < price {
        spin(20);
        let now = Instant::now();
        spent += (now - last).min(PREEMPTED);
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
        // The rest is for preemptions too short to be seen.
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
