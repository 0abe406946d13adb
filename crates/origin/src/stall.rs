//! The freeze schedule: ground truth for response times.
//!
//! A [`Schedule`] says `every` and `lasts` (`/stall?every=5s&for=1s`); a [`Stall`] adds the epoch
//! from which it counts. Period `k` (0, 1, 2, …) is `[epoch + k·every, epoch + (k+1)·every)`. The
//! server runs for the first `every − lasts` of each period and is frozen for its last `lasts`:
//!
//! ```text
//! epoch                    every                    2·every
//! |──────── runs ───────|#frozen#|──────── runs ───────|#frozen#|
//!                every − lasts            2·every − lasts
//! ```
//!
//! Frozen means that the server's threads sleep: nothing is accepted, read, parsed or written on
//! any connection, path or listener, and the pauses of `/delay` and `/slow` that end meanwhile end
//! with the freeze. A request that the server takes up at time `t` in a frozen window is answered
//! when the window ends, so that its response time is [`Stall::wait`]`(t)` plus what it would have
//! been otherwise; any other request is not touched. After the window the requests that piled up
//! are answered one after another, each thread at its usual speed.
//!
//! The epoch is the start of the server if [`Config::stall`](crate::Config::stall) gives the
//! schedule; otherwise the moment at which the server reads the first request to `/stall` (which
//! is itself never frozen, as a period begins with running). Later requests to `/stall` with the
//! same numbers change nothing; other numbers replace the schedule with a new epoch, and `for=0s`
//! ends it. A test learns the epoch from
//! [`Origin::stall`](crate::Origin::stall), another process from the headers of an answer to
//! `/stall`: `prony-stall-epoch-unix-ns` (the epoch by the wall clock, nanoseconds since 1970) and
//! `prony-stall-age-ns` (nanoseconds since the epoch when the answer was made).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

/// How often and for how long the server freezes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    every: Duration,
    lasts: Duration,
}

impl Schedule {
    /// A freeze of `lasts` at the end of each period of `every`. `None` unless `lasts < every`.
    /// A `lasts` of zero never freezes.
    #[must_use]
    pub fn new(every: Duration, lasts: Duration) -> Option<Self> {
        (lasts < every).then_some(Self { every, lasts })
    }

    /// The length of a period.
    #[must_use]
    pub fn every(&self) -> Duration {
        self.every
    }

    /// The length of the freeze that ends each period.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        self.lasts
    }
}

/// A schedule that runs: it has an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The start of the first period, on the monotonic clock.
    pub epoch: Instant,
    /// The same moment on the wall clock.
    pub epoch_wall: SystemTime,
    /// What repeats from there.
    pub schedule: Schedule,
}

impl Stall {
    fn starting_now(schedule: Schedule) -> Self {
        Self {
            epoch: Instant::now(),
            epoch_wall: SystemTime::now(),
            schedule,
        }
    }

    /// How long a request that the server takes up at `at` is held: zero outside the frozen
    /// windows and before the epoch.
    #[must_use]
    pub fn wait(&self, at: Instant) -> Duration {
        let left = self.left_of_period(at);
        if left <= self.schedule.lasts {
            left
        } else {
            Duration::ZERO
        }
    }

    /// The start of the first frozen window that begins after `at`.
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

    /// From `at` to the end of its period; more than a period before the epoch.
    fn left_of_period(&self, at: Instant) -> Duration {
        let every = self.schedule.every.as_nanos();
        let age = at.saturating_duration_since(self.epoch).as_nanos();
        let early = self.epoch.saturating_duration_since(at);
        // A period is at most Duration::MAX long, but the rest of one comes from u128 arithmetic:
        // clamp rather than wrap.
        let left = u64::try_from(every - age % every).unwrap_or(u64::MAX);
        early.saturating_add(Duration::from_nanos(left))
    }
}

/// The server's brake: holds the schedule and puts threads to sleep.
#[derive(Debug)]
pub(crate) struct Brake {
    /// Whether there is a schedule. Read once per request, so that a server that never freezes
    /// takes no lock.
    armed: AtomicBool,
    state: Mutex<State>,
    woken: Condvar,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    stall: Option<Stall>,
    released: bool,
}

impl Brake {
    pub(crate) fn new(schedule: Option<Schedule>) -> Self {
        let brake = Self {
            armed: AtomicBool::new(false),
            state: Mutex::default(),
            woken: Condvar::new(),
            changed: watch::Sender::new(()),
        };
        if let Some(schedule) = schedule {
            brake.arm(schedule);
        }
        brake
    }

    /// Starts the schedule unless it already runs; returns what runs now (nothing, if the
    /// schedule never freezes).
    pub(crate) fn arm(&self, schedule: Schedule) -> Option<Stall> {
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

    /// Returns at once, or puts this thread, and with it everything that it serves, to sleep
    /// until the present freeze ends.
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

    /// Wakes the sleeping threads for good: the server stops.
    pub(crate) fn release(&self) {
        self.state().released = true;
        self.woken.notify_all();
    }

    /// Tells when the schedule changes.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The state is plain data that no panic can leave half-written.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn five_one() -> Stall {
        Stall::starting_now(Schedule::new(5_000 * MS, 1_000 * MS).unwrap())
    }

    #[test]
    fn a_freeze_must_be_shorter_than_its_period() {
        assert!(Schedule::new(5 * MS, 5 * MS).is_none());
        assert!(Schedule::new(Duration::ZERO, Duration::ZERO).is_none());
        assert!(Schedule::new(5 * MS, 4 * MS).is_some());
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
    fn the_first_request_sets_the_epoch_and_other_numbers_move_it() {
        let brake = Brake::new(None);
        let schedule = Schedule::new(5_000 * MS, 1_000 * MS).unwrap();
        let first = brake.arm(schedule).unwrap();
        assert_eq!(brake.arm(schedule), Some(first));
        let other = brake
            .arm(Schedule::new(6_000 * MS, 1_000 * MS).unwrap())
            .unwrap();
        assert!(other.epoch >= first.epoch && other != first);
        assert_eq!(
            brake.arm(Schedule::new(6_000 * MS, Duration::ZERO).unwrap()),
            None
        );
        assert_eq!(brake.stall(), None);
    }

    #[test]
    fn release_ends_a_freeze() {
        let brake = Brake::new(Schedule::new(
            Duration::from_secs(3_601),
            Duration::from_secs(3_600),
        ));
        // Move the epoch back so that the hour-long freeze has begun.
        let past = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        brake.state().stall.as_mut().unwrap().epoch = past;
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| brake.hold());
            brake.release();
            sleeper.join().unwrap();
        });
    }
}
