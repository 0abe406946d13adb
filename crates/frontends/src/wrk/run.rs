//! From arguments to printed results.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use prony_load::quantity::StatusSet;
use prony_load::{Control, HttpFlag, LoadOptions, LoadSpec, Loaded, SpecError};
use prony_record::{Distribution, Nanos};

use super::arguments::Arguments;
use super::director::{Has, Hooks};
use super::lua::{Address, Interrupt, Scripts, Seed};
use super::report::{self, Errors, Results};
use super::statistics::Statistics;
use super::{request, spectrum};
use crate::session::{self, Refusal, Session, Tick, print};

/// How often each thread's rate is looked at.
const SAMPLED_EACH: Duration = Duration::from_millis(100);

/// Longer than the system itself tries to connect: wrk gives no connect up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(600);

/// Does what wrk does.
///
/// # Errors
///
/// What is to be said on standard error; results have been printed if there are any.
pub(super) fn run(arguments: &Arguments, session: &Session) -> Result<(), String> {
    let mut options = options(arguments);
    let own_url = own_url(arguments);
    // Before anything is connected to: whether it may be loaded at all.
    resolve(&own_url, &options, arguments)?;
    let interrupt = Interrupt::new(session.stop.clone());
    let scripts = match &arguments.script {
        Some(file) => {
            let seed = Seed {
                script: Path::new(file),
                url: &arguments.url,
                headers: &arguments.headers,
                interrupt: &interrupt,
            };
            Some(load_scripts(&seed, arguments)?)
        }
        None => None,
    };
    let own = match &scripts {
        Some(scripts) => scripts
            .threads()
            .first()
            .and_then(|thread| thread.handle.address()),
        None => Some(first_open(arguments)?),
    };
    if let Some(own) = own.filter(|_| arguments.url.host.parse::<IpAddr>().is_err()) {
        let (host, port) = (&arguments.url.host, arguments.url.port());
        options.resolve = vec![format!("{host}:{port}:{}", own.0.ip())];
    }
    let spec = resolve(&own_url, &options, arguments)?;
    match &scripts {
        None => without_script(arguments, session, spec),
        Some(scripts) => with_script(arguments, session, spec, scripts, own, &interrupt),
    }
}

fn options(arguments: &Arguments) -> LoadOptions {
    LoadOptions {
        connections: arguments.connections,
        threads: Some(arguments.threads),
        duration: Some(Duration::from_secs(arguments.duration_s)),
        rate: arguments.rate_per_s.map(|rate| rate as f64),
        http: Some(HttpFlag::Http11),
        timeout: Duration::ZERO,
        connect_timeout: CONNECT_TIMEOUT,
        expect_status: StatusSet::all(),
        insecure: true,
        sni: arguments.url.is_tls().then(|| arguments.url.host.clone()),
        ..LoadOptions::default()
    }
}

/// The load's URL: scheme, host and port are the target's, and the rest only results speak of.
fn own_url(arguments: &Arguments) -> String {
    let url = &arguments.url;
    format!("{}://{}/", url.scheme.to_ascii_lowercase(), url.authority())
}

fn resolve(url: &str, options: &LoadOptions, arguments: &Arguments) -> Result<LoadSpec, String> {
    LoadSpec::resolve(Some(url), options).map_err(|error| match error {
        SpecError::Name { error, .. } => {
            let cause = error.rsplit(": ").next().unwrap_or_default().to_owned();
            let (host, service) = (&arguments.url.host, arguments.url.service());
            format!("unable to resolve {host}:{service} {cause}")
        }
        other => other.to_string(),
    })
}

/// The first of the server's addresses that can be connected to.
fn first_open(arguments: &Arguments) -> Result<Address, String> {
    let (host, service) = (&arguments.url.host, arguments.url.service());
    let mut refused = String::new();
    for address in Address::all(host, &service)? {
        match address.connect() {
            Ok(()) => return Ok(address),
            Err(error) => refused = cause(&error),
        }
    }
    Err(format!("unable to connect to {host}:{service} {refused}"))
}

/// The system's words without its number.
fn cause(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn load_scripts(seed: &Seed<'_>, arguments: &Arguments) -> Result<Scripts, String> {
    let service = arguments.url.service();
    let loaded = Scripts::load(seed, &service, arguments.threads, &arguments.words);
    match loaded.map_err(|fault| fault.to_string())? {
        Some(scripts) => Ok(scripts),
        // Why not is not in the script's reach; the same is asked again for it.
        None => Err(first_open(arguments)
            .err()
            .unwrap_or_else(|| format!("unable to connect to {}:{service}", arguments.url.host))),
    }
}

fn without_script(
    arguments: &Arguments,
    session: &Session,
    mut spec: LoadSpec,
) -> Result<(), String> {
    let bytes = request::plain(&arguments.url, &arguments.headers);
    let request = spec.writer().raw("GET", bytes);
    spec.send_only(&request);
    let load = Load {
        arguments,
        session,
        spec: &spec,
    };
    let results = load.run(None)?;
    load.print(&results);
    Ok(())
}

fn with_script(
    arguments: &Arguments,
    session: &Session,
    mut spec: LoadSpec,
    scripts: &Scripts,
    own: Option<Address>,
    interrupt: &Interrupt,
) -> Result<(), String> {
    let said = |fault: super::lua::Fault| fault.to_string();
    let has = scripts.threads().first().map(Has::of).unwrap_or_default();
    let mut batches = Vec::new();
    // Where there is a `request`, the first thread's is called once more than requests are made.
    let asked = if has.request {
        1
    } else {
        scripts.threads().len()
    };
    for thread in &scripts.threads()[..asked] {
        let text = thread.request().map_err(said)?;
        let count = request::count(&text.as_bytes());
        let count = count.map_err(|what| said(thread.state.fault(format!("request(): {what}"))))?;
        if count > 1 {
            let text =
                format!("request() gave {count} requests at once; pipelined requests are not sent");
            return Err(said(thread.state.fault(text)));
        }
        batches.push(text.as_bytes().to_vec());
    }
    let elsewhere: Vec<Option<String>> = scripts
        .threads()
        .iter()
        .map(|thread| {
            let other = thread
                .handle
                .address()
                .filter(|address| Some(*address) != own);
            other.map(|address| format!("{}://{}/", arguments.url.scheme, address.0))
        })
        .collect();
    let is_plain = !has.any() && elsewhere.iter().all(Option::is_none);
    let hooks = Hooks::new(scripts, spec.writer(), elsewhere, has);
    let only = batches
        .first()
        .filter(|first| is_plain && batches.iter().all(|it| it == *first));
    let director = match only {
        Some(bytes) => {
            let method = request::method(bytes)?;
            let request = spec.writer().raw(method, bytes.clone());
            spec.send_only(&request);
            None
        }
        None => Some(&hooks),
    };
    scripts.flush();
    let load = Load {
        arguments,
        session,
        spec: &spec,
    };
    let results = load.run(director)?;
    scripts.flush();
    load.print(&results);
    interrupt.spare();
    let done = scripts.done(&results).map_err(said);
    hooks.failure().map_or(done, |fault| Err(said(fault)))
}

/// A load that is ready.
struct Load<'a> {
    arguments: &'a Arguments,
    session: &'a Session,
    spec: &'a LoadSpec,
}

impl Load<'_> {
    /// Runs it, with its heading before.
    fn run(&self, hooks: Option<&Hooks<'_>>) -> Result<Results, String> {
        let Arguments {
            duration_s,
            threads,
            connections,
            ref words,
            ..
        } = *self.arguments;
        let url = words.first().map_or("", String::as_str);
        print(&report::heading(duration_s, url, threads, connections));
        let mut rates = Rates::new(threads);
        let mut sample = |_: Duration, control: &Control| {
            rates.sample(control);
            if hooks.is_some_and(Hooks::has_failed) {
                control.stop();
            }
        };
        let tick = Tick {
            every: SAMPLED_EACH,
            call: &mut sample,
        };
        let director = hooks.map(|hooks| hooks as &dyn prony_load::script::Director);
        let loaded = session::run(self.session, self.spec, director, Some(tick));
        let loaded = loaded.map_err(|refusal| match refusal {
            Refusal::Wrong(text) | Refusal::Environment(text) => text,
        })?;
        Ok(self.results(&loaded, rates.samples))
    }

    fn results(&self, loaded: &Loaded, rates: Vec<u64>) -> Results {
        let Loaded { record, recorder } = loaded;
        let service = recorder.service_time();
        // wrk2's latency begins when a request is due, wrk's when it is sent.
        let (latency, uncorrected) = match self.arguments.rate_per_s {
            Some(_) => (recorder.response_time(), Some(service)),
            None => (service, None),
        };
        let outcomes = recorder.outcomes();
        let mut errors = Errors::of(outcomes);
        // A reused connection that the server had closed: wrk loses a request so, here it is sent again.
        errors.read += record.totals.retried;
        let over = |status: &u16| *status > 399;
        errors.status += recorder
            .statuses()
            .filter(|(status, _)| over(status))
            .map(|(_, count)| count)
            .sum::<u64>();
        errors.timeout += late(service, self.arguments.timeout_s);
        Results {
            latency: Statistics::of_times(latency),
            uncorrected: uncorrected.map(Statistics::of_times),
            rates: Statistics::of_samples(rates),
            duration: Duration::from_secs_f64(record.totals.elapsed_s),
            requests: record.totals.ok,
            bytes: record.totals.bytes_in,
            errors,
        }
    }

    fn print(&self, results: &Results) {
        let latency = &results.latency;
        let uncorrected = results.uncorrected.as_ref();
        let distribution = match self.arguments.prints_latency {
            true if self.arguments.rate_per_s.is_none() => report::distribution(latency),
            true if self.arguments.prints_uncorrected => spectrum::lines(latency, uncorrected),
            true => spectrum::lines(latency, None),
            false => String::new(),
        };
        print(&results.text(&distribution));
    }
}

/// Answers that took longer than `--timeout`, and requests that have waited longer for one.
fn late(service: &Distribution, timeout_s: u64) -> u64 {
    match timeout_s {
        0 => 0,
        _ => service.count_from(Nanos::from_secs(timeout_s)),
    }
}

/// Each thread's requests a second, looked at over and over.
struct Rates {
    answered: Vec<u64>,
    since: Vec<Instant>,
    samples: Vec<u64>,
}

impl Rates {
    fn new(threads: u64) -> Rates {
        Rates {
            answered: vec![0; threads as usize],
            since: vec![Instant::now(); threads as usize],
            samples: Vec::new(),
        }
    }

    /// A thread that had no answer since the last time is left for the next.
    fn sample(&mut self, control: &Control) {
        let now = Instant::now();
        let threads = self.answered.iter_mut().zip(&mut self.since);
        let counts = control.ended_by_worker().zip(control.failed_by_worker());
        for ((before, since), (ended, failed)) in threads.zip(counts) {
            let answered = ended.saturating_sub(failed);
            let elapsed_s = now.duration_since(*since).as_secs_f64();
            if answered > *before && elapsed_s > 0.0 {
                let rate = (answered - *before) as f64 / elapsed_s;
                self.samples.push(rate as u64);
                (*before, *since) = (answered, now);
            }
        }
    }
}
