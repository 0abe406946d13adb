//! What an agent answers besides orders: what time it is, and whether its name is taken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::facts::Facts;
use super::{AgentError, Tell};
use crate::clock::{Clock, Told};
use crate::link::{Link, LinkError, Subscription};
use crate::names::AgentName;

/// How soon the clock's thread notices the end.
const NOTICE: Duration = Duration::from_millis(100);
/// How long an agent of the same name may take to say that it is there, and how often it is asked.
const NAMESAKE: Duration = Duration::from_secs(1);
const QUESTIONS: u32 = 2;

/// Answers each question for the time at once, until `done`; for a thread of its own.
pub(super) fn tell_time(
    link: &Link,
    mut questions: Subscription,
    clock: &Clock,
    done: &AtomicBool,
) {
    while !done.load(Ordering::Relaxed) {
        let Some(question) = questions.next(NOTICE) else {
            continue;
        };
        let heard = clock.now();
        if let Some(to) = question.reply {
            let answered = clock.now();
            let told = Told { heard, answered };
            // What is lost is asked again.
            let _ = link.say(&to, told.to_bytes().to_vec());
        }
    }
}

/// What agents of one name say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Presence {
    instance: String,
    host: String,
    /// When it was started, in nanoseconds since 1970.
    since_ns: u64,
}

/// Another agent has the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OtherInstance {
    /// The machine that it is on.
    pub(super) host: String,
}

/// Where agents of one name find each other.
#[derive(Debug)]
pub(super) struct Namesakes {
    own: Presence,
    heard: Subscription,
}

impl Namesakes {
    /// Asks whether somebody has the name already, and from now on answers others who ask.
    ///
    /// # Errors
    ///
    /// [`AgentError::NameTaken`], or what keeps it from being asked.
    pub(super) fn find(
        link: &Link,
        name: &AgentName,
        facts: &Facts,
        tell: &Tell,
    ) -> Result<Namesakes, AgentError> {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let own = Presence {
            instance: facts.instance().to_owned(),
            host: facts.host().to_owned(),
            since_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        };
        let subject = name.namesakes();
        let question = serde_json::to_vec(&own).unwrap_or_default();
        for left in (0..QUESTIONS).rev() {
            match link.ask(&subject, question.clone(), NAMESAKE) {
                Err(LinkError::NobodyThere(_)) => break,
                Ok(answer) => {
                    let other = serde_json::from_slice::<Presence>(&answer);
                    let host = other.map_or("another machine".to_owned(), |other| other.host);
                    let name = name.clone();
                    return Err(AgentError::NameTaken { name, host });
                }
                Err(_) if left == 0 => tell(&format!(
                    "whether another agent is connected as {name} can't be told: nobody answers at \
                     {subject}"
                )),
                Err(_) => {}
            }
        }
        let heard = link.subscribe(&subject);
        let heard = heard.map_err(|error| AgentError::Environment(error.to_string()))?;
        Ok(Namesakes { own, heard })
    }

    /// Answers who asks, if somebody does. Tells of another one that was there first, which may have
    /// been cut off when this one asked: that one has the name.
    pub(super) fn heed(&mut self, link: &Link) -> Option<OtherInstance> {
        let message = self.heard.next(Duration::ZERO)?;
        let other: Presence = serde_json::from_slice(&message.payload).ok()?;
        if other.instance == self.own.instance {
            return None;
        }
        if let (Some(to), Ok(json)) = (message.reply, serde_json::to_vec(&self.own)) {
            // Who gets no answer asks again.
            let _ = link.say(&to, json);
        }
        let was_first = (other.since_ns, &other.instance) < (self.own.since_ns, &self.own.instance);
        was_first.then_some(OtherInstance { host: other.host })
    }

    /// What is said now and then to those who have the same name.
    pub(super) fn presence(&self) -> Vec<u8> {
        serde_json::to_vec(&self.own).unwrap_or_default()
    }
}
