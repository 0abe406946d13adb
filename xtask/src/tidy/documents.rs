//! Rule: paths in documents exist, and every crate is documented.

use super::complaint::Complaint;
use crate::tree::Tree;

const ARCHITECTURE: &str = "docs/architecture.md";

/// First components of paths in this repository.
const FOLDERS: &[&str] = &[
    ".ci", ".github", "bench", "crates", "deploy", "docs", "fuzz", "schema", "studies", "xtask",
];

/// Checks the documents in the root and in `docs`.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in tree.texts().filter(|(p, _)| is_document(p)) {
        for (line, name) in named_paths(text) {
            if !exists_from(tree, path, &name) {
                complaints.push(Complaint::new(path, line, format!("{name} does not exist")));
            }
        }
    }
    if let Some(text) = tree.text(ARCHITECTURE) {
        for name in tree.crates() {
            if !text.contains(&format!("`crates/{name}`")) {
                let text = format!("doesn't mention `crates/{name}`");
                complaints.push(Complaint::new(ARCHITECTURE, 0, text));
            }
        }
    } else if !tree.crates().is_empty() && tree.exists("docs") {
        complaints.push(Complaint::new(ARCHITECTURE, 0, "is missing"));
    }
    complaints
}

fn is_document(path: &str) -> bool {
    let Some(name) = path.strip_suffix(".md") else {
        return false;
    };
    let name = name.strip_prefix("docs/").unwrap_or(name);
    !name.contains('/')
}

/// Returns true if a path exists relative to the root or to the document's folder. `crates/` may be
/// omitted, as in `load/src`.
fn exists_from(tree: &Tree, document: &str, name: &str) -> bool {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let candidates = [
        name.to_string(),
        format!("{folder}/{name}"),
        format!("crates/{name}"),
    ];
    candidates
        .iter()
        .any(|c| resolve(c).is_some_and(|p| tree.exists(&p)))
}

/// Resolves `.` and `..`; `None` if the path leads out of the root.
fn resolve(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Paths in backticks and targets of relative links, with their lines. Code blocks are skipped.
fn named_paths(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        if in_block {
            continue;
        }
        let spans = line
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|s| is_repository_path(s));
        let links = line
            .match_indices("](")
            .filter_map(|(at, _)| line[at + 2..].split_once(')'))
            .map(|(target, _)| target.split('#').next().unwrap_or(target))
            .filter(|t| !t.is_empty() && !t.contains(':'));
        found.extend(spans.chain(links).map(|s| (index + 1, s.to_string())));
    }
    found
}

/// Returns true if the text in backticks is a path in this repository.
fn is_repository_path(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if !span.chars().all(plain) || span.starts_with('/') {
        return false;
    }
    match span.split_once('/') {
        Some((first, _)) => FOLDERS.contains(&first) || span.ends_with(".rs"),
        None => {
            let name = span.trim_end_matches(".md");
            span.starts_with("LICENSE-")
                || (span.ends_with(".md")
                    && !name.is_empty()
                    && name.bytes().all(|b| b.is_ascii_uppercase()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::complaint::printed;
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        printed(&check(&Tree::of(files)))
    }

    #[test]
    fn a_path_in_backticks_exists_or_is_reported_with_its_line() {
        let seen = complaints(&[
            ("README.md", "a\nsee `docs/none.md` and `docs/a.md`"),
            ("docs/a.md", ""),
        ]);
        assert_eq!(seen, ["README.md:2: docs/none.md does not exist"]);
    }

    #[test]
    fn folders_licences_and_rust_files_count_as_paths() {
        let text = "`crates/load/src/` `load/src/lib.rs` `LICENSE-MIT` `CHANGELOG.md` `studies/x/`";
        let files = [("docs/a.md", text), ("crates/load/src/lib.rs", "")];
        let seen = complaints(&files);
        let missing = ["LICENSE-MIT", "CHANGELOG.md", "studies/x/"];
        assert_eq!(
            seen,
            missing.map(|m| format!("docs/a.md:1: {m} does not exist"))
        );
    }

    #[test]
    fn what_prony_serves_or_writes_is_no_path_of_ours() {
        let text =
            "`/bytes/N` `report.md` `trials/<block>/` `docs/*.md` `a/b` `prony load` `tcp/unix`";
        assert!(complaints(&[("README.md", text)]).is_empty());
        assert!(complaints(&[("README.md", "```sh\nls `docs/none.md`\n```\n")]).is_empty());
        assert!(complaints(&[("studies/x/README.md", "`docs/none.md`")]).is_empty());
    }

    #[test]
    fn links_into_the_repository_lead_somewhere() {
        let text = "[a](b.md#part) [c](../README.md) [d](https://example.org/x) [e](#f) [g](no.md)";
        let files = [("docs/a.md", text), ("docs/b.md", ""), ("README.md", "")];
        assert_eq!(complaints(&files), ["docs/a.md:1: no.md does not exist"]);
    }

    #[test]
    fn crates_and_the_architecture_name_each_other() {
        let files = [
            (ARCHITECTURE, "`crates/load` and `crates/gone`"),
            ("crates/load/Cargo.toml", ""),
            ("crates/novel/Cargo.toml", ""),
        ];
        let expected = [
            "docs/architecture.md:1: crates/gone does not exist",
            "docs/architecture.md: doesn't mention `crates/novel`",
        ];
        assert_eq!(complaints(&files), expected);
    }
}
