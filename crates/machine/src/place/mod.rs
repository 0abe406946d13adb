//! Places in which services and the load run. A place is the host itself, a set of namespaces, or a
//! named place of the plan, which is a separate network with links to others.

mod container;
mod control_group;
pub(crate) mod namespace;
mod refused;
mod subnet;

pub use namespace::NetnsHandle;
pub use refused::{LimitRefused, PlaceRefused};

use std::collections::BTreeMap;

use prony_plan::machine::{ImageRefused, NetworkSettings};
use prony_plan::service::{ContainerSpec, LimitKey, PlaceKind, ResourceLimits};
use prony_plan::topology::{AddressBlock, EmulatorChoice};

use crate::run_state::{CreatedResource, RemovedResource};
use crate::system::HostError;

pub(crate) use container::Image;
pub(crate) use control_group::{ControlGroup, HIERARCHIES_MAX};
pub(crate) use namespace::{
    NamespaceFd as SandboxEntry, NamespaceSandbox as Sandbox, NetworkTopology, free_base,
};

/// Removes a resource that a run created, if it still exists. Resources that belong to another run
/// by now are kept.
pub(crate) fn remove(created: &CreatedResource) -> Result<Option<RemovedResource>, HostError> {
    match created {
        CreatedResource::Container { .. } => container::remove(created),
        CreatedResource::ControlGroup { .. } => control_group::remove(created),
        _ => namespace::remove(created),
    }
}

/// Lists the processes in a namespace or a control group that a run created.
pub(crate) fn processes_in(created: &CreatedResource) -> Vec<i32> {
    match created {
        CreatedResource::ControlGroup { .. } => control_group::processes_in(created),
        _ => namespace::processes_in(created),
    }
}

/// Checks that a container's image is on this machine, and fetches the image if it is not.
///
/// # Errors
/// The cause, with a hint.
pub fn fetch_image(container: &ContainerSpec) -> Result<(), ImageRefused> {
    Image::fetch(container).map(drop)
}

/// Checks that this user can create a control group with these limits, before anything starts.
///
/// # Errors
/// The limit that can't be set, and the reason, with a hint.
pub fn check_limits(limits: &ResourceLimits) -> Result<(), (LimitKey, LimitRefused)> {
    control_group::check(limits)
}

/// Checks that links between named places can have rate limits on this machine.
///
/// # Errors
/// The missing requirement, with a hint.
pub fn check_rates() -> Result<(), PlaceRefused> {
    namespace::check_rates()
}

/// Checks that links between named places can drop packets at random on this machine.
///
/// # Errors
/// The missing requirement, with a hint.
pub fn check_losses() -> Result<(), PlaceRefused> {
    namespace::check_losses()
}

/// Checks that links between named places can have a delay on this machine.
///
/// # Errors
/// The missing requirement, with a hint.
pub fn check_emulator(choice: EmulatorChoice) -> Result<(), PlaceRefused> {
    namespace::check_emulator(choice)
}

/// Divides kernel settings into those that exist per network namespace and all others, by looking
/// for them in a new namespace. This requires root.
///
/// # Errors
/// The reason why no namespace can be created.
pub fn sort_settings(settings: &BTreeMap<String, String>) -> Result<NetworkSettings, PlaceRefused> {
    if settings.is_empty() {
        return Ok(NetworkSettings::default());
    }
    namespace::sort_settings(settings)
}

/// Runs `work` in a temporary network in which the load's source addresses are local, as in the
/// load's place.
///
/// # Errors
/// The reason why the network can't be created; `work` was not run.
pub(crate) fn rehearse<T: Send>(
    sources: &[AddressBlock],
    work: impl FnOnce() -> T + Send,
) -> Result<T, PlaceRefused> {
    namespace::rehearse(sources, work)
}

/// Checks that this user can create places of this kind on this machine, before anything starts.
///
/// # Errors
/// The missing requirement, with a hint.
pub fn check_kind(kind: PlaceKind) -> Result<(), PlaceRefused> {
    match kind {
        PlaceKind::Native => Ok(()),
        PlaceKind::Namespace => namespace::check_namespaces(),
        PlaceKind::Named(_) => namespace::check_network(),
    }
}
