//! The keys of a plan as data: type, default, example and meaning of each.
//!
//! `docs/plan.md`, `prony man plan` and the JSON schema of plans are made from these tables. A test
//! compares them with the keys that plans accept, so that every key is documented.

use clap::{Arg, ArgAction, Args};
use prony_load::LoadOptions;

use super::render::load;

/// The type of a key's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueType {
    /// A string.
    Text,
    /// A path; relative ones start from the plan's folder.
    Path,
    /// `true` or `false`.
    Bool,
    /// A whole number within these bounds.
    Integer {
        /// The smallest value.
        min: u64,
        /// The largest value.
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
    /// A string such as `"2%"`.
    Percent,
    /// A string such as `"1Gbit"`: bits a second.
    BitRate,
    /// Core numbers: `2`, `"0-3,6"` or `[0, 1]`.
    Cores,
    /// One string, or an array of strings.
    List,
    /// A table of strings.
    TextTable,
    /// One of these words.
    Choice(Vec<String>),
    /// A table whose keys another section describes.
    Table,
    /// An array of tables.
    TableArray,
    /// One of several types.
    Either(Vec<ValueType>),
}

/// One key of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceKey {
    /// The name in the plan.
    pub name: String,
    /// The type of its value.
    pub value: ValueType,
    /// The default, in words or as a value; empty if there is none.
    pub default: String,
    /// An example of a value in TOML; may be empty.
    pub example: String,
    /// The meaning in one phrase.
    pub meaning: String,
    /// Set if the key must be present.
    pub required: bool,
}

/// The keys of one table of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceSection {
    /// The table as a plan writes it, such as `[service.NAME]`, or [`TOP_LEVEL`].
    pub heading: &'static str,
    /// Set if values can be templates such as `"{{ socket.listen }}"`.
    pub templates: bool,
    /// The keys in the usual order.
    pub keys: Vec<ReferenceKey>,
}

/// The sections of a plan that have fixed keys. Factors, levels and environment variables are left out,
/// since the plan's author chooses their names.
pub fn sections() -> Vec<ReferenceSection> {
    let section = |heading, templates, keys| ReferenceSection {
        heading,
        templates,
        keys,
    };
    vec![
        section(TOP_LEVEL, false, top_level()),
        section("[trials]", false, trials()),
        section("blocks of [trials]", false, blocks()),
        section("[service.NAME]", true, service()),
        section("ready of [service.NAME]", true, ready()),
        section("[service.NAME.files]", true, files()),
        section("[load]", true, load_keys()),
        section("[place.NAME]", true, place()),
        section("[link.NAME]", true, link()),
        section("[telemetry]", true, telemetry()),
    ]
}

/// The heading of the keys outside all tables.
pub const TOP_LEVEL: &str = "top level";

/// Makes an optional key of its name, type, default, example and meaning.
fn key(name: &str, value: ValueType, default: &str, example: &str, meaning: &str) -> ReferenceKey {
    ReferenceKey {
        name: name.to_owned(),
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
        key("name", Text, "the file's name", "\"sockets\"", "names the experiment and its folder; 1 to 100 bytes"),
        key("question", Text, "empty", "\"Is a UNIX socket faster?\"", "heads the report"),
        key("notes", List, "none", "[\"needs 4 cores\"]", "printed before the experiment runs; may be templates"),
        key("baseline", ValueType::Either(vec![TextTable, TableArray]), "the first level of each factor", "{ socket = \"tcp\" }", "levels that others are compared with; factors left out stay equal; of an array, the first match counts"),
        key("margin", Percent, "\"2%\"", "\"5%\"", "differences within the margin count as equivalent; above 0%, up to 50%"),
        key("metrics", List, "rate (closed loop), p99 (open loop)", "[\"rate\", \"p99\"]", "the metrics that get a verdict"),
        key("variants", TableArray, "every combination of levels", "[{ socket = \"tcp\" }, { socket = \"unix\" }]", "the combinations to measure; each names a level of every factor"),
        required(key("factors", Table, "", "", "the factors and their levels; see Factors")),
        required(key("service", Table, "", "", "the services, `[service.NAME]`; at most 64")),
        required(key("load", Table, "", "", "the load, `[load]`")),
        key("trials", Table, "", "", "number and length of trials, `[trials]`"),
        key("place", Table, "none", "", "networks of the plan's own, `[place.NAME]`; at most 64"),
        key("link", Table, "none", "", "connections between those networks, `[link.NAME]`; at most 64"),
        key("telemetry", Table, "", "", "what is measured on the machines, `[telemetry]`"),
        key("folder", Path, "the plan's folder", "\"..\"", "where relative paths start; written by prony into stored plans"),
        key("includes", Path, "none", "\"includes\"", "copies of the files that the plan names; written by prony"),
    ]
}

#[rustfmt::skip]
fn trials() -> Vec<ReferenceKey> {
    use ValueType::{Either, Table, Time};
    let blocks = Either(vec![integer(1, u64::from(prony_stats::BLOCKS_MAX)), Table]);
    vec![
        key("blocks", blocks, "{ min = 5, max = 15 }", "{ min = 5, max = 10 }", "each variant runs once per block; a number fixes the count"),
        key("warmup", Time, "\"2s\"", "\"1s\"", "load before each measurement, not measured"),
        key("duration", Time, "\"10s\"", "\"5s\"", "length of each measurement"),
        key("budget", Time, "none", "\"30m\"", "no block starts that would end later than this"),
        key("seed", integer(0, i64::MAX as u64), "random", "1", "seed of the order within blocks"),
    ]
}

#[rustfmt::skip]
fn blocks() -> Vec<ReferenceKey> {
    let count = || integer(1, u64::from(prony_stats::BLOCKS_MAX));
    vec![
        key("min", count(), "5", "5", "blocks before the first verdict"),
        key("max", count(), "15", "30", "blocks after which an undecided comparison stays undecided"),
    ]
}

#[rustfmt::skip]
fn service() -> Vec<ReferenceKey> {
    use ValueType::{Cores, Either, List, Path, Table, Text, TextTable};
    let listen = Either(vec![choice(&["tcp", "unix"]), TextTable]);
    vec![
        key("command", List, "required unless remote", "[\"nginx\", \"-c\", \"{{ web.files['nginx.conf'] }}\"]", "program and arguments; no shell splits them"),
        key("remote", Text, "none", "\"10.0.0.2:80\"", "a server that already runs: host:port or unix:/path"),
        key("listen", listen, "\"tcp\"", "{ http = \"tcp\", https = \"tcp\" }", "listeners for which prony picks addresses; a table names several"),
        key("ready", Table, "the listener accepts", "{ get = \"/\", status = 200 }", "when the service counts as ready"),
        key("needs", List, "none", "[\"app\"]", "services that start first"),
        key("files", Table, "none", "{ \"nginx.conf\" = { template = \"nginx.conf\" } }", "files written before the service starts"),
        key("env", TextTable, "prony's own", "{ LANG = \"C\" }", "environment variables to add or replace"),
        key("cwd", Path, "the plan's folder", "\"site\"", "working directory"),
        key("cores", Cores, "any", "\"0-3\"", "cores that the service may use"),
        key("open_files", integer(16, 1 << 30), "inherited", "65536", "limit of open files"),
        key("stop", Text, "\"SIGTERM\"", "\"SIGQUIT\"", "signal that stops the service; a name or number"),
        key("wrapper", List, "none", "[\"nice\", \"-n\", \"5\"]", "program and arguments put before the command"),
        key("library_path", Path, "none", "\"lib\"", "folder put into LD_LIBRARY_PATH"),
        key("place", Text, "\"native\"", "\"namespace\"", "native, namespace, jail (FreeBSD), or the name of a [place.NAME]"),
        key("host", Text, "\"local\"", "\"role=server\"", "agent that runs the service: its name or a label"),
        key("cgroup", Text, "none", "\"system.slice/web.service\"", "control group whose processes count as the service's"),
        key("pid_file", Path, "none", "\"/run/web.pid\"", "file with the process id whose tree counts as the service's"),
    ]
}

#[rustfmt::skip]
fn ready() -> Vec<ReferenceKey> {
    use ValueType::{Either, List, Text, Time};
    let status = Either(vec![integer(100, 599), List]);
    vec![
        key("get", Text, "none: accepting is enough", "\"/health\"", "path to request"),
        key("status", status, "\"200-399\"", "200", "statuses that mean ready"),
        key("within", Time, "\"10s\"", "\"1m\"", "how long starting may take"),
        key("listener", Text, "the first by name", "\"http\"", "listener to probe"),
        key("scheme", choice(&["http", "https"]), "https where the listener speaks it", "\"http\"", "how to request the path"),
    ]
}

#[rustfmt::skip]
fn files() -> Vec<ReferenceKey> {
    use ValueType::{List, Path, Text};
    vec![
        key("template", Path, "", "\"nginx.conf\"", "a file whose `{{ … }}` are filled in"),
        key("copy", Path, "", "\"logo.png\"", "a file copied as it is"),
        key("text", Text, "", "\"hello\"", "the content itself"),
        key("certificate", List, "", "\"localhost\"", "a self-signed certificate for these names, made for each run"),
        key("key_of", Text, "", "\"server.crt\"", "the private key of that certificate; mode 600, never stored"),
    ]
}

#[rustfmt::skip]
fn place() -> Vec<ReferenceKey> {
    use ValueType::{Bool, Cores, Table};
    vec![
        key("cores", Cores, "any", "\"0\"", "cores of the services in the place that name none"),
        key("sysctl", Table, "none", "{ \"net.core.somaxconn\" = 4096 }", "kernel settings of this network alone"),
        key("where_possible", Bool, "false", "true", "leave out settings that no network has for itself"),
    ]
}

#[rustfmt::skip]
fn link() -> Vec<ReferenceKey> {
    use ValueType::{BitRate, List, Size, Time};
    vec![
        required(key("between", List, "", "[\"clients\", \"front\"]", "the two places that the link joins")),
        key("rate", BitRate, "unlimited", "\"1Gbit\"", "rate of each direction"),
        key("burst", Size, "1 ms at the rate", "\"64K\"", "bytes sent at full speed before the rate applies; needs rate"),
        key("latency", Time, "\"25ms\"", "\"50ms\"", "longest wait for the link before a packet is dropped; needs rate"),
        key("addresses", List, "picked by prony", "[\"10.1.0.1\", \"10.1.0.2\"]", "private IPv4 addresses of the two ends"),
    ]
}

#[rustfmt::skip]
fn telemetry() -> Vec<ReferenceKey> {
    use ValueType::{List, Text};
    vec![
        key("counters", choice(&["cores", "processes", "off"]), "\"cores\"", "\"off\"", "how cycles, instructions and cache misses are counted"),
        key("remote", Text, "none", "\"user@10.0.0.2\"", "machine of the remote services, read over ssh; \"\" is none"),
        key("ssh", List, "none", "[\"-i\", \"key\"]", "arguments for ssh"),
    ]
}

/// The keys of `[load]`: those that only plans have, then the long flags of `prony load`.
fn load_keys() -> Vec<ReferenceKey> {
    let flags = LoadOptions::augment_args(clap::Command::new("load"));
    let flags = flags.get_arguments().filter(|arg| load::is_key(arg));
    own_load_keys()
        .into_iter()
        .chain(flags.map(of_flag))
        .collect()
}

#[rustfmt::skip]
fn own_load_keys() -> Vec<ReferenceKey> {
    use ValueType::{Either, Text};
    let agents = Either(vec![integer(1, 10_000), Text]);
    vec![
        required(key("target", Text, "", "\"web\"", "service to load, or \"service.listener\"")),
        key("path", Text, "\"/\"", "\"/catalogue\"", "path and query to request; not together with urls")  ,
        key("scheme", choice(&["http", "https"]), "https for a listener of that name", "\"https\"", "cleartext or TLS"),
        key("model", choice(&["closed", "open"]), "open with a rate, else closed", "\"open\"", "whether responses or a schedule start requests"),
        key("place", Text, "\"native\"", "\"clients\"", "the [place.NAME] that the load comes from"),
        key("agents", agents, "this machine", "4", "agents that make the load: a number, names or a label"),
        key("bodies", choice(&["same", "same-decoded", "may-differ"]), "\"same-decoded\"", "\"may-differ\"", "which response bodies have to be the same: those sent, the decoded ones, or none"),
    ]
}

/// Makes a key of a flag of `prony load`.
fn of_flag(arg: &Arg) -> ReferenceKey {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let (meaning, in_help) = match help.split_once(" [default: ") {
        Some((meaning, default)) => (meaning.to_owned(), default.trim_end_matches(']').to_owned()),
        None => (help, String::new()),
    };
    let name = arg.get_long().unwrap_or_default().replace('-', "_");
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let default = match arg.get_default_values().first() {
        _ if is_switch => "false".to_owned(),
        _ if ["duration", "warmup"].contains(&name.as_str()) => "that of [trials]".to_owned(),
        None => in_help,
        Some(value) => {
            let value = value.to_string_lossy();
            match value.parse::<f64>() {
                Ok(_) => value.into_owned(),
                Err(_) => format!("\"{value}\""),
            }
        }
    };
    ReferenceKey {
        value: type_of(arg),
        default,
        example: load_example(&name).to_owned(),
        meaning: lower_case_start(&meaning),
        required: false,
        name,
    }
}

/// Makes the first letter lowercase, unless the first word is an abbreviation.
fn lower_case_start(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

/// The type of a flag's value, from its declaration.
fn type_of(arg: &Arg) -> ValueType {
    let choices: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    let names = arg.get_value_names().unwrap_or_default();
    let name = names.first().map_or("", |name| name.as_str());
    match (arg.get_action(), name) {
        (ArgAction::SetTrue, _) => ValueType::Bool,
        (ArgAction::Append, "K: V") => {
            ValueType::Either(vec![ValueType::List, ValueType::TextTable])
        }
        (ArgAction::Append, _) => ValueType::List,
        _ if !choices.is_empty() => ValueType::Choice(choices),
        (_, "TIME") => ValueType::Time,
        (_, "SIZE") => ValueType::Size,
        (_, "FILE" | "PATH") => ValueType::Path,
        (_, "N") if arg.get_id() == "rate" => ValueType::Rate,
        (_, "N") if arg.get_id() == "expect_size" => ValueType::Size,
        (_, "N") => ValueType::Count,
        (_, "LIST") => match arg.get_id().as_str() {
            "cores" => ValueType::Cores,
            _ => ValueType::List,
        },
        (_, "1.2|1.3") => choice(&["1.2", "1.3"]),
        _ => ValueType::Text,
    }
}

/// An example for the flags whose form does not follow from their type.
fn load_example(name: &str) -> &'static str {
    match name {
        "connections" => "64",
        "requests" => "100000",
        "duration" | "timeout" | "wait_for_server" => "\"30s\"",
        "warmup" | "connect_timeout" => "\"1s\"",
        "rate" => "2000",
        "arrivals" => "\"poisson\"",
        "cores" => "\"1\"",
        "method" => "\"POST\"",
        "header" => "{ Accept-Encoding = \"gzip\" }",
        "user" => "\"alice:secret\"",
        "body" => "\"a=1\"",
        "urls" => "\"urls.txt\"",
        "http" => "\"2\"",
        "streams" => "32",
        "proxy" => "\"10.0.0.3:3128\"",
        "source" | "proxy_source" => "[\"10.50.0.0/16\"]",
        "resolve" => "[\"example.org:443:127.0.0.1\"]",
        "socket_buffer" | "expect_size" => "\"64K\"",
        "expect_status" => "\"200,304\"",
        "sni" => "\"example.org\"",
        "ciphers" => "[\"TLS13_AES_128_GCM_SHA256\"]",
        "ca" => "\"ca.pem\"",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::model::{document, trials};
    use crate::plan::render::{files, networks, ready, services, telemetry};

    fn documented(heading: &str) -> BTreeSet<String> {
        let found = sections()
            .into_iter()
            .find(|section| section.heading == heading)
            .unwrap_or_else(|| panic!("no section {heading}"));
        found.keys.into_iter().map(|key| key.name).collect()
    }

    fn read(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn every_accepted_key_is_documented() {
        assert_eq!(documented(TOP_LEVEL), read(document::KEYS));
        assert_eq!(documented("[trials]"), read(trials::KEYS));
        assert_eq!(documented("blocks of [trials]"), read(trials::BLOCKS_KEYS));
        assert_eq!(documented("[service.NAME]"), read(services::KEYS));
        assert_eq!(
            documented("ready of [service.NAME]"),
            read(ready::READY_KEYS)
        );
        assert_eq!(
            documented("[service.NAME.files]"),
            read(files::FILE_SOURCES)
        );
        assert_eq!(documented("[place.NAME]"), read(networks::PLACE_KEYS));
        assert_eq!(documented("[link.NAME]"), read(networks::LINK_KEYS));
        assert_eq!(documented("[telemetry]"), read(telemetry::KEYS));
        let own: BTreeSet<String> = own_load_keys().into_iter().map(|key| key.name).collect();
        assert_eq!(own, read(load::OWN_KEYS));
    }

    #[test]
    fn flags_of_a_load_are_documented_keys_unless_plans_replace_them() {
        let keys = documented("[load]");
        for key in ["connections", "rate", "http", "expect_status", "source"] {
            assert!(keys.contains(key), "{key}");
        }
        assert!(!keys.contains("unix"));
    }

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
