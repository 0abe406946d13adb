//! Samples of processes through perf_event_open(2).

use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

use perf_event::data::parse::Parser;
use perf_event::data::{Comm, Exit, Fork, Lost, LostSamples, Mmap2, RecordMetadata, Visitor};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};
use prony_record::sampling::SamplingEvent;
use rustix::time::{ClockId, clock_gettime};

/// Maximum number of functions in a call chain. The kernel discards the outer ones.
pub(super) const CHAIN_LENGTH_MAX: u16 = 64;

/// Size of a sample with the longest call chain in bytes.
const SAMPLE_BYTES_MAX: usize = 64 + 8 * (CHAIN_LENGTH_MAX as usize + 4);

/// Minimum size of the buffer of one core in bytes. Mappings of new processes need space, too.
const BUFFER_BYTES_MIN: usize = 128 << 10;

/// Size of the buffer of one core for context switches in bytes.
const SWITCH_BUFFER_BYTES: usize = 512 << 10;

/// Size of a record's header in bytes.
const HEADER_BYTES: usize = 8;

/// Flag of a COMM record that is caused by `exec`.
const MISC_COMM_EXEC: u16 = 1 << 13;

/// Type of a SWITCH record.
const RECORD_SWITCH: u32 = 14;

/// Flag of a SWITCH record of a thread that leaves its core.
const MISC_SWITCH_OUT: u16 = 1 << 13;

/// Flag of a SWITCH record of a thread that could still run.
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// Size of the top of a thread's stack that is recorded where it leaves its core. It is enough for the
/// C library's functions that wait.
const STACK_BYTES: u32 = 512;

/// The marker at the border of user mode in a call chain.
pub(super) const USER_MARKER: u64 = 0_u64.wrapping_sub(512);

/// Registers with the first and the second argument of a system call.
#[cfg(target_arch = "x86_64")]
const ARGUMENTS_REGISTERS: u64 = 1 << 4 | 1 << 5;
#[cfg(not(target_arch = "x86_64"))]
const ARGUMENTS_REGISTERS: u64 = 1 << 0 | 1 << 1;

/// Request that directs the samples of an event to the buffer of another one.
const PERF_EVENT_IOC_SET_OUTPUT: libc::c_ulong = 0x2405;

/// Reason why processes can't be sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SamplingRefused {
    /// The user may not sample these processes.
    Permission,
    /// The kernel does not permit or support perf events, as in many containers.
    Unsupported,
    /// There are more threads than the limit on open files permits.
    Files(usize),
    /// All processes have ended.
    Ended,
    /// No process that this user may inspect listens on this address or UNIX socket.
    NoListener(String),
    /// Another error of the kernel.
    Other(String),
}

impl fmt::Display for SamplingRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permission => {
                let level =
                    crate::system::linux::read_small_file("/proc/sys/kernel/perf_event_paranoid");
                write!(
                    f,
                    "the kernel doesn't permit sampling these processes \
                     (kernel.perf_event_paranoid is {}; sampling your own processes requires 2 or \
                     less, and those of other users CAP_PERFMON or root)",
                    level.as_deref().unwrap_or("unknown")
                )
            }
            Self::Unsupported => f.write_str(
                "the kernel doesn't offer perf events here (containers need the capability \
                 CAP_PERFMON, and a seccomp profile that permits perf_event_open)",
            ),
            Self::Files(files) => write!(
                f,
                "sampling all threads requires {files} open files, more than the limit permits \
                 (raise it with ulimit -n)"
            ),
            Self::Ended => f.write_str("the processes have ended"),
            Self::NoListener(address) => write!(
                f,
                "no process that this user may inspect listens on {address} (run prony as the \
                 server's user, or as root)"
            ),
            Self::Other(error) => write!(f, "the kernel refused to sample: {error}"),
        }
    }
}

impl std::error::Error for SamplingRefused {}

impl From<io::Error> for SamplingRefused {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Self::Permission,
            Some(libc::ENOSYS | libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
                Self::Unsupported
            }
            Some(libc::EMFILE | libc::ENFILE) => Self::Files(0),
            Some(libc::ESRCH) => Self::Ended,
            _ => Self::Other(error.to_string()),
        }
    }
}

/// Threads to sample. Threads and processes that they start later are included.
#[derive(Debug, Clone, Copy)]
pub(super) enum SampledThreads<'a> {
    /// The calling thread.
    Caller,
    /// Threads with these IDs.
    Ids(&'a [i32]),
}

/// An event that the kernel reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Observation {
    /// A sample. The call chain begins with the innermost address, and has markers at the borders
    /// of kernel and user mode.
    Sample {
        pid: i32,
        weight: u64,
        chain: Vec<u64>,
    },
    /// A thread is about to leave its core in a system call with these arguments.
    Blocked {
        pid: i32,
        tid: i32,
        chain: Vec<u64>,
        arguments: [u64; 2],
        /// The top of the thread's stack.
        stack: Vec<u8>,
    },
    /// A thread has left its core. It still could run if it was preempted.
    SwitchedOut { tid: i32, preempted: bool },
    /// A thread has returned to a core.
    SwitchedIn { tid: i32 },
    /// A process has mapped a file, or memory, as executable.
    Mapped {
        pid: i32,
        start: u64,
        length: u64,
        offset: u64,
        file: Vec<u8>,
    },
    /// A process has started a process or a thread.
    Forked { pid: i32, parent: i32 },
    /// A process has replaced its program.
    Executed { pid: i32 },
    /// A process has ended.
    Ended { pid: i32 },
    /// The kernel has discarded records.
    Lost(u64),
}

/// The events of one set of threads on all cores.
pub(super) struct PerfEvents {
    /// The event that causes samples; `None` if context switches are recorded.
    pub(super) event: Option<SamplingEvent>,
    /// True if the kernel is sampled, too.
    pub(super) kernel: bool,
    /// One event per core, with the core's buffer.
    buffers: Vec<Sampler>,
    /// Further events, which write to these buffers.
    others: Vec<Counter>,
}

impl fmt::Debug for PerfEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, kernel, .. } = self;
        write!(f, "PerfEvents({event:?}, kernel: {kernel})")
    }
}

impl PerfEvents {
    /// Opens events, which are disabled at first: cycles if the processor counts them, otherwise
    /// CPU time; user and kernel mode if permitted, otherwise user mode.
    ///
    /// # Errors
    /// The kernel refuses all of these events.
    pub(super) fn open(
        threads: SampledThreads<'_>,
        cores: &[usize],
        rate_hz: u32,
    ) -> Result<Self, SamplingRefused> {
        let mut refused = SamplingRefused::Unsupported;
        for event in [SamplingEvent::Cycles, SamplingEvent::CpuClock] {
            for kernel in [true, false] {
                match Self::open_as(Some(event), kernel, threads, cores, rate_hz) {
                    Ok(events) => return Ok(events),
                    Err(error) => refused = error,
                }
                if refused != SamplingRefused::Permission {
                    break;
                }
            }
        }
        Err(refused)
    }

    /// Opens events that record where threads leave their cores, and when they return. They are
    /// disabled at first.
    ///
    /// # Errors
    /// The kernel refuses, for example because it doesn't permit sampling itself.
    pub(super) fn open_switches(
        threads: SampledThreads<'_>,
        cores: &[usize],
    ) -> Result<Self, SamplingRefused> {
        Self::open_as(None, true, threads, cores, super::DEFAULT_RATE_HZ)
    }

    fn open_as(
        event: Option<SamplingEvent>,
        kernel: bool,
        threads: SampledThreads<'_>,
        cores: &[usize],
        rate_hz: u32,
    ) -> Result<Self, SamplingRefused> {
        let mut builder = match event {
            Some(SamplingEvent::Cycles) => Builder::new(Hardware::CPU_CYCLES),
            Some(SamplingEvent::CpuClock) => Builder::new(Software::CPU_CLOCK),
            None => Builder::new(Software::CONTEXT_SWITCHES),
        };
        match event {
            Some(SamplingEvent::Cycles) => builder.sample_frequency(u64::from(rate_hz)),
            Some(SamplingEvent::CpuClock) => {
                builder.sample_period(1_000_000_000 / u64::from(rate_hz))
            }
            None => builder
                .sample_period(1)
                .context_switch(true)
                .sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER)
                .sample_regs_user(ARGUMENTS_REGISTERS)
                .sample_stack_user(STACK_BYTES),
        };
        let fields = SampleFlag::IP
            | SampleFlag::TID
            | SampleFlag::TIME
            | SampleFlag::PERIOD
            | SampleFlag::CALLCHAIN;
        // The other event reports the memory of processes.
        let reports_processes = event.is_some();
        builder
            .sample(fields)
            .sample_max_stack(CHAIN_LENGTH_MAX)
            .sample_id_all(true)
            .clockid(Clock::MONOTONIC)
            .inherit(true)
            .enabled(false)
            .exclude_kernel(!kernel)
            .exclude_callchain_kernel(!kernel)
            .mmap(reports_processes)
            .mmap2(reports_processes)
            .task(reports_processes)
            .comm(reports_processes)
            .comm_exec(reports_processes);
        let bytes = match event {
            Some(_) => (rate_hz as usize * SAMPLE_BYTES_MAX / 2).max(BUFFER_BYTES_MIN),
            None => SWITCH_BUFFER_BYTES,
        };
        let mut events = Self {
            event,
            kernel,
            buffers: Vec::new(),
            others: Vec::new(),
        };
        for &core in cores {
            builder.one_cpu(core);
            match threads {
                SampledThreads::Caller => {
                    events.add(builder.observe_self().build()?, bytes, true)?;
                }
                SampledThreads::Ids(ids) => {
                    let mut first = true;
                    for &id in ids {
                        match builder.observe_pid(id).build() {
                            Ok(counter) => {
                                events.add(counter, bytes, first)?;
                                first = false;
                            }
                            // The thread has ended in the meantime.
                            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                            Err(error) => match SamplingRefused::from(error) {
                                SamplingRefused::Files(_) => {
                                    return Err(SamplingRefused::Files(ids.len() * cores.len()));
                                }
                                refused => return Err(refused),
                            },
                        }
                    }
                }
            }
        }
        if events.buffers.is_empty() {
            return Err(SamplingRefused::Ended);
        }
        Ok(events)
    }

    /// Adds an event. The first one of a core has a buffer, which the others use.
    fn add(&mut self, counter: Counter, bytes: usize, is_first: bool) -> io::Result<()> {
        match self.buffers.last() {
            Some(buffer) if !is_first => {
                // SAFETY: both descriptors are open, and the request takes a descriptor.
                let result = unsafe {
                    libc::ioctl(
                        counter.as_raw_fd(),
                        PERF_EVENT_IOC_SET_OUTPUT as _,
                        buffer.as_counter().as_raw_fd(),
                    )
                };
                if result < 0 {
                    return Err(io::Error::last_os_error());
                }
                self.others.push(counter);
            }
            _ => self.buffers.push(counter.sampled(bytes)?),
        }
        Ok(())
    }

    /// Adds the events of further threads.
    pub(super) fn extend(&mut self, more: Self) {
        self.buffers.extend(more.buffers);
        self.others.extend(more.others);
    }

    /// Starts or stops sampling.
    pub(super) fn enable(&mut self, enabled: bool) -> io::Result<()> {
        let of_buffers = self.buffers.iter_mut().map(Sampler::as_counter_mut);
        for counter in of_buffers.chain(&mut self.others) {
            if enabled {
                counter.enable()?;
            } else {
                counter.disable()?;
            }
        }
        Ok(())
    }

    /// Takes all records from the buffers, each with its time on the monotonic clock. Records
    /// without a time have the time 0.
    pub(super) fn read(&mut self, mut on: impl FnMut(u64, Observation)) {
        for buffer in &mut self.buffers {
            let config = buffer.as_counter().config().clone();
            while let Some(record) = buffer.next_record() {
                let data = record.to_contiguous();
                if record.ty() == RECORD_SWITCH {
                    if let Some((time, observed)) = switched(record.misc(), &data) {
                        on(time, observed);
                    }
                    continue;
                }
                let size = u16::try_from(data.len() + HEADER_BYTES).unwrap_or(u16::MAX);
                let mut bytes = Vec::with_capacity(data.len() + HEADER_BYTES);
                bytes.extend(record.ty().to_ne_bytes());
                bytes.extend(record.misc().to_ne_bytes());
                bytes.extend(size.to_ne_bytes());
                bytes.extend(&*data);
                let mut parser = Parser::new(&*bytes, config.clone());
                if let Ok(Some((time, observed))) = parser.parse_record(RecordReader) {
                    on(time, observed);
                }
            }
        }
    }
}

/// Reads a SWITCH record, which the parser doesn't know. It consists of a process ID, a thread ID and
/// a time.
fn switched(misc: u16, data: &[u8]) -> Option<(u64, Observation)> {
    let (tid, rest) = data.get(4..)?.split_first_chunk::<4>()?;
    let time = u64::from_ne_bytes(*rest.first_chunk::<8>()?);
    let tid = i32::from_ne_bytes(*tid);
    let observed = if misc & MISC_SWITCH_OUT == 0 {
        Observation::SwitchedIn { tid }
    } else {
        let preempted = misc & MISC_SWITCH_OUT_PREEMPT != 0;
        Observation::SwitchedOut { tid, preempted }
    };
    Some((time, observed))
}

/// Converts the kernel's records to observations; `None` for records without interest.
struct RecordReader;

impl<'a> Visitor<'a> for RecordReader {
    type Output = Option<(u64, Observation)>;

    fn visit_unimplemented(self, _: RecordMetadata) -> Self::Output {
        None
    }

    fn visit_sample(self, sample: perf_event::data::Sample<'a>, _: RecordMetadata) -> Self::Output {
        let (pid, chain) = (sample.pid()?.cast_signed(), sample.callchain()?.to_vec());
        let observed = match sample.regs_user() {
            None => Observation::Sample {
                pid,
                weight: sample.period()?,
                chain,
            },
            Some(registers) => {
                // The kernel stores registers in the order of their numbers.
                let mut arguments = [0; 2];
                for (argument, value) in arguments.iter_mut().zip(registers.regs.iter()) {
                    *argument = *value;
                }
                #[cfg(target_arch = "x86_64")]
                arguments.reverse();
                Observation::Blocked {
                    pid,
                    tid: sample.tid()?.cast_signed(),
                    chain,
                    arguments,
                    stack: sample.stack_user().unwrap_or_default().to_vec(),
                }
            }
        };
        Some((sample.time()?, observed))
    }

    fn visit_mmap2(self, mapped: Mmap2<'a>, metadata: RecordMetadata) -> Self::Output {
        let observed = Observation::Mapped {
            pid: mapped.pid.cast_signed(),
            start: mapped.addr,
            length: mapped.len,
            offset: mapped.pgoff,
            file: mapped.filename.to_vec(),
        };
        Some((metadata.sample_id().time()?, observed))
    }

    fn visit_fork(self, forked: Fork, _: RecordMetadata) -> Self::Output {
        let (pid, parent) = (forked.pid.cast_signed(), forked.ppid.cast_signed());
        (pid != parent).then_some((forked.time, Observation::Forked { pid, parent }))
    }

    fn visit_comm(self, named: Comm<'a>, metadata: RecordMetadata) -> Self::Output {
        let pid = named.pid.cast_signed();
        let is_exec = metadata.misc() & MISC_COMM_EXEC != 0;
        is_exec.then_some((metadata.sample_id().time()?, Observation::Executed { pid }))
    }

    fn visit_exit(self, ended: Exit, _: RecordMetadata) -> Self::Output {
        let pid = ended.pid.cast_signed();
        (ended.pid == ended.tid).then_some((ended.time, Observation::Ended { pid }))
    }

    fn visit_lost(self, lost: Lost, _: RecordMetadata) -> Self::Output {
        Some((0, Observation::Lost(lost.lost)))
    }

    fn visit_lost_samples(self, lost: LostSamples, _: RecordMetadata) -> Self::Output {
        Some((0, Observation::Lost(lost.lost)))
    }
}

/// Returns the time on the clock of the records.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec.cast_unsigned() * 1_000_000_000).saturating_add(now.tv_nsec.cast_unsigned())
}
