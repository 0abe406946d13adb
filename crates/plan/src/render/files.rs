//! The `files` key of a service. A file is rendered from a template, copied, generated, or given
//! inline in the plan.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use super::context::RenderContext;
use crate::diagnostic::{DiagnosticKind, did_you_mean};
use crate::model::SelfSignedCertificate;
use crate::reference::PlanTable;
use crate::syntax::{PlanReader, TomlEntry, TomlNode, TomlTable, TomlValue};

const FILE_SOURCES_HINT: &str = "{ template = \"path\" }, { copy = \"path\" }, { text = \"…\" }, \
                                 { certificate = \"host\" } or { key_of = \"certificate file\" }";

/// Maximum length of a file's name in bytes.
const FILE_NAME_MAX: usize = 255;

/// Contents of a service's files by name.
#[derive(Default)]
pub(super) struct ServiceFiles {
    pub(super) public: BTreeMap<String, Vec<u8>>,
    /// Files that only their owner can read.
    pub(super) secret: BTreeMap<String, Vec<u8>>,
}

/// Reads `files`. Files with problems are omitted.
pub(super) fn read_files(
    node: Option<&TomlNode>,
    owner: &str,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> ServiceFiles {
    let mut files = ServiceFiles::default();
    // Render `files` itself only if it consists of one `{{ … }}`. The strings of a table are
    // rendered individually, and the result of rendering `text` is not rendered again.
    let rendered;
    let node = match node {
        Some(
            node @ TomlNode {
                value: TomlValue::Text(_),
                ..
            },
        ) => {
            rendered = around.templates.node(node, reader);
            rendered.as_ref()
        }
        node => node,
    };
    let Some(table) = node.and_then(|node| reader.table(node, &format!("files of {owner}"))) else {
        return files;
    };
    for entry in &table.entries {
        let subject = format!("file \"{}\" of {owner}", entry.key);
        if !is_file_name(&entry.key) {
            let message = format!("{subject} has an invalid name");
            let hint = "use a path below the service's own folder, such as \"nginx.conf\"";
            reader.report_with_hint(DiagnosticKind::BadValue, entry.line, message, hint);
            continue;
        }
        let name = entry.key.clone();
        let Some(source) = read_source(&entry.node, &subject, reader) else {
            continue;
        };
        match source.key.as_str() {
            "certificate" => {
                let made = make_certificate(&source.node, &subject, around, reader);
                let content = made.map(|made| made.certificate.into_bytes());
                files.public.extend(content.map(|content| (name, content)));
            }
            "key_of" => {
                let made = find_key(&source.node, &subject, table, around, reader);
                let content = made.map(|made| made.key.into_bytes());
                files.secret.extend(content.map(|content| (name, content)));
            }
            _ => {
                let content = read_content(source, &subject, around, reader);
                files.public.extend(content.map(|content| (name, content)));
            }
        }
    }
    files
}

/// Reads the only entry of a file's table, which defines the content of the file.
fn read_source<'n>(
    node: &'n TomlNode,
    subject: &str,
    reader: &mut PlanReader<'_>,
) -> Option<&'n TomlEntry> {
    let Some(table) = node.as_table() else {
        let message = format!("{subject} is {}, not a table", node.value.kind());
        let kind = DiagnosticKind::WrongType;
        reader.report_with_hint(kind, node.line, message, FILE_SOURCES_HINT);
        return None;
    };
    reader.report_unknown_keys(table, subject, &PlanTable::File.names());
    let [entry] = table.entries.as_slice() else {
        let message = format!(
            "{subject} needs exactly one of {}",
            PlanTable::File.names().join(", ")
        );
        let kind = DiagnosticKind::Structure;
        reader.report_with_hint(kind, node.line, message, FILE_SOURCES_HINT);
        return None;
    };
    let is_known = PlanTable::File.names().contains(&entry.key.as_str());
    is_known.then_some(entry)
}

/// Generates a self-signed certificate for one or more host names or addresses.
fn make_certificate(
    node: &TomlNode,
    subject: &str,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<SelfSignedCertificate> {
    let given = around.templates.node(node, reader)?;
    let names = reader.texts(&given, &format!("certificate of {subject}"))?;
    match around.certificates.for_names(&names) {
        Ok(made) => Some(made),
        Err(error) => {
            let message = format!("{subject}: the certificate {error}");
            let hint = "write { certificate = \"localhost\" }, or an array of names";
            reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
            None
        }
    }
}

/// Finds the private key that belongs to a certificate of the same service.
fn find_key(
    node: &TomlNode,
    subject: &str,
    files: &TomlTable,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<SelfSignedCertificate> {
    let given = around.templates.node(node, reader)?;
    let certificate = reader.text(&given, &format!("key_of of {subject}"))?;
    let names_of = |entry: &TomlEntry| entry.node.as_table()?.get("certificate").cloned();
    let found = files.entries.iter().find(|entry| entry.key == certificate);
    let Some(names) = found.and_then(names_of) else {
        let message = format!("{subject}: \"{certificate}\" is not a certificate of this service");
        let certificates = files
            .entries
            .iter()
            .filter(|entry| names_of(entry).is_some());
        let known: Vec<&str> = certificates.map(|entry| entry.key.as_str()).collect();
        let hint = did_you_mean(&certificate, known.iter().copied()).unwrap_or_else(|| {
            if known.is_empty() {
                format!("add \"{certificate}\" = {{ certificate = \"localhost\" }}")
            } else {
                format!("its certificates: {}", known.join(", "))
            }
        });
        reader.report_with_hint(DiagnosticKind::Undefined, node.line, message, hint);
        return None;
    };
    // Problems in the names are reported when the certificate is read.
    let names = around.templates.node(&names, reader)?;
    let names = reader.texts(&names, &format!("certificate of file \"{certificate}\""))?;
    around.certificates.for_names(&names).ok()
}

/// Reads a file's content from a template, from a file to copy, or from the plan.
fn read_content(
    entry: &TomlEntry,
    subject: &str,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<Vec<u8>> {
    let given = around.templates.node(&entry.node, reader)?;
    let given = reader.text(&given, &format!("{} of {subject}", entry.key))?;
    if entry.key == "text" {
        return Some(given.into_bytes());
    }
    around.references.borrow_mut().insert(given.clone());
    let line = entry.node.line;
    let bytes = match around.folder.read(&given) {
        Ok(bytes) => bytes,
        Err(error) => {
            let path = around.folder.file(&given);
            let message = format!("{subject}: {} {error}", path.display());
            let hint = "relative paths are resolved against the plan's folder";
            reader.report_with_hint(DiagnosticKind::File, line, message, hint);
            return None;
        }
    };
    if entry.key == "copy" {
        return Some(bytes);
    }
    let parent = reader.file.parent().unwrap_or_else(|| Path::new(""));
    let shown = parent.join(&given);
    let Ok(source) = String::from_utf8(bytes) else {
        let message = format!("{subject}: {} is not UTF-8 text", shown.display());
        let hint = "{ copy = … } accepts any bytes";
        reader.report_with_hint(DiagnosticKind::File, line, message, hint);
        return None;
    };
    let mut reader = PlanReader {
        file: &shown,
        diagnostics: reader.diagnostics,
    };
    let rendered = around.templates.file(&source, &mut reader);
    rendered.map(String::into_bytes)
}

/// Returns true if a name is a path below the service's folder.
fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= FILE_NAME_MAX
        && !name.chars().any(char::is_control)
        && Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}
