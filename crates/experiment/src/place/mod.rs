//! Where services live: the host itself, a set of Linux namespaces, a FreeBSD jail.

pub(crate) mod command;
pub mod jail;
#[cfg(target_os = "linux")]
pub(crate) mod namespace;

use crate::service::PlaceKind;

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
