//! What services and machines use: samples, their difference, and the file telemetry.csv.
//!
//! A [`Sample`] holds totals since some beginning, so that any two of them can be subtracted and no
//! sample in between is needed. [`summary`] makes the figures of a trial out of the samples taken
//! in it; [`write_csv`] stores them as they are.

mod csv;
mod sampling;
mod summary;
mod watch;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::place::topology::LinkTraffic;

pub use csv::{COLUMNS, write_csv};
pub(crate) use sampling::keep_off;
pub use sampling::{Latest, collect};
pub use summary::{ForeignUse, HostSummary, ServiceSummary, Summary, summary};
pub use watch::{Counters, Elsewhere, RemoteMachine, Watch};

/// What memory figures count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MemoryKind {
    /// The proportional set size: a page that n processes share counts as 1/n in each.
    #[default]
    Proportional,
    /// The resident set size: shared pages count in every process. Used where the system does not
    /// tell the other.
    Resident,
}

/// TCP counters of one network namespace; totals since it began, except where noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Connections dropped because a listener's queue of finished handshakes was full.
    pub listen_overflows: u64,
    /// Connections dropped by listeners for any reason.
    pub listen_drops: u64,
    /// Segments sent again.
    pub retransmitted_segments: u64,
    /// Connections begun from here (`ActiveOpens`).
    pub connects: u64,
    /// Segments sent, those with data again left out.
    pub segments_sent: u64,
    /// Segments sent with RST.
    pub resets_sent: u64,
    /// Connections that a reset ended while they were established (`EstabResets`).
    pub established_resets: u64,
    /// SYN cookies sent, because the queue of begun handshakes was full.
    pub syn_cookies_sent: u64,
    /// Connections open now (a gauge).
    pub established: u64,
    /// Connections in TIME_WAIT now (a gauge).
    pub time_wait: u64,
}

/// Traffic through the interfaces of a service's place; totals since the interfaces began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkBytes {
    /// Bytes that the place sent.
    pub sent: u64,
    /// Bytes that it received.
    pub received: u64,
    /// Packets that it sent.
    pub packets_sent: u64,
    /// Packets that it received.
    pub packets_received: u64,
    /// Whether others use the interface too, as all native services and the load share the
    /// loopback; the figures are then those of all of them, and both directions of a connection
    /// count as sent.
    pub shared: bool,
}

/// Traffic of one interface; totals since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Interface {
    /// Bytes that it sent.
    pub sent: u64,
    /// Bytes that it received.
    pub received: u64,
    /// Packets that it sent.
    pub packets_sent: u64,
    /// Packets that it received.
    pub packets_received: u64,
    /// Packets that it dropped, both ways.
    pub packets_dropped: u64,
}

/// What the processor's own counters counted; totals since the counting began. `None` is what this
/// processor, or its hypervisor, does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hardware {
    /// Cycles in which a core was not halted.
    pub cycles: Option<u64>,
    /// Instructions completed.
    pub instructions: Option<u64>,
    /// Accesses that missed the last cache.
    pub cache_misses: Option<u64>,
}

/// Input and output of a service's processes, those that ended included; totals since their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IoCounters {
    /// System calls that read or wrote a file, a pipe or, by the calls for files, a socket; receiving
    /// and sending by the calls for sockets is not counted by the kernel.
    pub calls: u64,
    /// Bytes written towards disks.
    pub disk_written_bytes: u64,
}

/// All processes of one service at one moment: its tree, namespaced and orphaned ones included, and
/// what its plan follows beside it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServiceSample {
    /// The agent on whose machine it runs; none where that is this one.
    pub host: Option<String>,
    /// CPU seconds since the start from the finest source there is, those of processes that have
    /// ended included.
    pub cpu_s: f64,
    /// The part of them in user mode, in the kernel's ticks.
    pub cpu_user_s: f64,
    /// The part of them in the kernel, in ticks, too. The two may be up to two ticks a process less
    /// than `cpu_s`.
    pub cpu_system_s: f64,
    /// Memory now, in bytes.
    pub memory_bytes: u64,
    /// What `memory_bytes` counts.
    pub memory_kind: MemoryKind,
    /// Context switches of threads that waited for something, since the start, as far as samples saw
    /// them.
    pub voluntary_switches: u64,
    /// Context switches of threads whose core was taken from them, in the same way.
    pub involuntary_switches: u64,
    /// Open files now.
    pub open_files: u64,
    /// Processes now.
    pub processes: u64,
    /// Threads now.
    pub threads: u64,
    /// Traffic of its place.
    pub network: NetworkBytes,
    /// The interfaces of its network namespace by name; none where that is the machine's.
    pub interfaces: BTreeMap<String, Interface>,
    /// TCP counters of its place's network namespace.
    pub tcp: TcpCounters,
    /// What the processor counted for it.
    pub hardware: Option<Hardware>,
    /// Its input and output; none where the kernel doesn't report it.
    #[serde(default)]
    pub io: Option<IoCounters>,
}

impl ServiceSample {
    /// Context switches of both kinds.
    #[must_use]
    pub fn context_switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }
}

/// A process that is neither prony nor one of its services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeignProcess {
    /// Its id.
    pub pid: i32,
    /// Its short name.
    pub name: String,
    /// CPU seconds that it used since the last sample.
    pub cpu_s: f64,
    /// The core that its main thread ran on last, where the system reports it.
    #[serde(default)]
    pub core: Option<usize>,
}

/// CPU seconds of one core, or of all cores together, since the boot. The six parts don't overlap.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CoreTimes {
    /// In user mode, niced processes and guests included.
    pub user_s: f64,
    /// In the kernel, for processes.
    pub system_s: f64,
    /// In soft interrupts.
    pub softirq_s: f64,
    /// In hard interrupts.
    pub irq_s: f64,
    /// Taken by other guests of the hypervisor.
    pub steal_s: f64,
    /// Idle, waiting for disks included.
    pub idle_s: f64,
}

/// The machine at one moment; CPU seconds are summed over all cores and count since the boot.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostSample {
    /// Cores online.
    pub cores: usize,
    /// In user mode, niced processes and guests included.
    pub cpu_user_s: f64,
    /// In the kernel, for processes.
    pub cpu_system_s: f64,
    /// In soft interrupts, mostly the network's work; `softirq_included` says whether processes are
    /// charged for it, too.
    pub cpu_softirq_s: f64,
    /// In hard interrupts (on FreeBSD all interrupts).
    pub cpu_irq_s: f64,
    /// Taken by other guests of the hypervisor.
    pub cpu_steal_s: f64,
    /// Idle, waiting for disks included.
    pub cpu_idle_s: f64,
    /// Each core by its number; none where the system reports only their sum.
    #[serde(default)]
    pub core_times: BTreeMap<usize, CoreTimes>,
    /// Whether interrupts are part of the CPU time of the processes that they interrupt (a kernel
    /// that counts by ticks, without `CONFIG_IRQ_TIME_ACCOUNTING`); `None` if that is unknown.
    #[serde(default)]
    pub softirq_included: Option<bool>,
    /// Used by this process, in user mode.
    pub generator_user_s: f64,
    /// Used by this process, in the kernel.
    pub generator_system_s: f64,
    /// Used by processes that are neither services nor this process, since the host's first
    /// sample. Ticks are coarse, so it may fall by a few hundredths.
    pub foreign_cpu_s: f64,
    /// The foreign processes that used most CPU since the last sample, the first one most.
    #[serde(default)]
    pub foreign: Vec<ForeignProcess>,
    /// Memory that is neither free nor to be had at once, bytes.
    pub memory_used_bytes: u64,
    /// Context switches of all cores since the boot.
    pub context_switches: u64,
    /// Open files now.
    pub open_files: u64,
    /// Load average over one minute.
    pub load_average: f64,
    /// Interfaces of the host's own network namespace by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// TCP counters of the host's own network namespace.
    pub tcp: TcpCounters,
    /// What the processor counted on all cores.
    pub hardware: Option<Hardware>,
}

/// Everything that was read at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// When, since the host was made, in seconds of a clock that never jumps.
    pub t_s: f64,
    /// Each running service.
    pub services: BTreeMap<String, ServiceSample>,
    /// The machine.
    pub host: HostSample,
    /// The machine elsewhere that the plan reads, where it answered; its services are among the
    /// others.
    pub remote: Option<HostSample>,
    /// The other machines on which services of the plan run, by their agents' names.
    #[serde(default)]
    pub hosts: BTreeMap<String, HostSample>,
    /// What each link between named places has carried since the trial began.
    pub links: BTreeMap<String, LinkTraffic>,
    /// How long the reading took.
    pub cost: Duration,
}
