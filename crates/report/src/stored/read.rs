//! Reads stored runs from a path.

use std::fs;
use std::path::{Path, PathBuf};

use prony_record::{Record, read_stored};

use super::{Stored, StoredContent};
use crate::folder::{self, FolderError};

/// Error for a path that doesn't exist.
const NOT_FOUND: &str = "no such file or folder (name a folder that prony compare wrote, or a file that \
    prony load --json wrote)";

/// Error for an experiment without a complete block.
const UNFINISHED: &str = "the experiment has no complete block, so there is nothing to report (prony \
    compare --resume continues it)";

/// Reads the run that `path` names: a folder that `prony compare` wrote, a record, a folder of
/// records, or a pattern such as `runs/*.json` that matches records.
///
/// # Errors
/// Returns an error if nothing was found or a file can't be read.
pub fn read_results(path: &Path) -> Result<Stored, FolderError> {
    let content = if path.is_dir() {
        of_folder(path)?
    } else if path.file_name().is_some_and(|name| name == "verdict.json") {
        let dir = path.parent().unwrap_or(Path::new("."));
        StoredContent::Experiment(Box::new(folder::read_experiment(dir)?))
    } else if path.exists() {
        StoredContent::Loads(vec![record(path)?])
    } else if !is_pattern(path) {
        return Err(FolderError::Malformed {
            path: path.to_owned(),
            reason: NOT_FOUND.to_owned(),
        });
    } else {
        StoredContent::Loads(records(matching(path)?)?)
    };
    Ok(Stored {
        source: path.display().to_string(),
        content,
        series: None,
    })
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

fn of_folder(dir: &Path) -> Result<StoredContent, FolderError> {
    if dir.join("verdict.json").exists() {
        return Ok(StoredContent::Experiment(Box::new(
            folder::read_experiment(dir)?,
        )));
    }
    if dir.join("state.json").exists() && dir.join("plan.toml").exists() {
        return Err(FolderError::Malformed {
            path: dir.to_owned(),
            reason: UNFINISHED.to_owned(),
        });
    }
    let unreadable = |error| FolderError::Unreadable {
        path: dir.to_owned(),
        error,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(FolderError::NoVerdict(dir.to_owned()));
    }
    records(paths).map(StoredContent::Loads)
}

fn matching(pattern: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let malformed = |reason: String| FolderError::Malformed {
        path: pattern.to_owned(),
        reason,
    };
    let paths = glob::glob(&pattern.to_string_lossy())
        .map_err(|error| malformed(format!("not a valid pattern: {error}")))?;
    let paths: Vec<PathBuf> = paths.flatten().filter(|path| path.is_file()).collect();
    if paths.is_empty() {
        Err(malformed("no file matches this pattern".to_owned()))
    } else {
        Ok(paths)
    }
}

/// Reads the records in the given files, in the order of the files' names.
fn records(mut paths: Vec<PathBuf>) -> Result<Vec<Record>, FolderError> {
    paths.sort();
    paths.iter().map(|path| record(path)).collect()
}

fn record(path: &Path) -> Result<Record, FolderError> {
    let json = read_stored(path).map_err(|error| FolderError::Unreadable {
        path: path.to_owned(),
        error,
    })?;
    Record::from_json(&json).map_err(|error| FolderError::Malformed {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}
