//! Resource use of services and machines: samples, their differences, and the file telemetry.csv.
//!
//! A [`TelemetrySample`] holds totals since a fixed point in time, so any two samples can be
//! subtracted. [`summary`] computes the figures of a trial from its samples; [`write_csv`] stores the
//! samples.

mod csv;
mod difference;
mod slices;
mod summary;
mod watch;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::topology::LinkTraffic;

pub use csv::{COLUMNS, write_csv};
pub(crate) use slices::SlicedTelemetry;
pub use summary::{ForeignUse, HostSummary, ServiceSummary, TelemetrySummary, summary};
pub use watch::{CounterMode, RemoteMachine, RemoteService, WatchSpec};

/// The definition of a memory figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MemoryKind {
    /// The proportional set size: a page that n processes share counts as 1/n in each.
    #[default]
    Proportional,
    /// The resident set size: shared pages count in every process. Used if the operating system does not
    /// report the proportional set size.
    Resident,
}

/// TCP counters of one network namespace: totals since its creation, except for gauges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Connections dropped because a listener's queue of finished handshakes was full.
    pub listen_overflows: u64,
    /// Connections dropped by listeners for any reason.
    pub listen_drops: u64,
    /// Segments retransmitted.
    pub retransmitted_segments: u64,
    /// Outgoing connects (`ActiveOpens`).
    pub connects: u64,
    /// Segments sent, without retransmissions.
    pub segments_sent: u64,
    /// RST segments sent.
    pub resets_sent: u64,
    /// Established connections that were reset (`EstabResets`).
    pub established_resets: u64,
    /// SYN cookies sent because the SYN queue was full.
    pub syn_cookies_sent: u64,
    /// Established connections (a gauge).
    pub established: u64,
    /// Connections in TIME_WAIT (a gauge).
    pub time_wait: u64,
}

/// UDP counters of one network namespace, IPv4 and IPv6 together: totals since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct UdpCounters {
    /// Datagrams read from sockets.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams dropped because a socket's receive buffer was full (`RcvbufErrors`).
    pub receive_buffer_drops: u64,
    /// Datagrams that were not sent because a socket's send buffer was full (`SndbufErrors`).
    pub send_buffer_drops: u64,
}

/// Traffic of the interfaces of a service's place: totals since the interfaces were created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkBytes {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Other programs use the interface as well, as native services and the load share the loopback.
    /// The figures are then the sum of all, and both directions of a connection count as sent.
    pub shared: bool,
}

/// Traffic of one interface: totals since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InterfaceCounters {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Packets dropped in both directions.
    pub packets_dropped: u64,
}

/// The processor's performance counters: totals since counting began. A counter is `None` if the
/// processor or its hypervisor does not provide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HardwareCounters {
    /// Unhalted core cycles.
    pub cycles: Option<u64>,
    /// Retired instructions.
    pub instructions: Option<u64>,
    /// Last-level cache misses.
    pub cache_misses: Option<u64>,
}

/// Input and output of a service's processes, including ended ones: totals since their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IoCounters {
    /// System calls that read or wrote files and pipes, or sockets by `read` and `write`. The kernel does
    /// not count `recv` and `send`.
    pub calls: u64,
    /// Bytes written to disks.
    pub disk_written_bytes: u64,
}

/// All processes of one service at one time: its process tree, including namespaced and orphaned
/// processes, and the processes that the plan follows in addition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServiceSample {
    /// Agent on whose machine the service runs; `None` for this machine.
    pub host: Option<String>,
    /// CPU seconds since the start from the most precise source, including ended processes.
    pub cpu_s: f64,
    /// User CPU seconds, in the resolution of the kernel's ticks.
    pub cpu_user_s: f64,
    /// Kernel CPU seconds, in ticks as well. User and kernel time may add up to two ticks per process
    /// less than `cpu_s`.
    pub cpu_system_s: f64,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Definition of `memory_bytes`.
    pub memory_kind: MemoryKind,
    /// Context switches of threads that had to wait, since the start. Threads that lived between two
    /// samples are missing.
    pub voluntary_switches: u64,
    /// Context switches of threads that were preempted, in the same way.
    pub involuntary_switches: u64,
    /// Open files.
    pub open_files: u64,
    /// Processes.
    pub processes: u64,
    /// Threads.
    pub threads: u64,
    /// Traffic of the place.
    pub network: NetworkBytes,
    /// Interfaces of the place's network namespace by name; empty if the place uses the machine's
    /// namespace.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    /// TCP counters of its place's network namespace.
    pub tcp: TcpCounters,
    /// UDP counters of the same namespace.
    #[serde(default)]
    pub udp: UdpCounters,
    /// Performance counters of the service.
    pub hardware: Option<HardwareCounters>,
    /// Input and output; `None` if the kernel does not report it.
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
    /// Process id.
    pub pid: i32,
    /// Short name.
    pub name: String,
    /// CPU seconds used since the last sample.
    pub cpu_s: f64,
    /// Core on which its main thread ran last, if the operating system reports it.
    #[serde(default)]
    pub core: Option<usize>,
}

/// CPU seconds of one core, or of all cores together, since boot. The six parts don't overlap.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CoreTimes {
    /// User mode, including niced processes and guests.
    pub user_s: f64,
    /// Kernel mode, on behalf of processes.
    pub system_s: f64,
    /// Soft interrupts.
    pub softirq_s: f64,
    /// Hard interrupts.
    pub irq_s: f64,
    /// Stolen by other guests of the hypervisor.
    pub steal_s: f64,
    /// Idle, including waits for disks.
    pub idle_s: f64,
}

/// A machine at one time. CPU seconds are sums over all cores since boot.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostSample {
    /// Cores online.
    pub cores: usize,
    /// User mode, including niced processes and guests.
    pub cpu_user_s: f64,
    /// Kernel mode, on behalf of processes.
    pub cpu_system_s: f64,
    /// Soft interrupts, mostly network processing. `softirq_included` says whether processes are charged
    /// for them as well.
    pub cpu_softirq_s: f64,
    /// Hard interrupts (on FreeBSD all interrupts).
    pub cpu_irq_s: f64,
    /// Stolen by other guests of the hypervisor.
    pub cpu_steal_s: f64,
    /// Idle, including waits for disks.
    pub cpu_idle_s: f64,
    /// Times of each core by its number; empty if the operating system reports only their sum.
    #[serde(default)]
    pub core_times: BTreeMap<usize, CoreTimes>,
    /// The CPU time of a process contains the interrupts that occurred while it ran, as in kernels
    /// without `CONFIG_IRQ_TIME_ACCOUNTING`; `None` if unknown.
    #[serde(default)]
    pub softirq_included: Option<bool>,
    /// User CPU of this process.
    pub generator_user_s: f64,
    /// Kernel CPU of this process.
    pub generator_system_s: f64,
    /// CPU of processes that are neither services nor this process, since the host's first sample. It may
    /// decrease by a few hundredths of a second because ticks are coarse.
    pub foreign_cpu_s: f64,
    /// The foreign processes that used most CPU since the last sample, busiest first.
    #[serde(default)]
    pub foreign: Vec<ForeignProcess>,
    /// Memory in bytes that is neither free nor immediately available.
    pub memory_used_bytes: u64,
    /// Context switches of all cores since boot.
    pub context_switches: u64,
    /// Open files.
    pub open_files: u64,
    /// Load average over one minute.
    pub load_average: f64,
    /// Interfaces of the machine's own network namespace by name.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    /// TCP counters of the machine's own network namespace.
    pub tcp: TcpCounters,
    /// UDP counters of the same namespace.
    #[serde(default)]
    pub udp: UdpCounters,
    /// Performance counters of all cores.
    pub hardware: Option<HardwareCounters>,
}

/// All telemetry read at one time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TelemetrySample {
    /// Time in seconds since the host was created, of a monotonic clock.
    pub t_s: f64,
    /// Running services by name.
    pub services: BTreeMap<String, ServiceSample>,
    /// This machine.
    pub host: HostSample,
    /// The machine that is read over ssh, if it responded; its services are among `services`.
    pub remote: Option<HostSample>,
    /// Machines of agents on which services of the plan run, by agent name.
    #[serde(default)]
    pub hosts: BTreeMap<String, HostSample>,
    /// Traffic of each link between named places since the trial began.
    pub links: BTreeMap<String, LinkTraffic>,
    /// Time that reading took.
    pub cost: Duration,
}
