//! A load as it was typed: flags of `prony load` and `prony compare URL_A URL_B`, and the keys of a
//! plan's `[load]`, which are the same words with `_` for `-`.
//!
//! Nothing is decided here; [`crate::LoadSpec::resolve`] turns it into a load.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::credentials::Credentials;
use crate::forward::HttpProxy;
use crate::permits::Permits;
use crate::quantity::{self, StatusSet};
use crate::source::SourceRange;
use crate::urls;

/// The order in which a list of URLs is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// One after another, as one client would, however many workers share the list.
    Sequence,
    /// Each drawn at random with equal chance, repeatable by the seed.
    Random,
}

/// `--arrivals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsFlag {
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
}

/// `--http`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HttpFlag {
    /// HTTP/1.0.
    #[value(name = "1.0")]
    Http10,
    /// HTTP/1.1.
    #[value(name = "1.1")]
    Http11,
    /// HTTP/2: over TLS by ALPN, in clear by prior knowledge.
    #[value(name = "2")]
    Http2,
}

impl HttpFlag {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            HttpFlag::Http10 => "1.0",
            HttpFlag::Http11 => "1.1",
            HttpFlag::Http2 => "2",
        }
    }
}

/// `--tls-min` and `--tls-max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl TlsVersion {
    fn parse(typed: &str) -> Result<TlsVersion, String> {
        match typed {
            "1.2" => Ok(TlsVersion::Tls12),
            "1.3" => Ok(TlsVersion::Tls13),
            _ => {
                let lacking = match typed {
                    "1.0" | "1.1" => format!("TLS {typed}"),
                    other => format!("\"{other}\""),
                };
                Err(format!(
                    "{lacking} is not in this TLS library; it has 1.2 and 1.3"
                ))
            }
        }
    }
}

/// `--source-order`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SourceOrder {
    /// Each connection takes the next address
    #[default]
    RoundRobin,
    /// Each connection draws one, repeatable by the seed
    Random,
    /// Each virtual user, which is one of --connections, keeps its own for all of its connections
    PerUser,
}

/// `--proxy-protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProxyVersion {
    /// A line of text
    V1,
    /// Binary
    V2,
}

/// `--io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IoFlag {
    /// The best that this system allows.
    Auto,
    /// Completions: io_uring, on Linux 6.1 and later.
    Uring,
    /// Readiness: epoll on Linux, kqueue on FreeBSD.
    Poll,
}

/// The flags that describe a load.
#[derive(Debug, Clone, clap::Args)]
pub struct LoadOptions {
    /// Connections to keep open
    #[arg(short = 'c', long, alias = "vus", value_name = "N", default_value = "50", value_parser = quantity::count, help_heading = "Load")]
    pub connections: u64,
    /// Stop after N requests [default: no limit]
    #[arg(short = 'n', long, value_name = "N", value_parser = quantity::count, help_heading = "Load")]
    pub requests: Option<u64>,
    /// How long to measure, such as 500ms, 30s or 5m [default: 10s, or until --requests are made]
    #[arg(short = 'd', long, short_alias = 'z', value_name = "TIME", value_parser = quantity::positive_time, help_heading = "Load")]
    pub duration: Option<Duration>,
    /// How long to load before measuring begins
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::time, help_heading = "Load")]
    pub warmup: Duration,
    /// Requests per second in total, such as 1000 or 20k; makes the loop open [default: closed loop, as fast as the server responds]
    #[arg(short = 'r', long, short_alias = 'R', alias = "rps", value_name = "N", value_parser = quantity::rate, help_heading = "Load")]
    pub rate: Option<f64>,
    /// Spacing of an open loop's requests [default: constant]
    #[arg(long, value_enum, requires = "rate", help_heading = "Load")]
    pub arrivals: Option<ArrivalsFlag>,
    /// Worker threads [default: one per core, at most one per connection]
    #[arg(short = 't', long, value_name = "N", value_parser = quantity::count, help_heading = "Load")]
    pub threads: Option<u64>,
    /// Cores to run the workers on, such as 1 or 0-3 [default: any]
    #[arg(long, value_name = "LIST", value_parser = CoreList::parse, help_heading = "Load")]
    pub cores: Option<CoreList>,
    /// Seed of Poisson arrivals and of random orders
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Load")]
    pub seed: u64,

    /// Method of the requests
    #[arg(short = 'X', long, default_value = "GET", help_heading = "Request")]
    pub method: String,
    /// Send this header; repeatable [default: none but Host, User-Agent and Accept]
    #[arg(short = 'H', long, value_name = "K: V", help_heading = "Request")]
    pub header: Vec<String>,
    /// Send this user and password (basic authentication), as credentials in the URL would
    #[arg(
        short = 'u',
        long,
        value_name = "USER:PASSWORD",
        help_heading = "Request"
    )]
    pub user: Option<Credentials>,
    /// Body of the requests [default: none]
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "body_file",
        help_heading = "Request"
    )]
    pub body: Option<String>,
    /// File that holds the body of the requests [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Request")]
    pub body_file: Option<PathBuf>,
    /// The HTTP version to speak [default: over TLS what ALPN agrees on, 2 or 1.1; in cleartext 1.1]
    #[arg(long, value_enum, help_heading = "Request")]
    pub http: Option<HttpFlag>,
    /// Requests in flight on each HTTP/2 connection
    #[arg(long, value_name = "N", default_value = "1", value_parser = quantity::count, help_heading = "Request")]
    pub streams: u64,
    /// Open a connection for each request
    #[arg(long, alias = "disable-keepalive", help_heading = "Request")]
    pub no_keepalive: bool,
    /// A file with one request a line: URL, "URL POST body" or "URL POST <file"
    #[arg(long, value_name = "FILE", help_heading = "Request")]
    pub urls: Option<PathBuf>,
    /// Follow up to N redirects; a redirect chain counts as one request
    #[arg(long, value_name = "N", default_value = "0", help_heading = "Request")]
    pub follow: u64,
    /// Whether a redirect beyond `follow` fails its request (`redirect`); else it is its answer. Of
    /// use to those who stand in for a client that fails so; there is no flag for it.
    #[arg(skip)]
    pub fails_beyond_follow: bool,
    /// Order in which the --urls are requested
    #[arg(long, value_enum, default_value = "sequence", help_heading = "Request")]
    pub order: Order,

    /// Connect to this UNIX socket; the URL then only names host and path
    #[arg(
        long,
        alias = "unix-socket",
        value_name = "PATH",
        help_heading = "Connection"
    )]
    pub unix: Option<PathBuf>,
    /// Send requests through this HTTP proxy, also http://USER:PASSWORD@HOST:PORT; https goes through its tunnels
    #[arg(
        long,
        value_name = "HOST:PORT",
        conflicts_with = "unix",
        help_heading = "Connection"
    )]
    pub proxy: Option<HttpProxy>,
    /// `USER:PASSWORD` for the proxy, in place of those in `proxy`. There is no flag for it.
    #[arg(skip)]
    pub proxy_auth: Option<String>,
    /// Connect from these addresses of this machine; repeatable
    #[arg(
        long,
        value_name = "ADDR|CIDR|FIRST-LAST",
        value_delimiter = ',',
        conflicts_with = "unix",
        help_heading = "Connection"
    )]
    pub source: Vec<SourceRange>,
    /// How a connection's source is chosen; per-user: each of --connections keeps its own [default: round-robin]
    #[arg(long, value_name = "ORDER", value_enum, help_heading = "Connection")]
    pub source_order: Option<SourceOrder>,
    /// Begin each connection with a PROXY protocol header that carries its own address
    #[arg(long, value_name = "VERSION", value_enum, help_heading = "Connection")]
    pub proxy_protocol: Option<ProxyVersion>,
    /// Put these addresses into the header instead, written like those of --source; repeatable
    #[arg(
        long,
        value_name = "ADDRS",
        value_delimiter = ',',
        requires = "proxy_protocol",
        help_heading = "Connection"
    )]
    pub proxy_source: Vec<SourceRange>,
    /// Connect to ADDR for HOST:PORT without looking the name up; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDR", help_heading = "Connection")]
    pub resolve: Vec<String>,
    /// Give up a request after TIME; 0 means never
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = quantity::time, help_heading = "Connection")]
    pub timeout: Duration,
    /// Give up an attempt to connect after TIME
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = quantity::positive_time, help_heading = "Connection")]
    pub connect_timeout: Duration,
    /// Wait up to TIME, 30s if none is given, for the server to accept connections before the load begins [default: no wait; a load whose connects are all refused ends after 1s]
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "30s",
        value_parser = quantity::positive_time,
        help_heading = "Connection"
    )]
    pub wait_for_server: Option<Duration>,
    /// Send and receive buffers of each TCP socket, in bytes or like 64K [default: the system's]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, help_heading = "Connection")]
    pub socket_buffer: Option<u64>,
    /// Interface to the kernel for sockets
    #[arg(long, value_enum, default_value = "auto", help_heading = "Connection")]
    pub io: IoFlag,

    /// Statuses that count as success
    #[arg(long, value_name = "LIST", default_value = "200-399", value_parser = quantity::statuses, help_heading = "Expectations")]
    pub expect_status: StatusSet,
    /// Fail a request whose body is not of this size, in bytes or like 10K [default: any size]
    #[arg(long, value_name = "N", value_parser = quantity::size, help_heading = "Expectations")]
    pub expect_size: Option<u64>,
    /// Fail a request whose body has another SHA-256 [default: any body]
    #[arg(long, value_name = "HEX", value_parser = Sha256::parse, help_heading = "Expectations")]
    pub expect_sha256: Option<Sha256>,

    /// Accept any server certificate
    #[arg(short = 'k', long, help_heading = "TLS")]
    pub insecure: bool,
    /// Trust the certificates in this PEM file [default: the system's]
    #[arg(
        long,
        alias = "cacert",
        value_name = "FILE",
        conflicts_with = "insecure",
        help_heading = "TLS"
    )]
    pub ca: Option<PathBuf>,
    /// Certificate chain of the client, as PEM [default: none]
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "TLS")]
    pub cert: Option<PathBuf>,
    /// Private key of the client, as PEM [default: none]
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    pub key: Option<PathBuf>,
    /// Server name to ask for in the handshake [default: the URL's host]
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    pub sni: Option<String>,
    /// The lowest TLS version to offer [default: 1.2]
    #[arg(long, value_name = "1.2|1.3", value_parser = TlsVersion::parse, help_heading = "TLS")]
    pub tls_min: Option<TlsVersion>,
    /// The highest TLS version to offer [default: 1.3]
    #[arg(long, value_name = "1.2|1.3", value_parser = TlsVersion::parse, help_heading = "TLS")]
    pub tls_max: Option<TlsVersion>,
    /// Cipher suites to offer, by their IANA or OpenSSL names, separated by commas [default: the library's]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "TLS")]
    pub ciphers: Vec<String>,
    /// Make a full handshake on every connection
    #[arg(long, help_heading = "TLS")]
    pub no_resumption: bool,

    /// Allow a target outside the loopback, private and link-local ranges
    #[arg(
        long,
        env = "PRONY_PUBLIC",
        hide_env_values = true,
        value_parser = clap::builder::FalseyValueParser::new(),
        help_heading = "Connection"
    )]
    pub public: bool,
    /// Who says what may be loaded, in place of `public`: of use to those who load what others say.
    /// There is no flag for it.
    #[arg(skip)]
    pub permits: Option<Permits>,
}

/// The flags alone.
#[derive(clap::Parser)]
#[command(name = "load", disable_help_flag = true)]
struct Typed {
    #[command(flatten)]
    load: LoadOptions,
}

impl Default for LoadOptions {
    /// As if nothing was typed, and nothing set in the environment but `PRONY_PUBLIC`.
    fn default() -> LoadOptions {
        Typed::parse_from(["load"]).load
    }
}

/// How long is measured where neither a time nor a number of requests says so.
const USUAL: Duration = Duration::from_secs(10);

impl LoadOptions {
    /// As if these words were typed, each an option or its value.
    ///
    /// # Errors
    ///
    /// In words, which may take several lines.
    pub fn parse_words(words: &[String]) -> Result<LoadOptions, String> {
        let words = words.iter().map(String::as_str);
        match Typed::try_parse_from(std::iter::once("load").chain(words)) {
            Ok(typed) => Ok(typed.load),
            Err(error) => Err(error.to_string().trim().to_owned()),
        }
    }

    /// The length of the measured part, where time ends it.
    pub fn planned(&self) -> Option<Duration> {
        match (self.duration, self.requests) {
            (None, None) => Some(USUAL),
            (duration, _) => duration,
        }
    }

    /// Every file that the load reads, those that its list of URLs names among them, each as it is
    /// opened.
    ///
    /// # Errors
    ///
    /// Where the list can't be read; the text names it.
    pub fn files(&self) -> Result<Vec<PathBuf>, String> {
        let named = [&self.body_file, &self.urls, &self.ca, &self.cert, &self.key];
        let mut files: Vec<PathBuf> = named.into_iter().flatten().cloned().collect();
        if let Some(list) = &self.urls {
            files.extend(urls::bodies(list).map_err(|error| error.to_string())?);
        }
        Ok(files)
    }
}

#[cfg(test)]
impl LoadOptions {
    /// As if these words were typed.
    pub(crate) fn typed(words: &str) -> LoadOptions {
        Typed::parse_from(std::iter::once("load").chain(words.split_whitespace())).load
    }
}

/// A list of cores as one value: a bare vector would make the flag repeatable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreList(pub Vec<usize>);

impl CoreList {
    fn parse(typed: &str) -> Result<CoreList, String> {
        quantity::cores(typed).map(CoreList)
    }
}

/// A SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    fn parse(typed: &str) -> Result<Sha256, String> {
        quantity::sha256(typed).map(Sha256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Parser};

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        load: LoadOptions,
    }

    fn parsed(words: &[&str]) -> Result<LoadOptions, String> {
        Typed::try_parse_from(std::iter::once(&"prony").chain(words))
            .map(|typed| typed.load)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let load = parsed(&[]).unwrap();
        assert_eq!(
            (load.connections, load.requests, load.duration),
            (50, None, None)
        );
        assert_eq!(load.timeout, Duration::from_secs(20));
        assert_eq!(load.connect_timeout, Duration::from_secs(5));
        assert_eq!((load.method.as_str(), load.http), ("GET", None));
        assert!(load.expect_status.contains(399) && !load.expect_status.contains(400));
    }

    #[test]
    fn every_flag_has_a_help_text_and_every_value_a_name() {
        let command = LoadOptions::augment_args(clap::Command::new("load"));
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "{}", arg.get_id());
            assert!(arg.get_help_heading().is_some(), "{}", arg.get_id());
        }
    }

    /// Words that are taken.
    const GOOD: &[&str] = &[
        "-c 10",
        "-n 1k",
        "-d 500ms",
        "--warmup 0s",
        "-r 20k",
        "-t 2",
        "--cores 0-1,3",
        "--seed 7",
        "-X PUT",
        "-u me:secret --body x",
        "--vus 3 --rps 5 -z 1s --disable-keepalive --unix-socket /s",
        "-R 5 -k",
        "--cacert f",
        "--body-file f",
        "--http 1.0",
        "--http 2 --streams 100",
        "--no-keepalive",
        "--follow 0",
        "--follow 20",
        "--urls f",
        "--order random",
        "--unix /s",
        "--proxy h:3128",
        "--proxy http://u:p@[::1]:3128/",
        "--source 127.0.0.2",
        "--source 127.0.0.0/30 --source ::1-::9",
        "--source 127.0.0.2,127.0.0.9 --source-order per-user",
        "--source-order round-robin",
        "--source-order random",
        "--proxy-protocol v1 --unix /s",
        "--proxy-protocol v2 --proxy-source 10.0.0.0/8 --proxy-source fd00::1",
        "--timeout 0s",
        "--connect-timeout 1s",
        "--wait-for-server",
        "--wait-for-server=5s",
        "--io poll",
        "--io uring",
        "--socket-buffer 64K",
        "--expect-status 200,404",
        "--expect-size 1K",
        "--insecure",
        "--ca f",
        "--cert f --key k",
        "--sni n",
        "--tls-min 1.2",
        "--tls-max 1.3",
        "--ciphers a,b",
        "--no-resumption",
        "--public",
        "-r 5 --arrivals poisson",
    ];

    /// Words of which the flag that comes first is refused.
    const BAD: &[&str] = &[
        "-c 0",
        "-c x",
        "-n -1",
        "-d 0s",
        "-d 5x",
        "-r 0",
        "-t 0",
        "--cores a",
        "--user me",
        "--seed x",
        "--http 3",
        "--streams 0",
        "--follow x",
        "--io epoll",
        "--socket-buffer x",
        "--order upside",
        "--connect-timeout 0s",
        "--wait-for-server=x",
        "--expect-status 20",
        "--expect-size x",
        "--expect-sha256 12",
        "--tls-min 1.1",
        "--cert f",
        "--arrivals poisson",
        "--source 127.0.0.0/33",
        "--source 127.0.0.2 --unix /s",
        "--source-order upside",
        "--proxy https://h:1",
        "--proxy h:1 --unix /s",
        "--proxy-protocol v3",
        "--proxy-source 127.0.0.2",
        "--proxy-source x --proxy-protocol v1",
        "--body x --body-file f",
    ];

    #[test]
    fn each_flag_takes_its_unit_and_refuses_another() {
        for words in GOOD {
            let words: Vec<_> = words.split(' ').collect();
            parsed(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
        for words in BAD {
            let words: Vec<_> = words.split(' ').collect();
            let error = parsed(&words)
                .err()
                .unwrap_or_else(|| panic!("{words:?} was accepted"));
            let flag = words.iter().find(|word| word.starts_with('-')).unwrap();
            let flag = flag.split('=').next().unwrap();
            assert!(
                error.contains(flag.trim_start_matches('-')),
                "{words:?}: {error}"
            );
        }
    }

    #[test]
    fn versions_of_tls_that_the_library_lacks_are_refused_by_name() {
        for (words, told) in [
            (["--tls-min", "1.1"], "TLS 1.1 is not in this TLS library"),
            (["--tls-max", "1.0"], "it has 1.2 and 1.3"),
            (["--tls-min", "ssl3"], "\"ssl3\" is not in this TLS library"),
        ] {
            let error = parsed(&words).unwrap_err();
            assert!(error.contains(told), "{words:?}: {error}");
        }
    }
}
