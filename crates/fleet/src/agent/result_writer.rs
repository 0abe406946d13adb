//! Writes the results of a part to disk and queues them for sending, on a separate thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use prony_load::{RunError, RunResult};
use prony_record::finding::{
    AccountingMismatch, AgentFailed, AgentLoss, AgentLost, AgentStalled, FindingKind, SpoolFailed,
    Subject,
};
use prony_record::{Delta, EncodedDelta, Finding, FindingId, Generator, Negotiated, Severity};

use super::outbox::Outbox;
use super::part_state::{PartEvent, PartState};
use super::spool::Spool;
use crate::names::{AgentName, RunId};
use crate::wire::{EndReason, PartEnd, ResultMessage};

/// Interval between messages.
const SEND_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which the thread checks whether the lease has expired.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of histogram buckets in a message. As JSON, they take up to half of the message
/// size that the server accepts.
const BUCKETS_PER_MESSAGE_MAX: usize = 20_000;

/// Writes the results of one part.
pub(super) struct ResultWriter {
    run: RunId,
    agent: AgentName,
    state: Arc<PartState>,
    spool: Spool,
    outbox: Arc<Outbox>,
    next_sequence: u64,
    /// Ordered start time on the agent's clock, in nanoseconds.
    start_at: Option<i64>,
    /// Sum of the results in all messages so far.
    sent: Delta,
    /// First error from writing or queueing a message.
    error: Option<String>,
}

impl ResultWriter {
    /// Creates a writer for this agent's share of a run.
    pub(super) fn new(
        (run, agent): (&RunId, &AgentName),
        state: Arc<PartState>,
        spool: Spool,
        outbox: Arc<Outbox>,
    ) -> ResultWriter {
        ResultWriter {
            run: run.clone(),
            agent: agent.clone(),
            state,
            spool,
            outbox,
            next_sequence: 0,
            start_at: None,
            sent: Delta::default(),
            error: None,
        }
    }

    /// Writes results until the load is over. Stops the load when its lease expires.
    pub(super) fn work(mut self, events: &Receiver<PartEvent>) {
        let mut due = Instant::now();
        let over = loop {
            match events.recv_timeout(POLL_INTERVAL) {
                Ok(PartEvent::Starts(at)) => {
                    self.start_at = Some(at);
                    due = Instant::now() + SEND_INTERVAL;
                }
                Ok(PartEvent::Over(over)) => break Some(*over),
                // The load's thread ended without a result.
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.state.early_end().is_none() && self.state.is_lease_over() {
                self.state.end(EndReason::LeaseEnded);
            }
            if self.start_at.is_some() && Instant::now() >= due {
                due = (due + SEND_INTERVAL).max(Instant::now());
                let delta = self.state.control.take();
                self.write(&delta, None);
            }
        };
        let delta = self.state.control.take();
        let end = self.part_end(over, &delta);
        self.write(&delta, Some(end));
    }

    /// Writes results to disk and queues them. Large results are split into several messages.
    fn write(&mut self, delta: &Delta, mut end: Option<PartEnd>) {
        let pieces = EncodedDelta::of(delta).split(BUCKETS_PER_MESSAGE_MAX);
        let last = pieces.len() - 1;
        for (number, packed) in pieces.into_iter().enumerate() {
            let end = end.take_if(|_| number == last);
            let is_last = end.is_some();
            let message = ResultMessage {
                run: self.run.clone(),
                agent: self.agent.clone(),
                sequence: self.next_sequence,
                packed,
                end: end.map(Box::new),
            };
            self.next_sequence += 1;
            // This is the same sum that the coordinator computes from the messages.
            let _ = message.packed.add_to(&mut self.sent);
            if let Err(error) = self.spool.append(&message) {
                self.error.get_or_insert_with(|| error.to_string());
            }
            if is_last {
                self.state.set_over();
            }
            if let Err(error) = self.outbox.push(&message) {
                self.error.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Collects the facts about the whole part. `rest` contains the results that are sent in the
    /// same message.
    fn part_end(&self, over: Option<Result<RunResult, RunError>>, rest: &Delta) -> PartEnd {
        let early_end = self.state.early_end();
        let mut end = PartEnd {
            reason: early_end.unwrap_or(EndReason::Failed),
            began: None,
            span: (0, 0),
            generator: Generator::default(),
            response_time_us: None,
            negotiated: Negotiated::default(),
            quic: None,
            websocket: None,
            sources: None,
            addresses: None,
            idle: None,
            findings: Vec::new(),
            started_at: String::new(),
        };
        match over {
            Some(Ok(loaded)) => {
                end.reason = early_end.unwrap_or(EndReason::Done);
                self.fill_end(loaded, rest, &mut end);
            }
            Some(Err(RunError::Canceled)) if early_end.is_some() => {}
            Some(Err(error)) => end.findings.push(self.failed(error.to_string())),
            None => {
                let reason = "its load thread ended unexpectedly";
                end.findings.push(self.failed(reason.to_owned()));
            }
        }
        if end.reason == EndReason::AgentEnded {
            let stopped = AgentLost {
                loss: AgentLoss::Stopped,
                outage: None,
            };
            end.findings.push(self.error_finding(&stopped));
        }
        let error = self.error.clone().or_else(|| self.spool.flush_error());
        end.findings.extend(error.map(|error| {
            Finding::about(self.subject(), Severity::Warning, &SpoolFailed { error })
        }));
        end
    }

    fn fill_end(&self, loaded: RunResult, rest: &Delta, end: &mut PartEnd) {
        let mut sum = self.sent.clone();
        let _ = EncodedDelta::of(rest).add_to(&mut sum);
        if sum != *loaded.recorder.total() {
            let mismatch = AccountingMismatch {
                sent: sum.started,
                measured: loaded.recorder.total().started,
            };
            end.findings.push(self.error_finding(&mismatch));
        }
        let first = loaded.first_start.map(|first| first.0);
        end.began = self.start_at.zip(first).map(|(at, first)| {
            let first = i64::try_from(first).unwrap_or(i64::MAX);
            (at, at.saturating_add(first))
        });
        end.span = (loaded.span.0.0, loaded.span.1.0);
        end.generator = loaded.record.generator;
        end.response_time_us = Some(loaded.record.response_time_us);
        end.negotiated = loaded.record.negotiated;
        end.quic = loaded.record.quic;
        end.websocket = loaded.record.websocket;
        end.sources = loaded.record.sources;
        end.idle = loaded.record.idle;
        end.addresses = loaded.record.addresses;
        let findings = loaded.record.findings.into_iter();
        end.findings
            .extend(findings.map(|it| self.with_agent_name(it, &end.generator)));
        end.started_at = loaded.record.started_at;
    }

    /// Adds this agent's name to a finding about a stalled load generator, because other agents
    /// might not have stalled.
    fn with_agent_name(&self, finding: Finding, generator: &Generator) -> Finding {
        match generator.stalls {
            Some(stalls) if finding.id == FindingId::GeneratorStalled => {
                Finding::about(self.subject(), finding.severity, &AgentStalled { stalls })
            }
            _ => finding,
        }
    }

    fn failed(&self, reason: String) -> Finding {
        self.error_finding(&AgentFailed { reason })
    }

    fn error_finding<F: FindingKind>(&self, figures: &F) -> Finding {
        Finding::about(self.subject(), Severity::Error, figures)
    }

    fn subject(&self) -> Subject {
        Subject::Agent(self.agent.to_string())
    }
}
