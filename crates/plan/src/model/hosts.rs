//! `[host.NAME]`: machines on which services run over ssh.

use core::net::IpAddr;

use super::sections::SECTIONS_MAX;
use crate::diagnostic::DiagnosticKind;
use crate::reference::PlanTable;
use crate::ssh_host::{SshHost, is_destination};
use crate::syntax::{PlanReader, TomlEntry, TomlNode, TomlTable, TomlValue};

/// Name that stands for the machine that runs the plan.
pub(crate) const LOCAL: &str = "local";

/// Maximum length of a host's name in bytes.
const HOST_NAME_MAX: usize = 64;

/// Reads the tables under `host`. Their values contain no templates, because all variants share the
/// connections.
pub(super) fn read_hosts(plan: &TomlTable, reader: &mut PlanReader<'_>) -> Vec<SshHost> {
    let Some(all) = plan.get("host").and_then(|node| reader.table(node, "host")) else {
        return Vec::new();
    };
    if all.entries.len() > SECTIONS_MAX {
        let message = format!("the plan has more than {SECTIONS_MAX} [host.NAME] tables");
        reader.report(DiagnosticKind::Structure, all.line, message);
        return Vec::new();
    }
    let entries = all.entries.iter();
    entries
        .filter_map(|entry| read_host(entry, reader))
        .collect()
}

fn read_host(entry: &TomlEntry, reader: &mut PlanReader<'_>) -> Option<SshHost> {
    let name = &entry.key;
    let owner = format!("host \"{name}\"");
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name == LOCAL
        || name.is_empty()
        || !name.chars().all(is_allowed)
        || name.len() > HOST_NAME_MAX
    {
        let message = format!("{owner} has a name that a host can't have");
        let hint = format!(
            "use up to {HOST_NAME_MAX} letters, digits, - and _; \"{LOCAL}\" is the machine that \
             runs prony"
        );
        reader.report_with_hint(DiagnosticKind::BadValue, entry.line, message, hint);
        return None;
    }
    let table = reader.table(&entry.node, &owner)?;
    reader.report_unknown_keys(table, &owner, &PlanTable::Host.names());
    report_templates(table, &owner, reader);
    let Some(node) = table.get("ssh") else {
        let message = format!("{owner} has no ssh");
        let hint = "add ssh = \"user@host\"";
        reader.report_with_hint(DiagnosticKind::MissingKey, entry.line, message, hint);
        return None;
    };
    let (ssh, destination) = read_ssh(node, &owner, reader)?;
    Some(SshHost {
        name: name.clone(),
        line: entry.line,
        destination,
        ssh,
        address: table
            .get("address")
            .and_then(|node| read_address(node, &owner, reader)),
        sudo: table.get("sudo").is_some_and(|node| {
            let subject = format!("sudo of {owner}");
            reader.choice(node, &subject, &["true", "false"]) == Some("true")
        }),
        dir: table
            .get("dir")
            .and_then(|node| read_dir(node, &owner, reader)),
    })
}

/// Reads the arguments of ssh, of which the last is the destination.
fn read_ssh(
    node: &TomlNode,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<(Vec<String>, String)> {
    let mut words = reader.texts(node, &format!("ssh of {owner}"))?;
    match words.pop() {
        Some(destination) if is_destination(&destination) => Some((words, destination)),
        last => {
            let last = last.unwrap_or_default();
            let message =
                format!("ssh of {owner} ends with \"{last}\", which is not an ssh destination");
            let hint = "write ssh = \"user@host\" or ssh = [\"-p\", \"2222\", \"user@host\"]";
            reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
            None
        }
    }
}

fn read_address(node: &TomlNode, owner: &str, reader: &mut PlanReader<'_>) -> Option<IpAddr> {
    let text = reader.text(node, &format!("address of {owner}"))?;
    let address = text.parse::<IpAddr>().ok();
    let usable = address.filter(|address| !address.is_unspecified() && !address.is_multicast());
    if usable.is_none() {
        let message = format!("address of {owner} is \"{text}\", not an IP address of a machine");
        let hint = "write an address of that machine, such as \"10.0.0.2\"";
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
    }
    usable
}

fn read_dir(node: &TomlNode, owner: &str, reader: &mut PlanReader<'_>) -> Option<String> {
    let text = reader.text(node, &format!("dir of {owner}"))?;
    let is_path = text.starts_with('/') && !text.contains(['\n', '\0']);
    if !is_path {
        let message = format!("dir of {owner} is \"{text}\", not an absolute path");
        let hint = "write a folder of that machine, such as \"/var/tmp\"";
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
    }
    is_path.then_some(text)
}

fn report_templates(table: &TomlTable, owner: &str, reader: &mut PlanReader<'_>) {
    let is_template = |node: &TomlNode| match &node.value {
        TomlValue::Text(text) => text.contains("{{"),
        TomlValue::Array(items) => items
            .iter()
            .any(|item| matches!(&item.value, TomlValue::Text(text) if text.contains("{{"))),
        _ => false,
    };
    for entry in table.entries.iter().filter(|it| is_template(&it.node)) {
        let message = format!("{} of {owner} contains a template", entry.key);
        let hint = "define a [host.NAME] for each machine, and vary host of the service";
        reader.report_with_hint(DiagnosticKind::BadValue, entry.line, message, hint);
    }
}
