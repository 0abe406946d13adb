//! The environment of results: the machine's settings, and the programs that services run.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use procfs::Current;
use procfs::process::{MMapPath, Process};
use rustix::process::Resource;
use sha2::{Digest, Sha256};

use super::read;
use crate::environment::{Environment, Machine, Program, version_question};

/// The kernel settings that change how fast a server is, or whether a load can be carried.
const SYSCTLS: [&str; 22] = [
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

/// How long a program may take to say its version.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The machine now, and the programs of these services' processes, parents first.
pub(crate) fn environment(services: &BTreeMap<String, Vec<i32>>) -> Environment {
    let services = services
        .iter()
        .map(|(name, pids)| (name.clone(), programs(pids)));
    Environment {
        machine: machine(),
        services: services.collect(),
    }
}

fn machine() -> Machine {
    let name = rustix::system::uname();
    let words = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    let cpu_field = |wanted: &str| {
        cpu.lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == wanted)
            .map(|(_, value)| value.trim())
    };
    let limits = rustix::process::getrlimit(Resource::Nofile);
    Machine {
        system: words(name.sysname()),
        distribution: distribution(&read("/etc/os-release").unwrap_or_default()),
        kernel: words(name.release()),
        architecture: words(name.machine()),
        cpu: cpu_field("model name")
            .or_else(|| cpu_field("Model"))
            .unwrap_or_default()
            .to_owned(),
        cores: procfs::CpuInfo::current().map_or(0, |info| info.num_cores()),
        memory_bytes: procfs::Meminfo::current().map_or(0, |memory| memory.mem_total),
        cpu_governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        virtualised: cpu_field("flags")
            .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
        open_files: (limits.current, limits.maximum),
        sysctls: sysctls(),
        mitigations: folder_of_values(Path::new("/sys/devices/system/cpu/vulnerabilities")),
    }
}

fn distribution(os_release: &str) -> String {
    let line = os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or_default().trim_matches('"').to_owned()
}

fn sysctls() -> BTreeMap<String, String> {
    let value = |name: &str| {
        let text = read(Path::new("/proc/sys").join(name.replace('.', "/")))?;
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
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, read(entry.path())?)))
        .collect()
}

/// The distinct executables of these processes. A script counts besides its interpreter.
fn programs(pids: &[i32]) -> Vec<Program> {
    let mut found: Vec<Program> = Vec::new();
    for pid in pids {
        let Ok(process) = Process::new(*pid) else {
            continue;
        };
        let Ok(path) = process.exe() else { continue };
        // A namespace's first process is a copy of prony itself.
        if std::env::current_exe().is_ok_and(|own| own == path) {
            continue;
        }
        let libraries = libraries(&process, &path);
        match found.iter_mut().find(|program| program.path == path) {
            Some(known) => {
                known.libraries.extend(libraries);
                known.libraries.sort();
                known.libraries.dedup();
            }
            None => {
                let search_path = process
                    .environ()
                    .ok()
                    .and_then(|mut vars| vars.remove(std::ffi::OsStr::new("LD_LIBRARY_PATH")));
                let ask = |path: &Path| version(path, search_path.as_deref());
                // The link in /proc leads to the file even if its path now has another one.
                let hash = sha256(&PathBuf::from(format!("/proc/{pid}/exe")));
                found.push(Program {
                    version: ask(&path),
                    sha256: hash,
                    libraries,
                    path,
                });
                if let Some(script) = script(&process)
                    .filter(|script| found.iter().all(|known| known.path != *script))
                {
                    found.push(Program {
                        version: ask(&script),
                        sha256: sha256(&script),
                        libraries: Vec::new(),
                        path: script,
                    });
                }
            }
        }
    }
    found
}

/// The first argument, if it names an executable file: `python3 /usr/bin/gunicorn`.
fn script(process: &Process) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let arguments = process.cmdline().ok()?;
    let path = PathBuf::from(arguments.get(1)?);
    let metadata = path.metadata().ok().filter(|_| path.is_absolute())?;
    (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(path)
}

fn libraries(process: &Process, executable: &Path) -> Vec<PathBuf> {
    let Ok(maps) = process.maps() else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = maps
        .into_iter()
        .filter_map(|map| match map.pathname {
            MMapPath::Path(path) if path != executable => Some(path),
            _ => None,
        })
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().contains(".so"))
        })
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

fn sha256(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => break,
            got => hash.update(&buffer[..got]),
        }
    }
    Some(
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}

/// What a well-known program prints about itself, on either output.
fn version(path: &Path, search_path: Option<&std::ffi::OsStr>) -> Option<String> {
    let question = version_question(path.file_name()?.to_str()?)?;
    let mut command = Command::new(path);
    command
        .args(question)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(search_path) = search_path {
        command.env("LD_LIBRARY_PATH", search_path);
    }
    let mut child = command.spawn().ok()?;
    let began = Instant::now();
    // The answers fit into a pipe; a program that fills it never ends and is given up.
    while child.try_wait().ok()?.is_none() {
        if began.elapsed() > ANSWER_WITHIN {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    (!text.is_empty()).then_some(text)
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
    fn hashes_are_of_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(
            sha256(&path).as_deref(),
            Some(expected),
            "the example of FIPS 180-2"
        );
    }
}
