//! A load ends early when its target refuses every connect.
//!
//! Each worker notes its first refusal and whether anything but a refusal happened. Once a worker has
//! seen nothing but refusals for [`REFUSED_FOR`], it ends the load, unless another worker reached the
//! target: the two decisions exclude each other ([`Control::rule_out_refusal`], [`Control::give_up`]).

use std::io;

use prony_record::{Finding, FindingId, Nanos, Severity};

use super::Worker;
use crate::progress::Control;
use crate::socket::{Peer, Sockets, system};
use crate::spec::LoadSpec;

/// A load ends with the first refusal that comes this long after the very first, if there was nothing
/// else in between.
pub(crate) const REFUSED_FOR: Nanos = Nanos::from_secs(1);
/// Targets that the finding names.
const TARGETS_NAMED: usize = 3;

/// The refused connects of a load in which nothing else has happened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    count: u64,
    since: Option<Nanos>,
    last: Nanos,
    /// The system's words for the last one.
    error: String,
    /// Something other than a refused connect happened.
    ruled_out: bool,
    /// Other workers know that.
    announced: bool,
}

impl Refusals {
    /// A connect failed: `error` is a refusal, or rules one out.
    fn add(&mut self, error: &io::Error, now: Nanos) {
        if !system::is_refusal(error) {
            self.ruled_out = true;
        } else if !self.ruled_out {
            self.count += 1;
            self.since.get_or_insert(now);
            self.last = now;
            self.error = error.to_string();
        }
    }

    /// Adds another worker's.
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

    /// The finding of a load in which every connect was refused.
    pub(crate) fn finding(&self, spec: &LoadSpec) -> Option<Finding> {
        let since = self.since.filter(|_| !self.ruled_out)?;
        let count = match self.count {
            1 => "the only connect was refused".to_owned(),
            count => format!(
                "all {count} connects in {:.1} s were refused",
                self.last.since(since).as_secs_f64()
            ),
        };
        let text = format!(
            "Nothing listens at {}: {count} ({}). Start the server, correct the address, or wait for \
             the server with --wait-for-server.",
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
            Peer::Unix(path) => path.display().to_string(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let further = names.len().saturating_sub(TARGETS_NAMED);
    names.truncate(TARGETS_NAMED);
    match further {
        0 => names.join(", "),
        further => format!("{} and {further} more addresses", names.join(", ")),
    }
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// A connect failed.
    pub(super) fn note_connect_error(&mut self, error: &io::Error, now: Nanos) {
        self.refusals.add(error, now);
    }

    /// Something other than a refused connect happened.
    #[inline]
    pub(super) fn rule_out_refusal(&mut self) {
        self.refusals.ruled_out = true;
    }

    /// Returns whether the load ends because its targets refuse every connect.
    #[inline]
    pub(super) fn is_refused(&mut self, control: &Control) -> bool {
        match self.refusals.announced {
            true => false,
            false => self.decide_refusal(control),
        }
    }

    fn decide_refusal(&mut self, control: &Control) -> bool {
        let refusals = &mut self.refusals;
        if refusals.ruled_out {
            refusals.announced = true;
            return !control.rule_out_refusal();
        }
        let since = refusals.since.unwrap_or(refusals.last);
        match refusals.last.since(since) >= REFUSED_FOR {
            true => control.give_up(),
            false => control.is_given_up(),
        }
    }
}
