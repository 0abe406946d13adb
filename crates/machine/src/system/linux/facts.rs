//! Facts for `environment.json`: the machine's settings, and the programs of services.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use procfs::process::{MMapPath, Process};
use rustix::process::Resource;

use super::read_small_file;
use crate::environment::{Environment, MachineFacts};
use crate::system::inspect::{LoadedProgram, programs};
use crate::system::proc_files;

/// Kernel settings that affect servers and loads.
pub(crate) const SYSCTLS: [&str; 22] = [
    "fs.file-max",
    "kernel.numa_balancing",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "net.core.busy_poll",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "vm.swappiness",
];

/// Returns facts about the machine, and the programs of the services. `services` lists the
/// processes of each service, parents first.
pub(crate) fn environment(services: &BTreeMap<String, Vec<i32>>) -> Environment {
    let services = services.iter().map(|(name, pids)| {
        (
            name.clone(),
            programs(pids.iter().filter_map(|pid| loaded(*pid))),
        )
    });
    Environment {
        hosts: BTreeMap::new(),
        hosted: BTreeMap::new(),
        machine: machine(),
        services: services.collect(),
        sources: BTreeMap::new(),
        places: BTreeMap::new(),
        links: BTreeMap::new(),
    }
}

fn machine() -> MachineFacts {
    let name = rustix::system::uname();
    let words = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let cpu = cpu_facts(&read_small_file("/proc/cpuinfo").unwrap_or_default());
    let limits = rustix::process::getrlimit(Resource::Nofile);
    MachineFacts {
        system: words(name.sysname()),
        distribution: distribution(&read_small_file("/etc/os-release").unwrap_or_default()),
        kernel: words(name.release()),
        architecture: words(name.machine()),
        cpu: cpu.model,
        cores: cpu.cores,
        memory_bytes: proc_files::memory_bytes(
            &read_small_file("/proc/meminfo").unwrap_or_default(),
        ),
        cpu_governor: read_small_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        microcode: cpu.microcode,
        turbo: turbo(),
        transparent_huge_pages: read_small_file("/sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| chosen(&text)),
        network_cards: super::network_cards::network_cards(),
        virtualised: cpu.virtualised,
        hardware_counters: String::new(),
        open_files: (limits.current, limits.maximum),
        sysctls: sysctls(),
        mitigations: folder_of_values(Path::new("/sys/devices/system/cpu/vulnerabilities")),
    }
}

/// Returns the kernel's estimate of the memory in bytes that new processes can use without swapping
/// (proc(5)).
pub(crate) fn memory_available_bytes() -> Option<u64> {
    proc_files::memory_available_bytes(&read_small_file("/proc/meminfo")?)
}

/// Facts about the processor from `/proc/cpuinfo`.
pub(crate) struct CpuFacts {
    pub(crate) model: String,
    pub(crate) cores: usize,
    pub(crate) virtualised: bool,
    pub(crate) microcode: Option<String>,
}

/// Returns true if turbo is on; `None` if the kernel doesn't report it.
fn turbo() -> Option<bool> {
    let folder = Path::new("/sys/devices/system/cpu");
    let off = read_small_file(folder.join("intel_pstate/no_turbo")).map(|text| text == "0");
    off.or_else(|| read_small_file(folder.join("cpufreq/boost")).map(|text| text == "1"))
}

/// Returns the choice in brackets, as in `always [madvise] never`.
fn chosen(choices: &str) -> Option<String> {
    let (_, rest) = choices.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Parses `/proc/cpuinfo`.
pub(crate) fn cpu_facts(text: &str) -> CpuFacts {
    let field = |wanted: &str| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == wanted)
            .map(|(_, value)| value.trim())
    };
    let model = field("model name").or_else(|| field("Model"));
    let flags = field("flags").unwrap_or_default();
    CpuFacts {
        model: model.unwrap_or_default().to_owned(),
        cores: text
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count(),
        virtualised: flags.split_whitespace().any(|flag| flag == "hypervisor"),
        microcode: field("microcode").map(str::to_owned),
    }
}

/// Returns the name of the distribution in `/etc/os-release`.
pub(crate) fn distribution(os_release: &str) -> String {
    let line = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or_default().trim_matches('"').to_owned()
}

fn sysctls() -> BTreeMap<String, String> {
    let value = |name: &str| {
        let text = read_small_file(Path::new("/proc/sys").join(name.replace('.', "/")))?;
        Some((
            name.to_owned(),
            text.split_whitespace().collect::<Vec<_>>().join(" "),
        ))
    };
    SYSCTLS.iter().filter_map(|name| value(name)).collect()
}

fn folder_of_values(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            Some((
                entry.file_name().into_string().ok()?,
                read_small_file(entry.path())?,
            ))
        })
        .collect()
}

/// Returns the program of a process; `None` if the process has ended or can't be read.
fn loaded(pid: i32) -> Option<LoadedProgram> {
    let process = Process::new(pid).ok()?;
    let executable = process.exe().ok()?;
    let maps = process.maps().into_iter().flatten();
    let files = maps.filter_map(|map| match map.pathname {
        MMapPath::Path(path) => Some(path),
        _ => None,
    });
    Some(LoadedProgram {
        // The link /proc/PID/exe refers to the running executable even if the file at its path was
        // replaced.
        content: PathBuf::from(format!("/proc/{pid}/exe")),
        arguments: process.cmdline().unwrap_or_default(),
        search_path: process
            .environ()
            .ok()
            .and_then(|mut vars| vars.remove(OsStr::new("LD_LIBRARY_PATH"))),
        files: files.collect(),
        executable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_cores() {
        let machine = machine();
        assert_eq!(machine.system, "Linux");
        assert!(
            machine.cores > 0 && machine.memory_bytes > 1 << 20,
            "{machine:?}"
        );
        assert!(
            machine.sysctls.contains_key("net.core.somaxconn"),
            "{machine:?}"
        );
    }

    #[test]
    fn the_distribution_loses_its_quotes() {
        assert_eq!(
            distribution("ID=debian\nPRETTY_NAME=\"Debian 12\"\n"),
            "Debian 12"
        );
        assert_eq!(distribution(""), "");
    }

    #[test]
    fn the_choice_in_brackets_is_read() {
        let choice = |text| super::chosen(text);
        assert_eq!(choice("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(choice("always"), None);
    }

    #[test]
    fn microcode_is_read_where_the_kernel_names_it() {
        let facts = super::cpu_facts("processor\t: 0\nmicrocode\t: 0xb0\n");
        assert_eq!(facts.microcode.as_deref(), Some("0xb0"));
        assert_eq!(super::cpu_facts("processor\t: 0\n").microcode, None);
    }
}
