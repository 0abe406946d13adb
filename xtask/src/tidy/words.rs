//! Rules: no unfinished code, no uninformative module names, and no paths that exist on only one
//! machine.

use super::Complaint;
use super::source::Sources;
use crate::tree::Tree;

/// Macros that mark unfinished or temporary code.
const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Module names that say nothing about the content.
const VAGUE_MODULES: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

/// Markers of unfinished work. Each is spelled in two halves; otherwise the rule would reject this
/// file.
const NOTE_MARKERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
];

/// Prefixes of absolute paths that exist on only one machine.
const PRIVATE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp/", "brief"),
];

/// Checks every text file of the tree.
pub(super) fn check(tree: &Tree, sources: &Sources) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in tree.texts() {
        check_lines(path, text, &mut complaints);
    }
    for (path, source) in &sources.files {
        if let Some(name) = vague_component(path) {
            complaints.push(Complaint::new(path, 0, vague_name(name)));
        }
        for name in source
            .macros
            .iter()
            .filter(|m| MACROS.contains(&&*m.segments[0]))
        {
            let text = format!("{}! marks unfinished code", name.segments[0]);
            complaints.push(Complaint::new(path, name.line, text));
        }
        for name in source
            .modules
            .iter()
            .filter(|m| VAGUE_MODULES.contains(&&*m.segments[0]))
        {
            complaints.push(Complaint::new(
                path,
                name.line,
                vague_name(&name.segments[0]),
            ));
        }
    }
    complaints
}

fn check_lines(path: &str, text: &str, complaints: &mut Vec<Complaint>) {
    for (index, line) in text.lines().enumerate() {
        for private in PRIVATE_PATHS.iter().filter(|p| names_path(line, p)) {
            let text = format!(
                "{private} exists on only one machine; use a path relative to the \
                root"
            );
            complaints.push(Complaint::new(path, index + 1, text));
        }
        if path.ends_with(".rs") {
            for note in NOTE_MARKERS.iter().filter(|n| line.contains(**n)) {
                let text = format!("{note}: finish it, or file an issue");
                complaints.push(Complaint::new(path, index + 1, text));
            }
        }
    }
}

/// Returns true if `line` contains `path` as an absolute path, not as the end of a longer path.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before
            .is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '-' | '_' | '/' | '}' | '~'))
    })
}

/// Returns the component of a path that is one of [`VAGUE_MODULES`].
fn vague_component(path: &str) -> Option<&str> {
    path.split('/')
        .map(|part| part.strip_suffix(".rs").unwrap_or(part))
        .find(|p| VAGUE_MODULES.contains(p))
}

fn vague_name(name: &str) -> String {
    format!("module name {name} is uninformative; name the module after what it does")
}

#[cfg(test)]
mod tests {
    use super::super::{printed, source};
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        printed(&check(&tree, &source::parse_all(&tree)))
    }

    #[test]
    fn unfinished_code_is_found_in_code_only() {
        for text in [
            "fn f() { todo!() }",
            "fn f() { std::unimplemented!() }",
            "fn f() { dbg!(1) }",
        ] {
            assert_eq!(complaints("a.rs", text).len(), 1, "{text}");
        }
        assert!(complaints("a.rs", "// never todo!()\nfn todo() {}\nfn f() { todo() }").is_empty());
        let note = format!("fn f() {{}}\n// {} later\n", NOTE_MARKERS[0]);
        assert!(complaints("a.rs", &note)[0].starts_with("a.rs:2:"));
    }

    #[test]
    fn catch_all_modules_are_found_by_path_and_by_declaration() {
        assert_eq!(complaints("crates/load/src/util.rs", "").len(), 1);
        assert_eq!(complaints("crates/load/tests/common/mod.rs", "").len(), 1);
        assert_eq!(complaints("a.rs", "mod helpers { }").len(), 1);
        assert!(complaints("crates/load/src/utility_curve.rs", "mod commons_pool {}").is_empty());
    }

    #[test]
    fn private_folders_are_found_in_every_text() {
        for private in &PRIVATE_PATHS[..2] {
            for text in [
                format!("see {private}notes"),
                format!("root = \"{private}x\""),
                format!("{private}a"),
                format!("`{private}`"),
            ] {
                assert_eq!(complaints("docs/a.md", &text).len(), 1, "{text}");
            }
            assert!(complaints("docs/a.md", &format!("home{private}x ../{private}y")).is_empty());
        }
    }
}
