//! An experiment's own copy of its plan: the text, and every file that it names as it was then.
//!
//! Within the copy, `folder` says where the plan lay (for working directories and programs) and
//! `includes` where the copies of its files lie, so that an experiment can be resumed although the
//! originals have changed since. Private keys, and what an absolute path within a list of URLs
//! names, stay where they are.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::Plan;
use super::folder::{Folder, INCLUDES, copy_name};

/// A file that a plan names, and where its copy belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FrozenFile {
    /// Where it lies, absolute.
    from: PathBuf,
    /// Where its copy belongs, relative to the experiment's folder.
    to: PathBuf,
}

impl Plan {
    /// The plan's text for an experiment's folder, whose copies of the files it then uses.
    pub fn frozen_text(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let mut text =
            String::from("# As run; the files that it names lie in the includes folder.\n");
        text += &format!("folder = {}\n", quoted(&self.folder.base.to_string_lossy()));
        text += &format!("includes = {}\n\n", quoted(INCLUDES));
        let written = self.text.strip_prefix('\u{feff}').unwrap_or(&self.text);
        for (index, line) in written.split_inclusive('\n').enumerate() {
            if !self.replaced_lines.contains(&(index + 1)) {
                text += line;
            }
        }
        text
    }

    /// Writes `plan.toml` and the files that it names into an experiment's folder, which must be
    /// there. [`Plan::read`] takes that copy.
    ///
    /// # Errors
    /// A file that can't be read or written.
    pub fn freeze(&self, experiment: &Path) -> io::Result<()> {
        for file in &self.frozen {
            let to = experiment.join(&file.to);
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(to, fs::read(&file.from)?)?;
        }
        fs::write(experiment.join("plan.toml"), self.frozen_text())
    }
}

/// The copies that `references`, paths as a plan writes them, come to.
pub(super) fn files(references: &BTreeSet<String>, folder: &Folder) -> Vec<FrozenFile> {
    let mut frozen = BTreeSet::new();
    for reference in references {
        let file = FrozenFile {
            from: folder.file(reference),
            to: Path::new(INCLUDES).join(copy_name(reference)),
        };
        frozen.extend(bodies(&file));
        frozen.insert(file);
    }
    frozen.into_iter().collect()
}

/// The files that a list of URLs takes bodies from (`/path POST <file`), which lie beside it. A
/// file that is no such list names none that exist.
fn bodies(list: &FrozenFile) -> Vec<FrozenFile> {
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
        .filter(|file| {
            file.components()
                .all(|part| matches!(part, Component::Normal(_)))
        })
        .map(|file| FrozenFile {
            from: from.join(file),
            to: to.join(file),
        })
        .filter(|file| file.from.is_file())
        .collect()
}
