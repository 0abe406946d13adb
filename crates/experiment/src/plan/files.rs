//! The files of a service: rendered, copied, written in place or made.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use super::certificate::Certificate;
use super::error::{Fault, did_you_mean};
use super::node::{Entry, Node, Table, Value};
use super::reader::Reader;
use super::services::Surroundings;

/// What a file's table may say, of which exactly one: where its text comes from, or what is made.
pub(crate) const KINDS: &[&str] = &["template", "copy", "text", "certificate", "key_of"];

/// The same, for whoever wrote something else.
const MEND: &str = "{ template = \"path\" }, { copy = \"path\" }, { text = \"…\" }, \
                    { certificate = \"host\" } or { key_of = \"its file\" }";

/// One of [`KINDS`] and its value; `None` after a refusal.
fn kind<'n>(node: &'n Node, what: &str, reader: &mut Reader<'_>) -> Option<&'n Entry> {
    let Value::Table(table) = &node.value else {
        let text = format!("{what} is {}, not a table", node.value.kind());
        reader.refuse_with(Fault::WrongType, node.line, text, MEND);
        return None;
    };
    reader.known_keys(table, what, KINDS);
    let [entry] = table.entries.as_slice() else {
        let text = format!("{what} needs exactly one of {}", KINDS.join(", "));
        reader.refuse_with(Fault::Structure, node.line, text, MEND);
        return None;
    };
    KINDS.contains(&entry.key.as_str()).then_some(entry)
}

/// A service's files by name.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) plain: BTreeMap<String, Vec<u8>>,
    /// Those that only their owner may read.
    pub(crate) secret: BTreeMap<String, Vec<u8>>,
}

/// Reads `files`; what is refused is left out, and the reader has why.
pub(crate) fn read(
    node: Option<&Node>,
    owner: &str,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Files {
    let mut files = Files::default();
    // Only a whole `{{ … }}` is rendered here: the texts of a table written in place are rendered
    // one by one, since what they hold is a file's text whatever it looks like.
    let rendered;
    let node = match node {
        Some(
            node @ Node {
                value: Value::Text(_),
                ..
            },
        ) => {
            rendered = around.context.node(node, reader);
            rendered.as_ref()
        }
        node => node,
    };
    let Some(table) = node.and_then(|node| reader.table(node, &format!("files of {owner}"))) else {
        return files;
    };
    for entry in &table.entries {
        let what = format!("file \"{}\" of {owner}", entry.key);
        if !is_file_name(&entry.key) {
            let mend = "a name below the service's own folder, such as \"nginx.conf\"";
            reader.refuse_with(
                Fault::BadValue,
                entry.line,
                format!("{what} can't be called so"),
                mend,
            );
            continue;
        }
        let name = entry.key.clone();
        let Some(kind) = kind(&entry.node, &what, reader) else {
            continue;
        };
        match kind.key.as_str() {
            "certificate" => {
                let made = read_certificate(&kind.node, &what, around, reader);
                files
                    .plain
                    .extend(made.map(|made| (name, made.certificate.into_bytes())));
            }
            "key_of" => {
                let made = read_key(&kind.node, &what, table, around, reader);
                files
                    .secret
                    .extend(made.map(|made| (name, made.key.into_bytes())));
            }
            _ => {
                let bytes = read_file(kind, &what, around, reader);
                files.plain.extend(bytes.map(|bytes| (name, bytes)));
            }
        }
    }
    files
}

/// A self-signed certificate for one host name or address, or several.
fn read_certificate(
    node: &Node,
    what: &str,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Option<Certificate> {
    let given = around.context.node(node, reader)?;
    let names = reader.texts(&given, &format!("certificate of {what}"))?;
    let made = around.certificates.of(&names).map_err(|trouble| {
        let text = format!("{what}: the certificate {trouble}");
        let mend = "write { certificate = \"localhost\" } or several names as an array";
        reader.refuse_with(Fault::BadValue, node.line, text, mend);
    });
    made.ok()
}

/// The private key of a certificate that stands beside it in the same table.
fn read_key(
    node: &Node,
    what: &str,
    files: &Table,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Option<Certificate> {
    let given = around.context.node(node, reader)?;
    let of = reader.text(&given, &format!("key_of of {what}"))?;
    let names_of = |entry: &'_ Entry| match &entry.node.value {
        Value::Table(table) => table.get("certificate").cloned(),
        _ => None,
    };
    let found = files.entries.iter().find(|entry| entry.key == of);
    let Some(names) = found.and_then(names_of) else {
        let text = format!("{what}: \"{of}\" is no certificate among the same files");
        let certificates = files
            .entries
            .iter()
            .filter(|entry| names_of(entry).is_some());
        let known: Vec<&str> = certificates.map(|entry| entry.key.as_str()).collect();
        let mend = did_you_mean(&of, known.iter().copied()).unwrap_or_else(|| match &known[..] {
            [] => format!("add \"{of}\" = {{ certificate = \"localhost\" }}"),
            known => format!("there is: {}", known.join(", ")),
        });
        reader.refuse_with(Fault::Undefined, node.line, text, mend);
        return None;
    };
    // What is wrong with the names is said where they stand.
    let names = around.context.node(&names, reader)?;
    let names = reader.texts(&names, &format!("certificate of file \"{of}\""))?;
    around.certificates.of(&names).ok()
}

/// A file given by a template's path, by a path to copy, or by its text.
fn read_file(
    entry: &Entry,
    what: &str,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Option<Vec<u8>> {
    let given = around.context.node(&entry.node, reader)?;
    let given = reader.text(&given, &format!("{} of {what}", entry.key))?;
    if entry.key == "text" {
        return Some(given.into_bytes());
    }
    around.references.borrow_mut().insert(given.clone());
    let bytes = around.folder.read(&given).map_err(|trouble| {
        let text = format!("{what}: {} {trouble}", around.folder.file(&given).display());
        let mend = "relative paths start from the plan's folder";
        reader.refuse_with(Fault::File, entry.node.line, text, mend);
    });
    let bytes = bytes.ok()?;
    if entry.key == "copy" {
        return Some(bytes);
    }
    let shown = reader
        .file
        .parent()
        .unwrap_or_else(|| Path::new(""))
        .join(&given);
    let Ok(source) = String::from_utf8(bytes) else {
        let text = format!("{what}: {} is no text in UTF-8", shown.display());
        reader.refuse_with(
            Fault::File,
            entry.node.line,
            text,
            "{ copy = … } takes any bytes",
        );
        return None;
    };
    let mut within = Reader {
        file: &shown,
        mistakes: reader.mistakes,
    };
    around
        .context
        .file(&source, &mut within)
        .map(String::into_bytes)
}

/// A path below the service's own folder.
fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.chars().any(char::is_control)
        && Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}
