//! The ring itself: operations in, completions out, the clock and the one timer.
//!
//! A wait needs a timer only where the alarm doesn't ring before its end; so none is without an end.

use std::io;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode};
use prony_record::Nanos;

use super::WaitBatch;
use super::operation::{ALARM, Kind, kind_of, quiet};

/// Operations that wait for being handed over, at most.
const SUBMISSIONS: u32 = 256;
/// Handed over as soon as so many wait: what has been stamped as sent must not lie around.
const BATCH: usize = 16;
/// `IORING_ENTER_GETEVENTS` of linux/io_uring.h.
const GETEVENTS: u32 = 1;
/// Completions that bear the same time.
const MOST_AT_A_MOMENT: u32 = 8;
/// Completions that the kernel can note without setting memory aside, at least...
const FEWEST_COMPLETIONS: u32 = 2 * SUBMISSIONS;
/// ...and at most.
const MOST_COMPLETIONS: u32 = 32 * 1024;
/// How long the end waits for operations that the kernel still holds.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Ring {
    io: IoUring,
    /// The kernel lets completions gather: Linux 6.12 and later.
    gathers: bool,
    /// Operations of which a last completion is still to come.
    under_way: u32,
    /// When the alarm rings, if it is armed. It ends waits, and it stays armed when something else
    /// ends one: setting and clearing a timer for each wait would cost more than the wait.
    alarm: Option<Nanos>,
    /// Where the kernel reads how long, as the alarm is handed over.
    alarm_left: Box<Timespec>,
    /// When the clock was last read, and how many completions were reaped since.
    moment: Nanos,
    reaped: u32,
    epoch: Instant,
}

impl Ring {
    /// A ring for up to `connections`, to be used by the calling thread alone.
    ///
    /// # Errors
    ///
    /// Where the kernel has no io_uring, forbids it, or lacks something that is needed here.
    pub(super) fn new(connections: usize) -> io::Result<Ring> {
        // A receive and a send for each connection.
        let wanted = u32::try_from(connections)
            .unwrap_or(u32::MAX)
            .saturating_mul(2);
        let completions = wanted
            .clamp(FEWEST_COMPLETIONS, MOST_COMPLETIONS)
            .next_power_of_two();
        let io = built(completions)?;
        check(&io)?;
        Ok(Ring {
            gathers: io.params().is_feature_min_timeout(),
            io,
            under_way: 0,
            alarm: None,
            alarm_left: Box::new(Timespec::new()),
            moment: Nanos::ZERO,
            reaped: 0,
            epoch: Instant::now(),
        })
    }

    /// For registering what the ring is to know.
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

    /// See [`super::Sockets::moment`].
    pub(super) fn cached_now(&self) -> Nanos {
        self.moment
    }

    pub(super) fn read_clock(&mut self) {
        self.moment = self.now();
        self.reaped = 0;
    }

    /// Writes an operation into the queue; returns false if it has no room.
    ///
    /// # Safety
    ///
    /// What the entry points to must live until its completion, or until the ring's drop.
    #[must_use]
    pub(super) unsafe fn push(&mut self, entry: &Entry) -> bool {
        if self.io.submission().len() >= BATCH {
            self.submit();
        }
        // SAFETY: the caller's promise.
        let is_in = unsafe { self.io.submission().push(entry) }.is_ok();
        if is_in && kind_of(entry.get_user_data()).is_always_told() {
            self.under_way += 1;
        }
        is_in
    }

    /// Hands over what waits; tells whether nothing waits any more. Should it fail, that stays
    /// queued for the next attempt. What has arrived stays where it is until the next wait: with
    /// thousands of connections it would come faster than it is reaped, and fill all buffers.
    pub(super) fn submit(&mut self) -> bool {
        let _ = self.io.submit();
        self.read_clock();
        self.io.submission().is_empty()
    }

    /// Hands over what waits, and sleeps until a completion is there or the moment `until` has
    /// come; now and then it ends sooner.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses for good.
    pub(super) fn wait(&mut self, until: Nanos) -> io::Result<()> {
        self.wait_for(until, None)
    }

    /// The same; where there is a `lot`, what arrives early may wait until it is full.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses for good.
    pub(super) fn wait_for(&mut self, until: Nanos, batch: Option<WaitBatch>) -> io::Result<()> {
        let waited = if until <= self.moment {
            self.collect()
        } else {
            if self.alarm.is_none() {
                self.arm(until);
            }
            // It rings in time: should that be too early, the caller waits again.
            let is_armed = self.alarm.is_some_and(|at| at <= until);
            match batch.filter(|_| self.gathers) {
                Some(batch) => self.wait_coalesced(until, is_armed, batch),
                None if is_armed => self.io.submit_and_wait(1),
                None => self.wait_without_alarm(until),
            }
        };
        self.read_clock();
        match waited {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The time is up, a signal came, or completions are to be reaped first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Hands over what waits and lets the kernel do what it has put off, without sleeping.
    fn collect(&mut self) -> io::Result<usize> {
        let waiting = self.io.submission().len() as u32;
        // SAFETY: without an argument there is nothing that must live or be valid.
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
        let arguments = match is_armed {
            true => arguments,
            false => arguments.timespec(&limit),
        };
        let most = batch.max_completions.max(1) as usize;
        self.io.submitter().submit_with_args(most, &arguments)
    }

    fn left(&self, until: Nanos) -> Duration {
        Duration::from(until.since(self.now()))
    }

    fn arm(&mut self, until: Nanos) {
        *self.alarm_left = Timespec::from(self.left(until));
        let timeout = opcode::Timeout::new(&raw const *self.alarm_left)
            .build()
            .user_data(ALARM);
        // SAFETY: the box lives as long as the ring, and is not written to while armed.
        if unsafe { self.push(&timeout) } {
            self.alarm = Some(until);
        }
    }

    /// A completion is about to be handed on: the clock is read now and then.
    #[inline]
    pub(super) fn count_one(&mut self) {
        self.reaped += 1;
        if self.reaped > MOST_AT_A_MOMENT {
            self.read_clock();
        }
    }

    /// The next completion of an operation on a connection, without waiting.
    #[inline]
    pub(super) fn next(&mut self) -> Option<cqueue::Entry> {
        loop {
            let entry = self.io.completion().next()?;
            let kind = kind_of(entry.user_data());
            if kind.is_always_told() && !cqueue::more(entry.flags()) {
                self.under_way -= 1;
            }
            match kind {
                Kind::Alarm => self.alarm = None,
                _ => return Some(entry),
            }
        }
    }

    /// Lets the kernel finish what it still holds, once all connections are closed: tells whether
    /// it has let go of everything. Completions go to `take`.
    pub(super) fn finish(&mut self, mut take: impl FnMut(cqueue::Entry)) -> bool {
        if self.alarm.is_some() {
            // SAFETY: it points to nothing. If there is no room, the alarm rings in its time.
            let _ = unsafe { self.push(&quiet(opcode::TimeoutRemove::new(ALARM).build())) };
        }
        // The last closes have no completions to be waited for.
        self.submit();
        let last = self.now() + Nanos::from(LAST_WAIT);
        while self.under_way > 0 && self.now() < last {
            // However it ends, time goes on.
            let _ = self.wait_without_alarm(last);
            while let Some(entry) = self.next() {
                take(entry);
            }
        }
        self.under_way == 0
    }
}

/// A ring for so many completions; or for the fewest, where that is more memory than this user may
/// lock (RLIMIT_MEMLOCK). Beyond its size the kernel sets completions aside, which is dearer. It is
/// not halved until it fits: other workers need some, too.
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
        Err(error) if is_memory(&error) => build(FEWEST_COMPLETIONS),
        built => built,
    }
}

/// Whether there is no memory left that this user may lock.
pub(super) fn is_memory(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOMEM)
}

/// What is needed beyond the ring's set-up, which has asked for Linux 6.1 already.
fn check(ring: &IoUring) -> io::Result<()> {
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
