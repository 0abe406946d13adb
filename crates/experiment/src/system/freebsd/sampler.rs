//! Telemetry samples on FreeBSD, from the output of system commands.
//!
//! **Experimental: this code has never run on FreeBSD.**

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use super::parse;
use crate::environment::{Environment, MachineFacts};
use crate::service::{Follow, PortProtocol};
use crate::system::command::run;
use crate::system::inspect::{LoadedProgram, programs};
use crate::system::process::{PortHolder, Process, ProcessTable};
use crate::telemetry::TelemetrySample;

/// Kernel settings that affect servers and loads.
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

/// A running service whose resource usage is sampled.
#[derive(Debug, Clone)]
pub(crate) struct FreeBsdService {
    pub(crate) service: String,
    /// Process ID of the keeper; `None` if prony did not start the service.
    pub(crate) keeper: Option<i32>,
    /// Address of the service's jail; `None` if the service runs natively.
    pub(crate) sandbox: Option<Ipv4Addr>,
    /// Processes of the service outside the keeper's tree.
    pub(crate) follow: Follow,
}

impl FreeBsdService {
    /// Creates an entry for a service on this machine that prony did not start.
    pub(crate) fn external(service: &str, follow: &Follow) -> Self {
        Self {
            service: service.to_owned(),
            keeper: None,
            sandbox: None,
            follow: follow.clone(),
        }
    }

    /// Returns the service's processes, including the keeper, because `ps -S` adds the CPU time of
    /// orphans to that of the keeper.
    fn members<'a>(&self, table: &'a ProcessTable) -> Vec<&'a Process> {
        let named = self.follow.pid_file.as_ref().and_then(|path| {
            let text = std::fs::read_to_string(path).ok()?;
            text.lines().next()?.trim().parse::<i32>().ok()
        });
        let mut members: Vec<&Process> = Vec::new();
        for root in self.keeper.into_iter().chain(named) {
            let below = table.descendants(root);
            for process in table.get(root).into_iter().chain(below) {
                if members.iter().all(|member| member.pid != process.pid) {
                    members.push(process);
                }
            }
        }
        members
    }
}

/// Sampler of services and of the machine.
#[derive(Debug)]
pub(crate) struct FreeBsdSampler {
    born: Instant,
    first_foreign_s: Option<f64>,
}

impl FreeBsdSampler {
    pub(crate) fn new() -> Self {
        Self {
            born: Instant::now(),
            first_foreign_s: None,
        }
    }

    /// Samples the machine and the `watched` services. `table` lists all processes of the machine.
    pub(crate) fn sample(
        &mut self,
        table: &ProcessTable,
        watched: &[FreeBsdService],
    ) -> TelemetrySample {
        let began = Instant::now();
        let interfaces = output("netstat", &["-ibn"]);
        let tcp = parse::tcp_counters(&output("netstat", &["-s", "-p", "tcp"]));
        let mut services = BTreeMap::new();
        let mut services_cpu_s = 0.0;
        for service in watched {
            let members = service.members(table);
            let mut sample = parse::service(&members);
            if service.keeper.is_some() {
                // Don't count the keeper as a process. Only its CPU time belongs to the service.
                sample.processes = sample.processes.saturating_sub(1);
            }
            let living = members
                .iter()
                .filter(|process| !process.zombie && Some(process.pid) != service.keeper);
            let pids: Vec<String> = living.map(|process| process.pid.to_string()).collect();
            let mut arguments = vec!["-f"];
            arguments.extend(pids.iter().map(String::as_str));
            if !pids.is_empty() {
                sample.open_files = parse::open_files(&output("procstat", &arguments));
            }
            sample.tcp = tcp;
            sample.network =
                parse::network_bytes(&interfaces, "lo0", service.sandbox).unwrap_or_default();
            services_cpu_s += sample.cpu_s;
            services.insert(service.service.clone(), sample);
        }
        let mut host = parse::machine(&output("sysctl", &parse::MACHINE_SYSCTLS));
        host.interfaces = parse::interfaces(&interfaces);
        host.tcp = tcp;
        // FreeBSD runs interrupts in separate threads.
        host.softirq_included = Some(false);
        let own = table.get(std::process::id().cast_signed());
        // With `ps -S`, the CPU time of this process includes that of its reaped children.
        let own_s = own.map_or(0.0, |own| own.user_s + own.system_s);
        (host.generator_user_s, host.generator_system_s) =
            own.map_or((0.0, 0.0), |own| (own.user_s, own.system_s));
        let foreign_s =
            host.cpu_user_s + host.cpu_system_s + host.cpu_irq_s - services_cpu_s - own_s;
        host.foreign_cpu_s = foreign_s - *self.first_foreign_s.get_or_insert(foreign_s);
        TelemetrySample {
            t_s: began.duration_since(self.born).as_secs_f64(),
            services,
            host,
            cost: began.elapsed(),
            ..TelemetrySample::default()
        }
    }
}

/// Returns the ID of the current boot; empty if the kernel doesn't report it.
pub(crate) fn boot_id() -> String {
    sysctl("kern.boot_id")
}

/// Returns the start time of a process in an unspecified unit; `None` if the process doesn't exist.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    processes().get(pid).map(|process| process.start)
}

pub(crate) fn processes() -> ProcessTable {
    output("ps", &parse::PS_ARGUMENTS)
        .lines()
        .filter_map(parse::process)
        .collect()
}

/// Returns the process that listens on a TCP address or has bound a UDP address.
pub(crate) fn port_holder(address: SocketAddr, protocol: PortProtocol) -> Option<PortHolder> {
    let protocol = match protocol {
        PortProtocol::Tcp => "tcp",
        PortProtocol::Udp => "udp",
    };
    parse::port_holder(
        &output("sockstat", &["-4", "-6", "-l", "-P", protocol]),
        address,
    )
}

/// Returns true if a socket is bound to the UDP port.
pub(crate) fn udp_is_bound(port: u16) -> bool {
    let any = (std::net::Ipv4Addr::UNSPECIFIED, port).into();
    port_holder(any, PortProtocol::Udp).is_some()
}

/// Returns the cores that the calling thread may use; an empty list means any core.
pub(crate) fn allowed_cores() -> Vec<usize> {
    Vec::new()
}

/// Returns an empty list, because there are no hardware counters per core.
pub(crate) fn online_cores() -> Vec<usize> {
    Vec::new()
}

/// Returns facts about the machine, and the programs of the services. `services` lists the
/// processes of each service, parents first.
pub(crate) fn environment(services: &BTreeMap<String, Vec<i32>>) -> Environment {
    let limits = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let sysctls = SYSCTLS
        .iter()
        .map(|name| ((*name).to_owned(), sysctl(name)));
    let machine = MachineFacts {
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
        hardware_counters: String::new(),
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
        hosts: BTreeMap::new(),
        hosted: BTreeMap::new(),
        machine,
        services: services.collect(),
        sources: BTreeMap::new(),
        places: BTreeMap::new(),
    }
}

fn loaded(pid: i32) -> Option<LoadedProgram> {
    let pid = pid.to_string();
    let executable: PathBuf = parse::executable(&output("procstat", &["-b", &pid]))?;
    Some(LoadedProgram {
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

/// Returns the output of a command. If the command failed, the output is empty, because a missing
/// value must not fail a trial.
fn output(program: &str, args: &[&str]) -> String {
    run(program, args).unwrap_or_default()
}
