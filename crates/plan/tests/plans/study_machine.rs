//! A simulated machine on which the tests read plans.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use prony_load::{LoadSettings, SpecError};
use prony_plan::machine::{
    Build, ImageRefused, NetworkSettings, PlanMachine, ProgramNotFound, RevisionRefused,
};
use prony_plan::service::{ContainerSpec, LimitKey, PlaceKind, ResourceLimits};
use prony_plan::topology::{AddressBlock, EmulatorChoice};

/// A machine that permits every place, and that has only the programs of one folder.
#[derive(Debug, Clone)]
pub(super) struct StudyMachine {
    pub(super) cores: Vec<usize>,
    pub(super) programs: PathBuf,
}

impl PlanMachine for StudyMachine {
    fn cores(&self) -> &[usize] {
        &self.cores
    }

    fn allows_public_targets(&self) -> bool {
        false
    }

    fn program(
        &self,
        name: &str,
        folder: &Path,
        _env: &BTreeMap<String, String>,
    ) -> Result<String, ProgramNotFound> {
        if name == "prony" {
            return Ok("/opt/prony".to_owned());
        }
        let (started, file) = if name.contains('/') {
            let path: PathBuf = folder.join(name).components().collect();
            (path.to_string_lossy().into_owned(), path)
        } else {
            (name.to_owned(), self.programs.join(name))
        };
        if file.is_file() {
            return Ok(started);
        }
        let package = (name == "varnishd").then_some("varnish");
        Err(ProgramNotFound {
            started,
            hint: "install it".to_owned(),
            package,
        })
    }

    fn first_address(&self, _host: &str, _port: u16) -> Option<SocketAddr> {
        None
    }

    fn build(
        &self,
        _repository: &Path,
        _revision: &str,
        _run: &str,
    ) -> Result<Build, RevisionRefused> {
        Err(RevisionRefused {
            message: "there is no repository".to_owned(),
            hint: "create one".to_owned(),
        })
    }

    fn check_place(&self, _kind: PlaceKind) -> Result<(), String> {
        Ok(())
    }

    fn check_limits(&self, _limits: &ResourceLimits) -> Result<(), (LimitKey, String)> {
        Ok(())
    }

    fn fetch_image(&self, container: &ContainerSpec) -> Result<(), ImageRefused> {
        match container.image.as_str() {
            "absent" => Err(ImageRefused::Failed("no such image".to_owned())),
            _ => Ok(()),
        }
    }

    fn check_rates(&self) -> Result<(), String> {
        Ok(())
    }

    fn check_losses(&self) -> Result<(), String> {
        Ok(())
    }

    fn check_emulator(&self, emulator: EmulatorChoice) -> Result<(), String> {
        match emulator {
            EmulatorChoice::Kernel => Err("the kernel has no sch_netem".to_owned()),
            EmulatorChoice::Auto | EmulatorChoice::Relay => Ok(()),
        }
    }

    fn sort_settings(
        &self,
        settings: &BTreeMap<String, String>,
    ) -> Result<NetworkSettings, String> {
        let (own, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (settings.clone().into_iter()).partition(|(name, _)| name.starts_with("net."));
        let reason = "it would change the whole machine";
        let others = others.into_keys().map(|name| (name, reason.to_owned()));
        Ok(NetworkSettings {
            own,
            not_applicable: others.collect(),
        })
    }

    fn check_load(
        &self,
        url: &str,
        settings: &LoadSettings,
        sources: Option<&[AddressBlock]>,
    ) -> Result<(), SpecError> {
        match sources {
            Some(_) => Ok(()),
            None => settings.resolve(Some(url)).map(|_| ()),
        }
    }

    fn rehearse(&self, _render: &mut dyn FnMut()) -> Result<(), &'static str> {
        Ok(())
    }
}
