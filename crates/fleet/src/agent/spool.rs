//! What an agent sent of a run, kept on its own disk until the coordinator has it whole.
//!
//! A line of JSON for each message, written before it is sent: whatever becomes of the server, of the
//! coordinator or of the way there, what was measured is there and can be sent again; after a power cut
//! all but the last second.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use prony_record::{Delta, Finding, FindingId, Generator, Negotiated, Packed, Severity};

use super::disk::Disk;
use crate::messages::{Because, PartEnd, ResultMessage};
use crate::names::{AgentName, RunId};

/// How long files of runs that nobody collected are kept.
const KEPT: std::time::Duration = std::time::Duration::from_secs(30 * 86_400);

/// The file of one run.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    file: fs::File,
    /// A line may have been cut off: the next one begins on its own.
    is_torn: bool,
    disk: Disk,
}

/// What the names of an agent's files end with.
fn ending(agent: &AgentName) -> String {
    format!(".{agent}.jsonl")
}

/// Where the file of a run is.
fn path(folder: &Path, run: &RunId, agent: &AgentName) -> PathBuf {
    folder.join(format!("{run}{}", ending(agent)))
}

/// The run that a file of an agent's is of.
pub(crate) fn run_of(path: &Path, agent: &AgentName) -> Option<RunId> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(&ending(agent))?.parse().ok()
}

/// Whether the agent has kept something of the run.
pub(crate) fn is_there(folder: &Path, run: &RunId, agent: &AgentName) -> bool {
    path(folder, run, agent).exists()
}

/// The coordinator has all of the run.
///
/// # Errors
///
/// In words, where the file is there and can't be removed.
pub(crate) fn forget(folder: &Path, run: &RunId, agent: &AgentName) -> Result<(), String> {
    let path = path(folder, run, agent);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("{}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

impl Spool {
    /// Begins a run's file in `folder`, which is made if it isn't there; the file must not be there.
    pub(crate) fn begin(folder: &Path, run: &RunId, agent: &AgentName) -> Result<Spool, String> {
        let path = path(folder, run, agent);
        let begun = fs::create_dir_all(folder).and_then(|()| {
            let mut options = fs::OpenOptions::new();
            options.create_new(true).append(true).open(&path)
        });
        Spool::opened(path, begun)
    }

    /// Goes on with a file of an earlier start.
    fn reopen(path: &Path) -> Result<Spool, String> {
        let opened = fs::OpenOptions::new().append(true).open(path);
        Spool::opened(path.to_owned(), opened)
    }

    fn opened(path: PathBuf, file: std::io::Result<fs::File>) -> Result<Spool, String> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let opened = file.and_then(|file| Disk::of(&file, folder).map(|disk| (file, disk)));
        let (file, disk) = opened.map_err(|error| format!("{}: {error}", path.display()))?;
        let is_torn = file.metadata().map_or(true, |it| it.len() > 0);
        Ok(Spool {
            path,
            file,
            is_torn,
            disk,
        })
    }

    /// Writes a message down.
    pub(crate) fn keep(&mut self, message: &ResultMessage) -> Result<(), String> {
        let mut line = Vec::new();
        if self.is_torn {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, message).map_err(|error| error.to_string())?;
        line.push(b'\n');
        let kept = self.file.write_all(&line);
        self.is_torn = kept.is_err();
        self.disk.flush();
        kept.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// Why what was written may not have reached the disk.
    pub(crate) fn unflushed(&self) -> Option<String> {
        let why = self.disk.failed()?;
        Some(format!("{}: {why}", self.path.display()))
    }
}

/// Ends a file that a killed agent left without an end, so that nobody waits for one. One without any
/// message is removed.
///
/// # Errors
///
/// In words, where it can't be read or written.
pub(crate) fn close(path: &Path) -> Result<(), String> {
    let messages = read(path)?;
    let Some(last) = messages.iter().max_by_key(|message| message.sequence) else {
        return fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()));
    };
    if messages.iter().any(|message| message.end.is_some()) {
        return Ok(());
    }
    let mut total = Delta::default();
    for message in &messages {
        // What can't be added up here is refused where it is collected, too.
        let _ = message.packed.add_to(&mut total);
    }
    let span = total.span.map_or((0, 0), |(begin, end)| (begin.0, end.0));
    let text = format!(
        "Agent {} was killed, or its machine went down, in the middle of its load: its figures end \
         with what it had written down by then.",
        last.agent
    );
    let end = ResultMessage {
        run: last.run.clone(),
        agent: last.agent.clone(),
        sequence: last.sequence + 1,
        packed: Packed::default(),
        end: Some(Box::new(PartEnd {
            because: Because::Failed,
            began: None,
            span,
            generator: Generator::default(),
            response_time_us: None,
            negotiated: Negotiated::default(),
            sources: None,
            findings: vec![Finding::new(FindingId::AgentLost, Severity::Error, text)],
            started_at: String::new(),
        })),
    };
    Spool::reopen(path)?.keep(&end)
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

/// An agent's files of runs that are not collected yet, the oldest first; those that are too old are
/// removed.
pub(crate) fn uncollected(folder: &Path, agent: &AgentName) -> Vec<PathBuf> {
    let ending = ending(agent);
    let mut left = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Other agents may keep theirs in the same folder.
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.ends_with(&ending)) {
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

    fn sequences(path: &Path) -> Vec<u64> {
        let read = read(path).unwrap();
        read.iter().map(|it| it.sequence).collect()
    }

    #[test]
    fn what_was_written_is_there_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (run, agent) = ("r1".parse().unwrap(), "one".parse().unwrap());
        let mut spool = Spool::begin(folder, &run, &agent).unwrap();
        assert!(Spool::begin(folder, &run, &agent).is_err());
        for n in 0..3 {
            spool.keep(&message(n)).unwrap();
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
        let end = read(&left[0]).unwrap().pop().unwrap().end.unwrap();
        assert_eq!(end.because, Because::Failed);
        assert_eq!(end.findings[0].id, FindingId::AgentLost);
        assert!(is_there(folder, &run, &agent));
        for _ in 0..2 {
            forget(folder, &run, &agent).unwrap();
        }
        assert!(uncollected(folder, &agent).is_empty());
    }

    #[test]
    fn what_is_written_is_flushed_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let (run, agent) = ("r1".parse().unwrap(), "one".parse().unwrap());
        let mut spool = Spool::begin(folder.path(), &run, &agent).unwrap();
        for n in 0..3 {
            spool.keep(&message(n)).unwrap();
            let began = std::time::Instant::now();
            while spool.disk.flushed() <= n {
                assert!(began.elapsed().as_secs() < 20, "message {n} is not flushed");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        assert_eq!(spool.unflushed(), None);
    }

    #[test]
    fn a_file_that_holds_nothing_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (run, agent) = ("r1".parse().unwrap(), "one".parse().unwrap());
        drop(Spool::begin(folder.path(), &run, &agent).unwrap());
        close(&uncollected(folder.path(), &agent)[0]).unwrap();
        assert!(!is_there(folder.path(), &run, &agent));
    }
}
