//! A load over agents: prepare, one start, results.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use prony_load::{LoadOptions, typed_info};
use prony_record::{LoadInfo, redact};

use super::afterwards::{Afterwards, Why};
use super::error::FleetError;
use super::files::{self, Files};
use super::gathering::{Following, Gathering};
use super::leadership::{Leadership, Leading};
use super::lease::{Keeping, Lease, Patience, Seen, Sign};
use super::words::Words;
use super::{Choice, Finished, Fleet, Stop, Told, Wanted, Watcher, merging, orders, sources};
use crate::agent::files::pieces;
use crate::claims;
use crate::division::{Stretch, divide};
use crate::messages::{
    Load, Manifest, Part, RUN_SCHEMA, Ready, Registration, Reply, VERSION, What,
};
use crate::names::{AgentName, RunId};

/// How long agents may take to say that they are free, and how often they are asked.
const FREE: Duration = Duration::from_secs(2);
const LOOK_UP: Duration = Duration::from_millis(50);
/// How often agents that are waited for are listed.
const WAIT_INTERVAL: Duration = Duration::from_millis(250);
/// How long an agent may take to get ready.
const PREPARE: Duration = Duration::from_secs(60);
/// How long it may take to take a piece of a file.
const PIECE: Duration = Duration::from_secs(20);
/// How long it may take to hear that nothing comes of it.
const STOP: Duration = Duration::from_secs(3);
/// Between the order to start and the start: some, and some for each agent.
const LEAD: Duration = Duration::from_millis(500);
const LEAD_PER_AGENT: Duration = Duration::from_millis(2);
/// Who hears the order late begins late, which the record tells; so late it is called off.
const TOO_LATE: Duration = Duration::from_secs(3);

/// A load, divided.
struct Divided {
    info: LoadInfo,
    seed: u64,
    parts: BTreeMap<AgentName, (Part, Load)>,
    files: Files,
    notes: Vec<String>,
}

impl Fleet {
    /// Lets agents make a load, and gives its record.
    ///
    /// # Errors
    ///
    /// Why nothing was measured; see [`FleetError`].
    pub fn load(&self, wanted: &Wanted, watcher: Watcher<'_>) -> Result<Finished, FleetError> {
        self.load_from(wanted, watcher, &|_| {})
    }

    /// The same; `measured_from` hears the moment at which the measured part begins, before it does.
    ///
    /// # Errors
    ///
    /// Those of [`Fleet::load`].
    pub fn load_from(
        &self,
        wanted: &Wanted,
        watcher: Watcher<'_>,
        measured_from: &dyn Fn(Instant),
    ) -> Result<Finished, FleetError> {
        let until = Instant::now() + self.wait;
        loop {
            let agents = self.free(&wanted.choice, until, watcher)?;
            match self.load_by(&agents, wanted, watcher, measured_from) {
                // Somebody else was faster.
                Err(FleetError::Busy { .. }) if Instant::now() < until => thread::sleep(LOOK_UP),
                made => return made,
            }
        }
    }

    fn load_by(
        &self,
        agents: &[Registration],
        wanted: &Wanted,
        watcher: Watcher<'_>,
        measured_from: &dyn Fn(Instant),
    ) -> Result<Finished, FleetError> {
        let agents: Vec<&Registration> = agents.iter().collect();
        let divided = divided(wanted, &agents, self.patience)?;
        for note in &divided.notes {
            (watcher.told)(Told::Step(note));
        }
        let mut manifest = self.manifest(wanted, &divided);
        self.store(&manifest)?;
        announce(&manifest, watcher);
        let lease = Lease::new(&manifest.run, self.patience, manifest.parts.keys());
        let leadership = Leadership::of_starter(&manifest.run);
        thread::scope(|scope| {
            let _keeping = Keeping(&lease);
            let _leading = Leading(&leadership);
            scope.spawn(|| lease.keep(&self.link));
            scope.spawn(|| leadership.keep(&self.link));
            let replay = self.link.replay(&manifest.run.all_results())?;
            let prepared = self
                .prepare(&mut manifest, &divided, &lease, watcher)
                .and_then(|()| self.start(&mut manifest, watcher));
            let began = match prepared {
                Ok(began) => began,
                Err(error) => {
                    // It must not be renewed behind the order to stop.
                    lease.end();
                    self.call_off(&manifest, watcher.stop);
                    return Err(error);
                }
            };
            lease.confirm();
            measured_from(began + Duration::from_secs_f64(manifest.load.warmup_s));
            let planned = planned(&manifest.load);
            if let Some(feed) = watcher.feed {
                feed.begin(&manifest.load, began, planned);
            }
            let mut gathering = Gathering::new(&manifest).seen_by(watcher.feed);
            let following = Following {
                link: &self.link,
                manifest: &manifest,
                lease: &lease,
                patience: self.patience,
                told: watcher.told,
                stop: watcher.stop,
                until: planned.map(|planned| began + planned),
                began,
                is_only_watched: &|| false,
            };
            gathering.follow(&following, replay);
            lease.end();
            Ok(self.finish(&manifest, &gathering, watcher.stop))
        })
    }

    /// What is stored of a run before it is ordered.
    fn manifest(&self, wanted: &Wanted, divided: &Divided) -> Manifest {
        let now = SystemTime::now();
        Manifest {
            schema: RUN_SCHEMA.to_owned(),
            version: VERSION.to_owned(),
            run: RunId::new(now),
            made_at: humantime::format_rfc3339_seconds(now).to_string(),
            // It stays on the server for a week: agents get credentials with their orders, which are
            // not stored.
            url: wanted.url.as_ref().map(|_| divided.info.url.clone()),
            words: wanted.words.iter().map(|word| redact::hide(word)).collect(),
            load: divided.info.clone(),
            seed: divided.seed,
            clock_bound_ns: u64::try_from(wanted.clock_bound.as_nanos()).unwrap_or(u64::MAX),
            parts: divided
                .parts
                .iter()
                .map(|(name, (part, _))| (name.clone(), part.clone()))
                .collect(),
            start: None,
            clock: Some(self.clock.identity()),
            stopped: false,
            lease_ms: Some(self.patience.lease_ms()),
        }
    }

    /// The agents of a choice, each of them free, by name. They are waited for as long as
    /// [`Fleet::with_wait`] says.
    ///
    /// # Errors
    ///
    /// Those that keep the agents; see [`FleetError`].
    pub fn pick(
        &self,
        choice: &Choice,
        watcher: Watcher<'_>,
    ) -> Result<Vec<AgentName>, FleetError> {
        let agents = self.free(choice, Instant::now() + self.wait, watcher)?;
        Ok(agents.into_iter().map(|agent| agent.name).collect())
    }

    /// The agents that are to make a load, waited for until then. Those that an earlier load was called
    /// off of, or has just ended at, say a moment later that they are free.
    fn free(
        &self,
        choice: &Choice,
        until: Instant,
        watcher: Watcher<'_>,
    ) -> Result<Vec<Registration>, FleetError> {
        let began = Instant::now();
        let mut said = String::new();
        loop {
            let mut listed = self.agents()?;
            for one in &mut listed {
                one.forget_run(self.beside.as_ref());
            }
            let error = match choice.free(&listed) {
                Ok(agents) => return Ok(agents.into_iter().cloned().collect()),
                Err(error) => error,
            };
            let is_any_busy = listed.iter().any(|one| one.agent.busy_with.is_some());
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() && (!is_any_busy || began.elapsed() > FREE) {
                return Err(error.into());
            }
            if watcher.stop.is_wanted() {
                return Err(FleetError::CalledOff);
            }
            let text = error.to_string();
            if !left.is_zero() && text != said {
                let left = left.as_secs_f64();
                let step = format!("waiting for up to {left:.0} s: {text}");
                (watcher.told)(Told::Step(&step));
                said = text;
            }
            thread::sleep(if left.is_zero() {
                LOOK_UP
            } else {
                WAIT_INTERVAL
            });
        }
    }

    /// Sends the files, and has every agent get ready.
    fn prepare(
        &self,
        manifest: &mut Manifest,
        divided: &Divided,
        lease: &Lease,
        watcher: Watcher<'_>,
    ) -> Result<(), FleetError> {
        let is_called_off = || watcher.stop.is_wanted();
        let agents: Vec<AgentName> = manifest.parts.keys().cloned().collect();
        for (name, bytes) in &divided.files {
            for piece in pieces(name, bytes) {
                let orders = agents.iter().map(|agent| (agent, What::Put(piece.clone())));
                let orders = orders.collect();
                let of = (&manifest.run, self.beside.as_ref());
                let replies = orders::give_for(&self.link, of, orders, PIECE, &|_| is_called_off());
                all_done(&agents, replies)?;
                if is_called_off() {
                    return Err(FleetError::CalledOff);
                }
            }
        }
        let orders = divided.parts.iter();
        let orders = orders.map(|(name, (_, load))| (name, What::Prepare(load.clone())));
        // Who was killed says nothing, and a lease that can't be renewed tells.
        let is_given_up = |number: usize| {
            let seen = agents.get(number).and_then(|name| lease.seen(name));
            let is_gone = |seen: Seen| {
                let within = match seen.sign {
                    Sign::Gone => self.patience.vanishing(),
                    // One that gets ready may be too busy to answer; not for so long.
                    Sign::Silent => self.patience.overtime(),
                    Sign::There | Sign::Stranger => return false,
                };
                seen.since.elapsed() > within
            };
            seen.is_some_and(is_gone) || is_called_off()
        };
        let replies = orders::give_for(
            &self.link,
            (&manifest.run, self.beside.as_ref()),
            orders.collect(),
            PREPARE,
            &is_given_up,
        );
        if is_called_off() {
            return Err(FleetError::CalledOff);
        }
        let mut ready = Vec::new();
        let mut failed = None;
        for (agent, reply) in agents.iter().zip(replies) {
            match reply {
                Ok(Reply::Ready(it)) => {
                    let forecast = claims::findings(it.forecast);
                    ready.push((agent, Ready { forecast, ..it }));
                }
                // A refusal says more than a silence that came before it.
                Ok(other) => {
                    failed = Some(FleetError::of_reply(agent, other));
                    break;
                }
                Err(error) => {
                    failed.get_or_insert(FleetError::of_silence(agent, error));
                }
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        tell_forecasts(&ready, watcher);
        manifest.load = combined(manifest, &ready);
        Ok(())
    }

    /// Compares clocks, and gives the order to start; gives the moment of the start.
    fn start(&self, manifest: &mut Manifest, watcher: Watcher<'_>) -> Result<Instant, FleetError> {
        let agents: Vec<AgentName> = manifest.parts.keys().cloned().collect();
        let named: Vec<&AgentName> = agents.iter().collect();
        let offsets = orders::clocks(&self.link, &self.clock, &named);
        for (agent, offset) in agents.iter().zip(offsets) {
            let offset = offset?;
            if offset.bound_ns > manifest.clock_bound_ns {
                return Err(FleetError::ClockBound {
                    agent: agent.clone(),
                    bound_ns: offset.bound_ns,
                    allowed_ns: manifest.clock_bound_ns,
                });
            }
            if let Some(part) = manifest.parts.get_mut(agent) {
                part.clock = Some(offset);
            }
        }
        if watcher.stop.is_wanted() {
            return Err(FleetError::CalledOff);
        }
        let lead = LEAD + LEAD_PER_AGENT * agents.len() as u32;
        let lead_ns = i64::try_from(lead.as_nanos()).unwrap_or(i64::MAX);
        // Whoever comes later finds the moment with the run; storing that must not eat the time.
        let mut start;
        loop {
            start = self.clock.now().saturating_add(lead_ns);
            manifest.start = Some(start);
            self.store(manifest)?;
            if start.saturating_sub(self.clock.now()) > lead_ns / 2 {
                break;
            }
        }
        let orders = manifest.parts.iter().map(|(agent, part)| {
            let at = part.clock.map_or(start, |clock| clock.there(start));
            (agent, What::Start { at })
        });
        let replies = orders::give(
            &self.link,
            &manifest.run,
            orders.collect(),
            lead + TOO_LATE,
            &|_| watcher.stop.is_wanted_at_once(),
        );
        all_done(&agents, replies)?;
        (watcher.told)(Told::Step(&format!(
            "started; clocks are known to within {:.3} ms",
            worst_bound(manifest) as f64 / 1e6
        )));
        Ok(self.clock.moment(start))
    }

    /// Tells all that nothing comes of the run. Who doesn't hear it ends with its lease.
    fn call_off(&self, manifest: &Manifest, stop: &Stop) {
        for what in [What::Stop, What::Forget] {
            let orders = manifest.parts.keys().map(|name| (name, what.clone()));
            let _ = orders::give(&self.link, &manifest.run, orders.collect(), STOP, &|_| {
                stop.is_wanted_at_once()
            });
        }
    }

    /// Makes the record, and lets agents forget what has come whole. Where it is to end at once nobody is
    /// waited for.
    pub(super) fn finish(
        &self,
        manifest: &Manifest,
        gathering: &Gathering,
        stop: &Stop,
    ) -> Finished {
        let names = gathering.parts.keys();
        let whole: Vec<&AgentName> = names.filter(|name| gathering.agrees(name)).collect();
        let is_hurried = stop.is_wanted_at_once();
        // Another coordinator may have stopped it since the manifest was read.
        let is_stopped = gathering.is_stopped
            || (!is_hurried && self.run(Some(&manifest.run)).is_ok_and(|it| it.stopped));
        let manifest = &Manifest {
            stopped: is_stopped,
            ..manifest.clone()
        };
        let after = match is_hurried {
            true => Afterwards::stored(manifest, gathering, Why::Hurried),
            false => self.clocks_after(manifest, gathering),
        };
        self.keep_clocks(manifest, &after);
        // Who doesn't hear it keeps its file for a while longer; nothing else comes of it.
        let orders = whole.into_iter().map(|name| (name, What::Forget)).collect();
        let _ = orders::give(&self.link, &manifest.run, orders, STOP, &|_| {
            stop.is_wanted_at_once()
        });
        Finished {
            run: manifest.run.clone(),
            record: merging::record(manifest, gathering, &after),
        }
    }
}

/// Tells those who watch which agents make the run.
fn announce(manifest: &Manifest, watcher: Watcher<'_>) {
    if let Some(feed) = watcher.feed {
        feed.prepare(manifest);
    }
    (watcher.told)(Told::Step(&format!(
        "run {}: {}",
        manifest.run,
        names(manifest.parts.keys())
    )));
}

/// Reads what was typed, and divides it.
fn divided(
    wanted: &Wanted,
    agents: &[&Registration],
    patience: Patience,
) -> Result<Divided, FleetError> {
    let options = LoadOptions::parse_words(&wanted.words).map_err(FleetError::Wrong)?;
    let mut words = Words::new(&wanted.words);
    let files = files::gather(&options, &mut words).map_err(FleetError::Wrong)?;
    let given = sources::divide(&options.source, agents).map_err(FleetError::Wrong)?;
    let threads = agents.iter().map(|agent| match options.threads {
        Some(threads) => u32::try_from(threads).unwrap_or(u32::MAX),
        None => agent.cores,
    });
    let connections = u32::try_from(options.connections).unwrap_or(u32::MAX);
    let stretches = divide(&threads.collect::<Vec<_>>(), connections)?;
    words.remove("threads");
    words.remove("source");
    let mut parts = BTreeMap::new();
    let mut twice = None;
    for ((agent, stretch), sources) in agents.iter().zip(stretches).zip(given.each) {
        let mut words = words.clone();
        sources
            .iter()
            .for_each(|source| words.add("source", source));
        let part = part(wanted, agent, stretch, words, patience);
        if parts.insert(agent.name.clone(), part).is_some() {
            twice = Some(&agent.name);
        }
    }
    // One order would be lost, and with it a part of the load.
    if let Some(name) = twice {
        return Err(FleetError::Wrong(format!("agent {name} is chosen twice")));
    }
    let typed = typed_info(wanted.url.as_deref(), &options);
    let typed = typed.map_err(|error| FleetError::Wrong(error.to_string()))?;
    Ok(Divided {
        info: LoadInfo {
            threads: parts.values().map(|(part, _)| part.stretch.workers).sum(),
            sources: given.count,
            ..typed
        },
        seed: options.seed,
        parts,
        files,
        notes: given.notes,
    })
}

fn part(
    wanted: &Wanted,
    agent: &Registration,
    stretch: Stretch,
    words: Words,
    patience: Patience,
) -> (Part, Load) {
    let part = Part {
        instance: agent.instance.clone(),
        system: agent.system.clone(),
        stretch,
        clock: None,
        clock_after: None,
    };
    let load = Load {
        url: wanted.url.clone(),
        words: words.into_words(),
        stretch,
        lease_ms: patience.lease_ms(),
    };
    (part, load)
}

/// The load as the coordinator ordered it, with the socket backend that the agents chose: the rest of
/// what they say of it is not their business.
fn combined(manifest: &Manifest, ready: &[(&AgentName, Ready)]) -> LoadInfo {
    let mut backends = ready.iter().map(|(_, ready)| ready.load.io.as_str());
    let io = backends.find(|io| ["poll", "uring"].contains(io));
    LoadInfo {
        io: io.unwrap_or_default().to_owned(),
        ..manifest.load.clone()
    }
}

fn tell_forecasts(ready: &[(&AgentName, Ready)], watcher: Watcher<'_>) {
    let told = ready
        .iter()
        .map(|(name, ready)| (name.as_str(), ready.forecast.as_slice()));
    for finding in super::sums::findings(told, ready.len()) {
        (watcher.told)(Told::Warning(&finding.text));
    }
}

/// Whether all did as they were told.
fn all_done(
    agents: &[AgentName],
    replies: Vec<Result<Reply, crate::link::LinkError>>,
) -> Result<(), FleetError> {
    for (agent, reply) in agents.iter().zip(replies) {
        match reply {
            Ok(Reply::Done) => {}
            Ok(other) => return Err(FleetError::of_reply(agent, other)),
            Err(error) => return Err(FleetError::of_silence(agent, error)),
        }
    }
    Ok(())
}

fn worst_bound(manifest: &Manifest) -> u64 {
    let clocks = manifest.parts.values().filter_map(|part| part.clock);
    clocks.map(|clock| clock.bound_ns).max().unwrap_or(0)
}

/// How long a load takes where time ends it, warm-up included.
pub(super) fn planned(load: &LoadInfo) -> Option<Duration> {
    Duration::try_from_secs_f64(load.duration_s? + load.warmup_s).ok()
}

/// Agents in words.
fn names<'a>(agents: impl Iterator<Item = &'a AgentName>) -> String {
    let names: Vec<&str> = agents.map(AgentName::as_str).collect();
    match names.len() {
        0..=8 => names.join(", "),
        many => format!("{many} agents"),
    }
}
