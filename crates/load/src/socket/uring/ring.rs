//! The ring, which submits operations, reaps completions, and provides the clock and one timer.
//!
//! If an armed alarm would fire after the end of a wait, the wait has its own time limit. This
//! ensures that every wait ends.

use std::io;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode};
use prony_record::Nanos;

use super::operation::{ALARM, Kind, kind_of, quiet};
use super::{WaitBatch, system};

/// Maximum number of operations that are waiting for submission.
const SUBMISSIONS: u32 = 256;
/// Number of queued operations that triggers their submission. Submission must not be delayed for
/// long, because the send times are already recorded.
const BATCH: usize = 16;
/// `IORING_ENTER_GETEVENTS` of linux/io_uring.h.
const GETEVENTS: u32 = 1;
/// Maximum number of completions that are processed with one clock reading.
const COMPLETIONS_PER_CLOCK_READING: u32 = 8;
/// Minimum number of entries in the completion queue.
const COMPLETIONS_MIN: u32 = 2 * SUBMISSIONS;
/// Maximum number of entries in the completion queue.
const COMPLETIONS_MAX: u32 = 32 * 1024;
/// Maximum time to wait for operations in the kernel when the ring is dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);

/// An io_uring with its clock and its timer.
pub(super) struct Ring {
    io: IoUring,
    /// True if the kernel supports a minimum wait time (Linux 6.12 and later).
    gathers: bool,
    /// Number of operations whose last completion has not arrived yet.
    in_flight: u32,
    /// Time of the alarm, if it is armed. An alarm ends a wait. It stays armed if another event
    /// ends the wait first, because setting and clearing a timer for each wait would cost more than
    /// the wait itself.
    alarm: Option<Nanos>,
    /// Time until the alarm, which the kernel reads at submission.
    alarm_left: Box<Timespec>,
    /// The last clock reading; `reaped` is the number of completions reaped since then.
    moment: Nanos,
    reaped: u32,
    epoch: Instant,
}

impl Ring {
    /// Creates a ring for up to `connections` connections. Only the calling thread may use it.
    ///
    /// # Errors
    ///
    /// The kernel has no io_uring, forbids it, or lacks a required feature.
    pub(super) fn new(connections: usize) -> io::Result<Ring> {
        // One receive and one send for each connection.
        let wanted = u32::try_from(connections)
            .unwrap_or(u32::MAX)
            .saturating_mul(2);
        let completions = wanted
            .clamp(COMPLETIONS_MIN, COMPLETIONS_MAX)
            .next_power_of_two();
        let io = built(completions)?;
        check_features(&io)?;
        Ok(Ring {
            gathers: io.params().is_feature_min_timeout(),
            io,
            in_flight: 0,
            alarm: None,
            alarm_left: Box::new(Timespec::new()),
            moment: Nanos::ZERO,
            reaped: 0,
            epoch: Instant::now(),
        })
    }

    /// Creates a ring that doesn't use a minimum wait time, even if the kernel has it.
    #[cfg(test)]
    pub(super) fn without_min_wait(connections: usize) -> io::Result<Ring> {
        let ring = Ring::new(connections)?;
        Ok(Ring {
            gathers: false,
            ..ring
        })
    }

    /// Returns the io_uring instance, for registering resources with it.
    pub(super) fn registry(&self) -> &IoUring {
        &self.io
    }

    pub(super) fn start_clock(&mut self, epoch: Instant) {
        let rings = self.alarm.map(|at| self.epoch + Duration::from(at));
        self.alarm = rings.map(|at| Nanos::from(at.saturating_duration_since(epoch)));
        self.epoch = epoch;
        self.read_clock();
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos::from(self.epoch.elapsed())
    }

    /// See [`super::Sockets::cached_now`].
    pub(super) fn cached_now(&self) -> Nanos {
        self.moment
    }

    pub(super) fn read_clock(&mut self) {
        self.moment = self.now();
        self.reaped = 0;
    }

    /// Writes an operation into the queue. Returns false if the queue is full.
    ///
    /// # Safety
    ///
    /// Memory that the entry points to must live until its completion, or until the ring is
    /// dropped.
    #[must_use]
    pub(super) unsafe fn push(&mut self, entry: &Entry) -> bool {
        if self.io.submission().len() >= BATCH {
            self.submit();
        }
        // SAFETY: guaranteed by the caller.
        let is_in = unsafe { self.io.submission().push(entry) }.is_ok();
        if is_in && kind_of(entry.get_user_data()).always_completes() {
            self.in_flight += 1;
        }
        is_in
    }

    /// Submits the queue. Returns true if the queue is then empty. After a failure, the operations
    /// stay queued for the next attempt. Bytes that have arrived stay in the kernel until the next
    /// wait. Otherwise, with thousands of connections, bytes would arrive faster than they are
    /// reaped, and fill all buffers.
    pub(super) fn submit(&mut self) -> bool {
        let _ = self.io.submit();
        self.read_clock();
        self.io.submission().is_empty()
    }

    /// Submits the queue, and sleeps until a completion can be reaped or the time `until` is
    /// reached. May return earlier.
    ///
    /// # Errors
    ///
    /// The kernel refuses permanently.
    pub(super) fn wait(&mut self, until: Nanos) -> io::Result<()> {
        self.wait_for(until, None)
    }

    /// Like [`Ring::wait`]. With a `batch`, may continue to sleep after the first completions until
    /// the batch is full.
    ///
    /// # Errors
    ///
    /// The kernel refuses permanently.
    pub(super) fn wait_for(&mut self, until: Nanos, batch: Option<WaitBatch>) -> io::Result<()> {
        let waited = if until <= self.moment {
            self.collect()
        } else {
            if self.alarm.is_none() {
                self.arm(until);
            }
            // If the alarm fires by the end of the wait, it can end the wait. If it fires too
            // early, the caller waits again.
            let is_armed = self.alarm.is_some_and(|at| at <= until);
            match batch {
                Some(batch) if self.gathers => self.wait_coalesced(until, is_armed, batch),
                Some(batch) => self.pause_and_collect(until, batch.max_wait),
                None if is_armed => self.io.submit_and_wait(1),
                None => self.wait_without_alarm(until),
            }
        };
        self.read_clock();
        match waited {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // These errors mean that the time limit was reached, that a signal arrived, or that
                // completions must be reaped first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Submits the queue and runs the kernel's deferred work, without sleeping.
    fn collect(&mut self) -> io::Result<usize> {
        let waiting = self.io.submission().len() as u32;
        // SAFETY: without an argument, the call uses no memory of this process.
        unsafe {
            self.io
                .submitter()
                .enter::<libc::sigset_t>(waiting, 0, GETEVENTS, None)
        }
    }

    fn wait_without_alarm(&self, until: Nanos) -> io::Result<usize> {
        let limit = Timespec::from(self.left(until));
        let arguments = SubmitArgs::new().timespec(&limit);
        self.io.submitter().submit_with_args(1, &arguments)
    }

    fn wait_coalesced(&self, until: Nanos, is_armed: bool, batch: WaitBatch) -> io::Result<usize> {
        let limit = Timespec::from(self.left(until));
        let within = u32::try_from(batch.max_wait.0 / 1_000).unwrap_or(u32::MAX);
        let arguments = SubmitArgs::new().min_wait_usec(within);
        let arguments = if is_armed {
            arguments
        } else {
            arguments.timespec(&limit)
        };
        let most = batch.max_completions.max(1) as usize;
        self.io.submitter().submit_with_args(most, &arguments)
    }

    /// Replaces a coalesced wait on kernels without a minimum wait time. Completions that arrive
    /// during the pause cause no wake-up.
    fn pause_and_collect(&mut self, until: Nanos, pause: Nanos) -> io::Result<usize> {
        self.submit();
        system::sleep_precisely(self.left(until).min(pause.into()));
        self.wait_without_alarm(until)
    }

    fn left(&self, until: Nanos) -> Duration {
        Duration::from(until.since(self.now()))
    }

    fn arm(&mut self, until: Nanos) {
        *self.alarm_left = Timespec::from(self.left(until));
        let timeout = opcode::Timeout::new(&raw const *self.alarm_left)
            .build()
            .user_data(ALARM);
        // SAFETY: the box lives as long as the ring, and is not written to while the alarm is
        // armed.
        if unsafe { self.push(&timeout) } {
            self.alarm = Some(until);
        }
    }

    /// Counts a reaped completion, and reads the clock after every few of them.
    #[inline]
    pub(super) fn count_one(&mut self) {
        self.reaped += 1;
        if self.reaped > COMPLETIONS_PER_CLOCK_READING {
            self.read_clock();
        }
    }

    /// Returns the next completion of an operation on a connection, if there is one. Does not wait.
    #[inline]
    pub(super) fn next(&mut self) -> Option<cqueue::Entry> {
        loop {
            let entry = self.io.completion().next()?;
            let kind = kind_of(entry.user_data());
            if kind.always_completes() && !cqueue::more(entry.flags()) {
                self.in_flight -= 1;
            }
            match kind {
                Kind::Alarm => self.alarm = None,
                _ => return Some(entry),
            }
        }
    }

    /// Waits for the kernel to finish its operations after all connections are closed, and passes
    /// completions to `take`. Returns true if all operations have finished.
    pub(super) fn finish(&mut self, mut take: impl FnMut(cqueue::Entry)) -> bool {
        if self.alarm.is_some() {
            // SAFETY: the entry points to no memory. If the queue is full, the alarm fires at its
            // time.
            let _ = unsafe { self.push(&quiet(opcode::TimeoutRemove::new(ALARM).build())) };
        }
        // Operations without completions, such as closes, only need to be submitted.
        self.submit();
        let last = self.now() + Nanos::from(DROP_TIMEOUT);
        while self.in_flight > 0 && self.now() < last {
            // If the wait fails, the loop ends at its deadline.
            let _ = self.wait_without_alarm(last);
            while let Some(entry) = self.next() {
                take(entry);
            }
        }
        self.in_flight == 0
    }
}

/// Creates a ring for `completions` completions, or for the minimum number if this user is not
/// allowed to lock that much memory (RLIMIT_MEMLOCK). The kernel keeps completions that exceed the
/// ring's size elsewhere, which costs more. The size is not reduced in steps until it fits, because
/// other workers need memory too.
fn built(completions: u32) -> io::Result<IoUring> {
    let build = |completions| {
        IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(completions)
            .build(SUBMISSIONS)
    };
    match build(completions) {
        Err(error) if is_out_of_memory(&error) => build(COMPLETIONS_MIN),
        built => built,
    }
}

/// Returns true if an error means that the user's limit on locked memory was exceeded.
pub(super) fn is_out_of_memory(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOMEM)
}

/// Checks for required features in addition to those that creating the ring requires (Linux 6.1).
fn check_features(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Connect::CODE,
        opcode::Send::CODE,
        opcode::RecvMulti::CODE,
        opcode::AsyncCancel::CODE,
        opcode::Close::CODE,
        opcode::Timeout::CODE,
        opcode::TimeoutRemove::CODE,
    ];
    let parameters = ring.params();
    if needed.iter().all(|code| probe.is_supported(*code))
        && parameters.is_feature_ext_arg()
        && parameters.is_feature_nodrop()
        && parameters.is_feature_skip_cqe_on_success()
    {
        return Ok(());
    }
    Err(io::ErrorKind::Unsupported.into())
}
