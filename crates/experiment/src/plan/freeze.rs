//! An experiment's own copy of its plan: the text, and every file that it names as it was then.
//!
//! Within the copy, `folder` says where the plan lay (for working directories and programs) and
//! `includes` where the copies of its files lie, so that an experiment can be resumed although the
//! originals have changed since. Private keys, and what an absolute path within a list of URLs
//! names, stay where they are.
//!
//! The copy of the text has placeholders for credentials. These are in a file of their own, which only
//! the user can read, until the experiment is complete.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use prony_record::redact;

use super::Plan;
use super::error::{Fault, PlanError};
use super::folder::{Folder, INCLUDES, copy_name};

/// The file within an experiment that holds the credentials of its plan.
const SECRETS: &str = "secrets.json";

/// For the owner alone.
const SECRETS_MODE: u32 = 0o600;

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

    /// The copies of the files that it names, relative to an experiment's folder.
    pub(crate) fn frozen_names(&self) -> Vec<PathBuf> {
        self.frozen.iter().map(|file| file.to.clone()).collect()
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
        fs::write(experiment.join("plan.toml"), self.stored_text())?;
        self.keep_secrets(experiment)
    }

    /// The plan's text as an experiment's folder holds it: [`Plan::frozen_text`] without credentials.
    pub fn stored_text(&self) -> String {
        redact::split(&self.frozen_text()).text
    }

    /// Writes the plan's credentials, if it has any, to an experiment's folder.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn keep_secrets(&self, experiment: &Path) -> io::Result<()> {
        let secrets = redact::split(&self.frozen_text()).secrets;
        if secrets.is_empty() {
            return Ok(());
        }
        let path = experiment.join(SECRETS);
        // An old file would keep its permissions.
        forget_secrets(experiment)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(SECRETS_MODE)
            .open(path)?;
        file.write_all(serde_json::to_string(&secrets)?.as_bytes())
    }
}

/// Removes the credentials from an experiment's folder.
///
/// # Errors
/// The file is there and can't be removed.
pub fn forget_secrets(experiment: &Path) -> io::Result<()> {
    match fs::remove_file(experiment.join(SECRETS)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A stored plan's text with its credentials in place.
pub(super) fn with_secrets(text: String, plan: &Path) -> Result<String, PlanError> {
    if !redact::is_redacted(&text) {
        return Ok(text);
    }
    let path = plan.with_file_name(SECRETS);
    let wrong = |what: String| PlanError::new(Fault::File, plan, 0, what);
    let json = match fs::read_to_string(&path) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let what = "the credentials of this plan were removed when its experiment ended";
            let mend =
                "name the original plan as well, prony compare PLAN --resume DIR, or run it again";
            return Err(wrong(what.to_owned()).mend(mend));
        }
        Err(error) => return Err(wrong(format!("{}: {error}", path.display()))),
    };
    let secrets: Vec<String> = serde_json::from_str(&json)
        .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
    Ok(redact::restore(&text, &secrets))
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
