//! What a plan needs of the machine it runs on: programs and cores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::node::{Entry, Node, Table, Value};
use crate::host::program::{self, MissingProgram};

/// The name under which a plan's command means the running prony itself.
const OWN_NAME: &str = "prony";

/// FreeBSD's packages of programs that plans are likely to start. Debian's are in
/// [`crate::host::program`], which looks for programs at the start of a service, too.
const PORTS: &[(&str, &str)] = &[
    ("apache2", "apache24"),
    ("apachectl", "apache24"),
    ("caddy", "caddy"),
    ("daphne", "py311-daphne"),
    ("gunicorn", "py311-gunicorn"),
    ("h2o", "h2o"),
    ("haproxy", "haproxy"),
    ("hitch", "hitch"),
    ("httpd", "apache24"),
    ("lighttpd", "lighttpd"),
    ("memcached", "memcached"),
    ("nginx", "nginx"),
    ("node", "node"),
    ("php-fpm", "php84"),
    ("puma", "rubygem-puma"),
    ("python3", "python3"),
    ("redis-server", "redis"),
    ("squid", "squid"),
    ("uvicorn", "py311-uvicorn"),
    ("uwsgi", "uwsgi"),
    ("varnishd", "varnish7"),
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

    /// What templates can ask of it, by name: `machine.cores`, the list of cores, ascending.
    pub(crate) fn offer(&self) -> (BTreeSet<String>, Node) {
        let node = |value| Node { line: 0, value };
        let cores = self
            .cores
            .iter()
            .filter_map(|&core| i64::try_from(core).ok());
        let cores = cores.map(|core| node(Value::Integer(core))).collect();
        let entry = Entry {
            key: "cores".to_owned(),
            line: 0,
            node: node(Value::Array(cores)),
        };
        let table = Table {
            line: 0,
            entries: vec![entry],
        };
        (
            BTreeSet::from(["cores".to_owned()]),
            node(Value::Table(table)),
        )
    }

    /// The program as the host is to start it: prony itself by its path, one with a slash from the
    /// plan's folder, any other by its name, with the version where it is installed under such a
    /// name alone.
    ///
    /// # Errors
    /// It is nowhere; what would mend that.
    pub(crate) fn program(
        &self,
        name: &str,
        folder: &Path,
        env: &BTreeMap<String, String>,
    ) -> Result<String, Missing> {
        if name == OWN_NAME {
            return Ok(self.own_program.to_string_lossy().into_owned());
        }
        let started = if name.contains('/') {
            let path: PathBuf = folder.join(name).components().collect();
            path.to_string_lossy().into_owned()
        } else {
            name.to_owned()
        };
        let own_path = std::env::join_paths(&self.path).unwrap_or_default();
        let path = env
            .get("PATH")
            .cloned()
            .unwrap_or_else(|| own_path.to_string_lossy().into());
        match program::find(&started, folder, Some(&path)) {
            Ok(found) if found.file_name() != Path::new(&started).file_name() => {
                let versioned = found.file_name().unwrap_or_default();
                Ok(versioned.to_string_lossy().into_owned())
            }
            Ok(_) => Ok(started),
            Err(missing) => Err(Missing {
                mend: self.mend(name, &missing),
                started,
            }),
        }
    }

    /// How to get a program that is missing.
    fn mend(&self, name: &str, missing: &MissingProgram) -> String {
        if let Some(path) = &missing.not_executable {
            return format!("chmod +x {}", path.display());
        }
        if name.contains('/') {
            return "check the path; it starts from the plan's folder".to_owned();
        }
        let port = PORTS
            .iter()
            .find(|(program, _)| *program == name)
            .map(|(_, port)| *port);
        match (missing.package, port) {
            (_, Some(port)) if self.os == "freebsd" => format!("pkg install {port}"),
            (Some(debian), None) => format!("apt install {debian}"),
            (Some(debian), Some(port)) => {
                format!("apt install {debian}; FreeBSD's package is {port}")
            }
            (None, _) => "install it, or write its whole path".to_owned(),
        }
    }
}

/// A program that is nowhere to be found.
pub(crate) struct Missing {
    /// What would be started if it were.
    pub(crate) started: String,
    /// How to get it.
    pub(crate) mend: String,
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
