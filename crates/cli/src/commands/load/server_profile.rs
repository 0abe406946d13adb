//! `prony load --profile`: samples the servers of a load that run on this machine.

use std::sync::Arc;
use std::time::Duration;

use prony_load::LoadSpec;
use prony_machine::sampling::{DEFAULT_RATE_HZ, Listener, SamplingRefused, SamplingSession};
use prony_record::Record;
use prony_record::sampling::ServerProfile;

use crate::progress::Progress;

/// Samples of a load's servers.
pub(super) struct ServerProfiles(Vec<Result<Arc<SamplingSession>, SamplingRefused>>);

impl ServerProfiles {
    /// Starts to sample the servers on loopback addresses and UNIX sockets. Samples count after the warm-up. Must be
    /// called when the load starts.
    pub(super) fn begin(spec: &LoadSpec, progress: &Progress) -> Self {
        let addresses = spec.server_addresses().into_iter();
        let local = addresses.filter(|(address, is_udp)| address.ip().is_loopback() && !is_udp);
        let local = local.map(|(address, _)| Listener::Tcp(address));
        let local = local.chain(spec.unix_sockets().into_iter().map(Listener::Unix));
        let begin = |listener| {
            let mut session = SamplingSession::of_listener(listener, DEFAULT_RATE_HZ)?;
            session.begin()?;
            let session = Arc::new(session);
            let counted = Arc::downgrade(&session);
            let warmup = Duration::try_from_secs_f64(spec.info().warmup_s).unwrap_or_default();
            std::thread::spawn(move || {
                std::thread::sleep(warmup);
                if let Some(session) = counted.upgrade() {
                    session.count(true);
                }
            });
            Ok(session)
        };
        let sessions: Vec<_> = local.map(begin).collect();
        if sessions.is_empty() {
            progress.warn("--profile: no server of this load listens on a loopback TCP address or UNIX socket");
        }
        Self(sessions)
    }

    /// Ends the sampling. Must be called when the load has ended.
    pub(super) fn end(&self) {
        for session in self.0.iter().flatten() {
            session.count(false);
        }
    }

    /// Adds the functions of each server to the record.
    pub(super) fn store(self, record: &mut Record, progress: &Progress) {
        for session in self.0 {
            match session.map(Arc::into_inner) {
                Ok(Some(session)) => {
                    let profile = session.finish();
                    record
                        .profiles
                        .extend(profile.as_ref().map(ServerProfile::from));
                }
                Ok(None) => progress.warn("--profile: the load was too short"),
                Err(refused) => progress.warn(format_args!("--profile: {refused}")),
            }
        }
    }
}
