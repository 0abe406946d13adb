//! The keys `command` and `wrapper` of a service, which define the program that the host starts.

use std::collections::BTreeMap;
use std::path::Path;

use super::context::{MachineNeedKind, RenderContext};
use super::service_layout::ServiceLayout;
use crate::diagnostic::DiagnosticKind;
use crate::syntax::{PlanReader, TomlNode, TomlTable, TomlValue};

/// Reads the complete command, including the wrapper. Returns its words and the number of leading
/// words that belong to the wrapper.
pub(super) fn read_command(
    table: &TomlTable,
    layout: &ServiceLayout,
    env: &BTreeMap<String, String>,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> (Vec<String>, usize) {
    if layout.remote.is_some() {
        return (Vec::new(), 0);
    }
    let owner = format!("service \"{}\"", layout.name);
    let Some(command) = table.get("command") else {
        let message = format!("{owner} has no command");
        let hint = "add command = [\"program\", \"argument\"], image = \"name:tag\", or remote = \
            \"host:port\"";
        reader.report_with_hint(DiagnosticKind::MissingKey, layout.line, message, hint);
        return (Vec::new(), 0);
    };
    let mut whole = Vec::new();
    let mut wrapper_words = 0;
    for (key, node) in [
        ("wrapper", table.get("wrapper")),
        ("command", Some(command)),
    ] {
        let Some(node) = node else { continue };
        let Some(mut words) = read_words(node, key, &owner, reader) else {
            continue;
        };
        let Some(program) = words.first_mut() else {
            if key == "command" {
                let message = format!("the command of {owner} is empty");
                reader.report(DiagnosticKind::BadValue, node.line, message);
            }
            continue;
        };
        if layout.host.is_some() {
            check_host_program(program, &owner, node.line, reader);
        } else {
            *program = find_program(program, &owner, node.line, env, around);
        }
        if key == "wrapper" {
            wrapper_words = words.len();
        }
        whole.append(&mut words);
    }
    (whole, wrapper_words)
}

/// Reads the arguments of an image, which replace those that the image has.
pub(super) fn read_arguments(
    table: &TomlTable,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Vec<String> {
    let node = table.get("command");
    let words = node.and_then(|node| read_words(node, "command", owner, reader));
    words.unwrap_or_default()
}

/// Finds the program that the host starts. If this machine lacks the program, adds it to the
/// variant's requirements.
fn find_program(
    name: &str,
    owner: &str,
    line: usize,
    env: &BTreeMap<String, String>,
    around: &RenderContext<'_>,
) -> String {
    match around.machine.program(name, &around.folder.base, env) {
        Ok(found) => found,
        Err(missing) if around.layout.is_built(Path::new(&missing.started)) => missing.started,
        Err(missing) => {
            let need = MachineNeedKind::Program {
                owner: owner.to_owned(),
                name: name.to_owned(),
                hint: missing.hint,
                package: missing.package,
            };
            around.add_need(line, need);
            missing.started
        }
    }
}

/// Reports the relative path of a program on another host, because that host doesn't have the
/// plan's folder.
fn check_host_program(program: &str, owner: &str, line: usize, reader: &mut PlanReader<'_>) {
    if program.contains('/') && !program.starts_with('/') {
        let message = format!(
            "{owner}: {program} is a relative path, but its host doesn't have the plan's \
                folder"
        );
        let hint = "name a program that is installed there, or write its full path";
        reader.report_with_hint(DiagnosticKind::BadValue, line, message, hint);
    }
}

fn read_words(
    node: &TomlNode,
    key: &str,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<Vec<String>> {
    // Users often write a command as one string, as for a shell, but prony doesn't split strings.
    if let TomlValue::Text(text) = &node.value
        && text.trim().contains(char::is_whitespace)
    {
        let words: Vec<_> = text
            .split_whitespace()
            .map(|word| format!("\"{word}\""))
            .collect();
        let message = format!("{key} of {owner} is one string, not an array of arguments");
        let hint = format!("write {key} = [{}]", words.join(", "));
        reader.report_with_hint(DiagnosticKind::WrongType, node.line, message, hint);
        return None;
    }
    let words = reader.texts(node, &format!("{key} of {owner}"))?;
    if words.first().is_some_and(String::is_empty) {
        let message = format!("{key} of {owner} names no program");
        reader.report(DiagnosticKind::BadValue, node.line, message);
        return None;
    }
    Some(words)
}
