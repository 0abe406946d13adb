//! Replies to clock requests, and checks that no other agent has the same name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::AgentError;
use super::machine::MachineFacts;
use super::settings::LogSink;
use crate::clock::{Clock, ClockReply};
use crate::link::{LinkError, NatsLink, Subscription};
use crate::names::AgentName;

/// Interval at which the thread that replies to clock requests checks whether the agent is exiting.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout for a response from another agent with the same name.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of requests to other agents with the same name.
const ATTEMPTS: u32 = 2;

/// Replies to clock requests until `done` is set. Runs on a separate thread, so that each reply is
/// immediate.
pub(super) fn respond_with_time(
    link: &NatsLink,
    mut requests: Subscription,
    clock: &Clock,
    done: &AtomicBool,
) {
    while !done.load(Ordering::Relaxed) {
        let Some(request) = requests.next(POLL_INTERVAL) else {
            continue;
        };
        let received = clock.now();
        if let Some(to) = request.reply {
            let sent = clock.now();
            let reply = ClockReply { received, sent };
            // If the reply is lost, the coordinator repeats the request.
            let _ = link.publish(&to, reply.to_bytes().to_vec());
        }
    }
}

/// Message with which agents of the same name detect each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AgentPresence {
    instance: String,
    host: String,
    /// Start time of the agent, in nanoseconds since 1970.
    since_ns: u64,
}

/// Another agent with the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OtherInstance {
    /// Host name of the other agent's machine.
    pub(super) host: String,
}

/// Detects other agents with the same name.
#[derive(Debug)]
pub(super) struct NameGuard {
    own: AgentPresence,
    messages: Subscription,
}

impl NameGuard {
    /// Checks that no connected agent has this name.
    ///
    /// # Errors
    ///
    /// Returns [`AgentError::NameTaken`], or the reason why the check failed.
    pub(super) fn claim(
        link: &NatsLink,
        name: &AgentName,
        facts: &MachineFacts,
        log: &LogSink,
    ) -> Result<NameGuard, AgentError> {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let own = AgentPresence {
            instance: facts.instance().to_owned(),
            host: facts.host().to_owned(),
            since_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        };
        let subject = name.namesakes_subject();
        let request = serde_json::to_vec(&own).unwrap_or_default();
        for left in (0..ATTEMPTS).rev() {
            match link.request(&subject, request.clone(), RESPONSE_TIMEOUT) {
                Err(LinkError::NoResponders(_)) => break,
                Ok(reply) => {
                    let other = serde_json::from_slice::<AgentPresence>(&reply);
                    let host = other.map_or("another machine".to_owned(), |other| other.host);
                    let name = name.clone();
                    return Err(AgentError::NameTaken { name, host });
                }
                Err(_) if left == 0 => log(&format!(
                    "could not check whether another agent is connected as {name}: no response on \
                     {subject}"
                )),
                Err(_) => {}
            }
        }
        let messages = link.subscribe(&subject);
        let messages = messages.map_err(|error| AgentError::Environment(error.to_string()))?;
        Ok(NameGuard { own, messages })
    }

    /// Replies if another agent claims this name. Returns the other agent if it is older: it may
    /// have been disconnected when this agent claimed the name, but the older agent has precedence.
    pub(super) fn check(&mut self, link: &NatsLink) -> Option<OtherInstance> {
        let message = self.messages.next(Duration::ZERO)?;
        let other: AgentPresence = serde_json::from_slice(&message.payload).ok()?;
        if other.instance == self.own.instance {
            return None;
        }
        if let (Some(to), Ok(json)) = (message.reply, serde_json::to_vec(&self.own)) {
            // If the reply is lost, the other agent asks again.
            let _ = link.publish(&to, json);
        }
        let is_older = (other.since_ns, &other.instance) < (self.own.since_ns, &self.own.instance);
        is_older.then_some(OtherInstance { host: other.host })
    }

    /// Returns the message that is published regularly to agents with the same name.
    pub(super) fn presence(&self) -> Vec<u8> {
        serde_json::to_vec(&self.own).unwrap_or_default()
    }
}
