//! Run whose results are being collected.

use std::time::Instant;

use super::events::LoadObserver;
use super::lease::{Lease, LeaseTimeouts};
use crate::link::NatsLink;
use crate::wire::RunManifest;

/// A run in progress, with all data that is needed to follow it until its end.
pub(super) struct FollowedRun<'a> {
    pub(super) link: &'a NatsLink,
    pub(super) manifest: &'a RunManifest,
    pub(super) lease: &'a Lease,
    pub(super) timeouts: LeaseTimeouts,
    pub(super) observer: LoadObserver<'a>,
    /// Planned end, if the load has a time limit.
    pub(super) until: Option<Instant>,
    /// Start of the load, which may be in the future.
    pub(super) began: Instant,
    /// Returns true if another coordinator leads the run. In that case, a stop request only
    /// detaches this coordinator.
    pub(super) is_only_watched: &'a dyn Fn() -> bool,
}
