//! Where services and the load live: the host itself, a set of Linux namespaces, a FreeBSD jail, or
//! a named place of the plan, which is a network of its own with links to others.

pub(crate) mod command;
pub mod jail;
#[cfg(target_os = "linux")]
pub(crate) mod namespace;
mod subnet;
pub mod topology;

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use crate::service::PlaceKind;

/// What this system can put around a service: a network of its own and a way in.
#[cfg(target_os = "freebsd")]
pub(crate) use jail::{Entry, Jail as Room, free_base, processes_in, remove};
#[cfg(target_os = "linux")]
pub(crate) use namespace::{Entry, Network as Room, Site, free_base, processes_in, remove};

/// Why named places can't be had on other systems.
#[cfg(not(target_os = "linux"))]
const NOT_BUILT: &str = "named places are built for Linux alone so far (on FreeBSD they would be vnet \
                         jails, joined by epair and limited by dummynet, which prony does not make)";

/// The named places of a trial: nobody has built any.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) enum Site {}

#[cfg(not(target_os = "linux"))]
impl Site {
    pub(crate) fn make(
        _prefix: &str,
        _topology: &topology::Topology,
        _state: &mut crate::host::state::RunState,
    ) -> Result<Self, crate::host::HostError> {
        Err(crate::host::HostError::Place {
            kind: PlaceKind::Named(0),
            reason: NOT_BUILT.to_owned(),
        })
    }

    pub(crate) fn entry(&self, _place: usize) -> Option<&Entry> {
        match *self {}
    }

    pub(crate) fn door(&self, _place: usize) -> Result<Option<Door>, crate::host::HostError> {
        match *self {}
    }

    pub(crate) fn traffic(&mut self) -> BTreeMap<String, topology::LinkTraffic> {
        match *self {}
    }

    pub(crate) fn facts(&self) -> &BTreeMap<String, crate::environment::PlaceFacts> {
        match *self {}
    }
}

/// Settings of a plan, sorted by whether a network can have them for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sorted {
    /// Those that it can, with their values.
    pub own: BTreeMap<String, String>,
    /// Those that it can't, each with the reason.
    pub not_applicable: BTreeMap<String, String>,
}

/// Whether links between named places can have rates on this machine.
///
/// # Errors
/// What is missing, and what would mend it.
pub fn check_rates() -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return namespace::check_rates();
    #[cfg(not(target_os = "linux"))]
    Err(NOT_BUILT.to_owned())
}

/// Sorts settings by asking the kernel, which takes root.
///
/// # Errors
/// Why it can't be asked.
pub fn sort_settings(settings: &BTreeMap<String, String>) -> Result<Sorted, String> {
    if settings.is_empty() {
        return Ok(Sorted::default());
    }
    #[cfg(target_os = "linux")]
    return namespace::sort_settings(settings);
    #[cfg(not(target_os = "linux"))]
    Err(NOT_BUILT.to_owned())
}

/// Runs `work` in a passing network in which the load's own addresses are local, as they will be in
/// its place.
///
/// # Errors
/// Why there can't be one; `work` has then not begun.
pub(crate) fn rehearse<T: Send>(
    sources: &[topology::Block],
    work: impl FnOnce() -> T + Send,
) -> Result<T, String> {
    #[cfg(target_os = "linux")]
    return namespace::rehearse(sources, work);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (sources, work);
        Err(NOT_BUILT.to_owned())
    }
}

/// A way for threads of this process into the network of a named place.
#[derive(Debug)]
pub struct Door(
    #[cfg(target_os = "linux")] Entry,
    #[cfg(not(target_os = "linux"))] std::convert::Infallible,
);

impl Door {
    /// The door to where `entry` leads.
    #[cfg(target_os = "linux")]
    pub(crate) fn to(entry: &Entry) -> io::Result<Self> {
        entry.another().map(Self)
    }

    /// Runs `work` on a thread within the place and waits for it. Threads that it starts are within
    /// the place, too; files and memory are this process's own.
    ///
    /// # Errors
    /// The place can't be entered; `work` has then not begun.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        #[cfg(target_os = "linux")]
        return self.0.visit(work);
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
            Self::Named(_) => "of its own name",
        })
    }
}

/// Whether this machine and this user can have places of that kind; for use before anything starts.
///
/// # Errors
/// What is missing, and what would mend it.
pub fn check(kind: PlaceKind) -> Result<(), String> {
    match kind {
        PlaceKind::Native => Ok(()),
        #[cfg(target_os = "linux")]
        PlaceKind::Namespace => namespace::check(),
        #[cfg(not(target_os = "linux"))]
        PlaceKind::Namespace => {
            Err("namespaces exist on Linux only (on FreeBSD use the place jail)".to_owned())
        }
        PlaceKind::Jail => jail::check(),
        #[cfg(target_os = "linux")]
        PlaceKind::Named(_) => namespace::check_network(),
        #[cfg(not(target_os = "linux"))]
        PlaceKind::Named(_) => Err(NOT_BUILT.to_owned()),
    }
}
