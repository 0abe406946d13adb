//! How busy a worker was, since the measured part began.

use prony_record::{Generator, Nanos, Stalls};

use crate::socket::system;
use crate::stall::StallWatch;

/// CPU and waiting of the calling thread, and how long answers waited for it.
pub(crate) struct Meter {
    from: Nanos,
    connections: u32,
    at_begin: Option<Used>,
    stalls: StallWatch,
    /// Length of all stalls. Shares are of the rest of the time.
    stalled: Nanos,
    waited: Nanos,
    last_wait: Nanos,
    /// The wait before the last, and the connections that its turn found.
    previous: (Nanos, u32),
    /// Nanoseconds of each wait × connections that waited for the worker at its end, summed.
    found_by_waits: u128,
    /// Turns of which each was cut short while there was more to do, as if they were one, and their
    /// time.
    round: (Nanos, Turn),
    /// Nanoseconds of each round × connections that waited for the worker in it, summed.
    queued: u128,
}

/// One turn of the worker's loop.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turn {
    /// Connections that had a whole answer for the worker, or were made or closed.
    pub(crate) found: u32,
    /// What was received, parts of answers included.
    pub(crate) bytes: u64,
    /// There may have been more, but timers and the interrupt had their turn.
    pub(crate) cut_short: bool,
    /// Time of it during which the generator stood still.
    pub(crate) stalled: Nanos,
    /// The clock's last reading in it.
    pub(crate) read: Nanos,
}

/// So much of an unfinished answer may lie at the generator without the server's having to wait: the
/// buffers of a socket hold as much.
const BUFFERED: u64 = 256 * 1024;

impl Turn {
    /// Connections that waited for the worker. A part of an answer is not waited for by itself, as
    /// the server may still be sending the rest; so large answers count by their bytes.
    fn waiting(&self, connections: u32) -> u32 {
        let full = u32::try_from(self.bytes / BUFFERED).unwrap_or(u32::MAX);
        self.found.max(full).min(connections)
    }
}

/// What the calling thread has used of its core since it began.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    user: Nanos,
    system: Nanos,
    /// It was ready to run and had no core.
    delayed: Nanos,
}

impl Used {
    fn so_far() -> Used {
        let (user, system) = system::thread_cpu();
        let delayed = system::thread_run_delay();
        Used {
            user,
            system,
            delayed,
        }
    }

    fn since(self, before: Used) -> Used {
        Used {
            user: self.user.since(before.user),
            system: self.system.since(before.system),
            delayed: self.delayed.since(before.delayed),
        }
    }
}

/// What a worker did in the measured part; shares are of its length, 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerUtilization {
    /// The measured part's length, or what there has been of it.
    pub elapsed: Nanos,
    /// CPU time, in user mode and in the kernel.
    pub cpu: (Nanos, Nanos),
    /// It was at work.
    pub busy_share: f64,
    /// It was at work or wanted to be: not asleep.
    pub awake_share: f64,
    /// It wanted a core and had none.
    pub starved_share: f64,
    /// The share of its connections that was at the generator and not at the server, on average.
    pub queue_share: f64,
    /// It stood still.
    pub stalls: Stalls,
}

impl WorkerUtilization {
    /// All workers together: CPU adds up, and of each share the largest counts.
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
        }
    }

    /// Writes this to a record, shares to four digits.
    pub(crate) fn write_to(&self, generator: &mut Generator) {
        let share = |share: f64| (share * 1e4).round() / 1e4;
        generator.cpu_user_s = self.cpu.0.as_secs_f64();
        generator.cpu_system_s = self.cpu.1.as_secs_f64();
        generator.busy_share = share(self.busy_share);
        generator.awake_share = share(self.awake_share);
        generator.queue_share = share(self.queue_share);
        generator.starved_share = share(self.starved_share);
        generator.stalls = (self.stalls.count > 0).then_some(self.stalls);
    }
}

impl Meter {
    /// A meter of what happens from the moment `from` to `end` to a worker of so many connections.
    pub(crate) fn new(from: Nanos, end: Nanos, connections: u32) -> Meter {
        Meter {
            from,
            connections,
            at_begin: None,
            stalls: StallWatch::new(from, end),
            stalled: Nanos::ZERO,
            waited: Nanos::ZERO,
            last_wait: Nanos::ZERO,
            previous: (Nanos::ZERO, 0),
            found_by_waits: 0,
            round: (Nanos::ZERO, Turn::default()),
            queued: 0,
        }
    }

    /// The worker waited for its sockets, or for the next arrival; it asked to be woken at `until`.
    pub(crate) fn waited(&mut self, before: Nanos, until: Nanos, after: Nanos) {
        let stalled = self.gap(until.max(before), after);
        self.last_wait = (after - stalled).since(before.max(self.from));
        self.waited = self.waited + self.last_wait;
    }

    /// The worker was at work and read the clock twice in succession. Returns the length of the stall
    /// between the two, if there was one.
    #[inline]
    pub(crate) fn gap(&mut self, before: Nanos, now: Nanos) -> Nanos {
        let stalled = self.stalls.gap(before, now);
        self.stalled = self.stalled + stalled;
        stalled
    }

    /// After a wait the worker worked off what it found.
    pub(crate) fn worked(&mut self, began: Nanos, ended: Nanos, turn: Turn) {
        if began < self.from {
            return;
        }
        let waiting = turn.waiting(self.connections);
        // A backend may end a wait with the first thing that it has and bring the rest in the next.
        let (wait, found) = self.previous;
        self.found_by_waits += u128::from(wait.0) * u128::from(found.max(waiting));
        self.previous = (self.last_wait, waiting);
        // What is found after a turn that was cut short had been waiting during that, too.
        let (took, round) = &mut self.round;
        *took = *took + ended.since(began).since(turn.stalled);
        round.found = round.found.saturating_add(turn.found);
        round.bytes += turn.bytes;
        let waiting = round.waiting(self.connections);
        if !turn.cut_short || waiting == self.connections {
            self.queued += u128::from(took.0) * u128::from(waiting);
            self.round = (Nanos::ZERO, Turn::default());
        }
    }

    /// To be told the time regularly.
    pub(crate) fn begin_if_due(&mut self, now: Nanos) {
        if self.at_begin.is_none() && now >= self.from {
            self.at_begin = Some(Used::so_far());
        }
        if self.stalls.looks_for_suspension(now) {
            self.stalls.suspended(system::suspended_time(), now);
        }
    }

    /// What the worker did until the moment `ended`.
    pub(crate) fn utilization(&self, ended: Nanos) -> WorkerUtilization {
        match self.at_begin {
            Some(before) => self.utilization_of(Used::so_far().since(before), ended),
            None => WorkerUtilization::default(),
        }
    }

    /// The worker is busy in the larger of two times, as each misses something: the time outside of
    /// waits holds the moments in which another thread had its core, the CPU time holds the system
    /// calls that ask for events and find some at once, or send before they wait.
    ///
    /// In a closed loop each connection is at the server or at the generator, and the longer queue
    /// is at the slower one. A worker that is always busy, but finds only a few answers each time it
    /// looks, could do more at once; one that finds them all is what the others wait for. So the
    /// length of each turn counts for every connection that was found in it. The time in which it was
    /// awake within waits counts with the connections that waits found, the long ones more than the
    /// short: after a time without a core there are many.
    fn utilization_of(&self, used: Used, ended: Nanos) -> WorkerUtilization {
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Used = Used {
        user: Nanos::ZERO,
        system: Nanos::ZERO,
        delayed: Nanos::ZERO,
    };

    /// A worker that in each millisecond waits for `waits_us`, finds so many connections and works them off.
    fn loop_of(waits_us: u64, connections: u32, found: u32) -> Meter {
        let mut meter = Meter::new(Nanos::ZERO, Nanos::MAX, connections);
        for turn in 0..1000 {
            let began = Nanos::from_millis(turn);
            let woke = began + Nanos(waits_us * 1000);
            meter.waited(began, woke, woke);
            let turn = Turn {
                found,
                ..Turn::default()
            };
            meter.worked(woke, began + Nanos::from_millis(1), turn);
        }
        meter
    }

    /// But for one turn of a thousand.
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
        // 3 of 10 seconds were waited.
        let utilization = meter.utilization_of(NOTHING, Nanos::from_secs(20));
        close_to(utilization.busy_share, 0.7);
    }

    #[test]
    fn the_queue_is_where_the_connections_are() {
        let end = Nanos::from_secs(1);
        // Always busy, with two of eight connections at a time; then with all of them.
        close_to(
            loop_of(0, 8, 2).utilization_of(NOTHING, end).queue_share,
            0.25,
        );
        close_to(
            loop_of(0, 8, 8).utilization_of(NOTHING, end).queue_share,
            1.0,
        );
        // A server that answers all at once, after a while, is not waiting for the generator.
        let slow_server = loop_of(990, 8, 8).utilization_of(NOTHING, end);
        close_to(slow_server.queue_share, 0.01);
        close_to(slow_server.awake_share, 0.01);
    }

    #[test]
    fn a_stall_is_neither_work_nor_waiting() {
        let mut meter = Meter::new(Nanos::ZERO, Nanos::from_secs(10), 8);
        let secs = Nanos::from_secs;
        // Half of each second is a wait. One wait and one turn are 3 s longer.
        let mut now = Nanos::ZERO;
        for turn in 0..4 {
            let woke = now + Nanos::from_millis(500) + secs(if turn == 1 { 3 } else { 0 });
            meter.waited(now, now + Nanos::from_millis(500), woke);
            now = woke + Nanos::from_millis(500) + secs(if turn == 2 { 3 } else { 0 });
            let turn = Turn {
                found: 8,
                stalled: meter.gap(woke + Nanos::from_millis(500), now),
                ..Turn::default()
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
        // As a backend does it that sends while it waits.
        let used = Used {
            system: Nanos::from_millis(980),
            ..NOTHING
        };
        let utilization = loop_of(900, 8, 4).utilization_of(used, Nanos::from_secs(1));
        close_to(utilization.busy_share, 0.98);
        close_to(utilization.queue_share, 0.98 / 2.0);
    }

    #[test]
    fn a_worker_without_a_core_is_awake_and_has_a_queue() {
        let used = Used {
            user: Nanos::from_millis(500),
            delayed: Nanos::from_millis(480),
            ..NOTHING
        };
        let utilization = loop_of(500, 8, 8).utilization_of(used, Nanos::from_secs(1));
        close_to(utilization.busy_share, 0.5);
        close_to(utilization.awake_share, 0.98);
        close_to(utilization.starved_share, 0.48);
        close_to(utilization.queue_share, 0.98);
    }

    #[test]
    fn what_a_wait_leaves_to_the_next_had_waited_too() {
        let mut meter = Meter::new(Nanos::ZERO, Nanos::MAX, 8);
        for turn in 0..1000 {
            let began = Nanos::from_millis(turn);
            let found = |found| Turn {
                found,
                ..Turn::default()
            };
            let wait = |meter: &mut Meter, length: Nanos| {
                meter.waited(began, began + length, began + length);
            };
            wait(&mut meter, Nanos(990_000));
            meter.worked(began, began, found(1));
            wait(&mut meter, Nanos(10_000));
            meter.worked(began, began, found(7));
        }
        let used = Used {
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
            let turn_of_4096 = Turn {
                found: 4096,
                cut_short: true,
                ..Turn::default()
            };
            let began = Nanos::from_millis(100 * turn);
            meter.worked(began, began + Nanos::from_millis(100), turn_of_4096);
        }
        // Nine turns are three rounds of all; of the tenth's round the end is not known.
        let utilization = meter.utilization_of(NOTHING, Nanos::from_secs(1));
        close_to(utilization.queue_share, 0.9);
    }

    #[test]
    fn parts_of_large_answers_wait_once_they_fill_the_buffers() {
        let part = |bytes| Turn {
            found: 1,
            bytes,
            ..Turn::default()
        };
        assert_eq!(part(100_000).waiting(8), 1);
        assert_eq!(part(4 * BUFFERED).waiting(8), 4);
        assert_eq!(part(400 * BUFFERED).waiting(8), 8);
    }

    #[test]
    fn no_time_at_all_is_no_share() {
        let meter = Meter::new(Nanos::from_secs(10), Nanos::MAX, 8);
        let utilization = meter.utilization_of(NOTHING, Nanos::from_secs(3));
        assert_eq!(
            (utilization.busy_share, utilization.queue_share),
            (0.0, 0.0)
        );
        assert_eq!(meter.utilization(Nanos::from_secs(30)).busy_share, 0.0);
    }
}
