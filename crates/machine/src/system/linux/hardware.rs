//! Hardware counters, which are read through perf_event_open(2).

use std::io;

use perf_event::events::{Event, Hardware as Kind};
use perf_event::{Builder, Counter};

use crate::telemetry::HardwareCounters;

/// Events to count: cycles, instructions, cache misses.
const EVENTS: [Kind; 3] = [Kind::CPU_CYCLES, Kind::INSTRUCTIONS, Kind::CACHE_MISSES];

/// Counters of one core, or of a process tree; `None` for counters that are not available.
#[derive(Debug)]
pub(crate) struct CounterGroup([Option<Counter>; 3]);

impl CounterGroup {
    /// Opens counters of one core for all processes. These counters cause no overhead except when
    /// they are read.
    ///
    /// # Errors
    /// No counter is available. Returns the kernel's error.
    pub(crate) fn of_core(core: usize) -> io::Result<Self> {
        Self::open(|builder| {
            builder.any_pid().one_cpu(core);
        })
    }

    /// Opens counters of the calling thread and of all processes that it starts afterwards.
    ///
    /// # Errors
    /// No counter is available. Returns the kernel's error.
    pub(crate) fn of_descendants() -> io::Result<Self> {
        Self::open(|builder| {
            builder.observe_self().any_cpu().inherit(true);
        })
    }

    fn open(prepare: impl Fn(&mut Builder<'_>)) -> io::Result<Self> {
        let mut refusal = None;
        let mut open = |kind: Kind| {
            let counter = Self::one(kind, &prepare, true);
            // Without permission to count kernel mode, count user mode only.
            let counter = counter.or_else(|_| Self::one(kind, &prepare, false));
            counter.map_err(|error| refusal = Some(error)).ok()
        };
        let counters = EVENTS.map(&mut open);
        match refusal {
            Some(error) if counters.iter().all(Option::is_none) => Err(error),
            _ => Ok(Self(counters)),
        }
    }

    fn one(
        kind: impl Event,
        prepare: impl Fn(&mut Builder<'_>),
        kernel: bool,
    ) -> io::Result<Counter> {
        let mut builder = Builder::new(kind);
        builder.include_hv();
        if kernel {
            builder.include_kernel();
        }
        prepare(&mut builder);
        builder.enabled(true);
        builder.build()
    }

    /// Reads the current counts.
    pub(crate) fn read(&mut self) -> HardwareCounters {
        let [cycles, instructions, cache_misses] = self.0.each_mut().map(|counter| {
            let data = counter.as_mut()?.read_full().ok()?;
            let enabled = data.time_enabled()?.as_nanos();
            let running = data.time_running()?.as_nanos();
            scaled(data.count(), enabled, running)
        });
        HardwareCounters {
            cycles,
            instructions,
            cache_misses,
        }
    }
}

/// Extrapolates the count of a counter that was active only part of the time, because it shared a
/// hardware register with other counters. Returns `None` if the counter was never active, as under
/// some hypervisors.
fn scaled(count: u64, enabled_ns: u128, running_ns: u128) -> Option<u64> {
    match (enabled_ns, running_ns) {
        (0, _) => Some(count),
        (_, 0) => None,
        _ => u64::try_from(u128::from(count) * enabled_ns / running_ns).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_scaled_by_their_active_time() {
        assert_eq!(scaled(100, 10, 10), Some(100));
        assert_eq!(scaled(100, 10, 5), Some(200));
        assert_eq!(scaled(0, 10, 0), None);
        assert_eq!(scaled(0, 0, 0), Some(0));
    }

    #[test]
    fn counters_count_or_fail_with_a_reason() {
        match CounterGroup::of_descendants() {
            Ok(mut group) => {
                let before = group.read();
                let work: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
                std::hint::black_box(work);
                let after = group.read();
                if let (Some(before), Some(after)) = (before.instructions, after.instructions) {
                    assert!(after > before + 100_000, "{before} {after}");
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
