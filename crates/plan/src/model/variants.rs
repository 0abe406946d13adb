//! The `variants` key: the combinations of levels that are measured.

use super::factors::PlanFactor;
use super::levels::LevelSelection;
use super::limits::{VARIANT_ID_MAX, VARIANTS_MAX};
use crate::diagnostic::{DiagnosticKind, did_you_mean_or_list};
use crate::syntax::{PlanReader, TomlNode, TomlTable, TomlValue};

/// A setup to measure, with a level for every factor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanVariant {
    /// Levels of all factors.
    pub levels: LevelSelection,
    /// ID of the variant: the names of its levels, joined into a valid folder name such as
    /// `native-tcp`.
    pub id: String,
}

/// Reads `variants`. By default, every combination of levels is a variant.
pub(crate) fn read_variants(
    listed: Option<&TomlNode>,
    factors: &[PlanFactor],
    line: usize,
    reader: &mut PlanReader<'_>,
) -> Vec<PlanVariant> {
    let cells = match listed {
        None => product(factors, line, reader),
        Some(node) => read_listed_variants(node, factors, reader),
    };
    let mut variants: Vec<PlanVariant> = Vec::with_capacity(cells.len());
    for levels in cells {
        let id = free_id(&levels, &variants);
        variants.push(PlanVariant { levels, id });
    }
    variants
}

fn product(
    factors: &[PlanFactor],
    line: usize,
    reader: &mut PlanReader<'_>,
) -> Vec<LevelSelection> {
    let number = factors
        .iter()
        .try_fold(1_usize, |product, factor| {
            product.checked_mul(factor.levels.len())
        })
        .filter(|number| *number <= VARIANTS_MAX);
    let Some(number) = number else {
        let message = format!("the factors have more than {VARIANTS_MAX} combinations of levels");
        let hint = "list the ones to measure: variants = [{ … }, { … }]";
        reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
        return Vec::new();
    };
    // The last factor varies fastest.
    (0..number)
        .map(|mut cell| {
            let mut levels: Vec<_> = factors
                .iter()
                .rev()
                .map(|factor| {
                    let level = &factor.levels[cell % factor.levels.len()];
                    cell /= factor.levels.len();
                    (factor.name.clone(), level.name.clone())
                })
                .collect();
            levels.reverse();
            LevelSelection(levels)
        })
        .collect()
}

fn read_listed_variants(
    node: &TomlNode,
    factors: &[PlanFactor],
    reader: &mut PlanReader<'_>,
) -> Vec<LevelSelection> {
    let TomlValue::Array(items) = &node.value else {
        let message = format!("variants is {}, not an array of tables", node.value.kind());
        reader.report(DiagnosticKind::WrongType, node.line, message);
        return Vec::new();
    };
    if items.len() > VARIANTS_MAX {
        let message = format!(
            "variants has {} entries; the maximum is {VARIANTS_MAX}",
            items.len()
        );
        reader.report(DiagnosticKind::Structure, node.line, message);
        return Vec::new();
    }
    let mut cells: Vec<LevelSelection> = Vec::new();
    for item in items {
        let Some(table) = reader.table(item, "a variant") else {
            continue;
        };
        let Some(levels) = read_level_selection(table, item.line, factors, "the variant", reader)
        else {
            continue;
        };
        if let Some(missing) = factors.iter().find(|f| levels.get(&f.name).is_none()) {
            let message = format!("the variant lacks a level of factor \"{}\"", missing.name);
            reader.report(DiagnosticKind::MissingKey, item.line, message);
        } else if cells.contains(&levels) {
            reader.report(
                DiagnosticKind::Structure,
                item.line,
                "this variant is listed twice",
            );
        } else {
            cells.push(levels);
        }
    }
    cells
}

/// Reads pairs of factor and level, in the order of the factors.
pub(super) fn read_level_selection(
    table: &TomlTable,
    line: usize,
    factors: &[PlanFactor],
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<LevelSelection> {
    let known: Vec<&str> = factors.iter().map(|factor| factor.name.as_str()).collect();
    reader.report_unknown_keys(table, owner, &known);
    let mut fine = table.keys().all(|key| known.contains(&key));
    let mut levels = Vec::new();
    for factor in factors {
        let Some(node) = table.get(&factor.name) else {
            continue;
        };
        let subject = format!("{owner}'s level of \"{}\"", factor.name);
        let Some(name) = reader.scalar(node, &subject) else {
            fine = false;
            continue;
        };
        if factor.level(&name).is_none() {
            let names = factor.levels.iter().map(|level| level.name.as_str());
            let hint = did_you_mean_or_list(&name, names, "it has");
            let message = format!(
                "{owner} names \"{name}\", which is not a level of factor \"{}\"",
                factor.name
            );
            reader.report_with_hint(
                DiagnosticKind::Structure,
                node.line.max(line),
                message,
                hint,
            );
            fine = false;
            continue;
        }
        levels.push((factor.name.clone(), name));
    }
    fine.then_some(LevelSelection(levels))
}

/// Joins the names of the levels into a folder name that differs from the IDs of all variants in
/// `taken`.
fn free_id(levels: &LevelSelection, taken: &[PlanVariant]) -> String {
    let word: String = levels
        .iter()
        .map(|(_, level)| level)
        .collect::<Vec<_>>()
        .join("-")
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
                c
            } else {
                '_'
            }
        })
        .take(VARIANT_ID_MAX)
        .collect();
    // A leading dot would hide the folder or refer to its parent; a leading dash would look like a
    // flag.
    let word = match word.strip_prefix(['.', '-']) {
        Some(rest) => format!("_{rest}"),
        None => word,
    };
    let free = |id: &String| taken.iter().all(|variant| variant.id != *id);
    std::iter::once(word.clone())
        .chain((2..).map(|number| format!("{word}~{number}")))
        .find(free)
        .unwrap_or(word)
}
