//! Continues runs whose coordinator has exited: collects their results, or takes over as their
//! leader.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use prony_record::finding::LossReason;

use super::collector::{FollowEnd, ResultCollector};
use super::error::FleetError;
use super::events::{FleetEvent, LoadObserver};
use super::fleet::Fleet;
use super::followed_run::FollowedRun;
use super::leadership::{Leadership, LeadershipGuard};
use super::lease::{Lease, LeaseGuard, LeaseTimeouts};
use super::request::FinishedRun;
use super::{load, runs};
use crate::names::AgentName;
use crate::wire::RunManifest;

/// Time without a new message after which all stored messages are assumed to have been read.
const QUIET_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Interval for listing the agents that are still generating load.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

impl Fleet {
    /// Builds the record of a run that is over or has lost its coordinator. Uses the stored results
    /// and those that agents are still sending.
    ///
    /// # Errors
    ///
    /// Returns an error if the run never started or is still in progress; see [`FleetError`].
    pub fn collect(
        &self,
        manifest: &RunManifest,
        observer: LoadObserver<'_>,
    ) -> Result<FinishedRun, FleetError> {
        has_begun(manifest)?;
        let timeouts = self.timeouts_of(manifest);
        let mut replay = self.link.replay(&manifest.run.results_subject())?;
        let began = Instant::now();
        show(manifest, observer, began);
        let mut collector = ResultCollector::new(manifest).with_feed(observer.feed);
        let mut last_message = began;
        let mut looked: Option<Instant> = None;
        let mut busy = BTreeSet::new();
        let mut sending = BTreeSet::new();
        let mut has_waited = false;
        while !collector.open().is_empty() && !observer.stop.is_wanted() {
            if collector.receive(manifest, &mut replay) {
                last_message = Instant::now();
            }
            if looked.is_none_or(|looked| looked.elapsed() > LIST_INTERVAL) {
                let mut agent_work = self.agent_work()?;
                busy = agent_work.busy.remove(&manifest.run).unwrap_or_default();
                sending = agent_work.sending.remove(&manifest.run).unwrap_or_default();
                looked = Some(Instant::now());
            }
            if last_message.elapsed() < QUIET_TIMEOUT {
                continue;
            }
            let open = collector.open();
            let Some(loading) = open.iter().find(|name| busy.contains(*name)) else {
                // An agent that has just reconnected may still have to send its results.
                let sends = open.iter().find(|name| sending.contains(*name));
                let Some(sends) = sends.filter(|_| began.elapsed() < timeouts.winding_down())
                else {
                    break;
                };
                if !has_waited {
                    let text = format!("agent {sends} is still sending its results");
                    (observer.on_event)(FleetEvent::Step(&text));
                    has_waited = true;
                }
                continue;
            };
            if began.elapsed() > timeouts.winding_down() {
                let text = format!(
                    "agent {loading} is still generating load, because a coordinator is renewing the lease; watch the run with `prony fleet attach {}`",
                    manifest.run
                );
                let run = manifest.run.clone();
                return Err(FleetError::Empty { run, text });
            }
            if !has_waited {
                (observer.on_event)(FleetEvent::Step(&format!(
                    "agent {loading} is still generating load; it stops when its lease ends, within {} s",
                    timeouts.lease.as_secs()
                )));
                has_waited = true;
            }
        }
        let open = collector.open();
        give_up(&mut collector, &open);
        self.has_something(manifest, &collector)?;
        Ok(self.finish(manifest, &collector, observer.stop))
    }

    /// Watches a run and returns its record when it ends. Renews the run's lease, so that the run
    /// continues if its own coordinator is gone. A stop request stops the load if no other
    /// coordinator leads the run; otherwise, it only detaches this coordinator.
    ///
    /// # Errors
    ///
    /// Returns an error if the run never started, or [`FleetError::Detached`]; see [`FleetError`].
    pub fn attach(
        &self,
        manifest: &RunManifest,
        observer: LoadObserver<'_>,
    ) -> Result<FinishedRun, FleetError> {
        has_begun(manifest)?;
        if runs::members(&self.agent_work()?.busy, manifest).is_empty() {
            (observer.on_event)(FleetEvent::Step("no agent is generating load"));
            return self.collect(manifest, observer);
        }
        let timeouts = self.timeouts_of(manifest);
        let lease = Lease::new(&manifest.run, timeouts, manifest.parts.keys());
        let leadership = Leadership::attached(&manifest.run, timeouts);
        let (collector, followed) = std::thread::scope(|scope| {
            let _keeping = LeaseGuard(&lease);
            let _leading = LeadershipGuard(&leadership);
            scope.spawn(|| lease.keep(&self.link));
            scope.spawn(|| leadership.keep(&self.link));
            let replay = self.link.replay(&manifest.run.results_subject())?;
            let began = Instant::now();
            show(manifest, observer, began);
            let mut collector = ResultCollector::new(manifest).with_feed(observer.feed);
            let following = FollowedRun {
                link: &self.link,
                manifest,
                lease: &lease,
                timeouts,
                observer,
                until: None,
                began,
                is_only_watched: &|| leadership.is_elsewhere(),
            };
            let followed = collector.follow(&following, replay);
            Ok::<_, FleetError>((collector, followed))
        })?;
        if followed == FollowEnd::Detached {
            return Err(FleetError::Detached(manifest.run.clone()));
        }
        self.has_something(manifest, &collector)?;
        Ok(self.finish(manifest, &collector, observer.stop))
    }

    /// Returns the timeouts that are derived from the run's lease.
    fn timeouts_of(&self, manifest: &RunManifest) -> LeaseTimeouts {
        LeaseTimeouts::of(manifest).unwrap_or(self.timeouts)
    }

    fn has_something(
        &self,
        manifest: &RunManifest,
        collector: &ResultCollector,
    ) -> Result<(), FleetError> {
        let mut names = collector.parts.keys();
        let has_any = |name: &AgentName| {
            let delta = collector.ledger.agent(name.as_str());
            collector.is_whole(name) || delta.is_some_and(|delta| delta.started > 0)
        };
        if names.any(has_any) {
            Ok(())
        } else {
            Err(FleetError::Empty {
                run: manifest.run.clone(),
                text: "no results are stored".to_owned(),
            })
        }
    }
}

fn has_begun(manifest: &RunManifest) -> Result<(), FleetError> {
    match manifest.start {
        Some(_) => Ok(()),
        None => Err(FleetError::Empty {
            run: manifest.run.clone(),
            text: "never started, so there are no results".to_owned(),
        }),
    }
}

/// Shows the run to a viewer as if it had just started. The viewer derives the real start from the
/// results.
fn show(manifest: &RunManifest, observer: LoadObserver<'_>, now: Instant) {
    if let Some(feed) = observer.feed {
        feed.prepare(manifest);
        feed.begin(&manifest.load, now, load::planned(&manifest.load));
    }
}

fn give_up(collector: &mut ResultCollector, open: &[AgentName]) {
    for name in open {
        if let Some(part) = collector.parts.get_mut(name) {
            part.lost = Some(match part.end {
                Some(_) => LossReason::Missing,
                None => LossReason::NoEnd,
            });
        }
    }
}
