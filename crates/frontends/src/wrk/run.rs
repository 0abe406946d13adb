//! Runs `prony wrk`, from its arguments to its printed results.

use std::path::Path;
use std::time::Duration;

use prony_load::StatusSet;
use prony_load::{ArrivalRate, HttpVersion, LoadSettings, LoadSpec, SpecError};
use prony_lua::request::{count, method};
use prony_lua::{
    Address, DefinedHooks, HookSettings, LuaHooks, LuaScripts, RequestForm, ScriptFault,
    ScriptInterrupt, ScriptLimits, ScriptSeed, ScriptSource, ServerAddresses,
};

use super::arguments::WrkArguments;
use super::failure::WrkFailure;
use super::load::WrkLoad;
use super::notation::NOTATION;
use super::request;
use super::url::WrkUrl;
use crate::output::system_message;
use crate::session::{self, ToolSession};
use crate::tool::openssl_groups;

/// Connect timeout. It is longer than the system's own limit, because wrk sets none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs wrk.
///
/// # Errors
///
/// If there are results, they have already been printed.
pub(super) fn run_wrk(arguments: &WrkArguments, session: &ToolSession) -> Result<(), WrkFailure> {
    let mut options = engine_settings(arguments);
    let own_url = own_url(arguments);
    // This checks that a load on the target is permitted, before any connection is made.
    resolve(&own_url, &options, arguments)?;
    let stop = session.stop.clone();
    let interrupt = ScriptInterrupt::new(move || stop.is_asked());
    let scripts = match &arguments.script {
        Some(file) => {
            let source = ScriptSource::read(Path::new(file))?;
            let seed = ScriptSeed {
                source: &source,
                url: &arguments.url.0,
                headers: &arguments.headers,
                interrupt: &interrupt,
                method: "GET",
                body: &[],
                notation: NOTATION,
                limits: ScriptLimits::default(),
                prints_to_stderr: false,
            };
            Some(load_scripts(&seed, arguments)?)
        }
        None => None,
    };
    let own = match &scripts {
        Some(scripts) => target(&arguments.url, scripts),
        None => Some(first_open(arguments)?),
    };
    if let Some(own) = own.filter(|_| arguments.url.address().is_none()) {
        let (host, port) = (&arguments.url.0.host, arguments.url.port());
        options.resolve = vec![format!("{host}:{port}:{}", own.0.ip())];
    }
    let spec = resolve(&own_url, &options, arguments)?;
    match &scripts {
        None => without_script(arguments, session, spec),
        Some(scripts) => with_script(arguments, session, spec, scripts, own, &interrupt),
    }
}

fn engine_settings(arguments: &WrkArguments) -> LoadSettings {
    LoadSettings {
        connections: Some(arguments.connections),
        threads: Some(arguments.threads),
        duration: Some(Duration::from_secs(arguments.duration_s)),
        rate: arguments
            .rate_per_s
            .map(|rate| ArrivalRate::Constant(rate as f64)),
        path_as_is: true,
        http: Some(HttpVersion::Http11),
        timeout: Some(Duration::ZERO),
        connect_timeout: Some(CONNECT_TIMEOUT),
        expect_status: Some(StatusSet::all()),
        insecure: true,
        groups: openssl_groups(),
        sni: arguments.url.is_tls().then(|| arguments.url.0.host.clone()),
        ..LoadSettings::from_environment()
    }
}

/// Returns the URL of the load. Its scheme, host and port determine the target; the rest appears
/// only in results.
fn own_url(arguments: &WrkArguments) -> String {
    let url = &arguments.url;
    format!(
        "{}://{}/",
        url.0.scheme.to_ascii_lowercase(),
        url.authority()
    )
}

fn resolve(
    url: &str,
    options: &LoadSettings,
    arguments: &WrkArguments,
) -> Result<LoadSpec, SpecError> {
    session::resolve_literal(url, options).map_err(|error| match error {
        SpecError::Name { error, .. } => {
            let cause = error.rsplit(": ").next().unwrap_or_default().to_owned();
            let (host, service) = (&arguments.url.0.host, arguments.url.service());
            format!("unable to resolve {host}:{service} {cause}").into()
        }
        other => other,
    })
}

/// Returns the default address of the load: the address in the URL or, if the URL contains a name,
/// the address of the first thread's script. Returns `None` if the port differs from the URL's
/// port.
fn target(url: &WrkUrl, scripts: &LuaScripts) -> Option<Address> {
    let first = || scripts.threads().first()?.address();
    url.address()
        .or_else(first)
        .filter(|address| address.0.port() == url.port())
}

/// Returns the first of the server's addresses that accepts a connection.
fn first_open(arguments: &WrkArguments) -> Result<Address, SpecError> {
    let (host, service) = (&arguments.url.0.host, arguments.url.service());
    let mut refused = String::new();
    for address in Address::all(host, &service)? {
        match address.connect() {
            Ok(()) => return Ok(address),
            Err(error) => {
                refused = error
                    .raw_os_error()
                    .map_or_else(|| error.to_string(), system_message);
            }
        }
    }
    Err(format!("unable to connect to {host}:{service} {refused}").into())
}

fn load_scripts(seed: &ScriptSeed<'_>, arguments: &WrkArguments) -> Result<LuaScripts, WrkFailure> {
    let service = arguments.url.service();
    let addresses = ServerAddresses::LookedUp { service: &service };
    let loaded = LuaScripts::load(seed, addresses, arguments.threads, &arguments.words);
    match loaded? {
        Some(scripts) => Ok(scripts),
        // The script API doesn't provide the reason for a failed connect, so another attempt is
        // made to obtain it.
        None => {
            let host = &arguments.url.0.host;
            let unknown = || format!("unable to connect to {host}:{service}").into();
            let error = first_open(arguments).err();
            Err(error.unwrap_or_else(unknown).into())
        }
    }
}

fn without_script(
    arguments: &WrkArguments,
    session: &ToolSession,
    mut spec: LoadSpec,
) -> Result<(), WrkFailure> {
    let bytes = request::plain(&arguments.url, &arguments.headers);
    let request = spec.writer().raw("GET", bytes);
    spec.send_only(&request);
    let load = WrkLoad {
        arguments,
        session,
        spec: &spec,
    };
    let results = load.run(None)?;
    load.print(&results);
    Ok(())
}

fn with_script(
    arguments: &WrkArguments,
    session: &ToolSession,
    mut spec: LoadSpec,
    scripts: &LuaScripts,
    own: Option<Address>,
    interrupt: &ScriptInterrupt,
) -> Result<(), WrkFailure> {
    let has = scripts
        .threads()
        .first()
        .map(DefinedHooks::of)
        .unwrap_or_default();
    let (batch, given) = script_requests(scripts, has)?;
    let elsewhere: Vec<Option<String>> = scripts
        .threads()
        .iter()
        .map(|thread| {
            let other = thread.address().filter(|address| Some(*address) != own);
            other.map(|address| format!("{}://{}/", arguments.url.0.scheme, address.0))
        })
        .collect();
    let is_plain = batch == 1 && !has.any() && elsewhere.iter().all(Option::is_none);
    let hooks = LuaHooks::new(
        scripts,
        spec.writer(),
        HookSettings {
            elsewhere,
            has,
            batch,
            form: RequestForm::Bytes,
            body_bytes_max: usize::MAX,
        },
    );
    let only = given
        .first()
        .filter(|first| is_plain && given.iter().all(|it| it == *first));
    let director = match only {
        Some(bytes) => {
            let method = method(bytes).map_err(SpecError::from)?;
            let request = spec.writer().raw(method, bytes.clone());
            spec.send_only(&request);
            None
        }
        None => Some(&hooks),
    };
    scripts.flush();
    let load = WrkLoad {
        arguments,
        session,
        spec: &spec,
    };
    let results = load.run(director)?;
    scripts.flush();
    load.print(&results);
    interrupt.spare();
    let done = scripts.done(&results.figures);
    Ok(hooks.failure().map_or(done, Err)?)
}

/// Returns the number of requests per batch, and the initial requests of the threads. If the script
/// has a `request` hook, returns only the first thread's request, because wrk calls the hook once
/// more than it sends requests.
fn script_requests(
    scripts: &LuaScripts,
    has: DefinedHooks,
) -> Result<(u32, Vec<Vec<u8>>), ScriptFault> {
    let asked = if has.request {
        1
    } else {
        scripts.threads().len()
    };
    let mut batch = None;
    let mut all = Vec::new();
    for thread in &scripts.threads()[..asked] {
        let bytes = thread.request()?;
        let wrong = |what: String| thread.request_fault(&what);
        let number = count(&bytes).map_err(wrong)?;
        let first = *batch.get_or_insert(number);
        if first != number {
            let what =
                format!("it returned {number} requests at once, but {first} in an earlier call");
            return Err(wrong(what));
        }
        all.push(bytes);
    }
    Ok((batch.unwrap_or(1), all))
}
