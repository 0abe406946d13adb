//! Precise timers for delays.
//!
//! The timers of the async runtime round up to whole milliseconds twice, which is too coarse for
//! delays that tests rely on. Each thread has one timerfd and a queue of waiting tasks.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// The timers of one thread, which fire only while [`Alarm::run`] is being polled.
pub(crate) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    waiting: RefCell<BinaryHeap<Waiting>>,
}

struct Waiting {
    at: Instant,
    wake: oneshot::Sender<()>,
}

/// The order is reversed, because a `BinaryHeap` yields the greatest element first.
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Waiting {}

impl Alarm {
    /// Creates the timers of a thread. Must be called within the thread's runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: an `OwnedFd` is open and names the same descriptor as long as it lives, and
        // the `AsyncFd` owns it.
        let timer = unsafe { AsyncFd::register(timer) }?;
        Ok(Self {
            timer,
            waiting: RefCell::default(),
        })
    }

    /// Waits until the time `at`. Never returns before that time.
    pub(crate) async fn until(&self, at: Instant) {
        if at <= Instant::now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        let first = {
            let mut waiting = self.waiting.borrow_mut();
            waiting.push(Waiting { at, wake });
            waiting.peek().is_some_and(|earliest| earliest.at >= at)
        };
        if first {
            self.set(at);
        }
        // An error means that the thread's runtime is ending, which also ends this future.
        let _ = woken.await;
    }

    /// Wakes tasks when their time has come. Never returns.
    pub(crate) async fn run(&self) {
        while let Ok(mut ready) = self.timer.readable().await {
            // Reading returns the number of expirations, which doesn't matter here.
            let _ = rustix::io::read(self.timer.get_ref(), &mut [0; 8]);
            ready.clear_ready();
            drop(ready);
            self.ring();
        }
    }

    fn ring(&self) {
        let now = Instant::now();
        let mut waiting = self.waiting.borrow_mut();
        while waiting.peek().is_some_and(|earliest| earliest.at <= now) {
            if let Some(due) = waiting.pop() {
                // Sending fails if the client has left, so that the task no longer exists.
                let _ = due.wake.send(());
            }
        }
        if let Some(earliest) = waiting.peek() {
            self.set(earliest.at);
        }
    }

    fn set(&self, at: Instant) {
        // A time of zero would disarm the timer.
        let left = at
            .saturating_duration_since(Instant::now())
            .max(Duration::from_nanos(1));
        let never_again = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let setting = Itimerspec {
            it_interval: never_again,
            it_value: value,
        };
        // This can't fail: the descriptor is a timer and the nanoseconds are under a second.
        let _ = timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &setting);
    }
}
