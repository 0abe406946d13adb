//! Rule: files and functions stay small.

use super::Complaint;
use super::source::Sources;
use crate::tree::Tree;

/// Maximum length of a file in lines.
const FILE_LINES: usize = 800;

/// Maximum length of a function in lines, from `fn` to the closing brace.
const FUNCTION_LINES: usize = 80;

/// Extensions of the files that are checked.
const CODE: &[&str] = &[".rs", ".py", ".sh", ".c", ".js", ".css", ".html"];

/// Checks the lengths of all files and functions.
pub(super) fn check(tree: &Tree, sources: &Sources) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let code = |path: &str| CODE.iter().any(|ending| path.ends_with(ending));
    for (path, text) in tree.texts().filter(|(path, _)| code(path)) {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            let text = format!("{lines} lines (the maximum for a file is {FILE_LINES})");
            complaints.push(Complaint::new(path, 0, text));
        }
    }
    for (path, source) in &sources.files {
        for function in source.functions.iter().filter(|f| f.lines > FUNCTION_LINES) {
            let (name, lines) = (&function.name, function.lines);
            let text = format!(
                "{name} has {lines} lines (the maximum for a function is \
                {FUNCTION_LINES})"
            );
            complaints.push(Complaint::new(path, function.line, text));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::{printed, source};
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::of(files);
        printed(&check(&tree, &source::parse_all(&tree)))
    }

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    a();\n".repeat(lines - 2))
    }

    #[test]
    fn the_limit_is_inclusive() {
        assert!(complaints(&[("a.rs", &function(80))]).is_empty());
        let found = complaints(&[("a.rs", &function(81))]);
        assert_eq!(
            found,
            ["a.rs:1: long has 81 lines (the maximum for a function is 80)"]
        );
        assert!(complaints(&[("a.py", &"x\n".repeat(800))]).is_empty());
        let found = complaints(&[("a.py", &"x\n".repeat(801))]);
        assert_eq!(found, ["a.py: 801 lines (the maximum for a file is 800)"]);
    }

    #[test]
    fn prose_and_data_may_be_long() {
        assert!(complaints(&[("a.md", &"x\n".repeat(900))]).is_empty());
    }
}
