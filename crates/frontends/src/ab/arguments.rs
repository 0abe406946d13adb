//! Parses ab's command line: one-letter flags before the URL, and some long flags that prony adds.

use std::ffi::OsString;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use prony_load::{HttpProxy, SettingsError, SourceRange, SpecError, TlsVersion};
use prony_record::quantity;

use super::url::AbUrl;
use crate::getopt::{OptionArgument, OptionError, OptionPlacement, OptionSpec, Options};

/// Number of requests that `-t` implies according to ab's manual.
const TIMED_REQUESTS: u64 = 50_000;
/// Default port of a proxy.
const PROXY_PORT: u16 = 80;

/// Command that the arguments of ab represent.
#[derive(Debug)]
pub(super) enum AbCommand {
    /// Print the version (`-V`).
    Version,
    /// Print the usage (`-h`).
    Usage,
    /// Run a load.
    Load(Box<AbArguments>),
}

/// Reason why the arguments are rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AbArgumentsError {
    /// Invalid arguments. The usage is printed after the message.
    Usage(SettingsError),
    /// A flag has an invalid value.
    Value(SettingsError),
    /// The load engine or the machine rejects the load.
    Refused(SpecError),
}

impl AbArgumentsError {
    fn usage(error: impl Into<SettingsError>) -> AbArgumentsError {
        AbArgumentsError::Usage(error.into())
    }

    fn value(error: impl Into<SettingsError>) -> AbArgumentsError {
        AbArgumentsError::Value(error.into())
    }
}

/// Parsed ab arguments.
#[derive(Debug, Default)]
pub(super) struct AbArguments {
    /// Number of requests: `-n`, or the number that `-t` or ab's default implies.
    pub(super) requests: u64,
    /// Concurrent requests (`-c`).
    pub(super) concurrency: u64,
    /// Time limit of the load (`-t`).
    pub(super) time_limit: Option<Duration>,
    /// Timeout of a response (`-s`).
    pub(super) timeout: Duration,
    /// Socket buffer size (`-b`), in bytes.
    pub(super) window: Option<u32>,
    /// Source addresses (`-B`).
    pub(super) sources: Vec<SourceRange>,
    /// Method, from `-i`, `-p`, `-u` or `-m`.
    pub(super) method: String,
    /// File with the body (`-p` or `-u`).
    pub(super) body_file: Option<PathBuf>,
    /// Content-Type of the body (`-T`).
    pub(super) content_type: Option<String>,
    /// Level of detail of the messages (`-v`).
    pub(super) verbosity: u32,
    /// Attributes from `-x`, `-y` and `-z`, if one of these or `-w` is given.
    pub(super) html: Option<HtmlAttributes>,
    /// Cookies (`-C`), each as `NAME=VALUE`.
    pub(super) cookies: Vec<String>,
    /// Additional header lines (`-H`).
    pub(super) headers: Vec<String>,
    /// Credentials for the server (`-A`), as `USER:PASSWORD`.
    pub(super) login: Option<String>,
    /// Credentials for the proxy (`-P`), as `USER:PASSWORD`.
    pub(super) proxy_login: Option<String>,
    /// Proxy (`-X`).
    pub(super) proxy: Option<AbProxy>,
    /// True to keep connections open (`-k`).
    pub(super) keepalive: bool,
    /// True to print the table of percentages (off with `-d`).
    pub(super) percentages: bool,
    /// True to print medians, deviations and warnings (off with `-S`).
    pub(super) deviations: bool,
    /// True to print no progress (`-q`).
    pub(super) quiet: bool,
    /// True to accept bodies of any length (`-l`).
    pub(super) any_length: bool,
    /// Output file for the times of all requests (`-g`).
    pub(super) gnuplot: Option<PathBuf>,
    /// Output file for percentiles as CSV (`-e`).
    pub(super) csv: Option<PathBuf>,
    /// True to send no server name in the handshake (`-I`).
    pub(super) hides_name: bool,
    /// Cipher suites (`-Z`).
    pub(super) ciphers: Vec<String>,
    /// TLS version (`-f`), or `None` for any version.
    pub(super) tls: Option<TlsVersion>,
    /// File with the client's certificate and key (`-E`).
    pub(super) certificate: Option<PathBuf>,
    /// Required size of bodies in bytes (`--expect-size`).
    pub(super) expected_size: Option<u64>,
    /// Time at which the load starts (`--start-at`).
    pub(super) start_at: Option<SystemTime>,
    /// URL to load.
    pub(super) url: AbUrl,
}

/// A proxy, given as `HOST[:PORT]` (`-X`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AbProxy {
    /// Host as typed, without the port.
    pub(super) host: String,
    /// Port as typed, or the default.
    pub(super) port: u16,
    /// The proxy as a setting of the load engine.
    pub(super) target: HttpProxy,
}

/// Attributes of the HTML tags that `-w` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HtmlAttributes {
    /// `-x`: attributes of the table.
    pub(super) table: String,
    /// `-y`: attributes of each row.
    pub(super) row: String,
    /// `-z`: attributes of each cell.
    pub(super) cell: String,
}

impl Default for HtmlAttributes {
    fn default() -> HtmlAttributes {
        HtmlAttributes {
            table: String::new(),
            row: String::new(),
            cell: "bgcolor=white".to_owned(),
        }
    }
}

const fn flag(letter: char, argument: OptionArgument) -> OptionSpec {
    OptionSpec {
        name: None,
        letter,
        is_short: true,
        argument,
    }
}

const fn long(name: &'static str, letter: char) -> OptionSpec {
    OptionSpec {
        name: Some(name),
        letter,
        is_short: false,
        argument: OptionArgument::Required,
    }
}

/// Placeholder for the letter of `--expect-size`, which has no one-letter form.
const EXPECT_SIZE: char = '1';
/// Placeholder for the letter of `--start-at`, which has no one-letter form.
const START_AT: char = '2';

/// Letters of flags without a value.
const FLAGS_WITHOUT_VALUE: &str = "lrkVhwiIdSq";
/// Letters of flags with a value.
const FLAGS_WITH_VALUE: &str = "nctsbTpuvxyzCHPAgXeBmZfE";

fn known() -> Vec<OptionSpec> {
    let alone = FLAGS_WITHOUT_VALUE
        .chars()
        .map(|letter| flag(letter, OptionArgument::None));
    let with_value = FLAGS_WITH_VALUE
        .chars()
        .map(|letter| flag(letter, OptionArgument::Required));
    let lacking = [long("expect-size", EXPECT_SIZE), long("start-at", START_AT)];
    alone.chain(with_value).chain(lacking).collect()
}

/// Formats the error like APR, the library with which ab parses flags.
fn slipped(slip: OptionError) -> AbArgumentsError {
    AbArgumentsError::usage(match slip {
        OptionError::NoSuchLetter(letter) => format!("illegal option -- {letter}"),
        OptionError::LetterLacksValue(letter) => format!("option requires an argument -- {letter}"),
        OptionError::NameLacksValue(name) => format!("option requires an argument -- {name}"),
        OptionError::NoSuchName(name) | OptionError::Ambiguous(name, _) => {
            format!("illegal option -- --{name}")
        }
        OptionError::NameTakesNothing(name) => format!("illegal option -- --{name}"),
    })
}

/// Parses the arguments after the command's name.
///
/// # Errors
///
/// See [`AbArgumentsError`].
pub(super) fn parse(words: &[OsString]) -> Result<AbCommand, AbArgumentsError> {
    let words: Vec<String> = words
        .iter()
        .map(|word| {
            let text = word.to_str().map(str::to_owned);
            text.ok_or_else(|| AbArgumentsError::value(format!("{word:?} is not UTF-8 text")))
        })
        .collect::<Result<_, _>>()?;
    let known = known();
    let mut options = Options::new(&known, OptionPlacement::First, &words);
    let flags = options
        .by_ref()
        .map(|read| read.map_err(slipped))
        .collect::<Result<Vec<_>, _>>()?;
    for (letter, _) in &flags {
        match letter {
            'h' => return Ok(AbCommand::Usage),
            'V' => return Ok(AbCommand::Version),
            _ => {}
        }
    }
    let [url] = options.others()[..] else {
        return Err(AbArgumentsError::usage("wrong number of arguments"));
    };
    let url = AbUrl::parse(url).ok_or_else(|| AbArgumentsError::usage("invalid URL"))?;
    let mut arguments = AbArguments::new(url);
    let mut order = DependentFlags::default();
    for (letter, value) in flags {
        match value {
            Some(value) => arguments.take(letter, value, &mut order)?,
            None => arguments.turn(letter, &mut order)?,
        }
    }
    arguments.settle(order)?;
    Ok(AbCommand::Load(Box::new(arguments)))
}

/// Values of flags whose effect depends on other flags.
#[derive(Debug, Default)]
struct DependentFlags {
    requests: Option<u64>,
    head: bool,
    /// `POST` or `PUT`, from `-p` or `-u`.
    with_body: Option<&'static str>,
    method: Option<String>,
}

impl AbArguments {
    fn new(url: AbUrl) -> AbArguments {
        AbArguments {
            requests: 1,
            concurrency: 1,
            timeout: Duration::from_secs(30),
            method: "GET".to_owned(),
            percentages: true,
            deviations: true,
            url,
            ..AbArguments::default()
        }
    }

    fn turn(&mut self, letter: char, order: &mut DependentFlags) -> Result<(), AbArgumentsError> {
        match letter {
            'l' => self.any_length = true,
            'k' => self.keepalive = true,
            'w' => drop(self.html.get_or_insert_default()),
            'i' => {
                no_other_method(order, "HEAD")?;
                order.head = true;
            }
            'I' => self.hides_name = true,
            'd' => self.percentages = false,
            'S' => self.deviations = false,
            'q' => self.quiet = true,
            // The only remaining flag is -r. It has no effect, because failures never end a prony
            // run.
            _ => {}
        }
        Ok(())
    }

    fn take(
        &mut self,
        letter: char,
        value: &str,
        order: &mut DependentFlags,
    ) -> Result<(), AbArgumentsError> {
        let text = || value.to_owned();
        match letter {
            'n' => order.requests = Some(positive(value, "number of requests")?),
            'c' => self.concurrency = positive(value, "concurrency")?,
            't' => {
                let seconds = number(value, "time limit")?;
                self.time_limit = (seconds > 0).then(|| Duration::from_secs(seconds));
                order.requests = Some(TIMED_REQUESTS);
            }
            's' => self.timeout = Duration::from_secs(positive(value, "timeout")?),
            'b' => self.window = window(value)?,
            'v' => self.verbosity = number(value, "verbosity")?.try_into().unwrap_or(u32::MAX),
            'B' => self.sources.extend(sources(value)?),
            'p' | 'u' => {
                let method = if letter == 'p' { "POST" } else { "PUT" };
                no_other_method(order, method)?;
                order.with_body = Some(method);
                self.body_file = Some(PathBuf::from(value));
            }
            'm' => order.method = Some(text()),
            'T' => self.content_type = Some(text()),
            'x' => self.html.get_or_insert_default().table = text(),
            'y' => self.html.get_or_insert_default().row = text(),
            'z' => self.html.get_or_insert_default().cell = text(),
            'C' => self.cookies.push(text()),
            'H' => self.headers.push(text()),
            'A' => self.login = Some(value.trim_start().to_owned()),
            'P' => self.proxy_login = Some(value.trim_start().to_owned()),
            'X' => self.proxy = Some(proxy(value)?),
            'g' => self.gnuplot = Some(PathBuf::from(value)),
            'e' => self.csv = Some(PathBuf::from(value)),
            'Z' => self.ciphers.extend(ciphers(value)),
            'f' => self.tls = tls(value)?,
            'E' => self.certificate = Some(PathBuf::from(value)),
            EXPECT_SIZE => {
                let size = quantity::size(value).map_err(|error| flagged("--expect-size", error));
                self.expected_size = Some(size?);
            }
            // The only remaining flag is --start-at.
            _ => {
                let moment = moment(value).map_err(|error| flagged("--start-at", error))?;
                self.start_at = Some(moment);
            }
        }
        Ok(())
    }

    fn settle(&mut self, order: DependentFlags) -> Result<(), AbArgumentsError> {
        self.requests = order.requests.unwrap_or(1);
        if self.concurrency > self.requests {
            let text = "Cannot use concurrency level greater than total number of requests";
            return Err(AbArgumentsError::usage(text));
        }
        let implied = match (order.head, order.with_body) {
            (true, _) => "HEAD",
            (false, Some(method)) => method,
            (false, None) => "GET",
        };
        self.method = order.method.unwrap_or_else(|| implied.to_owned());
        let is_letter =
            |byte: u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte);
        if self.method.is_empty() || !self.method.bytes().all(is_letter) {
            return Err(AbArgumentsError::value(format!(
                "Invalid method \"{}\"",
                self.method
            )));
        }
        Ok(())
    }
}

/// Checks that at most one of `-i`, `-p` and `-u` is used.
fn no_other_method(order: &DependentFlags, method: &str) -> Result<(), AbArgumentsError> {
    if order.head || order.with_body.is_some() {
        Err(AbArgumentsError::value(format!(
            "Cannot mix {method} with other methods"
        )))
    } else {
        Ok(())
    }
}

fn flagged(flag: &str, error: impl Into<SettingsError>) -> AbArgumentsError {
    AbArgumentsError::Value(error.into().at(flag))
}

fn invalid(what: &str, value: &str) -> AbArgumentsError {
    AbArgumentsError::value(format!("Invalid {what} \"{value}\""))
}

/// Parses a whole number. (ab accepts any prefix of digits, so that `-n 10k` means 10.)
fn number(value: &str, what: &str) -> Result<u64, AbArgumentsError> {
    let number = value.trim().parse::<u64>();
    number.map_err(|_| invalid(what, value))
}

fn positive(value: &str, what: &str) -> Result<u64, AbArgumentsError> {
    match number(value, what)? {
        0 => Err(invalid(what, value)),
        number => Ok(number),
    }
}

/// Parses `-b`. As in ab, 0 means the system's default.
fn window(value: &str) -> Result<Option<u32>, AbArgumentsError> {
    let bytes = u32::try_from(number(value, "window size")?)
        .ok()
        .filter(|bytes| *bytes <= i32::MAX as u32)
        .ok_or_else(|| invalid("window size", value))?;
    Ok(Some(bytes).filter(|bytes| *bytes > 0))
}

/// Parses `-B`: addresses, networks and ranges, separated by commas, or a host name of this
/// machine.
fn sources(value: &str) -> Result<Vec<SourceRange>, AbArgumentsError> {
    let one = |text: &str| {
        text.parse::<SourceRange>().or_else(|error| {
            let named = (text, 0).to_socket_addrs().ok();
            let address: Option<IpAddr> = named.and_then(|mut all| all.next()).map(|at| at.ip());
            address
                .ok_or_else(|| flagged("-B", error))?
                .to_string()
                .parse()
                .map_err(|error| flagged("-B", error))
        })
    };
    value.split(',').map(one).collect()
}

fn proxy(value: &str) -> Result<AbProxy, AbArgumentsError> {
    let wrong = || flagged("-X", format!("\"{value}\" is not PROXY[:PORT]"));
    let (host, port) = match value.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
        _ => (value, PROXY_PORT),
    };
    // Credentials must be given with -P instead, and a scheme is not allowed.
    if host.contains(['@', '/']) {
        return Err(wrong());
    }
    let target = format!("{host}:{port}").parse::<HttpProxy>();
    Ok(AbProxy {
        host: host.to_owned(),
        port,
        target: target.map_err(|_| wrong())?,
    })
}

/// Splits the value of `-Z` at OpenSSL's separators.
fn ciphers(value: &str) -> impl Iterator<Item = String> + '_ {
    value
        .split([':', ',', ' '])
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}

/// Parses `-f`. `None` means any version. Unlike prony, ab accepts unknown words and treats them as
/// any version.
fn tls(value: &str) -> Result<Option<TlsVersion>, AbArgumentsError> {
    match value.to_ascii_uppercase().as_str() {
        "ALL" => Ok(None),
        "TLS1.2" => Ok(Some(TlsVersion::Tls12)),
        "TLS1.3" => Ok(Some(TlsVersion::Tls13)),
        "SSL2" | "SSL3" | "TLS1" | "TLS1.0" | "TLS1.1" => {
            let error = SettingsError::from("the TLS library supports only TLS1.2 and TLS1.3");
            let error = error.hint("nothing was run").at(format!("-f {value}"));
            Err(AbArgumentsError::Refused(error.into()))
        }
        _ => {
            let error = SettingsError::from("not a protocol").hint("use TLS1.2, TLS1.3 or ALL");
            Err(flagged(&format!("-f {value}"), error))
        }
    }
}

/// Parses `--start-at`: seconds since 1970, as printed by `date +%s.%N`, or a time such as
/// `2026-01-31T12:00:00Z`.
fn moment(value: &str) -> Result<SystemTime, SettingsError> {
    let wrong = || SettingsError::from(format!("\"{value}\" is not a time"));
    let seconds = value.strip_prefix('@').unwrap_or(value);
    if let Ok(seconds) = seconds.parse::<f64>() {
        let since = Duration::try_from_secs_f64(seconds).ok();
        let moment = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
        return moment.ok_or_else(wrong);
    }
    timestamp(value).ok_or_else(|| {
        wrong()
            .hint("write seconds since 1970 (date +%s)")
            .hint("2026-01-31T12:00:00Z")
    })
}

/// Parses an RFC 3339 time, which ends with `Z` or an offset such as `+01:00`.
fn timestamp(value: &str) -> Option<SystemTime> {
    if let Some(time) = value.strip_suffix(['Z', 'z']) {
        return humantime::parse_rfc3339_weak(time).ok();
    }
    let (time, offset) = value.split_at_checked(value.len().checked_sub(6)?)?;
    let (hours, minutes) = offset.strip_prefix(['+', '-'])?.split_once(':')?;
    let minutes = hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?;
    let offset_from_utc = Duration::from_secs(minutes * 60);
    let time = humantime::parse_rfc3339_weak(time).ok()?;
    if offset.starts_with('+') {
        time.checked_sub(offset_from_utc)
    } else {
        time.checked_add(offset_from_utc)
    }
}

#[cfg(test)]
mod tests;
