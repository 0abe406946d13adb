//! The jail place (FreeBSD).
pub(crate) fn check() -> Result<(), String> {
    Err("jails exist on FreeBSD only (on Linux use the place namespace)".to_owned())
}
