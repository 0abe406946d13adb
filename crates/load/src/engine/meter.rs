//! Utilization of a worker since the start of the measured part.

use prony_record::{Generator, Nanos, Stalls, Throttling};

use crate::engine::stall::StallWatch;
use crate::limits::cpu_quota::{CpuQuotas, QuotaCounters};
use crate::socket::system;

/// Measures CPU time and wait time of the calling thread, and the time for which responses waited
/// for the thread.
pub(crate) struct Meter {
    from: Nanos,
    connections: u32,
    at_begin: Option<CpuUsage>,
    /// CPU usage in the slices before the current one.
    before: CpuUsage,
    quota: QuotaMeter,
    phase: MeterPhase,
    /// End of the counted part of the current slice.
    counted_until: Nanos,
    stalls: StallWatch,
    /// Total length of all stalls. The reported shares exclude this time.
    stalled: Nanos,
    waited: Nanos,
    last_wait: Nanos,
    /// Length of the second-to-last wait, and the number of connections that were ready after it.
    previous: (Nanos, u32),
    /// Sum over all waits of the wait's duration in nanoseconds times the number of connections
    /// that were ready at its end.
    found_by_waits: u128,
    /// Total duration of the current round, and its turns merged into one. A round is a sequence of
    /// turns in which each turn but the last was cut short with work left.
    round: (Nanos, LoopTurn),
    /// Sum over all rounds of the round's duration in nanoseconds times the number of connections
    /// that waited for the worker in that round.
    queued: u128,
}

/// Phase of a worker in a sliced load. Without slices, the phase is always `Counting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MeterPhase {
    /// Everything is counted.
    Counting,
    /// The drain of a slice: only stalls are counted, because a stall delays the responses that are
    /// still in flight.
    Draining,
    /// Between two slices, or in the settling part of a slice: nothing is counted.
    Paused,
}

/// One iteration of the worker's loop.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoopTurn {
    /// Number of connections that had a complete response for the worker, or were opened or closed.
    pub(crate) found: u32,
    /// Bytes received, including those of partial responses.
    pub(crate) bytes: u64,
    /// True if the turn ended early to handle timers and interrupts; there may be more to do.
    pub(crate) cut_short: bool,
    /// Time within the turn during which the generator was stalled.
    pub(crate) stalled: Nanos,
    /// Last clock reading of the turn.
    pub(crate) read: Nanos,
}

/// Number of bytes of an unfinished response that the generator's socket buffers can hold without
/// making the server wait.
const SOCKET_BUFFER_BYTES: u64 = 256 * 1024;

impl LoopTurn {
    /// Number of connections that waited for the worker. A partial response alone doesn't count,
    /// because the server may still be sending the rest. To account for large responses, received
    /// bytes count as well: one connection per [`SOCKET_BUFFER_BYTES`].
    fn waiting(&self, connections: u32) -> u32 {
        let full = u32::try_from(self.bytes / SOCKET_BUFFER_BYTES).unwrap_or(u32::MAX);
        self.found.max(full).min(connections)
    }
}

/// Resources used by the calling thread since it started.
#[derive(Debug, Clone, Copy, Default)]
struct CpuUsage {
    user: Nanos,
    system: Nanos,
    /// Time for which the thread was ready to run but had no core.
    delayed: Nanos,
}

impl CpuUsage {
    fn so_far() -> CpuUsage {
        let (user, system) = system::thread_cpu();
        let delayed = system::thread_run_delay();
        CpuUsage {
            user,
            system,
            delayed,
        }
    }

    fn plus(self, other: CpuUsage) -> CpuUsage {
        CpuUsage {
            user: self.user + other.user,
            system: self.system + other.system,
            delayed: self.delayed + other.delayed,
        }
    }

    fn since(self, before: CpuUsage) -> CpuUsage {
        CpuUsage {
            user: self.user.since(before.user),
            system: self.system.since(before.system),
            delayed: self.delayed.since(before.delayed),
        }
    }
}

/// Measures how often the quotas of this process stopped it in the counted parts.
#[derive(Default)]
struct QuotaMeter {
    /// The quotas, which are found at the first begin.
    quotas: Option<CpuQuotas>,
    /// Counters at the begin of the current counted part.
    at_begin: Option<QuotaCounters>,
    /// Sum over the earlier parts.
    before: Option<Throttling>,
}

impl QuotaMeter {
    fn begin(&mut self) {
        let quotas = self
            .quotas
            .get_or_insert_with(|| CpuQuotas::of_process("self"));
        self.at_begin = Some(quotas.counters());
    }

    fn end(&mut self) {
        self.before = self.so_far();
        self.at_begin = None;
    }

    fn so_far(&self) -> Option<Throttling> {
        let counters = self.quotas.as_ref().map(CpuQuotas::counters);
        let current = self.at_begin.as_ref().zip(counters);
        let current = current.and_then(|(begin, now)| now.since(begin));
        self.before
            .into_iter()
            .chain(current)
            .reduce(Throttling::and)
    }
}

/// Utilization of a worker in the measured part. Shares are fractions of that part's length, from 0
/// to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerUtilization {
    /// Length of the measured part so far.
    pub elapsed: Nanos,
    /// CPU time in user mode and in the kernel.
    pub cpu: (Nanos, Nanos),
    /// Share of time in which the worker was busy.
    pub busy_share: f64,
    /// Share of time in which the worker was busy or ready to run, not asleep.
    pub awake_share: f64,
    /// Share of time in which the worker was ready to run but had no core.
    pub starved_share: f64,
    /// Average share of the connections that were waiting for the generator rather than for the
    /// server.
    pub queue_share: f64,
    /// Stalls of the generator.
    pub stalls: Stalls,
    /// CPU quota of the generator's control group; `None` without a quota.
    pub throttling: Option<Throttling>,
}

impl WorkerUtilization {
    /// Combines the utilizations of two workers: adds the CPU times, and keeps the larger value of
    /// each share.
    #[must_use]
    pub fn merge(self, other: WorkerUtilization) -> WorkerUtilization {
        WorkerUtilization {
            elapsed: self.elapsed.max(other.elapsed),
            cpu: (self.cpu.0 + other.cpu.0, self.cpu.1 + other.cpu.1),
            busy_share: self.busy_share.max(other.busy_share),
            awake_share: self.awake_share.max(other.awake_share),
            starved_share: self.starved_share.max(other.starved_share),
            queue_share: self.queue_share.max(other.queue_share),
            stalls: self.stalls.longer(other.stalls),
            throttling: self
                .throttling
                .into_iter()
                .chain(other.throttling)
                .reduce(Throttling::worse),
        }
    }

    /// Writes the utilization to a record, with shares rounded to four digits.
    pub(crate) fn write_to(&self, generator: &mut Generator) {
        let share = |share: f64| (share * 1e4).round() / 1e4;
        generator.cpu_user_s = self.cpu.0.as_secs_f64();
        generator.cpu_system_s = self.cpu.1.as_secs_f64();
        generator.busy_share = share(self.busy_share);
        generator.awake_share = share(self.awake_share);
        generator.queue_share = share(self.queue_share);
        generator.starved_share = share(self.starved_share);
        generator.stalls = (self.stalls.count > 0).then_some(self.stalls);
        generator.throttling = self.throttling;
    }
}

impl Meter {
    /// Creates a meter for a worker with this many connections, for a measured part from `from` to
    /// `end`.
    pub(crate) fn new(from: Nanos, end: Nanos, connections: u32) -> Meter {
        Meter {
            from,
            connections,
            at_begin: None,
            before: CpuUsage::default(),
            quota: QuotaMeter::default(),
            phase: MeterPhase::Counting,
            counted_until: Nanos::MAX,
            stalls: StallWatch::new(from, end),
            stalled: Nanos::ZERO,
            waited: Nanos::ZERO,
            last_wait: Nanos::ZERO,
            previous: (Nanos::ZERO, 0),
            found_by_waits: 0,
            round: (Nanos::ZERO, LoopTurn::default()),
            queued: 0,
        }
    }

    /// Records that the worker waited for its sockets or for the next arrival, from `before` to
    /// `after`. It had asked to be woken at `until`.
    pub(crate) fn waited(&mut self, before: Nanos, until: Nanos, after: Nanos) {
        let stalled = self.gap(until.max(before), after);
        if self.phase != MeterPhase::Counting {
            return;
        }
        let after = after.min(self.counted_until);
        self.last_wait = after.since(before.max(self.from) + stalled);
        self.waited = self.waited + self.last_wait;
    }

    /// Records two successive clock readings of a busy worker. If there was a stall between them,
    /// returns its length within the counted time; otherwise zero.
    #[inline]
    pub(crate) fn gap(&mut self, before: Nanos, now: Nanos) -> Nanos {
        if self.phase == MeterPhase::Paused {
            return Nanos::ZERO;
        }
        let stalled = self.stalls.gap(before, now);
        let stalled = stalled.since(now.since(self.counted_until));
        self.stalled = self.stalled + stalled;
        stalled
    }

    /// Records that the worker processed the events that it found after a wait.
    pub(crate) fn worked(&mut self, began: Nanos, ended: Nanos, turn: LoopTurn) {
        if self.phase != MeterPhase::Counting || began < self.from {
            return;
        }
        let waiting = turn.waiting(self.connections);
        // A backend may end a wait with the first event and deliver the rest after the next wait.
        let (wait, found) = self.previous;
        self.found_by_waits += u128::from(wait.0) * u128::from(found.max(waiting));
        self.previous = (self.last_wait, waiting);
        // Events found after a turn that was cut short were already waiting during that turn.
        let (took, round) = &mut self.round;
        let ended = ended.min(self.counted_until);
        *took = *took + ended.since(began).since(turn.stalled);
        round.found = round.found.saturating_add(turn.found);
        round.bytes += turn.bytes;
        let waiting = round.waiting(self.connections);
        if !turn.cut_short || waiting == self.connections {
            self.queued += u128::from(took.0) * u128::from(waiting);
            self.round = (Nanos::ZERO, LoopTurn::default());
        }
    }

    /// Starts the meter if the measured part has begun. The worker calls this regularly.
    pub(crate) fn begin_if_due(&mut self, now: Nanos) {
        if self.phase != MeterPhase::Counting {
            return;
        }
        if self.at_begin.is_none() && now >= self.from {
            self.at_begin = Some(CpuUsage::so_far());
            self.quota.begin();
        }
        if self.stalls.is_suspension_check_due(now) {
            self.stalls.suspended(system::suspended_time(), now);
        }
    }

    /// Returns the worker's utilization up to the time `ended`.
    pub(crate) fn utilization(&self, ended: Nanos) -> WorkerUtilization {
        if self.at_begin.is_none() && self.phase == MeterPhase::Counting {
            return WorkerUtilization::default();
        }
        let throttling = self.quota.so_far();
        WorkerUtilization {
            throttling,
            ..self.utilization_of(self.used(), ended)
        }
    }

    fn used(&self) -> CpuUsage {
        let since = |before| CpuUsage::so_far().since(before);
        self.before
            .plus(self.at_begin.map_or(CpuUsage::default(), since))
    }

    /// Ends the counted part of a slice and begins its drain.
    pub(crate) fn drain(&mut self) {
        self.before = self.used();
        self.at_begin = None;
        self.quota.end();
        self.phase = MeterPhase::Draining;
    }

    /// Stops counting until [`Meter::resume`].
    pub(crate) fn pause(&mut self) {
        self.phase = MeterPhase::Paused;
    }

    /// Starts the counted part of a slice, from `from` to `end`. The counted part of the previous
    /// slice ended at `before`; the worker was idle between the two.
    pub(crate) fn resume(&mut self, before: Nanos, from: Nanos, end: Nanos) {
        self.phase = MeterPhase::Counting;
        self.counted_until = end;
        self.waited = self.waited + from.since(before.max(self.from));
        self.last_wait = Nanos::ZERO;
        self.stalls.resume();
    }

    /// Returns the utilization up to `ended`, given the CPU usage in the measured part. Busy time
    /// is the larger of two measures, because each includes something that the other misses. The
    /// time outside of waits includes time during which another thread had the core. The CPU time
    /// includes system calls that find events immediately, or that send before they wait.
    ///
    /// In a closed loop each connection is at the server or at the generator, and the longer queue
    /// is at the slower of the two. A worker that is always busy but finds only a few responses per
    /// turn has capacity left; a worker that finds responses on all connections is the bottleneck.
    /// The length of each turn is therefore multiplied by the number of connections found in it.
    /// Time awake within waits is weighted by the connections found after waits, and long waits
    /// weigh more than short ones, because many connections are waiting after a time without a
    /// core.
    fn utilization_of(&self, used: CpuUsage, ended: Nanos) -> WorkerUtilization {
        let elapsed = ended.since(self.from);
        let all = elapsed.since(self.stalled);
        if all.0 == 0 {
            return WorkerUtilization {
                stalls: self.stalls.stalls(),
                ..WorkerUtilization::default()
            };
        }
        let cpu = used.user + used.system;
        let (outside, awake) = (all.since(self.waited), cpu + used.delayed);
        let awake_in_waits = awake.since(outside).0 as f64;
        let found = self.found_by_waits as f64 / self.waited.0.max(1) as f64;
        let queued = self.queued as f64 + awake_in_waits * found;
        let share = |part: f64| (part / all.0 as f64).min(1.0);
        WorkerUtilization {
            elapsed,
            cpu: (used.user, used.system),
            busy_share: share(outside.max(cpu).0 as f64),
            awake_share: share(outside.max(awake).0 as f64),
            starved_share: share(used.delayed.0 as f64),
            queue_share: share(queued / f64::from(self.connections.max(1))),
            stalls: self.stalls.stalls(),
            throttling: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: CpuUsage = CpuUsage {
        user: Nanos::ZERO,
        system: Nanos::ZERO,
        delayed: Nanos::ZERO,
    };

    /// Creates the meter of a worker that, in each millisecond, first waits for `waits_us`
    /// microseconds, and then handles the `found` connections that it finds.
    fn meter_of_loop(waits_us: u64, connections: u32, found: u32) -> Meter {
        let mut meter = Meter::new(Nanos::ZERO, Nanos::MAX, connections);
        for turn in 0..1000 {
            let began = Nanos::from_millis(turn);
            let woke = began + Nanos(waits_us * 1000);
            meter.waited(began, woke, woke);
            let turn = LoopTurn {
                found,
                ..LoopTurn::default()
            };
            meter.worked(woke, began + Nanos::from_millis(1), turn);
        }
        meter
    }

    /// Asserts equality within one part in a thousand.
    fn close_to(seen: f64, expected: f64) {
        assert!((seen - expected).abs() < 0.0011, "{seen} {expected}");
    }

    #[test]
    fn waits_before_the_measured_part_do_not_count() {
        let mut meter = Meter::new(Nanos::from_secs(10), Nanos::MAX, 8);
        for (before, after) in [(0, 9), (9, 12), (13, 14)] {
            let (before, after) = (Nanos::from_secs(before), Nanos::from_secs(after));
            meter.waited(before, after, after);
        }
        // The worker waited for 3 of 10 seconds.
        let utilization = meter.utilization_of(NOTHING, Nanos::from_secs(20));
        close_to(utilization.busy_share, 0.7);
    }

    #[test]
    fn the_queue_is_counted_at_the_slower_side() {
        let end = Nanos::from_secs(1);
        // The worker is always busy: first with two of eight connections at a time, then with all
        // eight.
        close_to(
            meter_of_loop(0, 8, 2)
                .utilization_of(NOTHING, end)
                .queue_share,
            0.25,
        );
        close_to(
            meter_of_loop(0, 8, 8)
                .utilization_of(NOTHING, end)
                .queue_share,
            1.0,
        );
        // A server that sends all its responses together after a delay isn't waiting for the
        // generator.
        let slow_server = meter_of_loop(990, 8, 8).utilization_of(NOTHING, end);
        close_to(slow_server.queue_share, 0.01);
        close_to(slow_server.awake_share, 0.01);
    }

    #[test]
    fn a_stall_is_neither_work_nor_waiting() {
        let mut meter = Meter::new(Nanos::ZERO, Nanos::from_secs(10), 8);
        let secs = Nanos::from_secs;
        // The worker waits for half of each second. One wait and one turn take 3 s longer.
        let mut now = Nanos::ZERO;
        for turn in 0..4 {
            let woke = now + Nanos::from_millis(500) + secs(if turn == 1 { 3 } else { 0 });
            meter.waited(now, now + Nanos::from_millis(500), woke);
            now = woke + Nanos::from_millis(500) + secs(if turn == 2 { 3 } else { 0 });
            let turn = LoopTurn {
                found: 8,
                stalled: meter.gap(woke + Nanos::from_millis(500), now),
                ..LoopTurn::default()
            };
            meter.worked(woke, now, turn);
        }
        let utilization = meter.utilization_of(NOTHING, now);
        assert_eq!(now, secs(10));
        close_to(utilization.busy_share, 0.5);
        close_to(utilization.queue_share, 0.5);
        assert_eq!(
            (utilization.stalls.count, utilization.stalls.total_s),
            (2, 6.0)
        );
        assert_eq!(utilization.elapsed, secs(10));
    }

    #[test]
    fn work_within_waits_counts_like_work_outside() {
        // Some backends send while they wait.
        let used = CpuUsage {
            system: Nanos::from_millis(980),
            ..NOTHING
        };
        let utilization = meter_of_loop(900, 8, 4).utilization_of(used, Nanos::from_secs(1));
        close_to(utilization.busy_share, 0.98);
        close_to(utilization.queue_share, 0.98 / 2.0);
    }

    #[test]
    fn a_worker_without_a_core_is_awake_and_has_a_queue() {
        let used = CpuUsage {
            user: Nanos::from_millis(500),
            delayed: Nanos::from_millis(480),
            ..NOTHING
        };
        let utilization = meter_of_loop(500, 8, 8).utilization_of(used, Nanos::from_secs(1));
        close_to(utilization.busy_share, 0.5);
        close_to(utilization.awake_share, 0.98);
        close_to(utilization.starved_share, 0.48);
        close_to(utilization.queue_share, 0.98);
    }

    #[test]
    fn events_left_for_the_next_wait_count_as_waiting() {
        let mut meter = Meter::new(Nanos::ZERO, Nanos::MAX, 8);
        for turn in 0..1000 {
            let began = Nanos::from_millis(turn);
            let found = |found| LoopTurn {
                found,
                ..LoopTurn::default()
            };
            let wait = |meter: &mut Meter, length: Nanos| {
                meter.waited(began, began + length, began + length);
            };
            wait(&mut meter, Nanos(990_000));
            meter.worked(began, began, found(1));
            wait(&mut meter, Nanos(10_000));
            meter.worked(began, began, found(7));
        }
        let used = CpuUsage {
            delayed: Nanos::from_secs(1),
            ..NOTHING
        };
        let utilization = meter.utilization_of(used, Nanos::from_secs(1));
        close_to(utilization.queue_share, 7.0 / 8.0);
    }

    #[test]
    fn turns_that_are_cut_short_are_one_turn() {
        let mut meter = Meter::new(Nanos::ZERO, Nanos::MAX, 10_000);
        for turn in 0..10 {
            let turn_of_4096 = LoopTurn {
                found: 4096,
                cut_short: true,
                ..LoopTurn::default()
            };
            let began = Nanos::from_millis(100 * turn);
            meter.worked(began, began + Nanos::from_millis(100), turn_of_4096);
        }
        // Nine turns are three complete rounds. The tenth turn belongs to a round that has not
        // ended.
        let utilization = meter.utilization_of(NOTHING, Nanos::from_secs(1));
        close_to(utilization.queue_share, 0.9);
    }

    #[test]
    fn a_large_partial_response_counts_as_waiting_once_it_fills_the_buffers() {
        let part = |bytes| LoopTurn {
            found: 1,
            bytes,
            ..LoopTurn::default()
        };
        assert_eq!(part(100_000).waiting(8), 1);
        assert_eq!(part(4 * SOCKET_BUFFER_BYTES).waiting(8), 4);
        assert_eq!(part(400 * SOCKET_BUFFER_BYTES).waiting(8), 8);
    }

    #[test]
    fn only_the_counted_parts_of_slices_count() {
        let ms = Nanos::from_millis;
        let mut meter = Meter::new(ms(100), Nanos::MAX, 8);
        let turn = |meter: &mut Meter, began: Nanos, waits: Nanos, works: Nanos| {
            let woke = began + waits;
            meter.waited(began, woke, woke);
            let found = LoopTurn {
                found: 8,
                ..LoopTurn::default()
            };
            meter.worked(woke, woke + works, found);
        };
        meter.pause();
        for slice in 0..10 {
            let from = ms(100 + slice * 100);
            // The worker is busy for all of the settling part, a quarter of the counted part, and
            // all of the drain. The clock goes back by 50 ms after each slice.
            turn(&mut meter, from.since(ms(20)), Nanos::ZERO, ms(20));
            let before = if slice == 0 { Nanos::ZERO } else { from };
            meter.resume(before, from, from + ms(100));
            turn(&mut meter, from, ms(75), ms(25));
            meter.drain();
            turn(&mut meter, from + ms(100), Nanos::ZERO, ms(30));
            meter.pause();
        }
        let utilization = meter.utilization_of(NOTHING, ms(1100));
        assert_eq!(utilization.elapsed, ms(1000));
        close_to(utilization.busy_share, 0.25);
        close_to(utilization.queue_share, 0.25);
        assert_eq!(utilization.stalls.count, 0);
    }

    #[test]
    fn a_stall_counts_in_slices_and_drains_but_not_between_them() {
        let secs = Nanos::from_secs;
        let mut meter = Meter::new(Nanos::ZERO, Nanos::MAX, 8);
        meter.pause();
        assert_eq!(meter.gap(Nanos::ZERO, secs(9)), Nanos::ZERO);
        meter.resume(Nanos::ZERO, Nanos::ZERO, secs(10));
        // One second of the stall is in the counted part.
        assert_eq!(meter.gap(secs(9), secs(12)), secs(1));
        meter.drain();
        assert_eq!(meter.gap(secs(12), secs(14)), Nanos::ZERO);
        meter.pause();
        let stalls = meter.stalls.stalls();
        assert_eq!((stalls.count, stalls.total_s), (2, 5.0));
        assert_eq!(meter.stalled, secs(1));
    }

    #[test]
    fn an_empty_interval_has_shares_of_zero() {
        let meter = Meter::new(Nanos::from_secs(10), Nanos::MAX, 8);
        let utilization = meter.utilization_of(NOTHING, Nanos::from_secs(3));
        assert_eq!(
            (utilization.busy_share, utilization.queue_share),
            (0.0, 0.0)
        );
        assert_eq!(meter.utilization(Nanos::from_secs(30)).busy_share, 0.0);
    }
}
