//! Reads one sample. What must be remembered from one sample to the next is kept here.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::figures::Remembered;
use super::follow::Followed;
use super::foreign::ForeignTracker;
use crate::host::proc_files::{self, NetTexts};
use crate::host::process::{Process, Table};
use crate::service::Follow;
use crate::telemetry::{
    HostSample, InterfaceCounters, IoCounters, ServiceSample, TcpCounters, TelemetrySample,
};

/// A running service, as the reader needs to know it.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    /// The service's name.
    pub(crate) service: String,
    /// Its keeper's process id; none if somebody else has started it.
    pub(crate) keeper: Option<i32>,
    /// Whether its first process is a keeper, too, as in a process namespace.
    pub(crate) has_init: bool,
    /// What else belongs to it.
    pub(crate) follow: Follow,
}

impl Watched {
    /// A service of this machine that somebody else has started.
    pub(crate) fn of_other(service: &str, follow: &Follow) -> Self {
        Self {
            service: service.to_owned(),
            keeper: None,
            has_init: false,
            follow: follow.clone(),
        }
    }
}

/// The memory of samples past.
#[derive(Debug)]
pub(crate) struct Reader {
    born: Instant,
    first_foreign_s: Option<f64>,
    foreign: ForeignTracker,
    /// What the kernel's configuration says of interrupts; read once, and only if needed.
    config_softirq: OnceCell<Option<bool>>,
    services: BTreeMap<(String, Option<i32>), Remembered>,
}

/// One network namespace at one moment.
#[derive(Debug, Clone, Default)]
struct Net {
    interfaces: BTreeMap<String, InterfaceCounters>,
    tcp: TcpCounters,
}

/// The network namespaces that were read for one sample; many services share one.
struct Nets {
    own_link: Option<OsString>,
    own: Net,
    others: HashMap<OsString, Net>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            born: Instant::now(),
            first_foreign_s: None,
            foreign: ForeignTracker::default(),
            config_softirq: OnceCell::new(),
            services: BTreeMap::new(),
        }
    }

    /// Reads everything now.
    pub(crate) fn sample(&mut self, table: &Table, watched: &[Watched]) -> TelemetrySample {
        let began = Instant::now();
        self.services.retain(|(name, keeper), _| {
            watched
                .iter()
                .any(|w| w.service == *name && w.keeper == *keeper)
        });
        let mut nets = Nets::new();
        let mut services = BTreeMap::new();
        let mut services_cpu_s = 0.0;
        let mut known = vec![std::process::id().cast_signed()];
        for service in watched {
            let followed = Followed::find(&service.follow, table);
            let tree = service
                .keeper
                .map(|keeper| table.descendants(keeper))
                .unwrap_or_default();
            known.extend(service.keeper);
            known.extend(tree.iter().map(|process| process.pid));
            known.extend(followed.pids());
            let sample = self.service_sample(service, table, &tree, &followed, &mut nets);
            services_cpu_s += sample.cpu_s;
            services.insert(service.service.clone(), sample);
        }
        let mut host = host_sample(&nets.own);
        host.foreign = self.foreign.busiest(table, &known);
        let by_config = || *self.config_softirq.get_or_init(softirq_by_config);
        host.softirq_included = host.softirq_included.or_else(by_config);
        // What ended and was waited for by this process are services of earlier trials, mostly.
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
            remote: None,
            hosts: BTreeMap::new(),
            links: BTreeMap::new(),
            cost: began.elapsed(),
        }
    }

    fn service_sample(
        &mut self,
        service: &Watched,
        table: &Table,
        tree: &[&Process],
        followed: &Followed<'_>,
        nets: &mut Nets,
    ) -> ServiceSample {
        let memory = self
            .services
            .entry((service.service.clone(), service.keeper))
            .or_default();
        let keeper = service.keeper.and_then(|keeper| table.get(keeper));
        // A namespace's first process is prony's own, too, and no part of the service.
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
        memory.cpu(counted.into_iter(), followed, &mut sample);
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

/// CPU seconds that processes were charged for. A kernel that accounts for interrupts separately
/// charges nobody for them; they are the network's work for everybody and no stranger's.
fn charged_s(host: &HostSample) -> f64 {
    let of_processes_s = host.cpu_user_s + host.cpu_system_s;
    match host.softirq_included {
        Some(false) => of_processes_s,
        Some(true) | None => of_processes_s + host.cpu_softirq_s + host.cpu_irq_s,
    }
}

/// Reads the configuration that the running kernel was built with, where the distribution keeps it.
fn softirq_by_config() -> Option<bool> {
    let release = super::read("/proc/sys/kernel/osrelease")?;
    let config = super::read(format!("/boot/config-{release}"))?;
    proc_files::softirq_included_by_config(&config)
}

impl Nets {
    fn new() -> Self {
        Self {
            own_link: link_of("self"),
            own: Net::read("self"),
            others: HashMap::new(),
        }
    }

    /// Fills in the network of the place in which a process lives.
    fn place(&mut self, pid: Option<i32>, sample: &mut ServiceSample) {
        let link = pid.and_then(|pid| link_of(&pid.to_string()));
        // Whose namespace can't be seen, as of another user's process, shares ours as far as we know.
        let apart = link.filter(|link| Some(link) != self.own_link.as_ref());
        let Some(link) = apart else {
            sample.network = proc_files::traffic(&self.own.interfaces, true);
            sample.tcp = self.own.tcp;
            return;
        };
        let net = self.others.entry(link).or_insert_with(|| {
            pid.map(|pid| Net::read(&pid.to_string()))
                .unwrap_or_default()
        });
        sample.network = proc_files::traffic(&net.interfaces, false);
        sample.interfaces = net.interfaces.clone();
        sample.tcp = net.tcp;
    }
}

impl Net {
    fn read(process: &str) -> Self {
        let folder = Path::new("/proc").join(process).join("net");
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let (snmp, netstat, sockstat) = (text("snmp"), text("netstat"), text("sockstat"));
        Self {
            interfaces: proc_files::interfaces(&text("dev")),
            tcp: proc_files::tcp_counters(&NetTexts {
                snmp: &snmp,
                netstat: &netstat,
                sockstat: &sockstat,
            }),
        }
    }
}

/// What names the network namespace of a process.
fn link_of(process: &str) -> Option<OsString> {
    let path = Path::new("/proc").join(process).join("ns/net");
    std::fs::read_link(path).ok().map(PathBuf::into_os_string)
}

/// The folder of a process.
pub(super) fn proc_of(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// Since Linux 6.2 the folder's size is the number of its entries; before, it is 0.
fn open_files(pid: i32) -> u64 {
    let folder = proc_of(pid).join("fd");
    match folder.metadata() {
        Ok(metadata) if metadata.len() > 0 => metadata.len(),
        _ => std::fs::read_dir(folder).map_or(0, |entries| entries.count() as u64),
    }
}

/// Input and output of these processes and of their children that ended. None if any of them can't be
/// read, as another user's; one that has just ended is with its parent.
fn io_counters(processes: &[&Process]) -> Option<IoCounters> {
    let mut sum = IoCounters::default();
    for process in processes {
        let folder = proc_of(process.pid);
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

/// CPU seconds of this process (`RUSAGE_SELF`) or of its children that ended (`RUSAGE_CHILDREN`).
fn usage(who: libc::c_int) -> (f64, f64) {
    // SAFETY: all-zero is a valid `rusage`, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

fn host_sample(net: &Net) -> HostSample {
    let text = |name: &str| super::read(Path::new("/proc").join(name)).unwrap_or_default();
    let (generator_user_s, generator_system_s) = usage(libc::RUSAGE_SELF);
    HostSample {
        generator_user_s,
        generator_system_s,
        memory_used_bytes: proc_files::memory_used_bytes(&text("meminfo")),
        open_files: proc_files::open_files(&text("sys/fs/file-nr")),
        load_average: proc_files::load_average(&text("loadavg")),
        interfaces: net.interfaces.clone(),
        tcp: net.tcp,
        ..proc_files::machine(&text("stat"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_reads_and_writes() {
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let own = proc_files::process(&own).unwrap();
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
        Nets::new().place(Some(std::process::id().cast_signed()), &mut sample);
        assert!(sample.network.shared && sample.interfaces.is_empty());
        let mut nobody = ServiceSample::default();
        Nets::new().place(None, &mut nobody);
        assert!(nobody.network.shared);
    }
}
