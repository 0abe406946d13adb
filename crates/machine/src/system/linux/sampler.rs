//! Telemetry samples on Linux, and the state that is kept between samples.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use prony_plan::service::FollowSpec;

use super::follow::FollowedProcesses;
use super::proc_dir;
use super::service_history::ServiceHistory;
use crate::system::foreign::ForeignTracker;
use crate::system::proc_files::{self, NetFiles};
use crate::system::process::{Process, ProcessTable};
use crate::telemetry::{
    HostSample, InterfaceCounters, IoCounters, ServiceSample, TcpCounters, TelemetrySample,
    UdpCounters,
};

/// A running service whose resource usage is sampled.
#[derive(Debug, Clone)]
pub(crate) struct SampledService {
    pub(crate) service: String,
    /// Process ID of the keeper; `None` if prony did not start the service.
    pub(crate) keeper: Option<i32>,
    /// True if the first process below the keeper is a copy of prony, as in a process namespace.
    pub(crate) has_init: bool,
    /// Folder of the control group that prony created for the service and that counts CPU time.
    pub(crate) group: Option<PathBuf>,
    /// True if the service is the processes that `follow` describes, without those of the keeper's
    /// tree, which manage the container.
    pub(crate) is_container: bool,
    /// Processes of the service outside the keeper's tree.
    pub(crate) follow: FollowSpec,
}

impl SampledService {
    /// Creates an entry for a service on this machine that prony did not start.
    pub(crate) fn external(service: &str, follow: &FollowSpec) -> Self {
        Self {
            service: service.to_owned(),
            keeper: None,
            has_init: false,
            group: None,
            is_container: false,
            follow: follow.clone(),
        }
    }
}

/// Sampler of services and of the machine.
#[derive(Debug)]
pub(crate) struct Sampler {
    born: Instant,
    first_foreign_s: Option<f64>,
    foreign: ForeignTracker,
    /// True if the CPU time of processes includes interrupts according to the kernel's build
    /// configuration, which is read on first use.
    config_softirq: OnceCell<Option<bool>>,
    services: BTreeMap<(String, Option<i32>), ServiceHistory>,
}

/// Network counters of one network namespace.
#[derive(Debug, Clone, Default)]
struct NetnsCounters {
    interfaces: BTreeMap<String, InterfaceCounters>,
    tcp: TcpCounters,
    udp: UdpCounters,
}

/// Cache of the network counters that were read for one sample, because several services may share
/// a namespace.
struct NetnsCache {
    own_link: Option<OsString>,
    own: NetnsCounters,
    others: HashMap<OsString, NetnsCounters>,
}

impl Sampler {
    pub(crate) fn new() -> Self {
        Self {
            born: Instant::now(),
            first_foreign_s: None,
            foreign: ForeignTracker::default(),
            config_softirq: OnceCell::new(),
            services: BTreeMap::new(),
        }
    }

    /// Samples the machine and the `watched` services. `table` lists all processes of the machine.
    pub(crate) fn sample(
        &mut self,
        table: &ProcessTable,
        watched: &[SampledService],
    ) -> TelemetrySample {
        let began = Instant::now();
        self.services.retain(|(name, keeper), _| {
            watched
                .iter()
                .any(|w| w.service == *name && w.keeper == *keeper)
        });
        let mut nets = NetnsCache::new();
        let mut services = BTreeMap::new();
        let mut services_cpu_s = 0.0;
        let mut known = vec![std::process::id().cast_signed()];
        for service in watched {
            let followed =
                FollowedProcesses::find(&service.follow, service.group.as_deref(), table);
            let tree = service
                .keeper
                .map(|keeper| table.descendants(keeper))
                .unwrap_or_default();
            known.extend(service.keeper);
            known.extend(tree.iter().map(|process| process.pid));
            known.extend(followed.pids());
            let tree = if service.is_container {
                Vec::new()
            } else {
                tree
            };
            let sample = self.service_sample(service, table, &tree, &followed, &mut nets);
            services_cpu_s += sample.cpu_s;
            services.insert(service.service.clone(), sample);
        }
        let mut host = host_sample(&nets.own);
        host.foreign = self.foreign.busiest(table, &known);
        let by_config = || *self.config_softirq.get_or_init(softirq_by_config);
        host.softirq_included = host.softirq_included.or_else(by_config);
        // The reaped children of this process are mostly services of earlier trials.
        let (ended_user_s, ended_system_s) = usage(libc::RUSAGE_CHILDREN);
        let ours_s = services_cpu_s
            + ended_user_s
            + ended_system_s
            + host.generator_user_s
            + host.generator_system_s;
        let foreign_s = charged_s(&host) - ours_s;
        host.foreign_cpu_s = foreign_s - *self.first_foreign_s.get_or_insert(foreign_s);
        TelemetrySample {
            t_s: began.duration_since(self.born).as_secs_f64(),
            services,
            host,
            cost: began.elapsed(),
            ..TelemetrySample::default()
        }
    }

    fn service_sample(
        &mut self,
        service: &SampledService,
        table: &ProcessTable,
        tree: &[&Process],
        followed: &FollowedProcesses<'_>,
        nets: &mut NetnsCache,
    ) -> ServiceSample {
        let memory = self
            .services
            .entry((service.service.clone(), service.keeper))
            .or_default();
        let keeper = service.keeper.filter(|_| !service.is_container);
        let keeper = keeper.and_then(|keeper| table.get(keeper));
        // The first process of a process namespace is a copy of prony, which is not part of the
        // service.
        let init = service
            .keeper
            .filter(|_| service.has_init)
            .and_then(|keeper| table.children(keeper).next())
            .map(|init| init.pid);
        let mut members: Vec<&Process> = tree
            .iter()
            .copied()
            .filter(|process| Some(process.pid) != init && !process.zombie)
            .collect();
        let beside = followed
            .processes
            .iter()
            .copied()
            .filter(|process| !process.zombie);
        members.extend(beside.filter(|process| tree.iter().all(|own| own.pid != process.pid)));
        let mut sample = ServiceSample::default();
        memory.read_threads(&members);
        let counted = keeper
            .into_iter()
            .chain(tree.iter().copied())
            .chain(followed.outside(tree));
        let counted: Vec<&Process> = counted.collect();
        sample.io = io_counters(&counted);
        // The service's own group has the CPU time of the service from its start to its end. Adding
        // that of its processes would count processes again that end, or join the group, meanwhile.
        let of_processes = if followed.counts_tree {
            followed.outside(tree).collect()
        } else {
            counted
        };
        memory.cpu(of_processes.into_iter(), followed, &mut sample);
        sample.throttling = memory.throttling(&members);
        sample.memory_events = memory.memory_events(&members);
        (sample.voluntary_switches, sample.involuntary_switches) = memory.switches();
        sample.processes = members.len() as u64;
        sample.threads = members.iter().map(|process| process.threads).sum();
        sample.open_files = members.iter().map(|process| open_files(process.pid)).sum();
        (sample.memory_bytes, sample.memory_kind) = memory.memory_bytes(&members);
        let somebody = members
            .first()
            .map(|process| process.pid)
            .or(service.keeper);
        nets.place(somebody, &mut sample);
        sample
    }
}

/// Returns the CPU seconds that the kernel has charged to processes. With separate interrupt
/// accounting, the kernel charges interrupts to no process.
fn charged_s(host: &HostSample) -> f64 {
    let of_processes_s = host.cpu_user_s + host.cpu_system_s;
    match host.softirq_included {
        Some(false) => of_processes_s,
        Some(true) | None => of_processes_s + host.cpu_softirq_s + host.cpu_irq_s,
    }
}

/// Reads from the kernel's build configuration if the CPU time of processes includes interrupts;
/// `None` if the distribution doesn't provide the configuration.
fn softirq_by_config() -> Option<bool> {
    let release = super::read_small_file("/proc/sys/kernel/osrelease")?;
    let config = super::read_small_file(format!("/boot/config-{release}"))?;
    proc_files::softirq_included_by_config(&config)
}

impl NetnsCache {
    fn new() -> Self {
        Self {
            own_link: netns_link("self"),
            own: NetnsCounters::read("self"),
            others: HashMap::new(),
        }
    }

    /// Adds the network counters of a process's namespace to a sample.
    fn place(&mut self, pid: Option<i32>, sample: &mut ServiceSample) {
        let link = pid.and_then(|pid| netns_link(&pid.to_string()));
        // If the namespace isn't visible because the process belongs to another user, assume that
        // it is the namespace of this process.
        let apart = link.filter(|link| Some(link) != self.own_link.as_ref());
        let Some(link) = apart else {
            sample.network = proc_files::traffic(&self.own.interfaces, true);
            sample.tcp = self.own.tcp;
            sample.udp = self.own.udp;
            return;
        };
        let net = self.others.entry(link).or_insert_with(|| {
            pid.map(|pid| NetnsCounters::read(&pid.to_string()))
                .unwrap_or_default()
        });
        sample.network = proc_files::traffic(&net.interfaces, false);
        sample.interfaces = net.interfaces.clone();
        sample.tcp = net.tcp;
        sample.udp = net.udp;
    }
}

impl NetnsCounters {
    fn read(process: &str) -> Self {
        let folder = Path::new("/proc").join(process).join("net");
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let (snmp, snmp6) = (text("snmp"), text("snmp6"));
        let (netstat, sockstat) = (text("netstat"), text("sockstat"));
        let texts = NetFiles {
            snmp: &snmp,
            snmp6: &snmp6,
            netstat: &netstat,
            sockstat: &sockstat,
        };
        Self {
            interfaces: proc_files::interfaces(&text("dev")),
            tcp: proc_files::tcp_counters(&texts),
            udp: proc_files::udp_counters(&texts),
        }
    }
}

/// Returns the link that identifies the network namespace of a process.
fn netns_link(process: &str) -> Option<OsString> {
    let path = Path::new("/proc").join(process).join("ns/net");
    std::fs::read_link(path).ok().map(PathBuf::into_os_string)
}

/// Counts the open files of a process. Since Linux 6.2, the size of the folder `fd` is the number
/// of its entries. Before, the size was 0.
fn open_files(pid: i32) -> u64 {
    let folder = proc_dir(pid).join("fd");
    match folder.metadata() {
        Ok(metadata) if metadata.len() > 0 => metadata.len(),
        _ => std::fs::read_dir(folder).map_or(0, |entries| entries.count() as u64),
    }
}

/// Adds up the I/O of the given processes and their reaped children. Returns `None` if a process
/// can't be read, for example because it belongs to another user. A process that has just ended is
/// skipped, because its I/O is included in that of its parent.
fn io_counters(processes: &[&Process]) -> Option<IoCounters> {
    let mut sum = IoCounters::default();
    for process in processes {
        let folder = proc_dir(process.pid);
        let text = match std::fs::read_to_string(folder.join("io")) {
            Ok(text) => text,
            Err(_) if !folder.exists() => continue,
            Err(_) => return None,
        };
        let io = proc_files::io_counters(&text)?;
        sum.calls += io.calls;
        sum.disk_written_bytes += io.disk_written_bytes;
    }
    Some(sum)
}

/// Returns the user and kernel CPU seconds of this process (`RUSAGE_SELF`) or of its reaped
/// children (`RUSAGE_CHILDREN`).
fn usage(who: libc::c_int) -> (f64, f64) {
    // SAFETY: all zeroes is a valid `rusage`, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

fn host_sample(net: &NetnsCounters) -> HostSample {
    let text =
        |name: &str| super::read_small_file(Path::new("/proc").join(name)).unwrap_or_default();
    let (generator_user_s, generator_system_s) = usage(libc::RUSAGE_SELF);
    HostSample {
        generator_user_s,
        generator_system_s,
        memory_used_bytes: proc_files::memory_used_bytes(&text("meminfo")),
        open_files: proc_files::open_files(&text("sys/fs/file-nr")),
        load_average: proc_files::load_average(&text("loadavg")),
        interfaces: net.interfaces.clone(),
        tcp: net.tcp,
        udp: net.udp,
        ..proc_files::machine(&text("stat"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_reads_and_writes() {
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let own = proc_files::process(&own, 4096).unwrap();
        let before = io_counters(&[&own]).unwrap();
        std::fs::read("/proc/self/stat").unwrap();
        assert!(io_counters(&[&own]).unwrap().calls > before.calls);
        let gone = Process {
            pid: i32::MAX,
            ..Process::default()
        };
        assert_eq!(io_counters(&[&gone]), Some(IoCounters::default()));
    }

    #[test]
    fn this_process_has_files() {
        assert!(open_files(std::process::id().cast_signed()) >= 3);
    }

    #[test]
    fn this_process_shares_the_hosts_network() {
        let mut sample = ServiceSample::default();
        NetnsCache::new().place(Some(std::process::id().cast_signed()), &mut sample);
        assert!(sample.network.shared && sample.interfaces.is_empty());
        let mut nobody = ServiceSample::default();
        NetnsCache::new().place(None, &mut nobody);
        assert!(nobody.network.shared);
    }
}
