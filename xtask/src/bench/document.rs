//! The part of docs/performance.md that the benchmark writes.

use std::path::Path;

const OPEN: &str = "<!-- generated: cargo xtask bench -->";
const CLOSE: &str = "<!-- end of generated -->";

/// Puts `tables` between the marks of the document at `path`.
pub(super) fn write(path: &Path, tables: &str) -> Result<(), String> {
    let place = |e: std::io::Error| format!("{}: {e}", path.display());
    let old = std::fs::read_to_string(path).map_err(place)?;
    let new = replace(&old, tables).map_err(|e| format!("{}: {e}", path.display()))?;
    std::fs::write(path, new).map_err(place)
}

/// The text with what lies between the marks replaced.
fn replace(text: &str, tables: &str) -> Result<String, String> {
    let (before, rest) = text
        .split_once(OPEN)
        .ok_or_else(|| format!("no line `{OPEN}`"))?;
    let (_, after) = rest
        .split_once(CLOSE)
        .ok_or_else(|| format!("no line `{CLOSE}` after `{OPEN}`"))?;
    let tables = tables.trim_end();
    Ok(format!("{before}{OPEN}\n{tables}\n{CLOSE}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_marks_changes() {
        let old = format!("# a\n\n{OPEN}\nold\n{CLOSE}\n\nb\n");
        let new = replace(&old, "| t |\n").unwrap();
        assert_eq!(new, format!("# a\n\n{OPEN}\n| t |\n{CLOSE}\n\nb\n"));
        assert_eq!(replace(&new, "| t |").unwrap(), new);
        assert!(replace("# a\n", "t").is_err());
        assert!(replace(OPEN, "t").is_err());
    }
}
