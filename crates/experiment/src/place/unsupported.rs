//! Stub for named places on systems that don't support them.

use std::collections::BTreeMap;

use super::{NetnsHandle, SandboxEntry};
use crate::environment::PlaceFacts;
use crate::run_state::RunState;
use crate::service::PlaceKind;
use crate::system::HostError;
use crate::topology::{LinkTraffic, Topology};

/// Error message for plans with named places.
pub(super) const UNSUPPORTED: &str = "named places are supported on Linux only";

/// Placeholder type for the named places of a trial. No value of this type can exist.
#[derive(Debug)]
pub(crate) enum NoTopology {}

impl NoTopology {
    pub(crate) fn make(
        _prefix: &str,
        _topology: &Topology,
        _state: &mut RunState,
    ) -> Result<Self, HostError> {
        Err(HostError::Place {
            kind: PlaceKind::Named(0),
            reason: UNSUPPORTED.to_owned(),
        })
    }

    pub(crate) fn entry(&self, _place: usize) -> Option<&SandboxEntry> {
        match *self {}
    }

    pub(crate) fn netns_handle(&self, _place: usize) -> Result<Option<NetnsHandle>, HostError> {
        match *self {}
    }

    pub(crate) fn traffic(&mut self) -> BTreeMap<String, LinkTraffic> {
        match *self {}
    }

    pub(crate) fn facts(&self) -> &BTreeMap<String, PlaceFacts> {
        match *self {}
    }
}
