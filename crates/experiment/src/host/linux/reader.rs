//! Reads one sample. What must be remembered from one sample to the next is kept here.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::{CurrentSI, KernelStats};

use super::counters::tcp_counters;
use crate::host::process::{Process, Table};
use crate::place::Room;
use crate::telemetry::{
    ForeignProcess, HostSample, MemoryKind, NetworkBytes, Sample, ServiceSample,
};

/// Reading memory walks the page tables of a process, which can take milliseconds for a large one;
/// it is read again only when that has cost less than one part in this many of the time since.
const MEMORY_SHARE: u32 = 200;

/// A running service, as the reader needs to know it.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    /// The service's name.
    pub(crate) service: String,
    /// Its keeper's process id.
    pub(crate) keeper: i32,
    /// The host's end of its link, if it lives in a namespace.
    pub(crate) room: Option<String>,
}

impl Watched {
    /// What is to be known of the service's place.
    pub(crate) fn room(room: &Room) -> String {
        room.interface().to_owned()
    }
}

/// The memory of samples past.
#[derive(Debug)]
pub(crate) struct Reader {
    born: Instant,
    first_foreign_s: Option<f64>,
    foreign: HashMap<(i32, u64), f64>,
    services: BTreeMap<(String, i32), Remembered>,
}

/// What is remembered of one service.
#[derive(Debug, Default)]
struct Remembered {
    switches_of_thread: HashMap<i32, u64>,
    switches: u64,
    memory: (u64, MemoryKind),
    next_memory: Option<Instant>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            born: Instant::now(),
            first_foreign_s: None,
            foreign: HashMap::new(),
            services: BTreeMap::new(),
        }
    }

    /// Reads everything now.
    pub(crate) fn sample(&mut self, table: &Table, watched: &[Watched]) -> Sample {
        let began = Instant::now();
        self.services.retain(|(name, keeper), _| {
            watched
                .iter()
                .any(|w| w.service == *name && w.keeper == *keeper)
        });
        let own_tcp = tcp_counters(Path::new("/proc/self"));
        let loopback = interface_bytes("lo");
        let mut services = BTreeMap::new();
        let mut services_cpu_s = 0.0;
        let mut known = vec![std::process::id().cast_signed()];
        for service in watched {
            let tree = table.descendants(service.keeper);
            known.push(service.keeper);
            known.extend(tree.iter().map(|process| process.pid));
            let mut sample = self.service_sample(service, table, &tree);
            match &service.room {
                // Seen from the host, what the place sent was received.
                Some(link) => {
                    let host_side = interface_bytes(link);
                    sample.network = NetworkBytes {
                        sent: host_side.received,
                        received: host_side.sent,
                        shared: false,
                    };
                    sample.tcp = tcp_counters(&proc_of(service.keeper));
                }
                None => {
                    sample.network = NetworkBytes {
                        shared: true,
                        ..loopback
                    };
                    sample.tcp = own_tcp;
                }
            }
            services_cpu_s += sample.cpu_user_s + sample.cpu_system_s;
            services.insert(service.service.clone(), sample);
        }
        let mut host = host_sample();
        host.tcp = own_tcp;
        host.top_foreign = self.top_foreign(table, &known);
        // What ended and was waited for by this process are services of earlier trials, mostly.
        let (ended_user_s, ended_system_s) = usage(libc::RUSAGE_CHILDREN);
        let ours_s = services_cpu_s
            + ended_user_s
            + ended_system_s
            + host.generator_user_s
            + host.generator_system_s;
        let foreign_s = host.cpu_user_s + host.cpu_system_s + host.cpu_softirq_s - ours_s;
        host.foreign_cpu_s = foreign_s - *self.first_foreign_s.get_or_insert(foreign_s);
        Sample {
            t_s: began.duration_since(self.born).as_secs_f64(),
            services,
            host,
            cost: began.elapsed(),
        }
    }

    fn service_sample(
        &mut self,
        service: &Watched,
        table: &Table,
        tree: &[&Process],
    ) -> ServiceSample {
        let memory = self
            .services
            .entry((service.service.clone(), service.keeper))
            .or_default();
        let mut sample = ServiceSample::default();
        for process in table
            .get(service.keeper)
            .into_iter()
            .chain(tree.iter().copied())
        {
            sample.cpu_user_s += process.user_s + process.reaped_user_s;
            sample.cpu_system_s += process.system_s + process.reaped_system_s;
        }
        // A namespace's first process is prony's own, too, and no part of the service.
        let init = service
            .room
            .as_ref()
            .and_then(|_| table.children(service.keeper).next())
            .map(|init| init.pid);
        let members: Vec<&Process> = tree
            .iter()
            .copied()
            .filter(|process| Some(process.pid) != init && !process.zombie)
            .collect();
        sample.processes = members.len() as u64;
        sample.threads = members.iter().map(|process| process.threads).sum();
        sample.open_files = members.iter().map(|process| open_files(process.pid)).sum();
        sample.context_switches = memory.context_switches(&members);
        (sample.memory_bytes, sample.memory_kind) = memory.memory_bytes(&members);
        sample
    }

    /// The foreign process with most CPU since the last sample.
    fn top_foreign(&mut self, table: &Table, known: &[i32]) -> Option<ForeignProcess> {
        let mut before = std::mem::take(&mut self.foreign);
        let mut top: Option<ForeignProcess> = None;
        for process in table.all().filter(|process| !known.contains(&process.pid)) {
            let total =
                process.user_s + process.system_s + process.reaped_user_s + process.reaped_system_s;
            let key = (process.pid, process.start);
            let cpu_s = before.remove(&key).map_or(0.0, |earlier| total - earlier);
            self.foreign.insert(key, total);
            if cpu_s > top.as_ref().map_or(0.0, |top| top.cpu_s) {
                top = Some(ForeignProcess {
                    pid: process.pid,
                    name: process.name.clone(),
                    cpu_s,
                });
            }
        }
        top
    }
}

impl Remembered {
    /// The kernel counts switches by thread and forgets a thread that ends, so they are added up
    /// from sample to sample.
    fn context_switches(&mut self, members: &[&Process]) -> u64 {
        let mut now = HashMap::with_capacity(self.switches_of_thread.len());
        for process in members {
            let Ok(threads) = std::fs::read_dir(proc_of(process.pid).join("task")) else {
                continue;
            };
            for thread in threads.flatten() {
                let Some(id) = thread
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse().ok())
                else {
                    continue;
                };
                let count = std::fs::read_to_string(thread.path().join("status"))
                    .map_or(0, |text| switches_in(&text));
                let earlier = self
                    .switches_of_thread
                    .get(&id)
                    .copied()
                    .filter(|earlier| *earlier <= count);
                self.switches += count - earlier.unwrap_or(0);
                now.insert(id, count);
            }
        }
        self.switches_of_thread = now;
        self.switches
    }

    fn memory_bytes(&mut self, members: &[&Process]) -> (u64, MemoryKind) {
        let began = Instant::now();
        if self.next_memory.is_some_and(|next| began < next) {
            return self.memory;
        }
        let proportional: Option<u64> = members
            .iter()
            .map(|process| proportional_bytes(process.pid))
            .sum();
        self.memory = match proportional {
            Some(bytes) => (bytes, MemoryKind::Proportional),
            None => (
                members.iter().map(|process| process.resident_bytes).sum(),
                MemoryKind::Resident,
            ),
        };
        let cost: Duration = began.elapsed();
        self.next_memory = Some(began + cost * MEMORY_SHARE);
        self.memory
    }
}

fn proc_of(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// The proportional set size. A process that has just ended has none; `None` means that this kernel
/// or this user can't read it.
fn proportional_bytes(pid: i32) -> Option<u64> {
    let path = proc_of(pid);
    match std::fs::read_to_string(path.join("smaps_rollup")) {
        Ok(text) => {
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            let kibibytes: u64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
            Some(kibibytes * 1024)
        }
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) || !path.exists() => Some(0),
        Err(_) => None,
    }
}

/// Both kinds of switches from a thread's `status`.
fn switches_in(status: &str) -> u64 {
    let value = |line: &str| {
        line.split_whitespace()
            .nth(1)
            .and_then(|value| value.parse::<u64>().ok())
    };
    status
        .lines()
        .filter(|line| line.contains("ctxt_switches:"))
        .filter_map(value)
        .sum()
}

/// Since Linux 6.2 the folder's size is the number of its entries; before, it is 0.
fn open_files(pid: i32) -> u64 {
    let folder = proc_of(pid).join("fd");
    match folder.metadata() {
        Ok(metadata) if metadata.len() > 0 => metadata.len(),
        _ => std::fs::read_dir(folder).map_or(0, |entries| entries.count() as u64),
    }
}

fn interface_bytes(name: &str) -> NetworkBytes {
    let folder = Path::new("/sys/class/net").join(name).join("statistics");
    let value = |file: &str| {
        super::read(folder.join(file))
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    };
    NetworkBytes {
        sent: value("tx_bytes"),
        received: value("rx_bytes"),
        shared: false,
    }
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

fn host_sample() -> HostSample {
    let (generator_user_s, generator_system_s) = usage(libc::RUSAGE_SELF);
    let mut host = HostSample {
        generator_user_s,
        generator_system_s,
        ..HostSample::default()
    };
    if let Ok(stats) = KernelStats::current() {
        let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
        let total = &stats.total;
        host.cores = stats.cpu_time.len();
        host.cpu_user_s = seconds(total.user + total.nice);
        host.cpu_system_s = seconds(total.system);
        host.cpu_softirq_s = seconds(total.irq.unwrap_or(0) + total.softirq.unwrap_or(0));
        host.cpu_steal_s = seconds(total.steal.unwrap_or(0));
        host.cpu_idle_s = seconds(total.idle + total.iowait.unwrap_or(0));
    }
    host.load_average = super::read("/proc/loadavg")
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0);
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_of_both_kinds_add_up() {
        let status = "Name:\tnginx\nvoluntary_ctxt_switches:\t41\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(switches_in(status), 48);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let pid = std::process::id().cast_signed();
        assert!(proportional_bytes(pid).unwrap() > 100_000);
        let before = open_files(pid);
        assert!(before >= 3);
    }

    #[test]
    fn a_process_that_is_gone_has_no_memory() {
        assert_eq!(proportional_bytes(i32::MAX), Some(0));
    }
}
