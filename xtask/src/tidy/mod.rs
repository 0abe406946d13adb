//! `cargo xtask tidy`: project rules that the compiler doesn't check.
//!
//! Input: the project's files as a [`Tree`]. Output: complaints, each with a file and a line. Every
//! rule is a pure function from a tree to complaints.

mod complaint;
mod cycles;
mod dependencies;
mod documents;
mod items;
mod layers;
mod licenses;
mod module_graph;
mod parents;
mod purity;
mod source;

use complaint::Complaint;

use crate::cargo::{cargo, workspace_root};
use crate::ending::Ending;
use crate::tree::Tree;

/// Checks the workspace and prints all complaints. `only` restricts the output to a crate or to the
/// files below a path.
pub(crate) fn run(only: Option<&str>) -> Ending {
    let root = workspace_root();
    let tree = match Tree::read(&root) {
        Ok(tree) => tree,
        Err(error) => {
            println!("{}: {error}", root.display());
            return Ending::Failed;
        }
    };
    let complaints = match only {
        None => {
            let mut complaints = check(&tree);
            complaints.extend(check_dependencies(&tree));
            complaints
        }
        Some(only) => {
            let folder = folder_of(&tree, only);
            if !tree.exists(&folder) {
                println!("{folder}: no such file or folder");
                return Ending::Usage;
            }
            let mut complaints = check(&tree);
            complaints.retain(|c| is_below(&c.path, &folder));
            complaints
        }
    };
    for complaint in &complaints {
        println!("{complaint}");
    }
    if complaints.is_empty() {
        Ending::Success
    } else {
        Ending::Failed
    }
}

/// Checks the dependencies on Linux. Cargo downloads manifests that are missing.
fn check_dependencies(tree: &Tree) -> Vec<Complaint> {
    let run = |args: &[&str], more: &[&str]| {
        let output = cargo(args).args(more).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then_some(text)
    };
    let list = |args: &[&str]| run(args, &["--offline"]).or_else(|| run(args, &[]));
    let all = list(&dependencies::ALL_CRATES);
    let program = list(&dependencies::CRATES_OF_PROGRAM);
    match all.zip(program) {
        Some((all, program)) => {
            dependencies::check(tree.text("deny.toml").unwrap_or_default(), &all, &program)
        }
        None => vec![Complaint::new(
            "Cargo.lock",
            0,
            "`cargo tree --locked` fails",
        )],
    }
}

/// Returns the folder of a crate name; other text is returned unchanged, as a path.
fn folder_of(tree: &Tree, only: &str) -> String {
    let only = only.trim_end_matches('/');
    if tree.crates().contains(&only) {
        format!("crates/{only}")
    } else {
        only.to_string()
    }
}

/// Returns all complaints about a tree, sorted by file and line.
fn check(tree: &Tree) -> Vec<Complaint> {
    let sources = source::parse_all(tree);
    let items = items::read_all(tree);
    let mut complaints = sources.complaints.clone();
    complaints.extend(layers::check(tree));
    complaints.extend(purity::check(&sources));
    complaints.extend(documents::check(tree));
    complaints.extend(cycles::check(&items));
    complaints.extend(parents::check(&items));
    complaints.sort();
    complaints
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_run_together_and_in_order() {
        let tree = Tree::of(&[
            ("crates/stats/src/clock.rs", "use std::time::Instant;\n"),
            ("crates/stats/src/broken.rs", "fn a() {"),
            ("README.md", "see `docs/none.md`\n"),
        ]);
        let complaints = check(&tree);
        let files: Vec<&str> = complaints.iter().map(|c| c.path.as_str()).collect();
        assert_eq!(
            files,
            [
                "README.md",
                "crates/stats/src/broken.rs",
                "crates/stats/src/clock.rs"
            ]
        );
    }
}
