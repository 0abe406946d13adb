//! Collects the results of a run until all parts are complete or lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use prony_record::finding::LossReason;
use prony_record::{HALF_SECOND, Outcome};

use super::events::{FleetEvent, ProgressUpdate};
use super::feed::{AgentState, Feed, QUIET_AFTER};
use super::followed_run::FollowedRun;
use super::lease::RenewalOutcome;
use super::server_contact::{Outage, ServerContact};
use super::{orders, runs};
use crate::ledger::Ledger;
use crate::link::{NatsMessage, StoredMessages};
use crate::names::AgentName;
use crate::wire::claims;
use crate::wire::{Command, PartEnd, ResultMessage, RunManifest};

/// Maximum time for which messages are received before other events are handled.
const RECEIVE_INTERVAL: Duration = Duration::from_millis(100);
/// If a receive interval takes at least this long, this process or its machine was suspended.
const STALL_MIN: Duration = Duration::from_secs(1);
/// Maximum time in seconds by which the measured part of a load may exceed its planned duration.
const MEASURED_OVERTIME_S: f64 = 60.0;
/// Maximum assumed error of a wall clock. It increases the upper bound on the measured time of
/// loads without a planned end.
const WALL_CLOCK_ERROR_MAX: Duration = Duration::from_secs(24 * 3600);
/// Upper bound on a run's duration: a century, which fits into 64 bits of nanoseconds.
const RUN_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Timeout for agents to confirm a stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between progress updates.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Results that were received from one agent.
#[derive(Debug, Default)]
pub(super) struct ReceivedPart {
    /// Facts about the whole part, from the agent's last message.
    pub(super) end: Option<PartEnd>,
    /// Reason why the part stays incomplete.
    pub(super) lost: Option<LossReason>,
    /// Number of messages that were rejected and therefore not counted.
    pub(super) refused: u64,
    last_message: Option<Instant>,
    ended: Option<Instant>,
}

/// Results that were received from all agents of a run.
#[derive(Debug)]
pub(super) struct ResultCollector {
    /// Sums of the results, by agent.
    pub(super) ledger: Ledger,
    /// State of each agent's part, by agent.
    pub(super) parts: BTreeMap<AgentName, ReceivedPart>,
    /// True if a coordinator ordered the agents to stop.
    pub(super) is_stopped: bool,
    /// Destination of results for viewers.
    feed: Option<Arc<Feed>>,
    /// The longest outage of the server, if any.
    pub(super) outage: Option<Outage>,
    /// Maximum number of half seconds in the measured part.
    half_seconds: usize,
    /// Longest plausible time since the start of the load, in nanoseconds.
    latest_ns: u64,
}

/// Reason why the coordinator stopped following a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowEnd {
    /// Every part is complete or lost.
    ToTheEnd,
    /// The user stopped watching a run that another coordinator leads.
    Detached,
}

impl ResultCollector {
    /// Creates a collector without results.
    pub(super) fn new(manifest: &RunManifest) -> ResultCollector {
        let names = manifest.parts.keys();
        let longest = longest_measured(manifest);
        let warmup = Duration::try_from_secs_f64(manifest.load.warmup_s).unwrap_or_default();
        ResultCollector {
            ledger: Ledger::new(names.clone().map(AgentName::to_string)),
            parts: names
                .map(|name| (name.clone(), ReceivedPart::default()))
                .collect(),
            half_seconds: (longest.as_secs_f64() / HALF_SECOND.as_secs_f64()) as usize,
            latest_ns: (longest + warmup).as_nanos() as u64,
            is_stopped: manifest.stopped,
            feed: None,
            outage: None,
        }
    }

    /// Makes the collector also send results to viewers.
    pub(super) fn with_feed(mut self, feed: Option<&Arc<Feed>>) -> ResultCollector {
        self.feed = feed.cloned();
        self
    }

    /// Adds a message of the run. Counts an invalid message if its sender is known.
    pub(super) fn take(&mut self, manifest: &RunManifest, message: &NatsMessage) {
        // The sender is identified only by the subject, because the server enforces which subjects
        // an agent may use.
        let name = message.subject.split('.').nth(2).unwrap_or_default();
        let Some((name, part)) = name
            .parse::<AgentName>()
            .ok()
            .and_then(|name| Some((name.clone(), self.parts.get_mut(&name)?)))
        else {
            return;
        };
        let read = serde_json::from_slice::<ResultMessage>(&message.payload).ok();
        let read = read.filter(|it| {
            let is_of_it = it.agent == name && it.run == manifest.run;
            // The number of half seconds is bounded, because each uses memory.
            let (half_seconds, latest_ns) = (it.packed.half_seconds(), it.packed.latest_ns());
            is_of_it && half_seconds <= self.half_seconds && latest_ns <= self.latest_ns
        });
        let Some(read) = read else {
            part.refused += 1;
            return;
        };
        let now = Instant::now();
        part.last_message = Some(now);
        let taken = self.ledger.take(name.as_str(), read.sequence, &read.packed);
        if let (Ok(true), Some(feed)) = (&taken, &self.feed)
            && let Some(all) = self.ledger.agent(name.as_str())
        {
            feed.add(&name, &read.packed, all, now);
        }
        let taken = taken.is_ok();
        let ended = match read.end {
            Some(end) if taken => {
                let counted = self.ledger.end(name.as_str(), read.sequence + 1).is_ok();
                let (end, is_believed) = claims::part_end(*end, self.latest_ns);
                if counted && part.end.is_none() {
                    (part.end, part.ended) = (Some(end), Some(now));
                }
                counted && is_believed
            }
            _ => true,
        };
        part.refused += u64::from(!(taken && ended));
        if self.is_whole(&name)
            && let Some(part) = self.parts.get_mut(&name)
        {
            part.lost = None;
            self.show(&name, AgentState::Ended);
        }
    }

    fn show(&self, name: &AgentName, state: AgentState) {
        if let Some(feed) = &self.feed {
            feed.is_now(name, state);
        }
    }

    /// Returns true if all messages from an agent have arrived.
    pub(super) fn is_whole(&self, name: &AgentName) -> bool {
        let ended = self.parts.get(name).is_some_and(|part| part.end.is_some());
        ended && self.ledger.is_whole(name.as_str())
    }

    /// Returns true if all messages from an agent have arrived and their counts are consistent. The
    /// agent can then delete its copy.
    pub(super) fn agrees(&self, name: &AgentName) -> bool {
        self.is_whole(name)
            && self.ledger.agent(name.as_str()).is_some_and(|all| {
                let outcomes = &all.outcomes;
                let ended = outcomes.get(Outcome::Ok)
                    + outcomes.failed()
                    + outcomes.get(Outcome::Unfinished);
                all.started == all.unmeasured + ended
            })
    }

    /// Returns the agents whose parts are neither complete nor lost.
    pub(super) fn open(&self) -> Vec<AgentName> {
        let open = |(name, part): &(&AgentName, &ReceivedPart)| {
            part.lost.is_none() && !self.is_whole(name)
        };
        let parts = self.parts.iter().filter(open);
        parts.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the agents whose parts are incomplete and whose last message is more than a few
    /// seconds old.
    fn quiet(&self, began: Instant) -> Vec<AgentName> {
        let mut open = self.open();
        open.retain(|name| {
            let last_message = self.parts.get(name).and_then(|part| part.last_message);
            last_message.unwrap_or(began).elapsed() > QUIET_AFTER
        });
        open
    }

    /// Collects results until every part is complete or lost, or the user detaches.
    pub(super) fn follow(
        &mut self,
        run: &FollowedRun<'_>,
        mut replay: StoredMessages,
    ) -> FollowEnd {
        let mut server = ServerContact::new(run.link, run.timeouts);
        let mut progress = ProgressReporter::new(run.began);
        let mut stopped = None;
        while !self.open().is_empty() {
            let before = Instant::now();
            let has_message = self.receive(run.manifest, &mut replay);
            if before.elapsed() > STALL_MIN {
                server.note_suspension();
            }
            server.update(run, has_message);
            if server.needs_replay() {
                // Messages that were already counted are ignored by the ledger.
                if let Ok(again) = run.link.replay(&run.manifest.run.results_subject()) {
                    replay = again;
                    server.note_replay();
                }
            }
            if stopped.is_none() && run.observer.stop.is_wanted() {
                if (run.is_only_watched)() {
                    return FollowEnd::Detached;
                }
                stopped = Some(Instant::now());
                (run.observer.on_event)(FleetEvent::Step(
                    "stopping agents; a second stop request skips waiting for their results",
                ));
                self.stop(run);
            }
            if run.observer.stop.is_wanted_at_once() {
                self.abandon_open_parts();
                return FollowEnd::ToTheEnd;
            }
            self.detect_losses(run, &server, stopped);
            progress.report(self, run);
            self.outage = server.longest_outage();
        }
        FollowEnd::ToTheEnd
    }

    /// Receives messages for a short time. Returns true if any arrived.
    pub(super) fn receive(&mut self, manifest: &RunManifest, replay: &mut StoredMessages) -> bool {
        let until = Instant::now() + RECEIVE_INTERVAL;
        let mut has_message = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match replay.next(left.max(Duration::from_millis(1))) {
                Some(message) => {
                    self.take(manifest, &message);
                    has_message = true;
                }
                None => return has_message,
            }
            if left.is_zero() {
                return has_message;
            }
        }
    }

    fn stop(&mut self, run: &FollowedRun<'_>) {
        if let Some(feed) = &self.feed {
            feed.stop();
        }
        self.is_stopped = true;
        runs::store_stopped(run.link, run.manifest, run.observer.stop);
        let open = self.open();
        let open: Vec<&AgentName> = open.iter().collect();
        let id = &run.manifest.run;
        // An agent that doesn't receive the order stops when its lease expires.
        let orders = open.into_iter().map(|name| (name, Command::Stop)).collect();
        let _ = orders::send(run.link, id, orders, STOP_TIMEOUT, &|_| {
            run.observer.stop.is_wanted_at_once()
        });
    }

    /// Marks all incomplete parts as lost.
    fn abandon_open_parts(&mut self) {
        for name in self.open() {
            if let Some(part) = self.parts.get_mut(&name) {
                part.lost = Some(LossReason::LeftBehind);
            }
        }
    }

    /// Determines which parts are lost.
    fn detect_losses(
        &mut self,
        run: &FollowedRun<'_>,
        server: &ServerContact,
        stopped: Option<Instant>,
    ) {
        let (now, timeouts) = (Instant::now(), run.timeouts);
        let is_server_lost = server
            .outage_length()
            .is_some_and(|away| away > timeouts.away());
        if is_server_lost {
            (run.observer.on_event)(FleetEvent::Warning(&server.give_up_message()));
        }
        for name in self.open() {
            let contact = run.lease.contact(&name);
            let Some(part) = self.parts.get_mut(&name) else {
                continue;
            };
            let since = |moment: Instant| {
                now.saturating_duration_since(moment.max(server.silence_counts_from()))
            };
            let last_contact = contact.map_or(run.began, |contact| contact.last_renewed);
            let last_message = part
                .last_message
                .map_or(last_contact, |last_message| last_message.max(last_contact));
            let is_unknown = contact.is_some_and(|contact| {
                contact.outcome == RenewalOutcome::Unknown
                    && since(contact.since) > timeouts.restart()
            });
            let quiet = |than: Duration| {
                part.last_message
                    .is_none_or(|last_message| since(last_message) > than)
            };
            part.lost = if is_server_lost {
                Some(LossReason::ServerAway)
            } else if stopped.is_some_and(|stopped| since(stopped) > timeouts.rest()) {
                Some(LossReason::Unstopped)
            } else if server.outage_length().is_some() {
                // During an outage of the server, silence doesn't mean that an agent is gone.
                None
            } else if let Some(ended) = part.ended {
                (since(ended) > timeouts.rest() && quiet(timeouts.restart()))
                    .then_some(LossReason::Missing)
            } else if is_unknown && quiet(timeouts.restart()) {
                Some(LossReason::Restarted)
            } else if since(last_message) > timeouts.silence() {
                Some(LossReason::Silent)
            } else if run
                .until
                .is_some_and(|until| since(until) > timeouts.overtime())
            {
                Some(LossReason::Endless)
            } else {
                None
            };
            if let Some(lost) = part.lost {
                run.lease.release(&name);
                (run.observer.on_event)(FleetEvent::Warning(&format!("agent {name} {lost}")));
                self.show(&name, AgentState::Lost);
            }
        }
        for (name, part) in &self.parts {
            if part.end.is_some() {
                run.lease.release(name);
            }
        }
    }
}

/// Returns an upper bound on the length of the measured part so far.
fn longest_measured(manifest: &RunManifest) -> Duration {
    let made = humantime::parse_rfc3339(&manifest.made_at).unwrap_or(SystemTime::UNIX_EPOCH);
    // The tolerance covers wall clocks that are wrong or were changed.
    let since = made.elapsed().unwrap_or_default() + WALL_CLOCK_ERROR_MAX;
    let planned = manifest
        .load
        .duration_s
        .map(|planned| planned + MEASURED_OVERTIME_S);
    let planned = planned.and_then(|planned| Duration::try_from_secs_f64(planned).ok());
    planned.unwrap_or(since).min(RUN_MAX)
}

/// Reports progress at fixed intervals.
struct ProgressReporter {
    last: Instant,
    ok: u64,
}

impl ProgressReporter {
    fn new(began: Instant) -> ProgressReporter {
        ProgressReporter {
            last: began.max(Instant::now()),
            ok: 0,
        }
    }

    fn report(&mut self, collector: &ResultCollector, run: &FollowedRun<'_>) {
        let span = self.last.elapsed();
        if span < PROGRESS_INTERVAL {
            return;
        }
        let agents = collector.parts.keys();
        let all = agents.filter_map(|name| collector.ledger.agent(name.as_str()));
        let (mut ok, mut failed) = (0u64, 0u64);
        for delta in all {
            ok = ok.saturating_add(delta.outcomes.get(Outcome::Ok));
            failed = failed.saturating_add(delta.outcomes.failed());
        }
        (run.observer.on_event)(FleetEvent::Progress(ProgressUpdate {
            elapsed: run.began.elapsed(),
            span,
            ok_per_s: ok.saturating_sub(self.ok) as f64 / span.as_secs_f64(),
            failed,
            agents: collector.open().len(),
            quiet: collector.quiet(run.began),
        }));
        (self.last, self.ok) = (Instant::now(), ok);
    }
}
