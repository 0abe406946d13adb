//! What prony is to have and does not have yet: refused by name, absent from every help.

/// Commands.
const COMMANDS: &[&str] = &[];

/// Options.
const OPTIONS: &[&str] = &["--pdf", "--url"];

/// Values of options that have others.
const VALUES: &[(&str, &str)] = &[("--http", "3")];

/// The name of a command that is not built yet, if that is what was typed.
pub(crate) fn command(typed: &str) -> Option<String> {
    COMMANDS
        .contains(&typed)
        .then(|| sentence(&format!("prony {typed}")))
}

/// The same for an option, as typed: `--proxy` or `--proxy=…`.
pub(crate) fn option(typed: &str) -> Option<String> {
    let name = typed.split('=').next().unwrap_or(typed);
    OPTIONS.contains(&name).then(|| sentence(name))
}

/// The same for a value; `option` may be followed by the name of its value.
pub(crate) fn value(option: &str, typed: &str) -> Option<String> {
    let name = option.split_whitespace().next().unwrap_or(option);
    VALUES
        .contains(&(name, typed))
        .then(|| sentence(&format!("{name} {typed}")))
}

fn sentence(what: &str) -> String {
    format!("{what} is not built yet; --help lists what is there in this version")
}
