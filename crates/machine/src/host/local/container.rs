//! A service that runs in a container.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prony_plan::machine::ImageRefused;
use prony_plan::service::{ContainerSpec, PlaceKind, ResourceLimits, ServiceSpec};

use crate::host::HostError;
use crate::place::{self, Image};
use crate::run_state::RunState;
use crate::system::group_usage;

/// The container of a service.
#[derive(Debug)]
pub(super) struct ServiceContainer {
    pub(super) image: Image,
    name: String,
    /// Folder of its control group that counts CPU time; `None` until it is known, or if the
    /// container has no group of its own.
    group: Option<PathBuf>,
}

impl ServiceContainer {
    /// Records a container in the run state. Returns it with the process that starts it, as a
    /// service without a container.
    ///
    /// # Errors
    /// The container can't run in the service's place.
    pub(super) fn prepare(
        image: Image,
        spec: &ServiceSpec,
        container: &ContainerSpec,
        files_dir: &Path,
        run: &mut RunState,
    ) -> Result<(Self, ServiceSpec), HostError> {
        if matches!(spec.place, PlaceKind::Named(_)) && !image.can_join_places() {
            return Err(HostError::Container {
                service: spec.name.clone(),
                reason:
                    "docker starts it outside of its place (set runtime = \"podman\", or remove \
                         place)"
                        .to_owned(),
            });
        }
        // The names of services in interleaved blocks have characters that containers can't have.
        let service = spec.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let name = format!("{}-{service}", run.resource_prefix());
        run.record(&image.created(&name))?;
        let folders = [files_dir, &run.sockets()];
        let starter = ServiceSpec {
            command: image.run_words(&name, spec, container, &folders),
            env: BTreeMap::new(),
            // The environment may name settings of the runtime by a relative path.
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            cores: Vec::new(),
            open_files: None,
            limits: ResourceLimits::default(),
            container: None,
            ..spec.clone()
        };
        let container = Self {
            image,
            name,
            group: None,
        };
        Ok((container, starter))
    }

    /// Returns the words of the command that removes the container.
    pub(super) fn removal(&self) -> Vec<String> {
        self.image.removal(&self.name)
    }

    /// Looks for the container's control group, unless it is known.
    pub(super) fn find_group(&mut self) {
        if self.group.is_none() {
            self.group = self.image.group(&self.name);
        }
    }

    /// Removes the container, which remains after it has ended.
    ///
    /// # Errors
    /// The runtime can't remove it.
    pub(super) fn remove(&self) -> Result<(), HostError> {
        place::remove(&self.image.created(&self.name)).map(drop)
    }

    /// Returns true if the kernel ended the container because it exceeded its memory limit.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.image.ran_out_of_memory(&self.name)
    }

    /// Returns the folder of the container's control group.
    pub(super) fn group(&self) -> Option<&Path> {
        self.group.as_deref()
    }

    /// Returns the IDs of the container's processes; `None` if it has no control group.
    pub(super) fn processes(&self) -> Option<Vec<i32>> {
        self.group().map(group_usage::members)
    }
}

/// Finds an image and fetches it if necessary.
pub(super) fn fetch(service: &str, container: &ContainerSpec) -> Result<Image, HostError> {
    Image::fetch(container).map_err(|refused| HostError::Container {
        service: service.to_owned(),
        reason: match refused {
            ImageRefused::NoRuntime(programs) => {
                format!("{} is not installed", programs.join(" or "))
            }
            ImageRefused::Failed(reason) => format!("image \"{}\": {reason}", container.image),
        },
    })
}
