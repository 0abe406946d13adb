//! Names in `[load]` whose values differ for each request: the columns of the load's data file, the
//! variables that the steps of a journey capture, and the functions of `prony load`. Rendering the plan's templates leaves these names in place for
//! the load.

use prony_load::{Notation, SpecError, data_columns, request_functions};

use super::context::RenderContext;
use super::template::TemplateContext;
use crate::diagnostic::DiagnosticKind;
use crate::syntax::{PlanReader, TomlTable, TomlValue};

/// Returns the context for rendering the table `[load]`. If the load's data file can't be read,
/// reports the error and returns `None`.
pub(super) fn load_context(
    table: &TomlTable,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<TemplateContext> {
    let mut templates = around.templates.clone();
    for name in data_column_names(table, around, reader)? {
        templates.set_request_value(&name);
    }
    for name in captured_names(table) {
        templates.set_request_value(name);
    }
    for name in request_functions() {
        templates.set_request_value(name);
    }
    templates.add_request_functions();
    Some(templates)
}

/// Names of the variables that the plan's steps capture.
fn captured_names(table: &TomlTable) -> impl Iterator<Item = &str> {
    let steps = match table.get("step").map(|node| &node.value) {
        Some(TomlValue::Array(steps)) => steps.as_slice(),
        _ => &[],
    };
    let captures = steps
        .iter()
        .filter_map(|step| step.as_table()?.get("capture")?.as_table());
    captures.flat_map(|table| table.entries.iter().map(|entry| entry.key.as_str()))
}

fn data_column_names(
    table: &TomlTable,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<Vec<String>> {
    let Some(node) = table.get("data") else {
        return Some(Vec::new());
    };
    let node = around.templates.node(node, reader)?;
    let written = reader.scalar(&node, "data")?;
    match data_columns(&around.folder.file(&written)) {
        Ok(columns) => Some(columns),
        Err(error) => {
            let text = SpecError::from(error).in_notation(Notation::Keys);
            reader.report(DiagnosticKind::File, node.line, format!("[load]: {text}"));
            None
        }
    }
}
