//! Reads the log of a load on a thread of its own, and passes its requests to the workers.
//!
//! ```text
//! log ─► reader thread ─► a queue for each worker ─► ReplayFeed of the worker
//! ```
//!
//! The reader is ahead of the load by [`HORIZON`], or by [`QUEUED_BYTES_MAX`] in a load without a
//! schedule. A worker therefore never waits for the file, and memory is bounded. All requests of a
//! client go to the same worker, unless its queue is full.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use prony_record::{Nanos, RateProfile};

use crate::engine::progress::Control;
use crate::replay::{DueRequest, Replay, ReplayLog};
use crate::request::long_list::LineTexts;
use crate::settings::ReplayTiming;
use crate::spec::{LoadSpec, LoopModel};
use crate::values::pacing::{ArrivalSchedule, ScheduleEnd};
use crate::values::shard::Shard;

/// Time by which requests are read before they are due.
const HORIZON: Duration = Duration::from_millis(250);
/// Time for which the reader sleeps while it is far enough ahead.
const READ_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum number of bytes in a worker's queue.
const QUEUED_BYTES_MAX: usize = 4 << 20;
/// Number of requests that are passed on together.
const BATCH_REQUESTS: usize = 128;

/// Requests that are passed on together, in the order in which they are due.
#[derive(Debug, Default)]
struct Batch {
    requests: Vec<QueuedRequest>,
    /// The paths and bodies of all requests, concatenated.
    texts: Vec<u8>,
}

/// A request of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuedRequest {
    pub(crate) due: Nanos,
    /// Hash of the client's address.
    pub(crate) client: u64,
    /// Index of the request's form in the load's list.
    pub(crate) form: u32,
    /// Ends of the path and of the body in the batch's texts.
    path_end: u32,
    body_end: u32,
}

impl Batch {
    fn push(&mut self, request: DueRequest<'_>) {
        self.texts.extend_from_slice(request.path);
        let path_end = self.texts.len() as u32;
        self.texts.extend_from_slice(request.body);
        self.requests.push(QueuedRequest {
            due: request.due,
            client: request.client,
            form: request.form,
            path_end,
            body_end: self.texts.len() as u32,
        });
    }

    fn bytes(&self) -> usize {
        self.texts.len() + self.requests.len() * size_of::<QueuedRequest>()
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.texts.clear();
    }
}

/// The queue of one worker.
#[derive(Debug, Default)]
struct Queue {
    full: VecDeque<Batch>,
    /// Batches whose memory is reused.
    spare: Vec<Batch>,
    bytes: usize,
}

/// The queues of all workers of this process.
#[derive(Debug)]
pub(crate) struct ReplayQueues {
    queues: Vec<Mutex<Queue>>,
    /// True if the log has been read to its end.
    is_complete: AtomicBool,
    /// True if the workers have ended.
    have_workers_ended: AtomicBool,
}

impl ReplayQueues {
    pub(crate) fn new(workers: u32) -> ReplayQueues {
        ReplayQueues {
            queues: (0..workers).map(|_| Mutex::default()).collect(),
            is_complete: AtomicBool::new(false),
            have_workers_ended: AtomicBool::new(false),
        }
    }

    fn queue(&self, worker: usize) -> MutexGuard<'_, Queue> {
        self.queues[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the reader when dropped.
    pub(crate) fn end_on_drop(&self) -> EndReader<'_> {
        EndReader(self)
    }

    /// Creates the feed of a worker of this process.
    pub(crate) fn feed(&self, worker: usize, timing: ReplayTiming) -> ReplayFeed<'_> {
        ReplayFeed {
            queues: self,
            worker,
            is_scheduled: timing != ReplayTiming::AsFastAsPossible,
            batch: Batch::default(),
            next: 0,
            is_exhausted: false,
        }
    }
}

/// Ends the reader when dropped.
pub(crate) struct EndReader<'a>(&'a ReplayQueues);

impl Drop for EndReader<'_> {
    fn drop(&mut self) {
        self.0.have_workers_ended.store(true, Ordering::Relaxed);
    }
}

/// One worker's requests of the log.
pub(crate) struct ReplayFeed<'run> {
    queues: &'run ReplayQueues,
    worker: usize,
    /// True if requests are due at their times, false if each is due as soon as possible.
    is_scheduled: bool,
    batch: Batch,
    /// Index of the next request in the batch.
    next: usize,
    is_exhausted: bool,
}

impl ReplayFeed<'_> {
    pub(crate) fn is_scheduled(&self) -> bool {
        self.is_scheduled
    }

    /// Returns true if no more requests will come.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Returns the next request, if it has been read.
    pub(crate) fn peek(&self) -> Option<&QueuedRequest> {
        self.batch.requests.get(self.next)
    }

    /// The texts of the next request.
    pub(crate) fn texts(&self) -> LineTexts<'_> {
        let before = self
            .next
            .checked_sub(1)
            .map(|it| self.batch.requests[it].body_end);
        let start = before.unwrap_or(0) as usize;
        match self.peek() {
            Some(next) => LineTexts {
                path: &self.batch.texts[start..next.path_end as usize],
                body: &self.batch.texts[next.path_end as usize..next.body_end as usize],
            },
            None => LineTexts::default(),
        }
    }

    /// Advances past the next request.
    pub(crate) fn advance(&mut self) {
        self.next += 1;
    }

    /// Takes more requests from the queue if there are none.
    #[inline]
    pub(crate) fn refill(&mut self) {
        if self.next == self.batch.requests.len() && !self.is_exhausted {
            self.take_batch();
        }
    }

    fn take_batch(&mut self) {
        // Read first, because batches may be added until the log is complete.
        let is_complete = self.queues.is_complete.load(Ordering::Acquire);
        let mut queue = self.queues.queue(self.worker);
        match queue.full.pop_front() {
            Some(batch) => {
                queue.bytes -= batch.bytes();
                let mut ended = std::mem::replace(&mut self.batch, batch);
                ended.clear();
                queue.spare.push(ended);
                self.next = 0;
            }
            None => self.is_exhausted = is_complete,
        }
    }
}

/// The reader of the log.
pub(crate) struct ReplayReader<'a> {
    pub(crate) replay: &'a Replay,
    pub(crate) queues: &'a ReplayQueues,
    pub(crate) control: &'a Control,
    /// Reports that the queues are filled.
    pub(crate) ready: mpsc::Sender<()>,
    /// Receives the start time of the load.
    pub(crate) gate: mpsc::Receiver<Instant>,
}

impl ReplayReader<'_> {
    /// Reads the log until its end, or until the workers have ended.
    pub(crate) fn run(self, spec: &LoadSpec) -> ReplayLog {
        let mut output = Output {
            batches: self
                .queues
                .queues
                .iter()
                .map(|_| Batch::default())
                .collect(),
            queues: self.queues,
            control: self.control,
            ready: Some(self.ready),
            gate: self.gate,
            begin: None,
            is_scheduled: self.replay.timing() != ReplayTiming::AsFastAsPossible,
        };
        let mut schedule = schedule(spec);
        let log = self.replay.read(&mut |request| match &mut schedule {
            Some(schedule) => match schedule.next() {
                Some(due) => output.send(DueRequest { due, ..request }),
                None => ControlFlow::Break(()),
            },
            None => output.send(request),
        });
        output.flush();
        self.queues.is_complete.store(true, Ordering::Release);
        output.report_ready();
        log
    }
}

/// Returns the schedule of the whole load, if the log doesn't determine the times.
fn schedule(spec: &LoadSpec) -> Option<ArrivalSchedule> {
    let LoopModel::Open { rate, arrivals } = &spec.model else {
        return None;
    };
    let all = Shard { worker: 0, of: 1 };
    let end = ScheduleEnd {
        requests: u64::MAX,
        counted_from: spec.span.warmup,
        at: spec.planned().unwrap_or(Nanos::MAX),
    };
    let rate: &RateProfile = rate;
    Some(ArrivalSchedule::new(*arrivals, rate, spec.seed, all, end))
}

/// The reader's side of the queues.
struct Output<'a> {
    /// The batches that are being filled, by worker.
    batches: Vec<Batch>,
    queues: &'a ReplayQueues,
    control: &'a Control,
    /// Taken when the queues are filled for the first time.
    ready: Option<mpsc::Sender<()>>,
    gate: mpsc::Receiver<Instant>,
    /// Start of the load.
    begin: Option<Instant>,
    is_scheduled: bool,
}

impl Output<'_> {
    /// Passes a request to its worker, as soon as it may be read.
    fn send(&mut self, request: DueRequest<'_>) -> ControlFlow<()> {
        while self.is_scheduled && self.is_too_early(request.due) {
            self.flush();
            self.pause()?;
        }
        let own = (request.client % self.batches.len() as u64) as usize;
        let worker = loop {
            if self.queues.queue(own).bytes < QUEUED_BYTES_MAX {
                break own;
            }
            let bytes = |worker: &usize| self.queues.queue(*worker).bytes;
            let other = (0..self.batches.len()).min_by_key(bytes).unwrap_or(own);
            if bytes(&other) < QUEUED_BYTES_MAX {
                break other;
            }
            self.pause()?;
        };
        self.batches[worker].push(request);
        if self.batches[worker].requests.len() >= BATCH_REQUESTS {
            self.flush_worker(worker);
        }
        ControlFlow::Continue(())
    }

    /// Returns true if a request is due later than the horizon.
    fn is_too_early(&self, due: Nanos) -> bool {
        let now = self.begin.map_or(Duration::ZERO, |it| it.elapsed());
        Duration::from(due) > now + HORIZON
    }

    /// Sleeps for a short time. Breaks if the load has ended.
    fn pause(&mut self) -> ControlFlow<()> {
        if self.begin.is_none() {
            // The queues are as full as they may be, so the load can begin.
            self.report_ready();
            let Ok(begin) = self.gate.recv() else {
                return ControlFlow::Break(());
            };
            self.begin = Some(begin);
            return ControlFlow::Continue(());
        }
        if self.queues.have_workers_ended.load(Ordering::Relaxed) || self.control.is_stopped() {
            return ControlFlow::Break(());
        }
        // Without a schedule, the workers take requests as fast as they can.
        let interval = if self.is_scheduled {
            READ_INTERVAL
        } else {
            READ_INTERVAL / 10
        };
        std::thread::sleep(interval);
        ControlFlow::Continue(())
    }

    fn report_ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            // Without a receiver, the load has been canceled.
            let _ = ready.send(());
        }
    }

    fn flush(&mut self) {
        (0..self.batches.len()).for_each(|worker| self.flush_worker(worker));
    }

    fn flush_worker(&mut self, worker: usize) {
        if self.batches[worker].requests.is_empty() {
            return;
        }
        let mut queue = self.queues.queue(worker);
        let spare = queue.spare.pop().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batches[worker], spare);
        queue.bytes += batch.bytes();
        queue.full.push_back(batch);
    }
}
