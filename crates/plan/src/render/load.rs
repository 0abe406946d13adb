//! `[load]`: keys that exist only in plans, and settings that are also flags of `prony load`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prony_load::input_file::{self, TEXT_BYTES_MAX};
use prony_load::{
    CoreList, FormField, HttpVersion, IoChoice, LoadSettings, Notation, Setting, SpecError,
    ValueKind, is_one_word,
};
use prony_record::quantity;

use super::capacity_load::{self, CapacityLoad};
use super::context::{MachineNeedKind, RenderContext};
use super::service_layout::{RemoteAddress, ServiceLayout};
use super::variant_layout::VariantLayout;
use super::{load_settings, request_values};
use crate::abort_rules::{AbortRules, AbortRulesError};
use crate::diagnostic::{DiagnosticKind, did_you_mean};
use crate::machine::PlanMachine;
use crate::model::{PlanFolder, TrialSettings};
use crate::reference::{self, PlanTable};
use crate::service::{AllocatedService, Endpoint, ListenKind, PlaceKind};
use crate::syntax::{PlanReader, TomlNode, TomlTable, TomlValue};

/// Settings whose file is not copied to results. Results are shared, but private keys must stay
/// private.
const SECRETS: &[&str] = &["key"];

/// Loop model, which determines when requests start.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadModel {
    /// Each connection starts its next request when the previous request ends.
    Closed,
    /// Requests start at a fixed rate, independently of the server's responses.
    Open,
    /// A capacity search: a sequence of open loops at rates that the search chooses.
    Capacity(CapacityLoad),
}

impl LoadModel {
    /// Returns the settings to check: `settings`, or the settings of an example probe for a
    /// capacity search.
    fn sample(&self, settings: &LoadSettings) -> LoadSettings {
        match self {
            LoadModel::Capacity(capacity) => capacity.sample(settings),
            LoadModel::Closed | LoadModel::Open => settings.clone(),
        }
    }
}

/// URL scheme of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// WebSockets.
    Ws,
    /// WebSockets over TLS.
    Wss,
}

impl Scheme {
    /// Returns the scheme as written in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// Returns true if connections use TLS.
    pub fn uses_tls(self) -> bool {
        matches!(self, Self::Https | Self::Wss)
    }
}

/// The load of one variant, with all templates rendered.
#[derive(Debug, Clone)]
pub struct ResolvedLoad {
    /// Place in which the load runs: native, or a named place.
    pub place: PlaceKind,
    /// Agents that generate the load, as a number or by name; `None` if this machine does.
    pub agents: Option<String>,
    /// Name of the target service.
    pub service: String,
    /// Name of the target listener; `""` for an unnamed one.
    pub listener: String,
    /// Endpoint of the target listener.
    pub target_endpoint: Endpoint,
    /// URL scheme.
    pub scheme: Scheme,
    /// Closed loop, open loop, or capacity search.
    pub model: LoadModel,
    /// URL for `prony load`, including the plan's `path`.
    pub url: String,
    /// Settings of the load. They are the settings in the plan, `unix` if the target is a UNIX
    /// socket, and `warmup` and `duration` from `[trials]` unless `[load]` sets them.
    pub settings: LoadSettings,
    /// Conditions that end the load, and with it the experiment.
    pub abort_rules: Option<AbortRules>,
    /// Line of each setting in the plan.
    pub(crate) lines: SettingLines,
}

/// Line of each load setting in a plan, by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingLines(BTreeMap<String, usize>);

impl SettingLines {
    fn of(given: &TomlTable) -> SettingLines {
        let lines = given.entries.iter();
        SettingLines(lines.map(|it| (it.key.clone(), it.node.line)).collect())
    }

    /// Reports an error in the load settings at the line of the setting at fault.
    fn report(&self, error: &SpecError, reader: &mut PlanReader<'_>) {
        let line = error.setting().and_then(|key| self.0.get(key));
        let text = one_line(&error.in_notation(Notation::Keys));
        let message = format!("[load]: {text}");
        reader.report(
            DiagnosticKind::BadValue,
            line.copied().unwrap_or(0),
            message,
        );
    }
}

/// Properties of a variant's services that are needed to read a load.
pub(crate) struct LoadContext<'a> {
    pub(crate) allocated: &'a BTreeMap<String, AllocatedService>,
    pub(crate) trials: &'a TrialSettings,
    /// Keys of `[trials]` that the plan sets.
    pub(crate) trial_keys: &'a [String],
}

/// Reads the load. If it has an error, reports the error and returns `None`.
pub(crate) fn read_load(
    table: &TomlTable,
    load_context: &LoadContext<'_>,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<ResolvedLoad> {
    let before = reader.diagnostics.count();
    let templates = request_values::load_context(table, around, reader)?;
    let around = &RenderContext {
        templates: &templates,
        ..around.clone()
    };
    let rendered = around.templates.table(table, reader);
    let target = read_target(&rendered, around.layout, reader);
    let given = settings_of(&rendered, around, reader);
    let mut lines = SettingLines::of(&given);
    let mut settings = load_settings::read_settings(&given, reader);
    settings.public |= around.machine.allows_public_targets();
    if let Some(node) = read_cores(&rendered, around.layout)
        && let Some(cores) = reader.cores(&node, "cores of [load]")
    {
        lines.0.insert("cores".to_owned(), node.line);
        settings
            .cores
            .get_or_insert_with(|| CoreList(cores.clone()));
        if around.layout.load_agents.is_none() {
            let owner = "[load]".to_owned();
            around.add_need(node.line, MachineNeedKind::Cores { owner, cores });
        }
    }
    let tables = (&rendered, &given, &lines);
    let model = read_model(tables, &mut settings, load_context, around, reader)?;
    let scheme = read_scheme(&rendered, target, reader);
    let path = read_path(&rendered, reader);
    let abort_rules = read_abort_rules(&rendered, reader);
    let (shape, listener) = target?;
    let allocated = load_context.allocated.get(&shape.name)?;
    let endpoint = allocated.endpoints.get(listener)?;
    let line = rendered.line_of("target");
    let endpoint = target_endpoint(shape, endpoint, around.layout, line, reader)?;
    match &endpoint {
        Endpoint::Unix(path) => settings.unix = Some(path.clone()),
        Endpoint::Udp(_) => {
            let target = format!("{}.{listener}", shape.name);
            let target = target.trim_end_matches('.');
            use_http3(&mut settings, &rendered, target, reader);
        }
        Endpoint::Tcp(_) => {}
    }
    if let Err(error) = model.sample(&settings).check() {
        lines.report(&error.into(), reader);
    }
    if settings.script.is_some() && around.layout.load_agents.is_some() {
        refuse_script(&lines, reader);
    }
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
        settings,
        abort_rules,
        lines,
    })
}

/// Reports that a load generated by agents has a script. Agents don't run scripts.
fn refuse_script(lines: &SettingLines, reader: &mut PlanReader<'_>) {
    let line = lines.0.get("script").copied().unwrap_or(0);
    let message = "script can't be combined with agents: agents don't run scripts, because a script can \
         start any program";
    let hint = "remove agents, or describe the requests with urls";
    reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
}

/// Reads `abort_if` and `abort_window`.
fn read_abort_rules(table: &TomlTable, reader: &mut PlanReader<'_>) -> Option<AbortRules> {
    let window = table.get("abort_window").and_then(|node| {
        let text = reader.scalar(node, "abort_window")?;
        reader.valid(quantity::positive_time(&text), node, "abort_window")
    });
    let Some(node) = table.get("abort_if") else {
        if table.get("abort_window").is_some() {
            let message = "abort_window of [load] has no effect without abort_if";
            let hint = "add abort_if = [\"failed > 5%\"], or remove abort_window";
            let line = table.line_of("abort_window");
            reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
        }
        return None;
    };
    let conditions = reader.texts(node, "abort_if of [load]")?;
    match AbortRules::read(&conditions, window) {
        Ok(rules) => rules,
        Err(error) => {
            let key = match error {
                AbortRulesError::Condition(_) => "abort_if",
                AbortRulesError::ShortWindow => "abort_window",
            };
            let message = format!("{key} of [load]: {error}");
            reader.report(DiagnosticKind::BadValue, table.line_of(key), message);
            None
        }
    }
}

/// Checks that the machine that runs the plan can generate the load with the given addresses, cores
/// and files. Agents check this themselves.
pub(crate) fn check_load(
    load: &ResolvedLoad,
    layout: &VariantLayout,
    machine: &dyn PlanMachine,
    reader: &mut PlanReader<'_>,
) {
    check_interface(load, layout, reader);
    if layout.load_agents.is_none()
        && let Err(error) = try_resolve(load, layout, machine)
    {
        load.lines.report(&error, reader);
    }
}

/// Checks the interface of a load over AF_XDP in a named place. It must be one of the place's
/// links, and that link must not drop packets: the load takes its packets from the interface before
/// the rules that drop packets see them.
fn check_interface(load: &ResolvedLoad, layout: &VariantLayout, reader: &mut PlanReader<'_>) {
    let settings = &load.settings;
    let (PlaceKind::Named(place), Some(IoChoice::Xdp)) = (layout.load_place, settings.io) else {
        return;
    };
    let name = settings.interface.as_deref().unwrap_or_default();
    let links = &layout.topology.links;
    let of_place = links
        .iter()
        .filter(|link| link.ends.iter().any(|end| end.place == place));
    let (kind, message, hint) = match of_place.clone().find(|link| link.name == name) {
        Some(link) if link.emulation.is_some() => (
            DiagnosticKind::BadValue,
            format!("link \"{name}\" can't have a delay for a load with io = \"xdp\""),
            "its packets bypass the emulator: remove round_trip, delay, jitter, loss_burst, \
             reorder and duplicate from the link, or use kernel sockets"
                .to_owned(),
        ),
        Some(link) if link.loss.is_some_and(|loss| loss.per_million() > 0) => (
            DiagnosticKind::BadValue,
            format!("loss on link \"{name}\" has no effect on a load with io = \"xdp\""),
            "remove loss from the link, or use kernel sockets".to_owned(),
        ),
        Some(_) => return,
        None => {
            let message = format!("interface \"{name}\" is not a link of the load's place");
            let known: Vec<&str> = of_place.map(|link| link.name.as_str()).collect();
            let hint = if known.is_empty() {
                "connect the place with a [link.NAME]".to_owned()
            } else {
                format!(
                    "its interfaces are named after its links: {}",
                    known.join(", ")
                )
            };
            (DiagnosticKind::Undefined, message, hint)
        }
    };
    let line = load.lines.0.get("interface").or(load.lines.0.get("io"));
    let line = line.copied().unwrap_or_default();
    reader.report_with_hint(kind, line, message, hint);
}

/// Returns the endpoint at which the load reaches the target listener.
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
                "it can reach native services that listen on TCP"
            } else {
                "what the load can reach depends on its place and on the links"
            };
            reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
            None
        }
    }
}

/// Selects HTTP/3, the only version that a UDP listener supports.
fn use_http3(
    settings: &mut LoadSettings,
    table: &TomlTable,
    target: &str,
    reader: &mut PlanReader<'_>,
) {
    let http = settings.http.get_or_insert(HttpVersion::Http3);
    if *http != HttpVersion::Http3 {
        let message = format!("the target \"{target}\" is a UDP listener, which means HTTP/3");
        let hint = "remove http, or set another target";
        let line = table.line_of("http");
        reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
    }
}

/// Returns the cores of the load, or those of its place if the load sets none.
fn read_cores(table: &TomlTable, layout: &VariantLayout) -> Option<TomlNode> {
    let own = table.get("cores").cloned();
    own.or_else(|| layout.cores_of(layout.load_place).map(|cores| cores.node()))
}

/// Resolves the load to find errors in it. If the load's place has source addresses, the load is
/// resolved in a temporary network that has these addresses. That network has no links, so the
/// first trial checks the interface of a load over AF_XDP.
fn try_resolve(
    load: &ResolvedLoad,
    layout: &VariantLayout,
    machine: &dyn PlanMachine,
) -> Result<(), SpecError> {
    let mut settings = load.model.sample(&load.settings);
    let sources = match layout.load_place {
        PlaceKind::Named(place) => {
            settings.use_kernel_sockets();
            Some(layout.topology.places[place].sources.as_slice())
        }
        PlaceKind::Native | PlaceKind::Namespace => None,
    };
    machine.check_load(&load.url, &settings, sources)
}

/// Returns true if a setting's value is the path of a file. Relative paths are resolved against the
/// plan's folder.
fn is_file(key: &str) -> bool {
    Setting::find(key).is_some_and(|setting| setting.kind == ValueKind::File)
}

/// Reports the keys that `[load]` doesn't have.
pub(crate) fn report_unknown_keys(table: &TomlTable, reader: &mut PlanReader<'_>) {
    let known = PlanTable::Load.names();
    for entry in &table.entries {
        let key = entry.key.as_str();
        let message = format!("[load] has no key \"{key}\"");
        if let Some(instead) = reference::instead_of(key) {
            reader.report_with_hint(DiagnosticKind::UnknownKey, entry.line, message, instead);
        } else if !known.contains(&key) {
            let underscored = key.replace('-', "_");
            let hint = if key.contains('-') && known.contains(&underscored.as_str()) {
                format!("write {underscored}")
            } else {
                did_you_mean(key, known.iter().copied())
                    .unwrap_or_else(|| "[load] accepts the long flags of prony load".to_owned())
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
        // A plan without services was reported when it was read.
        if names.is_empty() {
            return None;
        }
        let message = format!("the target \"{text}\" is not a service");
        let hint = if text.contains('/') {
            "name a service; path = \"/…\" sets the path, and remote in [service.NAME] names a \
             server that prony does not start"
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
        None => only_listener(shape).and_then(|only| known.iter().find(|name| **name == only)),
    };
    if found.is_none() {
        let message = format!("the target \"{text}\" is not a listener of service \"{service}\"");
        let hint = match known.as_slice() {
            [] => "it has none".to_owned(),
            [""] => format!("its only listener has no name; write target = \"{service}\""),
            names => format!("one of: {service}.{}", names.join(&format!(", {service}."))),
        };
        reader.report_with_hint(DiagnosticKind::Undefined, node.line, message, hint);
    }
    found.map(|listener| (shape, *listener))
}

/// Returns the listener of a target that names only a service: the service's only listener, or the
/// only one that accepts connections.
fn only_listener(shape: &ServiceLayout) -> Option<&String> {
    let mut accepting = shape.accepting();
    let first = accepting.next().filter(|_| accepting.next().is_none());
    first.or_else(|| {
        let mut all = shape.listen.keys();
        all.next().filter(|_| all.next().is_none())
    })
}

/// Returns the entries of `[load]` that are load settings, with file paths resolved.
fn settings_of(
    table: &TomlTable,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> TomlTable {
    let is_setting =
        |key: &str| Setting::find(key).is_some() && reference::instead_of(key).is_none();
    let mut settings = TomlTable {
        line: table.line,
        entries: Vec::new(),
    };
    for entry in table.entries.iter().filter(|it| is_setting(&it.key)) {
        let (key, node) = (entry.key.as_str(), &entry.node);
        let is_empty = matches!(&node.value, TomlValue::Text(text) if text.is_empty());
        // A factor level can set `user` to an empty string for variants without a user.
        if key == "user" && is_empty {
            continue;
        }
        let mut entry = entry.clone();
        if is_file(key) {
            let Some(written) = reader.scalar(node, key) else {
                continue;
            };
            let path = read_path_value(key, &written, node.line, around, reader);
            entry.node.value = TomlValue::Text(path);
        }
        if let ("step", TomlValue::Array(steps)) = (key, &mut entry.node.value) {
            for step in steps {
                set_step_files(step, around, reader);
            }
        }
        if key == "message_file" {
            let Some(files) = reader.texts(node, "message_file of [load]") else {
                continue;
            };
            let files = files.into_iter().map(|file| TomlNode {
                value: TomlValue::Text(read_path_value(key, &file, node.line, around, reader)),
                ..node.clone()
            });
            entry.node.value = TomlValue::Array(files.collect());
        }
        if key == "form" {
            let Some(fields) = reader.texts(node, "form of [load]") else {
                continue;
            };
            let fields = fields.into_iter();
            let fields = fields.map(|field| form_field(field, node, around, reader));
            entry.node.value = TomlValue::Array(fields.collect());
        }
        settings.entries.push(entry);
    }
    settings
}

/// Resolves the paths of the files that a step of a journey reads.
fn set_step_files(step: &mut TomlNode, around: &RenderContext<'_>, reader: &mut PlanReader<'_>) {
    let TomlValue::Table(step) = &mut step.value else {
        return;
    };
    for entry in &mut step.entries {
        let node = &mut entry.node;
        match (entry.key.as_str(), &node.value) {
            ("body_file", TomlValue::Text(written)) => {
                let path = read_path_value("body_file", written, node.line, around, reader);
                node.value = TomlValue::Text(path);
            }
            ("multipart", TomlValue::Array(_)) => {
                if let Some(fields) = reader.texts(node, "multipart of [[load.step]]") {
                    let fields = fields.into_iter();
                    let fields = fields.map(|field| form_field(field, node, around, reader));
                    node.value = TomlValue::Array(fields.collect());
                }
            }
            _ => {}
        }
    }
}

/// Resolves the path of the file in a form's field, if it has one.
fn form_field(
    written: String,
    node: &TomlNode,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> TomlNode {
    // An invalid field is reported when the settings are read.
    let field = match written.parse::<FormField>() {
        Ok(mut field) => match field.file() {
            Some(file) => {
                let file = file.to_string_lossy().into_owned();
                let path = read_path_value("form", &file, node.line, around, reader);
                field.set_file(path.into());
                field.to_string()
            }
            None => written,
        },
        Err(_) => written,
    };
    TomlNode {
        value: TomlValue::Text(field),
        ..node.clone()
    }
}

/// Returns true if a file must not be copied to results: a private key, or a certificate with its
/// key.
fn is_secret(key: &str, file: &Path) -> bool {
    SECRETS.contains(&key)
        || key == "cert"
            && input_file::read_file(file, TEXT_BYTES_MAX)
                .is_ok_and(|text| String::from_utf8_lossy(&text).contains("PRIVATE KEY-----"))
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
    let folder = if is_secret(key, &originals.file(written)) {
        &originals
    } else {
        around.references.borrow_mut().insert(written.to_owned());
        around.folder
    };
    let path: PathBuf = folder.file(written);
    let trouble = match key {
        "proto_path" => (!path.is_dir()).then(|| "is not a folder".to_owned()),
        _ => folder.check(written).err().map(|error| error.to_string()),
    };
    if let Some(trouble) = trouble {
        let message = format!("{key}: {} {trouble}", path.display());
        let hint = "relative paths are resolved against the plan's folder";
        reader.report_with_hint(DiagnosticKind::File, line, message, hint);
    }
    path.to_string_lossy().into_owned()
}

/// Adds the durations from `[trials]`, which apply to all variants.
fn add_lengths(
    settings: &mut LoadSettings,
    lines: &SettingLines,
    load_context: &LoadContext<'_>,
    reader: &mut PlanReader<'_>,
) {
    let LoadContext {
        trials, trial_keys, ..
    } = *load_context;
    let in_trials = |name: &str| trial_keys.iter().any(|key| key == name);
    for name in ["warmup", "duration"] {
        if let (Some(line), true) = (lines.0.get(name), in_trials(name)) {
            let message = format!("{name} is in [trials] and in [load]");
            reader.report_with_hint(DiagnosticKind::Structure, *line, message, "remove one");
        }
    }
    let is_replay = settings.replay.is_some();
    // A log is sent from its beginning, and measured as a whole.
    if !is_replay || in_trials("warmup") {
        settings.warmup.get_or_insert(trials.warmup);
    }
    // A load that ends after a number of requests has no duration, unless the plan sets both. With
    // stages, the stages determine the duration, and a duration in `[trials]` is an error.
    let has_length = settings.requests.is_some() || !settings.stages.is_empty() || is_replay;
    if !has_length || in_trials("duration") {
        settings.duration.get_or_insert(trials.duration);
    }
}

/// Reads the loop model, and the durations that apply to it.
fn read_model(
    (table, given, lines): (&TomlTable, &TomlTable, &SettingLines),
    settings: &mut LoadSettings,
    load_context: &LoadContext<'_>,
    around: &RenderContext<'_>,
    reader: &mut PlanReader<'_>,
) -> Option<LoadModel> {
    if capacity_load::is_capacity(table) {
        let is_by_agents = around.layout.load_agents.is_some();
        capacity_load::check_keys(table, load_context.trial_keys, is_by_agents, reader);
        return capacity_load::read_capacity(table, settings, reader).map(LoadModel::Capacity);
    }
    capacity_load::refuse_keys(table, reader);
    add_lengths(settings, lines, load_context, reader);
    Some(read_loop(table, given, reader))
}

fn read_loop(table: &TomlTable, given: &TomlTable, reader: &mut PlanReader<'_>) -> LoadModel {
    let rate = ["rate", "stages"]
        .into_iter()
        .find_map(|key| Some((key, given.get(key)?)));
    let model = table.get("model").and_then(|node| {
        let word = reader.choice(node, "model of [load]", &["closed", "open", "capacity"])?;
        Some((word, node.line))
    });
    match (model, rate) {
        (Some(("open", line)), None) => {
            let message = "an open loop needs a rate";
            let hint = "add rate = 1000 (requests per second)";
            reader.report_with_hint(DiagnosticKind::MissingKey, line, message, hint);
            LoadModel::Open
        }
        (Some(("closed", _)), Some((key, rate))) => {
            let message = "a closed loop has no rate: each response starts the next request";
            let hint = format!("remove {key}, or set model = \"open\"");
            reader.report_with_hint(DiagnosticKind::Structure, rate.line, message, hint);
            LoadModel::Closed
        }
        (Some(("open", _)), _) | (None, Some(_)) => LoadModel::Open,
        _ => LoadModel::Closed,
    }
}

fn read_scheme(
    table: &TomlTable,
    target: Option<(&ServiceLayout, &str)>,
    reader: &mut PlanReader<'_>,
) -> Scheme {
    if let Some(node) = table.get("scheme") {
        let schemes = ["http", "https", "ws", "wss"];
        return match reader.choice(node, "scheme of [load]", &schemes) {
            Some("https") => Scheme::Https,
            Some("ws") => Scheme::Ws,
            Some("wss") => Scheme::Wss,
            _ => Scheme::Http,
        };
    }
    // By default, listeners named `https` and UDP listeners (HTTP/3) use TLS.
    let uses_tls = target.is_some_and(|(shape, listener)| {
        listener == "https" || shape.listen.get(listener) == Some(&ListenKind::Udp)
    });
    let messages = ["message", "message_file", "messages"];
    let has_messages = messages.iter().any(|key| table.get(key).is_some());
    match (has_messages, uses_tls) {
        (false, false) => Scheme::Http,
        (false, true) => Scheme::Https,
        (true, false) => Scheme::Ws,
        (true, true) => Scheme::Wss,
    }
}

fn read_path(table: &TomlTable, reader: &mut PlanReader<'_>) -> String {
    let Some(node) = table.get("path") else {
        return "/".to_owned();
    };
    let requests = ["urls", "steps", "step"];
    if let Some(key) = requests.into_iter().find(|key| table.get(key).is_some()) {
        let message = format!("path has no effect together with {key}");
        reader.report_with_hint(DiagnosticKind::Structure, node.line, message, "remove one");
    }
    match reader.scalar(node, "path of [load]") {
        Some(path) if path.starts_with('/') && is_one_word(&path) => path,
        Some(path) => {
            let message = format!("path of [load] is \"{path}\"");
            reader.report_with_hint(
                DiagnosticKind::BadValue,
                node.line,
                message,
                "a path begins with / and contains no spaces",
            );
            "/".to_owned()
        }
        None => "/".to_owned(),
    }
}

fn one_line(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the URL's host and port. The name of a remote service is kept, because servers select
/// virtual hosts by name.
fn authority(shape: &ServiceLayout, endpoint: &Endpoint) -> String {
    match (&shape.remote, endpoint) {
        (Some((written, RemoteAddress::Tcp { .. })), _) => written.clone(),
        (_, Endpoint::Tcp(address) | Endpoint::Udp(address)) => address.to_string(),
        (_, Endpoint::Unix(_)) => "localhost".to_owned(),
    }
}
