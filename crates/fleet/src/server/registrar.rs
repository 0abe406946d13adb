//! The registrar, which enrolls agents that have tokens. It runs in the same process as `prony
//! fleet up`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use super::error::ServerError;
use super::keys::CertificateMode;
use super::tokens::{self, EnrollmentToken};
use super::{PreparedServer, ServerSetup};
use crate::credentials::FleetCredentials;
use crate::link::{LinkError, NatsLink, NatsMessage, Subscription};
use crate::names::TokenId;
use crate::permissions::{ENROLL_SUBJECTS, Role};
use crate::wire::EnrollReply;

/// Interval at which the registrar looks for tokens in the folder.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Age at which a connection is replaced. After a reload of the configuration, an older
/// subscription may miss requests from other accounts.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(5);
/// Time for which repeated requests with a used-up token still get replies.
const USED_UP_GRACE: Duration = Duration::from_secs(60);

/// Time for which more requests are collected after the first one. Requests are handled in batches,
/// because each reload of the configuration disturbs agents that are connecting.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Maximum number of requests in a batch.
const BATCH_MAX: usize = 100;

/// Handler of enrollment requests. It is connected to the server only while there is a usable
/// token.
pub struct Registrar {
    setup: ServerSetup,
    prepared: PreparedServer,
    connection: Option<(NatsLink, Subscription)>,
    checked_at: Option<Instant>,
    reconnect_at: Instant,
    /// Tokens in the server's configuration.
    served: Vec<TokenId>,
    /// Time at which each token was found to be used up.
    used_up: BTreeMap<TokenId, Instant>,
}

/// Reason why the registrar can't serve tokens.
#[derive(Debug)]
enum RegistrarError {
    Server(ServerError),
    Link(LinkError),
}

impl fmt::Display for RegistrarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistrarError::Server(error) => error.fmt(f),
            RegistrarError::Link(error) => error.fmt(f),
        }
    }
}

impl From<ServerError> for RegistrarError {
    fn from(error: ServerError) -> RegistrarError {
        RegistrarError::Server(error)
    }
}

impl From<LinkError> for RegistrarError {
    fn from(error: LinkError) -> RegistrarError {
        RegistrarError::Link(error)
    }
}

impl Registrar {
    /// Creates a registrar for the server of a folder.
    pub fn new(setup: &ServerSetup, prepared: &PreparedServer) -> Registrar {
        Registrar {
            setup: ServerSetup {
                agents: Vec::new(),
                ..setup.clone()
            },
            prepared: prepared.clone(),
            connection: None,
            checked_at: None,
            reconnect_at: Instant::now(),
            served: Vec::new(),
            used_up: BTreeMap::new(),
        }
    }

    /// Waits for requests, up to the duration `within`, and handles them. Returns messages for the
    /// user.
    pub fn serve(&mut self, within: Duration) -> Vec<String> {
        let mut lines = Vec::new();
        if self
            .checked_at
            .is_none_or(|at| at.elapsed() > CHECK_INTERVAL)
        {
            self.checked_at = Some(Instant::now());
            if let Err(why) = self.check_tokens(&mut lines) {
                lines.push(format!("can't read tokens: {why}"));
                self.checked_at = Some(Instant::now() + 20 * CHECK_INTERVAL);
            }
        }
        let Some((_, requests)) = &mut self.connection else {
            std::thread::sleep(within);
            return lines;
        };
        // Requests are collected for a moment, so that one reload serves all of them.
        let mut batch: Vec<NatsMessage> = requests.next(within).into_iter().collect();
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
                lines.push(format!("can't enroll agents: {error}"));
            }
            (self.checked_at, self.reconnect_at) = (None, Instant::now());
        }
        lines
    }

    /// Connects if there is a token, and removes tokens that are expired or used up.
    fn check_tokens(&mut self, lines: &mut Vec<String>) -> Result<(), RegistrarError> {
        let now = SystemTime::now();
        let folder = &self.setup.folder;
        let mut served = Vec::new();
        for token in EnrollmentToken::all(folder)? {
            let why = match (token.is_open(now), token.is_served(now)) {
                (true, _) => None,
                (false, false) => Some("has expired"),
                // The token is kept for a while, so that repeated requests get a reply.
                (false, true) => {
                    let since = self.used_up.entry(token.id.clone());
                    let since = since.or_insert_with(Instant::now);
                    (since.elapsed() > USED_UP_GRACE).then_some("is used up")
                }
            };
            match why {
                None => served.push(token.id),
                Some(why) if EnrollmentToken::remove(folder, &token.id)? => {
                    self.used_up.remove(&token.id);
                    lines.push(format!("token {} {why}", token.id));
                }
                Some(_) => {}
            }
        }
        if self.served.iter().any(|id| !served.contains(id)) {
            self.apply()?;
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

    fn connect(&self) -> Result<(NatsLink, Subscription), RegistrarError> {
        let credentials = FleetCredentials::read(&self.prepared.credentials(&Role::Registrar))
            .map_err(ServerError::Credentials)?;
        let server = self.prepared.local_url();
        let link = NatsLink::connect(Some(&server), &credentials, &Role::Registrar)?;
        let requests = link.subscribe(ENROLL_SUBJECTS)?;
        Ok((link, requests))
    }

    /// Writes the server's configuration and reloads the server.
    fn apply(&self) -> Result<(), ServerError> {
        let _lock = self.setup.lock_for_writing()?;
        self.setup.prepare_locked(CertificateMode::Keep)?.reload()
    }

    /// Enrolls the agents that sent these requests, and reloads the server. Replies are sent first,
    /// because the reload interrupts requests in flight. The agents then retry until the server
    /// accepts their keys.
    fn enroll_all(
        &self,
        batch: &[NatsMessage],
        lines: &mut Vec<String>,
    ) -> Result<(), ServerError> {
        let _lock = self.setup.lock_for_writing()?;
        let mut new = Vec::new();
        for request in batch {
            let id = request.subject.rsplit('.').next().unwrap_or_default();
            let Ok(id) = id.parse::<TokenId>() else {
                continue;
            };
            let enrolled = tokens::enroll(&self.setup, &id, &request.payload, SystemTime::now());
            let reply = match enrolled {
                Ok((name, is_new)) => {
                    new.extend(is_new.then_some((name, id)));
                    EnrollReply::Enrolled
                }
                Err(error) => {
                    let text = error.to_string();
                    lines.push(format!("rejected a request with token {id}: {text}"));
                    EnrollReply::Refused { text }
                }
            };
            if let (Some((link, _)), Some(to)) = (&self.connection, &request.reply) {
                let json = serde_json::to_vec(&reply).expect("strings");
                // If the reply is lost, the agent retries.
                let _ = link.publish(to, json);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let prepared = self.setup.prepare_locked(CertificateMode::Keep);
        let applied = prepared.and_then(|it| it.reload());
        for (name, id) in new {
            match &applied {
                Ok(()) => lines.push(format!("enrolled agent {name} with token {id}")),
                Err(_) => tokens::forget(&self.setup.folder, &name),
            }
        }
        applied
    }
}
