//! Location of the files that a plan names: next to the plan, or in the experiment's copies.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The largest file that a plan may pass to a service or a load, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The folder of an experiment that has copies of the files that its plan names.
pub(crate) const INCLUDES: &str = "includes";

/// The folder that a plan's relative paths start from, and the folder of the copied files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanFolder {
    /// The absolute path that relative paths start from.
    pub(crate) base: PathBuf,
    /// The folder of the copied files, if this plan is an experiment's own copy.
    pub(crate) includes: Option<PathBuf>,
}

impl PlanFolder {
    /// The absolute path of a reference in the plan.
    pub(crate) fn path(&self, reference: &str) -> PathBuf {
        without_dots(&self.base.join(reference))
    }

    /// The path of a file: that of its copy if this plan is an experiment's own copy.
    pub(crate) fn file(&self, reference: &str) -> PathBuf {
        match &self.includes {
            Some(includes) => includes.join(copy_name(reference)),
            None => self.path(reference),
        }
    }

    /// Checks that a file exists, is a regular file and can be read. An error completes the sentence
    /// "FILE …".
    pub(crate) fn check(&self, reference: &str) -> Result<(), String> {
        fs::File::open(self.file(reference))
            .and_then(|file| file.metadata())
            .map_err(|error| io_error_words(&error))
            .and_then(|metadata| usable(&metadata))
    }

    /// Reads a file. An error completes the sentence "FILE …".
    pub(crate) fn read(&self, reference: &str) -> Result<Vec<u8>, String> {
        self.check(reference)?;
        fs::read(self.file(reference)).map_err(|error| io_error_words(&error))
    }
}

fn usable(metadata: &fs::Metadata) -> Result<(), String> {
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    Ok(())
}

/// Words for a failure to open a file, which complete the sentence "FILE …".
pub(crate) fn io_error_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "can't be read by this user".to_owned(),
        _ => format!("can't be read: {error}"),
    }
}

/// The name of a file's copy. A path below the plan's folder keeps its name. Any other path is
/// converted to one word.
pub(crate) fn copy_name(reference: &str) -> PathBuf {
    let path = Path::new(reference);
    let below = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if below && !reference.starts_with('~') {
        return path
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .collect();
    }
    // `~` becomes `~~` and `/` becomes `~-`, so that no two references share a name.
    PathBuf::from(format!(
        "~{}",
        reference.replace('~', "~~").replace('/', "~-")
    ))
}

/// Removes `.` from a path. Keeps `..`, because a symbolic link before it may lead elsewhere.
fn without_dots(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_distinct_names_inside_their_folder() {
        assert_eq!(copy_name("./conf/nginx.conf"), Path::new("conf/nginx.conf"));
        let outside = [
            "../nginx.conf",
            "/etc/nginx.conf",
            "~-nginx.conf",
            "..~nginx.conf/..",
        ];
        let names: Vec<_> = outside
            .iter()
            .map(|reference| copy_name(reference))
            .collect();
        for (index, name) in names.iter().enumerate() {
            assert_eq!(name.components().count(), 1, "{}", name.display());
            assert!(!names[..index].contains(name), "{}", name.display());
        }
    }
}
