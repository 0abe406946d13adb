//! How busy a worker was, since the measured part began.

use prony_record::Nanos;

use crate::socket::system;

/// CPU and waiting of the calling thread.
pub(crate) struct Meter {
    from: Nanos,
    cpu_at_begin: Option<(Nanos, Nanos)>,
    delay_at_begin: Nanos,
    waited: Nanos,
    /// Nanoseconds that completions spent in turns of the worker's loop, summed over completions.
    queued: u128,
}

impl Meter {
    /// A meter of what happens after the moment `from`.
    pub(crate) fn new(from: Nanos) -> Meter {
        Meter {
            from,
            cpu_at_begin: None,
            delay_at_begin: Nanos::ZERO,
            waited: Nanos::ZERO,
            queued: 0,
        }
    }

    /// The worker waited for its sockets, or for the next arrival.
    pub(crate) fn waited(&mut self, before: Nanos, after: Nanos) {
        self.waited = self.waited + after.since(before.max(self.from));
    }

    /// One turn of the worker's loop took from `began` to `ended` and worked off `completions`.
    pub(crate) fn worked(&mut self, began: Nanos, ended: Nanos, completions: u32) {
        if began >= self.from {
            self.queued += u128::from(ended.since(began).0) * u128::from(completions);
        }
    }

    /// The share of `connections` that was at the generator and not at the server, on average.
    ///
    /// In a closed loop each connection is at one of the two, and the longer queue is at the slower
    /// one. A worker that is always busy, but finds only a few answers each time it looks, could
    /// do more at once; one that finds them all is what the others wait for.
    pub(crate) fn queue_share(&self, connections: u32, ended: Nanos) -> f64 {
        let all = u128::from(ended.since(self.from).0) * u128::from(connections);
        if all == 0 {
            return 0.0;
        }
        (self.queued as f64 / all as f64).min(1.0)
    }

    /// To be told the time regularly.
    pub(crate) fn begin_if_due(&mut self, now: Nanos) {
        if self.cpu_at_begin.is_none() && now >= self.from {
            self.cpu_at_begin = Some(system::thread_cpu());
            self.delay_at_begin = system::thread_run_delay();
        }
    }

    /// CPU time, in user mode and in the kernel.
    pub(crate) fn cpu(&self) -> (Nanos, Nanos) {
        let (user, system) = system::thread_cpu();
        let (user_before, system_before) = self.cpu_at_begin.unwrap_or((user, system));
        (user.since(user_before), system.since(system_before))
    }

    /// The share of the measured part in which the worker wanted a core and had none, 0 to 1.
    pub(crate) fn starved_share(&self, ended: Nanos) -> f64 {
        let all = ended.since(self.from);
        if self.cpu_at_begin.is_none() || all.0 == 0 {
            return 0.0;
        }
        let delay = system::thread_run_delay().since(self.delay_at_begin);
        (delay.0 as f64 / all.0 as f64).min(1.0)
    }

    /// The share of the measured part in which the worker was at work, 0 to 1.
    ///
    /// It is the larger of two shares, as each misses something. The time outside of waits holds
    /// the moments in which the thread had work but another one had its core: a generator that
    /// shares its core with the server lacks CPU, even if it uses little. The CPU time holds the
    /// system calls that ask for events and find some at once, which are no waiting either.
    pub(crate) fn busy_share(&self, ended: Nanos) -> f64 {
        let all = ended.since(self.from);
        if all.0 == 0 {
            return 0.0;
        }
        let (user, system) = self.cpu();
        let busy = all.since(self.waited).max(user + system);
        (busy.0 as f64 / all.0 as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_before_the_measured_part_do_not_count() {
        let mut meter = Meter::new(Nanos::from_secs(10));
        meter.waited(Nanos::from_secs(0), Nanos::from_secs(9));
        meter.waited(Nanos::from_secs(9), Nanos::from_secs(12));
        meter.waited(Nanos::from_secs(13), Nanos::from_secs(14));
        // Never begun, so no CPU is counted: 3 of 10 seconds were waited.
        assert_eq!(meter.busy_share(Nanos::from_secs(20)), 0.7);
    }

    #[test]
    fn the_queue_is_where_the_connections_are() {
        let mut meter = Meter::new(Nanos::ZERO);
        // Always busy, with two of eight connections at a time.
        for turn in 0..10 {
            meter.worked(Nanos::from_millis(turn), Nanos::from_millis(turn + 1), 2);
        }
        assert_eq!(meter.queue_share(8, Nanos::from_millis(10)), 0.25);
    }

    #[test]
    fn no_time_at_all_is_no_share() {
        let meter = Meter::new(Nanos::from_secs(10));
        assert_eq!(meter.busy_share(Nanos::from_secs(3)), 0.0);
        assert_eq!(meter.queue_share(8, Nanos::from_secs(3)), 0.0);
    }
}
