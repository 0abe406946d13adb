//! An agent's copy of a run's results, kept on disk until the coordinator has collected all of
//! them.
//!
//! The file has one line of JSON per message. Each message is written before it is sent. Results
//! survive failures of the server, of the coordinator and of the connection; a power failure loses
//! at most the last second.

use std::fmt;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use prony_record::finding::{AgentLoss, AgentLost, Subject};
use prony_record::{Delta, EncodedDelta, Finding, Generator, Negotiated, Severity};

use super::flusher::Flusher;
use crate::names::{AgentName, RunId};
use crate::wire::{EndReason, PartEnd, ResultMessage};

/// Age at which uncollected files are removed.
const AGE_MAX: std::time::Duration = std::time::Duration::from_secs(30 * 86_400);

/// Error of a result file.
#[derive(Debug)]
pub enum SpoolError {
    /// The file can't be read or written.
    File(PathBuf, io::Error),
    /// A message can't be serialized.
    Message(serde_json::Error),
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpoolError::File(path, error) => write!(f, "{}: {error}", path.display()),
            SpoolError::Message(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SpoolError {}

impl SpoolError {
    fn of_file(path: &Path) -> impl FnOnce(io::Error) -> SpoolError {
        |error| SpoolError::File(path.to_owned(), error)
    }
}

/// Result file of one run.
#[derive(Debug)]
pub(super) struct Spool {
    path: PathBuf,
    file: fs::File,
    /// True if the last line may be incomplete. The next message must then start on a new line.
    is_torn: bool,
    flusher: Flusher,
}

/// Returns the suffix of an agent's file names.
fn suffix(agent: &AgentName) -> String {
    format!(".{agent}.jsonl")
}

/// Returns the path of a run's file.
fn path(folder: &Path, run: &RunId, agent: &AgentName) -> PathBuf {
    folder.join(format!("{run}{}", suffix(agent)))
}

/// Returns the run that an agent's file belongs to.
pub(super) fn run_of(path: &Path, agent: &AgentName) -> Option<RunId> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(&suffix(agent))?.parse().ok()
}

/// Returns true if the agent has a file for this run.
pub(super) fn exists(folder: &Path, run: &RunId, agent: &AgentName) -> bool {
    path(folder, run, agent).exists()
}

/// Deletes the file of a run, if it exists.
///
/// # Errors
///
/// The file exists and can't be removed.
pub(super) fn delete(folder: &Path, run: &RunId, agent: &AgentName) -> Result<(), SpoolError> {
    let path = path(folder, run, agent);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(SpoolError::File(path, error)),
        _ => Ok(()),
    }
}

impl Spool {
    /// Creates the file of a run in `folder`. Returns an error if the file exists.
    pub(super) fn begin(
        folder: &Path,
        run: &RunId,
        agent: &AgentName,
    ) -> Result<Spool, SpoolError> {
        let path = path(folder, run, agent);
        let begun = fs::create_dir_all(folder).and_then(|()| {
            let mut options = fs::OpenOptions::new();
            options.create_new(true).append(true).open(&path)
        });
        Spool::opened(path, begun)
    }

    /// Opens a file of an earlier start for appending.
    fn reopen(path: &Path) -> Result<Spool, SpoolError> {
        let opened = fs::OpenOptions::new().append(true).open(path);
        Spool::opened(path.to_owned(), opened)
    }

    fn opened(path: PathBuf, file: std::io::Result<fs::File>) -> Result<Spool, SpoolError> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let opened =
            file.and_then(|file| Flusher::new(&file, folder).map(|flusher| (file, flusher)));
        let (file, flusher) = opened.map_err(SpoolError::of_file(&path))?;
        let is_torn = file.metadata().map_or(true, |it| it.len() > 0);
        Ok(Spool {
            path,
            file,
            is_torn,
            flusher,
        })
    }

    /// Appends a message to the file.
    pub(super) fn append(&mut self, message: &ResultMessage) -> Result<(), SpoolError> {
        let mut line = Vec::new();
        if self.is_torn {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, message).map_err(SpoolError::Message)?;
        line.push(b'\n');
        let kept = self.file.write_all(&line);
        self.is_torn = kept.is_err();
        self.flusher.flush();
        kept.map_err(SpoolError::of_file(&self.path))
    }

    /// Returns the first error of the flusher.
    pub(super) fn flush_error(&self) -> Option<String> {
        let why = self.flusher.error()?;
        Some(format!("{}: {why}", self.path.display()))
    }
}

/// Appends an end message to a file that lacks one because its agent was killed, so that
/// coordinators don't wait for more results. Removes a file without messages.
///
/// # Errors
///
/// The file can't be read or written.
pub(super) fn close(path: &Path) -> Result<(), SpoolError> {
    let messages = read_spool(path)?;
    let Some(last) = messages.iter().max_by_key(|message| message.sequence) else {
        return fs::remove_file(path).map_err(SpoolError::of_file(path));
    };
    if messages.iter().any(|message| message.end.is_some()) {
        return Ok(());
    }
    let mut total = Delta::default();
    for message in &messages {
        // Implausible messages are skipped, because the coordinator rejects them, too.
        let _ = message.packed.add_to(&mut total);
    }
    let span = total.span.map_or((0, 0), |(begin, end)| (begin.0, end.0));
    let killed = AgentLost {
        loss: AgentLoss::Killed,
        outage: None,
    };
    let subject = Subject::Agent(last.agent.to_string());
    let end = ResultMessage {
        run: last.run.clone(),
        agent: last.agent.clone(),
        sequence: last.sequence + 1,
        packed: EncodedDelta::default(),
        end: Some(Box::new(PartEnd {
            reason: EndReason::Failed,
            began: None,
            span,
            generator: Generator::default(),
            response_time_us: None,
            negotiated: Negotiated::default(),
            quic: None,
            websocket: None,
            sources: None,
            addresses: None,
            idle: None,
            findings: vec![Finding::about(subject, Severity::Error, &killed)],
            started_at: String::new(),
        })),
    };
    Spool::reopen(path)?.append(&end)
}

/// Reads the messages in an agent's file. Skips incomplete lines.
///
/// # Errors
///
/// The file can't be read.
pub fn read_spool(path: &Path) -> Result<Vec<ResultMessage>, SpoolError> {
    let file = fs::File::open(path).map_err(SpoolError::of_file(path))?;
    let mut messages = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(SpoolError::of_file(path))?;
        messages.extend(serde_json::from_str::<ResultMessage>(&line).ok());
    }
    Ok(messages)
}

/// Returns an agent's files of runs that no coordinator has collected, oldest first. Removes files
/// that are too old.
pub(super) fn uncollected(folder: &Path, agent: &AgentName) -> Vec<PathBuf> {
    let suffix = suffix(agent);
    let mut left = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // The folder may contain files of several agents.
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.ends_with(&suffix)) {
            continue;
        }
        let age = entry.metadata().and_then(|it| it.modified());
        let age = age.ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > AGE_MAX) {
            // If the file can't be removed, the next start tries again.
            let _ = fs::remove_file(&path);
        } else {
            left.push(path);
        }
    }
    left.sort();
    left
}

#[cfg(test)]
mod tests {
    use prony_record::FindingId;

    use super::*;

    fn message(sequence: u64) -> ResultMessage {
        ResultMessage {
            run: "r1".parse().unwrap(),
            agent: "one".parse().unwrap(),
            sequence,
            packed: EncodedDelta::of(&Delta::default()),
            end: None,
        }
    }

    fn sequences(path: &Path) -> Vec<u64> {
        let read = read_spool(path).unwrap();
        read.iter().map(|it| it.sequence).collect()
    }

    #[test]
    fn messages_survive_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (run, agent) = ("r1".parse().unwrap(), "one".parse().unwrap());
        let mut spool = Spool::begin(folder, &run, &agent).unwrap();
        assert!(Spool::begin(folder, &run, &agent).is_err());
        for n in 0..3 {
            spool.append(&message(n)).unwrap();
        }
        spool.file.write_all(b"{\"run\":\"r1\",\"ag").unwrap();
        let left = uncollected(folder, &agent);
        assert_eq!(left.len(), 1);
        assert!(uncollected(folder, &"two".parse().unwrap()).is_empty());
        assert_eq!(sequences(&left[0]), [0, 1, 2]);
        for _ in 0..2 {
            close(&left[0]).unwrap();
            assert_eq!(sequences(&left[0]), [0, 1, 2, 3]);
        }
        let end = read_spool(&left[0]).unwrap().pop().unwrap().end.unwrap();
        assert_eq!(end.reason, EndReason::Failed);
        assert_eq!(end.findings[0].id, FindingId::AgentLost);
        assert!(exists(folder, &run, &agent));
        for _ in 0..2 {
            delete(folder, &run, &agent).unwrap();
        }
        assert!(uncollected(folder, &agent).is_empty());
    }

    #[test]
    fn messages_are_flushed_while_the_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let (run, agent) = ("r1".parse().unwrap(), "one".parse().unwrap());
        let mut spool = Spool::begin(folder.path(), &run, &agent).unwrap();
        for n in 0..3 {
            spool.append(&message(n)).unwrap();
            let began = std::time::Instant::now();
            while spool.flusher.count() <= n {
                assert!(began.elapsed().as_secs() < 20, "message {n} is not flushed");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        assert_eq!(spool.flush_error(), None);
    }

    #[test]
    fn an_empty_file_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (run, agent) = ("r1".parse().unwrap(), "one".parse().unwrap());
        drop(Spool::begin(folder.path(), &run, &agent).unwrap());
        close(&uncollected(folder.path(), &agent)[0]).unwrap();
        assert!(!exists(folder.path(), &run, &agent));
    }
}
