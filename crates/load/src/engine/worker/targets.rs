//! The targets of a load, including those added while it runs.

use std::ops::Index;
use std::sync::Arc;

use crate::spec::LoadSpec;
use crate::target::Target;
use crate::tls;

/// A worker's targets, and the TLS settings for them.
pub(super) struct Targets {
    list: Vec<Arc<Target>>,
    /// TLS client; `None` as long as all targets use cleartext.
    pub(super) tls: Option<tls::TlsClient>,
}

impl Targets {
    pub(super) fn new(spec: &LoadSpec, connections: u32) -> Targets {
        Targets {
            list: spec.targets.iter().cloned().map(Arc::new).collect(),
            tls: spec
                .tls
                .as_ref()
                .map(|tls| tls.client(connections as usize)),
        }
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.list.len()
    }

    /// Loads a target's data if it is new to this worker.
    pub(super) fn learn(&mut self, target: u32, spec: &LoadSpec, connections: u32) {
        if (target as usize) < self.list.len() {
            return;
        }
        spec.writer.append_new_targets(&mut self.list);
        let needs_tls = self.list.iter().any(|target| target.tls.is_some());
        if needs_tls && self.tls.is_none() {
            tls::seed_random_numbers();
            let settings = spec.writer.tls().ok();
            self.tls = settings.map(|settings| settings.client(connections as usize));
        }
    }
}

impl Index<u32> for Targets {
    type Output = Target;

    #[inline]
    fn index(&self, target: u32) -> &Target {
        &self.list[target as usize]
    }
}
