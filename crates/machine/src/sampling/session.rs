//! A session that samples the processes of one service.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use prony_record::sampling::{SamplingNote, SamplingProfile};

use super::collector::{Collector, RawProfile};
use super::events::{Observation, PerfEvents, SampledThreads, SamplingRefused, now_ns};
use super::listener::{Listener, processes_listening};
use super::symbolizer;
use super::wait_periods::{WaitPeriods, learn};
use crate::system;

/// Interval at which the buffers are read.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Samples of one service's processes, including those that start later.
pub struct SamplingSession {
    rate_hz: u32,
    /// Events, until they are moved to the thread that reads them.
    events: Option<PerfEvents>,
    /// Processes that run when the session begins, as far as they are known.
    pids: Vec<i32>,
    /// Recorder of context switches, or the reason why there is none. The same applies.
    waits: Result<Option<WaitPeriods>, SamplingRefused>,
    /// Thread that reads the buffers; `None` until the session begins.
    reader: Option<SampleReader>,
    periods: Arc<Mutex<CountedPeriods>>,
}

/// The thread that reads the buffers.
struct SampleReader {
    thread: JoinHandle<(PerfEvents, Collector)>,
    /// The thread ends when this is dropped.
    stop: Sender<()>,
}

impl fmt::Debug for SamplingSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SamplingSession({} Hz, {:?})", self.rate_hz, self.events)
    }
}

impl SamplingSession {
    /// Prepares to sample the processes that the calling thread will start. The thread itself must
    /// start nothing else and end soon, because it is included.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn of_descendants(rate_hz: u32) -> Result<Self, SamplingRefused> {
        Self::new(SampledThreads::Caller, rate_hz)
    }

    /// Prepares to sample running processes. Processes and threads that they start from now on are
    /// included.
    ///
    /// # Errors
    /// The kernel refuses, or no process is left.
    pub fn of_processes(pids: &[i32], rate_hz: u32) -> Result<Self, SamplingRefused> {
        let threads: BTreeSet<i32> = pids.iter().flat_map(|pid| threads(*pid)).collect();
        let threads: Vec<i32> = threads.into_iter().collect();
        let mut session = Self::new(SampledThreads::Ids(&threads), rate_hz)?;
        session.expect(pids);
        Ok(session)
    }

    /// Names processes of the service that run already. Their threads may wait from the beginning, which
    /// no record would show.
    pub fn expect(&mut self, pids: &[i32]) {
        self.pids.extend(pids);
    }

    /// Prepares to sample a server that listens on this machine.
    ///
    /// # Errors
    /// The kernel refuses, or no process that this user may inspect listens there.
    pub fn of_listener(listener: Listener<'_>, rate_hz: u32) -> Result<Self, SamplingRefused> {
        match processes_listening(listener) {
            pids if pids.is_empty() => Err(SamplingRefused::NoListener(listener.to_string())),
            pids => Self::of_processes(&pids, rate_hz),
        }
    }

    fn new(threads: SampledThreads<'_>, rate_hz: u32) -> Result<Self, SamplingRefused> {
        let rate_hz = rate_hz.clamp(1, super::RATE_HZ_MAX);
        let cores = system::linux::online_cores();
        let events = PerfEvents::open(threads, &cores, rate_hz)?;
        let waits = if events.kernel {
            PerfEvents::open_switches(threads, &cores).map(|it| Some(WaitPeriods::new(it)))
        } else {
            Ok(None)
        };
        Ok(Self {
            rate_hz,
            events: Some(events),
            pids: Vec::new(),
            waits,
            reader: None,
            periods: Arc::default(),
        })
    }

    /// Includes further processes, which the processes so far did not start.
    ///
    /// # Errors
    /// The kernel refuses, or no process is left.
    pub fn include(&mut self, pids: &[i32]) -> Result<(), SamplingRefused> {
        let mut more = Self::of_processes(pids, self.rate_hz)?;
        self.expect(pids);
        if let (Some(events), Some(more)) = (&mut self.events, more.events.take()) {
            events.extend(more);
        }
        match (&mut self.waits, more.waits) {
            (Ok(Some(waits)), Ok(Some(more))) => waits.extend(more),
            (waits, more) => *waits = more.and(Ok(None)),
        }
        Ok(())
    }

    /// Starts to sample. No sample is counted until [`SamplingSession::count`]. The calling thread's
    /// cores are those of the thread that reads the samples.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn begin(&mut self) -> Result<(), SamplingRefused> {
        let Some(mut events) = self.events.take() else {
            return Ok(());
        };
        let mut collector = Collector::default();
        events.enable(true)?;
        for pid in &self.pids {
            learn(&mut collector, *pid);
        }
        let mut waits = self.waits.as_mut().ok().and_then(Option::take);
        let periods = self.periods.clone();
        let (stop, stopped) = mpsc::channel();
        let read = move || {
            let mut pending = Vec::new();
            while stopped.recv_timeout(READ_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let now_ns = now_ns();
                drain(&mut events, &mut collector, &mut pending, now_ns, &periods);
                let counted_ns = locked(&periods).counted_ns(now_ns);
                if let (Some(waits), Some(counted_ns)) = (&mut waits, counted_ns)
                    && waits.are_due(counted_ns)
                {
                    let counts = |start, end| locked(&periods).contain_all(start, end);
                    waits.record(&mut collector, counted_ns, &stopped, counts);
                }
            }
            let _ = events.enable(false);
            drain(
                &mut events,
                &mut collector,
                &mut pending,
                u64::MAX,
                &periods,
            );
            (events, collector)
        };
        let thread = std::thread::Builder::new()
            .name("samples".to_owned())
            .spawn(read)?;
        self.reader = Some(SampleReader { thread, stop });
        Ok(())
    }

    /// Begins or ends a period whose samples are counted.
    pub fn count(&self, counting: bool) {
        locked(&self.periods).set(now_ns(), counting);
    }

    /// Ends the session, and gives names to the functions. Returns `None` if it has not begun.
    #[must_use]
    pub fn finish(mut self) -> Option<SamplingProfile> {
        self.count(false);
        let SampleReader { thread, stop } = self.reader.take()?;
        drop(stop);
        let (events, collector) = thread.join().ok()?;
        let (event, kernel) = (events.event?, events.kernel);
        // Closing the events of many threads takes time, and nothing needs them any longer.
        drop(events);
        let raw: RawProfile = collector.into_profile();
        let mut profile = symbolizer::profile(&raw, event, self.rate_hz);
        profile.seconds = locked(&self.periods).ended_ns as f64 / 1e9;
        if !kernel {
            profile.notes.insert(0, SamplingNote::UserModeOnly);
        }
        if let Err(refused) = &self.waits {
            profile
                .notes
                .push(SamplingNote::NoWaits(refused.to_string()));
        }
        Some(profile)
    }
}

fn locked(periods: &Mutex<CountedPeriods>) -> std::sync::MutexGuard<'_, CountedPeriods> {
    periods.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the buffers and processes what is older than `until_ns`. Later records stay pending,
/// because the buffer of another core may have one that is older than they are.
fn drain(
    events: &mut PerfEvents,
    collector: &mut Collector,
    pending: &mut Vec<(u64, Observation)>,
    until_ns: u64,
    periods: &Mutex<CountedPeriods>,
) {
    events.read(|time_ns, observed| pending.push((time_ns, observed)));
    pending.sort_by_key(|(time_ns, _)| *time_ns);
    let later = pending.partition_point(|(time_ns, _)| *time_ns < until_ns);
    let mut periods = locked(periods);
    for (time_ns, observed) in pending.drain(..later) {
        let counted = periods.contain(time_ns);
        if let Observation::Sample { pid, .. } = &observed
            && counted
        {
            learn(collector, *pid);
        }
        collector.observe(observed, counted);
    }
    periods.forget_before(until_ns);
}

/// Periods whose samples are counted, in ascending order.
#[derive(Debug, Default)]
struct CountedPeriods {
    /// Beginning and end; the end of the current period is the maximum.
    periods: Vec<(u64, u64)>,
    /// Total duration of the periods that have ended.
    ended_ns: u64,
}

impl CountedPeriods {
    fn set(&mut self, now_ns: u64, counting: bool) {
        match (self.periods.last_mut(), counting) {
            (Some((start, end)), false) if *end == u64::MAX => {
                *end = now_ns;
                self.ended_ns += now_ns.saturating_sub(*start);
            }
            (Some((_, end)), true) if *end == u64::MAX => {}
            (_, true) => self.periods.push((now_ns, u64::MAX)),
            _ => {}
        }
    }

    fn contain(&self, time_ns: u64) -> bool {
        let mut newest_first = self.periods.iter().rev();
        newest_first.any(|(start, end)| (*start..*end).contains(&time_ns))
    }

    /// Returns true if one period contains both times.
    fn contain_all(&self, start_ns: u64, end_ns: u64) -> bool {
        let contains = |(start, end): &(u64, u64)| *start <= start_ns && end_ns < *end;
        self.periods.iter().any(contains)
    }

    /// Returns the total duration of all periods; `None` unless one has begun and not ended.
    fn counted_ns(&self, now_ns: u64) -> Option<u64> {
        let (start, end) = self.periods.last()?;
        (*end == u64::MAX).then(|| self.ended_ns + now_ns.saturating_sub(*start))
    }

    fn forget_before(&mut self, time_ns: u64) {
        self.periods.retain(|(_, end)| *end >= time_ns);
    }
}

/// Returns the IDs of a process's threads; empty if it has ended.
fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_samples_in_a_counted_period_count() {
        let mut periods = CountedPeriods::default();
        periods.set(5, false);
        periods.set(10, true);
        periods.set(12, true);
        assert!(periods.contain(1000) && periods.contain(10) && !periods.contain(9));
        periods.set(20, false);
        periods.set(30, true);
        assert!(periods.contain(19) && !periods.contain(20) && periods.contain(30));
        periods.forget_before(25);
        assert_eq!(
            (periods.periods, periods.ended_ns),
            (vec![(30, u64::MAX)], 10)
        );
    }
}
