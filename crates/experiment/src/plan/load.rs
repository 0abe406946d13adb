//! `[load]`: the long flags of `prony load`, checked by the very parser of the command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, FromArgMatches};
use prony_load::{LoadOptions, LoadSpec};

use super::error::{Fault, did_you_mean};
use super::folder::Folder;
use super::node::{Node, Table, Value};
use super::reader::Reader;
use super::services::{Surroundings, check_cores};
use super::shape::{Remote, Shape};
use super::topology::{Layout, Viewer};
use super::trials::Trials;
use crate::place;
use crate::service::{Allocated, Endpoint, PlaceKind};

/// The keys that are no flags.
pub(crate) const OWN_KEYS: &[&str] = &[
    "target", "scheme", "model", "path", "place", "agents", "bodies",
];

/// Flags whose value is a file; relative paths start from the plan's folder.
const FILES: &[&str] = &["urls", "body_file", "ca", "cert", "key"];

/// Files that stay where they are when an experiment copies what its plan names: results are passed
/// on, private keys are not.
const SECRETS: &[&str] = &["key"];

/// Flags of `prony load` that a plan settles in another way, and how.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "unix",
        "listen = \"unix\" of the target, or its remote = \"unix:/path\", names the socket",
    ),
    ("json", "every trial writes its record"),
    ("csv", "prony report DIR --csv FILE writes it"),
    ("html", "every experiment writes its report"),
    ("timeline", "every record has its series"),
    ("progress", "it is an option of prony compare"),
    ("fail_if", "a plan has a margin and a verdict in its place"),
];

/// Closed or open: who decides when the next request starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A connection's next request starts when its last one ended.
    Closed,
    /// Requests start at a rate, however the server answers.
    Open,
}

/// How the response bodies of two variants have to agree before their rates are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyComparison {
    /// The bytes as sent are the same.
    Same,
    /// The bytes are the same after content codings such as gzip are undone.
    #[default]
    SameDecoded,
    /// The bodies may differ; the report notes sizes and content types that do.
    MayDiffer,
}

impl BodyComparison {
    /// The words for it in plans and on the command line.
    pub const NAMES: &[&str] = &["same", "same-decoded", "may-differ"];

    /// The word for it in plans and on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl FromStr for BodyComparison {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "same" => Ok(Self::Same),
            "same-decoded" => Ok(Self::SameDecoded),
            "may-differ" => Ok(Self::MayDiffer),
            _ => Err(format!("expected one of {}", Self::NAMES.join(", "))),
        }
    }
}

/// Reads `bodies` of `[load]`, which is the same for every variant and so no template.
pub(crate) fn read_bodies(table: &Table, reader: &mut Reader<'_>) -> BodyComparison {
    table
        .get("bodies")
        .and_then(|node| reader.choice(node, "bodies of [load]", BodyComparison::NAMES))
        .and_then(|name| name.parse().ok())
        .unwrap_or_default()
}

/// The URL scheme of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// As a URL has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// One flag of `prony load`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOption {
    /// The flag's long name without dashes: `connections`, `no-keepalive`.
    pub name: String,
    /// Its values; none for a bare flag, several for one that is given several times.
    pub values: Vec<String>,
    /// The plan's line, 0 for what prony adds itself.
    pub line: usize,
}

/// The load of one variant with nothing left to decide.
#[derive(Debug, Clone)]
pub struct ResolvedLoad {
    /// Where the load lives: natively or in a named place.
    pub place: PlaceKind,
    /// The agents that make it: how many, or which; none where this machine does.
    pub agents: Option<String>,
    /// The service that is loaded.
    pub service: String,
    /// Its listener, `""` where it has one without a name.
    pub listener: String,
    /// Where that listens.
    pub target_endpoint: Endpoint,
    /// Plain or over TLS.
    pub scheme: Scheme,
    /// Closed or open loop.
    pub model: Model,
    /// The URL for `prony load`, the plan's `path` included.
    pub url: String,
    /// Its flags: the plan's, `unix` where the target is a UNIX socket, and `warmup` and `duration`
    /// from `[trials]` where the plan's load has none.
    pub options: Vec<LoadOption>,
    /// The same flags as the command line's parser reads them.
    pub flags: LoadOptions,
}

impl ResolvedLoad {
    /// The flags as they would be typed: `--connections`, `10`, ….
    pub fn words(&self) -> Vec<String> {
        words(&self.options)
    }

    /// The same for each option alone, in the order of `options`.
    pub fn words_by_option(&self) -> Vec<String> {
        let of = |option: &LoadOption| words(std::slice::from_ref(option)).join(" ");
        self.options.iter().map(of).collect()
    }
}

/// What reading a load needs of the variant's services.
pub(crate) struct Served<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) allocated: &'a std::collections::BTreeMap<String, Allocated>,
    pub(crate) trials: &'a Trials,
    /// The keys of `[trials]` that the plan has written.
    pub(crate) trial_keys: &'a [String],
}

/// Reads the load; `None` after a refusal, which the reader has.
pub(crate) fn read(
    table: &Table,
    served: &Served<'_>,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Option<ResolvedLoad> {
    let before = reader.mistakes.made();
    let rendered = around.context.table(table, reader);
    let command = LoadOptions::augment_args(clap::Command::new("load").no_binary_name(true));
    check_keys(table, &command, reader);
    let target = read_target(&rendered, served, reader);
    let mut options = read_options(&rendered, &command, around, reader);
    let cores = read_cores(&rendered, &mut options, served.layout);
    add_lengths(&mut options, served, reader);
    let is_here = served.layout.load_agents.is_none();
    if around.on_machine
        && is_here
        && let Some(node) = &cores
        && let Some(cores) = reader.cores(node, "cores of [load]")
    {
        check_cores(&cores, node.line, "[load]", around.machine, reader);
    }
    let model = read_model(&rendered, &options, reader);
    let scheme = read_scheme(
        &rendered,
        target.as_ref().map(|(_, listener)| *listener),
        reader,
    );
    let path = read_path(&rendered, reader);
    let (shape, listener) = target?;
    let endpoint = seen_endpoint(shape, listener, served, rendered.line_of("target"), reader)?;
    if let Endpoint::Unix(path) = &endpoint {
        options.push(LoadOption {
            name: "unix".to_owned(),
            values: vec![path.to_string_lossy().into_owned()],
            line: 0,
        });
    }
    let flags = parse(command, &options, reader);
    let url = format!(
        "{}://{}{path}",
        scheme.as_str(),
        authority(shape, &endpoint)
    );
    // What an agent has of addresses and cores is its own affair.
    if around.on_machine
        && is_here
        && let Some(flags) = &flags
        && let Err(trouble) = try_resolve(&url, flags, served.layout)
    {
        refuse_flag(&trouble, &options, reader);
    }
    if reader.mistakes.made() > before {
        return None;
    }
    Some(ResolvedLoad {
        place: served.layout.load,
        agents: served.layout.load_agents.clone(),
        service: shape.name.clone(),
        listener: listener.to_owned(),
        target_endpoint: endpoint,
        scheme,
        model,
        url,
        options,
        flags: flags?,
    })
}

/// Where the load finds its target's listener.
fn seen_endpoint(
    shape: &Shape,
    listener: &str,
    served: &Served<'_>,
    line: usize,
    reader: &mut Reader<'_>,
) -> Option<Endpoint> {
    let endpoint = served.allocated.get(&shape.name)?.endpoints.get(listener)?;
    let viewer = Viewer {
        service: None,
        host: served.layout.load_agents.as_deref(),
        place: served.layout.load,
    };
    let seen = served.layout.seen(shape, endpoint, viewer);
    if let Err(reason) = &seen {
        let what = format!("the load can't reach its target: {reason}");
        let mend = match served.layout.is_spread() {
            true => "a native service that listens on TCP can be reached",
            false => "place of [load] and a link between the two decide what it reaches",
        };
        reader.refuse_with(Fault::Structure, line, what, mend);
    }
    seen.ok()
}

/// The load's cores, or those of its place, which become a flag like its own.
fn read_cores(table: &Table, options: &mut Vec<LoadOption>, layout: &Layout) -> Option<Node> {
    if let Some(own) = table.get("cores") {
        return Some(own.clone());
    }
    let of_place = layout.cores_of(layout.load)?;
    options.push(LoadOption {
        name: "cores".to_owned(),
        values: vec![of_place.text.clone()],
        line: of_place.line,
    });
    Some(of_place.node())
}

/// What the load itself has against its flags. A load that comes from addresses of its place can be
/// asked only where these are.
fn try_resolve(url: &str, flags: &LoadOptions, layout: &Layout) -> Result<(), String> {
    let try_it = || match LoadSpec::resolve(Some(url), flags) {
        Ok(_) => Ok(()),
        Err(trouble) => Err(trouble.to_string()),
    };
    match layout.load {
        PlaceKind::Named(load) => {
            let sources = &layout.topology.places[load].sources;
            // Without the rights for places there is a mistake about these already.
            place::rehearse(sources, try_it).unwrap_or(Ok(()))
        }
        _ => try_it(),
    }
}

/// Whether a flag of `prony load` is a key of `[load]`.
pub(crate) fn is_key(arg: &clap::Arg) -> bool {
    let settled = |flag: &str| ELSEWHERE.iter().any(|(name, _)| *name == flag);
    let long = arg.get_long().map(|flag| flag.replace('-', "_"));
    long.is_some_and(|flag| !settled(&flag)) && !arg.is_hide_set()
}

fn check_keys(table: &Table, command: &clap::Command, reader: &mut Reader<'_>) {
    let flags: Vec<String> = command
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .map(|f| f.replace('-', "_"))
        .collect();
    for entry in &table.entries {
        let key = entry.key.as_str();
        let what = format!("[load] has no key \"{key}\"");
        if let Some((_, instead)) = ELSEWHERE.iter().find(|(name, _)| *name == key) {
            reader.refuse_with(Fault::UnknownKey, entry.line, what, *instead);
        } else if !OWN_KEYS.contains(&key) && !flags.iter().any(|flag| flag == key) {
            let known = flags
                .iter()
                .map(String::as_str)
                .chain(OWN_KEYS.iter().copied());
            let mend = if key.contains('-') && flags.contains(&key.replace('-', "_")) {
                format!("write {}", key.replace('-', "_"))
            } else {
                did_you_mean(key, known)
                    .unwrap_or_else(|| "it takes the long flags of prony load".to_owned())
            };
            reader.refuse_with(Fault::UnknownKey, entry.line, what, mend);
        }
    }
}

fn read_target<'s>(
    table: &Table,
    served: &Served<'s>,
    reader: &mut Reader<'_>,
) -> Option<(&'s Shape, &'s str)> {
    let names: Vec<&str> = served
        .layout
        .shapes
        .iter()
        .map(|shape| shape.name.as_str())
        .collect();
    let Some(node) = table.get("target") else {
        let mend = match names.first() {
            Some(name) => format!("name a service: target = \"{name}\""),
            None => "name a service".to_owned(),
        };
        reader.refuse_with(Fault::MissingKey, table.line, "[load] has no target", mend);
        return None;
    };
    let text = reader.text(node, "target of [load]")?;
    let (service, listener) = match text.split_once('.') {
        Some((service, listener)) => (service, Some(listener)),
        None => (text.as_str(), None),
    };
    let Some(shape) = served
        .layout
        .shapes
        .iter()
        .find(|shape| shape.name == service)
    else {
        let what = format!("the target \"{text}\" is no service");
        let mend = if text.contains('/') {
            "name a service; its path goes into path = \"/…\", a foreign server into a service's \
             remote"
                .to_owned()
        } else {
            did_you_mean(service, names.iter().copied())
                .unwrap_or_else(|| format!("known are: {}", names.join(", ")))
        };
        reader.refuse_with(Fault::Undefined, node.line, what, mend);
        return None;
    };
    if shape.remote.is_some() && listener.is_none() {
        return Some((shape, ""));
    }
    let known: Vec<&str> = shape.listen.keys().map(String::as_str).collect();
    let found = match listener {
        Some(listener) => known.iter().find(|name| **name == listener),
        None if known.len() == 1 => known.first(),
        None => None,
    };
    if found.is_none() {
        let what = format!("the target \"{text}\" is no listener of service \"{service}\"");
        let mend = match known.as_slice() {
            [] => "it has none".to_owned(),
            [""] => format!("it has one without a name: target = \"{service}\""),
            names => format!("one of: {service}.{}", names.join(&format!(", {service}."))),
        };
        reader.refuse_with(Fault::Undefined, node.line, what, mend);
    }
    found.map(|listener| (shape, *listener))
}

fn read_options(
    table: &Table,
    command: &clap::Command,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> Vec<LoadOption> {
    let mut options = Vec::new();
    for arg in command.get_arguments() {
        let Some(flag) = arg.get_long() else { continue };
        let key = flag.replace('-', "_");
        let Some(node) = table.get(&key) else {
            continue;
        };
        if ELSEWHERE.iter().any(|(name, _)| *name == key) {
            continue;
        }
        let values = match arg.get_action() {
            ArgAction::SetTrue => match node.value {
                Value::Bool(true) => Some(Vec::new()),
                Value::Bool(false) => continue,
                _ => {
                    let what = format!("{key} is {}, not true or false", node.value.kind());
                    reader.refuse(Fault::WrongType, node.line, what);
                    None
                }
            },
            ArgAction::Append if key == "header" => read_headers(node, reader),
            ArgAction::Append => reader.texts(node, &key),
            // One value; what lists as an array is one list on the command line.
            _ => reader.texts(node, &key).map(|texts| vec![texts.join(",")]),
        };
        let Some(mut values) = values else { continue };
        // A level whose server asks for no user leaves it empty.
        if key == "user" && values == [""] {
            continue;
        }
        if FILES.contains(&key.as_str()) {
            for value in &mut values {
                *value = read_path_value(&key, value, node.line, around, reader);
            }
        }
        if values.is_empty() && !matches!(arg.get_action(), ArgAction::SetTrue) {
            continue;
        }
        options.push(LoadOption {
            name: flag.to_owned(),
            values,
            line: node.line,
        });
    }
    options
}

/// `["K: V"]` or `{ K = "V" }`.
fn read_headers(node: &Node, reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let Value::Table(table) = &node.value else {
        return reader.texts(node, "header");
    };
    table
        .entries
        .iter()
        .map(|entry| {
            let value = reader.scalar(&entry.node, &format!("header {}", entry.key))?;
            Some(format!("{}: {value}", entry.key))
        })
        .collect()
}

fn read_path_value(
    key: &str,
    written: &str,
    line: usize,
    around: &Surroundings<'_>,
    reader: &mut Reader<'_>,
) -> String {
    let originals = Folder {
        base: around.folder.base.clone(),
        includes: None,
    };
    let folder = if SECRETS.contains(&key) {
        &originals
    } else {
        around.references.borrow_mut().insert(written.to_owned());
        around.folder
    };
    let path: PathBuf = folder.file(written);
    if let Err(trouble) = folder.check(written) {
        let what = format!("{key}: {} {trouble}", path.display());
        let mend = "relative paths start from the plan's folder";
        reader.refuse_with(Fault::File, line, what, mend);
    }
    path.to_string_lossy().into_owned()
}

/// Adds the lengths that `[trials]` has for every variant.
fn add_lengths(options: &mut Vec<LoadOption>, served: &Served<'_>, reader: &mut Reader<'_>) {
    let Served {
        trials, trial_keys, ..
    } = *served;
    for (name, length) in [("warmup", trials.warmup), ("duration", trials.duration)] {
        let in_trials = trial_keys.iter().any(|key| key == name);
        match options.iter().find(|option| option.name == name) {
            Some(option) if in_trials => {
                let what = format!("{name} stands in [trials] and in [load]");
                reader.refuse_with(Fault::Structure, option.line, what, "take one out");
            }
            Some(_) => {}
            // A load that ends by a count of requests has no length, unless the plan gives both.
            None if name == "duration"
                && !in_trials
                && options.iter().any(|option| option.name == "requests") => {}
            None => options.push(LoadOption {
                name: name.to_owned(),
                values: vec![typed_time(length)],
                line: 0,
            }),
        }
    }
}

fn read_model(table: &Table, options: &[LoadOption], reader: &mut Reader<'_>) -> Model {
    let rate = options.iter().find(|option| option.name == "rate");
    let given = table.get("model").and_then(|node| {
        let word = reader.choice(node, "model of [load]", &["closed", "open"])?;
        Some((word, node.line))
    });
    match (given, rate) {
        (Some(("open", line)), None) => {
            let what = "an open loop needs a rate";
            reader.refuse_with(
                Fault::MissingKey,
                line,
                what,
                "add rate = 1000, requests a second",
            );
            Model::Open
        }
        (Some(("closed", _)), Some(rate)) => {
            let what = "a closed loop has no rate: it goes as fast as the server answers";
            let mend = "take rate out, or set model = \"open\"";
            reader.refuse_with(Fault::Structure, rate.line, what, mend);
            Model::Closed
        }
        (Some(("open", _)), _) | (None, Some(_)) => Model::Open,
        _ => Model::Closed,
    }
}

fn read_scheme(table: &Table, listener: Option<&str>, reader: &mut Reader<'_>) -> Scheme {
    let word = match table.get("scheme") {
        Some(node) => reader.choice(node, "scheme of [load]", &["http", "https"]),
        // A listener that is called https speaks it.
        None => listener.filter(|name| *name == "https"),
    };
    if word == Some("https") {
        Scheme::Https
    } else {
        Scheme::Http
    }
}

fn read_path(table: &Table, reader: &mut Reader<'_>) -> String {
    let Some(node) = table.get("path") else {
        return "/".to_owned();
    };
    if table.get("urls").is_some() {
        let what = "path has no effect beside urls";
        reader.refuse_with(Fault::Structure, node.line, what, "take one out");
    }
    match reader.scalar(node, "path of [load]") {
        Some(path) if path.starts_with('/') && !path.contains(char::is_whitespace) => path,
        Some(path) => {
            let what = format!("path of [load] is \"{path}\"");
            reader.refuse_with(
                Fault::BadValue,
                node.line,
                what,
                "it begins with / and has no blank",
            );
            "/".to_owned()
        }
        None => "/".to_owned(),
    }
}

/// Runs the command line's own parser over the flags, and finds the line of what it refuses.
fn parse(
    command: clap::Command,
    options: &[LoadOption],
    reader: &mut Reader<'_>,
) -> Option<LoadOptions> {
    let read = command
        .try_get_matches_from(words(options))
        .and_then(|matches| LoadOptions::from_arg_matches(&matches));
    match read {
        Ok(flags) => Some(flags),
        Err(error) => {
            // The parser's sentence, without its usage.
            let text = error.render().to_string();
            let sentence: Vec<&str> = text
                .lines()
                .take_while(|line| !line.starts_with("Usage:"))
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
                .collect();
            let sentence = sentence.join(" ");
            let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
            refuse_flag(sentence, options, reader);
            None
        }
    }
}

/// Says what the load itself has against its flags, on the line of the flag that it names.
fn refuse_flag(sentence: &str, options: &[LoadOption], reader: &mut Reader<'_>) {
    // Of several the first is what it is about, the others what to do about it.
    let line = options
        .iter()
        .filter(|option| option.line > 0)
        .filter_map(|option| Some((flag_in(sentence, &option.name)?, option.line)))
        .min()
        .map_or(0, |(_, line)| line);
    reader.refuse(
        Fault::BadValue,
        line,
        format!("[load]: {}", one_line(sentence)),
    );
}

fn one_line(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A time as one would type it.
fn typed_time(time: Duration) -> String {
    match time.as_micros() {
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1_000 == 0 => format!("{}ms", us / 1_000),
        us => format!("{us}us"),
    }
}

/// Where a sentence names a flag.
fn flag_in(sentence: &str, flag: &str) -> Option<usize> {
    let flag = format!("--{flag}");
    let mut named = sentence.match_indices(&flag).map(|(at, _)| at);
    named.find(|at| {
        let rest = &sentence[at + flag.len()..];
        !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-')
    })
}

fn words(options: &[LoadOption]) -> Vec<String> {
    let mut words = Vec::new();
    for option in options {
        if option.values.is_empty() {
            words.push(format!("--{}", option.name));
        }
        // With "=", a value that begins with a dash is still a value.
        words.extend(
            option
                .values
                .iter()
                .map(|value| format!("--{}={value}", option.name)),
        );
    }
    words
}

/// The host and port of the URL: the remote's own name, since servers choose by it.
fn authority(shape: &Shape, endpoint: &Endpoint) -> String {
    match (&shape.remote, endpoint) {
        (Some((written, Remote::Tcp { .. })), _) => written.clone(),
        (_, Endpoint::Tcp(address)) => address.to_string(),
        (_, Endpoint::Unix(_)) => "localhost".to_owned(),
    }
}
