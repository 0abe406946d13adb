//! A load as it will be run: every flag resolved, every request serialised, every name looked up.

use std::fmt;
use std::sync::Arc;

use prony_record::{Finding, LoadInfo, Nanos};

use crate::expect::Expectations;
use crate::info::{self, Typed};
use crate::options::{ArrivalsFlag, LoadOptions, Order};
use crate::pacing::{Arrivals, Share};
use crate::part::Part;
use crate::protocols::Protocols;
use crate::quantity::HIGHEST_RATE_PER_S;
use crate::request::{Request, Target, requests};
use crate::socket::{Backend, system};
use crate::source::Sources;
use crate::writer::Writer;
use crate::{ports, tls};

/// Why a load can't be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecError {
    /// What was typed is wrong or contradicts itself.
    Arguments(String),
    /// A host's name has no address.
    Name {
        /// The name.
        host: String,
        /// The resolver's reason.
        error: String,
    },
    /// This machine can't do it.
    Environment(String),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::Arguments(text) | SpecError::Environment(text) => f.write_str(text),
            SpecError::Name { host, error } => {
                write!(
                    f,
                    "{host}: no address for this name ({error}); check it, or give one with --resolve"
                )
            }
        }
    }
}

impl std::error::Error for SpecError {}

/// When requests are due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Model {
    /// The moment a connection is free.
    Closed,
    /// By a schedule that doesn't care about the server.
    Open {
        /// Arrivals a second, in total.
        rate_per_s: f64,
        /// How they are spaced.
        arrivals: Arrivals,
    },
}

/// A load, ready to run. [`crate::run`] takes it.
#[derive(Clone)]
pub struct LoadSpec {
    pub(crate) requests: Vec<Request>,
    pub(crate) targets: Vec<Target>,
    pub(crate) writer: Writer,
    pub(crate) tls: Option<Arc<tls::TlsSettings>>,
    pub(crate) sources: Sources,
    /// What may go wrong, as far as it can be told before the load.
    pub(crate) forecast: Vec<Finding>,
    pub(crate) order: Order,
    pub(crate) seed: u64,
    pub(crate) model: Model,
    pub(crate) connections: u32,
    pub(crate) protocols: Protocols,
    pub(crate) threads: u32,
    /// Which of its workers run here: as a rule all.
    pub(crate) part: Part,
    pub(crate) cores: Vec<usize>,
    pub(crate) limit: Option<u64>,
    pub(crate) duration: Option<Nanos>,
    pub(crate) warmup: Nanos,
    pub(crate) keepalive: bool,
    /// Its connections are opened before it begins, where that can be.
    pub(crate) opens_before: bool,
    pub(crate) timeout: Option<Nanos>,
    pub(crate) connect_timeout: Nanos,
    /// Bytes of each socket's buffers, where they are not the system's.
    pub(crate) buffers: Option<u32>,
    pub(crate) expect: Expectations,
    /// Redirects that a request follows at most...
    pub(crate) follow: u64,
    /// ...and whether one more fails it.
    pub(crate) fails_beyond_follow: bool,
    pub(crate) backend: Backend,
    /// Why the backend is not the best one, where the choice was free.
    pub(crate) fallback: Option<String>,
    pub(crate) info: LoadInfo,
}

/// Files that the process needs beside its connections: standard streams, libraries, results.
const FILES_BESIDE: u64 = 48;
/// Files that a worker needs beside its connections: its poller's.
const FILES_A_WORKER: u64 = 4;

impl LoadSpec {
    /// Resolves what was typed: reads files, serialises requests, looks names up, checks limits.
    ///
    /// `url` may be missing where `--urls` names absolute URLs.
    ///
    /// # Errors
    ///
    /// See [`SpecError`]; the text names the flag.
    pub fn resolve(url: Option<&str>, options: &LoadOptions) -> Result<LoadSpec, SpecError> {
        LoadSpec::resolve_part(url, options, None)
    }

    /// [`LoadSpec::resolve`], of which only a part runs here.
    ///
    /// # Errors
    ///
    /// As [`LoadSpec::resolve`]; limits are those of the part.
    pub fn resolve_part(
        url: Option<&str>,
        options: &LoadOptions,
        part: Option<Part>,
    ) -> Result<LoadSpec, SpecError> {
        let mut sources = Sources::new(options)?;
        let asked = requests(url, options, &sources)?;
        let protocols = Protocols::resolve(options, &asked.targets)?;
        sources.check(&asked.targets)?;
        let connections = connections(options)?;
        check_rate(options)?;
        let part = match part {
            Some(part) => checked(part, connections)?,
            None => Part::whole(threads(options, connections)?),
        };
        let threads = part.workers;
        sources.belong_to(part);
        let connections_here = part.of_whole(u64::from(connections)) as u32;
        check_open_files(connections_here, threads)?;
        let scarce = ports::foresee(connections_here, &mut sources, &asked.targets)?;
        let model = match options.rate {
            None => Model::Closed,
            Some(rate_per_s) => Model::Open {
                rate_per_s,
                arrivals: arrivals(options),
            },
        };
        let duration = options.planned();
        let uses_tls = asked.targets.iter().any(|target| target.tls.is_some());
        let writer = Writer::new(options, sources.clone(), &asked)?;
        let tls = uses_tls.then(|| writer.tls()).transpose()?;
        let nanos = |time: std::time::Duration| Nanos::from(time);
        let slots = connections_here.div_ceil(threads);
        let (backend, fallback) =
            Backend::choose(options.io, threads, slots).map_err(SpecError::Environment)?;
        let mut spec = LoadSpec {
            requests: asked.requests,
            targets: asked.targets,
            writer,
            tls,
            sources,
            forecast: scarce.into_iter().collect(),
            order: options.order,
            seed: options.seed,
            model,
            connections,
            protocols,
            threads,
            part,
            cores: options
                .cores
                .clone()
                .map(|cores| cores.0)
                .unwrap_or_default(),
            limit: options.requests,
            duration: duration.map(nanos),
            warmup: nanos(options.warmup),
            keepalive: !options.no_keepalive,
            opens_before: false,
            timeout: Some(nanos(options.timeout)).filter(|t| t.0 > 0),
            connect_timeout: nanos(options.connect_timeout),
            buffers: buffers(options)?,
            expect: Expectations::new(options),
            follow: options.follow,
            fails_beyond_follow: options.fails_beyond_follow,
            backend,
            fallback,
            info: LoadInfo::default(),
        };
        spec.info = spec.describe(url, options);
        Ok(spec)
    }

    /// Writes further requests for this load, before or while it runs.
    pub fn writer(&self) -> Writer {
        self.writer.clone()
    }

    /// Makes this, which its writer wrote, the load's only request: bytes that are sent as they are need
    /// no script.
    pub fn send_only(&mut self, request: &Request) {
        let targets = self.targets.get_mut(request.target as usize);
        if let Some(target) = targets {
            target.nodelay |= request.is_long();
        }
        self.requests = vec![request.clone()];
    }

    /// Has its connections opened before it begins, while whoever says when that is waits: see
    /// [`crate::run_at`]. They are opened when the first requests are due, as ever, where none is kept
    /// alive, where the load's list names several servers, or where a script says what is asked.
    pub fn open_before_start(&mut self) {
        self.opens_before = true;
    }

    /// What was asked for, as the record will say it.
    pub fn info(&self) -> &LoadInfo {
        &self.info
    }

    /// The same of the part that runs here: what is found of it speaks of its own rate and connections.
    pub(crate) fn info_here(&self) -> LoadInfo {
        let share = f64::from(self.part.workers) / f64::from(self.part.of.max(1));
        LoadInfo {
            connections: self.part.of_whole(u64::from(self.connections)) as u32,
            rate_per_s: self.info.rate_per_s.map(|rate| rate * share),
            threads: self.part.workers,
            ..self.info.clone()
        }
    }

    /// What may go wrong, as far as it can be told before the load; the record will have it, too.
    pub fn forecast(&self) -> &[Finding] {
        &self.forecast
    }

    /// How many distinct requests it makes.
    pub fn distinct_requests(&self) -> usize {
        self.requests.len()
    }

    /// The numbers of the requests that change nothing on the server, by their method.
    pub fn safe_requests(&self) -> Vec<usize> {
        let safe =
            |request: &Request| matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
        (0..self.requests.len())
            .filter(|&index| safe(&self.requests[index]))
            .collect()
    }

    /// Whether the load counts a response with this status as a success. Redirects that it follows
    /// are no failures.
    pub fn expects_status(&self, status: u16) -> bool {
        let is_followed = self.follow > 0 && (300..400).contains(&status);
        is_followed || self.expect.status().contains(status)
    }

    /// The statuses that count as success, as typed: `200-399`.
    pub fn expected_statuses(&self) -> String {
        self.expect.status().to_string()
    }

    /// Method and URL of a request.
    ///
    /// # Panics
    ///
    /// If there are not that many.
    pub fn request_name(&self, index: usize) -> &str {
        &self.requests[index].name
    }

    /// How long it will load, warm-up included, where time ends it.
    pub fn planned(&self) -> Option<Nanos> {
        self.duration.map(|duration| duration + self.warmup)
    }

    fn describe(&self, url: Option<&str>, options: &LoadOptions) -> LoadInfo {
        let typed = Typed {
            url: url.unwrap_or(&self.requests[0].url),
            requests: self.requests.len(),
            uses_tls: self.tls.is_some(),
        };
        LoadInfo {
            threads: self.threads,
            io: self.backend.name().to_owned(),
            sources: self.sources.count(),
            ..info::typed(options, &typed)
        }
    }

    /// Requests that may be under way at once.
    pub fn concurrency(&self) -> u64 {
        u64::from(self.connections) * u64::from(self.protocols.streams)
    }

    /// What worker number `here` of those that run here takes of the load.
    pub(crate) fn share(&self, here: u64) -> Share {
        self.part.share(here)
    }

    /// The number among those that run here of the worker with this share.
    pub(crate) fn number_here(&self, share: Share) -> usize {
        share.worker.saturating_sub(u64::from(self.part.first)) as usize
    }

    /// How many of the connections a worker has.
    pub(crate) fn slots(&self, share: Share) -> u32 {
        share.part(u64::from(self.connections)) as u32
    }

    /// How many connections a worker may have at once: beside those of the load one for each that the
    /// peer takes no further requests on while some are still under way, if there are files for so
    /// many.
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

/// `--socket-buffer`, as far as a system takes a number for it.
fn buffers(options: &LoadOptions) -> Result<Option<u32>, SpecError> {
    let fits = |size: &u64| (1..=i32::MAX as u64).contains(size);
    match options.socket_buffer {
        Some(size) if !fits(&size) => Err(SpecError::Arguments(format!(
            "--socket-buffer {size}: from 1 byte to 2 GiB less one"
        ))),
        size => Ok(size.map(|size| size as u32)),
    }
}

pub(crate) fn arrivals(options: &LoadOptions) -> Arrivals {
    match options.arrivals {
        Some(ArrivalsFlag::Poisson) => Arrivals::Poisson,
        Some(ArrivalsFlag::Constant) | None => Arrivals::Constant,
    }
}

fn checked(part: Part, connections: u32) -> Result<Part, SpecError> {
    if part.is_sound() && part.of <= connections {
        return Ok(part);
    }
    Err(SpecError::Arguments(format!(
        "workers {} to {} of {} can't share --connections {connections}",
        part.first,
        u64::from(part.first) + u64::from(part.workers),
        part.of,
    )))
}

fn connections(options: &LoadOptions) -> Result<u32, SpecError> {
    let asked = options.connections;
    let refused = |_| SpecError::Arguments(format!("--connections {asked}: at most {}", u32::MAX));
    u32::try_from(asked).map_err(refused)
}

/// Every request that is due is accounted for, begun or not: what is due must be within reach.
fn check_rate(options: &LoadOptions) -> Result<(), SpecError> {
    match options.rate {
        Some(rate) if !(rate > 0.0 && rate <= HIGHEST_RATE_PER_S) => {
            Err(SpecError::Arguments(format!(
                "--rate {rate}: more than 0 and at most {HIGHEST_RATE_PER_S} requests a second"
            )))
        }
        _ => Ok(()),
    }
}

fn threads(options: &LoadOptions, connections: u32) -> Result<u32, SpecError> {
    let cores = match &options.cores {
        Some(cores) => cores.0.len(),
        None => std::thread::available_parallelism().map_or(1, |n| n.get()),
    };
    let Some(threads) = options.threads else {
        return Ok(connections.min(u32::try_from(cores).unwrap_or(u32::MAX)));
    };
    if threads > u64::from(connections) {
        return Err(SpecError::Arguments(format!(
            "--threads {threads} is more than --connections {connections}; a thread without a \
             connection has nothing to do"
        )));
    }
    Ok(threads as u32)
}

/// Files that so many connections and threads need.
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

/// Says how a load fits a limit of open files.
fn too_few_files(connections: u32, threads: u32, limit: u64) -> String {
    let needed = open_files(connections, threads);
    let room = limit.saturating_sub(open_files(0, threads));
    let threads_max = limit.saturating_sub(FILES_BESIDE) / (FILES_A_WORKER + 1);
    let (asked, fits) = if room >= u64::from(threads) {
        let fits = format!("use --connections {room} or fewer, or ");
        (format!("--connections {connections} needs"), fits)
    } else {
        let asked = format!("--connections {connections} with --threads {threads} needs");
        let fits = match threads_max {
            0 => String::new(),
            threads => {
                let connections = limit - FILES_BESIDE - FILES_A_WORKER * threads;
                format!("use --threads {threads} --connections {connections}, or ")
            }
        };
        (asked, fits)
    };
    format!(
        "{asked} {needed} open files, and this process may have {limit} ({fits}raise the limit as root \
         with ulimit -n {needed}, or in limits.conf)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_that_a_low_limit_of_files_allows_work() {
        for (connections, threads, limit) in
            [(50, 2, 64), (100, 100, 64), (18_000, 2, 1_024), (8, 8, 90)]
        {
            let text = too_few_files(connections, threads, limit);
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
        let text = too_few_files(1, 1, 20);
        assert!(
            !text.contains("use --") && text.contains("ulimit -n 53"),
            "{text}"
        );
    }
}
