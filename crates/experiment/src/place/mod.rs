//! Places in which services and the load run. A place is the host itself, a set of Linux
//! namespaces, a FreeBSD jail, or a named place of the plan, which is a separate network with links
//! to others.

pub mod jail;
#[cfg(target_os = "linux")]
pub(crate) mod namespace;
mod subnet;
#[cfg(not(target_os = "linux"))]
mod unsupported;

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use crate::service::PlaceKind;
use crate::topology::AddressBlock;

#[cfg(target_os = "freebsd")]
pub(crate) use jail::{
    JailId as SandboxEntry, JailSandbox as Sandbox, free_base, processes_in, remove,
};
#[cfg(target_os = "linux")]
pub(crate) use namespace::{
    NamespaceFd as SandboxEntry, NamespaceSandbox as Sandbox, NetworkTopology, free_base,
    processes_in, remove,
};
#[cfg(not(target_os = "linux"))]
pub(crate) use unsupported::NoTopology as NetworkTopology;
#[cfg(not(target_os = "linux"))]
use unsupported::UNSUPPORTED;

/// Kernel settings of a plan, divided into those that exist per network namespace and all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Settings (sysctls) that exist per network namespace, with their values.
    pub own: BTreeMap<String, String>,
    /// Settings that can't be applied in a namespace, each with the reason.
    pub not_applicable: BTreeMap<String, String>,
}

/// Checks that links between named places can have rate limits on this machine.
///
/// # Errors
/// The missing requirement, with a hint.
pub fn check_rates() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return namespace::check_rates();
    #[cfg(not(target_os = "linux"))]
    Err(UNSUPPORTED.to_owned())
}

/// Checks that links between named places can drop packets at random on this machine.
///
/// # Errors
/// The missing requirement, with a hint.
pub fn check_losses() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return namespace::check_losses();
    #[cfg(not(target_os = "linux"))]
    Err(UNSUPPORTED.to_owned())
}

/// Divides kernel settings into those that exist per network namespace and all others, by looking
/// for them in a new namespace. This requires root.
///
/// # Errors
/// The reason why no namespace can be created.
pub fn sort_settings(settings: &BTreeMap<String, String>) -> Result<NetworkSettings, String> {
    if settings.is_empty() {
        return Ok(NetworkSettings::default());
    }
    #[cfg(target_os = "linux")]
    return namespace::sort_settings(settings);
    #[cfg(not(target_os = "linux"))]
    Err(UNSUPPORTED.to_owned())
}

/// Runs `work` in a temporary network in which the load's source addresses are local, as in the
/// load's place.
///
/// # Errors
/// The reason why the network can't be created; `work` was not run.
pub(crate) fn rehearse<T: Send>(
    sources: &[AddressBlock],
    work: impl FnOnce() -> T + Send,
) -> Result<T, String> {
    #[cfg(target_os = "linux")]
    return namespace::rehearse(sources, work);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (sources, work);
        Err(UNSUPPORTED.to_owned())
    }
}

/// Handle to the network namespace of a named place, in which threads of this process can run.
#[derive(Debug)]
pub struct NetnsHandle(
    #[cfg(target_os = "linux")] SandboxEntry,
    #[cfg(not(target_os = "linux"))] std::convert::Infallible,
);

impl NetnsHandle {
    /// Creates a handle to the network namespace of `entry`.
    #[cfg(target_os = "linux")]
    pub(crate) fn to(entry: &SandboxEntry) -> io::Result<Self> {
        entry.try_clone().map(Self)
    }

    /// Runs `work` on a new thread in the namespace, and waits for it to end. Threads that `work`
    /// starts also run in the namespace. All of them share the files and memory of this process.
    ///
    /// # Errors
    /// The namespace can't be entered; `work` was not run.
    pub fn run_inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        #[cfg(target_os = "linux")]
        return self.0.run_inside(work);
        #[cfg(not(target_os = "linux"))]
        {
            drop(work);
            match self.0 {}
        }
    }
}

impl fmt::Display for PlaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Namespace => "namespace",
            Self::Jail => "jail",
            Self::Named(_) => "with a name",
        })
    }
}

/// Checks that this user can create places of this kind on this machine, before anything starts.
///
/// # Errors
/// The missing requirement, with a hint.
pub fn check(kind: PlaceKind) -> Result<(), String> {
    match kind {
        PlaceKind::Native => Ok(()),
        #[cfg(target_os = "linux")]
        PlaceKind::Namespace => namespace::check(),
        #[cfg(not(target_os = "linux"))]
        PlaceKind::Namespace => {
            Err("namespaces exist on Linux only (on FreeBSD, use place = \"jail\")".to_owned())
        }
        PlaceKind::Jail => jail::check(),
        #[cfg(target_os = "linux")]
        PlaceKind::Named(_) => namespace::check_network(),
        #[cfg(not(target_os = "linux"))]
        PlaceKind::Named(_) => Err(UNSUPPORTED.to_owned()),
    }
}
