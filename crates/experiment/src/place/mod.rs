//! Where services live: the host itself, a set of Linux namespaces, a FreeBSD jail.

pub(crate) mod command;
pub mod jail;
#[cfg(target_os = "linux")]
pub(crate) mod namespace;
mod subnet;

use crate::service::PlaceKind;

/// What this system can put around a service: a network of its own and a way in.
#[cfg(target_os = "freebsd")]
pub(crate) use jail::{Entry, Jail as Room, free_base, processes_in, remove};
#[cfg(target_os = "linux")]
pub(crate) use namespace::{Entry, Network as Room, free_base, processes_in, remove};

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
    }
}
