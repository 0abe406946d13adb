//! A load that is ready to run: its settings resolved, its requests serialized, and its host names
//! looked up.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use prony_record::{Finding, LoadInfo, Nanos, RateProfile, RateStage};

use crate::exchange::CallRules;
use crate::limits::cpu_quota::cpu_quota_finding;
use crate::limits::{open_files, ports};
use crate::replay::Replay;
use crate::request::Request;
use crate::request::connection_journey;
use crate::request::entries::{self, Entries};
use crate::request::expect::Expectations;
use crate::request::info::{self, UrlFacts};
use crate::request::journey::Journey;
use crate::request::long_list::{LineTexts, LongList};
use crate::request::protocols::{Http, Protocols};
use crate::request::request_list::requests;
use crate::request::request_template::RequestTemplates;
use crate::request::scope::LoadScope;
use crate::request::websocket::{self, Upgrade};
use crate::request::writer::Writer;
use crate::settings::{
    AddressOrder, DataOrder, FanOut, IoChoice, LoadSettings, RequestOrder, ThinkTime,
};
use crate::socket::{Backend, Peer, system};
use crate::target::Target;
use crate::target::bypass::Bypass;
use crate::target::source::Sources;
use crate::target::{bypass, resolve};
use crate::tls;
use crate::values::error::{SettingsError, SpecError};
use crate::values::pacing::Arrivals;
use crate::values::shard::{Shard, ShardRange};
use crate::values::status_set::StatusSet;

/// Loop model: closed or open.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LoopModel {
    /// A request is due as soon as a connection is free.
    Closed,
    /// Requests are due when the log of the load says.
    Recorded,
    /// Requests follow a schedule that is independent of the server.
    Open {
        /// Arrivals per second, in total.
        rate: RateProfile,
        /// Spacing of the arrivals.
        arrivals: Arrivals,
    },
}

impl LoopModel {
    fn new(settings: &LoadSettings) -> LoopModel {
        match settings.rate_profile() {
            None if settings.has_recorded_timing() => LoopModel::Recorded,
            None => LoopModel::Closed,
            Some(rate) => LoopModel::Open {
                rate,
                arrivals: settings.arrivals(),
            },
        }
    }
}

/// Limits of a load. The load ends when it reaches the first of these limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadSpan {
    /// Maximum number of requests after the warm-up.
    pub(crate) requests: Option<u64>,
    /// Length of the measured part.
    pub(crate) duration: Option<Nanos>,
    pub(crate) warmup: Nanos,
}

/// Options of all connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransportOptions {
    pub(crate) protocols: Protocols,
    pub(crate) keepalive: bool,
    /// Number of requests after which a connection is replaced.
    pub(crate) requests_per_connection: u64,
    /// Age at which a connection is replaced.
    pub(crate) connection_lifetime: Option<Nanos>,
    /// True if a connection is replaced when its address changes.
    pub(crate) replaces_addresses: bool,
    /// True if connections are only opened and closed.
    pub(crate) tcp_only: bool,
    /// True if connections are opened before the load begins, where possible.
    pub(crate) preconnect: bool,
    /// True if closed loops may gather responses before they handle them.
    pub(crate) coalesces: bool,
    pub(crate) connect_timeout: Nanos,
    /// Size of each socket's buffers in bytes; `None` for the system's default.
    pub(crate) buffers: Option<u32>,
}

/// Use of the addresses of hosts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddressOptions {
    pub(crate) order: AddressOrder,
    /// Interval at which names are looked up again.
    pub(crate) resolve_every: Option<Duration>,
}

impl TransportOptions {
    /// Returns true if the load itself replaces connections that could carry more requests.
    #[inline]
    pub(crate) fn replaces_connections(&self) -> bool {
        self.keepalive
            && (self.requests_per_connection != u64::MAX
                || self.connection_lifetime.is_some()
                || self.replaces_addresses)
    }
}

/// Rules that determine whether a request succeeds.
#[derive(Debug, Clone)]
pub(crate) struct ResponseRules {
    pub(crate) expect: Expectations,
    /// Statuses that count as success, by request or form; empty if all have the same statuses.
    pub(crate) statuses_by_form: Vec<StatusSet>,
    /// Time after which a request fails, or before which the first event of a stream must arrive.
    pub(crate) timeout: Option<Nanos>,
    /// Time before which each further event of a stream must arrive.
    pub(crate) gap_timeout: Option<Nanos>,
    /// Maximum number of redirects that a request follows.
    pub(crate) follow: u64,
    /// True if a redirect beyond `follow` fails its request. Otherwise, the redirect is the
    /// request's response.
    pub(crate) fails_beyond_follow: bool,
}

impl ResponseRules {
    /// Creates the rules from the settings. `by_form` contains the statuses of the requests or
    /// forms that have their own, and is empty if none has.
    fn new(
        settings: &LoadSettings,
        by_form: Vec<Option<StatusSet>>,
        calls: Option<CallRules>,
    ) -> ResponseRules {
        let expect = Expectations::new(settings, calls);
        let statuses = by_form.into_iter();
        let statuses_by_form: Vec<StatusSet> = statuses
            .map(|own| own.unwrap_or_else(|| settings.expect_status()))
            .collect();
        ResponseRules {
            expect: if statuses_by_form.is_empty() {
                expect
            } else {
                expect.with_any_status()
            },
            statuses_by_form,
            timeout: Some(Nanos::from(settings.timeout())).filter(|t| t.0 > 0),
            gap_timeout: Some(Nanos::from(settings.gap_timeout())).filter(|t| t.0 > 0),
            follow: settings.follow.unwrap_or(0),
            fails_beyond_follow: false,
        }
    }
}

/// Workers, cores and socket backend of a load on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    /// The workers that run in this process: usually all of them.
    pub(crate) shards: ShardRange,
    pub(crate) cores: Vec<usize>,
    pub(crate) backend: Backend,
    /// The interface of a load that bypasses the kernel's TCP.
    pub(crate) bypass: Option<Bypass>,
    /// Error of the operating system if the backend was chosen because io_uring is not available.
    pub(crate) io_uring_error: Option<String>,
}

/// A script that the settings name.
#[derive(Debug, Clone)]
pub(crate) struct NamedScript {
    pub(crate) file: PathBuf,
    pub(crate) arguments: Vec<String>,
}

impl NamedScript {
    /// Returns the script that the settings name, if they name one. `has_templates` is true if
    /// requests contain placeholders.
    fn of(
        settings: &LoadSettings,
        has_templates: bool,
    ) -> Result<Option<NamedScript>, SettingsError> {
        if settings.script.is_some() && has_templates {
            let error = SettingsError::of("script");
            return Err(error.text(
                " can't be combined with placeholders such as {{seq}}, because the script writes \
                 the requests; generate changing values in the script",
            ));
        }
        let arguments = settings.script_args.clone();
        let file = settings.script.clone();
        Ok(file.map(|file| NamedScript { file, arguments }))
    }
}

/// A load that is ready to run; see [`crate::engine::run`].
#[derive(Clone)]
pub struct LoadSpec {
    /// The requests or, if there is a long list, the forms of its lines.
    pub(crate) requests: Vec<Request>,
    pub(crate) long_list: Option<Arc<LongList>>,
    /// Entries of the list that the requests belong to.
    pub(crate) entries: Entries,
    /// Templates of the requests that differ each time they are sent, if there are any.
    pub(crate) templates: Option<Arc<RequestTemplates>>,
    /// True if each virtual user has a cookie jar.
    pub(crate) has_cookies: bool,
    pub(crate) targets: Vec<Target>,
    pub(crate) writer: Writer,
    pub(crate) tls: Option<Arc<tls::TlsSettings>>,
    pub(crate) sources: Sources,
    /// Problems that can be predicted before the load starts.
    pub(crate) forecast: Vec<Finding>,
    pub(crate) order: RequestOrder,
    /// Cumulative weights of the requests, for the order `weighted`.
    pub(crate) cumulative_weights: Arc<[f64]>,
    pub(crate) data_order: DataOrder,
    pub(crate) seed: u64,
    pub(crate) model: LoopModel,
    /// Pauses of the virtual users.
    pub(crate) think: Option<ThinkTime>,
    pub(crate) connections: u32,
    /// Number of connections of this process that only stay open.
    pub(crate) idle: u32,
    pub(crate) span: LoadSpan,
    pub(crate) transport: TransportOptions,
    pub(crate) addresses: AddressOptions,
    pub(crate) responses: ResponseRules,
    pub(crate) placement: Placement,
    /// The script that writes the requests, if there is one.
    pub(crate) script: Option<NamedScript>,
    /// The journey whose steps the requests are, if the load is one.
    pub(crate) journey: Option<Arc<Journey>>,
    /// The log whose requests are sent, if there is one.
    pub(crate) replay: Option<Arc<Replay>>,
    /// The handshake of WebSockets, if the requests are their messages.
    pub(crate) websocket: Option<Arc<Upgrade>>,
    /// Connections on which each message must arrive, if the load is a fan-out.
    pub(crate) fan_out: Option<FanOut>,
    pub(crate) info: LoadInfo,
}

impl LoadSettings {
    /// Resolves settings into a load: reads files, serializes requests, looks up names and checks
    /// limits.
    ///
    /// `url` may be absent if `urls` contains absolute URLs.
    ///
    /// # Errors
    ///
    /// A [`SpecError`] that names the setting.
    pub fn resolve(&self, url: Option<&str>) -> Result<LoadSpec, SpecError> {
        self.resolve_within(url, &LoadScope::default())
    }

    /// Like [`LoadSettings::resolve`], for a process that may run only some of the load's workers
    /// or reach only some targets.
    ///
    /// # Errors
    ///
    /// Those of [`LoadSettings::resolve`]. Limits apply to the workers in this process.
    pub fn resolve_within(
        &self,
        url: Option<&str>,
        scope: &LoadScope,
    ) -> Result<LoadSpec, SpecError> {
        let websocket = websocket::settings_for(url, self)?;
        let settings = websocket.as_ref().unwrap_or(self);
        let journey = connection_journey::settings_for(url, settings)?;
        let settings = journey.as_ref().unwrap_or(settings);
        settings.check()?;
        settings.check_think()?;
        let mut sources = Sources::new(settings)?;
        if settings.replay.is_some() && scope.shards.is_some() {
            let error = SettingsError::of("replay");
            return Err(error.text(" can't be divided among agents").into());
        }
        let mut listed = requests(url, settings, scope, &sources)?;
        let protocols = Protocols::resolve(settings, &listed.targets)?;
        sources.check(&listed.targets, bypass::is_chosen(settings))?;
        let bypass = bypass::resolve_bypass(settings, &sources, &listed.targets)?;
        if bypass.is_some() && settings.uses_address_book() {
            let error = SettingsError::of(match settings.resolve_every {
                Some(_) => "resolve_every",
                None => "addresses",
            });
            let error = error.text(" can't be combined with ");
            return Err(error.and_value("io", IoChoice::Xdp).into());
        }
        let connections = connections(settings)?;
        let shards = match scope.shards {
            Some(shards) => checked(shards, connections)?,
            None => ShardRange::whole(threads(settings, connections, bypass.as_ref())?),
        };
        let threads = shards.workers;
        if let Some(receivers) = settings.fan_out
            && shards.of > 1
        {
            let error = SettingsError::value("fan_out", receivers);
            let error = error.text(" needs all connections in one thread of one process");
            let error = error.hint("use one agent with ").and_value("threads", 1);
            return Err(error.into());
        }
        sources.restrict_to(shards);
        let connections_here = shards.items(u64::from(connections)) as u32;
        let idle = shards.items(settings.idle.unwrap_or(0));
        let idle = u32::try_from(idle).unwrap_or(u32::MAX);
        if idle > 0 && bypass.is_some() {
            let error = SettingsError::of("idle").text(" can't be combined with ");
            return Err(error.and_value("io", IoChoice::Xdp).into());
        }
        let all_connections = connections_here.saturating_add(idle);
        let demand = (all_connections, threads + u32::from(idle > 0));
        let scarce = check_limits(demand, bypass.as_ref(), &mut sources, &listed.targets)?;
        let unused = resolve::unused_entries(settings, &listed.indices)?;
        let forecast = scarce.into_iter().chain(cpu_quota_finding()).chain(unused);
        let uses_tls = listed.targets.iter().any(|target| target.tls.is_some());
        let writer = Writer::new(settings, scope.permits.clone(), sources.clone(), &listed)?;
        let tls = uses_tls.then(|| writer.tls()).transpose()?;
        let io = settings.io.unwrap_or(IoChoice::Auto);
        let (backend, io_uring_error) =
            Backend::choose(io, threads, connections_here.div_ceil(threads))
                .map_err(SpecError::Environment)?;
        let script = NamedScript::of(settings, listed.templates.is_some())?;
        // Over HTTP/2, the header Connection is not sent.
        let is_http1 = protocols.http == Http::One || tls.is_none() && protocols.http != Http::Two;
        let all_close = is_http1 && script.is_none() && listed.requests.iter().all(|it| it.closes);
        let responses = {
            let statuses = std::mem::take(&mut listed.expected_statuses);
            ResponseRules::new(settings, statuses, listed.calls)
        };
        let mut spec = LoadSpec {
            entries: listed.entries(),
            long_list: listed.long_list.map(Arc::new),
            cumulative_weights: cumulative(listed.weights.as_deref().unwrap_or_default()),
            data_order: settings.data_order.unwrap_or(DataOrder::Sequence),
            requests: listed.requests,
            templates: listed.templates.map(Arc::new),
            has_cookies: settings.uses_cookies(),
            targets: listed.targets,
            writer,
            tls,
            sources,
            forecast: forecast.collect(),
            order: settings.order_of(listed.weights.is_some()),
            seed: settings.seed.unwrap_or(0),
            model: LoopModel::new(settings),
            // The steps of a journey have pauses of their own.
            think: settings.think.filter(|_| !settings.has_steps()),
            connections,
            idle,
            span: LoadSpan {
                requests: settings.requests,
                duration: settings.planned().map(Nanos::from),
                warmup: Nanos::from(settings.warmup()),
            },
            transport: TransportOptions {
                protocols,
                keepalive: settings.reuses_connections() && !all_close,
                tcp_only: settings.tcp_only,
                requests_per_connection: settings.requests_per_connection.unwrap_or(u64::MAX),
                replaces_addresses: settings.resolve_every.is_some(),
                connection_lifetime: settings.connection_lifetime.map(Nanos::from),
                // All receivers of a fan-out are open before the first message.
                preconnect: settings.fan_out.is_some(),
                // Events must be handled when they arrive, because their times are results.
                coalesces: !settings.no_coalescing && !responses.expect.are_streams(),
                connect_timeout: Nanos::from(settings.connect_timeout()),
                buffers: buffers(settings)?,
            },
            addresses: AddressOptions {
                order: settings.addresses.unwrap_or_default(),
                resolve_every: settings.resolve_every,
            },
            responses,
            placement: Placement {
                shards,
                cores: settings.cores.clone().map_or_else(Vec::new, |it| it.0),
                backend,
                bypass,
                io_uring_error,
            },
            script,
            journey: listed.journey.map(Arc::new),
            replay: listed.replay.map(Arc::new),
            websocket: listed.websocket,
            fan_out: settings.fan_out,
            info: LoadInfo::default(),
        };
        spec.info = spec.describe(url, settings);
        Ok(spec)
    }
}

impl LoadSpec {
    /// Returns a writer that serializes additional requests for this load. Can be called before the
    /// load starts or while it runs.
    pub fn writer(&self) -> Writer {
        self.writer.clone()
    }

    /// Makes `request` the only request of the load. It must come from this load's writer. This is
    /// a way to send raw bytes without a script.
    pub fn send_only(&mut self, request: &Request) {
        let targets = self.targets.get_mut(request.target as usize);
        if let Some(target) = targets {
            target.nodelay |= request.is_long();
        }
        self.requests = vec![request.clone()];
        self.long_list = None;
        self.entries = Entries::default();
        self.info.entries = None;
        self.templates = None;
        self.has_cookies = false;
        self.journey = None;
        self.replay = None;
        self.responses.statuses_by_form.clear();
    }

    /// Opens the load's connections before it begins, while the caller still waits for the start;
    /// see [`crate::run_at`]. This has no effect if connections are not kept alive, if the load's
    /// list names several servers, or if a script chooses the requests. Connections are then opened
    /// when the first requests are due.
    pub fn open_before_start(&mut self) {
        self.transport.preconnect = true;
    }

    /// Makes a redirect beyond the setting `follow` fail its request, as some clients do. By
    /// default that redirect is the request's response.
    pub fn fail_redirects_beyond_limit(&mut self) {
        self.responses.fails_beyond_follow = true;
    }

    /// Description of the load, as in its record.
    pub fn info(&self) -> &LoadInfo {
        &self.info
    }

    /// Extends the warm-up to this length if it is shorter.
    pub fn extend_warmup(&mut self, warmup: Nanos) {
        self.span.warmup = self.span.warmup.max(warmup);
        self.info.warmup_s = self.span.warmup.as_secs_f64();
    }

    /// Description of this process's share of the load, with the rate and connections of that
    /// share. Findings refer to this share.
    pub(crate) fn info_here(&self) -> LoadInfo {
        let share =
            f64::from(self.placement.shards.workers) / f64::from(self.placement.shards.of.max(1));
        let stages = self.info.stages.iter().map(|stage| RateStage {
            rate_per_s: stage.rate_per_s * share,
            ..*stage
        });
        LoadInfo {
            connections: self.placement.shards.items(u64::from(self.connections)) as u32,
            idle: self.idle.into(),
            rate_per_s: self.info.rate_per_s.map(|rate| rate * share),
            stages: stages.collect(),
            threads: self.placement.shards.workers,
            ..self.info.clone()
        }
    }

    /// Problems that can be predicted before the load starts; the record contains them, too.
    pub fn forecast(&self) -> &[Finding] {
        &self.forecast
    }

    /// Number of requests in the load's list.
    pub fn distinct_requests(&self) -> usize {
        let lines = self.long_list.as_ref().map(|list| list.len());
        lines.unwrap_or(self.requests.len())
    }

    /// Index of a request's form in `requests`. A request that is not in the list has no form.
    #[inline]
    pub(crate) fn form_of(&self, index: u32) -> u32 {
        match &self.long_list {
            Some(list) => list.form_of(index),
            None => index,
        }
    }

    /// The texts that replace the marks in a request's form.
    #[inline]
    pub(crate) fn texts_of(&self, index: u32) -> LineTexts<'_> {
        match &self.long_list {
            Some(list) => list.texts_of(index),
            None => LineTexts::default(),
        }
    }

    /// Index of the target of a request in the list.
    #[inline]
    pub(crate) fn target_of(&self, index: u32) -> u32 {
        self.requests[self.form_of(index) as usize].target
    }

    /// Returns a request of the list as the load sends it if it begins with this request; `None` if
    /// there is no such request.
    pub(crate) fn request(&self, index: usize) -> Option<Cow<'_, Request>> {
        let Some(list) = &self.long_list else {
            return self.requests.get(index).map(Cow::Borrowed);
        };
        if index >= list.len() {
            return None;
        }
        let line = index as u32;
        let form = list.form_of(line);
        let listed = self.requests.get(form as usize)?;
        let mut request = listed.clone();
        if let Some(templates) = &self.templates
            && let Some(template) = templates.get(form)
        {
            let (rows, seed) = (templates.rows(), self.seed);
            template.first_at(index, list.texts_of(line), rows, seed, &mut request);
        }
        request.url = url_of_line(listed, list, line);
        request.name = format!("{} {}", request.method, request.url);
        Some(Cow::Owned(request))
    }

    /// Indices of the requests with safe methods, which change nothing on the server (RFC 9110
    /// §9.2.1). The requests of a script are not included, and none if nothing
    /// is sent, or messages of a WebSocket are. Of a journey, only the first step is:
    /// the others need what earlier steps did.
    pub fn safe_requests(&self) -> Vec<usize> {
        if self.script.is_some() || self.transport.tcp_only || self.websocket.is_some() {
            return Vec::new();
        }
        let is_safe = |request: &Request| matches!(request.method(), "GET" | "HEAD" | "OPTIONS");
        let safe = Vec::from_iter(self.requests.iter().map(is_safe));
        if let Some(replay) = &self.replay {
            let first = replay.first().0;
            return Vec::from_iter(Some(first as usize).filter(|it| safe[*it]));
        }
        let count = match self.journey {
            Some(_) => 1,
            None => self.distinct_requests(),
        };
        (0..count)
            .filter(|&index| safe[self.form_of(index as u32) as usize])
            .collect()
    }

    /// Returns true if this status counts as a success in a response to the request at `index` in
    /// the list. Redirects that the load follows count as successes.
    pub fn expects_status(&self, index: usize, status: u16) -> bool {
        let is_followed = self.responses.follow > 0 && (300..400).contains(&status);
        is_followed || self.statuses_of(index).contains(status)
    }

    /// Statuses that count as success for a request of the list, in the notation of
    /// `--expect-status`: `200-399`.
    pub fn expected_statuses(&self, index: usize) -> String {
        self.statuses_of(index).to_string()
    }

    fn statuses_of(&self, index: usize) -> &StatusSet {
        let form = self.form_of(index as u32) as usize;
        let own = self.responses.statuses_by_form.get(form);
        own.unwrap_or(self.responses.expect.status())
    }

    /// Method and URL of a request.
    ///
    /// # Panics
    ///
    /// `index` is out of range.
    pub fn request_name(&self, index: usize) -> String {
        let request = &self.requests[self.form_of(index as u32) as usize];
        match &self.long_list {
            Some(list) => {
                let url = url_of_line(request, list, index as u32);
                format!("{} {url}", request.method)
            }
            None => request.name.clone(),
        }
    }

    /// Distinct addresses of the servers, with the transport protocol: true for UDP, false for TCP.
    /// UNIX sockets are left out.
    pub fn server_addresses(&self) -> BTreeSet<(SocketAddr, bool)> {
        let peers = self.targets.iter().map(|target| &target.peer);
        let address = |peer: &Peer| Some((peer.address()?, matches!(peer, Peer::Quic(_))));
        peers.filter_map(address).collect()
    }

    /// Distinct paths of the servers' UNIX sockets.
    pub fn unix_sockets(&self) -> BTreeSet<&Path> {
        let mut paths = BTreeSet::new();
        for target in &self.targets {
            if let Peer::Unix(path) = &target.peer {
                paths.insert(path.as_path());
            }
        }
        paths
    }

    /// Planned duration of the load, including the warm-up; `None` without a time limit.
    pub fn planned(&self) -> Option<Nanos> {
        self.span
            .duration
            .map(|duration| duration + self.span.warmup)
    }

    fn describe(&self, url: Option<&str>, settings: &LoadSettings) -> LoadInfo {
        let first = match &self.long_list {
            Some(list) => url_of_line(&self.requests[0], list, 0),
            None => self.requests[0].url.clone(),
        };
        let urls = UrlFacts {
            entries: self.entries.list.clone(),
            url: url.unwrap_or(&first),
            requests: match self.replay {
                Some(_) => 1,
                None => self.distinct_requests(),
            },
            order: self.order,
            uses_tls: self.tls.is_some(),
            journey: self.journey.as_deref(),
            are_calls_streamed: self.responses.expect.are_calls_streamed(),
        };
        LoadInfo {
            threads: self.placement.shards.workers,
            io: self.placement.backend.name().to_owned(),
            sources: self.sources.count(),
            keepalive: self.transport.keepalive,
            ..info::describe(settings, &urls)
        }
    }

    /// Maximum number of requests in flight.
    pub fn concurrency(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.transport.protocols.streams)
    }

    /// Shard of the worker with index `here` among the workers in this process.
    pub(crate) fn shard(&self, here: u64) -> Shard {
        self.placement.shards.shard(here)
    }

    /// Index of the worker with this shard among the workers in this process.
    pub(crate) fn number_here(&self, shard: Shard) -> usize {
        shard
            .worker
            .saturating_sub(u64::from(self.placement.shards.first)) as usize
    }

    /// Number of the load's connections that a worker keeps open.
    pub(crate) fn connections_of(&self, shard: Shard) -> u32 {
        shard.items(u64::from(self.connections)) as u32
    }

    /// Maximum number of connections that a worker may have at the same time. If the limit on open
    /// files allows it, the maximum is twice the number of connections, because a connection on
    /// which the peer accepts no more requests may still have requests in flight.
    pub(crate) fn connections_max(&self, shard: Shard) -> u32 {
        let connections = self.connections_of(shard);
        let here = self.placement.shards.items(u64::from(self.connections)) as u32;
        let both = open_files::needed(here.saturating_mul(2), self.placement.shards.workers);
        let has_files = self.placement.bypass.is_some() || both <= system::open_files_limit();
        let protocols = self.transport.protocols;
        let has_successors = protocols.streams > 1
            || self.transport.replaces_connections() && protocols.http != Http::One;
        if has_successors && has_files {
            2 * connections
        } else {
            connections
        }
    }
}

/// Returns the URL of a line in a long list.
fn url_of_line(form: &Request, list: &LongList, line: u32) -> String {
    match list.path_of(line) {
        Some(path) => entries::origin_of(&form.url).to_owned() + path,
        None => form.url.clone(),
    }
}

/// Checks that this machine has the resources that these connections and workers need: open files
/// and ports or, if the load bypasses the kernel, receive queues and ports. Returns a finding if
/// there may be too few ports.
fn check_limits(
    (connections, workers): (u32, u32),
    bypass: Option<&Bypass>,
    sources: &mut Sources,
    targets: &[Target],
) -> Result<Option<Finding>, SpecError> {
    if let Some(bypass) = bypass {
        bypass.check_workers(workers)?;
        bypass.check_ports(connections, sources, targets)?;
        return Ok(None);
    }
    open_files::check_open_files(connections, workers)?;
    ports::predict_shortage(connections, sources, targets)
}

/// Returns the running totals of the weights.
fn cumulative(weights: &[f64]) -> Arc<[f64]> {
    let sums = weights.iter().scan(0.0, |sum, weight| {
        *sum += weight;
        Some(*sum)
    });
    sums.collect()
}

/// Returns the size of socket buffers, if one is set.
///
/// # Errors
///
/// The size is out of range.
fn buffers(settings: &LoadSettings) -> Result<Option<u32>, SpecError> {
    let fits = |size: &u64| (1..=i32::MAX as u64).contains(size);
    match settings.socket_buffer {
        Some(size) if !fits(&size) => Err(SettingsError::value("socket_buffer", size)
            .text(": the size must be at least 1 byte and less than 2 GiB")
            .into()),
        size => Ok(size.map(|size| size as u32)),
    }
}

fn checked(shards: ShardRange, connections: u32) -> Result<ShardRange, SpecError> {
    if shards.is_valid() && shards.of <= connections {
        return Ok(shards);
    }
    let error = SettingsError::about("connections").text(format!(
        "workers {} to {} of {} can't share ",
        shards.first,
        u64::from(shards.first) + u64::from(shards.workers),
        shards.of,
    ));
    Err(error.and_value("connections", connections).into())
}

fn connections(settings: &LoadSettings) -> Result<u32, SpecError> {
    let asked = settings.connections();
    u32::try_from(asked).map_err(|_| {
        let error = SettingsError::value("connections", asked);
        error.text(format!(": use at most {}", u32::MAX)).into()
    })
}

/// Number of workers. By default, each worker of a load that bypasses the kernel has its own
/// receive queue.
fn threads(
    settings: &LoadSettings,
    connections: u32,
    bypass: Option<&Bypass>,
) -> Result<u32, SpecError> {
    let cores = match &settings.cores {
        Some(cores) => cores.0.len(),
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    let threads = settings.threads.or(settings.fan_out.map(|_| 1));
    let Some(threads) = threads else {
        let queues = bypass.map_or(u32::MAX, Bypass::workers_max);
        let cores = u32::try_from(cores).unwrap_or(u32::MAX);
        return Ok(connections.min(cores).min(queues));
    };
    if threads > u64::from(connections) {
        let error = SettingsError::value("threads", threads).text(" is more than ");
        let error = error.and_value("connections", connections);
        let reason = "; a thread without a connection has nothing to do";
        return Err(error.text(reason).into());
    }
    Ok(threads as u32)
}
