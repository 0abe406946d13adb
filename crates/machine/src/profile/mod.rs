//! The machine that reads and runs a plan: its programs, cores and networks.

mod rehearsal;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use prony_load::{LoadSettings, SpecError};
use prony_plan::machine::{
    Build, ImageRefused, NetworkSettings, PlanMachine, ProgramNotFound, RevisionRefused,
};
use prony_plan::service::{ContainerSpec, LimitKey, PlaceKind, ResourceLimits};
use prony_plan::topology::{AddressBlock, EmulatorChoice};

use crate::build;
use crate::place;
use crate::system::program::{self, MissingProgram};

/// Command in a plan that stands for the running prony binary.
const OWN_NAME: &str = "prony";

/// This machine, as plans see it. Tests change its cores and programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineProfile {
    /// Cores that this process may use, in ascending order.
    pub cores: Vec<usize>,
    /// Folders that are searched for programs, in order.
    pub path: Vec<PathBuf>,
    /// Path of the running prony binary.
    pub own_program: PathBuf,
}

impl MachineProfile {
    /// Returns the profile of this machine.
    pub fn this() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            cores: usable_cores(),
            path: std::env::split_paths(&path).collect(),
            own_program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from(OWN_NAME)),
        }
    }
}

impl PlanMachine for MachineProfile {
    fn cores(&self) -> &[usize] {
        &self.cores
    }

    fn allows_public_targets(&self) -> bool {
        LoadSettings::from_environment().public
    }

    fn program(
        &self,
        name: &str,
        folder: &Path,
        env: &BTreeMap<String, String>,
    ) -> Result<String, ProgramNotFound> {
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
            Err(missing) => Err(ProgramNotFound {
                hint: install_hint(name, &missing),
                package: missing_package(name, &missing),
                started,
            }),
        }
    }

    fn first_address(&self, host: &str, port: u16) -> Option<SocketAddr> {
        (host, port).to_socket_addrs().ok()?.next()
    }

    fn check_place(&self, kind: PlaceKind) -> Result<(), String> {
        place::check_kind(kind).map_err(|refused| refused.to_string())
    }

    fn check_limits(&self, limits: &ResourceLimits) -> Result<(), (LimitKey, String)> {
        place::check_limits(limits).map_err(|(key, refused)| (key, refused.to_string()))
    }

    fn fetch_image(&self, container: &ContainerSpec) -> Result<(), ImageRefused> {
        place::fetch_image(container)
    }

    fn check_rates(&self) -> Result<(), String> {
        place::check_rates().map_err(|refused| refused.to_string())
    }

    fn check_losses(&self) -> Result<(), String> {
        place::check_losses().map_err(|refused| refused.to_string())
    }

    fn check_emulator(&self, emulator: EmulatorChoice) -> Result<(), String> {
        place::check_emulator(emulator).map_err(|refused| refused.to_string())
    }

    fn sort_settings(
        &self,
        settings: &BTreeMap<String, String>,
    ) -> Result<NetworkSettings, String> {
        place::sort_settings(settings).map_err(|refused| refused.to_string())
    }

    fn check_load(
        &self,
        url: &str,
        settings: &LoadSettings,
        sources: Option<&[AddressBlock]>,
    ) -> Result<(), SpecError> {
        let resolve = || settings.resolve(Some(url)).map(|_| ());
        match sources {
            // Missing privileges for places are reported elsewhere.
            Some(sources) => place::rehearse(sources, resolve).unwrap_or(Ok(())),
            None => resolve(),
        }
    }

    fn build(
        &self,
        repository: &Path,
        revision: &str,
        run: &str,
    ) -> Result<Build, RevisionRefused> {
        build::find(repository, revision, run)
    }

    fn rehearse(&self, render: &mut dyn FnMut()) -> Result<(), &'static str> {
        rehearsal::rehearse(render)
    }
}

/// Returns the package that contains a missing program, if installing it would help.
fn missing_package(name: &str, missing: &MissingProgram) -> Option<&'static str> {
    let is_absent = missing.not_executable.is_none() && !name.contains('/');
    missing.package.filter(|_| is_absent)
}

/// Returns a hint for installing a missing program.
fn install_hint(name: &str, missing: &MissingProgram) -> String {
    if let Some(path) = &missing.not_executable {
        return format!("chmod +x {}", path.display());
    }
    if name.contains('/') {
        return "check the path; relative paths are resolved against the plan's folder".to_owned();
    }
    match missing.package {
        Some(debian) => format!("apt install {debian}"),
        None => "install it, or write its full path".to_owned(),
    }
}

/// Returns the cores that the scheduler allows this process to use.
fn usable_cores() -> Vec<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_has_a_hint_for_its_kind_of_name() {
        let machine = MachineProfile {
            path: Vec::new(),
            ..MachineProfile::this()
        };
        let folder = tempfile::tempdir().unwrap();
        let env = BTreeMap::from([("PATH".to_owned(), "/nonexistent".to_owned())]);
        let missing = |name| {
            let error = machine.program(name, folder.path(), &env).unwrap_err();
            (error.hint, error.package)
        };
        let hint = "install it, or write its full path".to_owned();
        assert_eq!(missing("nginx-of-nobody"), (hint, None));
        let hint = "check the path; relative paths are resolved against the plan's folder";
        assert_eq!(missing("./bin/gone"), (hint.to_owned(), None));
        std::fs::write(folder.path().join("script"), "").unwrap();
        let hint = format!("chmod +x {}/./script", folder.path().display());
        assert_eq!(
            missing("./script").0.replace("/./", "/"),
            hint.replace("/./", "/")
        );
        let own = machine.program("prony", folder.path(), &env).unwrap();
        assert_eq!(Path::new(&own), machine.own_program);
    }
}
