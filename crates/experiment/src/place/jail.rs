//! The jail place (FreeBSD).

use crate::host::HostError;

/// Whether this machine and this user can have jails.
pub(crate) fn check() -> Result<(), String> {
    Err("jails exist on FreeBSD only (on Linux use the place namespace)".to_owned())
}

/// Removes a jail; one that is gone already is no error.
pub(crate) fn remove(_name: &str) -> Result<bool, HostError> {
    Ok(false)
}
