//! The keys `host` of a service and `agents` of the load, which name other machines.

use super::template::TemplateContext;
use crate::diagnostic::DiagnosticKind;
use crate::model::LOCAL;
use crate::syntax::{PlanReader, TomlNode, TomlTable};

/// Maximum length of a machine's name or label in bytes.
const HOST_BYTES_MAX: usize = 200;

/// Maximum number of agents that a load can request by number.
const AGENTS_MAX: u32 = 10_000;

/// Reads a host: the name of a `[host.NAME]`, an agent's name, or a label such as `role=server`.
/// Returns `None` for the machine
/// that runs the plan.
pub(crate) fn read_host(
    node: &TomlNode,
    subject: &str,
    reader: &mut PlanReader<'_>,
) -> Option<String> {
    let text = reader.text(node, subject)?;
    if text.is_empty() || text == LOCAL {
        return None;
    }
    if !is_host(&text) {
        let message = format!(
            "{subject} is \"{text}\", not the name of a host or agent, or an agent's label"
        );
        let hint = format!(
            "write it like \"web-1\" or \"role=server\"; \"{LOCAL}\" is this \
            machine"
        );
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
        return None;
    }
    Some(text)
}

/// Reads `agents` of the load: a number, names or labels. Returns `None` if the load comes from the
/// machine that runs the plan.
pub(crate) fn read_agents(
    load: &TomlTable,
    context: &TemplateContext,
    reader: &mut PlanReader<'_>,
) -> Option<String> {
    let node = context.node(load.get("agents")?, reader)?;
    let text = reader.scalar(&node, "agents of [load]")?;
    if text.is_empty() || text == LOCAL {
        return None;
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_valid = if is_number {
        text.parse()
            .is_ok_and(|number: u32| (1..=AGENTS_MAX).contains(&number))
    } else {
        text.split(',').all(|part| is_host(part.trim()))
    };
    if !is_valid {
        let message =
            format!("agents of [load] is \"{text}\", not a number of agents or their names");
        let hint =
            "use a number or a selection, such as 4, \"client-1,client-2\" or \"role=client\"";
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
        return None;
    }
    if load.get("place").is_some() {
        let message = "[load] has both agents and a place";
        let hint = "a place is a network of this machine; remove agents or place";
        let line = load.line_of("place");
        reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
    }
    Some(text)
}

fn is_host(text: &str) -> bool {
    let is_name = |text: &str| {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        !text.is_empty() && text.chars().all(is_allowed)
    };
    let is_label = |(key, value): (&str, &str)| {
        !key.is_empty() && !value.is_empty() && !text.contains(char::is_whitespace)
    };
    text.len() <= HOST_BYTES_MAX && (is_name(text) || text.split_once('=').is_some_and(is_label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_a_label() {
        for valid in ["web-1", "WEB_2", "role=server", "os=free/bsd-14.1"] {
            assert!(is_host(valid), "{valid}");
        }
        for invalid in ["a.b", "=x", "x=", "a b", "a=b c", "*", "ä"] {
            assert!(!is_host(invalid), "{invalid}");
        }
    }
}
