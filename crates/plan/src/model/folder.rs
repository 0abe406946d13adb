//! Location of the files that a plan names: in the plan's folder, or as copies in the experiment's
//! folder.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum size in bytes of a file that a plan passes to a service or a load.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Name of the folder, within an experiment's folder, that holds copies of the files that the plan
/// names.
pub(crate) const INCLUDES: &str = "includes";

/// The folder against which a plan's relative paths are resolved, and the folder of the copied
/// files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanFolder {
    /// Absolute path against which relative paths are resolved.
    pub(crate) base: PathBuf,
    /// Folder of the copied files, if this plan is the copy in an experiment's folder.
    pub(crate) includes: Option<PathBuf>,
}

impl PlanFolder {
    /// Converts a path in the plan to an absolute path.
    pub(crate) fn path(&self, reference: &str) -> PathBuf {
        without_dots(&self.base.join(reference))
    }

    /// Returns the path of a file, or of its copy if this plan is the copy in an experiment's
    /// folder.
    pub(crate) fn file(&self, reference: &str) -> PathBuf {
        match &self.includes {
            Some(includes) => includes.join(copy_name(reference)),
            None => self.path(reference),
        }
    }

    /// Checks that a file exists, is a regular file, and can be read. An error completes the
    /// sentence "FILE …".
    pub(crate) fn check(&self, reference: &str) -> Result<(), PlanFileError> {
        let path = self.file(reference);
        // Opening a pipe would wait for a writer.
        let metadata = fs::metadata(&path)?;
        usable(&metadata)?;
        fs::File::open(path)?;
        Ok(())
    }

    /// Reads a file. An error completes the sentence "FILE …".
    pub(crate) fn read(&self, reference: &str) -> Result<Vec<u8>, PlanFileError> {
        self.check(reference)?;
        Ok(fs::read(self.file(reference))?)
    }
}

fn usable(metadata: &fs::Metadata) -> Result<(), PlanFileError> {
    if !metadata.is_file() {
        return Err(PlanFileError::NotRegular);
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(PlanFileError::TooLarge);
    }
    Ok(())
}

/// Reason why a file that a plan names can't be used. The text completes the sentence "FILE …".
#[derive(Debug)]
pub(crate) enum PlanFileError {
    Io(io::Error),
    NotRegular,
    TooLarge,
}

impl From<io::Error> for PlanFileError {
    fn from(error: io::Error) -> PlanFileError {
        PlanFileError::Io(error)
    }
}

impl fmt::Display for PlanFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanFileError::Io(error) => f.write_str(&io_error_words(error)),
            PlanFileError::NotRegular => f.write_str("is not a regular file"),
            PlanFileError::TooLarge => write!(f, "is larger than {} MiB", FILE_BYTES_MAX >> 20),
        }
    }
}

/// Describes a failure to open a file. The text completes the sentence "FILE …".
pub(crate) fn io_error_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "can't be read by this user".to_owned(),
        _ => format!("can't be read: {error}"),
    }
}

/// Returns the name of a file's copy. A path below the plan's folder is kept. Any other path is
/// converted to a single path component.
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
    // Escape `~` as `~~` and `/` as `~-`, which gives different paths different names.
    PathBuf::from(format!(
        "~{}",
        reference.replace('~', "~~").replace('/', "~-")
    ))
}

/// Removes `.` from a path. Keeps `..`, because the component before it may be a symbolic link.
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
