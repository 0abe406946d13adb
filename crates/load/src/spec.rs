//! A load that is ready to run: all flags resolved, all requests serialized and all names looked
//! up.

use std::fmt;
use std::sync::Arc;

use prony_record::{Finding, LoadInfo, Nanos};

use crate::expect::Expectations;
use crate::info::{self, Typed};
use crate::pacing::{Arrivals, Share};
use crate::part::Part;
use crate::protocols::Protocols;
use crate::quantity::HIGHEST_RATE_PER_S;
use crate::request::{Request, Target, requests};
use crate::settings::{IoChoice, LoadSettings, Notation, RequestOrder, SettingsError};
use crate::socket::{Backend, system};
use crate::source::Sources;
use crate::writer::Writer;
use crate::{ports, tls};

/// Reason that a load can't run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecError {
    /// The settings are invalid or contradict each other.
    Settings(SettingsError),
    /// A host name has no address.
    Name {
        /// The host name.
        host: String,
        /// The resolver's error.
        error: String,
    },
    /// This machine can't generate the load.
    Environment(SettingsError),
}

impl SpecError {
    /// The key of the setting that caused the error, if there is one.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            SpecError::Settings(error) | SpecError::Environment(error) => error.setting(),
            SpecError::Name { .. } => None,
        }
    }

    /// The error's text, with settings named in the given notation.
    pub fn in_notation(&self, notation: Notation) -> String {
        match self {
            SpecError::Settings(error) | SpecError::Environment(error) => {
                error.in_notation(notation)
            }
            SpecError::Name { host, error } => {
                let text = format!(
                    "{host}: no address for this name ({error}); check it, or give one with "
                );
                let error = SettingsError::from(text).name("resolve");
                error.in_notation(notation)
            }
        }
    }
}

/// Formats the error in the notation of flags.
impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_notation(Notation::Flags))
    }
}

impl std::error::Error for SpecError {}

impl From<SettingsError> for SpecError {
    fn from(error: SettingsError) -> SpecError {
        SpecError::Settings(error)
    }
}

impl From<String> for SpecError {
    fn from(text: String) -> SpecError {
        SpecError::Settings(text.into())
    }
}

/// Rule that decides when requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Model {
    /// A request is due as soon as a connection is free.
    Closed,
    /// Requests follow a schedule that is independent of the server.
    Open {
        /// Arrivals per second, in total.
        rate_per_s: f64,
        /// Spacing of the arrivals.
        arrivals: Arrivals,
    },
}

/// A load that is ready to run; see [`crate::run`].
#[derive(Clone)]
pub struct LoadSpec {
    pub(crate) requests: Vec<Request>,
    pub(crate) targets: Vec<Target>,
    pub(crate) writer: Writer,
    pub(crate) tls: Option<Arc<tls::TlsSettings>>,
    pub(crate) sources: Sources,
    /// Problems that can be predicted before the load starts.
    pub(crate) forecast: Vec<Finding>,
    pub(crate) order: RequestOrder,
    pub(crate) seed: u64,
    pub(crate) model: Model,
    pub(crate) connections: u32,
    pub(crate) protocols: Protocols,
    pub(crate) threads: u32,
    /// The workers that run on this machine: usually all of them.
    pub(crate) part: Part,
    pub(crate) cores: Vec<usize>,
    pub(crate) limit: Option<u64>,
    pub(crate) duration: Option<Nanos>,
    pub(crate) warmup: Nanos,
    pub(crate) keepalive: bool,
    /// True if connections are opened before the load begins, where possible.
    pub(crate) opens_before: bool,
    pub(crate) timeout: Option<Nanos>,
    pub(crate) connect_timeout: Nanos,
    /// Size of each socket's buffers in bytes; `None` for the system's default.
    pub(crate) buffers: Option<u32>,
    pub(crate) expect: Expectations,
    /// Maximum number of redirects that a request follows.
    pub(crate) follow: u64,
    /// True if a redirect beyond `follow` fails its request.
    pub(crate) fails_beyond_follow: bool,
    pub(crate) backend: Backend,
    /// Reason that the automatically chosen backend is not the best one, if it isn't.
    pub(crate) fallback: Option<String>,
    pub(crate) info: LoadInfo,
}

/// Open files that the process needs in addition to its connections: standard streams, libraries,
/// results.
const FILES_BESIDE: u64 = 48;
/// Open files that a worker needs in addition to its connections: those of its poller.
const FILES_A_WORKER: u64 = 4;

impl LoadSettings {
    /// Resolves settings into a load: reads files, serializes requests, looks up names and checks
    /// limits.
    ///
    /// `url` may be absent if `urls` contains absolute URLs.
    ///
    /// # Errors
    ///
    /// Returns a [`SpecError`] that names the setting.
    pub fn resolve(&self, url: Option<&str>) -> Result<LoadSpec, SpecError> {
        self.resolve_part(url, None)
    }

    /// Like [`LoadSettings::resolve`], for a load of which only a part runs on this machine.
    ///
    /// # Errors
    ///
    /// Fails like [`LoadSettings::resolve`]; limits apply to the part.
    pub fn resolve_part(
        &self,
        url: Option<&str>,
        part: Option<Part>,
    ) -> Result<LoadSpec, SpecError> {
        let settings = self;
        settings.check()?;
        let mut sources = Sources::new(settings)?;
        let asked = requests(url, settings, &sources)?;
        let protocols = Protocols::resolve(settings, &asked.targets)?;
        sources.check(&asked.targets)?;
        let connections = connections(settings)?;
        check_rate(settings)?;
        let part = match part {
            Some(part) => checked(part, connections)?,
            None => Part::whole(threads(settings, connections)?),
        };
        let threads = part.workers;
        sources.belong_to(part);
        let connections_here = part.of_whole(u64::from(connections)) as u32;
        check_open_files(connections_here, threads)?;
        let scarce = ports::foresee(connections_here, &mut sources, &asked.targets)?;
        let model = match settings.rate {
            None => Model::Closed,
            Some(rate_per_s) => Model::Open {
                rate_per_s,
                arrivals: settings.arrivals(),
            },
        };
        let duration = settings.planned();
        let uses_tls = asked.targets.iter().any(|target| target.tls.is_some());
        let writer = Writer::new(settings, sources.clone(), &asked)?;
        let tls = uses_tls.then(|| writer.tls()).transpose()?;
        let nanos = |time: std::time::Duration| Nanos::from(time);
        let slots = connections_here.div_ceil(threads);
        let (backend, fallback) =
            Backend::choose(settings.io.unwrap_or(IoChoice::Auto), threads, slots)
                .map_err(SpecError::Environment)?;
        let mut spec = LoadSpec {
            requests: asked.requests,
            targets: asked.targets,
            writer,
            tls,
            sources,
            forecast: scarce.into_iter().collect(),
            order: settings.order.unwrap_or(RequestOrder::Sequence),
            seed: settings.seed.unwrap_or(0),
            model,
            connections,
            protocols,
            threads,
            part,
            cores: settings
                .cores
                .clone()
                .map(|cores| cores.0)
                .unwrap_or_default(),
            limit: settings.requests,
            duration: duration.map(nanos),
            warmup: nanos(settings.warmup()),
            keepalive: !settings.no_keepalive,
            opens_before: false,
            timeout: Some(nanos(settings.timeout())).filter(|t| t.0 > 0),
            connect_timeout: nanos(settings.connect_timeout()),
            buffers: buffers(settings)?,
            expect: Expectations::new(settings),
            follow: settings.follow.unwrap_or(0),
            fails_beyond_follow: settings.fails_beyond_follow,
            backend,
            fallback,
            info: LoadInfo::default(),
        };
        spec.info = spec.describe(url, settings);
        Ok(spec)
    }
}

impl LoadSpec {
    /// Creates a writer of further requests for this load, before or while it runs.
    pub fn writer(&self) -> Writer {
        self.writer.clone()
    }

    /// Makes `request`, which this load's writer wrote, the only request of the load. Raw bytes
    /// then need no script.
    pub fn send_only(&mut self, request: &Request) {
        let targets = self.targets.get_mut(request.target as usize);
        if let Some(target) = targets {
            target.nodelay |= request.is_long();
        }
        self.requests = vec![request.clone()];
    }

    /// Opens the load's connections before it begins, while the caller still waits for the start;
    /// see [`crate::run_at`]. Connections are still opened when the first requests are due if none
    /// is kept alive, if the load's list names several servers, or if a script chooses the
    /// requests.
    pub fn open_before_start(&mut self) {
        self.opens_before = true;
    }

    /// Description of the load, as in its record.
    pub fn info(&self) -> &LoadInfo {
        &self.info
    }

    /// Description of the part that runs on this machine. Findings about the part use its own rate
    /// and connections.
    pub(crate) fn info_here(&self) -> LoadInfo {
        let share = f64::from(self.part.workers) / f64::from(self.part.of.max(1));
        LoadInfo {
            connections: self.part.of_whole(u64::from(self.connections)) as u32,
            rate_per_s: self.info.rate_per_s.map(|rate| rate * share),
            threads: self.part.workers,
            ..self.info.clone()
        }
    }

    /// Problems that can be predicted before the load starts; the record contains them, too.
    pub fn forecast(&self) -> &[Finding] {
        &self.forecast
    }

    /// Number of distinct requests of the load.
    pub fn distinct_requests(&self) -> usize {
        self.requests.len()
    }

    /// Indices of the requests that change nothing on the server, judged by their method.
    pub fn safe_requests(&self) -> Vec<usize> {
        let safe =
            |request: &Request| matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
        (0..self.requests.len())
            .filter(|&index| safe(&self.requests[index]))
            .collect()
    }

    /// Returns true if the load counts a response with this status as a success. Redirects that the
    /// load follows are not failures.
    pub fn expects_status(&self, status: u16) -> bool {
        let is_followed = self.follow > 0 && (300..400).contains(&status);
        is_followed || self.expect.status().contains(status)
    }

    /// Statuses that count as success, in the form in which they are typed: `200-399`.
    pub fn expected_statuses(&self) -> String {
        self.expect.status().to_string()
    }

    /// Method and URL of a request.
    ///
    /// # Panics
    ///
    /// Panics if `index` is out of range.
    pub fn request_name(&self, index: usize) -> &str {
        &self.requests[index].name
    }

    /// Planned length of the load, including the warm-up, if time ends it.
    pub fn planned(&self) -> Option<Nanos> {
        self.duration.map(|duration| duration + self.warmup)
    }

    fn describe(&self, url: Option<&str>, settings: &LoadSettings) -> LoadInfo {
        let typed = Typed {
            url: url.unwrap_or(&self.requests[0].url),
            requests: self.requests.len(),
            uses_tls: self.tls.is_some(),
        };
        LoadInfo {
            threads: self.threads,
            io: self.backend.name().to_owned(),
            sources: self.sources.count(),
            ..info::typed(settings, &typed)
        }
    }

    /// Maximum number of requests in flight.
    pub fn concurrency(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.protocols.streams)
    }

    /// Share of the load for worker number `here` of the workers on this machine.
    pub(crate) fn share(&self, here: u64) -> Share {
        self.part.share(here)
    }

    /// Number, among the workers on this machine, of the worker with this share.
    pub(crate) fn number_here(&self, share: Share) -> usize {
        share.worker.saturating_sub(u64::from(self.part.first)) as usize
    }

    /// Number of the load's connections that a worker has.
    pub(crate) fn slots(&self, share: Share) -> u32 {
        share.part(u64::from(self.connections)) as u32
    }

    /// Maximum number of connections that a worker may have at the same time. If the limit on open
    /// files allows it, there is a second one for each connection of the load, because a connection
    /// on which the peer accepts no further requests may still have requests in flight.
    pub(crate) fn slots_with_twins(&self, share: Share) -> u32 {
        let slots = self.slots(share);
        let here = self.part.of_whole(u64::from(self.connections)) as u32;
        let both = open_files(here.saturating_mul(2), self.threads);
        match self.protocols.streams > 1 && both <= system::open_files_limit() {
            true => 2 * slots,
            false => slots,
        }
    }
}

/// Size of socket buffers, if the system accepts that number.
fn buffers(settings: &LoadSettings) -> Result<Option<u32>, SpecError> {
    let fits = |size: &u64| (1..=i32::MAX as u64).contains(size);
    match settings.socket_buffer {
        Some(size) if !fits(&size) => Err(SettingsError::value("socket_buffer", size)
            .text(": from 1 byte to 2 GiB less one")
            .into()),
        size => Ok(size.map(|size| size as u32)),
    }
}

fn checked(part: Part, connections: u32) -> Result<Part, SpecError> {
    if part.is_sound() && part.of <= connections {
        return Ok(part);
    }
    let error = SettingsError::about("connections").text(format!(
        "workers {} to {} of {} can't share ",
        part.first,
        u64::from(part.first) + u64::from(part.workers),
        part.of,
    ));
    Err(error.and_value("connections", connections).into())
}

fn connections(settings: &LoadSettings) -> Result<u32, SpecError> {
    let asked = settings.connections();
    u32::try_from(asked).map_err(|_| {
        let error = SettingsError::value("connections", asked);
        error.text(format!(": at most {}", u32::MAX)).into()
    })
}

/// Checks that the rate is feasible. Every request that is due is counted, started or not.
fn check_rate(settings: &LoadSettings) -> Result<(), SpecError> {
    match settings.rate {
        Some(rate) if !(rate > 0.0 && rate <= HIGHEST_RATE_PER_S) => {
            let error = SettingsError::value("rate", rate);
            let range =
                format!(": more than 0 and at most {HIGHEST_RATE_PER_S} requests per second");
            Err(error.text(range).into())
        }
        _ => Ok(()),
    }
}

fn threads(settings: &LoadSettings, connections: u32) -> Result<u32, SpecError> {
    let cores = match &settings.cores {
        Some(cores) => cores.0.len(),
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    let Some(threads) = settings.threads else {
        return Ok(connections.min(u32::try_from(cores).unwrap_or(u32::MAX)));
    };
    if threads > u64::from(connections) {
        let error = SettingsError::value("threads", threads).text(" is more than ");
        let error = error.and_value("connections", connections);
        let reason = "; a thread without a connection has nothing to do";
        return Err(error.text(reason).into());
    }
    Ok(threads as u32)
}

/// Number of open files needed for this number of connections and threads.
fn open_files(connections: u32, threads: u32) -> u64 {
    u64::from(connections) + FILES_BESIDE + FILES_A_WORKER * u64::from(threads)
}

fn check_open_files(connections: u32, threads: u32) -> Result<(), SpecError> {
    let limit = system::open_files_limit();
    let needed = open_files(connections, threads);
    if needed <= limit {
        return Ok(());
    }
    Err(SpecError::Environment(too_few_files(
        connections,
        threads,
        limit,
    )))
}

/// Error for a load that needs more open files than the limit allows; names the largest load that
/// fits.
fn too_few_files(connections: u32, threads: u32, limit: u64) -> SettingsError {
    let needed = open_files(connections, threads);
    let room = limit.saturating_sub(open_files(0, threads));
    let threads_max = limit.saturating_sub(FILES_BESIDE) / (FILES_A_WORKER + 1);
    let needs = format!(" needs {needed} open files, and this process may have {limit} (");
    let error = SettingsError::value("connections", connections);
    let error = if room >= u64::from(threads) {
        let error = error.text(needs + "use ").and_value("connections", room);
        error.text(" or fewer, or ")
    } else {
        let error = error
            .text(" with ")
            .and_value("threads", threads)
            .text(needs);
        match threads_max {
            0 => error,
            threads => {
                let connections = limit - FILES_BESIDE - FILES_A_WORKER * threads;
                let error = error.text("use ").and_value("threads", threads);
                error
                    .text(" ")
                    .and_value("connections", connections)
                    .text(", or ")
            }
        }
    };
    error.text(format!(
        "raise the limit as root with ulimit -n {needed}, or in limits.conf)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_that_a_low_limit_of_files_allows_work() {
        for (connections, threads, limit) in
            [(50, 2, 64), (100, 100, 64), (18_000, 2, 1_024), (8, 8, 90)]
        {
            let text = too_few_files(connections, threads, limit).to_string();
            let number = |flag: &str| -> Option<u32> {
                let fits = text.split_once("(use ")?.1;
                let word = fits.split_once(flag)?.1.split([' ', ',']).next()?;
                word.parse().ok()
            };
            let threads = number("--threads ").unwrap_or(threads);
            let connections = number("--connections ").unwrap();
            assert!(connections >= threads && threads > 0, "{text}");
            assert!(open_files(connections, threads) <= limit, "{text}");
        }
        let text = too_few_files(1, 1, 20).to_string();
        assert!(
            !text.contains("use --") && text.contains("ulimit -n 53"),
            "{text}"
        );
    }
}
