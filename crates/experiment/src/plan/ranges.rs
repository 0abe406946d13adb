//! Levels that are a row of numbers: `cores = "1 .. n"`, where `n` is how many cores this machine has.

use super::error::Fault;
use super::factors::MOST_VARIANTS;
use super::node::{Node, Value};
use super::reader::Reader;

/// A factor's levels with every row written out. A row may stand alone or among others:
/// `"1 .. n"`, `["1 .. n"]`, `["1 .. 3", "n"]`, `["1 .. n-1"]`.
pub(crate) fn expand(node: &Node, factor: &str, cores: usize, reader: &mut Reader<'_>) -> Node {
    let items = match &node.value {
        Value::Text(text) if is_row(text) => std::slice::from_ref(node),
        Value::Array(items) => items.as_slice(),
        _ => return node.clone(),
    };
    let has_row = items
        .iter()
        .any(|item| matches!(&item.value, Value::Text(text) if is_row(text)));
    if !has_row {
        return node.clone();
    }
    let mut levels: Vec<Node> = Vec::new();
    for item in items {
        // Beside a row, n alone is the number of cores, too.
        let row = match &item.value {
            Value::Text(text) => row(text, cores).or_else(|| {
                let only = number(text, cores)?;
                Some((only, only))
            }),
            _ => None,
        };
        let Some((first, last)) = row else {
            levels.push(item.clone());
            continue;
        };
        if last < first {
            let what = format!(
                "factor \"{factor}\": there is nothing from {first} to {last} (n is {cores}, the \
                 cores of this machine)"
            );
            reader.refuse(Fault::Machine, item.line, what);
            continue;
        }
        let longest = MOST_VARIANTS as i64;
        for value in (first..=last).take(MOST_VARIANTS + 1) {
            let is_new = levels
                .iter()
                .all(|level| level.value != Value::Integer(value));
            // Rows may meet: [\"1 .. 2\", \"n\"] on two cores.
            if is_new && (levels.len() as i64) <= longest {
                levels.push(Node {
                    line: item.line,
                    value: Value::Integer(value),
                });
            }
        }
    }
    Node {
        line: node.line,
        value: Value::Array(levels),
    }
}

fn is_row(text: &str) -> bool {
    row(text, 1).is_some()
}

/// The first and the last number of `1 .. n`.
fn row(text: &str, cores: usize) -> Option<(i64, i64)> {
    let (first, last) = text.split_once("..")?;
    Some((number(first, cores)?, number(last, cores)?))
}

/// `3`, `n`, `n-1` or `n/2`, rounded down.
fn number(text: &str, cores: usize) -> Option<i64> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix('n') else {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        return is_plain.then(|| text.parse().ok()).flatten();
    };
    let cores = i64::try_from(cores).ok()?;
    if let Some(part) = rest.trim().strip_prefix('/') {
        let part = part.trim();
        let is_plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        return cores.checked_div(is_plain.then(|| part.parse().ok()).flatten()?);
    }
    match rest.trim().strip_prefix('-') {
        None if rest.is_empty() => Some(cores),
        None => None,
        Some(fewer) => {
            let fewer = fewer.trim();
            let is_plain = !fewer.is_empty() && fewer.bytes().all(|byte| byte.is_ascii_digit());
            cores.checked_sub(is_plain.then(|| fewer.parse().ok()).flatten()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::error::Mistakes;
    use super::*;

    fn expanded(value: Value, cores: usize) -> (Vec<String>, usize) {
        let mut mistakes = Mistakes::default();
        let mut reader = Reader {
            file: Path::new("plan.toml"),
            mistakes: &mut mistakes,
        };
        let node = expand(&Node { line: 1, value }, "cores", cores, &mut reader);
        let Value::Array(items) = node.value else {
            return (vec![node.value.scalar_text().unwrap_or_default()], 0);
        };
        let texts = items.iter().filter_map(|item| item.value.scalar_text());
        (texts.collect(), mistakes.made())
    }

    fn texts(texts: &[&str]) -> Value {
        let node = |text: &&str| Node {
            line: 1,
            value: Value::Text((*text).to_owned()),
        };
        Value::Array(texts.iter().map(node).collect())
    }

    #[test]
    fn rows_reach_as_far_as_the_machine_does() {
        let alone = Value::Text("1 .. n".to_owned());
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
    fn what_is_no_row_stays_as_it_is() {
        for list in [&["n", "m"][..], &["1", "2"], &["a .. b"], &["0..", "../x"]] {
            assert_eq!(expanded(texts(list), 4).0, list);
        }
        assert_eq!(expanded(Value::Text("tcp".to_owned()), 4).0, ["tcp"]);
    }
}
