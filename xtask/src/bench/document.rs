//! The parts of docs/performance.md that the benchmark generates.

use std::path::Path;

/// Start marker of the tables that compare tools.
pub(super) const TOOLS: &str = "<!-- generated: cargo xtask bench -->";
/// Start marker of the fleet table.
pub(super) const FLEET: &str = "<!-- generated: cargo xtask bench, fleet -->";
/// Start marker of the table with the highest sustained rates.
pub(super) const CEILING: &str = "<!-- generated: cargo xtask bench, open-max -->";
/// Start marker of the HTTP/3 table.
pub(super) const QUIC: &str = "<!-- generated: cargo xtask bench, HTTP/3 -->";
/// Start marker of the AF_XDP table.
pub(super) const BYPASS: &str = "<!-- generated: cargo xtask bench, AF_XDP -->";
const CLOSE: &str = "<!-- end of generated -->";

/// Replaces the text between the marker `open` and the end marker by `tables` in the document at
/// `path`.
pub(super) fn write(path: &Path, open: &str, tables: &str) -> Result<(), String> {
    let place = |e: std::io::Error| format!("{}: {e}", path.display());
    let old = std::fs::read_to_string(path).map_err(place)?;
    let new = replace(&old, open, tables).map_err(|e| format!("{}: {e}", path.display()))?;
    std::fs::write(path, new).map_err(place)
}

/// Returns the text with the part between the markers replaced by `tables`.
fn replace(text: &str, open: &str, tables: &str) -> Result<String, String> {
    let (before, rest) = text
        .split_once(open)
        .ok_or_else(|| format!("no line `{open}`"))?;
    let (_, after) = rest
        .split_once(CLOSE)
        .ok_or_else(|| format!("`{CLOSE}` is missing after `{open}`"))?;
    let tables = tables.trim_end();
    Ok(format!("{before}{open}\n{tables}\n{CLOSE}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_the_marks_changes() {
        let old = format!("# a\n\n{TOOLS}\nold\n{CLOSE}\n\nb\n");
        let new = replace(&old, TOOLS, "| t |\n").unwrap();
        assert_eq!(new, format!("# a\n\n{TOOLS}\n| t |\n{CLOSE}\n\nb\n"));
        assert_eq!(replace(&new, TOOLS, "| t |").unwrap(), new);
        assert!(replace("# a\n", TOOLS, "t").is_err());
        assert!(replace(TOOLS, TOOLS, "t").is_err());
    }
}
