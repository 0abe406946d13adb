//! `[service.NAME]`, `[place.NAME]` and `[link.NAME]`: the named tables of a plan.

use super::factors::{PlanFactor, is_usable_name};
use crate::diagnostic::DiagnosticKind;
use crate::syntax::{PlanReader, TomlTable};

/// Values of the key `place` that don't refer to a `[place.NAME]` table.
pub(crate) const PLACE_WORDS: [&str; 2] = ["native", "namespace"];

/// Names that a link can't have, because the kernel uses them for network interfaces and their
/// settings.
const LINK_RESERVED_NAMES: [&str; 3] = ["lo", "all", "default"];

/// Maximum number of services in a plan; the same limit applies to places and to links.
pub(super) const SECTIONS_MAX: usize = 64;

/// Maximum length of a place's name in bytes.
const PLACE_NAME_MAX: usize = 32;

/// Maximum length of a link's name in bytes. A link's network interfaces have the same name, so
/// this is the kernel's limit for their names.
const LINK_NAME_MAX: usize = 15;

/// A named table of the plan, such as `[service.web]`, with templates that are not rendered yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedTable {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) table: TomlTable,
}

/// Reads the tables under `service`. Templates use services and factors by name, so no service may
/// have the name of a factor.
pub(super) fn read_services(
    plan: &TomlTable,
    factors: &[PlanFactor],
    constants: &[PlanFactor],
    reader: &mut PlanReader<'_>,
) -> Vec<NamedTable> {
    let Some(node) = plan.get("service") else {
        let hint = "add [service.NAME] with a command, or with remote = \"host:port\"";
        reader.report_with_hint(
            DiagnosticKind::MissingKey,
            0,
            "the plan has no services",
            hint,
        );
        return Vec::new();
    };
    let Some(table) = reader.table(node, "service") else {
        return Vec::new();
    };
    if table.entries.len() > SECTIONS_MAX {
        let message = format!("the plan has more than {SECTIONS_MAX} services");
        reader.report(DiagnosticKind::Structure, node.line, message);
        return Vec::new();
    }
    let mut services = Vec::new();
    for entry in &table.entries {
        if !is_usable_name("service", &entry.key, entry.line, reader) {
            continue;
        }
        let mut factors = factors.iter().chain(constants);
        if factors.any(|factor| factor.name == entry.key) {
            let message = format!("\"{}\" is the name of a factor and of a service", entry.key);
            let hint = "rename one, because templates could mean either";
            reader.report_with_hint(DiagnosticKind::Structure, entry.line, message, hint);
            continue;
        }
        let subject = format!("service \"{}\"", entry.key);
        let Some(service) = reader.table(&entry.node, &subject) else {
            continue;
        };
        services.push(NamedTable {
            name: entry.key.clone(),
            line: entry.line,
            table: service.clone(),
        });
    }
    services
}

/// Reads the tables under `key`, which is `place` or `link`.
pub(super) fn read_networks(
    key: &str,
    plan: &TomlTable,
    reader: &mut PlanReader<'_>,
) -> Vec<NamedTable> {
    let Some(all) = plan.get(key).and_then(|node| reader.table(node, key)) else {
        return Vec::new();
    };
    if all.entries.len() > SECTIONS_MAX {
        let message = format!("the plan has more than {SECTIONS_MAX} [{key}.NAME] tables");
        reader.report(DiagnosticKind::Structure, all.line, message);
        return Vec::new();
    }
    let (reserved, length_max) = if key == "link" {
        (&LINK_RESERVED_NAMES[..], LINK_NAME_MAX)
    } else {
        (&PLACE_WORDS[..], PLACE_NAME_MAX)
    };
    let mut sections = Vec::new();
    for entry in &all.entries {
        let name = &entry.key;
        if !is_usable_name(key, name, entry.line, reader) {
            continue;
        }
        if reserved.contains(&name.as_str()) {
            let message = format!("a {key} can't have the name \"{name}\", which is reserved");
            reader.report_with_hint(
                DiagnosticKind::BadValue,
                entry.line,
                message,
                "choose another name",
            );
        } else if name.len() > length_max {
            let message = format!("the name of {key} \"{name}\" is too long");
            let hint = format!("use at most {length_max} letters");
            reader.report_with_hint(DiagnosticKind::BadValue, entry.line, message, hint);
        } else if let Some(section) = reader.table(&entry.node, &format!("{key} \"{name}\"")) {
            sections.push(NamedTable {
                name: name.clone(),
                line: entry.line,
                table: section.clone(),
            });
        }
    }
    sections
}
