//! Enrolls agents that have a token, on behalf of the process that runs the server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::tokens::{self, EnrollReply, Token};
use super::{Certificate, Prepared, ServerError, Wanted};
use crate::credentials::Credentials;
use crate::link::{Link, Message, Subscription};
use crate::names::TokenId;
use crate::permissions::{ENROLL_SUBJECTS, Role};

/// How often the folder is searched for tokens.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// How long a subscription is relied on: after the server has read its configuration again, one of before
/// may no longer hear requests from other accounts.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(5);
/// How long a token that is used up still gets responses to requests that are repeated.
const USED_UP_GRACE: Duration = Duration::from_secs(60);

/// How long further requests are waited for when one has come, and how many are taken together: each
/// reading of the configuration disturbs those who connect meanwhile.
const BATCH_TIME: Duration = Duration::from_secs(1);
const BATCH_MAX: usize = 100;

/// Waits for requests to be enrolled. Without a token that can be used, nothing is connected.
pub struct Registrar {
    wanted: Wanted,
    prepared: Prepared,
    connection: Option<(Link, Subscription)>,
    looked: Option<Instant>,
    reconnect_at: Instant,
    /// Tokens that the server's configuration has.
    served: Vec<TokenId>,
    /// Since when a token is seen to be used up.
    used_up: BTreeMap<TokenId, Instant>,
}

impl Registrar {
    /// A registrar of the server that runs in a folder.
    pub fn new(wanted: &Wanted, prepared: &Prepared) -> Registrar {
        Registrar {
            wanted: Wanted {
                agents: Vec::new(),
                ..wanted.clone()
            },
            prepared: prepared.clone(),
            connection: None,
            looked: None,
            reconnect_at: Instant::now(),
            served: Vec::new(),
            used_up: BTreeMap::new(),
        }
    }

    /// Serves for this long; gives what happened, a line each.
    pub fn serve(&mut self, within: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        if self.looked.is_none_or(|at| at.elapsed() > LOOK_INTERVAL) {
            self.looked = Some(Instant::now());
            if let Err(why) = self.look(&mut lines) {
                lines.push(format!("tokens can't be served: {why}"));
                self.looked = Some(Instant::now() + 20 * LOOK_INTERVAL);
            }
        }
        let Some((_, requests)) = &mut self.connection else {
            std::thread::sleep(within);
            return lines;
        };
        // One reading of the configuration serves all who ask at the same time.
        let mut batch: Vec<Message> = requests.next(within).into_iter().collect();
        let until = Instant::now() + BATCH_TIME;
        while !batch.is_empty() && batch.len() < BATCH_MAX {
            let left = until.saturating_duration_since(Instant::now());
            let Some(request) = requests.next(left) else {
                break;
            };
            batch.push(request);
        }
        if !batch.is_empty() {
            if let Err(error) = self.enroll_all(&batch, &mut lines) {
                lines.push(format!("agents can't be enrolled: {error}"));
            }
            (self.looked, self.reconnect_at) = (None, Instant::now());
        }
        lines
    }

    /// Connects when there is a token, and takes out those that expired or are used up.
    fn look(&mut self, lines: &mut Vec<String>) -> Result<(), String> {
        let now = SystemTime::now();
        let said = |error: ServerError| error.to_string();
        let folder = &self.wanted.folder;
        let mut served = Vec::new();
        for token in Token::all(folder).map_err(said)? {
            let why = match (token.is_open(now), token.is_served(now)) {
                (true, _) => None,
                (false, false) => Some("has expired"),
                // A repeated request still gets its response.
                (false, true) => {
                    let since = self.used_up.entry(token.id.clone());
                    let since = since.or_insert_with(Instant::now);
                    (since.elapsed() > USED_UP_GRACE).then_some("is used up")
                }
            };
            match why {
                None => served.push(token.id),
                Some(why) if Token::remove(folder, &token.id).map_err(said)? => {
                    self.used_up.remove(&token.id);
                    lines.push(format!("token {} {why}", token.id));
                }
                Some(_) => {}
            }
        }
        if self.served.iter().any(|id| !served.contains(id)) {
            self.apply().map_err(said)?;
        }
        self.served = served;
        match (self.served.is_empty(), &self.connection) {
            (true, _) => self.connection = None,
            (false, Some(_)) if Instant::now() < self.reconnect_at => {}
            (false, _) => {
                self.connection = Some(self.connect()?);
                self.reconnect_at = Instant::now() + RECONNECT_INTERVAL;
            }
        }
        Ok(())
    }

    fn connect(&self) -> Result<(Link, Subscription), String> {
        let credentials = Credentials::read(&self.prepared.credentials(&Role::Registrar))?;
        let server = self.prepared.local_url();
        let link = Link::connect(Some(&server), &credentials, &Role::Registrar);
        let link = link.map_err(|error| error.to_string())?;
        let requests = link.subscribe(ENROLL_SUBJECTS);
        let requests = requests.map_err(|error| error.to_string())?;
        Ok((link, requests))
    }

    /// Writes the server's configuration, and has it read.
    fn apply(&self) -> Result<(), ServerError> {
        let _lock = self.wanted.lock_for_writing()?;
        self.wanted.prepare_locked(Certificate::Kept)?.reload()
    }

    /// Enters all who may be enrolled, and has the server read its configuration again. They hear of it
    /// before: the reading ends requests under way, and agents try until the server knows them.
    fn enroll_all(&self, batch: &[Message], lines: &mut Vec<String>) -> Result<(), ServerError> {
        let _lock = self.wanted.lock_for_writing()?;
        let mut new = Vec::new();
        for request in batch {
            let id = request.subject.rsplit('.').next().unwrap_or_default();
            let Ok(id) = id.parse::<TokenId>() else {
                continue;
            };
            let enrolled = tokens::enroll(&self.wanted, &id, &request.payload, SystemTime::now());
            let reply = match enrolled {
                Ok((name, is_new)) => {
                    new.extend(is_new.then_some((name, id)));
                    EnrollReply::Enrolled
                }
                Err(text) => {
                    lines.push(format!("a request with token {id} was refused: {text}"));
                    EnrollReply::Refused { text }
                }
            };
            if let (Some((link, _)), Some(to)) = (&self.connection, &request.reply) {
                let json = serde_json::to_vec(&reply).expect("strings");
                // An agent that gets no response asks again.
                let _ = link.say(to, json);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let prepared = self.wanted.prepare_locked(Certificate::Kept);
        let applied = prepared.and_then(|it| it.reload());
        for (name, id) in new {
            match &applied {
                Ok(()) => lines.push(format!("agent {name} was enrolled with token {id}")),
                Err(_) => tokens::forget(&self.wanted.folder, &name),
            }
        }
        applied
    }
}
