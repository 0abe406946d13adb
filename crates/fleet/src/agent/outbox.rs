//! What waits to be stored on the server: sent in order, again and again until it is.
//!
//! What runs now comes first; what is left of earlier runs comes after it, file by file. Nothing here is
//! the only copy: all of it is in its run's file, too ([`super::spool`]).

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Tell;
use super::spool;
use crate::link::Link;
use crate::messages::ResultMessage;
use crate::names::{AgentName, RunId};

/// How long to wait after the server didn't take something.
const AGAIN: Duration = Duration::from_millis(500);
/// How often it is looked whether the server is back.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is said that the server takes nothing.
const SAY: Duration = Duration::from_secs(30);

/// A message on its way.
#[derive(Debug, Clone)]
struct Parcel {
    run: RunId,
    /// Its number, by which the server passes over what comes twice.
    number: String,
    json: Vec<u8>,
}

impl Parcel {
    fn new(message: &ResultMessage) -> Result<Parcel, String> {
        Ok(Parcel {
            run: message.run.clone(),
            number: format!("{}.{}.{}", message.run, message.agent, message.sequence),
            json: serde_json::to_vec(message).map_err(|error| error.to_string())?,
        })
    }
}

#[derive(Debug, Default)]
struct Queues {
    now: VecDeque<Parcel>,
    earlier: VecDeque<Parcel>,
    files: VecDeque<PathBuf>,
    /// Whether one of them is being sent.
    is_sending: bool,
    closed: bool,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queues: Mutex<Queues>,
    changed: Condvar,
}

impl Outbox {
    /// An outbox that begins with what the files of earlier runs hold.
    pub(super) fn new(files: Vec<PathBuf>) -> Outbox {
        let outbox = Outbox::default();
        outbox.lock().files = files.into();
        outbox
    }

    /// Has a message sent after those that wait already.
    ///
    /// # Errors
    ///
    /// Where it can't be written out.
    pub(super) fn push(&self, message: &ResultMessage) -> Result<(), String> {
        let parcel = Parcel::new(message)?;
        self.lock().now.push_back(parcel);
        self.changed.notify_all();
        Ok(())
    }

    /// The runs of which something waits.
    pub(super) fn runs(&self, agent: &AgentName) -> BTreeSet<RunId> {
        let queues = self.lock();
        let parcels = queues.now.iter().chain(&queues.earlier);
        let files = queues
            .files
            .iter()
            .filter_map(|file| spool::run_of(file, agent));
        parcels
            .map(|parcel| parcel.run.clone())
            .chain(files)
            .collect()
    }

    /// Messages that wait, those in files of earlier starts aside.
    pub(super) fn waiting(&self) -> usize {
        let queues = self.lock();
        queues.now.len() + queues.earlier.len()
    }

    /// Nothing more of this run needs to be sent.
    pub(super) fn forget(&self, run: &RunId) {
        let mut queues = self.lock();
        queues.now.retain(|parcel| parcel.run != *run);
        queues.earlier.retain(|parcel| parcel.run != *run);
    }

    /// Ends [`Outbox::send_all`]; what waits stays in its file.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until all of the runs of this start is sent, so long at most; tells whether it is.
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

    /// Sends until it is closed; for a thread of its own.
    pub(super) fn send_all(&self, link: &Link, agent: &AgentName, tell: &Tell) {
        let mut said: Option<Instant> = None;
        while let Some(parcel) = self.next(agent, tell) {
            let pause = match link.is_up() {
                false => LOOK,
                true => {
                    let subject = agent.results(&parcel.run);
                    match link.store(&subject, Some(&parcel.number), parcel.json.clone()) {
                        Ok(()) => {
                            self.sent(&parcel);
                            continue;
                        }
                        Err(error) => {
                            if said.is_none_or(|at| at.elapsed() > SAY) {
                                tell(&format!("results wait to be stored: {error}"));
                                said = Some(Instant::now());
                            }
                            AGAIN
                        }
                    }
                }
            };
            self.lock().is_sending = false;
            let queues = self.lock();
            // Waits for a moment, or for the end.
            let _ = self
                .changed
                .wait_timeout_while(queues, pause, |it| !it.closed);
        }
    }

    /// The next one, which stays in its place until it is [sent](Outbox::sent); none when closed.
    fn next(&self, agent: &AgentName, tell: &Tell) -> Option<Parcel> {
        let mut queues = self.lock();
        loop {
            if queues.closed {
                return None;
            }
            if let Some(parcel) = queues.now.front().or(queues.earlier.front()).cloned() {
                queues.is_sending = true;
                return Some(parcel);
            }
            queues = match queues.files.front().cloned() {
                Some(file) => {
                    drop(queues);
                    let parcels = parcels(&file, agent, tell);
                    let mut queues = self.lock();
                    queues.files.pop_front();
                    queues.earlier.extend(parcels);
                    queues
                }
                None => {
                    let waited = self.changed.wait(queues);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    fn sent(&self, parcel: &Parcel) {
        let mut queues = self.lock();
        queues.is_sending = false;
        for queue in [0, 1] {
            let queue = match queue {
                0 => &mut queues.now,
                _ => &mut queues.earlier,
            };
            // It may be forgotten meanwhile.
            if queue.front().is_some_and(|it| it.number == parcel.number) {
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

fn parcels(file: &std::path::Path, agent: &AgentName, tell: &Tell) -> Vec<Parcel> {
    match spool::read(file) {
        Ok(messages) => {
            let mine = messages.iter().filter(|message| message.agent == *agent);
            mine.filter_map(|message| Parcel::new(message).ok())
                .collect()
        }
        Err(error) => {
            tell(&format!("results of an earlier run can't be read: {error}"));
            Vec::new()
        }
    }
}
