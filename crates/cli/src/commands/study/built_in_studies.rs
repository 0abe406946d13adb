//! The files of the studies that are included with prony.

use std::path::Path;

use include_dir::{Dir, include_dir};

pub(crate) static STUDIES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/studies");

/// Returns true if a study has the file `path`, which is relative to the study's folder.
pub(crate) fn has_file(path: &Path) -> bool {
    let mut studies = STUDIES.dirs();
    studies.any(|study| study.get_file(study.path().join(path)).is_some())
}
