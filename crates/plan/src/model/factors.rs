//! `[factors]`: the properties of the setup that vary, and the levels of each.

use std::collections::BTreeSet;

use super::limits::{LEVEL_NAME_MAX, VARIANTS_MAX};
use super::ranges;
use crate::diagnostic::DiagnosticKind;
use crate::syntax::{PlanReader, TomlEntry, TomlNode, TomlTable, TomlValue, is_name};

/// Reserved words of the template language, which can't be the name of a factor or service.
const TEMPLATE_WORDS: &[&str] = &[
    "true", "false", "none", "True", "False", "None", "not", "and", "or", "in", "is", "if", "else",
    "loop", "self", "caller",
];

/// A property of the setup that the plan varies. It has at least two levels.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanFactor {
    /// Name of the factor in templates and results.
    pub name: String,
    /// Line of the factor in the plan, from 1.
    pub line: usize,
    /// Levels in the plan's order.
    pub levels: Vec<FactorLevel>,
    /// Keys that occur in the table of at least one level; `None` if the levels are plain values.
    pub(crate) keys: Option<BTreeSet<String>>,
}

/// A value of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct FactorLevel {
    /// Name of the level in results.
    pub name: String,
    /// The plain value, or the table. The key `name` of a table is the level's name.
    pub(crate) node: TomlNode,
}

impl PlanFactor {
    pub(crate) fn level(&self, name: &str) -> Option<&FactorLevel> {
        self.levels.iter().find(|level| level.name == name)
    }
}

/// Reads `[factors]`. If a factor has a single level and `baseline` names another level of that
/// factor, the level of the baseline is added. `cores` is the number of cores of this machine.
pub(crate) fn read_factors(
    table: &TomlTable,
    baseline: Option<&TomlTable>,
    cores: usize,
    reader: &mut PlanReader<'_>,
) -> Vec<PlanFactor> {
    let mut factors = Vec::new();
    for entry in &table.entries {
        if !is_usable_name("factor", &entry.key, entry.line, reader) {
            continue;
        }
        let written = ranges::expand(&entry.node, &entry.key, cores, reader);
        let mut levels = read_levels(&entry.key, &written, reader);
        if levels.len() == 1
            && let Some(other) = baseline.and_then(|table| table.get(&entry.key))
            && let Some(name) = other.value.scalar_text()
            && levels[0].name != name
        {
            levels.insert(
                0,
                FactorLevel {
                    name,
                    node: other.clone(),
                },
            );
        }
        if levels.len() == 1 && !is_constant(&levels[0], &entry.key, baseline) {
            report_single_level(entry.line, &entry.key, reader);
        }
        let keys = unify(&mut levels);
        factors.push(PlanFactor {
            name: entry.key.clone(),
            line: entry.line,
            levels,
            keys,
        });
    }
    factors
}

/// Reports a factor with a single level.
pub(crate) fn report_single_level(line: usize, factor: &str, reader: &mut PlanReader<'_>) {
    reader.report_with_hint(
        DiagnosticKind::Structure,
        line,
        format!("factor \"{factor}\" has one level; comparing needs at least two"),
        "add a level, or name another one in baseline",
    );
}

/// Returns true if the only level of a factor is a table that the baseline names.
///
/// Such a factor is a constant. It doesn't vary yet; levels that are added later will be compared
/// with this one. A single plain level is reported as a mistake.
fn is_constant(level: &FactorLevel, factor: &str, baseline: Option<&TomlTable>) -> bool {
    let named = baseline.and_then(|table| table.get(factor));
    matches!(level.node.value, TomlValue::Table(_))
        && named.and_then(|node| node.value.scalar_text()) == Some(level.name.clone())
}

/// Splits factors into constants (with one level) and all others.
pub(crate) fn split_constants(factors: Vec<PlanFactor>) -> (Vec<PlanFactor>, Vec<PlanFactor>) {
    let constant = |factor: &PlanFactor| factor.levels.len() == 1 && factor.keys.is_some();
    factors.into_iter().partition(constant)
}

/// Returns true if templates can use this name; otherwise reports a problem.
pub(crate) fn is_usable_name(
    subject: &str,
    name: &str,
    line: usize,
    reader: &mut PlanReader<'_>,
) -> bool {
    if TEMPLATE_WORDS.contains(&name) {
        let text = format!("{subject} \"{name}\" has the name of a template keyword");
        reader.report_with_hint(DiagnosticKind::BadValue, line, text, "choose another name");
        return false;
    }
    if !is_name(name) {
        let hint: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        reader.report_with_hint(
            DiagnosticKind::BadValue,
            line,
            format!("{subject} \"{name}\" has a name that templates can't use"),
            format!("use letters, digits and _, beginning with a letter, such as \"{hint}\""),
        );
        return false;
    }
    true
}

fn read_levels(factor: &str, node: &TomlNode, reader: &mut PlanReader<'_>) -> Vec<FactorLevel> {
    let TomlValue::Array(items) = &node.value else {
        let message = format!("factor \"{factor}\" is {}, not an array", node.value.kind());
        let hint = format!("write {factor} = [\"…\", \"…\"]");
        reader.report_with_hint(DiagnosticKind::WrongType, node.line, message, hint);
        return Vec::new();
    };
    if items.is_empty() {
        let message = format!("factor \"{factor}\" has no levels");
        reader.report_with_hint(
            DiagnosticKind::Structure,
            node.line,
            message,
            "add at least two",
        );
    }
    if items.len() > VARIANTS_MAX {
        let message = format!("factor \"{factor}\" has more than {VARIANTS_MAX} levels");
        reader.report(DiagnosticKind::Structure, node.line, message);
        return Vec::new();
    }
    let mut levels: Vec<FactorLevel> = Vec::new();
    for item in items {
        let Some(name) = level_name(item, factor, reader) else {
            continue;
        };
        if levels.iter().any(|level| level.name == name) {
            let message = format!("factor \"{factor}\" has level \"{name}\" twice");
            reader.report_with_hint(
                DiagnosticKind::Structure,
                item.line,
                message,
                "remove one, or rename it",
            );
            continue;
        }
        levels.push(FactorLevel {
            name,
            node: item.clone(),
        });
    }
    levels
}

fn level_name(item: &TomlNode, factor: &str, reader: &mut PlanReader<'_>) -> Option<String> {
    let name = match &item.value {
        TomlValue::Table(table) => match table.get("name") {
            Some(name) => reader.scalar(name, &format!("the name of a level of \"{factor}\""))?,
            None => {
                let message = format!("a level of factor \"{factor}\" is a table without a name");
                let hint = "results show the name: { name = \"…\", … }";
                reader.report_with_hint(DiagnosticKind::MissingKey, item.line, message, hint);
                return None;
            }
        },
        TomlValue::Array(_) => {
            let message = format!("a level of factor \"{factor}\" is an array");
            let hint = "give it a name: { name = \"…\", values = […] }";
            reader.report_with_hint(DiagnosticKind::WrongType, item.line, message, hint);
            return None;
        }
        _ => reader.scalar(item, &format!("a level of \"{factor}\""))?,
    };
    if name.trim().is_empty() || name.len() > LEVEL_NAME_MAX || name.chars().any(char::is_control) {
        let message = format!(
            "the name of a level of factor \"{factor}\" is empty, too long or not on one line"
        );
        let hint = format!("use 1 to {LEVEL_NAME_MAX} bytes, such as \"none\"");
        reader.report_with_hint(DiagnosticKind::BadValue, item.line, message, hint);
        return None;
    }
    Some(name)
}

/// Converts plain levels to tables that contain only a name, if any other level is a table. Returns
/// the keys of all tables; `None` if all levels are plain.
fn unify(levels: &mut [FactorLevel]) -> Option<BTreeSet<String>> {
    let is_table = |level: &FactorLevel| matches!(level.node.value, TomlValue::Table(_));
    if !levels.iter().any(is_table) {
        return None;
    }
    let mut keys = BTreeSet::new();
    for level in levels {
        let line = level.node.line;
        if let TomlValue::Table(table) = &level.node.value {
            keys.extend(table.keys().map(str::to_owned));
        } else {
            let name = TomlNode {
                line,
                value: TomlValue::Text(level.name.clone()),
            };
            let entry = TomlEntry {
                key: "name".to_owned(),
                line,
                node: name,
            };
            level.node.value = TomlValue::Table(TomlTable {
                line,
                entries: vec![entry],
            });
        }
    }
    Some(keys)
}
