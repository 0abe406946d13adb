//! Folder of stored runs, and the names of new runs in it.

pub(crate) mod catalog;

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use crate::ending::Failure;

/// Folder for results if the command line names none.
pub(crate) const RUNS_DIR: &str = "prony-runs";

/// The folder for the results of an experiment. A new folder is removed again if nothing was
/// written to it.
pub(crate) enum ResultsFolder {
    /// The folder that the command line names.
    Named(PathBuf),
    New(PathBuf),
}

impl ResultsFolder {
    /// Returns the folder `named` or, if it is `None`, creates one for an experiment named `name`
    /// that starts now. Experiments that start at the same time get different folders, because each
    /// creates its own.
    pub(crate) fn open(named: Option<PathBuf>, name: &str) -> Result<ResultsFolder, Failure> {
        if let Some(dir) = named {
            return Ok(ResultsFolder::Named(dir));
        }
        let first = for_new_run(name);
        let refused = |error| Failure::refused(format!("{}: {error}", first.display()));
        let numbered = |number: u32| format!("{}-{number}", first.display()).into();
        let mut dir = first.clone();
        for number in 2.. {
            // A command that failed may remove the folder of all runs at the same time.
            fs::create_dir_all(RUNS_DIR).map_err(refused)?;
            match fs::create_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    dir = numbered(number);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(refused(error)),
                Ok(()) => break,
            }
        }
        Ok(ResultsFolder::New(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            ResultsFolder::Named(dir) | ResultsFolder::New(dir) => dir,
        }
    }
}

impl Drop for ResultsFolder {
    fn drop(&mut self) {
        if let ResultsFolder::New(dir) = self {
            // The calls fail if the folders are not empty.
            let _ = fs::remove_dir(dir).and_then(|()| fs::remove_dir(RUNS_DIR));
        }
    }
}

/// Returns the folder for an experiment named `name` that starts now.
pub(crate) fn for_new_run(name: &str) -> PathBuf {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time = time
        .trim_end_matches('Z')
        .replace(':', "")
        .replace('T', "-");
    let name: String = name
        .chars()
        .map(|c| {
            if c.is_whitespace() || c == '/' {
                '-'
            } else {
                c
            }
        })
        .collect();
    PathBuf::from(RUNS_DIR).join(format!("{time}-{name}"))
}
