//! The relay: a thread that forwards Ethernet frames between two TAP devices, and delays, loses,
//! reorders or duplicates them. It works on kernels without `sch_netem`, such as those of most
//! sandboxes.
//!
//! The thread ends with this process, and so do the devices, so nothing is left after `kill -9`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use super::packet_schedule::{DirectionProperties, PacketCounts, PacketSchedule};
use super::priority::prioritize_thread;

/// Maximum length of a frame: the MTU of 1,500 bytes, and a header with two VLAN tags.
const FRAME_BYTES_MAX: usize = 1_522;

/// Maximum number of frames that are read before due frames are sent.
const BATCH_FRAMES: usize = 32;

/// Maximum number of unused buffers that are kept.
const SPARE_BUFFERS_MAX: usize = 1_024;

/// Delay of a frame beyond its due time above which it counts as late.
pub(super) const LATE: Duration = Duration::from_micros(300);

/// A running relay. Dropping it ends the thread and removes the devices.
#[derive(Debug)]
pub(super) struct Relay {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<SharedCounts>,
}

/// Counts that the thread publishes.
#[derive(Debug, Default)]
struct SharedCounts {
    counts: Mutex<RelayCounts>,
    cpu_ns: AtomicU64,
}

/// Frames and times of a relay since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RelayCounts {
    /// Frames by direction.
    pub(super) directions: [PacketCounts; 2],
    /// Frames that were sent later than [`LATE`] after they were due.
    pub(super) late: u64,
    /// Longest time between the due time of a frame and the time at which it was sent.
    pub(super) lateness_max: Duration,
    /// Frames that the receiving device did not accept.
    pub(super) refused: u64,
}

impl Relay {
    /// Starts a relay between two TAP devices. `core` is the core of its thread; `None` means any
    /// core that the calling thread may use.
    ///
    /// # Errors
    /// The thread can't be started, or can't run on the core.
    pub(super) fn start(
        devices: [File; 2],
        properties: [DirectionProperties; 2],
        core: Option<usize>,
        seed: u64,
    ) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let shared = Arc::new(SharedCounts::default());
        let [first, second] = properties;
        let mut forwarder = Forwarder {
            devices,
            schedules: [(first, 0), (second, 1)]
                .map(|(properties, number)| PacketSchedule::new(properties, seed ^ number)),
            spare: Vec::new(),
            totals: RelayCounts::default(),
        };
        let (sender, started) = std::sync::mpsc::channel();
        let (thread_stop, thread_shared) = (stop.clone(), shared.clone());
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || {
                let prepared = prepare_thread(core);
                let is_ready = prepared.is_ok();
                // The receiver waits for this message.
                let _ = sender.send(prepared);
                if is_ready {
                    forwarder.run(&thread_stop, &thread_shared);
                }
            })?;
        let relay = Self {
            stop,
            thread: Some(thread),
            shared,
        };
        match started.recv() {
            Ok(prepared) => prepared.map(|()| relay),
            Err(_) => Err(io::Error::from(io::ErrorKind::BrokenPipe)),
        }
    }

    /// Returns the counts since the start, which the thread publishes at most every 100 ms.
    pub(super) fn counts(&self) -> RelayCounts {
        *self
            .shared
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the CPU time of the relay's thread.
    pub(super) fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.shared.cpu_ns.load(Ordering::Relaxed))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The counter can't be full, so the write succeeds.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Binds the thread to its core, and lets it run before the load and the services.
fn prepare_thread(core: Option<usize>) -> io::Result<()> {
    if let Some(core) = core {
        let mut cores = CpuSet::new();
        if core >= CpuSet::MAX_CPU {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        cores.set(core);
        sched_setaffinity(None, &cores)?;
    }
    prioritize_thread();
    Ok(())
}

/// State of the relay's thread.
struct Forwarder {
    devices: [File; 2],
    /// Frames from the first device to the second, and in the other direction.
    schedules: [PacketSchedule<Vec<u8>>; 2],
    /// Buffers that can be used again.
    spare: Vec<Vec<u8>>,
    totals: RelayCounts,
}

impl Forwarder {
    /// Forwards frames until `stop` is signaled.
    fn run(&mut self, stop: &OwnedFd, shared: &SharedCounts) {
        const PUBLISH_INTERVAL_NS: u64 = 100_000_000;
        let mut publish_ns = 0;
        loop {
            let now = now_ns();
            if now >= publish_ns {
                publish_ns = now + PUBLISH_INTERVAL_NS;
                self.publish(shared);
            }
            let ready = self.wait(stop, now);
            if ready[2] {
                self.publish(shared);
                return;
            }
            for direction in [0, 1] {
                if ready[direction] {
                    self.receive(direction);
                }
            }
            for direction in [0, 1] {
                self.deliver(direction);
            }
        }
    }

    /// Waits until a device or `stop` is readable, or until a frame is due.
    fn wait(&self, stop: &OwnedFd, now_ns: u64) -> [bool; 3] {
        // The counts are published even if nothing happens.
        const WAIT_NS_MAX: u64 = 100_000_000;
        let next = self
            .schedules
            .iter()
            .filter_map(PacketSchedule::next_arrival_ns)
            .min();
        let wait = next.map_or(WAIT_NS_MAX, |due| {
            due.saturating_sub(now_ns).min(WAIT_NS_MAX)
        });
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: wait.cast_signed(),
        };
        let mut fds = [
            self.devices[0].as_fd(),
            self.devices[1].as_fd(),
            stop.as_fd(),
        ]
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => fds.map(|fd| fd.revents().contains(PollFlags::IN)),
            // A signal interrupted the wait.
            Err(_) => [false; 3],
        }
    }

    /// Reads frames of one direction.
    fn receive(&mut self, direction: usize) {
        for _ in 0..BATCH_FRAMES {
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.resize(FRAME_BYTES_MAX, 0);
            match (&self.devices[direction]).read(&mut buffer) {
                Ok(length) => {
                    buffer.truncate(length);
                    self.schedules[direction].send(buffer, now_ns());
                }
                Err(_) => {
                    self.keep(buffer);
                    return;
                }
            }
        }
    }

    /// Sends the frames of one direction that are due.
    fn deliver(&mut self, direction: usize) {
        loop {
            let now = now_ns();
            let Some((due, frame)) = self.schedules[direction].arrived(now) else {
                return;
            };
            let lateness = Duration::from_nanos(now - due);
            self.totals.late += u64::from(lateness > LATE);
            self.totals.lateness_max = self.totals.lateness_max.max(lateness);
            if (&self.devices[1 - direction]).write(&frame).is_err() {
                self.totals.refused += 1;
            }
            self.keep(frame);
        }
    }

    /// Keeps a buffer for another frame.
    fn keep(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS_MAX {
            self.spare.push(buffer);
        }
    }

    fn publish(&mut self, shared: &SharedCounts) {
        for (total, schedule) in self.totals.directions.iter_mut().zip(&self.schedules) {
            *total = schedule.counts();
        }
        *shared.counts.lock().unwrap_or_else(PoisonError::into_inner) = self.totals;
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let ns = Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec as u32).as_nanos();
        shared.cpu_ns.store(ns as u64, Ordering::Relaxed);
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
