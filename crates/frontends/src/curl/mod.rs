//! Converts a curl command, as pasted from a browser's developer tools, into settings of a load.
//!
//! This module runs neither curl nor a shell. It rejects options that would change the load in a
//! way that prony doesn't support, and names them. It ignores options that change only curl's
//! output.

mod data;
mod options;
mod words;

use std::time::Duration;

use prony_load::{FormField, LoadSettings, SettingsError};

use self::data::{DataBody, RequestData};
use self::options::CurlOption;

/// Value of the Accept-Encoding header with `--compressed`.
const ENCODINGS: &str = "deflate, gzip, br, zstd";
/// Maximum number of redirects for `-L` without `--max-redirs`.
const REDIRECTS_MAX: u64 = 50;
/// Default port of a proxy in curl.
const PROXY_PORT: u16 = 1080;
/// Longest time, in seconds, that is accepted for curl's options such as `--max-time`.
const TIME_MAX_S: f64 = 1e6;

/// A curl command, converted to a load.
#[derive(Debug, Clone, PartialEq)]
pub struct CurlCommand {
    /// URL of the command, as typed.
    pub url: String,
    /// Settings from the command's options.
    pub settings: LoadSettings,
}

/// Parses a command in the syntax of bash. Paths of files are relative to the working directory.
///
/// # Errors
///
/// An error that names the option that can't be used, with a hint.
pub fn parse(text: &str) -> Result<CurlCommand, SettingsError> {
    let words = words::split(text)?;
    let mut words = words.into_iter().peekable();
    // A shell prompt that was copied with the command is skipped.
    words.next_if(|word| word == b"$");
    match words.next().as_deref() {
        Some(b"curl") => {}
        Some(other) => {
            let other = String::from_utf8_lossy(other).into_owned();
            let error = SettingsError::from(format!("the command begins with \"{other}\""));
            return Err(error.hint("paste a command that begins with curl"));
        }
        None => {
            let error = SettingsError::from("the command is empty");
            return Err(error.hint("paste one that begins with curl"));
        }
    }
    let mut request = CurlRequest::default();
    while let Some(word) = words.next() {
        request.add_word(&word, &mut words)?;
    }
    request.finish()
}

/// Parts of the request that have been parsed so far.
#[derive(Debug, Default)]
struct CurlRequest {
    urls: Vec<String>,
    settings: LoadSettings,
    /// Headers from `-H`.
    headers: Vec<String>,
    data: RequestData,
    is_head: bool,
    is_get: bool,
    is_compressed: bool,
    follows: bool,
    redirects_max: Option<u64>,
    cookies: Vec<String>,
    agent: Option<String>,
    referer: Option<String>,
}

impl CurlRequest {
    /// Adds an argument to the request: one or more options, or a URL. If an option takes a value,
    /// also consumes the value.
    fn add_word(
        &mut self,
        word: &[u8],
        words: &mut impl Iterator<Item = Vec<u8>>,
    ) -> Result<(), SettingsError> {
        let text = utf8(word, "the command")?;
        if let Some(name) = text.strip_prefix("--").filter(|name| !name.is_empty()) {
            let option = options::by_name(name).ok_or_else(|| unknown_name(name))?;
            let value = if option.takes_value() {
                Some(words.next().ok_or_else(|| lacks_value(text))?)
            } else {
                None
            };
            return self.add(option, text, value);
        }
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            self.urls.push(text.to_owned());
            return Ok(());
        };
        for (at, letter) in letters.char_indices() {
            let input = format!("-{letter}");
            let option = options::by_letter(letter).ok_or_else(|| not_supported(&input))?;
            if option.takes_value() {
                let attached = &letters[at + letter.len_utf8()..];
                let value = match attached {
                    "" => words.next().ok_or_else(|| lacks_value(&input))?,
                    attached => attached.as_bytes().to_vec(),
                };
                return self.add(option, &input, Some(value));
            }
            self.add(option, &input, None)?;
        }
        Ok(())
    }

    /// Applies an option. `input` is the option's name in messages.
    fn add(
        &mut self,
        option: CurlOption,
        input: &str,
        value: Option<Vec<u8>>,
    ) -> Result<(), SettingsError> {
        let bytes = value.unwrap_or_default();
        let text = match option {
            CurlOption::Data(_) | CurlOption::Json | CurlOption::IgnoredValue => String::new(),
            _ => utf8(&bytes, input)?.to_owned(),
        };
        self.apply(option, &bytes, text)
            .map_err(|error| error.at(input))
    }

    /// Applies an option. Options for data use the value in `bytes`; all others use it as `text`.
    fn apply(
        &mut self,
        option: CurlOption,
        bytes: &[u8],
        text: String,
    ) -> Result<(), SettingsError> {
        let settings = &mut self.settings;
        match option {
            CurlOption::Ignored | CurlOption::IgnoredValue => {}
            CurlOption::Refused(hint) | CurlOption::RefusedValue(hint) => {
                return Err(SettingsError::from("not supported").hint_in_parentheses(hint));
            }
            CurlOption::Url => self.urls.push(text),
            CurlOption::Method => settings.method = Some(text),
            CurlOption::Head => self.is_head = true,
            CurlOption::Get => self.is_get = true,
            CurlOption::Header => self.add_header(&text)?,
            CurlOption::Data(kind) => self.data.add(bytes, kind)?,
            CurlOption::Json => self.data.add_json(bytes)?,
            CurlOption::Form => settings.form.push(text.parse()?),
            CurlOption::FormString => {
                let (name, value) = text.split_once('=').ok_or("write it as NAME=VALUE")?;
                settings.form.push(FormField::text(name, value));
            }
            CurlOption::PathAsIs => settings.path_as_is = true,
            CurlOption::Cookie => self.add_cookie(text)?,
            CurlOption::User => settings.user = Some(text.parse()?),
            CurlOption::Bearer => settings
                .header
                .push(format!("Authorization: Bearer {text}")),
            CurlOption::Insecure => settings.insecure = true,
            CurlOption::Compressed => self.is_compressed = true,
            CurlOption::Http(version) => settings.http = Some(version),
            CurlOption::Follow => self.follows = true,
            CurlOption::RedirectsMax => self.set_redirects(&text)?,
            CurlOption::UserAgent => self.agent = Some(text),
            CurlOption::Referer => {
                let referer = text.strip_suffix(";auto").unwrap_or(&text);
                self.referer = Some(referer.to_owned());
            }
            CurlOption::Proxy => settings.proxy = Some(proxy_with_port(&text).parse()?),
            CurlOption::Resolve => settings
                .resolve
                .push(text.trim_start_matches('+').to_owned()),
            CurlOption::UnixSocket => settings.unix = Some(text.into()),
            CurlOption::Ca => settings.ca = Some(text.into()),
            CurlOption::Cert => settings.cert = Some(text.into()),
            CurlOption::Key => settings.key = Some(text.into()),
            CurlOption::TlsMin(version) => settings.tls_min = Some(version),
            CurlOption::TlsMax => settings.tls_max = Some(text.parse()?),
            CurlOption::Ciphers => settings.ciphers.extend(text.split(':').map(str::to_owned)),
            CurlOption::Timeout => settings.timeout = Some(seconds(&text)?),
            CurlOption::ConnectTimeout => settings.connect_timeout = Some(seconds(&text)?),
        }
        Ok(())
    }

    /// Adds a header from `-H`: `NAME: VALUE`, `NAME;` for an empty header, or `NAME:` to remove a
    /// header.
    fn add_header(&mut self, text: &str) -> Result<(), SettingsError> {
        if text.starts_with('@') {
            let error = SettingsError::from("headers in a file are not read");
            return Err(error.hint("write them into the command"));
        }
        // Some browsers copy the pseudo-headers of HTTP/2. They are skipped, because the URL
        // determines them.
        if text.starts_with(':') {
            return Ok(());
        }
        match (text.split_once(':'), text.strip_suffix(';')) {
            (Some((name, _)), _) if name.trim().eq_ignore_ascii_case("content-length") => {}
            (Some(_), _) => self.headers.push(text.trim_end().to_owned()),
            // `-H 'NAME;'` sends an empty header, which is stored with a space after the colon to
            // distinguish it from `-H 'NAME:'`.
            (None, Some(name)) => self.headers.push(format!("{name}: ")),
            (None, None) => {
                let error = SettingsError::from(format!("\"{text}\" has no colon"));
                return Err(error.hint("write it like 'Accept: text/html'"));
            }
        }
        Ok(())
    }

    fn add_cookie(&mut self, text: String) -> Result<(), SettingsError> {
        if !text.contains('=') {
            let cause = format!("\"{text}\" is a cookie file, which prony does not read");
            let hint = "write the cookies as 'NAME=VALUE; NAME=VALUE'";
            return Err(SettingsError::from(cause).hint_in_parentheses(hint));
        }
        self.cookies.push(text);
        Ok(())
    }

    fn set_redirects(&mut self, text: &str) -> Result<(), SettingsError> {
        self.redirects_max = Some(match text {
            "-1" => u64::from(u32::MAX),
            text => text
                .parse()
                .map_err(|_| format!("\"{text}\" is not a number of redirects"))?,
        });
        Ok(())
    }

    fn finish(mut self) -> Result<CurlCommand, SettingsError> {
        let mut url = match self.urls.len() {
            0 => {
                let error = SettingsError::from("the command has no URL");
                return Err(error.hint("copy the whole command"));
            }
            1 => self.urls.remove(0),
            _ => {
                let error = SettingsError::from("the command has several URLs");
                return Err(error.hint("list them in a file for ").name("urls"));
            }
        };
        if self.is_head && self.data.is_given() && !self.is_get {
            return Err(SettingsError::from("a HEAD request has no body")
                .hint_in_parentheses("remove -I or the data")
                .hint_in_parentheses("add -G")
                .at("-I"));
        }
        let has_form = !self.settings.form.is_empty();
        if has_form && (self.is_head || self.data.is_given()) {
            let other = if self.is_head { "-I" } else { "the data" };
            let error = SettingsError::from(format!("can't be combined with {other}"));
            return Err(error.hint("remove one of them").at("-F"));
        }
        self.finish_headers();
        let has_body = self.data.is_given() && !self.is_get;
        let default = match (self.is_head, has_body || has_form) {
            (true, _) => Some("HEAD"),
            (false, true) => Some("POST"),
            (false, false) => None,
        };
        let method = &mut self.settings.method;
        *method = method.take().or(default.map(str::to_owned));
        if has_body {
            match self.data.into_body()? {
                DataBody::Text(text) => self.settings.body = Some(text),
                DataBody::File(file) => self.settings.body_file = Some(file),
            }
        } else if self.data.is_given() {
            let query = self.data.into_query()?;
            url = with_query(&url, &query);
        }
        if self.follows {
            self.settings.follow = Some(self.redirects_max.unwrap_or(REDIRECTS_MAX));
        }
        if self.settings.insecure {
            // With `-k`, curl verifies nothing, even if a CA is given.
            self.settings.ca = None;
        }
        Ok(CurlCommand {
            url,
            settings: self.settings,
        })
    }

    /// Adds the headers that other options imply, unless `-H` provides them.
    fn finish_headers(&mut self) {
        let mut implied = Vec::new();
        if let Some(agent) = self.agent.take() {
            implied.push(("User-Agent", agent));
        }
        if let Some(referer) = self.referer.take().filter(|it| !it.is_empty()) {
            implied.push(("Referer", referer));
        }
        if self.is_compressed {
            implied.push(("Accept-Encoding", ENCODINGS.to_owned()));
        }
        if self.data.is_given() && !self.is_get {
            let content = if self.data.is_json() {
                "application/json"
            } else {
                "application/x-www-form-urlencoded"
            };
            implied.push(("Content-Type", content.to_owned()));
        }
        if self.data.is_json() {
            implied.push(("Accept", "application/json".to_owned()));
        }
        let name_of = |line: &str| {
            line.split(':')
                .next()
                .unwrap_or_default()
                .trim()
                .to_lowercase()
        };
        let names: Vec<String> = self.headers.iter().map(|line| name_of(line)).collect();
        implied.retain(|(name, _)| !names.contains(&name.to_lowercase()));
        // `-H 'NAME:'` removes a header. Only these two headers have a default in prony.
        let is_removal = |line: &String| {
            line.split_once(':')
                .is_some_and(|(_, value)| value.is_empty())
                && !["user-agent", "accept"].contains(&name_of(line).as_str())
        };
        let mut headers = std::mem::take(&mut self.headers);
        headers.retain(|line| !is_removal(line));
        if !self.cookies.is_empty() {
            let cookies = self.cookies.join("; ");
            // Like curl, sends the cookies from `-b` and `-H` in one header.
            match headers.iter_mut().find(|line| name_of(line) == "cookie") {
                Some(line) => *line = format!("{}; {cookies}", line.trim_end()),
                None => implied.push(("Cookie", cookies)),
            }
        }
        let implied = implied
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"));
        headers.extend(implied);
        self.settings.header.extend(headers);
    }
}

/// Adds curl's default port to a proxy without one.
fn proxy_with_port(text: &str) -> String {
    let text = text.trim_end_matches('/');
    let address = text.rsplit(['/', '@']).next().unwrap_or(text);
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.contains(']'));
    if has_port {
        text.to_owned()
    } else {
        format!("{text}:{PROXY_PORT}")
    }
}

/// Parses a time in seconds, such as `2.5`.
fn seconds(text: &str) -> Result<Duration, SettingsError> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= TIME_MAX_S => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!("\"{text}\" is not a number of seconds above 0").into()),
    }
}

/// Adds a query to a URL and removes its fragment.
fn with_query(url: &str, query: &str) -> String {
    let url = url.split('#').next().unwrap_or(url);
    let separator = match (url.contains('?'), query) {
        (_, "") => "",
        (true, _) => "&",
        (false, _) => "?",
    };
    format!("{url}{separator}{query}")
}

fn utf8<'a>(bytes: &'a [u8], place: &str) -> Result<&'a str, SettingsError> {
    std::str::from_utf8(bytes).map_err(|_| SettingsError::from("not UTF-8 text").at(place))
}

fn unknown_name(name: &str) -> SettingsError {
    let option = format!("--{name}");
    match options::similar(name) {
        Some(similar) => SettingsError::from("not a curl option")
            .hint(format!("did you mean --{similar}?"))
            .at(option),
        None => not_supported(&option),
    }
}

fn not_supported(option: &str) -> SettingsError {
    SettingsError::from("this curl option is not supported")
        .hint_in_parentheses("remove it")
        .at(option)
}

fn lacks_value(text: &str) -> SettingsError {
    SettingsError::from("the value is missing")
        .hint("copy the whole command")
        .at(text)
}

#[cfg(test)]
mod tests;
