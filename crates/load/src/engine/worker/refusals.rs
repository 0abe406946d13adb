//! A load ends early when its target refuses every connection attempt or fails every TLS handshake.
//!
//! Each worker records its first failure, and any attempt that succeeded or failed in another way. A
//! worker whose attempts all failed for [`REFUSED_TIME`] ends the load, unless another worker
//! reached the target. Only one of these two decisions can be made ([`Control::rule_out_refusal`],
//! [`Control::give_up`]).

use std::io;

use prony_record::finding::{NothingListens, TargetNames, TlsFailed};
use prony_record::{Finding, Nanos, Outcome, Severity};

use crate::carrier::Reason;
use crate::engine::progress::Control;
use crate::socket::{Peer, system};
use crate::spec::LoadSpec;

/// Time after which a load ends if every connection attempt fails.
pub(crate) const REFUSED_TIME: Nanos = Nanos::from_secs(1);
/// Maximum number of targets that the finding names.
const TARGETS_NAMED_MAX: usize = 3;

/// The refused connection attempts and failed TLS handshakes of a load. They are counted as long as
/// every attempt fails.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    count: u64,
    /// Number of the counted attempts whose TLS handshake failed.
    handshakes: u64,
    since: Option<Nanos>,
    last: Nanos,
    /// The message of the last failure.
    error: String,
    /// True if a connection attempt succeeded, or failed in another way.
    ruled_out: bool,
    /// True if the other workers were notified that the target was reached.
    announced: bool,
}

impl Refusals {
    /// Records a failed connection attempt. If `error` is not a refusal, the load no longer ends
    /// because of refusals.
    pub(super) fn add(&mut self, error: &io::Error, now: Nanos) {
        if system::is_refusal(error) {
            self.count(&error, now)
        } else {
            self.ruled_out = true
        }
    }

    /// Records a failed TLS handshake.
    pub(super) fn add_handshake(&mut self, reason: &Reason, now: Nanos) {
        self.handshakes += 1;
        self.count(reason, now);
    }

    fn count(&mut self, error: &dyn ToString, now: Nanos) {
        if !self.ruled_out {
            self.count += 1;
            self.since.get_or_insert(now);
            self.last = now;
            self.error = error.to_string();
        }
    }

    /// Adds another worker's failures.
    pub(crate) fn merge(&mut self, other: Refusals) {
        self.count += other.count;
        self.handshakes += other.handshakes;
        self.since = match (self.since, other.since) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if other.last >= self.last && !other.error.is_empty() {
            (self.last, self.error) = (other.last, other.error);
        }
        self.ruled_out |= other.ruled_out;
    }

    /// Records that a connection attempt succeeded, or failed in another way.
    #[inline]
    pub(super) fn rule_out(&mut self) {
        self.ruled_out = true;
    }

    /// Records the end of a request that was sent. It shows that the server was reached, unless its
    /// TLS connection may have been rejected: with TLS 1.3, the server checks the client's
    /// certificate after the handshake is complete for the client.
    #[inline]
    pub(super) fn sent_request_ended(&mut self, outcome: Outcome) {
        use Outcome::{ClosedEarly, Reset, Tls, Unfinished};
        self.ruled_out |= !matches!(outcome, ClosedEarly | Reset | Tls | Unfinished);
    }

    /// Returns true if all connection attempts have failed for long enough to end the load.
    #[inline]
    pub(super) fn may_end_load(&self) -> bool {
        let since = self.since.unwrap_or(self.last);
        !self.ruled_out && self.last.since(since) >= REFUSED_TIME
    }

    /// Returns true if the load ends because every connection attempt fails.
    #[inline]
    pub(super) fn ends_load(&mut self, control: &Control) -> bool {
        !self.announced && self.decide(control)
    }

    fn decide(&mut self, control: &Control) -> bool {
        if self.ruled_out {
            self.announced = true;
            return !control.rule_out_refusal();
        }
        if self.may_end_load() {
            control.give_up()
        } else {
            control.is_given_up()
        }
    }

    /// The finding about a load in which every connection attempt failed.
    pub(crate) fn finding(&self, spec: &LoadSpec) -> Option<Finding> {
        let since = self.since.filter(|_| !self.ruled_out)?;
        let targets = target_names(spec);
        let span_s = self.last.since(since).as_secs_f64();
        let error = self.error.clone();
        Some(match self.handshakes {
            0 => {
                let figures = NothingListens {
                    targets,
                    attempts: self.count,
                    span_s,
                    error,
                };
                Finding::of(Severity::Error, &figures)
            }
            handshakes => {
                let figures = TlsFailed {
                    targets,
                    handshakes,
                    span_s,
                    error,
                };
                Finding::of(Severity::Error, &figures)
            }
        })
    }
}

/// The addresses that a load connects to.
pub(crate) fn target_names(spec: &LoadSpec) -> TargetNames {
    let mut named: Vec<String> = Vec::new();
    for target in &spec.targets {
        let name = match &target.peer {
            Peer::Tcp(address) => address.to_string(),
            Peer::Quic(address) => format!("UDP {address}"),
            Peer::Unix(path) => path.display().to_string(),
        };
        if !named.contains(&name) {
            named.push(name);
        }
    }
    let further = named.len().saturating_sub(TARGETS_NAMED_MAX) as u64;
    named.truncate(TARGETS_NAMED_MAX);
    TargetNames { named, further }
}
