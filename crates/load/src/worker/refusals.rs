//! A load ends early when its target refuses every connection attempt.
//!
//! Each worker records its first refusal, and any connection attempt that was not refused. A worker
//! whose connection attempts were all refused for [`REFUSED_TIME`] ends the load, unless another
//! worker reached the target. Only one of these two decisions can be made
//! ([`Control::rule_out_refusal`], [`Control::give_up`]).

use std::io;

use prony_record::{Finding, FindingId, Nanos, Severity};

use crate::progress::Control;
use crate::socket::{Peer, system};
use crate::spec::LoadSpec;

/// Time after which a load ends if every connection attempt is refused.
pub(crate) const REFUSED_TIME: Nanos = Nanos::from_secs(1);
/// Maximum number of targets that the finding names.
const TARGETS_NAMED_MAX: usize = 3;

/// The refused connection attempts of a load. They are counted as long as every attempt is refused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    count: u64,
    since: Option<Nanos>,
    last: Nanos,
    /// The system's message for the last refusal.
    error: String,
    /// True if a connection attempt ended in a way other than refusal.
    ruled_out: bool,
    /// True if the other workers were notified that not every connection attempt was refused.
    announced: bool,
}

impl Refusals {
    /// Records a failed connection attempt. If `error` is not a refusal, the load no longer ends
    /// because of refusals.
    pub(super) fn add(&mut self, error: &io::Error, now: Nanos) {
        if !system::is_refusal(error) {
            self.ruled_out = true;
        } else if !self.ruled_out {
            self.count += 1;
            self.since.get_or_insert(now);
            self.last = now;
            self.error = error.to_string();
        }
    }

    /// Adds another worker's refusals.
    pub(crate) fn merge(&mut self, other: Refusals) {
        self.count += other.count;
        self.since = match (self.since, other.since) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if other.last >= self.last && !other.error.is_empty() {
            (self.last, self.error) = (other.last, other.error);
        }
        self.ruled_out |= other.ruled_out;
    }

    /// Records that a connection attempt ended in a way other than refusal.
    #[inline]
    pub(super) fn rule_out(&mut self) {
        self.ruled_out = true;
    }

    /// Returns true if the load ends because its targets refuse every connection attempt.
    #[inline]
    pub(super) fn ends_load(&mut self, control: &Control) -> bool {
        !self.announced && self.decide(control)
    }

    fn decide(&mut self, control: &Control) -> bool {
        if self.ruled_out {
            self.announced = true;
            return !control.rule_out_refusal();
        }
        let since = self.since.unwrap_or(self.last);
        if self.last.since(since) >= REFUSED_TIME {
            control.give_up()
        } else {
            control.is_given_up()
        }
    }

    /// The finding about a load in which every connection attempt was refused.
    pub(crate) fn finding(&self, spec: &LoadSpec) -> Option<Finding> {
        let since = self.since.filter(|_| !self.ruled_out)?;
        let count = match self.count {
            1 => "the only connection attempt was refused".to_owned(),
            count => format!(
                "all {count} connection attempts in {:.1} s were refused",
                self.last.since(since).as_secs_f64()
            ),
        };
        let text = format!(
            "Nothing is listening on {}: {count} ({}). Start the server, correct the address, or \
                wait for the server with --wait-for-server.",
            target_names(spec),
            self.error
        );
        Some(Finding::new(
            FindingId::NothingListens,
            Severity::Error,
            text,
        ))
    }
}

/// The addresses that a load connects to.
pub(crate) fn target_names(spec: &LoadSpec) -> String {
    let mut names: Vec<String> = Vec::new();
    for target in &spec.targets {
        let name = match &target.peer {
            Peer::Tcp(address) => address.to_string(),
            Peer::Quic(address) => format!("UDP {address}"),
            Peer::Unix(path) => path.display().to_string(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let further = names.len().saturating_sub(TARGETS_NAMED_MAX);
    names.truncate(TARGETS_NAMED_MAX);
    match further {
        0 => names.join(", "),
        further => format!("{} and {further} more addresses", names.join(", ")),
    }
}
