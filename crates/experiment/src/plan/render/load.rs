//! `[load]`: the long flags of `prony load`, checked by the very parser of the command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, FromArgMatches};
use prony_load::{LoadOptions, LoadSpec};

use super::context::{MachineNeedKind, RenderContext};
use super::service_layout::{RemoteAddress, ServiceLayout};
use super::variant_layout::VariantLayout;
use crate::place;
use crate::plan::diagnostic::{DiagnosticKind, did_you_mean};
use crate::plan::model::{PlanFolder, TrialSettings};
use crate::plan::syntax::{PlanReader, TomlNode, TomlTable, TomlValue};
use crate::service::{Allocated, Endpoint, PlaceKind};

/// The keys that are no flags.
pub(crate) const OWN_KEYS: &[&str] = &[
    "target", "scheme", "model", "path", "place", "agents", "bodies",
];

/// Flags whose value is a file; relative paths start from the plan's folder.
const FILES: &[&str] = &["urls", "body_file", "ca", "cert", "key"];

/// ServiceFiles that stay where they are when an experiment copies what its plan names: results are passed
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
pub(crate) struct LoadContext<'a> {
    pub(crate) allocated: &'a BTreeMap<String, Allocated>,
    pub(crate) trials: &'a TrialSettings,
    /// The keys of `[trials]` that the plan has written.
    pub(crate) trial_keys: &'a [String],
}

/// Reads the load; `None` after a refusal, which the reader has.
pub(crate) fn read_load(
    table: &TomlTable,
    load_context: &LoadContext<'_>,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<ResolvedLoad> {
    let before = reader.diagnostics.count();
    let rendered = around.templates.table(table, reader);
    let command = LoadOptions::augment_args(clap::Command::new("load").no_binary_name(true));
    check_keys(table, &command, reader);
    let target = read_target(&rendered, around.layout, reader);
    let mut options = read_options(&rendered, &command, around, reader);
    let cores = read_cores(&rendered, &mut options, around.layout);
    add_lengths(&mut options, load_context, reader);
    if around.layout.load_agents.is_none()
        && let Some(node) = &cores
        && let Some(cores) = reader.cores(node, "cores of [load]")
    {
        let owner = "[load]".to_owned();
        around.add_need(node.line, MachineNeedKind::Cores { owner, cores });
    }
    let model = read_model(&rendered, &options, reader);
    let scheme = read_scheme(
        &rendered,
        target.as_ref().map(|(_, listener)| *listener),
        reader,
    );
    let path = read_path(&rendered, reader);
    let (shape, listener) = target?;
    let allocated = load_context.allocated.get(&shape.name)?;
    let endpoint = allocated.endpoints.get(listener)?;
    let line = rendered.line_of("target");
    let endpoint = target_endpoint(shape, endpoint, around.layout, line, reader)?;
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
    if reader.diagnostics.count() > before {
        return None;
    }
    Some(ResolvedLoad {
        place: around.layout.load_place,
        agents: around.layout.load_agents.clone(),
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

/// Checks that the machine that runs the plan can make the load: its addresses, cores and files. An
/// agent checks its own.
pub(crate) fn check_load(load: &ResolvedLoad, layout: &VariantLayout, reader: &mut PlanReader<'_>) {
    if layout.load_agents.is_none()
        && let Err(trouble) = try_resolve(&load.url, &load.flags, layout)
    {
        refuse_flag(&trouble, &load.options, reader);
    }
}

/// The endpoint at which the load reaches its target's listener.
fn target_endpoint(
    shape: &ServiceLayout,
    endpoint: &Endpoint,
    layout: &VariantLayout,
    line: usize,
    reader: &mut PlanReader<'_>,
) -> Option<Endpoint> {
    match layout.reachable_endpoint(shape, endpoint, layout.load_viewer()) {
        Ok(endpoint) => Some(endpoint),
        Err(reason) => {
            let message = format!("the load can't reach its target: {reason}");
            let hint = if layout.uses_other_hosts() {
                "it reaches native services that listen on TCP"
            } else {
                "the place of [load] and the links decide what it reaches"
            };
            reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
            None
        }
    }
}

/// The load's cores, or those of its place, which become a flag like its own.
fn read_cores(
    table: &TomlTable,
    options: &mut Vec<LoadOption>,
    layout: &VariantLayout,
) -> Option<TomlNode> {
    if let Some(own) = table.get("cores") {
        return Some(own.clone());
    }
    let of_place = layout.cores_of(layout.load_place)?;
    options.push(LoadOption {
        name: "cores".to_owned(),
        values: vec![of_place.text.clone()],
        line: of_place.line,
    });
    Some(of_place.node())
}

/// What the load itself has against its flags. A load that comes from addresses of its place can be
/// asked only where these are.
fn try_resolve(url: &str, flags: &LoadOptions, layout: &VariantLayout) -> Result<(), String> {
    let try_it = || match LoadSpec::resolve(Some(url), flags) {
        Ok(_) => Ok(()),
        Err(trouble) => Err(trouble.to_string()),
    };
    match layout.load_place {
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

fn check_keys(table: &TomlTable, command: &clap::Command, reader: &mut PlanReader<'_>) {
    let flags: Vec<String> = command
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .map(|f| f.replace('-', "_"))
        .collect();
    for entry in &table.entries {
        let key = entry.key.as_str();
        let message = format!("[load] has no key \"{key}\"");
        if let Some((_, instead)) = ELSEWHERE.iter().find(|(name, _)| *name == key) {
            reader.report_with_hint(DiagnosticKind::UnknownKey, entry.line, message, *instead);
        } else if !OWN_KEYS.contains(&key) && !flags.iter().any(|flag| flag == key) {
            let known = flags
                .iter()
                .map(String::as_str)
                .chain(OWN_KEYS.iter().copied());
            let hint = if key.contains('-') && flags.contains(&key.replace('-', "_")) {
                format!("write {}", key.replace('-', "_"))
            } else {
                did_you_mean(key, known)
                    .unwrap_or_else(|| "it takes the long flags of prony load".to_owned())
            };
            reader.report_with_hint(DiagnosticKind::UnknownKey, entry.line, message, hint);
        }
    }
}

fn read_target<'s>(
    table: &TomlTable,
    layout: &'s VariantLayout,
    reader: &mut PlanReader<'_>,
) -> Option<(&'s ServiceLayout, &'s str)> {
    let names: Vec<&str> = layout
        .services
        .iter()
        .map(|shape| shape.name.as_str())
        .collect();
    let Some(node) = table.get("target") else {
        let hint = match names.first() {
            Some(name) => format!("name a service: target = \"{name}\""),
            None => "name a service".to_owned(),
        };
        reader.report_with_hint(
            DiagnosticKind::MissingKey,
            table.line,
            "[load] has no target",
            hint,
        );
        return None;
    };
    let text = reader.text(node, "target of [load]")?;
    let (service, listener) = match text.split_once('.') {
        Some((service, listener)) => (service, Some(listener)),
        None => (text.as_str(), None),
    };
    let Some(shape) = layout.services.iter().find(|shape| shape.name == service) else {
        let message = format!("the target \"{text}\" is no service");
        let hint = if text.contains('/') {
            "name a service; its path goes into path = \"/…\", a foreign server into a service's \
             remote"
                .to_owned()
        } else {
            did_you_mean(service, names.iter().copied())
                .unwrap_or_else(|| format!("known are: {}", names.join(", ")))
        };
        reader.report_with_hint(DiagnosticKind::Undefined, node.line, message, hint);
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
        let message = format!("the target \"{text}\" is no listener of service \"{service}\"");
        let hint = match known.as_slice() {
            [] => "it has none".to_owned(),
            [""] => format!("it has one without a name: target = \"{service}\""),
            names => format!("one of: {service}.{}", names.join(&format!(", {service}."))),
        };
        reader.report_with_hint(DiagnosticKind::Undefined, node.line, message, hint);
    }
    found.map(|listener| (shape, *listener))
}

fn read_options(
    table: &TomlTable,
    command: &clap::Command,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
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
                TomlValue::Bool(true) => Some(Vec::new()),
                TomlValue::Bool(false) => continue,
                _ => {
                    let message = format!("{key} is {}, not true or false", node.value.kind());
                    reader.report(DiagnosticKind::WrongType, node.line, message);
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
fn read_headers(node: &TomlNode, reader: &mut PlanReader<'_>) -> Option<Vec<String>> {
    let TomlValue::Table(table) = &node.value else {
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
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> String {
    let originals = PlanFolder {
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
        let message = format!("{key}: {} {trouble}", path.display());
        let hint = "relative paths start from the plan's folder";
        reader.report_with_hint(DiagnosticKind::File, line, message, hint);
    }
    path.to_string_lossy().into_owned()
}

/// Adds the lengths that `[trials]` has for every variant.
fn add_lengths(
    options: &mut Vec<LoadOption>,
    load_context: &LoadContext<'_>,
    reader: &mut PlanReader<'_>,
) {
    let LoadContext {
        trials, trial_keys, ..
    } = *load_context;
    for (name, length) in [("warmup", trials.warmup), ("duration", trials.duration)] {
        let in_trials = trial_keys.iter().any(|key| key == name);
        match options.iter().find(|option| option.name == name) {
            Some(option) if in_trials => {
                let message = format!("{name} stands in [trials] and in [load]");
                reader.report_with_hint(
                    DiagnosticKind::Structure,
                    option.line,
                    message,
                    "take one out",
                );
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

fn read_model(table: &TomlTable, options: &[LoadOption], reader: &mut PlanReader<'_>) -> Model {
    let rate = options.iter().find(|option| option.name == "rate");
    let given = table.get("model").and_then(|node| {
        let word = reader.choice(node, "model of [load]", &["closed", "open"])?;
        Some((word, node.line))
    });
    match (given, rate) {
        (Some(("open", line)), None) => {
            let message = "an open loop needs a rate";
            reader.report_with_hint(
                DiagnosticKind::MissingKey,
                line,
                message,
                "add rate = 1000, requests a second",
            );
            Model::Open
        }
        (Some(("closed", _)), Some(rate)) => {
            let message = "a closed loop has no rate: it goes as fast as the server answers";
            let hint = "take rate out, or set model = \"open\"";
            reader.report_with_hint(DiagnosticKind::Structure, rate.line, message, hint);
            Model::Closed
        }
        (Some(("open", _)), _) | (None, Some(_)) => Model::Open,
        _ => Model::Closed,
    }
}

fn read_scheme(table: &TomlTable, listener: Option<&str>, reader: &mut PlanReader<'_>) -> Scheme {
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

fn read_path(table: &TomlTable, reader: &mut PlanReader<'_>) -> String {
    let Some(node) = table.get("path") else {
        return "/".to_owned();
    };
    if table.get("urls").is_some() {
        let message = "path has no effect beside urls";
        reader.report_with_hint(
            DiagnosticKind::Structure,
            node.line,
            message,
            "take one out",
        );
    }
    match reader.scalar(node, "path of [load]") {
        Some(path) if path.starts_with('/') && !path.contains(char::is_whitespace) => path,
        Some(path) => {
            let message = format!("path of [load] is \"{path}\"");
            reader.report_with_hint(
                DiagnosticKind::BadValue,
                node.line,
                message,
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
    reader: &mut PlanReader<'_>,
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
fn refuse_flag(sentence: &str, options: &[LoadOption], reader: &mut PlanReader<'_>) {
    // Of several the first is what it is about, the others what to do about it.
    let line = options
        .iter()
        .filter(|option| option.line > 0)
        .filter_map(|option| Some((flag_in(sentence, &option.name)?, option.line)))
        .min()
        .map_or(0, |(_, line)| line);
    reader.report(
        DiagnosticKind::BadValue,
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
fn authority(shape: &ServiceLayout, endpoint: &Endpoint) -> String {
    match (&shape.remote, endpoint) {
        (Some((written, RemoteAddress::Tcp { .. })), _) => written.clone(),
        (_, Endpoint::Tcp(address)) => address.to_string(),
        (_, Endpoint::Unix(_)) => "localhost".to_owned(),
    }
}
