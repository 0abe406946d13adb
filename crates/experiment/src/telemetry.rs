//! What services and machines use: samples, their difference, and the file telemetry.csv.
//!
//! A [`Sample`] holds totals since some beginning, so that any two of them can be subtracted and no
//! sample in between is needed. [`summary`] makes the figures of a trial out of the samples taken
//! in it; [`write_csv`] stores them as they are.

mod csv;
mod sampling;
mod summary;

use std::collections::BTreeMap;
use std::time::Duration;

pub use csv::{COLUMNS, write_csv};
pub use sampling::collect;
pub use summary::{HostSummary, ServiceSummary, Summary, summary};

/// What memory figures count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryKind {
    /// The proportional set size: a page that n processes share counts as 1/n in each.
    #[default]
    Proportional,
    /// The resident set size: shared pages count in every process. Used where the system does not
    /// tell the other.
    Resident,
}

/// TCP counters of one network namespace; totals since it began, except where noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpCounters {
    /// Connections dropped because a listener's queue of finished handshakes was full.
    pub listen_overflows: u64,
    /// Connections dropped by listeners for any reason.
    pub listen_drops: u64,
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// Segments sent with RST.
    pub resets_sent: u64,
    /// Connections open now (a gauge).
    pub established: u64,
    /// Connections in TIME_WAIT now (a gauge).
    pub time_wait: u64,
}

/// Bytes through the interface of a service's place; totals since the interface began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkBytes {
    /// What the place sent.
    pub sent: u64,
    /// What it received.
    pub received: u64,
    /// Whether others use the interface too, as all native services and the load share the
    /// loopback; the figures are then those of all of them, and both directions of a connection
    /// count as sent.
    pub shared: bool,
}

/// One service's whole process tree at one moment, namespaced and orphaned processes included.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServiceSample {
    /// CPU seconds in user mode since the start, those of processes that have ended included.
    pub cpu_user_s: f64,
    /// CPU seconds in the kernel since the start, in the same way.
    pub cpu_system_s: f64,
    /// Memory now, in bytes.
    pub memory_bytes: u64,
    /// What `memory_bytes` counts.
    pub memory_kind: MemoryKind,
    /// Context switches of all threads since the start, as far as samples saw them.
    pub context_switches: u64,
    /// Open files now.
    pub open_files: u64,
    /// Processes now.
    pub processes: u64,
    /// Threads now.
    pub threads: u64,
    /// Traffic of its place.
    pub network: NetworkBytes,
    /// TCP counters of its place's network namespace.
    pub tcp: TcpCounters,
}

/// A process that is neither prony nor one of its services.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignProcess {
    /// Its id.
    pub pid: i32,
    /// Its short name.
    pub name: String,
    /// CPU seconds that it used since the last sample.
    pub cpu_s: f64,
}

/// The machine at one moment; CPU seconds are summed over all cores and count since the boot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostSample {
    /// Cores online.
    pub cores: usize,
    /// In user mode, niced processes and guests included.
    pub cpu_user_s: f64,
    /// In the kernel, for processes.
    pub cpu_system_s: f64,
    /// In interrupts, soft ones included.
    pub cpu_softirq_s: f64,
    /// Taken by other guests of the hypervisor.
    pub cpu_steal_s: f64,
    /// Idle, waiting for disks included.
    pub cpu_idle_s: f64,
    /// Used by this process, in user mode.
    pub generator_user_s: f64,
    /// Used by this process, in the kernel.
    pub generator_system_s: f64,
    /// Used by processes that are neither services nor this process, since the host's first
    /// sample. Ticks are coarse, so it may fall by a few hundredths.
    pub foreign_cpu_s: f64,
    /// The foreign process that used most CPU since the last sample, if any used some.
    pub top_foreign: Option<ForeignProcess>,
    /// Load average over one minute.
    pub load_average: f64,
    /// TCP counters of the host's own network namespace.
    pub tcp: TcpCounters,
}

/// Everything that was read at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// When, since the host was made, in seconds of a clock that never jumps.
    pub t_s: f64,
    /// Each running service.
    pub services: BTreeMap<String, ServiceSample>,
    /// The machine.
    pub host: HostSample,
    /// How long the reading took.
    pub cost: Duration,
}
