//! Loads whose requests a script writes.
//!
//! The engine contains no scripting language. The setting `script` names a file, and a program that
//! supports scripts passes a [`ScriptLoader`].

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use prony_protocol::h1::USER_AGENT;
use prony_record::Record;

use crate::engine::progress::Control;
use crate::engine::run::{RunError, run};
use crate::request::protocols::Http;
use crate::settings::HttpVersion;
use crate::socket::Peer;
use crate::spec::LoadSpec;

/// The script of a load, and the request that the settings describe.
#[derive(Debug, Clone)]
pub struct ScriptSetup<'a> {
    /// The script's file.
    pub file: &'a Path,
    /// The script's arguments.
    pub arguments: &'a [String],
    /// The whole URL of the load.
    pub url: &'a str,
    /// True if the URL's scheme is https.
    pub tls: bool,
    /// The URL's host, without the brackets of an IPv6 address.
    pub host: &'a str,
    /// The URL's port, unless it is the scheme's default.
    pub port: Option<u16>,
    /// The URL's path and query.
    pub path: &'a str,
    /// Method of the requests.
    pub method: &'a str,
    /// Header fields of the requests, without Host and Content-Length.
    pub headers: Vec<(String, String)>,
    /// Body of the requests.
    pub body: &'a [u8],
    /// Address of the server; `None` if connections go to a UNIX socket or a proxy.
    pub address: Option<SocketAddr>,
    /// True if the server's certificate must match the URL's host name. Certificates for other
    /// addresses would not match.
    pub checks_name: bool,
    /// Number of worker threads.
    pub threads: u32,
    /// True if requests can be sent as raw HTTP/1.1 bytes. With HTTP/2, HTTP/3, a proxy, redirects,
    /// or one request per connection, the load's [`Writer`](crate::Writer) must write them.
    pub sends_bytes: bool,
}

impl LoadSpec {
    /// The script of the load, if the setting `script` names one.
    pub fn script(&self) -> Option<ScriptSetup<'_>> {
        let script = self.script.as_ref()?;
        let request = self.requests.first()?;
        let parts = request.origin.as_ref()?;
        let url = &parts.url;
        let settings = self.writer.settings();
        let default_port = if url.tls { 443 } else { 80 };
        let is_plain = !settings.no_keepalive && settings.proxy.is_none();
        let is_http11 = match self.transport.protocols.http {
            Http::One => settings.http != Some(HttpVersion::Http10),
            Http::Agreed => !url.tls,
            Http::Two | Http::Three => false,
        };
        let mut headers = parts.headers.clone();
        for (name, value) in [("User-Agent", USER_AGENT), ("Accept", "*/*")] {
            if !headers
                .iter()
                .any(|(own, _)| own.eq_ignore_ascii_case(name))
            {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        Some(ScriptSetup {
            file: &script.file,
            arguments: &script.arguments,
            url: &request.url,
            tls: url.tls,
            host: &url.host,
            port: Some(url.port).filter(|port| *port != default_port),
            path: &url.path,
            method: &request.method,
            headers,
            body: &parts.body,
            address: match self.targets.first().map(|target| &target.peer) {
                Some(Peer::Tcp(address)) if settings.proxy.is_none() => Some(*address),
                _ => None,
            },
            checks_name: url.tls && !settings.insecure && settings.sni.is_none(),
            threads: self.placement.shards.workers,
            sends_bytes: is_plain && is_http11 && self.responses.follow == 0,
        })
    }
}

/// Loads the scripts that load specs name.
pub trait ScriptLoader: Sync {
    /// Loads the script of a load before the load runs. The script must end when `control` is
    /// stopped.
    ///
    /// # Errors
    ///
    /// The reason why the script can't be used, with its file and line.
    fn load(
        &self,
        spec: &LoadSpec,
        control: &Arc<Control>,
    ) -> Result<Box<dyn LoadedScript>, String>;
}

/// A script that is ready to run with its load.
pub trait LoadedScript: Send + Sync {
    /// Runs the load.
    ///
    /// # Errors
    ///
    /// Those of [`run`].
    fn run(&self, spec: &LoadSpec, control: &Control) -> Result<ScriptedRun, RunError>;

    /// Passes the results of [`LoadedScript::run`] to the script.
    ///
    /// # Errors
    ///
    /// The error that the script raised, with its file and line.
    fn done(&self) -> Result<(), String>;
}

/// Result of a load with a script.
#[derive(Debug, Clone)]
pub struct ScriptedRun {
    /// Record of the load.
    pub record: Record,
    /// The script's error, with its file and line, if the error ended the load.
    pub failure: Option<String>,
}

/// Like [`run`], with the script that the load names, if it names one. The script is loaded first,
/// and receives the results at the end.
///
/// # Errors
///
/// Those of [`run`], and [`RunError::Script`] if the script fails.
pub fn run_scripted(
    spec: &LoadSpec,
    control: &Arc<Control>,
    scripts: Option<&dyn ScriptLoader>,
) -> Result<Record, RunError> {
    let (Some(scripts), Some(_)) = (scripts, &spec.script) else {
        return run(spec, control);
    };
    let script = scripts.load(spec, control).map_err(RunError::Script)?;
    let ScriptedRun { record, failure } = script.run(spec, control)?;
    match failure {
        Some(text) => Err(RunError::Script(text)),
        None => script.done().map_err(RunError::Script).map(|()| record),
    }
}
