//! The `baseline` key: the levels with which other levels are compared.

use super::factors::PlanFactor;
use super::levels::LevelSelection;
use super::variants::{PlanVariant, read_level_selection};
use crate::diagnostic::DiagnosticKind;
use crate::syntax::{PlanReader, TomlNode, TomlTable, TomlValue};

/// Merges a list of baselines. If several name the same factor, the first one wins.
pub(crate) fn merged_baselines(node: &TomlNode) -> TomlTable {
    let tables = match &node.value {
        TomlValue::Array(nodes) => nodes.iter().collect(),
        _ => vec![node],
    };
    let mut merged = TomlTable::default();
    for node in tables {
        let TomlValue::Table(table) = &node.value else {
            continue;
        };
        for entry in &table.entries {
            if merged.get(&entry.key).is_none() {
                merged.entries.push(entry.clone());
            }
        }
    }
    merged
}

/// From a list of baselines, chooses the first one that names a factor with several levels. Factors
/// with one level (constants) are removed from the result.
pub(crate) fn chosen_baseline(node: &TomlNode, constants: &[PlanFactor]) -> TomlNode {
    let TomlValue::Array(nodes) = &node.value else {
        return without_keys(node, constants);
    };
    let mut left = nodes.iter().map(|node| without_keys(node, constants));
    let fixes_any = |node: &TomlNode| match &node.value {
        TomlValue::Table(table) => !table.entries.is_empty(),
        // A wrong type is reported later, when the baseline is read.
        _ => true,
    };
    let empty = TomlNode {
        line: node.line,
        value: TomlValue::Table(TomlTable::default()),
    };
    left.find(fixes_any).unwrap_or(empty)
}

/// Returns the baseline without the given factors.
fn without_keys(baseline: &TomlNode, constants: &[PlanFactor]) -> TomlNode {
    let mut baseline = baseline.clone();
    if let TomlValue::Table(table) = &mut baseline.value {
        let constant = |key: &str| constants.iter().any(|factor| factor.name == key);
        table.entries.retain(|entry| !constant(&entry.key));
    }
    baseline
}

/// Reads the baseline that [`chosen_baseline`] selected. The default is the first level of every
/// factor.
pub(crate) fn read_baseline(
    node: Option<&TomlNode>,
    factors: &[PlanFactor],
    variants: &[PlanVariant],
    reader: &mut PlanReader<'_>,
) -> Option<LevelSelection> {
    if variants.is_empty() || factors.is_empty() {
        return None; // The problems of the factors have already been reported.
    }
    let Some(node) = node else {
        let first = variants.first()?.levels.clone();
        check_baseline(&first, variants, factors.first()?.line, reader);
        return Some(first);
    };
    let table = reader.table(node, "baseline")?;
    let baseline = read_level_selection(table, node.line, factors, "the baseline", reader)?;
    if baseline.is_empty() {
        let message = "the baseline names no factor";
        reader.report_with_hint(
            DiagnosticKind::Structure,
            node.line,
            message,
            "name a level of at least one factor",
        );
        return None;
    }
    check_baseline(&baseline, variants, node.line, reader);
    Some(baseline)
}

fn check_baseline(
    baseline: &LevelSelection,
    variants: &[PlanVariant],
    line: usize,
    reader: &mut PlanReader<'_>,
) {
    if variants.len() < 2 {
        let message = "there is only one variant; comparing needs at least two";
        reader.report_with_hint(
            DiagnosticKind::Structure,
            line,
            message,
            "list another variant, or add a level to a factor",
        );
        return;
    }
    let names: Vec<_> = baseline
        .iter()
        .map(|(f, l)| format!("{f} = \"{l}\""))
        .collect();
    if !variants
        .iter()
        .any(|variant| is_baseline(baseline, &variant.levels))
    {
        let message = format!(
            "the baseline {{ {} }} is not one of the variants",
            names.join(", ")
        );
        reader.report_with_hint(
            DiagnosticKind::Structure,
            line,
            message,
            "add it to variants",
        );
        return;
    }
    for variant in variants
        .iter()
        .filter(|variant| !is_baseline(baseline, &variant.levels))
    {
        if baseline_of(baseline, variants, &variant.levels).is_none() {
            let message = format!(
                "variant {} has no baseline: the same variant with {} is not listed",
                variant.id,
                names.join(", "),
            );
            reader.report_with_hint(
                DiagnosticKind::Structure,
                line,
                message,
                "list that variant too",
            );
        }
    }
}

fn is_baseline(baseline: &LevelSelection, levels: &LevelSelection) -> bool {
    baseline
        .iter()
        .all(|(factor, level)| levels.get(factor) == Some(level))
}

/// Returns the index of the variant with which `levels` is compared. For each factor that the
/// baseline names, this variant has the baseline's level. For all other factors, it has the same
/// level as `levels`. A baseline is compared with itself.
pub(crate) fn baseline_of(
    baseline: &LevelSelection,
    variants: &[PlanVariant],
    levels: &LevelSelection,
) -> Option<usize> {
    variants.iter().position(|candidate| {
        candidate
            .levels
            .iter()
            .all(|(factor, level)| baseline.get(factor).or(levels.get(factor)) == Some(level))
    })
}
