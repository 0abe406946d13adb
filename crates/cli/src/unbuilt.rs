//! Values of options that prony is to have and does not have yet: refused by name, absent from every
//! help.

/// Unsupported values of options that have supported ones.
const VALUES: &[(&str, &str)] = &[("--http", "3")];

/// The refusal of a value that is not built yet; `option` may be followed by the name of its value.
pub(crate) fn value(option: &str, typed: &str) -> Option<String> {
    let name = option.split_whitespace().next().unwrap_or(option);
    VALUES
        .contains(&(name, typed))
        .then(|| format!("{name} {typed} is not supported in this version (see --help)"))
}
