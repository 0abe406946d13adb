//! The load flags that `prony load`, `prony capacity` and `prony compare URL URL` share.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgMatches, Args, FromArgMatches};
use prony_load::StatusSet;
use prony_load::{
    ArrivalRate, Arrivals, CoreList, Credentials, DataOrder, FormField, GatewayMac, HttpProxy,
    HttpVersion, IoChoice, LoadSettings, PUBLIC_VARIABLE, ProxyVersion, RequestOrder, Sha256,
    SourceOrder, SourceRange, Stage, ThinkTime, TlsVersion,
};
use prony_record::quantity;

/// Settings of a load, parsed from flags.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoadArguments {
    pub(crate) settings: LoadSettings,
}

impl FromArgMatches for LoadArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<LoadArguments, clap::Error> {
        let flags = LoadFlags::from_arg_matches(matches)?;
        Ok(LoadArguments {
            settings: flags.into(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = LoadArguments::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LoadArguments {
    fn augment_args(command: clap::Command) -> clap::Command {
        LoadFlags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        LoadFlags::augment_args_for_update(command)
    }
}

/// Values that a flag accepts, each with its help text.
type FlagChoices = &'static [(&'static str, &'static str)];

const ARRIVALS: FlagChoices = &[("constant", "Equal gaps"), ("poisson", "Exponential gaps")];
const HTTP_VERSIONS: FlagChoices = &[
    ("1.0", "HTTP/1.0"),
    ("1.1", "HTTP/1.1"),
    (
        "2",
        "HTTP/2: by ALPN over TLS, with prior knowledge in cleartext",
    ),
    ("3", "HTTP/3 over QUIC"),
];
const REQUEST_ORDERS: FlagChoices = &[
    ("sequence", "In list order, shared by all workers"),
    ("per-user", "In list order, by each virtual user"),
    (
        "random",
        "At random with equal probability, reproducible with --seed",
    ),
    (
        "weighted",
        "At random with the weights in the list, reproducible with --seed",
    ),
];
const DATA_ORDERS: FlagChoices = &[
    ("sequence", "In file order, shared by all workers"),
    ("random", "At random, reproducible with --seed"),
];
const SOURCE_ORDERS: FlagChoices = &[
    ("round-robin", "Each connection takes the next address"),
    (
        "random",
        "Each connection takes a random address, reproducible with --seed",
    ),
    (
        "per-user",
        "Each virtual user keeps its address when it reconnects; --connections sets the number \
            of users",
    ),
];
const PROXY_VERSIONS: FlagChoices = &[("v1", "A line of text"), ("v2", "Binary")];
const IO_CHOICES: FlagChoices = &[
    ("auto", "The fastest that this system supports"),
    ("uring", "Completions: io_uring, on Linux 6.1 and later"),
    ("poll", "Readiness: epoll on Linux, kqueue on FreeBSD"),
    (
        "xdp",
        "prony's own TCP over AF_XDP; needs --interface, root, and Linux 5.11 or later",
    ),
];

/// Parses a flag that accepts one of the values in `words`.
fn choice<T>(words: FlagChoices) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    let values = words
        .iter()
        .map(|(name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values).try_map(|word| word.parse())
}

/// The flags as declared for clap.
#[derive(Debug, clap::Args)]
struct LoadFlags {
    /// Connections to keep open [default: 50]
    #[arg(short = 'c', long, alias = "vus", value_name = "N", value_parser = quantity::count, help_heading = "Load")]
    connections: Option<u64>,
    /// Stop after N requests [default: no limit]
    #[arg(short = 'n', long, value_name = "N", value_parser = quantity::count, help_heading = "Load")]
    requests: Option<u64>,
    /// Length of the measurement, such as 500ms, 30s or 1m30s [default: 10s, or until --requests have finished]
    #[arg(short = 'd', long, short_alias = 'z', value_name = "TIME", value_parser = quantity::positive_time, help_heading = "Load")]
    duration: Option<Duration>,
    /// Duration of the warm-up, before the measurement [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = quantity::time, help_heading = "Load")]
    warmup: Option<Duration>,
    /// Total requests per second, such as 1000, 20k or 100:5000 (a linear ramp); switches to an open loop [default: closed loop, as fast as the server responds]
    #[arg(
        short = 'r',
        long,
        short_alias = 'R',
        alias = "rps",
        value_name = "N|A:B",
        help_heading = "Load"
    )]
    rate: Option<ArrivalRate>,
    /// Change the rate linearly to each RATE over its TIME, starting from 0; a TIME of 0s jumps [default: a constant rate]
    #[arg(
        long,
        value_name = "RATE@TIME,...",
        value_delimiter = ',',
        help_heading = "Load"
    )]
    stages: Vec<Stage>,
    /// Spacing of an open loop's requests [default: constant]
    #[arg(long, value_parser = choice::<Arrivals>(ARRIVALS), help_heading = "Load")]
    arrivals: Option<Arrivals>,
    /// Pause of each virtual user between its requests, such as 1s, or exp:1s for exponentially distributed pauses [default: none]
    #[arg(
        long,
        value_name = "TIME|exp:TIME",
        conflicts_with = "rate",
        help_heading = "Load"
    )]
    think: Option<ThinkTime>,
    /// Worker threads [default: one per core, but not more than connections]
    #[arg(short = 't', long, value_name = "N", value_parser = quantity::count, help_heading = "Load")]
    threads: Option<u64>,
    /// Cores to run the workers on, such as 1 or 0-3 [default: any]
    #[arg(long, value_name = "LIST", help_heading = "Load")]
    cores: Option<CoreList>,
    /// Seed of Poisson arrivals, think times and random orders [default: 0]
    #[arg(long, value_name = "N", help_heading = "Load")]
    seed: Option<u64>,

    /// Method of the requests [default: GET, or POST with --form]
    #[arg(short = 'X', long, help_heading = "Request")]
    method: Option<String>,
    /// Send this header; repeatable [default: Host, User-Agent and Accept only]
    #[arg(short = 'H', long, value_name = "K: V", help_heading = "Request")]
    header: Vec<String>,
    /// Send this user name and password with basic authentication, like credentials in the URL
    #[arg(
        short = 'u',
        long,
        value_name = "USER:PASSWORD",
        help_heading = "Request"
    )]
    user: Option<Credentials>,
    /// Body of the requests [default: none]
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "body_file",
        help_heading = "Request"
    )]
    body: Option<String>,
    /// File that holds the body of the requests [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Request")]
    body_file: Option<PathBuf>,
    /// Field of a multipart form, as for curl: "name=value", "name=@file;type=image/png;filename=a.png" (an upload) or "name=<file"; repeatable
    #[arg(
        short = 'F',
        long,
        value_name = "NAME=VALUE",
        conflicts_with_all = ["body", "body_file"],
        help_heading = "Request"
    )]
    form: Vec<FormField>,
    /// Send paths with /./ and /../ as they are [default: without these segments, like curl]
    #[arg(long, help_heading = "Request")]
    path_as_is: bool,
    /// HTTP version [default: over TLS the version that ALPN selects, 2 or 1.1; in cleartext 1.1]
    #[arg(long, value_parser = choice::<HttpVersion>(HTTP_VERSIONS), help_heading = "Request")]
    http: Option<HttpVersion>,
    /// Requests in flight on each HTTP/2 or HTTP/3 connection [default: 1]
    #[arg(long, value_name = "N", value_parser = quantity::count, help_heading = "Request")]
    streams: Option<u64>,
    /// Open a new connection for each request
    #[arg(long, alias = "disable-keepalive", help_heading = "Request")]
    no_keepalive: bool,
    /// Give each virtual user a cookie jar, so that it sends back cookies that responses set [default: cookies are ignored]
    #[arg(long, help_heading = "Request")]
    cookies: bool,
    /// A file (`-` for standard input) of requests, one per line: URL, "URL POST body", "URL POST <file" or JSON
    #[arg(long, value_name = "FILE", help_heading = "Request")]
    urls: Option<PathBuf>,
    /// Follow up to N redirects; a redirect chain counts as one request [default: 0]
    #[arg(long, value_name = "N", help_heading = "Request")]
    follow: Option<u64>,
    /// Order in which the --urls are requested [default: sequence; per-user with --cookies; weighted if any has a weight]
    #[arg(long, value_parser = choice::<RequestOrder>(REQUEST_ORDERS), help_heading = "Request")]
    order: Option<RequestOrder>,
    /// A CSV file with values for {{column}} in URLs, headers and bodies; {{seq}}, {{uuid}}, {{random(1,9)}} need no file
    #[arg(long, value_name = "FILE", help_heading = "Request")]
    data: Option<PathBuf>,
    /// Order in which requests take the rows of --data [default: sequence]
    #[arg(long, requires = "data", value_parser = choice::<DataOrder>(DATA_ORDERS), help_heading = "Request")]
    data_order: Option<DataOrder>,
    /// A Lua script with wrk's hooks that generates the requests: request(), response(), delay(), done()
    #[arg(long, value_name = "FILE", help_heading = "Request")]
    script: Option<PathBuf>,
    /// Argument for init() of the script; repeatable; or put all arguments after -- at the end
    #[arg(
        long,
        value_name = "ARG",
        requires = "script",
        allow_hyphen_values = true,
        help_heading = "Request"
    )]
    script_args: Vec<String>,
    /// Arguments for init() of the script
    #[arg(
        last = true,
        value_name = "SCRIPT_ARGS",
        requires = "script",
        conflicts_with = "script_args",
        help_heading = "Request",
        hide = true
    )]
    words_of_script: Vec<String>,

    /// Connect to this UNIX socket; the URL then sets only the host and path of requests
    #[arg(
        long,
        alias = "unix-socket",
        value_name = "PATH",
        help_heading = "Connection"
    )]
    unix: Option<PathBuf>,
    /// Send requests through this HTTP proxy, also http://USER:PASSWORD@HOST:PORT; https uses tunnels
    #[arg(
        long,
        value_name = "HOST:PORT",
        conflicts_with = "unix",
        help_heading = "Connection"
    )]
    proxy: Option<HttpProxy>,
    /// Connect from these addresses of this machine; repeatable
    #[arg(
        long,
        value_name = "ADDR|CIDR|FIRST-LAST",
        value_delimiter = ',',
        conflicts_with = "unix",
        help_heading = "Connection"
    )]
    source: Vec<SourceRange>,
    /// Assignment of source addresses to connections; per-user: each of --connections keeps its own [default: round-robin]
    #[arg(long, value_name = "ORDER", value_parser = choice::<SourceOrder>(SOURCE_ORDERS), help_heading = "Connection")]
    source_order: Option<SourceOrder>,
    /// Begin each connection with a PROXY protocol header that contains the connection's addresses
    #[arg(long, value_name = "VERSION", value_parser = choice::<ProxyVersion>(PROXY_VERSIONS), help_heading = "Connection")]
    proxy_protocol: Option<ProxyVersion>,
    /// Put these addresses into the PROXY protocol header instead, written like those of --source; repeatable
    #[arg(
        long,
        value_name = "ADDRS",
        value_delimiter = ',',
        requires = "proxy_protocol",
        help_heading = "Connection"
    )]
    proxy_source: Vec<SourceRange>,
    /// Connect to ADDR (or the first of ADDR,ADDR… that accepts) for HOST:PORT without a name lookup; repeatable
    #[arg(long, value_name = "HOST:PORT:ADDR", help_heading = "Connection")]
    resolve: Vec<String>,
    /// Give up on a request after TIME; 0 means never [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = quantity::time, help_heading = "Connection")]
    timeout: Option<Duration>,
    /// Give up on an attempt to connect after TIME [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, help_heading = "Connection")]
    connect_timeout: Option<Duration>,
    /// Before the load, wait up to TIME (30s if omitted) for the server to accept connections [default: no wait; the load ends after 1s if all connections are refused]
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "30s",
        value_parser = quantity::positive_time,
        help_heading = "Connection"
    )]
    wait_for_server: Option<Duration>,
    /// Send and receive buffer size of each TCP socket, such as 64K [default: the system's]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, help_heading = "Connection")]
    socket_buffer: Option<u64>,
    /// Kernel interface for sockets [default: auto]
    #[arg(long, value_parser = choice::<IoChoice>(IO_CHOICES), help_heading = "Connection")]
    io: Option<IoChoice>,
    /// Network interface for --io xdp [default: none]
    #[arg(long, value_name = "NAME", help_heading = "Connection")]
    interface: Option<String>,
    /// MAC address of the next hop for --io xdp [default: from the kernel's tables]
    #[arg(long, value_name = "MAC", help_heading = "Connection")]
    gateway_mac: Option<GatewayMac>,
    /// Spin instead of sleeping with --io xdp: reacts sooner, but uses the cores completely
    #[arg(long, help_heading = "Connection")]
    busy_poll: bool,

    /// Status codes that count as success [default: 200-399]
    #[arg(long, value_name = "LIST", help_heading = "Expectations")]
    expect_status: Option<StatusSet>,
    /// Count a response as failed if its body doesn't have this size, such as 512 or 10K [default: any size]
    #[arg(long, value_name = "N", value_parser = quantity::size, help_heading = "Expectations")]
    expect_size: Option<u64>,
    /// Count a response as failed if its body doesn't have this SHA-256 [default: any body]
    #[arg(long, value_name = "HEX", help_heading = "Expectations")]
    expect_sha256: Option<Sha256>,

    /// Accept any server certificate
    #[arg(short = 'k', long, help_heading = "TLS")]
    insecure: bool,
    /// Trust the certificates in this PEM file [default: the system's]
    #[arg(
        long,
        alias = "cacert",
        value_name = "FILE",
        conflicts_with = "insecure",
        help_heading = "TLS"
    )]
    ca: Option<PathBuf>,
    /// Certificate chain of the client, as PEM; the file may also contain the private key [default: none]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    cert: Option<PathBuf>,
    /// Private key of the client, as PEM [default: the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    key: Option<PathBuf>,
    /// Server name to send in the handshake [default: the URL's host]
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    sni: Option<String>,
    /// Minimum TLS version [default: 1.2]
    #[arg(long, value_name = "1.2|1.3", help_heading = "TLS")]
    tls_min: Option<TlsVersion>,
    /// Maximum TLS version [default: 1.3]
    #[arg(long, value_name = "1.2|1.3", help_heading = "TLS")]
    tls_max: Option<TlsVersion>,
    /// Cipher suites to offer, by their IANA or OpenSSL names, separated by commas [default: the library's]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = "TLS")]
    ciphers: Vec<String>,
    /// Make a full handshake on every connection
    #[arg(long, help_heading = "TLS")]
    no_resumption: bool,
    /// HTTP/3: send GET and HEAD before a resumed handshake ends (0-RTT)
    #[arg(long, help_heading = "TLS")]
    early_data: bool,

    /// Handle each response as it arrives, also in closed loops with many requests in flight
    #[arg(long, help_heading = "Connection")]
    no_coalescing: bool,

    /// Allow a target outside the loopback and private ranges
    #[arg(
        long,
        env = PUBLIC_VARIABLE,
        hide_env_values = true,
        value_parser = clap::builder::FalseyValueParser::new(),
        help_heading = "Connection"
    )]
    public: bool,
}

impl From<LoadFlags> for LoadSettings {
    fn from(flags: LoadFlags) -> LoadSettings {
        LoadSettings {
            connections: flags.connections,
            requests: flags.requests,
            duration: flags.duration,
            warmup: flags.warmup,
            rate: flags.rate,
            stages: flags.stages,
            arrivals: flags.arrivals,
            think: flags.think,
            threads: flags.threads,
            cores: flags.cores,
            seed: flags.seed,
            method: flags.method,
            header: flags.header,
            user: flags.user,
            body: flags.body,
            body_file: flags.body_file,
            form: flags.form,
            path_as_is: flags.path_as_is,
            http: flags.http,
            streams: flags.streams,
            no_keepalive: flags.no_keepalive,
            cookies: flags.cookies,
            urls: flags.urls,
            follow: flags.follow,
            order: flags.order,
            data: flags.data,
            data_order: flags.data_order,
            script: flags.script,
            script_args: match flags.script_args.is_empty() {
                true => flags.words_of_script,
                false => flags.script_args,
            },
            unix: flags.unix,
            proxy: flags.proxy,
            source: flags.source,
            source_order: flags.source_order,
            proxy_protocol: flags.proxy_protocol,
            proxy_source: flags.proxy_source,
            resolve: flags.resolve,
            timeout: flags.timeout,
            connect_timeout: flags.connect_timeout,
            wait_for_server: flags.wait_for_server,
            socket_buffer: flags.socket_buffer,
            io: flags.io,
            interface: flags.interface,
            gateway_mac: flags.gateway_mac,
            busy_poll: flags.busy_poll,
            expect_status: flags.expect_status,
            expect_size: flags.expect_size,
            expect_sha256: flags.expect_sha256,
            insecure: flags.insecure,
            ca: flags.ca,
            cert: flags.cert,
            key: flags.key,
            sni: flags.sni,
            tls_min: flags.tls_min,
            tls_max: flags.tls_max,
            ciphers: flags.ciphers,
            no_resumption: flags.no_resumption,
            early_data: flags.early_data,
            no_coalescing: flags.no_coalescing,
            public: flags.public,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        load: LoadArguments,
    }

    fn parsed(words: &[&str]) -> Result<LoadSettings, String> {
        Typed::try_parse_from(std::iter::once(&"prony").chain(words))
            .map(|typed| typed.load.settings)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_the_settings() {
        let command = LoadArguments::augment_args(clap::Command::new("load"));
        let flags = command.get_arguments().filter_map(clap::Arg::get_long);
        let flags: BTreeSet<String> = flags.map(|flag| flag.replace('-', "_")).collect();
        let keys = LoadSettings::KEYS.iter().map(|key| (*key).to_owned());
        assert_eq!(flags, keys.collect());
        assert_eq!(parsed(&[]).unwrap(), LoadSettings::from_environment());
    }

    #[test]
    fn words_of_flags_are_those_of_the_settings() {
        for (words, names) in [
            (ARRIVALS, Arrivals::NAMES),
            (HTTP_VERSIONS, HttpVersion::NAMES),
            (REQUEST_ORDERS, RequestOrder::NAMES),
            (DATA_ORDERS, DataOrder::NAMES),
            (SOURCE_ORDERS, SourceOrder::NAMES),
            (PROXY_VERSIONS, ProxyVersion::NAMES),
            (IO_CHOICES, IoChoice::NAMES),
        ] {
            assert!(words.iter().map(|(name, _)| name).eq(names));
        }
    }

    #[test]
    fn every_flag_has_a_help_text_and_a_heading() {
        let command = LoadArguments::augment_args(clap::Command::new("load"));
        for arg in command.get_arguments() {
            assert!(arg.get_help().is_some(), "{}", arg.get_id());
            assert!(arg.get_help_heading().is_some(), "{}", arg.get_id());
        }
    }

    #[test]
    fn short_flags_and_those_of_other_tools_are_accepted() {
        let words = "--vus 3 --rps 5 -z 1s --disable-keepalive --unix-socket /s --cacert f";
        let words: Vec<&str> = words.split(' ').collect();
        let settings = parsed(&words).unwrap();
        assert_eq!(
            (settings.connections, settings.rate),
            (Some(3), Some(5.0.into()))
        );
        assert!(settings.no_keepalive && settings.unix.is_some() && settings.ca.is_some());
        let settings = parsed(&["-R", "5", "-k", "--wait-for-server"]).unwrap();
        assert!(settings.insecure);
        assert_eq!(settings.wait_for_server, Some(Duration::from_secs(30)));
    }

    /// Command lines with an invalid flag. The first flag of each command line causes the error.
    const BAD: &[&str] = &[
        "-r 5:x",
        "--stages 5@1y",
        "-c 0",
        "-d 0s",
        "--cores a",
        "--user me",
        "--seed x",
        "--http 4",
        "--io epoll",
        "--order upside",
        "--wait-for-server=x",
        "--expect-status 20",
        "--expect-sha256 12",
        "--tls-min 1.1",
        "--think soon",
        "--think 1s --rate 5",
        "--source 127.0.0.0/33",
        "--source 127.0.0.2 --unix /s",
        "--proxy https://h:1",
        "--proxy h:1 --unix /s",
        "--proxy-source 127.0.0.2",
        "--script-args a",
        "--body x --body-file f",
    ];

    #[test]
    fn errors_name_the_refused_flag() {
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
        let error = parsed(&["--tls-min", "1.1"]).unwrap_err();
        assert!(
            error.contains("TLS 1.1 is not supported by this TLS library"),
            "{error}"
        );
    }
}
