//! Where the files that a plan names lie: beside the plan, or in the copy that an experiment keeps.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The largest file that a plan may hand to a service or a load, in bytes.
const LARGEST_FILE: u64 = 64 << 20;

/// The folder within an experiment that holds copies of the files that its plan names.
pub(crate) const INCLUDES: &str = "includes";

/// The folder that a plan's relative paths start from, and the copies that go before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    /// Where relative paths start, absolute.
    pub(crate) base: PathBuf,
    /// Where the files' copies lie, if this plan is an experiment's own copy.
    pub(crate) includes: Option<PathBuf>,
}

impl Folder {
    /// A path as the plan means it.
    pub(crate) fn path(&self, reference: &str) -> PathBuf {
        tidy(&self.base.join(reference))
    }

    /// A file's path: its copy where this plan is a copy itself.
    pub(crate) fn file(&self, reference: &str) -> PathBuf {
        match &self.includes {
            Some(includes) => includes.join(copy_name(reference)),
            None => self.path(reference),
        }
    }

    /// Whether a file is there, is a plain one, and can be read.
    pub(crate) fn check(&self, reference: &str) -> Result<(), String> {
        fs::File::open(self.file(reference))
            .and_then(|file| file.metadata())
            .map_err(|error| plain_words(&error))
            .and_then(|metadata| usable(&metadata))
    }

    /// The bytes of a file.
    pub(crate) fn read(&self, reference: &str) -> Result<Vec<u8>, String> {
        self.check(reference)?;
        fs::read(self.file(reference)).map_err(|error| plain_words(&error))
    }
}

fn usable(metadata: &fs::Metadata) -> Result<(), String> {
    if !metadata.is_file() {
        return Err("is no plain file".to_owned());
    }
    if metadata.len() > LARGEST_FILE {
        return Err(format!("is larger than {} MiB", LARGEST_FILE >> 20));
    }
    Ok(())
}

/// A failure to open, as the end of the sentence "FILE …".
pub(crate) fn plain_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be read by this user".to_owned(),
        _ => format!("can't be read: {error}"),
    }
}

/// The name of a file's copy: its own where that lies below the plan, one flat word where it points
/// elsewhere.
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
    // `~` doubles and `/` becomes `~-`, so that no two references share a name.
    PathBuf::from(format!(
        "~{}",
        reference.replace('~', "~~").replace('/', "~-")
    ))
}

/// The path without `.` in it; `..` stays, since a link before it may lead elsewhere.
fn tidy(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_inside_and_apart() {
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
