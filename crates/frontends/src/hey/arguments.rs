//! Parses and validates arguments as hey does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use prony_load::{HttpProxy, SettingsError};

use super::flags::{FlagError, FlagValue, GoFlag, split};
use super::url::HeyUrl;

/// A load as described by hey's arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct HeyArguments {
    pub(super) url: String,
    /// Total number of requests. It is ignored if a duration is given.
    pub(super) requests: u64,
    pub(super) workers: u64,
    /// Requests per second for each worker.
    pub(super) rate: Option<f64>,
    pub(super) time: Option<Duration>,
    pub(super) csv: bool,
    pub(super) method: String,
    /// Headers except for Host, by their canonical names as in Go.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) host: Option<String>,
    pub(super) body: Option<String>,
    /// File with the body. Takes precedence over `body`.
    pub(super) body_file: Option<PathBuf>,
    pub(super) timeout: Option<Duration>,
    pub(super) proxy: Option<HeyProxy>,
    pub(super) h2: bool,
    pub(super) keepalive: bool,
    pub(super) redirects: bool,
    /// Number of worker threads, if given.
    pub(super) cores: Option<u64>,
    pub(super) timeline: Option<PathBuf>,
    pub(super) progress: bool,
    /// Warnings about arguments that hey itself ignores silently.
    pub(super) notes: Vec<String>,
}

/// Reason why no load can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HeyError {
    /// A flag is invalid, or the usage was requested.
    Flag(FlagError),
    /// The arguments don't describe a load. There is no message if only the URL is missing.
    Load(Option<SettingsError>),
}

impl From<FlagError> for HeyError {
    fn from(error: FlagError) -> HeyError {
        HeyError::Flag(error)
    }
}

fn load_error(error: impl Into<SettingsError>) -> HeyError {
    HeyError::Load(Some(error.into()))
}

/// hey's default User-Agent.
const USER_AGENT: &str = "hey/0.0.1";

fn takes(name: &str) -> Option<FlagValue> {
    match name {
        "n" | "c" | "q" | "z" | "o" | "m" | "H" | "h" | "t" | "A" | "d" | "D" | "T" | "U" | "a"
        | "x" | "host" | "cpus" | "timeline" | "progress" => Some(FlagValue::Value),
        "h2" | "disable-compression" | "disable-keepalive" | "disable-redirects" | "more" => {
            Some(FlagValue::Nothing)
        }
        _ => None,
    }
}

/// Values of the flags, before they are validated together.
#[derive(Default)]
struct FlagValues {
    n: i64,
    c: i64,
    q: f64,
    z: Option<Duration>,
    t: i64,
    cpus: i64,
    output: String,
    method: String,
    header: Vec<String>,
    old_header: String,
    accept: String,
    content_type: String,
    user_agent: String,
    auth: String,
    host: String,
    body: String,
    body_file: String,
    proxy: String,
    h2: bool,
    no_compression: bool,
    no_keepalive: bool,
    no_redirects: bool,
    timeline: String,
    progress: String,
}

impl FlagValues {
    /// Creates the values for a command line without flags.
    fn new() -> FlagValues {
        FlagValues {
            n: 200,
            c: 50,
            t: 20,
            method: "GET".to_owned(),
            content_type: "text/html".to_owned(),
            progress: "lines".to_owned(),
            ..FlagValues::default()
        }
    }

    fn set(&mut self, flag: GoFlag) -> Result<(), FlagError> {
        match flag.name.as_str() {
            "n" => self.n = flag.int()?,
            "c" => self.c = flag.int()?,
            "q" => self.q = flag.float()?,
            "z" => self.z = flag.time()?,
            "t" => self.t = flag.int()?,
            "cpus" => self.cpus = flag.int()?,
            "h2" => self.h2 = flag.switch()?,
            "disable-compression" => self.no_compression = flag.switch()?,
            "disable-keepalive" => self.no_keepalive = flag.switch()?,
            "disable-redirects" => self.no_redirects = flag.switch()?,
            "more" => {
                flag.switch()?;
            }
            "o" => self.output = flag.value,
            "m" => self.method = flag.value,
            "H" => self.header.push(flag.value),
            "h" => self.old_header = flag.value,
            "A" => self.accept = flag.value,
            "T" => self.content_type = flag.value,
            "U" => self.user_agent = flag.value,
            "a" => self.auth = flag.value,
            "host" => self.host = flag.value,
            "d" => self.body = flag.value,
            "D" => self.body_file = flag.value,
            "x" => self.proxy = flag.value,
            "timeline" => self.timeline = flag.value,
            "progress" => self.progress = flag.value,
            name => unreachable!("`takes` must reject -{name}"),
        }
        Ok(())
    }
}

impl HeyArguments {
    /// Parses the arguments.
    ///
    /// # Errors
    ///
    /// See [`HeyError`].
    pub(super) fn read(arguments: &[OsString]) -> Result<HeyArguments, HeyError> {
        let (flags, words) = split(arguments, takes)?;
        let mut input = FlagValues::new();
        for flag in flags {
            input.set(flag)?;
        }
        let mut words = words.into_iter();
        let Some(url) = words.next() else {
            return Err(HeyError::Load(None));
        };
        let url = HeyUrl::parse(&url);
        input.check_counts()?;
        let csv = match input.output.as_str() {
            "" => false,
            "csv" => true,
            other => {
                let error = SettingsError::from("the only output besides the summary is \"csv\"")
                    .hint_in_parentheses("hey would treat this value as a Go template");
                return Err(load_error(error.at(format!("-o {other}"))));
            }
        };
        let progress = match input.progress.as_str() {
            "lines" => true,
            "none" => false,
            other => {
                let error = SettingsError::from("use lines or none");
                return Err(load_error(error.at(format!("-progress {other}"))));
            }
        };
        let method = match input.method.to_uppercase() {
            none if none.is_empty() => "GET".to_owned(),
            method => method,
        };
        let mut notes = Vec::new();
        let unread: Vec<String> = words.collect();
        if !unread.is_empty() {
            notes.push(format!(
                "arguments after the URL are ignored, as in hey: {}",
                unread.join(" ")
            ));
        }
        let headers = input.headers(&method, url.user.as_deref(), &mut notes)?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let whole = |number: i64| u64::try_from(number).ok().filter(|&number| number > 0);
        Ok(HeyArguments {
            url: url.text,
            requests: input.n.unsigned_abs(),
            workers: input.c.unsigned_abs(),
            rate: Some(input.q).filter(|&q| q > 0.0),
            time: input.z,
            csv,
            method,
            headers,
            host: some(input.host),
            body: some(input.body),
            body_file: some(input.body_file).map(PathBuf::from),
            timeout: whole(input.t).map(Duration::from_secs),
            proxy: some(input.proxy)
                .map(|proxy| HeyProxy::parse(&proxy))
                .transpose()?,
            h2: input.h2,
            keepalive: !input.no_keepalive,
            redirects: !input.no_redirects,
            cores: whole(input.cpus),
            timeline: some(input.timeline).map(PathBuf::from),
            progress,
            notes,
        })
    }
}

impl FlagValues {
    fn check_counts(&self) -> Result<(), HeyError> {
        match self.z {
            Some(_) if self.c <= 0 => Err(load_error("-c cannot be smaller than 1.")),
            Some(_) => Ok(()),
            None if self.n <= 0 || self.c <= 0 => {
                Err(load_error("-n and -c cannot be smaller than 1."))
            }
            None if self.n < self.c => Err(load_error("-n cannot be less than -c.")),
            None => Ok(()),
        }
    }

    /// Returns the headers that are sent in addition to Host, Content-Length and Connection. `user`
    /// contains the credentials from the URL.
    fn headers(
        &self,
        method: &str,
        user: Option<&str>,
        notes: &mut Vec<String>,
    ) -> Result<BTreeMap<String, String>, HeyError> {
        let unreadable = |input: &str| {
            load_error(format!(
                "could not parse the provided input; input = {input}"
            ))
        };
        if !self.old_header.is_empty() {
            return Err(load_error(
                "Flag '-h' is deprecated, please use '-H' instead.",
            ));
        }
        let mut headers = BTreeMap::new();
        let mut set = |name: &str, value: &str| headers.insert(name.to_owned(), value.to_owned());
        set("Content-Type", &self.content_type);
        for text in &self.header {
            let (name, value) = header(text).ok_or_else(|| unreadable(text))?;
            match name.as_str() {
                "Host" => notes.push(format!("-H \"{text}\" is not sent, as in hey; use -host")),
                "Content-Length" | "Transfer-Encoding" | "Trailer" => notes.push(format!(
                    "-H \"{text}\" is not sent, as in hey: the body determines it"
                )),
                _ => {
                    set(&name, value);
                }
            }
        }
        if !self.accept.is_empty() {
            set("Accept", &self.accept);
        }
        let has_authorization = headers.contains_key("Authorization");
        let user = match self.auth.as_str() {
            "" => user,
            text if text.contains(':') => Some(text),
            text => return Err(unreadable(text)),
        };
        if let Some(user) = user.filter(|_| !self.auth.is_empty() || !has_authorization) {
            headers.insert(
                "Authorization".to_owned(),
                format!("Basic {}", BASE64.encode(user)),
            );
        }
        let own = match self.user_agent.as_str() {
            "" => headers.get("User-Agent").cloned().unwrap_or_default(),
            text => text.to_owned(),
        };
        let agent = format!("{own} {USER_AGENT}").trim_start().to_owned();
        headers.insert("User-Agent".to_owned(), agent);
        // Like Go's client, asks for compression unless another header prevents it.
        let named = |name: &str| headers.contains_key(name);
        if !self.no_compression && !named("Accept-Encoding") && !named("Range") && method != "HEAD"
        {
            headers.insert("Accept-Encoding".to_owned(), "gzip".to_owned());
        }
        Ok(headers)
    }
}

/// Parses a header into its canonical name and its value.
fn header(text: &str) -> Option<(String, &str)> {
    let (name, value) = text.split_once(':')?;
    let value = value.trim_start();
    let is_named = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    (is_named && !value.is_empty()).then(|| (canonical(name), value.trim_end()))
}

/// Converts `x-my-header` to `X-My-Header`.
fn canonical(name: &str) -> String {
    let mut begins = true;
    name.chars()
        .map(|c| {
            let c = if begins {
                c.to_ascii_uppercase()
            } else {
                c.to_ascii_lowercase()
            };
            begins = c == '-';
            c
        })
        .collect()
}

/// Proxy for all requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeyProxy {
    /// Proxy with its credentials, as a setting of the load engine.
    pub(super) engines: HttpProxy,
    /// Address as `host:port`, for error messages.
    pub(super) address: String,
}

impl HeyProxy {
    /// Parses a proxy of the form `host:port` or `http://user:password@host:port`.
    fn parse(text: &str) -> Result<HeyProxy, HeyError> {
        let engines = text
            .parse()
            .map_err(|error: SettingsError| load_error(error.at("-x")))?;
        let address = text.split_once("://").map_or(text, |(_, rest)| rest);
        let address = address.rsplit('@').next().unwrap_or_default();
        Ok(HeyProxy {
            engines,
            address: address.trim_end_matches('/').to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
