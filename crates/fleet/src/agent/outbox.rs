//! Queue of results to be sent to the server. Messages are sent in order, and resent until the
//! server has stored them.
//!
//! Results recorded since the agent started come first, then files from earlier starts. All queued
//! results are also in the result file of their run ([`super::spool`]).

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::LogSink;
use super::spool;
use crate::link::NatsLink;
use crate::names::{AgentName, RunId};
use crate::wire::ResultMessage;

/// Pause after a failed attempt to store a message.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which the state of a lost connection is checked.
const RECONNECT_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum interval between log messages about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// A message in the queue.
#[derive(Debug, Clone)]
struct QueuedMessage {
    run: RunId,
    /// Identifier with which the server detects duplicates.
    id: String,
    json: Vec<u8>,
}

impl QueuedMessage {
    fn new(message: &ResultMessage) -> Result<QueuedMessage, serde_json::Error> {
        Ok(QueuedMessage {
            run: message.run.clone(),
            id: format!("{}.{}.{}", message.run, message.agent, message.sequence),
            json: serde_json::to_vec(message)?,
        })
    }
}

#[derive(Debug, Default)]
struct Queues {
    /// Messages recorded since the start of the agent.
    now: VecDeque<QueuedMessage>,
    /// Messages from earlier starts.
    earlier: VecDeque<QueuedMessage>,
    /// Files from earlier starts that have not been read yet.
    files: VecDeque<PathBuf>,
    /// True while a message is being sent.
    is_sending: bool,
    closed: bool,
}

/// The queue of results.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queues: Mutex<Queues>,
    changed: Condvar,
}

impl Outbox {
    /// Creates an outbox that contains the results in these files from earlier starts.
    pub(super) fn new(files: Vec<PathBuf>) -> Outbox {
        let outbox = Outbox::default();
        outbox.lock().files = files.into();
        outbox
    }

    /// Adds a message to the queue.
    ///
    /// # Errors
    ///
    /// The message can't be serialized.
    pub(super) fn push(&self, message: &ResultMessage) -> Result<(), serde_json::Error> {
        let message = QueuedMessage::new(message)?;
        self.lock().now.push_back(message);
        self.changed.notify_all();
        Ok(())
    }

    /// Returns the runs that have unsent results.
    pub(super) fn runs(&self, agent: &AgentName) -> BTreeSet<RunId> {
        let queues = self.lock();
        let messages_of = queues.now.iter().chain(&queues.earlier);
        let files = queues
            .files
            .iter()
            .filter_map(|file| spool::run_of(file, agent));
        messages_of
            .map(|message| message.run.clone())
            .chain(files)
            .collect()
    }

    /// Returns the number of queued messages, not counting those in files that have not been read
    /// yet.
    pub(super) fn waiting(&self) -> usize {
        let queues = self.lock();
        queues.now.len() + queues.earlier.len()
    }

    /// Drops the queued messages of a run.
    pub(super) fn forget(&self, run: &RunId) {
        let mut queues = self.lock();
        queues.now.retain(|message| message.run != *run);
        queues.earlier.retain(|message| message.run != *run);
    }

    /// Makes [`Outbox::send_all`] return. Unsent messages stay in their files.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until all messages recorded since the start of the agent have been sent. Returns false
    /// after a timeout.
    pub(super) fn wait_until_sent(&self, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut queues = self.lock();
        while !queues.now.is_empty() || queues.is_sending {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(queues, left);
            queues = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Sends messages until the outbox is closed. Runs on its own thread.
    pub(super) fn send_all(&self, link: &NatsLink, agent: &AgentName, log: &LogSink) {
        let mut logged: Option<Instant> = None;
        while let Some(message) = self.next(agent, log) {
            let pause = if link.is_connected() {
                let subject = agent.results_subject(&message.run);
                match link.store(&subject, Some(&message.id), message.json.clone()) {
                    Ok(()) => {
                        self.sent(&message);
                        continue;
                    }
                    Err(error) => {
                        if logged.is_none_or(|at| at.elapsed() > LOG_INTERVAL) {
                            log(&format!("could not store results yet: {error}"));
                            logged = Some(Instant::now());
                        }
                        RETRY_INTERVAL
                    }
                }
            } else {
                RECONNECT_POLL_INTERVAL
            };
            self.lock().is_sending = false;
            let queues = self.lock();
            // Waits before a retry; closing the outbox ends the wait.
            let _ = self
                .changed
                .wait_timeout_while(queues, pause, |it| !it.closed);
        }
    }

    /// Returns the next message, which stays queued until it has been [sent](Outbox::sent). Returns
    /// `None` when the outbox is closed.
    fn next(&self, agent: &AgentName, log: &LogSink) -> Option<QueuedMessage> {
        let mut queues = self.lock();
        loop {
            if queues.closed {
                return None;
            }
            if let Some(message) = queues.now.front().or(queues.earlier.front()).cloned() {
                queues.is_sending = true;
                return Some(message);
            }
            queues = match queues.files.front().cloned() {
                Some(file) => {
                    drop(queues);
                    let messages_of = messages_of(&file, agent, log);
                    let mut queues = self.lock();
                    queues.files.pop_front();
                    queues.earlier.extend(messages_of);
                    queues
                }
                None => {
                    let waited = self.changed.wait(queues);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    fn sent(&self, message: &QueuedMessage) {
        let mut queues = self.lock();
        queues.is_sending = false;
        for queue in [0, 1] {
            let queue = match queue {
                0 => &mut queues.now,
                _ => &mut queues.earlier,
            };
            // The message may have been dropped while it was being sent.
            if queue.front().is_some_and(|it| it.id == message.id) {
                queue.pop_front();
                break;
            }
        }
        drop(queues);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn messages_of(file: &std::path::Path, agent: &AgentName, log: &LogSink) -> Vec<QueuedMessage> {
    match spool::read_spool(file) {
        Ok(messages) => {
            let mine = messages.iter().filter(|message| message.agent == *agent);
            mine.filter_map(|message| QueuedMessage::new(message).ok())
                .collect()
        }
        Err(error) => {
            log(&format!(
                "can't read the results of an earlier run: {error}"
            ));
            Vec::new()
        }
    }
}
