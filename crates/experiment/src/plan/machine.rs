//! What a plan needs of the machine it runs on: programs and cores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folders that hold servers and that a plain user's `PATH` often lacks.
const ADMIN_FOLDERS: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The name under which a plan's command means the running prony itself.
const OWN_NAME: &str = "prony";

/// Programs, and the packages that have them in Debian and in FreeBSD's ports (empty: in none).
///
/// A trailing `*` stands for a version.
const PACKAGES: &[(&str, &str, &str)] = &[
    ("apache2", "apache2", "apache24"),
    ("apachectl", "apache2", "apache24"),
    ("busybox", "busybox", "busybox"),
    ("caddy", "caddy", "caddy"),
    ("daphne", "daphne", "py311-daphne"),
    ("gunicorn", "gunicorn", "py311-gunicorn"),
    ("h2o", "h2o", "h2o"),
    ("haproxy", "haproxy", "haproxy"),
    ("hitch", "hitch", "hitch"),
    ("httpd", "apache2", "apache24"),
    ("lighttpd", "lighttpd", "lighttpd"),
    ("memcached", "memcached", "memcached"),
    ("mini-httpd", "mini-httpd", "mini_httpd"),
    ("nghttpx", "nghttp2-proxy", "nghttp2"),
    ("nginx", "nginx-light", "nginx"),
    ("node", "nodejs", "node"),
    ("numactl", "numactl", "numactl"),
    ("perf", "linux-perf", ""),
    ("php-fpm*", "php-fpm", "php84"),
    ("puma", "puma", "rubygem-puma"),
    ("python3", "python3", "python3"),
    ("redis-server", "redis-server", "redis"),
    ("squid", "squid", "squid"),
    ("strace", "strace", ""),
    ("stunnel", "stunnel4", "stunnel"),
    ("taskset", "util-linux", ""),
    ("traffic_server", "trafficserver", "trafficserver"),
    ("uvicorn", "uvicorn", "py311-uvicorn"),
    ("uwsgi", "uwsgi-core", "uwsgi"),
    ("varnishd", "varnish", "varnish7"),
    ("waitress-serve", "python3-waitress", "py311-waitress"),
];

/// What this machine, or the one that a test makes up, has to offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The system, as [`std::env::consts::OS`] calls it.
    pub os: String,
    /// The cores that this process may run on, ascending.
    pub cores: Vec<usize>,
    /// The folders in which programs are looked for, in order.
    pub path: Vec<PathBuf>,
    /// The running prony.
    pub own_program: PathBuf,
}

impl Machine {
    /// The machine that this process runs on.
    pub fn this() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            os: std::env::consts::OS.to_owned(),
            cores: usable_cores(),
            path: std::env::split_paths(&path).collect(),
            own_program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from(OWN_NAME)),
        }
    }

    /// The program as it has to be started: by its bare name where `PATH` leads to it, by an
    /// absolute path where only an administrator's `PATH` would. `None` where it is nowhere.
    pub(crate) fn program(
        &self,
        name: &str,
        folder: &Path,
        env: &BTreeMap<String, String>,
    ) -> Option<String> {
        if name == OWN_NAME {
            return Some(self.own_program.to_string_lossy().into_owned());
        }
        if name.contains('/') {
            let path: PathBuf = folder.join(name).components().collect();
            return is_program(&path).then(|| path.to_string_lossy().into_owned());
        }
        let own_path: Option<Vec<PathBuf>> = env
            .get("PATH")
            .map(|path| std::env::split_paths(path).collect());
        let searched = own_path.as_ref().unwrap_or(&self.path);
        if searched.iter().any(|folder| is_program(&folder.join(name))) {
            return Some(name.to_owned());
        }
        ADMIN_FOLDERS
            .iter()
            .map(|folder| Path::new(folder).join(name))
            .find(|path| is_program(path))
            .map(|path| path.to_string_lossy().into_owned())
    }

    /// How to get a program that is missing.
    pub(crate) fn how_to_install(&self, name: &str) -> String {
        let short = Path::new(name)
            .file_name()
            .map_or(name.into(), |name| name.to_string_lossy());
        let found = PACKAGES
            .iter()
            .find(|(program, _, _)| match program.strip_suffix('*') {
                Some(stem) => short.starts_with(stem),
                None => *program == short,
            });
        let freebsd = self.os == "freebsd";
        match found {
            Some((_, debian, ports)) if freebsd && !ports.is_empty() => {
                format!("pkg install {ports}; Debian's package is {debian}")
            }
            Some((_, debian, "")) => format!("apt install {debian}"),
            Some((_, debian, ports)) => {
                format!("apt install {debian}; FreeBSD's package is {ports}")
            }
            None if name.contains('/') => "check the path; it starts from the plan's folder".into(),
            None => "install it, or write its whole path".into(),
        }
    }
}

/// The cores that the scheduler would let this process use.
fn usable_cores() -> Vec<usize> {
    #[cfg(any(target_os = "linux", target_os = "freebsd"))]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        let cores: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|core| set.is_set(*core))
            .collect();
        if !cores.is_empty() {
            return cores;
        }
    }
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
