//! Levels given as a range of numbers: `cores = "1 .. n"`, where `n` is the number of cores of this
//! machine.

use super::limits::VARIANTS_MAX;
use crate::diagnostic::DiagnosticKind;
use crate::syntax::{PlanReader, TomlNode, TomlValue};

/// Replaces each range among a factor's levels by its numbers. A range may be the only level or one
/// of several: `"1 .. n"`, `["1 .. n"]`, `["1 .. 3", "n"]`, `["1 .. n-1"]`.
pub(crate) fn expand(
    node: &TomlNode,
    factor: &str,
    cores: usize,
    reader: &mut PlanReader<'_>,
) -> TomlNode {
    let items = match &node.value {
        TomlValue::Text(text) if is_range(text) => std::slice::from_ref(node),
        TomlValue::Array(items) => items.as_slice(),
        _ => return node.clone(),
    };
    let has_range = items
        .iter()
        .any(|item| matches!(&item.value, TomlValue::Text(text) if is_range(text)));
    if !has_range {
        return node.clone();
    }
    let mut levels: Vec<TomlNode> = Vec::new();
    for item in items {
        // In an array with a range, a plain `n` means the number of cores.
        let bounds = match &item.value {
            TomlValue::Text(text) => range_bounds(text, cores).or_else(|| {
                let only = number(text, cores)?;
                Some((only, only))
            }),
            _ => None,
        };
        let Some((first, last)) = bounds else {
            levels.push(item.clone());
            continue;
        };
        if last < first {
            let message = format!(
                "factor \"{factor}\": the range from {first} to {last} is empty (n is {cores}, the \
                 number of cores of this machine)"
            );
            reader.report(DiagnosticKind::Machine, item.line, message);
            continue;
        }
        let longest = VARIANTS_MAX as i64;
        for value in (first..=last).take(VARIANTS_MAX + 1) {
            let is_new = levels
                .iter()
                .all(|level| level.value != TomlValue::Integer(value));
            // Ranges may overlap: on two cores, ["1 .. 2", "n"] contains 2 twice.
            if is_new && (levels.len() as i64) <= longest {
                levels.push(TomlNode {
                    line: item.line,
                    value: TomlValue::Integer(value),
                });
            }
        }
    }
    TomlNode {
        line: node.line,
        value: TomlValue::Array(levels),
    }
}

fn is_range(text: &str) -> bool {
    range_bounds(text, 1).is_some()
}

/// Parses the bounds of a range such as `1 .. n`.
fn range_bounds(text: &str, cores: usize) -> Option<(i64, i64)> {
    let (first, last) = text.split_once("..")?;
    Some((number(first, cores)?, number(last, cores)?))
}

/// Parses `3`, `n`, `n-1` or `n/2`. The quotient is rounded down.
fn number(text: &str, cores: usize) -> Option<i64> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix('n') else {
        return unsigned(text);
    };
    let cores = i64::try_from(cores).ok()?;
    if rest.is_empty() {
        return Some(cores);
    }
    let rest = rest.trim();
    match (rest.strip_prefix('/'), rest.strip_prefix('-')) {
        (Some(divisor), _) => cores.checked_div(unsigned(divisor)?),
        (_, Some(subtrahend)) => cores.checked_sub(unsigned(subtrahend)?),
        _ => None,
    }
}

/// Parses a number without a sign. A sign would be ambiguous next to `..` and `-`.
fn unsigned(text: &str) -> Option<i64> {
    let text = text.trim();
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::diagnostic::Diagnostics;

    fn expanded(value: TomlValue, cores: usize) -> (Vec<String>, usize) {
        let mut diagnostics = Diagnostics::default();
        let mut reader = PlanReader {
            file: Path::new("plan.toml"),
            diagnostics: &mut diagnostics,
        };
        let node = expand(&TomlNode { line: 1, value }, "cores", cores, &mut reader);
        let TomlValue::Array(items) = node.value else {
            return (vec![node.value.scalar_text().unwrap_or_default()], 0);
        };
        let texts = items.iter().filter_map(|item| item.value.scalar_text());
        (texts.collect(), diagnostics.count())
    }

    fn texts(texts: &[&str]) -> TomlValue {
        let node = |text: &&str| TomlNode {
            line: 1,
            value: TomlValue::Text((*text).to_owned()),
        };
        TomlValue::Array(texts.iter().map(node).collect())
    }

    #[test]
    fn n_is_the_number_of_cores() {
        let alone = TomlValue::Text("1 .. n".to_owned());
        assert_eq!(expanded(alone, 4).0, ["1", "2", "3", "4"]);
        assert_eq!(expanded(texts(&["1..n-1"]), 4).0, ["1", "2", "3"]);
        assert_eq!(expanded(texts(&["1 .. 2", "n"]), 8).0, ["1", "2", "8"]);
        assert_eq!(expanded(texts(&["1 .. 2", "n"]), 2).0, ["1", "2"]);
        assert_eq!(expanded(texts(&["1 .. n/2"]), 5).0, ["1", "2"]);
        assert_eq!(expanded(texts(&["1 .. n/2"]), 1), (vec![], 1));
        assert_eq!(expanded(texts(&["1 .. n/0"]), 4).0, ["1 .. n/0"]);
        assert_eq!(expanded(texts(&["2 .. n"]), 1), (vec![], 1));
    }

    #[test]
    fn other_levels_stay_unchanged() {
        for list in [&["n", "m"][..], &["1", "2"], &["a .. b"], &["0..", "../x"]] {
            assert_eq!(expanded(texts(list), 4).0, list);
        }
        assert_eq!(expanded(TomlValue::Text("tcp".to_owned()), 4).0, ["tcp"]);
    }
}
