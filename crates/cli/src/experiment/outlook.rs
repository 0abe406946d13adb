//! Describes an experiment before it starts: variants, order, expected duration and settings.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use prony_experiment::runner::{
    BlockTime, Forecast, PROBE_DURATION, RunSettings, UnknownTime, block_range, forecast,
};
use prony_experiment::schedule;
use prony_machine::place::sort_settings;
use prony_plan::service::{
    AllocatedService, Allocation, CPU_PERIOD_US, LimitKey, PlaceKind, PortProtocol, pick_endpoints,
};
use prony_plan::topology::{
    AddressBlock, JitterDistribution, LinkEmulation, PacketShare, Topology,
};
use prony_plan::{LoadModel, Plan, PlanError, ResolvedService, ResolvedVariant};
use prony_record::goals_phrase;
use prony_record::redact;
use prony_report::number;
use prony_stats::TrialMode;

use crate::experiment::setups::{self, SettingValue, ShownSetting};

/// Maximum number of blocks whose order is printed.
const SHOWN_BLOCKS: u32 = 5;
/// First placeholder port. Placeholders are printed for ports that are assigned when the experiment
/// starts.
const FIRST_PORT: u16 = 40_001;

/// Summarizes a plan's variants, blocks and expected duration, followed by notes for the plan's
/// author.
pub(crate) fn summary(plan: &Plan, settings: &RunSettings, block_time: &BlockTime) -> String {
    let forecast = forecast(plan, settings, block_time);
    let blocks = match forecast.blocks {
        (1, 1) => "in 1 block".to_owned(),
        _ => format!("in each of {}", blocks_of(&forecast)),
    };
    let time = match block_time {
        BlockTime::Planned(_) | BlockTime::Searched { .. } if starts_services(plan) => {
            let time = expected_time(&forecast);
            if settings.precheck && !settings.resume {
                format!(
                    "{time} without the starts of services, which the check before block 1 measures"
                )
            } else {
                format!("{time} without the starts of services")
            }
        }
        BlockTime::Planned(_) | BlockTime::Searched { .. } => expected_time(&forecast),
        BlockTime::Probed(_) => {
            let time = expected_time(&forecast);
            format!(
                "{time}, estimated from a probe of {} per variant",
                span(PROBE_DURATION)
            )
        }
        BlockTime::NeedsProbe => {
            "time unknown: the load ends after a set number of requests".to_owned()
        }
        BlockTime::Unknown(why) => format!("time unknown: {}", unknown_time(why)),
    };
    let baseline: Vec<String> = plan
        .baseline
        .iter()
        .map(|(factor, level)| format!("{factor} = {level}"))
        .collect();
    let metrics: Vec<&str> = plan.metrics.iter().map(|metric| metric.noun()).collect();
    let mut lines = vec![
        if plan.question.is_empty() {
            plan.name.clone()
        } else {
            format!("{}: {}", plan.name, plan.question)
        },
        format!(
            "{}, each once {blocks}; a trial {}; {time}",
            number::plural(forecast.variants as u64, "variant", "variants"),
            trial_length(plan)
        ),
        format!(
            "baseline: {}; decided by {}; margin {}",
            baseline.join(", "),
            metrics.join(", "),
            number::margin(plan.margin)
        ),
    ];
    lines.extend(plan.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(prony_load::cpu_quota_finding().map(|found| format!("note: {}", found.text)));
    lines.join("\n")
}

/// Returns a line with the forecast after the pre-check, which has measured the `overhead` of a
/// block's trials. Returns `None` if the time is unknown.
pub(crate) fn forecast_line(forecast: &Forecast, overhead: Duration) -> Option<String> {
    forecast.time?;
    let services = number::time(overhead.as_secs_f64() * 1e6);
    Some(format!(
        "forecast: {} for {}; starting, checking and stopping the services takes {services} per \
            block",
        expected_time(forecast),
        blocks_of(forecast)
    ))
}

/// Returns true if trials start services. Variants that can't be resolved count as if they did.
fn starts_services(plan: &Plan) -> bool {
    resolve_variants(plan, &|_| None).map_or(true, |variants| {
        let mut services = variants.iter().flat_map(|variant| &variant.services);
        services.any(|service| service.remote.is_none())
    })
}

fn blocks_of(forecast: &Forecast) -> String {
    let (least, most) = forecast.blocks;
    if least == most {
        number::plural(u64::from(least), "block", "blocks")
    } else {
        format!("{least} to {most} blocks")
    }
}

/// Returns the duration of a block if the plan alone determines it, without a probe. `mode` states
/// whether trials are interleaved.
pub(crate) fn planned_block_time(plan: &Plan, mode: Option<&TrialMode>) -> BlockTime {
    match resolve_variants(plan, &|_| None) {
        Ok(variants) => match BlockTime::of(&variants, mode) {
            BlockTime::Unknown(_) => BlockTime::NeedsProbe,
            block_time => block_time,
        },
        // If a variant can't be resolved, its first trial reports the reason.
        Err(_) => BlockTime::Unknown(UnknownTime::Unresolved),
    }
}

fn expected_time(forecast: &Forecast) -> String {
    let (soonest, latest) = forecast.time.unwrap_or_default();
    if soonest == latest {
        format!("about {}", rounded_span(soonest))
    } else {
        format!(
            "about {}, {} at most",
            rounded_span(soonest),
            rounded_span(latest)
        )
    }
}

fn unknown_time(why: &UnknownTime) -> String {
    match why {
        UnknownTime::ProbeSkipped => {
            "the load ends after a set number of requests, and --no-precheck skips the \
                probe"
                .to_owned()
        }
        UnknownTime::Log => "a log determines when the load ends".to_owned(),
        UnknownTime::Agents => {
            "the load ends after a set number of requests, and a dry run does not use agents to \
                measure it"
                .to_owned()
        }
        UnknownTime::RemoteService(service) => format!(
            "the load ends after a set number of requests, and a dry run sends none to service \
                \"{service}\", because prony does not start it"
        ),
        UnknownTime::ServiceOnHost { service, host } => format!(
            "the load ends after a set number of requests, and a dry run does not start service \
                \"{service}\" on host {host}"
        ),
        UnknownTime::UnsafeRequests(variant) => format!(
            "the load ends after a set number of requests, and a dry run does not send those of \
                variant {variant}, because they may change data"
        ),
        UnknownTime::ProbeFailed(variant) => {
            format!("too few requests succeeded in the probe of variant {variant}")
        }
        UnknownTime::Unresolved => "not every variant can be resolved".to_owned(),
        UnknownTime::VariantFailed => "the probe could not load every variant".to_owned(),
    }
}

/// Describes the load of a trial and its length. The plan's load options take precedence over
/// `[trials]`.
fn trial_length(plan: &Plan) -> String {
    let first = plan
        .allocations(0)
        .and_then(|wanted| plan.resolve(0, &made_up(&wanted, &|_| None)));
    let model = first.as_ref().ok().map(|resolved| &resolved.load.model);
    if let Some(LoadModel::Capacity(capacity)) = model {
        let (usual, longest) = capacity.search_time();
        return format!(
            "searches for the capacity at {} (about {}, {} at most)",
            goals_phrase(&plan.goals),
            rounded_span(usual),
            rounded_span(longest)
        );
    }
    let load = first.as_ref().ok().map(|resolved| &resolved.load.settings);
    let warmup = span(load.map_or(plan.trials.warmup, |load| load.warmup()));
    let requests = load.and_then(|load| load.requests).map(number::count);
    let duration = load.map_or(Some(plan.trials.duration), |load| load.duration);
    let measures = match (requests, duration.map(span)) {
        (Some(requests), Some(most)) => {
            format!("measures {requests} requests, for at most {most},")
        }
        (Some(requests), None) => format!("measures {requests} requests"),
        (None, duration) => format!("measures {}", duration.unwrap_or_default()),
    };
    format!("{measures} after {warmup} of warm-up")
}

/// A function that returns the address on which a host's services listen for other machines. The
/// host `None` is this machine.
type AddressOf<'a> = &'a dyn Fn(Option<&str>) -> Option<IpAddr>;

/// Resolves every variant. Addresses that prony assigns when the experiment starts are shown as
/// placeholders.
pub(crate) fn resolve_variants(
    plan: &Plan,
    address_of: AddressOf<'_>,
) -> Result<Vec<ResolvedVariant>, PlanError> {
    let resolve = |variant| {
        let allocated = made_up(&plan.allocations(variant)?, address_of);
        plan.resolve(variant, &allocated)
    };
    (0..plan.variants.len()).map(resolve).collect()
}

/// Lists the order of the trials, and the services and loads that each trial starts.
pub(crate) fn details(plan: &Plan, settings: &RunSettings, variants: &[ResolvedVariant]) -> String {
    let mut text = "\nvariants, by folder name:\n".to_owned();
    let ids = plan.variants.iter().map(|variant| variant.id.as_str());
    let width = ids.clone().map(|id| id.chars().count()).max().unwrap_or(0);
    for (number, id) in ids.enumerate() {
        text += &format!("  {id:width$}  {}\n", plan.variant_name(number));
    }
    let seed = settings.seed.or(plan.trials.seed);
    text += &match seed {
        Some(seed) => format!("\norder, shuffled with seed {seed}:\n"),
        None if settings.resume => "\norder: shuffled with the seed stored in the \
        folder\n"
            .to_owned(),
        None => "\norder: shuffled for every block with a random seed that is chosen at the start \
            and stored \
                 (--seed N sets it)\n"
            .to_owned(),
    };
    let blocks = block_range(plan, settings).1;
    for block in 0..blocks.min(SHOWN_BLOCKS) {
        let Some(seed) = seed else { break };
        let order = schedule::order(seed, block as usize, plan.variants.len());
        let names: Vec<String> = order
            .iter()
            .map(|&variant| plan.variant_name(variant))
            .collect();
        text += &format!("  block {}: {}\n", block + 1, names.join("; "));
    }
    if seed.is_some() && blocks > SHOWN_BLOCKS {
        text += "  …\n";
    }
    text += "\nstarted for each trial (addresses are placeholders):\n";
    let variants: Vec<_> = variants.iter().map(settings_of).collect();
    text += &setups::folded(plan, &variants);
    text
}

/// Returns the settings of one variant.
fn settings_of(resolved: &ResolvedVariant) -> Vec<ShownSetting> {
    let line = |text: String| SettingValue::Line(text);
    let mut settings = Vec::new();
    for (subject, text) in network_lines(&resolved.topology) {
        settings.push(ShownSetting::new(&subject, "", line(text)));
    }
    for service in &resolved.services {
        let (spec, name) = (&service.spec, service.spec.name.as_str());
        let started = service_line(service, &resolved.topology);
        settings.push(ShownSetting::new(name, "", line(started)));
        for (variable, value) in &spec.env {
            let set = line(redact::hide(&format!("env {variable}={value}")));
            settings.push(ShownSetting::new(name, &format!("env {variable}"), set));
        }
        let library_path = spec.library_path.as_ref();
        let library_path = library_path.map(|path| line(format!("libraries {}", path.display())));
        settings.extend(library_path.map(|path| ShownSetting::new(name, "library_path", path)));
        let limit = spec.open_files;
        let limit = limit.map(|limit| line(format!("at most {limit} open files")));
        settings.extend(limit.map(|limit| ShownSetting::new(name, "open_files", limit)));
        for (file, contents) in &spec.files {
            let file_value = SettingValue::File(contents.clone());
            settings.push(ShownSetting::new(name, file, file_value));
        }
    }
    let load = &resolved.load;
    let word =
        |part: &str, text: String| ShownSetting::new("load", part, SettingValue::Words(text));
    let command = match &load.model {
        LoadModel::Capacity(_) => "capacity",
        LoadModel::Closed | LoadModel::Open => "load",
    };
    settings.push(word("", format!("prony {command} {}", load.url)));
    if let LoadModel::Capacity(capacity) = &load.model {
        settings.extend(capacity.flags().map(|(key, flag)| word(key, flag)));
    }
    for setting in load.settings.given() {
        let text = setting.flags().join(" ");
        settings.push(word(&setting.key, redact::hide(&text)));
    }
    let rules = load.abort_rules.as_ref();
    settings.extend(rules.map(|rules| word("abort_if", rules.to_string())));
    let agents = load.agents.as_ref().map(|agents| by_agents(agents));
    let place = agents.or_else(|| in_place(load.place, &resolved.topology));
    settings.extend(place.map(|place| word("(place)", format!("({place})"))));
    settings
}

/// Describes the delay of a link, and what else its emulator does.
fn emulation_text(emulation: &LinkEmulation) -> String {
    let ms = |time: Duration| number::trimmed(&number::time(time.as_secs_f64() * 1e6));
    let [first, second] = emulation.delays;
    let mut text = format!(", round trip {}", ms(emulation.round_trip()));
    if first.abs_diff(second) > Duration::from_nanos(1) {
        text.push_str(&format!(" ({} + {})", ms(first), ms(second)));
    }
    if emulation.jitter > Duration::ZERO {
        let distribution = match emulation.distribution {
            JitterDistribution::Uniform => "uniform",
            JitterDistribution::Normal => "normal",
        };
        text.push_str(&format!(", {distribution} jitter {}", ms(emulation.jitter)));
    }
    for (share, word) in [
        (emulation.reorder, "reordered"),
        (emulation.duplicate, "duplicated"),
    ] {
        if share > PacketShare::ZERO {
            text.push_str(&format!(", {share} {word}"));
        }
    }
    text
}

/// Lists the named places with their settings, and the links between them.
fn network_lines(topology: &Topology) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for place in &topology.places {
        // If prony may not query the kernel, the error has already been reported.
        let sorted = sort_settings(&place.settings).unwrap_or_default();
        let mut parts = vec!["a separate network".to_owned()];
        let addresses: u64 = place.sources.iter().map(AddressBlock::size).sum();
        if addresses > 0 {
            parts.push(format!("{} source addresses", number::count(addresses)));
        }
        parts.extend(
            sorted
                .own
                .iter()
                .map(|(name, value)| format!("{name} = {value}")),
        );
        let left_out = sorted.not_applicable.iter();
        parts.extend(left_out.map(|(name, why)| format!("without {name} ({why})")));
        lines.push((format!("place {}", place.name), parts.join("; ")));
    }
    for link in &topology.links {
        let [a, b] = link
            .ends
            .map(|end| format!("{} ({})", topology.name(end.place), end.address));
        let rate = match link.rate {
            Some(rate) => format!("{rate} each way, {} ms queue", rate.queue.as_millis()),
            None => "no limit".to_owned(),
        };
        let loss = link.loss.map(|loss| format!(", {loss} loss each way"));
        let loss = loss.unwrap_or_default();
        let burst = link.burst_loss();
        let burst = burst.map(|(_, packets)| format!(" in bursts of {packets} packets"));
        let burst = burst.unwrap_or_default();
        let emulation = link.emulation.as_ref().map(emulation_text);
        let emulation = emulation.unwrap_or_default();
        let text = format!("{a} to {b}, {rate}{loss}{burst}{emulation}");
        lines.push((format!("link {}", link.name), text));
    }
    lines
}

/// Describes the agents that generate a load. `agents` is the selector in the plan.
fn by_agents(agents: &str) -> String {
    match agents.parse() {
        Ok(count) => format!("by {}", number::plural(count, "agent", "agents")),
        Err(_) if agents.contains('=') => format!("by the agents with {agents}"),
        Err(_) => format!(
            "by {}",
            agents
                .split(',')
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

fn in_place(place: PlaceKind, topology: &Topology) -> Option<String> {
    match place {
        PlaceKind::Native => None,
        PlaceKind::Namespace => Some("in a namespace".to_owned()),
        PlaceKind::Named(place) => Some(format!("in {}", topology.name(place))),
    }
}

fn service_line(service: &ResolvedService, topology: &Topology) -> String {
    if let Some(remote) = &service.remote {
        return format!("{remote}, already running");
    }
    let spec = &service.spec;
    let host = service.host.as_ref().map(|host| format!("on host {host}"));
    let place = in_place(spec.place, topology);
    let cores: Vec<String> = spec.cores.iter().map(usize::to_string).collect();
    let cores = (!cores.is_empty()).then(|| format!("on core {}", cores.join(",")));
    let container = spec.container.as_ref();
    let image = container.map(|container| format!("in a container of {}", container.image));
    let limits = spec.limits.iter().map(|(key, value)| match key {
        LimitKey::Cpu => format!("cpu {}", value as f64 / CPU_PERIOD_US as f64),
        LimitKey::Memory => format!("memory {}", number::bytes(value as f64)),
        LimitKey::Pids => format!("pids {value}"),
    });
    let where_ = image.into_iter().chain(host).chain(place).chain(cores);
    let where_: Vec<String> = where_.chain(limits).collect();
    if where_.is_empty() {
        spec.command.join(" ")
    } else {
        format!("{} ({})", spec.command.join(" "), where_.join(", "))
    }
}

/// Returns placeholders for endpoints that prony assigns when the experiment starts.
fn made_up(wanted: &[Allocation], address_of: AddressOf<'_>) -> BTreeMap<String, AllocatedService> {
    let mut ports = FIRST_PORT..;
    let allocated = wanted.iter().map(|wanted| {
        let is_own = wanted.exposed && wanted.place == PlaceKind::Native;
        let ip = is_own.then(|| address_of(wanted.host.as_deref())).flatten();
        let ip = ip.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let address = |_: &[PortProtocol]| {
            let port = ports.next().unwrap_or(FIRST_PORT);
            Ok::<_, Infallible>(SocketAddr::new(ip, port))
        };
        let path = |_: &str| Ok(PathBuf::from(format!("/run/prony/{}.sock", wanted.service)));
        let Ok(endpoints) = pick_endpoints(&wanted.listen, address, path);
        let files_dir = PathBuf::from("/run/prony").join(&wanted.service);
        (
            wanted.service.clone(),
            AllocatedService {
                endpoints,
                files_dir,
            },
        )
    });
    allocated.collect()
}

fn span(span: Duration) -> String {
    number::span(span.as_secs_f64())
}

/// Rounds a forecast to whole seconds up to 100 s, to tens of seconds up to 10 min, and to whole
/// minutes above, because forecasts are not more precise.
fn rounded_span(span: Duration) -> String {
    let seconds = span.as_secs_f64().max(1.0);
    let unit = match seconds {
        ..100.0 => 1.0,
        100.0..600.0 => 10.0,
        _ => 60.0,
    };
    number::span((seconds / unit).round() * unit)
}
