//! Builds the command line of a load and a one-line description of its machine, for the record.

use prony_load::LoadSettings;
use prony_machine::environment::MachineFacts;
use prony_record::redact;
use prony_report::number;

/// Headers whose values are recorded. The values of all other headers may be secret and are
/// omitted.
const PUBLIC_HEADERS: [&str; 7] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-type",
    "user-agent",
];
/// Text that replaces a secret.
const OMITTED: &str = "…";

/// Returns the command line of a load, quoted for a shell. `command` is `load`, or another command
/// with the same options. The values of headers, bodies and passwords are replaced.
pub(crate) fn of_load(command: &str, url: Option<&str>, settings: &LoadSettings) -> String {
    let mut words = vec!["prony".to_owned(), command.to_owned()];
    words.extend(url.map(redact::url));
    for mut setting in settings.given() {
        for value in &mut setting.values {
            *value = public_value(&setting.key, value);
        }
        words.extend(setting.flags());
    }
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}

/// Returns the value of a setting, with secrets replaced.
fn public_value(key: &str, value: &str) -> String {
    let is_open = |name: &str| PUBLIC_HEADERS.contains(&name.trim().to_ascii_lowercase().as_str());
    match (key, value.split_once(':')) {
        ("header", Some((name, _))) if !is_open(name) => format!("{name}: {OMITTED}"),
        ("header", _) => value.to_owned(),
        ("body" | "user", _) => OMITTED.to_owned(),
        ("proxy", _) => match value.rsplit_once('@') {
            Some((_, address)) => address.to_owned(),
            None => value.to_owned(),
        },
        _ => redact::url(value),
    }
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%…".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Describes a machine in one line: system, processor, cores and memory.
pub(crate) fn machine(machine: &MachineFacts) -> String {
    let system = format!("{} {}", machine.system, machine.kernel);
    let cpu = match machine.cpu.as_str() {
        "" => machine.architecture.as_str(),
        cpu => cpu,
    };
    let cores = number::plural(machine.cores as u64, "core", "cores");
    let virtualised = if machine.virtualised { ", virtual" } else { "" };
    let distribution = match machine.distribution.as_str() {
        "" => String::new(),
        name => format!(" ({name})"),
    };
    format!(
        "{system}{distribution}, {cores} of {cpu}{virtualised}, {}",
        number::bytes(machine.memory_bytes as f64)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_command_is_stored_without_its_secrets() {
        let settings = LoadSettings {
            header: vec![
                "Authorization: Bearer secret".to_owned(),
                "Accept: text/html".to_owned(),
            ],
            body: Some("secret".to_owned()),
            insecure: true,
            proxy: "ann:secret@127.0.0.1:3128".parse().ok(),
            duration: Some(Duration::from_secs(3)),
            ..LoadSettings::default()
        };
        let kept = of_load(
            "load",
            Some("http://ann:secret@127.0.0.1:8080/a?b=c@d"),
            &settings,
        );
        assert_eq!(
            kept,
            "prony load 'http://127.0.0.1:8080/a?b=c@d' --duration=3s '--header=Authorization: …' \
             '--header=Accept: text/html' --body=… --proxy=127.0.0.1:3128 --insecure"
        );
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
