//! What an agent sent of a run, kept on its own disk until the coordinator has it whole.
//!
//! A line of JSON for each message, written before it is sent: whatever becomes of the server, of the
//! coordinator or of the way there, what was measured is there and can be sent again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use crate::messages::ResultMessage;
use crate::names::{AgentName, RunId};

/// How long files of runs that nobody collected are kept.
const KEPT: std::time::Duration = std::time::Duration::from_secs(30 * 86_400);

/// The file of one run.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    file: fs::File,
}

/// The name of a run's file.
fn file_name(run: &RunId, agent: &AgentName) -> String {
    format!("{run}.{agent}.jsonl")
}

impl Spool {
    /// Begins a run's file in `folder`, which is made if it isn't there.
    pub(crate) fn begin(folder: &Path, run: &RunId, agent: &AgentName) -> Result<Spool, String> {
        let path = folder.join(file_name(run, agent));
        let begun = fs::create_dir_all(folder).and_then(|()| {
            let mut options = fs::OpenOptions::new();
            options.create(true).append(true).open(&path)
        });
        let file = begun.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Spool { path, file })
    }

    /// Writes a message down.
    pub(crate) fn keep(&mut self, message: &ResultMessage) -> Result<(), String> {
        let mut line = serde_json::to_vec(message).map_err(|error| error.to_string())?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// The coordinator has it all.
    pub(crate) fn forget(self) {
        // If it stays it goes with its age.
        let _ = fs::remove_file(&self.path);
    }
}

/// The messages of a run that an agent's file holds; a line that a crash cut off is passed over.
///
/// # Errors
///
/// In words, where the file can't be read.
pub fn read(path: &Path) -> Result<Vec<ResultMessage>, String> {
    let file = fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut messages = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|error| format!("{}: {error}", path.display()))?;
        messages.extend(serde_json::from_str::<ResultMessage>(&line).ok());
    }
    Ok(messages)
}

/// Files of runs that are not collected yet, the oldest first; those that are too old are removed.
pub(crate) fn uncollected(folder: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        let age = entry.metadata().and_then(|it| it.modified());
        let age = age.ok().and_then(|at| at.elapsed().ok());
        match age.is_some_and(|age| age > KEPT) {
            // The next start tries again.
            true => drop(fs::remove_file(&path)),
            false => left.push(path),
        }
    }
    left.sort();
    left
}

#[cfg(test)]
mod tests {
    use prony_record::{Delta, Packed};

    use super::*;

    fn message(sequence: u64) -> ResultMessage {
        ResultMessage {
            run: "r1".parse().unwrap(),
            agent: "one".parse().unwrap(),
            sequence,
            packed: Packed::of(&Delta::default()),
            end: None,
        }
    }

    #[test]
    fn what_was_written_is_there_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let (run, agent) = ("r1".parse().unwrap(), "one".parse().unwrap());
        let mut spool = Spool::begin(folder.path(), &run, &agent).unwrap();
        for n in 0..3 {
            spool.keep(&message(n)).unwrap();
        }
        spool.file.write_all(b"{\"run\":\"r1\",\"ag").unwrap();
        let left = uncollected(folder.path());
        assert_eq!(left.len(), 1);
        let read: Vec<u64> = read(&left[0])
            .unwrap()
            .iter()
            .map(|it| it.sequence)
            .collect();
        assert_eq!(read, [0, 1, 2]);
        spool.forget();
        assert!(uncollected(folder.path()).is_empty());
    }
}
