//! The project's files as text in memory. The rules of `tidy` read nothing else, so tests can run
//! them on tiny trees.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Files by their path from the root, with `/` as the separator. Files that aren't UTF-8 have no
/// text.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads the files below `root` that git tracks or would track. Outside a git repository, reads
    /// everything except build output.
    pub(crate) fn read(root: &Path) -> std::io::Result<Tree> {
        let mut paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        // Symbolic links are skipped, because git lists their targets separately.
        paths.retain(|p| root.join(p).symlink_metadata().is_ok_and(|m| m.is_file()));
        let mut tree = Tree::default();
        for path in paths {
            let bytes = std::fs::read(root.join(&path))?;
            tree.files.insert(path, String::from_utf8(bytes).ok());
        }
        Ok(tree)
    }

    /// All files that have text, sorted by path.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter_map(|(p, t)| Some((p.as_str(), t.as_deref()?)))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Returns true if `path` is a file, or a folder that contains one.
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    /// Names of the crates: the folders in `crates/` that contain a manifest.
    pub(crate) fn crates(&self) -> Vec<&str> {
        self.files
            .keys()
            .filter_map(|p| p.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
            .collect()
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        Tree {
            files: files
                .iter()
                .map(|(p, t)| (p.to_string(), Some(t.to_string())))
                .collect(),
        }
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let listing = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = listing
        .split('\0')
        .filter(|p| !p.is_empty())
        .map(str::to_string)
        .collect();
    // If this tree is a copy inside another repository, git lists none of its files.
    (!paths.is_empty()).then_some(paths)
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !matches!(
                name.as_str(),
                "target" | ".git" | "prony-runs" | "__pycache__"
            ) {
                walk(root, &path, paths)?;
            }
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_through_their_files() {
        let tree = Tree::of(&[("crates/load/src/lib.rs", ""), ("README.md", "")]);
        assert!(tree.exists("crates/load/src"));
        assert!(tree.exists("crates/load/"));
        assert!(tree.exists("README.md"));
        assert!(!tree.exists("crates/lo"));
        assert!(!tree.exists("docs"));
    }

    #[test]
    fn crates_are_folders_with_a_manifest() {
        let tree = Tree::of(&[
            ("crates/load/Cargo.toml", ""),
            ("crates/load/inner/Cargo.toml", ""),
            ("crates/notes/README.md", ""),
        ]);
        assert_eq!(tree.crates(), ["load"]);
    }

    #[test]
    fn without_git_the_build_output_is_left_out() {
        let root = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        for folder in ["src", "target/debug"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("src/a.rs"), "fn a() {}").unwrap();
        std::fs::write(root.join("target/debug/b.rs"), "").unwrap();
        let mut paths = Vec::new();
        walk(&root, "", &mut paths).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(paths, ["src/a.rs"]);
    }
}
