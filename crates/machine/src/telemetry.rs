//! Resource usage of services and machines: samples, differences between samples, and the file
//! telemetry.csv.
//!
//! A [`TelemetrySample`] holds totals since a fixed point in time, so any two samples can be
//! subtracted. [`summary`] computes the resource usage of a trial from its samples. [`write_csv`]
//! stores the samples.

mod csv;
pub mod difference;
mod summary;

use std::collections::BTreeMap;
use std::time::Duration;

use prony_record::{MemoryEvents, Throttling};
use serde::{Deserialize, Serialize};

pub use csv::{COLUMNS, write_csv};
pub use summary::{ForeignUse, HostSummary, ServiceSummary, TelemetrySummary, summary};

/// Definition of a memory size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MemoryKind {
    /// Proportional set size: a page that n processes share counts as 1/n in each.
    #[default]
    Proportional,
    /// Resident set size: shared pages count fully in every process. Used if the operating system
    /// doesn't report the proportional set size.
    Resident,
}

/// TCP counters of one network namespace. All counters except gauges are totals since the creation
/// of the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Connections dropped because the accept queue of a listener was full.
    pub listen_overflows: u64,
    /// Connections dropped by listeners for any reason.
    pub listen_drops: u64,
    /// Segments retransmitted.
    pub retransmitted_segments: u64,
    /// Outgoing connection attempts (`ActiveOpens`).
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

/// UDP counters of one network namespace, for IPv4 and IPv6 together: totals since the creation of
/// the namespace.
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

/// Traffic on the network interfaces in a service's place: totals since the interfaces were
/// created.
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
    /// True if other programs also use the interface, such as the loopback interface that native
    /// services share with the load. The counters then include the traffic of all programs, and
    /// both directions of a connection count as sent.
    pub shared: bool,
}

/// Traffic of a link since its creation, counted at its first end. If the link has neither a rate
/// limit nor loss, packets that the kernel forwards as one segment count as one packet with one
/// header. Packets that the link's random loss drops on arrival are included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// Bytes from the first place to the second.
    #[serde(rename = "forth_bytes")]
    pub forward_bytes: u64,
    /// Packets from the first place to the second.
    #[serde(rename = "forth_packets")]
    pub forward_packets: u64,
    /// Bytes from the second place to the first.
    #[serde(rename = "back_bytes")]
    pub reverse_bytes: u64,
    /// Packets from the second place to the first.
    #[serde(rename = "back_packets")]
    pub reverse_packets: u64,
}

impl LinkTraffic {
    /// Returns the traffic since the earlier reading `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            forward_bytes: self.forward_bytes.saturating_sub(before.forward_bytes),
            forward_packets: self.forward_packets.saturating_sub(before.forward_packets),
            reverse_bytes: self.reverse_bytes.saturating_sub(before.reverse_bytes),
            reverse_packets: self.reverse_packets.saturating_sub(before.reverse_packets),
        }
    }
}

/// Traffic of one network interface: totals since the creation of the interface.
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

/// Hardware performance counters: totals since counting began. A counter is `None` if the processor
/// or the hypervisor doesn't provide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HardwareCounters {
    /// Unhalted core cycles.
    pub cycles: Option<u64>,
    /// Retired instructions.
    pub instructions: Option<u64>,
    /// Last-level cache misses.
    pub cache_misses: Option<u64>,
}

/// I/O of a service's processes, including ended ones: totals since the processes started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct IoCounters {
    /// Number of system calls that read or wrote files, pipes and sockets, such as `read` and
    /// `write`. The kernel doesn't count `recv` and `send`.
    pub calls: u64,
    /// Bytes written to disks.
    pub disk_written_bytes: u64,
}

/// Sample of one service: its process tree, including processes in namespaces and orphans, and the
/// processes that the plan follows.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ServiceSample {
    /// Name of the agent whose machine runs the service; `None` for this machine.
    pub host: Option<String>,
    /// CPU seconds since the start of the service, from the most precise source, including ended
    /// processes.
    pub cpu_s: f64,
    /// User CPU seconds, with the resolution of the kernel's clock ticks.
    pub cpu_user_s: f64,
    /// Kernel CPU seconds, with the resolution of the kernel's clock ticks. The sum of user and
    /// kernel time may be lower than `cpu_s` by up to two ticks per process.
    pub cpu_system_s: f64,
    /// Memory of the service in bytes, as defined by `memory_kind`.
    pub memory_bytes: u64,
    /// Definition of `memory_bytes`.
    pub memory_kind: MemoryKind,
    /// Voluntary context switches since the start of the service, without those of threads that
    /// started and ended between two samples.
    pub voluntary_switches: u64,
    /// Involuntary context switches (preemptions) since the start of the service, without those of
    /// threads that started and ended between two samples.
    pub involuntary_switches: u64,
    /// Number of open files of the service.
    pub open_files: u64,
    /// Number of processes of the service.
    pub processes: u64,
    /// Number of threads of the service.
    pub threads: u64,
    /// Traffic on the network of the service's place.
    pub network: NetworkBytes,
    /// Network interfaces in the place's network namespace, by name; empty if the place uses the
    /// machine's network namespace.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    /// TCP counters of the place's network namespace.
    pub tcp: TcpCounters,
    /// UDP counters of the place's network namespace.
    #[serde(default)]
    pub udp: UdpCounters,
    /// Hardware counters of the service; `None` if unavailable.
    pub hardware: Option<HardwareCounters>,
    /// I/O counters of the service; `None` if the kernel doesn't report them.
    #[serde(default)]
    pub io: Option<IoCounters>,
    /// CPU quota of the service's control group, with totals since the first sample; `None` without
    /// a quota.
    #[serde(default)]
    pub throttling: Option<Throttling>,
    /// Memory limit of the service's control group, with totals since the first sample; `None`
    /// without a limit.
    #[serde(default)]
    pub memory_events: Option<MemoryEvents>,
}

impl ServiceSample {
    /// Returns the sum of voluntary and involuntary context switches.
    #[must_use]
    pub fn context_switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }
}

/// A process that belongs neither to prony nor to one of its services.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForeignProcess {
    /// Process ID.
    pub pid: i32,
    /// Process name, as the kernel reports it.
    pub name: String,
    /// CPU seconds that the process used since the last sample.
    pub cpu_s: f64,
    /// Core on which the main thread last ran, if the operating system reports it.
    #[serde(default)]
    pub core: Option<usize>,
}

/// CPU seconds of one core, or of all cores together, since boot. The six parts don't overlap.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CoreTimes {
    /// CPU seconds in user mode, including niced processes and guests.
    pub user_s: f64,
    /// CPU seconds in kernel mode on behalf of processes.
    pub system_s: f64,
    /// CPU seconds in soft interrupts, mostly network processing.
    pub softirq_s: f64,
    /// CPU seconds in hard interrupts.
    pub irq_s: f64,
    /// CPU seconds that the hypervisor gave to other guests.
    pub steal_s: f64,
    /// Idle CPU seconds, including waits for disks.
    pub idle_s: f64,
}

/// Sample of a machine. CPU seconds are sums over all cores since boot.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HostSample {
    /// Number of online cores.
    pub cores: usize,
    /// CPU seconds in user mode, including niced processes and guests.
    pub cpu_user_s: f64,
    /// CPU seconds in kernel mode on behalf of processes.
    pub cpu_system_s: f64,
    /// CPU seconds in soft interrupts, mostly network processing. See `softirq_included`.
    pub cpu_softirq_s: f64,
    /// CPU seconds in hard interrupts; on FreeBSD, in all interrupts.
    pub cpu_irq_s: f64,
    /// CPU seconds that the hypervisor gave to other guests.
    pub cpu_steal_s: f64,
    /// Idle CPU seconds, including waits for disks.
    pub cpu_idle_s: f64,
    /// CPU times of each core, by core number; empty if the operating system reports only sums.
    #[serde(default)]
    pub core_times: BTreeMap<usize, CoreTimes>,
    /// True if the CPU time of a process includes interrupts that occurred while it ran, as in
    /// kernels without `CONFIG_IRQ_TIME_ACCOUNTING`; `None` if unknown.
    #[serde(default)]
    pub softirq_included: Option<bool>,
    /// User CPU seconds of this process.
    pub generator_user_s: f64,
    /// Kernel CPU seconds of this process.
    pub generator_system_s: f64,
    /// CPU seconds of foreign processes since the host's first sample. The value can decrease by a
    /// few hundredths of a second, because clock ticks are coarse.
    pub foreign_cpu_s: f64,
    /// Foreign processes that used the most CPU time since the last sample, busiest first.
    #[serde(default)]
    pub foreign: Vec<ForeignProcess>,
    /// Used memory in bytes: memory that is neither free nor immediately available.
    pub memory_used_bytes: u64,
    /// Context switches of all cores since boot.
    pub context_switches: u64,
    /// Number of open files on the machine.
    pub open_files: u64,
    /// Load average of the machine over one minute.
    pub load_average: f64,
    /// Network interfaces in the machine's own network namespace, by name.
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    /// TCP counters of the machine's own network namespace.
    pub tcp: TcpCounters,
    /// UDP counters of the machine's own network namespace.
    #[serde(default)]
    pub udp: UdpCounters,
    /// Hardware counters of all cores; `None` if unavailable.
    pub hardware: Option<HardwareCounters>,
}

/// All telemetry that was read at one point in time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TelemetrySample {
    /// Seconds since the [`Host`](crate::host::Host) was created, on a monotonic clock.
    pub t_s: f64,
    /// Samples of all running services, by name.
    pub services: BTreeMap<String, ServiceSample>,
    /// Sample of this machine.
    pub host: HostSample,
    /// Sample of the machine that is read over ssh, if the machine responded. Its services are in
    /// `services`.
    pub remote: Option<HostSample>,
    /// Samples of machines whose agents run services of the plan, by agent name.
    #[serde(default)]
    pub hosts: BTreeMap<String, HostSample>,
    /// Traffic of each link between named places since the start of the trial.
    pub links: BTreeMap<String, LinkTraffic>,
    /// Round-trip times of emulated links, in microseconds, measured before the load.
    #[serde(default)]
    pub round_trips_us: BTreeMap<String, f64>,
    /// Time that it took to read the sample.
    pub cost: Duration,
}
