//! Reference for all keys of a plan: type, default, example and meaning.
//!
//! `docs/plan.md`, `prony man plan` and the JSON schema of plans are generated from these tables. A
//! test checks that every key that plans accept is documented.

use prony_load::{LoadSettings, Setting, ValueKind};
use prony_record::sampling::{DEFAULT_RATE_HZ, RATE_HZ_MAX};

/// Type of a key's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueType {
    /// A string.
    Text,
    /// A path; relative paths are resolved against the plan's folder.
    Path,
    /// `true` or `false`.
    Bool,
    /// A whole number from `min` to `max`.
    Integer {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value.
        max: u64,
    },
    /// A whole number, or a string such as `"20k"`.
    Count,
    /// Requests per second: a number, or a string such as `"20k"` or `"1200/m"`.
    Rate,
    /// A string with a unit: `"500ms"`, `"30s"`, `"5m"`.
    Time,
    /// Bytes: a whole number, or a string such as `"64K"`.
    Size,
    /// A percentage, such as `"2%"`.
    Percent,
    /// Bits per second, such as `"1Gbit"`.
    BitRate,
    /// Core numbers: `2`, `"0-3,6"` or `[0, 1]`.
    Cores,
    /// One string, or an array of strings.
    List,
    /// A table of strings.
    TextTable,
    /// One word from a fixed list.
    Choice(Vec<String>),
    /// A table whose keys are documented in another section.
    Table,
    /// An array of tables.
    TableArray,
    /// One of several types.
    Either(Vec<ValueType>),
}

/// A key of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceKey {
    /// Name of the key.
    pub name: &'static str,
    /// Type of the value.
    pub value: ValueType,
    /// Default, in words or as a value; empty if there is none.
    pub default: String,
    /// Example value in TOML; empty if there is none.
    pub example: String,
    /// Meaning of the key, as one phrase.
    pub meaning: String,
    /// True if the key is required.
    pub required: bool,
}

/// The keys of one table in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceSection {
    /// Heading of the table as written in a plan, such as `[service.NAME]`, or [`TOP_LEVEL`].
    pub heading: &'static str,
    /// True if values may contain templates such as `"{{ socket.listen }}"`.
    pub templates: bool,
    /// Keys in their usual order.
    pub keys: Vec<ReferenceKey>,
}

/// Returns the sections of a plan that have fixed keys. Factors, levels and environment variables
/// are omitted, because the plan's author chooses their names.
pub fn sections() -> Vec<ReferenceSection> {
    let sections = PlanTable::ALL.iter().map(|table| ReferenceSection {
        heading: table.heading(),
        templates: !matches!(
            table,
            PlanTable::TopLevel | PlanTable::Trials | PlanTable::Blocks | PlanTable::Host
        ),
        keys: table.keys(),
    });
    sections.collect()
}

/// A table of a plan whose keys are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanTable {
    TopLevel,
    Trials,
    Blocks,
    Service,
    Build,
    Ready,
    File,
    Load,
    Step,
    Capture,
    Place,
    Link,
    Host,
    Telemetry,
}

impl PlanTable {
    const ALL: [PlanTable; 14] = [
        PlanTable::TopLevel,
        PlanTable::Trials,
        PlanTable::Blocks,
        PlanTable::Service,
        PlanTable::Build,
        PlanTable::Ready,
        PlanTable::File,
        PlanTable::Load,
        PlanTable::Step,
        PlanTable::Capture,
        PlanTable::Place,
        PlanTable::Link,
        PlanTable::Host,
        PlanTable::Telemetry,
    ];

    fn heading(self) -> &'static str {
        match self {
            PlanTable::TopLevel => TOP_LEVEL,
            PlanTable::Trials => "[trials]",
            PlanTable::Blocks => "blocks of [trials]",
            PlanTable::Service => "[service.NAME]",
            PlanTable::Build => "build of [service.NAME]",
            PlanTable::Ready => "ready of [service.NAME]",
            PlanTable::File => "[service.NAME.files]",
            PlanTable::Load => "[load]",
            PlanTable::Step => "[[load.step]]",
            PlanTable::Capture => "capture.NAME of [[load.step]]",
            PlanTable::Place => "[place.NAME]",
            PlanTable::Link => "[link.NAME]",
            PlanTable::Host => "[host.NAME]",
            PlanTable::Telemetry => "[telemetry]",
        }
    }

    fn keys(self) -> Vec<ReferenceKey> {
        match self {
            PlanTable::TopLevel => top_level(),
            PlanTable::Trials => trials(),
            PlanTable::Blocks => blocks(),
            PlanTable::Service => service(),
            PlanTable::Build => build(),
            PlanTable::Ready => ready(),
            PlanTable::File => files(),
            PlanTable::Load => [own_load_keys(), load_settings()].concat(),
            PlanTable::Step => step(),
            PlanTable::Capture => capture(),
            PlanTable::Place => place(),
            PlanTable::Link => link(),
            PlanTable::Host => host(),
            PlanTable::Telemetry => telemetry(),
        }
    }

    /// The keys that the table may have.
    pub(crate) fn names(self) -> Vec<&'static str> {
        self.keys().into_iter().map(|key| key.name).collect()
    }
}

/// Heading for the keys outside all tables.
pub const TOP_LEVEL: &str = "top level";

/// Creates an optional key from its name, type, default, example and meaning.
fn key(
    name: &'static str,
    value: ValueType,
    default: &str,
    example: &str,
    meaning: &str,
) -> ReferenceKey {
    ReferenceKey {
        name,
        value,
        default: default.to_owned(),
        example: example.to_owned(),
        meaning: meaning.to_owned(),
        required: false,
    }
}

fn required(mut key: ReferenceKey) -> ReferenceKey {
    key.required = true;
    key
}

fn integer(min: u64, max: u64) -> ValueType {
    ValueType::Integer { min, max }
}

fn choice(words: &[&str]) -> ValueType {
    ValueType::Choice(words.iter().map(|word| (*word).to_owned()).collect())
}

#[rustfmt::skip]
fn top_level() -> Vec<ReferenceKey> {
    use ValueType::{List, Percent, Table, TableArray, Text, TextTable, Path};
    vec![
        key("name", Text, "the file's name", "\"sockets\"", "name of the experiment and its \
            folder; 1 to 100 bytes"),
        key("question", Text, "empty", "\"Is a UNIX socket faster?\"", "question behind the experiment; shown at the top of the report"),
        key("notes", List, "none", "[\"needs 4 cores\"]", "notes that are printed before the experiment runs; may contain templates"),
        key("baseline", ValueType::Either(vec![TextTable, TableArray]), "the first level of each factor", "{ socket = \"tcp\" }", "levels \
            that others are compared with; in an array, the first match applies"),
        key("margin", Percent, "\"2%\"", "\"5%\"", "differences within this margin count as equivalent; more than 0%, at most 50%"),
        key("metrics", List, "rate (closed loop), p99 (open loop or think times) or capacity (capacity search) of requests, events or journeys", "[\"rate\", \"p99\"]", "the metrics that get a verdict"),
        key("variants", TableArray, "every combination of levels", "[{ socket = \"tcp\" }, { socket = \"unix\" }]", "the combinations to measure; each names a level of every factor"),
        required(key("factors", Table, "", "", "the factors and their levels; see Factors")),
        required(key("service", Table, "", "", "the services, `[service.NAME]`; at most 64")),
        required(key("load", Table, "", "", "the load, `[load]`")),
        key("trials", Table, "", "", "number and length of trials, `[trials]`"),
        key("place", Table, "none", "", "networks that the plan defines, `[place.NAME]`; at most 64"),
        key("link", Table, "none", "", "connections between places, `[link.NAME]`; at most 64"),
        key("host", Table, "none", "", "machines that run services over ssh, `[host.NAME]`; at most 64"),
        key("telemetry", Table, "", "", "measurements on the machines, `[telemetry]`"),
        key("folder", Path, "the plan's folder", "\"..\"", "folder against which relative paths are resolved; prony sets it in stored plans"),
        key("includes", Path, "none", "\"includes\"", "folder with copies of the files that the plan names; prony sets it in stored plans"),
    ]
}

#[rustfmt::skip]
fn trials() -> Vec<ReferenceKey> {
    use ValueType::{Either, Table, Time};
    let blocks = Either(vec![integer(1, u64::from(prony_stats::BLOCKS_MAX)), Table]);
    vec![
        key("blocks", blocks, "{ min = 5, max = 15 }", "{ min = 5, max = 10 }", "number of blocks, or its minimum and maximum; each variant runs once per block"),
        key("warmup", Time, "\"2s\"", "\"1s\"", "unmeasured load before each measurement"),
        key("duration", Time, "\"10s\"", "\"5s\"", "length of each measurement"),
        key("budget", Time, "none", "\"30m\"", "time limit; a block that would exceed it doesn't start"),
        key("interleave", Either(vec![choice(&["auto", "off"]), Time]), "\"auto\"", "\"250ms\"", "run all variants at the same time, in alternating slices: auto (if possible), off, or the length of a slice"),
        key("seed", integer(0, i64::MAX as u64), "random", "1", "seed for the random order \
            within blocks"),
    ]
}

#[rustfmt::skip]
fn blocks() -> Vec<ReferenceKey> {
    let count = || integer(1, u64::from(prony_stats::BLOCKS_MAX));
    vec![
        key("min", count(), "5", "5", "blocks before the first verdict"),
        key("max", count(), "15", "30", "blocks after which a still undecided comparison ends \
            undecided"),
    ]
}

#[rustfmt::skip]
fn service() -> Vec<ReferenceKey> {
    use ValueType::{Cores, Count, Either, List, Path, Size, Table, Text, TextTable};
    let limit = |value| Either(vec![value, choice(&["unlimited"])]);
    let listen = Either(vec![choice(&["tcp", "unix", "udp"]), TextTable]);
    vec![
        key("command", List, "required unless image or remote", "[\"nginx\", \"-c\", \"{{ \
        web.files['nginx.conf'] }}\"]", "program and arguments; not split by a shell"),
        key("image", Text, "none", "\"nginx:1.27\"", "container image, or archive of one (`./web.tar`), that the service runs in"),
        key("runtime", choice(&["podman", "docker"]), "the first one that is installed", "\"docker\"", "program that runs the container; needs image"),
        key("volumes", List, "none", "[\"site:/usr/share/nginx/html:ro\"]", "paths of this machine that the container sees; needs image"),
        key("remote", Text, "none", "\"10.0.0.2:80\"", "address of a server that is already \
        running: host:port or unix:/path"),
        key("build", Table, "none", "{ git = \".\", revision = \"main\", run = \"make\" }", "a revision to build before anything starts; templates have its folder as `NAME.build.dir`"),
        key("listen", listen, "\"tcp\"", "{ https = \"tcp\", quic = \"udp\" }", "listeners for \
            which prony picks addresses; use a table for several"),
        key("ready", Table, "the listener accepts connections", "{ get = \"/\", status = 200 }", "criteria by which the service counts as ready"),
        key("needs", List, "none", "[\"app\"]", "services that start before this one"),
        key("files", Table, "none", "{ \"nginx.conf\" = { template = \"nginx.conf\" } }", "files \
        written before the service starts"),
        key("env", TextTable, "prony's own", "{ LANG = \"C\" }", "environment variables to add \
        or replace"),
        key("cwd", Path, "the plan's folder", "\"site\"", "working directory"),
        key("cores", Cores, "any", "\"0-3\"", "cores that the service may use"),
        key("cpu", limit(Count), "\"unlimited\"", "0.5", "CPU time of all processes, in cores"),
        key("memory", limit(Size), "\"unlimited\"", "\"256M\"", "memory of all processes, without swap space"),
        key("pids", limit(Count), "\"unlimited\"", "100", "number of processes and threads"),
        key("open_files", integer(16, 1 << 30), "inherited", "65536", "limit on open files"),
        key("stop", Text, "\"SIGTERM\"", "\"SIGQUIT\"", "signal that stops the service; a name or number"),
        key("wrapper", List, "none", "[\"nice\", \"-n\", \"5\"]", "program and arguments that run \
            the command"),
        key("library_path", Path, "none", "\"lib\"", "folder prepended to LD_LIBRARY_PATH"),
        key("place", Text, "\"native\"", "\"namespace\"", "native, namespace, the name of a [place.NAME], or on a FreeBSD machine of [host.NAME] jail:NAME or jail:/PATH"),
        key("host", Text, "\"local\"", "\"role=server\"", "machine that runs the service: the name of a [host.NAME], or an agent's name or label"),
        key("cgroup", Text, "none", "\"system.slice/web.service\"", "control group whose processes count as the service's"),
        key("pid_file", Path, "none", "\"/run/web.pid\"", "file with a process ID; that \
            process's tree counts as the service's"),
    ]
}

#[rustfmt::skip]
fn build() -> Vec<ReferenceKey> {
    use ValueType::{Path, Size, Text, Time};
    vec![
        key("git", Path, "the plan's folder", "\".\"", "folder of the Git repository"),
        required(key("revision", Text, "", "\"{{ revision }}\"", "branch, tag or commit, looked up once; `worktree` is the working tree as it is, never cached")),
        required(key("run", Text, "", "\"cargo build --release\"", "shell command that builds the revision, in the root folder of its files")),
        key("within", Time, "\"30m\"", "\"5m\"", "time limit of the command"),
        key("size_max", Size, "\"10G\"", "\"500M\"", "maximum size of the build's folder and log"),
    ]
}

#[rustfmt::skip]
fn ready() -> Vec<ReferenceKey> {
    use ValueType::{Either, List, Text, Time};
    let status = Either(vec![integer(100, 599), List]);
    vec![
        key("get", Text, "none: an accepted connection or a bound UDP port is enough", "\"/health\"", "path to request"),
        key("status", status, "\"200-399\"", "200", "statuses that mean ready"),
        key("within", Time, "\"10s\"", "\"1m\"", "time limit for becoming ready"),
        key("listener", Text, "the first non-UDP listener by name", "\"http\"", "listener to probe"),
        key("scheme", choice(&["http", "https"]), "https if the listener uses TLS", "\"http\"", "scheme of the request"),
    ]
}

#[rustfmt::skip]
fn files() -> Vec<ReferenceKey> {
    use ValueType::{List, Path, Text};
    vec![
        key("template", Path, "", "\"nginx.conf\"", "a file whose templates (`{{ … }}`) are filled in"),
        key("copy", Path, "", "\"logo.png\"", "a file copied unchanged"),
        key("text", Text, "", "\"hello\"", "the content itself"),
        key("certificate", List, "", "\"localhost\"", "a self-signed certificate for these names, generated for each run"),
        key("key_of", Text, "", "\"server.crt\"", "the private key of the certificate file with this name; mode 600, never stored"),
    ]
}

#[rustfmt::skip]
fn place() -> Vec<ReferenceKey> {
    use ValueType::{Bool, Cores, Table};
    vec![
        key("cores", Cores, "any", "\"0\"", "default cores for services and the load in this place"),
        key("sysctl", Table, "none", "{ \"net.core.somaxconn\" = 4096 }", "kernel settings of this network only"),
        key("where_possible", Bool, "false", "true", "skip settings that can't be set per network"),
    ]
}

#[rustfmt::skip]
fn link() -> Vec<ReferenceKey> {
    use ValueType::{BitRate, Cores, Count, List, Percent, Size, Time};
    vec![
        required(key("between", List, "", "[\"clients\", \"front\"]", "the two places that the link joins")),
        key("rate", BitRate, "unlimited", "\"1Gbit\"", "rate limit in each direction"),
        key("burst", Size, "as many bytes as `rate` allows in 1 ms", "\"64K\"", "bytes sent at full speed before the rate applies; needs rate"),
        key("queue", Time, "\"25ms\"", "\"50ms\"", "maximum time that a packet waits for the rate, \
            after which it is dropped; needs rate (formerly `latency`)"),
        key("round_trip", Time, "none", "\"20ms\"", "time that a packet and its response travel, \
            half in each direction"),
        key("delay", List, "none", "[\"5ms\", \"15ms\"]", "time that packets travel: in both \
            directions, or in each; instead of round_trip"),
        key("jitter", Time, "none", "\"2ms\"", "variation of the delay in each direction; packets \
            keep their order"),
        key("distribution", choice(&["uniform", "normal"]), "\"uniform\"", "\"normal\"", "distribution \
            of the jitter: uniform (delay ± jitter), or normal (jitter is the standard deviation)"),
        key("loss", Percent, "none", "\"1%\"", "percentage of packets dropped at random in each \
            direction, 0% to 50%"),
        key("loss_burst", Count, "losses are independent", "5", "mean number of packets that are \
            lost in a row; needs loss"),
        key("reorder", Percent, "none", "\"1%\"", "percentage of packets that skip the delay and \
            overtake others; needs a delay"),
        key("duplicate", Percent, "none", "\"0.1%\"", "percentage of packets that arrive twice"),
        key("emulator", choice(&["auto", "kernel", "relay"]), "\"auto\"", "\"relay\"", "provides the \
            delay: the kernel's sch_netem, or a relay of prony; auto prefers the kernel"),
        key("relay_core", Cores, "any", "1", "core on which the relay runs"),
        key("addresses", List, "picked by prony", "[\"10.1.0.1\", \"10.1.0.2\"]", "private IPv4 \
        addresses of the two ends"),
    ]
}

#[rustfmt::skip]
fn host() -> Vec<ReferenceKey> {
    use ValueType::{Bool, List, Path, Text};
    vec![
        required(key("ssh", List, "", "\"root@bsd1\"", "destination for ssh; in an array, after other arguments of ssh")),
        key("address", Text, "the address that ssh connects to", "\"10.0.0.2\"", "address of the machine on which services listen and to which the load connects"),
        key("sudo", Bool, "false", "true", "run everything on the machine as root, through `sudo -n`"),
        key("dir", Path, "`$TMPDIR` or `/tmp` of the machine", "\"/var/tmp\"", "folder on the machine for the files of services"),
    ]
}

#[rustfmt::skip]
fn telemetry() -> Vec<ReferenceKey> {
    use ValueType::{List, Text};
    vec![
        key("counters", choice(&["cores", "processes", "off"]), "\"cores\"", "\"off\"", "scope \
        in which cycles, instructions and cache misses are counted"),
        key("profile", ValueType::Bool, "false", "true", "sample the services' functions, and report the CPU time \
            per request of each"),
        key("profile_rate", integer(1, u64::from(RATE_HZ_MAX)), &DEFAULT_RATE_HZ.to_string(), "999", "samples per second of CPU \
            time; needs profile"),
        key("remote", Text, "none", "\"user@10.0.0.2\"", "machine that runs the remote services, \
            measured over ssh (FreeBSD: experimental); \"\" means none"),
        key("ssh", List, "none", "[\"-i\", \"key\"]", "additional arguments for ssh"),
    ]
}

#[rustfmt::skip]
fn own_load_keys() -> Vec<ReferenceKey> {
    use ValueType::{Either, List, Rate, Text, Time};
    let agents = Either(vec![integer(1, 10_000), Text]);
    vec![
        required(key("target", Text, "", "\"web\"", "service to load, or \"service.listener\"")),
        key("path", Text, "\"/\"", "\"/catalogue\"", "path and query to request; can't be \
        combined with urls")  ,
        key("scheme", choice(&["http", "https", "ws", "wss"]), "https if the listener has that name; ws or wss if there are messages", "\"https\"", "HTTP or WebSockets, in cleartext or over TLS"),
        key("model", choice(&["closed", "open", "capacity"]), "open if a rate is set, else \
            closed", "\"open\"", "what starts requests: responses, a schedule, or the probes of \
            a capacity search"),
        key("goal", List, "required for a capacity search", "[\"p99 < 50ms\", \"failed < \
        0.1%\"]", "conditions of a capacity search, which finds the highest rate that meets them"),
        key("max_rate", Rate, "none", "\"20k\"", "highest rate that a capacity search probes"),
        key("search_time", Time, "\"1m\", \"5m\" for slow servers", "\"30s\"", "time limit of a \
        capacity search"),
        key("probe", Time, "by search_time", "\"5s\"", "length of the measured part of each \
        probe of a capacity search"),
        key("place", Text, "\"native\"", "\"clients\"", "native, or the name of the [place.NAME] \
        in which the load runs"),
        key("agents", agents, "this machine", "4", "agents that generate the load: a number, \
        names or a label"),
        key("bodies", choice(&["same", "same-decoded", "may-differ"]), "\"same-decoded\"", "\"may-differ\"", "comparison of response bodies between variants: as sent, after decoding, or none; may-differ also allows variants to negotiate different protocols"),
        key("abort_if", List, "none", "[\"failed > 5%\", \"p99 > 1s\"]", "conditions that are checked while a load runs; the experiment ends if one of them holds"),
        key("abort_window", Time, "\"5s\"", "\"10s\"", "length of the sliding window over which \
            abort_if is checked"),
    ]
}

/// Keys of a step of a journey. Files given with `steps` have the same keys in `[[step]]`.
#[rustfmt::skip]
fn step() -> Vec<ReferenceKey> {
    use ValueType::{Bool, Either, List, Path, Table, Text, TextTable};
    let number = || ValueType::Integer { min: 1, max: 1_000_000 };
    vec![
        key("name", Text, "method and URL", "\"login\"", "name of the step in results"),
        key("url", Text, "that of [load] in a step with grpc, otherwise required", "\"/login\"", "path or URL of the request; may contain variables of earlier steps and other placeholders"),
        key("grpc", Text, "none", "\"shop.Cart/Add\"", "gRPC method that the step calls, with body as its message in JSON"),
        key("method", Text, "GET, or POST with a body", "\"PUT\"", "method of the request"),
        key("headers", TextTable, "none", "{ Authorization = \"Bearer {{ token }}\" }", "header fields; they replace those of [load] with the same name"),
        key("body", Text, "none", "'{\"id\": {{ item }}}'", "body of the request"),
        key("body_file", Path, "none", "\"order.json\"", "file that holds the body"),
        key("form", TextTable, "none", "{ user = \"{{ user }}\", csrf = \"{{ csrf }}\" }", "fields of a form, sent like a browser does (urlencoded)"),
        key("multipart", List, "none", "[\"title=x\", \"photo=@a.jpg\"]", "fields of a multipart form, written as for form of [load]"),
        key("capture", Table, "none", "{ token = { json = \"/token\" } }", "variables for later steps, each with its place in the response"),
        key("expect_status", List, "that of [load]", "302", "status codes that count as success"),
        key("expect_body", Either(vec![Text, TextTable]), "any body", "{ regex = \"order [0-9]+\" }", "text that the body must contain, or a regular expression that it must match"),
        key("think", Text, "that of [load]", "\"exp:2s\"", "pause after the step, such as 1s, exp:1s or 0s"),
        key("repeat", Either(vec![number(), Text]), "1", "\"2-5\"", "number of times that the step is taken, or a range from which it is drawn"),
        key("when", Text, "always", "\"30%\"", "take the step in this share of journeys, or if a variable holds: NAME, not NAME, NAME == value"),
        key("weight", number(), "none", "3", "choose one of the adjacent steps that have weights"),
        key("stream", Bool, "false", "true", "read the response as a stream of events, in the format of the setting events"),
        key("page", Bool, "false", "true", "after the step, request the images, scripts and style sheets of the page on its server"),
        key("once", Bool, "false", "true", "take the step only in each user's first journey; users then keep cookies and variables"),
    ]
}

/// Places of a variable's value in a response. A capture has one of them.
#[rustfmt::skip]
fn capture() -> Vec<ReferenceKey> {
    use ValueType::Text;
    vec![
        key("json", Text, "", "\"/data/0/token\"", "pointer into a JSON body (RFC 6901)"),
        key("header", Text, "", "\"Location\"", "name of a header field"),
        key("cookie", Text, "", "\"csrftoken\"", "name of a cookie that the user has after the response"),
        key("regex", Text, "", "'href=\"(/item/[0-9]+)\"'", "regular expression for the body; the value is its first group, or the whole match"),
        key("field", Text, "", "\"csrfmiddlewaretoken\"", "name of a field in an HTML form, or of a meta element"),
        key("default", Text, "the journey fails", "\"none\"", "value if the response has none"),
    ]
}

/// Settings and flags of `prony load` that plans express differently, with hints.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "unix",
        "set listen = \"unix\" in the target service, or remote = \"unix:/path\"",
    ),
    ("json", "every trial writes its record"),
    ("csv", "use prony report DIR --csv FILE"),
    ("html", "every experiment writes its report"),
    ("timeline", "every record contains the time series"),
    ("progress", "use prony compare --progress"),
    ("fail_if", "use margin and the verdicts instead"),
];

/// The replacement of a flag of `prony load` that is not a key of `[load]`.
pub(crate) fn instead_of(key: &str) -> Option<&'static str> {
    let found = ELSEWHERE.iter().find(|(name, _)| *name == key);
    found.map(|(_, instead)| *instead)
}

/// The settings of a load that are keys of `[load]`, too.
fn load_settings() -> Vec<ReferenceKey> {
    let settings = LoadSettings::TABLE.iter();
    let keys = settings.filter(|setting| instead_of(setting.key).is_none());
    keys.map(|setting| ReferenceKey {
        name: setting.key,
        value: value_type(setting.kind),
        default: match (setting.key, setting.kind) {
            (_, ValueKind::Switch) => "false".to_owned(),
            ("duration" | "warmup", _) => "that of [trials]".to_owned(),
            _ if needs_quotes(setting) => format!("\"{}\"", setting.default),
            _ => setting.default.to_owned(),
        },
        example: setting.example.to_owned(),
        // A list in a plan has no use for "repeatable", which the script's arguments explain.
        meaning: lower_case_start(
            setting
                .meaning
                .split("; repeatable")
                .next()
                .unwrap_or_default(),
        ),
        required: false,
    })
    .collect()
}

/// Lowercases the first letter, unless the first word is an abbreviation.
fn lower_case_start(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// Returns true if the default is a value that is a string in TOML, rather than a number or a
/// description.
fn needs_quotes(setting: &Setting) -> bool {
    let default = setting.default;
    let is_word = match setting.kind {
        ValueKind::Choice(words) => words.iter().any(|(word, _)| *word == default),
        _ => default.starts_with(|c: char| c.is_ascii_digit()),
    };
    is_word && !default.contains(' ') && default.parse::<f64>().is_err()
}

fn value_type(kind: ValueKind) -> ValueType {
    match kind {
        ValueKind::Switch => ValueType::Bool,
        ValueKind::Count | ValueKind::Number => ValueType::Count,
        ValueKind::Time | ValueKind::PositiveTime => ValueType::Time,
        ValueKind::Size => ValueType::Size,
        ValueKind::Rate => ValueType::Rate,
        ValueKind::Text => ValueType::Text,
        ValueKind::File | ValueKind::SocketPath => ValueType::Path,
        ValueKind::Choice(words) => {
            ValueType::Choice(words.iter().map(|(word, _)| (*word).to_owned()).collect())
        }
        ValueKind::TlsVersion => choice(&["1.2", "1.3"]),
        ValueKind::Cores => ValueType::Cores,
        ValueKind::Numbers | ValueKind::List | ValueKind::Texts => ValueType::List,
        ValueKind::Steps => ValueType::TableArray,
        ValueKind::Headers => ValueType::Either(vec![ValueType::List, ValueType::TextTable]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meaning_is_one_phrase() {
        for section in sections() {
            for key in section.keys {
                let words = key.meaning.split_whitespace().count();
                assert!((1..=20).contains(&words), "{}: {words} words", key.name);
                assert!(!key.meaning.ends_with('.'), "{}", key.name);
            }
        }
    }

    #[test]
    fn examples_are_toml() {
        for section in sections() {
            for key in section.keys.iter().filter(|key| !key.example.is_empty()) {
                let text = format!("{} = {}", key.name, key.example);
                assert!(text.parse::<toml::Table>().is_ok(), "{text}");
            }
        }
    }
}
