//! A run whose results are being collected.

use std::time::Instant;

use super::events::LoadObserver;
use super::lease::{Lease, LeaseTimeouts};
use crate::link::NatsLink;
use crate::wire::RunManifest;

/// A run in flight, with everything that is needed to follow it to its end.
pub(super) struct FollowedRun<'a> {
    pub(super) link: &'a NatsLink,
    pub(super) manifest: &'a RunManifest,
    pub(super) lease: &'a Lease,
    pub(super) timeouts: LeaseTimeouts,
    pub(super) observer: LoadObserver<'a>,
    /// Planned end, if time ends the load.
    pub(super) until: Option<Instant>,
    /// Start of the load; may lie in the future.
    pub(super) began: Instant,
    /// Returns true if another coordinator leads the run. A stop request then ends only the watching.
    pub(super) is_only_watched: &'a dyn Fn() -> bool,
}
