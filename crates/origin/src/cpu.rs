//! A price in CPU that each request pays: a variant that is dearer by construction.
//!
//! It is busy work on the thread that serves the request, not a pause: the core is taken for that
//! long, and nothing else is served on it meanwhile.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Busy work that each request costs on top of being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// So much CPU time, by the thread's own CPU clock, so that being preempted doesn't count as
    /// work. Overshoots by the time of one look at that clock, some 0.2 to 0.5 µs.
    CpuTime(Duration),
    /// So many rounds of an arithmetic loop in which each waits for the one before, about a
    /// nanosecond each. It gets dearer and cheaper with the machine, as the rest of a request does,
    /// so that "10% dearer" stays 10% when the core's speed drifts.
    Rounds(u32),
}

impl Work {
    /// Does the work.
    pub(crate) fn run(self) {
        match self {
            Self::Rounds(rounds) => spin(rounds),
            Self::CpuTime(price) => {
                let end = thread_cpu_time().saturating_add(price);
                while thread_cpu_time() < end {
                    spin(50);
                }
            }
        }
    }
}

fn thread_cpu_time() -> Duration {
    // The CPU clock of a thread never reads negative, and its nanoseconds are under a second.
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        now.tv_sec.try_into().unwrap_or(0),
        now.tv_nsec.try_into().unwrap_or(0),
    )
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

    #[test]
    fn cpu_time_is_spent_and_not_slept() {
        let price = Duration::from_millis(5);
        let before = thread_cpu_time();
        Work::CpuTime(price).run();
        assert!(thread_cpu_time() - before >= price);
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
