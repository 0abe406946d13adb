//! Freeze schedule: freezes at known times, so that the true response times are known.
//!
//! A [`FreezeSchedule`] has the parameters `every` and `lasts` (`/stall?every=5s&for=1s`); a
//! [`Stall`] adds the epoch from which it counts. Period `k` (0, 1, 2, …) is `[epoch + k·every,
//! epoch + (k+1)·every)`. The server runs for the first `every − lasts` of each period and is
//! frozen for the last `lasts`:
//!
//! ```text
//! epoch                    every                    2·every
//! |──────── runs ───────|#frozen#|──────── runs ───────|#frozen#|
//!                every − lasts            2·every − lasts
//! ```
//!
//! During a freeze, the server's threads sleep: nothing is accepted, read, parsed or written on any
//! connection, path or listener. Pauses of `/delay` and `/slow` that would end during a freeze end
//! when the freeze ends. A request that arrives at time `t` in a frozen window is served when the
//! window ends, so its response time is [`Stall::wait`]`(t)` longer than without the freeze. Other
//! requests aren't affected. After the window, each thread serves its queued requests in sequence,
//! at its normal speed.
//!
//! The epoch is the start of the server if [`Config::stall`](crate::Config::stall) gives the
//! schedule, otherwise the time at which the server reads the first request to `/stall`. That
//! request is never frozen, because a period begins with running. Later requests to `/stall` with
//! the same numbers change nothing; other numbers replace the schedule with a new epoch, and
//! `for=0s` ends it. A test reads the epoch from [`Origin::stall`](crate::Origin::stall). Another
//! process reads it from the headers of a response to `/stall`: `prony-stall-epoch-unix-ns` (the
//! epoch on the wall clock, nanoseconds since 1970) and `prony-stall-age-ns` (nanoseconds from the
//! epoch to the response).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

/// Interval and length of the freezes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreezeSchedule {
    every: Duration,
    lasts: Duration,
}

impl FreezeSchedule {
    /// Creates a schedule with a freeze of `lasts` at the end of each period of `every`. Returns
    /// `None` unless `lasts < every`. A schedule with `lasts` of zero never freezes.
    #[must_use]
    pub fn new(every: Duration, lasts: Duration) -> Option<Self> {
        (lasts < every).then_some(Self { every, lasts })
    }

    /// Returns the length of a period.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Returns the length of the freeze at the end of each period.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        self.lasts
    }
}

/// An active freeze schedule with its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Start of the first period, on the monotonic clock.
    pub epoch: Instant,
    /// Start of the first period, on the wall clock.
    pub epoch_wall: SystemTime,
    /// The schedule of the freezes.
    pub schedule: FreezeSchedule,
}

impl Stall {
    fn starting_now(schedule: FreezeSchedule) -> Self {
        Self {
            epoch: Instant::now(),
            epoch_wall: SystemTime::now(),
            schedule,
        }
    }

    /// Returns the delay of a request that arrives at `at`; zero outside of the frozen windows and
    /// before the epoch.
    #[must_use]
    pub fn wait(&self, at: Instant) -> Duration {
        let left = self.left_of_period(at);
        if left <= self.schedule.lasts {
            left
        } else {
            Duration::ZERO
        }
    }

    /// Returns the start of the first frozen window that begins after `at`.
    #[must_use]
    pub fn next_freeze(&self, at: Instant) -> Instant {
        let at = at.max(self.epoch);
        let left = self.left_of_period(at);
        let end = at + left;
        if left > self.schedule.lasts {
            end - self.schedule.lasts
        } else {
            end + self.schedule.every - self.schedule.lasts
        }
    }

    /// Returns the time from `at` to the end of the period that contains `at`. Before the epoch,
    /// returns the time to the end of the first period.
    fn left_of_period(&self, at: Instant) -> Duration {
        let every = self.schedule.every.as_nanos();
        let age = at.saturating_duration_since(self.epoch).as_nanos();
        let early = self.epoch.saturating_duration_since(at);
        // The rest of a period can be too long for u64, so clamp it instead of letting it wrap.
        let left = u64::try_from(every - age % every).unwrap_or(u64::MAX);
        early.saturating_add(Duration::from_nanos(left))
    }
}

/// Holds the freeze schedule, and puts threads to sleep during freezes.
#[derive(Debug)]
pub(crate) struct FreezeGate {
    /// True if there is a schedule. The flag is read once per request, so a server without freezes
    /// takes no lock.
    armed: AtomicBool,
    state: Mutex<FreezeState>,
    woken: Condvar,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct FreezeState {
    stall: Option<Stall>,
    released: bool,
}

impl FreezeGate {
    pub(crate) fn new(schedule: Option<FreezeSchedule>) -> Self {
        let freeze_gate = Self {
            armed: AtomicBool::new(false),
            state: Mutex::default(),
            woken: Condvar::new(),
            changed: watch::Sender::new(()),
        };
        if let Some(schedule) = schedule {
            freeze_gate.arm(schedule);
        }
        freeze_gate
    }

    /// Activates a schedule unless it is already active. Returns the active schedule, or `None` if
    /// the schedule never freezes.
    pub(crate) fn arm(&self, schedule: FreezeSchedule) -> Option<Stall> {
        let mut state = self.state();
        let same = state.stall.is_some_and(|stall| stall.schedule == schedule);
        if !same {
            let freezes = !schedule.lasts.is_zero();
            state.stall = freezes.then(|| Stall::starting_now(schedule));
            self.armed.store(freezes, Ordering::Release);
            self.changed.send_replace(());
        }
        state.stall
    }

    pub(crate) fn stall(&self) -> Option<Stall> {
        self.state().stall
    }

    /// Returns immediately, or blocks this thread and everything that it serves until the current
    /// freeze ends.
    pub(crate) fn hold(&self) {
        if self.armed.load(Ordering::Acquire) {
            self.sleep_out_freeze();
        }
    }

    fn sleep_out_freeze(&self) {
        let mut state = self.state();
        while let Some(stall) = state.stall.filter(|_| !state.released) {
            let left = stall.wait(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self
                .woken
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Wakes the sleeping threads permanently, so that the server can stop.
    pub(crate) fn release(&self) {
        self.state().released = true;
        self.woken.notify_all();
    }

    /// Returns a receiver that is notified when the schedule changes.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Locks the state. Ignores poisoning, because the state is plain data that no panic can leave
    /// half-written.
    fn state(&self) -> MutexGuard<'_, FreezeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn five_one() -> Stall {
        Stall::starting_now(FreezeSchedule::new(5_000 * MS, 1_000 * MS).unwrap())
    }

    #[test]
    fn a_freeze_must_be_shorter_than_its_period() {
        assert!(FreezeSchedule::new(5 * MS, 5 * MS).is_none());
        assert!(FreezeSchedule::new(Duration::ZERO, Duration::ZERO).is_none());
        assert!(FreezeSchedule::new(5 * MS, 4 * MS).is_some());
    }

    #[test]
    fn only_the_end_of_a_period_is_frozen() {
        let stall = five_one();
        for (at_ms, wait_ms) in [
            (0, 0),
            (3_999, 0),
            (4_000, 1_000),
            (4_250, 750),
            (4_999, 1),
            (5_000, 0),
            (9_500, 500),
        ] {
            assert_eq!(
                stall.wait(stall.epoch + at_ms * MS),
                wait_ms * MS,
                "at {at_ms} ms"
            );
        }
        assert_eq!(stall.wait(stall.epoch - MS), Duration::ZERO);
    }

    #[test]
    fn the_next_freeze_is_always_ahead() {
        let stall = five_one();
        for (at_ms, next_ms) in [(0, 4_000), (3_999, 4_000), (4_000, 9_000), (4_500, 9_000)] {
            let next = stall.next_freeze(stall.epoch + at_ms * MS);
            assert_eq!(next, stall.epoch + next_ms * MS, "at {at_ms} ms");
        }
        assert_eq!(
            stall.next_freeze(stall.epoch - 50 * MS),
            stall.epoch + 4_000 * MS
        );
    }

    #[test]
    fn the_first_request_sets_the_epoch_and_new_parameters_move_it() {
        let freeze_gate = FreezeGate::new(None);
        let schedule = FreezeSchedule::new(5_000 * MS, 1_000 * MS).unwrap();
        let first = freeze_gate.arm(schedule).unwrap();
        assert_eq!(freeze_gate.arm(schedule), Some(first));
        let other = freeze_gate
            .arm(FreezeSchedule::new(6_000 * MS, 1_000 * MS).unwrap())
            .unwrap();
        assert!(other.epoch >= first.epoch && other != first);
        assert_eq!(
            freeze_gate.arm(FreezeSchedule::new(6_000 * MS, Duration::ZERO).unwrap()),
            None
        );
        assert_eq!(freeze_gate.stall(), None);
    }

    #[test]
    fn release_ends_a_freeze() {
        let freeze_gate = FreezeGate::new(FreezeSchedule::new(
            Duration::from_secs(3_601),
            Duration::from_secs(3_600),
        ));
        // Move the epoch back, so that the freeze of one hour has already begun.
        let past = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        freeze_gate.state().stall.as_mut().unwrap().epoch = past;
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| freeze_gate.hold());
            freeze_gate.release();
            sleeper.join().unwrap();
        });
    }
}
