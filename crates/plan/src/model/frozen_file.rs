//! Files that a plan names, and the paths of their copies in an experiment's folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use prony_load::{JourneyStep, proto_imports, read_steps};

use super::folder::{INCLUDES, PlanFolder, copy_name};

/// A file that a plan names, with the path of its copy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FrozenFile {
    /// Absolute path of the original.
    pub(crate) from: PathBuf,
    /// Path of the copy, relative to the experiment's folder.
    pub(crate) to: PathBuf,
}

impl FrozenFile {
    /// Returns true if this is a folder, of which only some files are copied.
    pub(crate) fn is_folder(&self) -> bool {
        self.from.is_dir()
    }
}

/// Lists the files to copy for `references`, which are paths as written in the plan.
pub(crate) fn frozen_files(references: &BTreeSet<String>, folder: &PlanFolder) -> Vec<FrozenFile> {
    let mut frozen = BTreeSet::new();
    let references = references.iter().map(|reference| FrozenFile {
        from: folder.file(reference),
        to: Path::new(INCLUDES).join(copy_name(reference)),
    });
    // The only folders are those in which imports of .proto files are found. They exist in the copy
    // even if nothing is imported from them.
    let (folders, files): (Vec<_>, Vec<_>) = references.partition(FrozenFile::is_folder);
    for file in files {
        frozen.extend(body_files(&file));
        frozen.extend(step_files(&file));
        frozen.extend(imported_files(&file, &folders));
        frozen.insert(file);
    }
    frozen.extend(folders);
    frozen.into_iter().collect()
}

/// Lists the request bodies to which a list of URLs refers (`/path POST <file`). Their paths are
/// relative to the list. Files that don't exist are omitted.
fn body_files(list: &FrozenFile) -> Vec<FrozenFile> {
    let Ok(text) = fs::read_to_string(&list.from) else {
        return Vec::new();
    };
    let (Some(from), Some(to)) = (list.from.parent(), list.to.parent()) else {
        return Vec::new();
    };
    text.lines()
        .filter(|line| line.trim_start().starts_with(['/', 'h']))
        .filter_map(|line| {
            line.split_once(" <")
                .map(|(_, file)| Path::new(file.trim()))
        })
        .filter(|file| is_below(file))
        .map(|file| FrozenFile {
            from: from.join(file),
            to: to.join(file),
        })
        .filter(|file| file.from.is_file())
        .collect()
}

/// Lists the files that the steps in a file read. Their paths are relative to the file.
fn step_files(steps: &FrozenFile) -> Vec<FrozenFile> {
    let is_toml = steps.from.extension().is_some_and(|it| it == "toml");
    let read = is_toml.then(|| read_steps(&steps.from).ok()).flatten();
    let (Some(read), Some(from), Some(to)) = (read, steps.from.parent(), steps.to.parent()) else {
        return Vec::new();
    };
    let named = read.iter().flat_map(JourneyStep::files);
    let relative = named.filter_map(|file| file.strip_prefix(from).ok());
    relative
        .filter(|file| is_below(file) && from.join(file).is_file())
        .map(|file| FrozenFile {
            from: from.join(file),
            to: to.join(file),
        })
        .collect()
}

/// Lists the files that a .proto file imports, from one of `folders` or from its own folder. Their
/// paths are relative to that folder.
fn imported_files(proto: &FrozenFile, folders: &[FrozenFile]) -> Vec<FrozenFile> {
    let is_proto = proto.from.extension().is_some_and(|it| it == "proto");
    let (true, Some(from), Some(to)) = (is_proto, proto.from.parent(), proto.to.parent()) else {
        return Vec::new();
    };
    let own = FrozenFile {
        from: from.to_owned(),
        to: to.to_owned(),
    };
    let mut imported = Vec::new();
    for folder in folders.iter().map(Some).chain([None]) {
        for file in proto_imports(&proto.from, folder.map(|folder| &*folder.from)) {
            let mut roots = folder.into_iter().chain([&own]);
            imported.extend(roots.find_map(|root| {
                let relative = file.strip_prefix(&root.from).ok()?;
                is_below(relative).then(|| FrozenFile {
                    from: file.clone(),
                    to: root.to.join(relative),
                })
            }));
        }
    }
    imported
}

/// Returns true if a path leads to a file in its folder, or below it.
fn is_below(file: &Path) -> bool {
    file.components()
        .all(|part| matches!(part, Component::Normal(_)))
}
