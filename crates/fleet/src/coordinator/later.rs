//! Runs whose coordinator is gone: their results are brought in, or they are gone on with.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::error::FleetError;
use super::gathering::{Followed, Following, Gathering, Lost};
use super::leadership::{Leadership, Leading};
use super::lease::{Keeping, Lease, Patience};
use super::{Finished, Fleet, Told, Watcher, load, runs};
use crate::messages::Manifest;
use crate::names::AgentName;

/// So long nothing has come where nothing more is stored.
const QUIET: Duration = Duration::from_millis(1_500);
/// How often it is looked who still loads.
const LOOK: Duration = Duration::from_secs(1);

impl Fleet {
    /// Brings in a run that is over, or whose coordinator is gone: what was stored, and what agents that
    /// wind down still send.
    ///
    /// # Errors
    ///
    /// Where it never began, or still goes on; see [`FleetError`].
    pub fn collect(
        &self,
        manifest: &Manifest,
        watcher: Watcher<'_>,
    ) -> Result<Finished, FleetError> {
        has_begun(manifest)?;
        let patience = self.patience_of(manifest);
        let mut replay = self.link.replay(&manifest.run.all_results())?;
        let began = Instant::now();
        show(manifest, watcher, began);
        let mut gathering = Gathering::new(manifest).seen_by(watcher.feed);
        let mut heard = began;
        let mut looked: Option<Instant> = None;
        let mut busy = BTreeSet::new();
        let mut sending = BTreeSet::new();
        let mut has_waited = false;
        while !gathering.open().is_empty() && !watcher.stop.is_wanted() {
            if gathering.hear(manifest, &mut replay) {
                heard = Instant::now();
            }
            if looked.is_none_or(|looked| looked.elapsed() > LOOK) {
                let mut engaged = self.engaged()?;
                busy = engaged.busy.remove(&manifest.run).unwrap_or_default();
                sending = engaged.sending.remove(&manifest.run).unwrap_or_default();
                looked = Some(Instant::now());
            }
            if heard.elapsed() < QUIET {
                continue;
            }
            let open = gathering.open();
            let Some(loading) = open.iter().find(|name| busy.contains(*name)) else {
                // Its way here may have come back just now.
                let sends = open.iter().find(|name| sending.contains(*name));
                let Some(sends) = sends.filter(|_| began.elapsed() < patience.winding_down())
                else {
                    break;
                };
                if !has_waited {
                    let text = format!("agent {sends} has yet to send what it measured");
                    (watcher.told)(Told::Step(&text));
                    has_waited = true;
                }
                continue;
            };
            if began.elapsed() > patience.winding_down() {
                let text = format!(
                    "agent {loading} still loads, as somebody renews its lease; `prony fleet attach {}` \
                     watches it",
                    manifest.run
                );
                let run = manifest.run.clone();
                return Err(FleetError::Empty { run, text });
            }
            if !has_waited {
                (watcher.told)(Told::Step(&format!(
                    "agent {loading} still loads; it ends with its lease, within {} s",
                    patience.lease.as_secs()
                )));
                has_waited = true;
            }
        }
        let open = gathering.open();
        give_up(&mut gathering, &open);
        self.has_something(manifest, &gathering)?;
        Ok(self.finish(manifest, &gathering, watcher.stop))
    }

    /// Watches a run, and gives its record at its end. Its lease is renewed from here, too, so that it
    /// goes on when its coordinator is gone. A stop ends the load if no other coordinator leads the run;
    /// otherwise it only ends the watching.
    ///
    /// # Errors
    ///
    /// Where it never began, and [`FleetError::Detached`]; see [`FleetError`].
    pub fn attach(
        &self,
        manifest: &Manifest,
        watcher: Watcher<'_>,
    ) -> Result<Finished, FleetError> {
        has_begun(manifest)?;
        if runs::members(&self.engaged()?.busy, manifest).is_empty() {
            (watcher.told)(Told::Step("no agent loads any more"));
            return self.collect(manifest, watcher);
        }
        let patience = self.patience_of(manifest);
        let lease = Lease::new(&manifest.run, patience, manifest.parts.keys());
        let leadership = Leadership::attached(&manifest.run);
        let (gathering, followed) = std::thread::scope(|scope| {
            let _keeping = Keeping(&lease);
            let _leading = Leading(&leadership);
            scope.spawn(|| lease.keep(&self.link));
            scope.spawn(|| leadership.keep(&self.link));
            let replay = self.link.replay(&manifest.run.all_results())?;
            let began = Instant::now();
            show(manifest, watcher, began);
            let mut gathering = Gathering::new(manifest).seen_by(watcher.feed);
            let following = Following {
                link: &self.link,
                manifest,
                lease: &lease,
                patience,
                told: watcher.told,
                stop: watcher.stop,
                until: None,
                began,
                is_only_watched: &|| leadership.is_elsewhere(),
            };
            let followed = gathering.follow(&following, replay);
            Ok::<_, FleetError>((gathering, followed))
        })?;
        if followed == Followed::Detached {
            return Err(FleetError::Detached(manifest.run.clone()));
        }
        self.has_something(manifest, &gathering)?;
        Ok(self.finish(manifest, &gathering, watcher.stop))
    }

    /// The timeouts of a run, by the lease that its agents were given.
    fn patience_of(&self, manifest: &Manifest) -> Patience {
        Patience::of(manifest).unwrap_or(self.patience)
    }

    fn has_something(&self, manifest: &Manifest, gathering: &Gathering) -> Result<(), FleetError> {
        let mut names = gathering.parts.keys();
        let has_any = |name: &AgentName| {
            let delta = gathering.ledger.agent(name.as_str());
            gathering.is_whole(name) || delta.is_some_and(|delta| delta.started > 0)
        };
        match names.any(has_any) {
            true => Ok(()),
            false => Err(FleetError::Empty {
                run: manifest.run.clone(),
                text: "nothing that was measured is stored".to_owned(),
            }),
        }
    }
}

fn has_begun(manifest: &Manifest) -> Result<(), FleetError> {
    match manifest.start {
        Some(_) => Ok(()),
        None => Err(FleetError::Empty {
            run: manifest.run.clone(),
            text: "it never began, so that nothing was measured".to_owned(),
        }),
    }
}

/// Lets others see a run that began before, as if now: what comes of it tells when it did.
fn show(manifest: &Manifest, watcher: Watcher<'_>, now: Instant) {
    if let Some(feed) = watcher.feed {
        feed.prepare(manifest);
        feed.begin(&manifest.load, now, load::planned(&manifest.load));
    }
}

fn give_up(gathering: &mut Gathering, open: &[AgentName]) {
    for name in open {
        if let Some(part) = gathering.parts.get_mut(name) {
            part.lost = Some(match part.end {
                Some(_) => Lost::Missing,
                None => Lost::NothingMore,
            });
        }
    }
}
