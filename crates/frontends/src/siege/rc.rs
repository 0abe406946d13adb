//! Reads siege's configuration file, which has one key and value per line. An unknown key defines a
//! variable.

use std::path::{Path, PathBuf};

use super::arguments::{Repetitions, seconds_of};
use super::listed::Method;
use super::settings::{SiegeLogin, SiegeSettings};
use super::variables::Variables;
use prony_load::SettingsError;
use prony_load::input_file::{self, TEXT_BYTES_MAX};

/// A parsed configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RcFile {
    pub(super) settings: SiegeSettings,
    /// Path of the file, if there is one.
    pub(super) path: Option<PathBuf>,
    /// Warnings about unsupported keys and undefined variables.
    pub(super) remarks: Vec<String>,
}

impl RcFile {
    /// Reads the configuration file that is given, or else the one that SIEGERC names. Without
    /// either, reads the first of `~/.siege/siege.conf` and `/etc/siege/siegerc` that exists, or
    /// uses the defaults. Never creates a file.
    ///
    /// # Errors
    ///
    /// An error that names an unreadable file or an invalid line.
    pub(super) fn load(file: Option<&Path>) -> Result<RcFile, SettingsError> {
        let named = file
            .map(Path::to_owned)
            .or_else(|| std::env::var_os("SIEGERC").map(PathBuf::from));
        let path = match named {
            Some(path) => Some(path),
            None => {
                let home = std::env::var_os("HOME").map(PathBuf::from);
                let own = home.map(|home| home.join(".siege/siege.conf"));
                let all = [own, Some("/etc/siege/siegerc".into())];
                all.into_iter().flatten().find(|path| path.exists())
            }
        };
        let Some(path) = path else {
            return Ok(RcFile {
                settings: SiegeSettings::template(),
                path: None,
                remarks: Vec::new(),
            });
        };
        let text = input_file::read_file(&path, TEXT_BYTES_MAX).map_err(|error| {
            let place = format!("could not open {}", path.display());
            SettingsError::from(error.to_string()).at(place)
        })?;
        let shown = path.display().to_string();
        let text = input_file::without_byte_order_mark(&text);
        let (settings, remarks) = parse_rc(&String::from_utf8_lossy(text), &shown)?;
        Ok(RcFile {
            settings,
            path: Some(path),
            remarks,
        })
    }
}

fn parse_rc(text: &str, shown: &str) -> Result<(SiegeSettings, Vec<String>), SettingsError> {
    let mut settings = SiegeSettings::bare();
    let mut variables = Variables::default();
    let mut remarks = Vec::new();
    let mut used = Vec::new();
    let mut unknown = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some((key, value)) = key_and_value(line) else {
            continue;
        };
        let expanded = variables.expand(value);
        for name in &expanded.undefined {
            remarks.push(format!(
                "{shown}:{number}: ${name} is not defined; using an empty value"
            ));
        }
        used.extend(expanded.used);
        match apply(
            &mut settings,
            &key.to_ascii_lowercase(),
            expanded.text.trim(),
        ) {
            Ok(()) => {}
            Err(RcError::Unknown) => {
                variables.define(key, expanded.text.trim());
                unknown.push((number, key.to_owned()));
            }
            Err(RcError::Lacking(why)) => {
                remarks.push(format!("{shown}:{number}: {key}: {why}"));
            }
            Err(RcError::Wrong(error)) => {
                return Err(error.at(format!("{shown}:{number}: {key}")));
            }
        }
    }
    for (number, key) in unknown {
        if !used.contains(&key) {
            remarks.push(format!(
                "{shown}:{number}: {key}: neither a known setting nor a variable used in this file"
            ));
        }
    }
    Ok((settings, remarks))
}

/// Splits a line into key and value at blanks and one or more `=` or `:`. A `#` starts a comment
/// only at the beginning of a line or after a blank; elsewhere, it may belong to a password.
fn key_and_value(line: &str) -> Option<(&str, &str)> {
    let begins = |&(at, _): &(usize, &str)| at == 0 || line[..at].ends_with(char::is_whitespace);
    let end = line.match_indices('#').find(begins).map(|(at, _)| at);
    let line = line[..end.unwrap_or(line.len())].trim();
    let separates = |c: char| c.is_whitespace() || c == '=' || c == ':';
    let end = line.find(separates).unwrap_or(line.len());
    let (key, value) = line.split_at(end);
    (!key.is_empty()).then(|| (key, value.trim_start_matches(separates)))
}

/// Reason why a line of the configuration file is not accepted.
enum RcError {
    /// siege has no such key.
    Unknown,
    /// siege has this key, but the front end doesn't support it. Contains the reason.
    Lacking(&'static str),
    /// The value is invalid for the key.
    Wrong(SettingsError),
}

fn wrong(cause: String) -> RcError {
    RcError::Wrong(cause.into())
}

fn apply(settings: &mut SiegeSettings, key: &str, value: &str) -> Result<(), RcError> {
    // A key without a value has no effect.
    if value.is_empty() && key != "accept-encoding" {
        return if KEYS.split(' ').any(|known| known == key) {
            Ok(())
        } else {
            Err(RcError::Unknown)
        };
    }
    if let Some(switch) = switch(settings, key) {
        *switch = is_true(value);
        return Ok(());
    }
    match key {
        "color" => settings.color = !matches!(value.to_ascii_lowercase().as_str(), "false" | "off"),
        "url-escaping" => settings.escape = !value.eq_ignore_ascii_case("false"),
        "connection" => settings.keep_alive = value.to_ascii_lowercase().starts_with("keep-alive"),
        "protocol" => settings.http11 = value.to_ascii_uppercase().starts_with("HTTP/1.1"),
        "gmethod" => {
            settings.get_method = match value.to_ascii_uppercase().as_str() {
                "GET" => Method::Get,
                _ => Method::Head,
            }
        }
        "logfile" => settings.log = value.into(),
        "concurrent" => settings.users = number(value)?,
        "reps" => {
            settings.reps = if value.eq_ignore_ascii_case("once") {
                Repetitions::Once
            } else {
                Repetitions::Times(number(value)?)
            }
        }
        "limit" => settings.limit = number(value)?,
        "failures" => settings.failures = number(value)?,
        "timeout" => settings.timeout_s = number(value)?,
        "attempts" => settings.attempts = number(value)?,
        "proxy-port" => settings.proxy_port = number(value)?,
        "time" => {
            let wrong = || wrong(format!("\"{value}\": write it like 30S, 5M or 1H"));
            settings.time_s = Some(seconds_of(value).ok_or_else(wrong)?);
        }
        "delay" => settings.delay_s = seconds(value)?,
        "file" => settings.file = value.into(),
        "url" => settings.url = Some(value.to_owned()),
        "login-url" => settings.login_urls.push(value.to_owned()),
        "user-agent" => settings.user_agent = value.to_owned(),
        "accept-encoding" => settings.encoding = value.to_owned(),
        "nofollow" => settings.left_alone.push(value.to_owned()),
        "header" => settings.add_header(value).map_err(RcError::Wrong)?,
        "login" => settings.logins.push(SiegeLogin::parse(value)),
        "proxy-host" => settings.proxy_host = Some(value.to_owned()),
        "proxy-login" => settings.proxy_logins.push(SiegeLogin::parse(value)),
        "ssl-cert" => settings.certificate = Some(value.into()),
        "ssl-key" => settings.key = Some(value.into()),
        "ssl-ciphers" => settings.ciphers = Some(value.to_owned()),
        _ => return lacking(key, value),
    }
    Ok(())
}

/// All keys of siege's configuration file, including those that prony doesn't support.
const KEYS: &str = "verbose color quiet json_output show-logfile logging logfile gmethod parser \
    nofollow csv timestamp fullurl display-id limit protocol chunked cache connection concurrent \
    time reps file url delay timeout expire-session cookies failures internet benchmark user-agent \
    accept-encoding url-escaping login login-url attempts ftp-login unique ssl-cert ssl-key \
    ssl-timeout ssl-ciphers proxy-host proxy-port proxy-login follow-location zero-data-ok header \
    debug";

/// Returns the setting for a boolean key.
fn switch<'s>(settings: &'s mut SiegeSettings, key: &str) -> Option<&'s mut bool> {
    Some(match key {
        "verbose" => &mut settings.verbose,
        "quiet" => &mut settings.quiet,
        "json_output" => &mut settings.json,
        "csv" => &mut settings.csv,
        "timestamp" => &mut settings.timestamp,
        "fullurl" => &mut settings.full_url,
        "display-id" => &mut settings.display_id,
        "logging" => &mut settings.logging,
        "show-logfile" => &mut settings.show_log,
        "internet" => &mut settings.internet,
        "benchmark" => &mut settings.benchmark,
        "parser" => &mut settings.parser,
        "cookies" => &mut settings.cookies,
        "expire-session" => &mut settings.expire_session,
        "follow-location" => &mut settings.follow,
        "zero-data-ok" => &mut settings.zero_ok,
        _ => return None,
    })
}

/// Rejects a key that is not supported, unless its value disables the feature anyway.
fn lacking(key: &str, value: &str) -> Result<(), RcError> {
    let (asks, why) = match key {
        "cache" => (
            is_true(value),
            "nothing is cached; every request is sent in full",
        ),
        "chunked" => (
            !is_true(value),
            "chunked responses are always decoded, as HTTP/1.1 requires",
        ),
        "debug" => (
            is_true(value),
            "there is no debug trace; -g and -p show the request and the response",
        ),
        "ssl-timeout" => (true, "the key timeout also limits the TLS handshake"),
        // FTP URLs are rejected when they are parsed, and a spinner would have no effect.
        "ftp-login" | "unique" | "spinner" => (false, ""),
        _ => return Err(RcError::Unknown),
    };
    if asks {
        Err(RcError::Lacking(why))
    } else {
        Ok(())
    }
}

fn is_true(value: &str) -> bool {
    value
        .get(..4)
        .is_some_and(|start| start.eq_ignore_ascii_case("true"))
}

fn number<N: std::str::FromStr>(value: &str) -> Result<N, RcError> {
    value
        .parse()
        .map_err(|_| wrong(format!("\"{value}\" is not a number")))
}

fn seconds(value: &str) -> Result<f64, RcError> {
    match value.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() => Ok(seconds.max(0.0)),
        _ => Err(wrong(format!("\"{value}\" is not a number of seconds"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (SiegeSettings, Vec<String>) {
        parse_rc(text, "rc").unwrap()
    }

    #[test]
    fn every_key_has_an_effect() {
        let (settings, remarks) = read(
            "verbose = true\ncolor = off\nquiet=true\njson_output = true\ncsv = true\n\
             timestamp = true\nfullurl = true\ndisplay-id = true\nlogging = true\n\
             show-logfile = true\nlogfile = /x/siege.log\ngmethod = HEAD\nconcurrent = 7\n\
             reps = 3\ntime = 5M\ndelay = 1.5\nbenchmark = true\ninternet = true\nfile = u.txt\n\
             url = http://a.test/\nlogin-url = http://a.test/login POST a=b\n\
             user-agent = me / 1.0\naccept-encoding = gzip\nheader = X-A: b\n\
             protocol = HTTP/1.1\nconnection = keep-alive\ntimeout = 9\nparser = true\n\
             nofollow = b.test\nfollow-location = false\ncookies = false\n\
             expire-session = true\nzero-data-ok = false\nurl-escaping = false\nfailures = 4\n\
             limit = 9\nlogin = a:b:C\nattempts = 2\nproxy-host = p.test\nproxy-port = 81\n\
             proxy-login: c:d\nssl-cert = c.pem\nssl-key = k.pem\nssl-ciphers = A:B\n\
             unique = true\nchunked = true\ncache = false\nftp-login = x:y\n",
        );
        assert_eq!(remarks, Vec::<String>::new());
        let login = |name: &str, password: &str, realm: Option<&str>| SiegeLogin {
            name: name.to_owned(),
            password: password.to_owned(),
            realm: realm.map(str::to_owned),
        };
        let expected = SiegeSettings {
            verbose: true,
            color: false,
            quiet: true,
            json: true,
            csv: true,
            timestamp: true,
            full_url: true,
            display_id: true,
            logging: true,
            show_log: true,
            log: "/x/siege.log".into(),
            get_method: Method::Head,
            users: 7,
            reps: Repetitions::Times(3),
            time_s: Some(300),
            delay_s: 1.5,
            benchmark: true,
            internet: true,
            file: "u.txt".into(),
            url: Some("http://a.test/".into()),
            login_urls: vec!["http://a.test/login POST a=b".into()],
            user_agent: "me / 1.0".into(),
            encoding: "gzip".into(),
            headers: vec![("X-A".into(), "b".into())],
            http11: true,
            keep_alive: true,
            timeout_s: 9,
            parser: true,
            left_alone: vec!["b.test".into()],
            follow: false,
            cookies: false,
            expire_session: true,
            zero_ok: false,
            escape: false,
            failures: 4,
            limit: 9,
            logins: vec![login("a", "b", Some("C"))],
            attempts: 2,
            proxy_host: Some("p.test".into()),
            proxy_port: 81,
            proxy_logins: vec![login("c", "d", None)],
            certificate: Some("c.pem".into()),
            key: Some("k.pem".into()),
            ciphers: Some("A:B".into()),
            ..SiegeSettings::bare()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn a_key_without_a_value_changes_nothing() {
        let lines: String = KEYS
            .split(' ')
            .filter(|key| *key != "accept-encoding")
            .map(|key| format!("{key} = \n"))
            .collect();
        assert_eq!(read(&lines), (SiegeSettings::bare(), Vec::new()));
    }

    #[test]
    fn unsupported_keys_are_reported_with_their_line() {
        let (_, remarks) =
            read("# first\ncache = true\nchunked = false\ndebug = true\nssl-timeout = 3\n");
        assert_eq!(remarks.len(), 4, "{remarks:?}");
        assert!(
            remarks[0].starts_with("rc:2: cache: nothing is cached"),
            "{remarks:?}"
        );
    }

    #[test]
    fn other_keys_are_variables() {
        let (settings, remarks) = read(
            "PROXY = p.test\nproxy-host = ${PROXY}\nuser-agnet = x\nurl = $PRONY_NO_SUCH_NAME/\n",
        );
        assert_eq!(settings.proxy_host.as_deref(), Some("p.test"));
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        assert!(
            remarks[0].contains("rc:4: $PRONY_NO_SUCH_NAME"),
            "{remarks:?}"
        );
        assert!(
            remarks[1].starts_with("rc:3: user-agnet: neither a known setting"),
            "{remarks:?}"
        );
    }

    #[test]
    fn comments_end_lines_and_passwords_may_have_a_hash() {
        let (settings, _) = read("  # x\nconcurrent = 5 # users\nlogin = a:b#c:R\n\n");
        assert_eq!(settings.users, 5);
        assert_eq!(settings.logins[0].password, "b#c");
    }

    #[test]
    fn wrong_values_are_refused_with_their_line() {
        for (text, expected) in [
            (
                "\nconcurrent = many",
                "rc:2: concurrent: \"many\" is not a number",
            ),
            (
                "time = soon",
                "rc:1: time: \"soon\": write it like 30S, 5M or 1H",
            ),
            (
                "delay = inf",
                "rc:1: delay: \"inf\" is not a number of seconds",
            ),
            ("header = x", "rc:1: header: no ':' in http-header"),
            (
                "proxy-port = 70000",
                "rc:1: proxy-port: \"70000\" is not a number",
            ),
        ] {
            assert_eq!(parse_rc(text, "rc").unwrap_err().to_string(), expected);
        }
    }
}
