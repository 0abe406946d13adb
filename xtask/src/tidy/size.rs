//! Files and functions stay small. A list of exceptions may only shrink.

use std::collections::BTreeSet;

use super::Complaint;
use super::source::Sources;
use crate::tree::Tree;

/// Longest file, in lines.
const FILE_LINES: usize = 800;

/// Longest function, in lines from `fn` to its closing brace.
const FUNCTION_LINES: usize = 80;

/// Number of exceptions. Lower it with each one removed; never raise it.
const EXCEPTIONS: usize = 0;

const LIST: &str = "xtask/tidy-exceptions.txt";

/// File types that are code.
const CODE: &[&str] = &[".rs", ".py", ".sh", ".c", ".js", ".css", ".html"];

/// Checks lengths against the limits and the list of exceptions.
pub(super) fn check(tree: &Tree, sources: &Sources) -> Vec<Complaint> {
    check_against(EXCEPTIONS, tree, sources)
}

/// An entry of the list is `path` for a file, `path name` for a function.
fn check_against(allowed: usize, tree: &Tree, sources: &Sources) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut unused: BTreeSet<&str> = BTreeSet::new();
    let list = tree.text(LIST).unwrap_or_default();
    for (index, line) in list.lines().map(str::trim).enumerate() {
        if !line.is_empty() && !line.starts_with('#') && !unused.insert(line) {
            complaints.push(Complaint::new(LIST, index + 1, "listed twice"));
        }
    }
    let entries = unused.len();
    for (key, complaint) in oversized(tree, sources) {
        if !unused.remove(key.as_str()) && !list.lines().any(|l| l.trim() == key) {
            complaints.push(complaint);
        }
    }
    for entry in unused {
        let line = list
            .lines()
            .position(|l| l.trim() == entry)
            .map_or(0, |i| i + 1);
        complaints.push(Complaint::new(
            LIST,
            line,
            format!("no longer needed: {entry}"),
        ));
    }
    if entries != allowed {
        let what = if entries > allowed {
            "may only shrink"
        } else {
            "has shrunk"
        };
        let text = format!(
            "the list {what}: {entries} entries, EXCEPTIONS in xtask/src/tidy/size.rs says {allowed}"
        );
        complaints.push(Complaint::new(LIST, 0, text));
    }
    complaints
}

/// Files and functions above a limit: the entry that would exempt each, and the complaint.
fn oversized(tree: &Tree, sources: &Sources) -> Vec<(String, Complaint)> {
    let mut found = Vec::new();
    for (path, text) in tree
        .texts()
        .filter(|(p, _)| CODE.iter().any(|e| p.ends_with(e)))
    {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            let text = format!("{lines} lines; a file has at most {FILE_LINES}");
            found.push((path.to_string(), Complaint::new(path, 0, text)));
        }
    }
    for (path, source) in &sources.files {
        for function in source.functions.iter().filter(|f| f.lines > FUNCTION_LINES) {
            let name = &function.name;
            let lines = function.lines;
            let text = format!("{name} has {lines} lines; a function has at most {FUNCTION_LINES}");
            found.push((
                format!("{path} {name}"),
                Complaint::new(path, function.line, text),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{printed, source};
    use super::*;

    fn complaints(allowed: usize, files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        printed(&check_against(allowed, &tree, &source::parse_all(&tree)))
    }

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    a();\n".repeat(lines - 2))
    }

    #[test]
    fn what_is_at_the_limit_passes_and_one_line_more_does_not() {
        assert!(complaints(0, &[("a.rs", &function(80))]).is_empty());
        let seen = complaints(0, &[("a.rs", &function(81))]);
        assert_eq!(
            seen,
            ["a.rs:1: long has 81 lines; a function has at most 80"]
        );
        assert!(complaints(0, &[("a.py", &"x\n".repeat(800))]).is_empty());
        let seen = complaints(0, &[("a.py", &"x\n".repeat(801))]);
        assert_eq!(seen, ["a.py: 801 lines; a file has at most 800"]);
    }

    #[test]
    fn prose_and_data_may_be_long() {
        assert!(complaints(0, &[("a.md", &"x\n".repeat(900))]).is_empty());
    }

    #[test]
    fn an_exception_excuses_what_it_names() {
        let list = "# why\na.rs long\nb.py\n";
        let files = [
            ("a.rs", &*function(90)),
            ("b.py", &*"x\n".repeat(900)),
            (LIST, list),
        ];
        assert!(complaints(2, &files).is_empty());
    }

    #[test]
    fn an_exception_that_nothing_needs_is_an_error() {
        let seen = complaints(1, &[("a.rs", &function(9)), (LIST, "\na.rs long\n")]);
        assert_eq!(
            seen,
            ["xtask/tidy-exceptions.txt:2: no longer needed: a.rs long"]
        );
    }

    #[test]
    fn the_list_can_not_grow_and_its_count_follows_it_down() {
        let files = [("a.rs", &*function(90)), (LIST, "a.rs long\n")];
        assert!(complaints(0, &files)[0].contains("may only shrink"));
        assert!(complaints(2, &files)[0].contains("has shrunk"));
        assert!(complaints(1, &files).is_empty());
        let twice = [("a.rs", &*function(90)), (LIST, "a.rs long\na.rs long\n")];
        assert_eq!(
            complaints(1, &twice),
            ["xtask/tidy-exceptions.txt:2: listed twice"]
        );
    }
}
