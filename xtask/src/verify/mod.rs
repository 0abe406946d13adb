//! `cargo xtask verify`.
pub(crate) fn run(_args: &[&str]) -> Result<crate::Ending, String> {
    Ok(crate::Ending::Well)
}
