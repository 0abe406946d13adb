//! Runs FreeBSD's commands and makes samples of what they print. Not yet run on FreeBSD.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use super::parse;
use crate::environment::{Environment, Machine};
use crate::host::inspect::{Loaded, programs};
use crate::host::port::Holder;
use crate::host::process::Table;
use crate::place::Room;
use crate::place::command::run;
use crate::telemetry::{HostSample, MemoryKind, NetworkBytes, Sample, ServiceSample};

/// The kernel settings that change how fast a server is, or whether a load can be carried.
const SYSCTLS: [&str; 8] = [
    "kern.ipc.maxsockbuf",
    "kern.ipc.soacceptqueue",
    "kern.maxfiles",
    "net.inet.ip.portrange.first",
    "net.inet.tcp.cc.algorithm",
    "net.inet.tcp.msl",
    "net.inet.tcp.recvspace",
    "net.inet.tcp.sendspace",
];

/// A running service, as the reader needs to know it.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    /// The service's name.
    pub(crate) service: String,
    /// Its keeper's process id.
    pub(crate) keeper: i32,
    /// Its address, if it lives in a jail.
    pub(crate) room: Option<Ipv4Addr>,
}

impl Watched {
    /// What is to be known of the service's place.
    pub(crate) fn room(room: &Room) -> Ipv4Addr {
        room.inside
    }
}

/// The beginning of all samples.
#[derive(Debug)]
pub(crate) struct Reader {
    born: Instant,
    first_foreign_s: Option<f64>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self {
            born: Instant::now(),
            first_foreign_s: None,
        }
    }

    /// Reads everything now.
    pub(crate) fn sample(&mut self, table: &Table, watched: &[Watched]) -> Sample {
        let began = Instant::now();
        let interfaces = output("netstat", &["-ibn"]);
        let tcp = parse::tcp_counters(&output("netstat", &["-s", "-p", "tcp"]));
        let mut services = BTreeMap::new();
        let mut services_cpu_s = 0.0;
        for service in watched {
            let tree = table.descendants(service.keeper);
            let mut sample = ServiceSample {
                memory_kind: MemoryKind::Resident,
                tcp,
                network: parse::network_bytes(&interfaces, "lo0", service.room)
                    .unwrap_or(NetworkBytes::default()),
                ..ServiceSample::default()
            };
            for process in table
                .get(service.keeper)
                .into_iter()
                .chain(tree.iter().copied())
            {
                sample.cpu_user_s += process.user_s;
                sample.cpu_system_s += process.system_s;
            }
            for process in tree.iter().filter(|process| !process.zombie) {
                sample.memory_bytes += process.resident_bytes;
                sample.context_switches += process.context_switches.unwrap_or(0);
                sample.processes += 1;
                sample.threads += process.threads;
                sample.open_files +=
                    parse::open_files(&output("procstat", &["-f", &process.pid.to_string()]));
            }
            services_cpu_s += sample.cpu_user_s + sample.cpu_system_s;
            services.insert(service.service.clone(), sample);
        }
        let mut host = host_sample();
        host.tcp = tcp;
        let own = table.get(std::process::id().cast_signed());
        // With `-S`, the time of this process includes that of its children that ended.
        let own_s = own.map_or(0.0, |own| own.user_s + own.system_s);
        (host.generator_user_s, host.generator_system_s) =
            own.map_or((0.0, 0.0), |own| (own.user_s, own.system_s));
        let foreign_s =
            host.cpu_user_s + host.cpu_system_s + host.cpu_softirq_s - services_cpu_s - own_s;
        host.foreign_cpu_s = foreign_s - *self.first_foreign_s.get_or_insert(foreign_s);
        Sample {
            t_s: began.duration_since(self.born).as_secs_f64(),
            services,
            host,
            cost: began.elapsed(),
        }
    }
}

fn host_sample() -> HostSample {
    let ticks_per_s = parse::field(&sysctl("kern.clockrate"), "stathz").unwrap_or(127) as f64;
    let ticks = parse::cpu_ticks(&sysctl("kern.cp_time")).unwrap_or_default();
    let [user, nice, system, interrupt, idle] = ticks.map(|ticks| ticks as f64 / ticks_per_s);
    HostSample {
        cores: sysctl("hw.ncpu").parse().unwrap_or(0),
        cpu_user_s: user + nice,
        cpu_system_s: system,
        cpu_softirq_s: interrupt,
        cpu_idle_s: idle,
        load_average: parse::load_average(&sysctl("vm.loadavg")).unwrap_or(0.0),
        ..HostSample::default()
    }
}

/// The kernel's name for this boot; empty if it has none.
pub(crate) fn boot_id() -> String {
    sysctl("kern.boot_id")
}

/// When a process started, in an unspecified unit; `None` if it is gone.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    processes().get(pid).map(|process| process.start)
}

/// All processes.
pub(crate) fn processes() -> Table {
    output("ps", &parse::PS_ARGUMENTS)
        .lines()
        .filter_map(parse::process)
        .collect()
}

/// Who listens on a TCP address.
pub(crate) fn port_holder(address: SocketAddr) -> Option<Holder> {
    parse::port_holder(
        &output("sockstat", &["-4", "-6", "-l", "-P", "tcp"]),
        address,
    )
}

/// The cores that the calling thread may use; empty means any.
pub(crate) fn allowed_cores() -> Vec<usize> {
    Vec::new()
}

/// The machine now, and the programs of these services' processes, parents first.
pub(crate) fn environment(services: &BTreeMap<String, Vec<i32>>) -> Environment {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let sysctls = SYSCTLS
        .iter()
        .map(|name| ((*name).to_owned(), sysctl(name)));
    let machine = Machine {
        system: sysctl("kern.ostype"),
        distribution: sysctl("kern.version")
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
        kernel: sysctl("kern.osrelease"),
        architecture: sysctl("hw.machine"),
        cpu: sysctl("hw.model"),
        cores: sysctl("hw.ncpu").parse().unwrap_or(0),
        memory_bytes: sysctl("hw.physmem").parse().unwrap_or(0),
        cpu_governor: None,
        virtualised: !matches!(sysctl("kern.vm_guest").as_str(), "" | "none"),
        open_files: (limits.current, limits.maximum),
        sysctls: sysctls.filter(|(_, value)| !value.is_empty()).collect(),
        mitigations: BTreeMap::new(),
    };
    let services = services.iter().map(|(name, pids)| {
        (
            name.clone(),
            programs(pids.iter().filter_map(|pid| loaded(*pid))),
        )
    });
    Environment {
        machine,
        services: services.collect(),
    }
}

fn loaded(pid: i32) -> Option<Loaded> {
    let pid = pid.to_string();
    let executable: PathBuf = parse::executable(&output("procstat", &["-b", &pid]))?;
    Some(Loaded {
        content: executable.clone(),
        arguments: parse::arguments(&output("procstat", &["-c", &pid])),
        search_path: None,
        files: parse::mapped_files(&output("procstat", &["-v", &pid])),
        executable,
    })
}

fn sysctl(name: &str) -> String {
    output("sysctl", &["-n", name]).trim().to_owned()
}

/// What a command prints; empty if it failed, since no single figure is worth a trial.
fn output(program: &str, args: &[&str]) -> String {
    run(program, args).unwrap_or_default()
}
