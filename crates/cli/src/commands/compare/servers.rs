//! Converts URLs of running servers into a plan, so that the results are stored as an ordinary
//! experiment that can be resumed and reported again.

use std::time::Duration;

use prony_experiment::interleaving::decide;
use prony_load::{LoadSettings, split_url};
use prony_plan::abort_rules::AbortRules;
use prony_plan::{BodyComparison, Interleave, Plan, VARIANTS_MAX};
use prony_record::quantity::time_text;
use prony_record::truncated;
use prony_stats::Metric;
use toml::{Table, Value};

use crate::commands::load;
use crate::composed_plan::{self, settings_tables, table, verbatim};
use crate::ending::Failure;

/// Maximum length of a server's name in results, in characters. Longer URLs are shortened.
const NAME_CHARS_MAX: usize = 60;

/// A server to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ComparedServer {
    name: String,
    /// Address: `host:port` or `unix:/path`.
    remote: String,
    scheme: String,
    path: String,
    /// `USER:PASSWORD` from the URL.
    credentials: Option<String>,
}

/// The arguments of `prony compare URL URL…`, except for load options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ComparedServers<'a> {
    /// URLs of the servers, the baseline's first.
    pub(crate) urls: &'a [&'a str],
    /// `--names`: names of the servers in results, separated by commas.
    pub(crate) names: Option<&'a str>,
    /// `--judge`: the metrics that decide between the servers.
    pub(crate) judge: &'a [Metric],
    /// `--bodies`: rule for comparing response bodies.
    pub(crate) bodies: Option<BodyComparison>,
    /// Conditions that end the experiment.
    pub(crate) abort: AbortKeys<'a>,
    /// True if the command line sets the length of slices, or has none.
    pub(crate) has_own_slices: bool,
    /// The goals and limits of capacity searches.
    pub(crate) search: SearchKeys<'a>,
}

/// Keys of `[load]` for conditions that end a load.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AbortKeys<'a> {
    /// Conditions of `--abort-if`.
    pub(crate) conditions: &'a [String],
    /// Length of the window over which conditions are evaluated (`--abort-window`).
    pub(crate) window: Option<Duration>,
}

impl AbortKeys<'_> {
    pub(super) fn insert_into(self, load: &mut Table) {
        if self.conditions.is_empty() {
            return;
        }
        let conditions = self.conditions.iter().cloned().map(Value::from);
        load.insert("abort_if".to_owned(), Value::Array(conditions.collect()));
        let window = self.window.map(|window| Value::from(time_text(window)));
        load.extend(window.map(|window| ("abort_window".to_owned(), window)));
    }

    /// Checks the conditions before they become part of a plan, so that error messages name the
    /// flags.
    pub(super) fn check(self) -> Result<(), Failure> {
        match AbortRules::read(self.conditions, self.window) {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::wrong_abort_rules(&error)),
        }
    }
}

/// Keys of `[load]` for a capacity search.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SearchKeys<'a> {
    /// Goals of the search (`--goal`); empty if there is no search.
    pub(crate) goal: &'a [String],
    /// Highest rate to probe, in requests per second (`--max-rate`).
    pub(crate) max_rate: Option<f64>,
    /// Duration of each search (`--search-time`).
    pub(crate) search_time: Option<Duration>,
    /// Length of each probe's measured part (`--probe`).
    pub(crate) probe: Option<Duration>,
}

impl SearchKeys<'_> {
    pub(super) fn insert_into(self, load: &mut Table) {
        if self.goal.is_empty() {
            return;
        }
        let goals = self.goal.iter().cloned().map(Value::from);
        load.insert("model".to_owned(), Value::from("capacity"));
        load.insert("goal".to_owned(), Value::Array(goals.collect()));
        let time = |time: Option<Duration>| time.map(|time| Value::from(time_text(time)));
        let limits = [
            ("max_rate", self.max_rate.map(Value::from)),
            ("search_time", time(self.search_time)),
            ("probe", time(self.probe)),
        ];
        for (key, value) in limits {
            load.extend(value.map(|value| (key.to_owned(), value)));
        }
    }
}

/// Builds the plan that compares each server with the first one.
pub(crate) fn plan(given: ComparedServers<'_>, settings: &LoadSettings) -> Result<Plan, Failure> {
    if given.urls.len() > VARIANTS_MAX {
        return Err(Failure::wrong(format!(
            "{} URLs were given; at most {VARIANTS_MAX} can be compared",
            given.urls.len()
        )));
    }
    if settings.unix.is_some() {
        return Err(Failure::wrong(
            "--unix would apply to every server; name each by its own address, such as \
             unix:/run/app.sock:/path",
        ));
    }
    given.abort.check()?;
    let servers = given.urls.iter().map(|url| server(url, settings));
    let mut servers: Vec<ComparedServer> = servers.collect::<Result<_, _>>()?;
    match given.names {
        Some(names) => rename(&mut servers, names)?,
        None => make_names_unique(&mut servers),
    }
    let compose = |blocks| {
        let text = plan_text(&servers, given, settings, blocks)?;
        composed_plan::read(&text, "servers.toml")
    };
    if has_short_blocks(given, settings) {
        let plan = compose(BlockLength::Short)?;
        if decide(&plan, Interleave::Auto).is_interleaved() {
            return Ok(plan);
        }
    }
    compose(BlockLength::Default)
}

/// Length of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockLength {
    /// That of any plan.
    Default,
    /// That of running servers whose loads are interleaved. Nothing restarts between their blocks, so
    /// what varies between starts is in no interval, and short blocks are as good as long ones.
    Short,
}

/// Keys of `[trials]` for short blocks.
const SHORT_BLOCKS: &str =
    "duration = \"1200ms\"\nwarmup = \"300ms\"\nblocks = { min = 5, max = 30 }";

/// Returns true if the blocks may be short: the load has no length of its own, and no p99, which
/// needs many requests in each block, gets a verdict.
fn has_short_blocks(given: ComparedServers<'_>, settings: &LoadSettings) -> bool {
    let is_open = settings.rate.is_some() || !settings.stages.is_empty();
    let has_length = settings.duration.is_some() || settings.requests.is_some() || is_open;
    let is_judged_by_p99 = given.judge.iter().any(|metric| metric.is_p99());
    !has_length && !is_judged_by_p99 && !given.has_own_slices && given.search.goal.is_empty()
}

/// Parses the URL of a server. To check all parts of the URL, resolves a load with it.
fn server(text: &str, settings: &LoadSettings) -> Result<ComparedServer, Failure> {
    let mut settings = settings.clone();
    let (remote, url) = match text.strip_prefix("unix:") {
        Some(rest) => {
            let (socket, path) = rest.split_once(":/").unwrap_or((rest, ""));
            if !socket.starts_with('/') {
                return Err(Failure::wrong(format!(
                    "\"{text}\": write the absolute path of the UNIX socket, such as unix:/run/app.sock:/page"
                )));
            }
            settings.unix = Some(socket.into());
            (
                Some(format!("unix:{socket}")),
                format!("http://localhost/{path}"),
            )
        }
        None => (None, text.to_owned()),
    };
    let (url, credentials) = split_url(&url).map_err(Failure::wrong)?;
    let name = match remote {
        Some(_) => name(text),
        None => name(&url),
    };
    // `-u` and an Authorization header apply to every server and take precedence over credentials
    // in a URL.
    let is_authorization = |line: &String| line.to_ascii_lowercase().starts_with("authorization:");
    let has_own = settings.user.is_some() || settings.header.iter().any(is_authorization);
    let credentials = credentials.filter(|_| !has_own);
    let credentials = credentials.map(|credentials| credentials.as_str().to_owned());
    let alone = LoadSettings {
        urls: None,
        steps: None,
        step: Vec::new(),
        ramp_up: None,
        ..settings.clone()
    };
    let spec = load::resolve_load(Some(&url), &alone)?;
    if settings.urls.is_some() || settings.has_steps() {
        load::resolve_load(Some(&url), &settings)?;
    }
    // The request's name consists of its method and its URL without a default port.
    let request = spec.request_name(0);
    let url = request.split_once(' ').map_or(&*request, |(_, url)| url);
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let slash = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let address = match (has_port, scheme) {
        (true, _) => authority.to_owned(),
        (false, "https" | "wss") => format!("{authority}:443"),
        (false, _) => format!("{authority}:80"),
    };
    Ok(ComparedServer {
        name,
        remote: remote.unwrap_or(address),
        scheme: scheme.to_owned(),
        path: path.to_owned(),
        credentials,
    })
}

/// Returns the name of a server in results: its URL, shortened if it is long. Braces are replaced,
/// because a plan would treat them as a template.
fn name(url: &str) -> String {
    let plain = url.replace('{', "(").replace('}', ")");
    truncated(&plain, NAME_CHARS_MAX).into_owned()
}

/// Makes the names of the servers unique, because an A/A experiment uses the same URL twice.
fn make_names_unique(servers: &mut [ComparedServer]) {
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    let is_shared = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
    for (server, letter) in servers.iter_mut().zip('A'..) {
        if is_shared(&server.name) {
            server.name += &format!(" ({letter})");
        }
    }
}

/// Sets the names of the servers from `--names`.
fn rename(servers: &mut [ComparedServer], text: &str) -> Result<(), Failure> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_plain = |name: &&str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| !c.is_control() && !"{}\"<>".contains(c))
    };
    if names.len() != servers.len() {
        return Err(Failure::wrong(format!(
            "--names {text}: give one name for each of the {} URLs, separated by commas, the baseline first, such as old,new",
            servers.len()
        )));
    }
    let is_repeated = |index: usize| names[..index].contains(&names[index]);
    if (0..names.len()).any(is_repeated) || !names.iter().all(is_plain) {
        return Err(Failure::wrong(format!(
            "--names {text}: each name must differ from the others and have no braces or quotes"
        )));
    }
    for (server, name) in servers.iter_mut().zip(names) {
        name.clone_into(&mut server.name);
    }
    Ok(())
}

fn plan_text(
    servers: &[ComparedServer],
    given: ComparedServers<'_>,
    settings: &LoadSettings,
    blocks: BlockLength,
) -> Result<String, Failure> {
    let has_credentials = servers.iter().any(|server| server.credentials.is_some());
    let level = |server: &ComparedServer| {
        let mut level = table([
            ("name", Value::from(server.name.clone())),
            ("remote", Value::from(verbatim(&server.remote))),
            ("scheme", Value::from(server.scheme.clone())),
            ("path", Value::from(verbatim(&server.path))),
        ]);
        if has_credentials {
            let user = server.credentials.as_deref().unwrap_or_default();
            level.insert("user".to_owned(), Value::from(verbatim(user)));
        }
        Value::Table(level)
    };
    let mut load = table([
        ("target", Value::from("target")),
        ("scheme", Value::from("{{ server.scheme }}")),
    ]);
    if has_credentials {
        load.insert("user".to_owned(), Value::from("{{ server.user }}"));
    }
    let (mut trials, given_keys) = settings_tables(settings)?;
    if blocks == BlockLength::Short {
        for (key, value) in SHORT_BLOCKS.parse::<Table>().map_err(Failure::wrong)? {
            trials.entry(key).or_insert(value);
        }
    }
    // Credentials for every server replace the credentials of individual servers.
    load.extend(given_keys);
    if let Some(rule) = given.bodies {
        load.insert("bodies".to_owned(), Value::from(rule.name()));
    }
    given.abort.insert_into(&mut load);
    given.search.insert_into(&mut load);
    if !["urls", "steps", "step"]
        .iter()
        .any(|key| load.contains_key(*key))
    {
        load.insert("path".to_owned(), Value::from("{{ server.path }}"));
    }
    let service = table([("remote", Value::from("{{ server.remote }}"))]);
    let baseline = servers[0].name.clone();
    let levels = Value::Array(servers.iter().map(level).collect());
    let mut plan = table([
        ("name", Value::from(plan_name(servers))),
        ("question", Value::from(question(servers))),
        (
            "baseline",
            Value::Table(table([("server", Value::from(baseline))])),
        ),
        ("trials", Value::Table(trials)),
        ("factors", Value::Table(table([("server", levels)]))),
        (
            "service",
            Value::Table(table([("target", Value::Table(service))])),
        ),
        ("load", Value::Table(load)),
    ]);
    if !given.judge.is_empty() {
        let names = given.judge.iter().map(|metric| Value::from(metric.name()));
        plan.insert("metrics".to_owned(), Value::Array(names.collect()));
    }
    Ok(plan.to_string())
}

fn plan_name(servers: &[ComparedServer]) -> &'static str {
    match servers.len() {
        2 => "two-servers",
        _ => "servers",
    }
}

/// Returns the question of the experiment, which contains the names of the servers.
fn question(servers: &[ComparedServer]) -> String {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    match names.as_slice() {
        [baseline, new] => format!("How does {new} compare with {baseline}?"),
        [baseline, others @ .., last] => {
            format!(
                "How do {} and {last} compare with {baseline}?",
                others.join(", ")
            )
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn compared(
        urls: &[&str],
        names: Option<&str>,
        settings: &LoadSettings,
    ) -> Result<Plan, Failure> {
        let given = ComparedServers {
            urls,
            names,
            judge: &[],
            bodies: None,
            abort: AbortKeys::default(),
            has_own_slices: false,
            search: SearchKeys::default(),
        };
        plan(given, settings)
    }

    fn plain(urls: &[&str], names: Option<&str>) -> Result<Plan, Failure> {
        compared(urls, names, &LoadSettings::default())
    }

    #[test]
    fn urls_become_a_plan_with_the_first_as_baseline() {
        let settings = LoadSettings {
            connections: Some(7),
            duration: Some(Duration::from_secs(1)),
            header: vec!["A: {{ seq }}".to_owned()],
            no_keepalive: true,
            ..LoadSettings::default()
        };
        let urls = ["http://127.0.0.1:8001/a", "127.0.0.1"];
        let plan = compared(&urls, None, &settings).unwrap();
        assert_eq!(plan.baseline.get("server"), Some(urls[0]));
        assert_eq!(
            plan.question,
            "How does 127.0.0.1 compare with http://127.0.0.1:8001/a?"
        );
        assert_eq!(plan.trials.duration.as_secs(), 1);
        let resolved = plan.resolve(0, &BTreeMap::new()).unwrap();
        assert_eq!(resolved.load.url, "http://127.0.0.1:8001/a");
        assert_eq!(resolved.load.settings.connections, Some(7));
        assert_eq!(resolved.load.settings.header, ["A: {{ seq }}"]);
        assert!(resolved.load.settings.no_keepalive);
        assert_eq!(
            plan.resolve(1, &BTreeMap::new()).unwrap().load.url,
            "http://127.0.0.1:80/"
        );
    }

    #[test]
    fn equal_urls_and_sockets_are_allowed() {
        let same = plain(&["http://127.0.0.1/", "http://127.0.0.1/"], None).unwrap();
        assert_eq!(same.variants.len(), 2);
        let urls = ["unix:/tmp/a.sock:/x", "unix:/tmp/b.sock"];
        let socket = plain(&urls, None).unwrap();
        let resolved = socket.resolve(0, &BTreeMap::new()).unwrap();
        assert_eq!(resolved.load.url, "http://localhost/x");
        assert_eq!(
            resolved.load.settings.unix.as_deref(),
            Some(Path::new("/tmp/a.sock"))
        );
    }

    #[test]
    fn given_names_replace_urls() {
        let urls = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"];
        let named = |names| plain(&urls, Some(names));
        let plan = named("old, new").unwrap();
        let variants = plan.variants.iter();
        let names: Vec<_> = variants.map(|v| v.levels.get("server")).collect();
        assert_eq!(names, [Some("old"), Some("new")]);
        assert_eq!(plan.baseline.get("server"), Some("old"));
        for wrong in ["new", "a,b,c", "a,a", ",b", "{{x}},b"] {
            let error = named(wrong).unwrap_err().to_string();
            assert!(error.contains("--names"), "{error}");
        }
    }

    #[test]
    fn braces_in_a_url_are_kept() {
        let urls = [
            "http://127.0.0.1/a?{{ seq }}",
            "http://127.0.0.1/a?{{uuid}}",
        ];
        let plan = plain(&urls, None).unwrap();
        let url = plan.resolve(0, &BTreeMap::new()).unwrap().load.url;
        assert_eq!(url, "http://127.0.0.1:80/a?{{ seq }}");
    }

    #[test]
    fn blocks_of_interleaved_servers_are_short_unless_the_load_has_a_length() {
        let urls = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"];
        let length = |settings: &LoadSettings| {
            let trials = compared(&urls, None, settings).unwrap().trials;
            (trials.duration.as_millis(), trials.blocks_max)
        };
        let mut settings = LoadSettings::default();
        assert_eq!(length(&settings), (1_200, 30));
        settings.think = "5ms".parse().ok();
        assert_eq!(length(&settings), (10_000, 15));
        let timed = LoadSettings {
            duration: Some(Duration::from_secs(3)),
            ..LoadSettings::default()
        };
        assert_eq!(length(&timed), (3_000, 15));
    }

    #[test]
    fn strangers_and_relative_sockets_are_refused() {
        let refused = |urls: &[&str]| plain(urls, None).unwrap_err().to_string();
        assert!(refused(&["http://8.8.8.8/", "http://127.0.0.1/"]).contains("--public"));
        assert!(refused(&["unix:app.sock", "http://127.0.0.1/"]).contains("absolute path"));
        let many = vec!["http://127.0.0.1/"; VARIANTS_MAX + 1];
        assert!(refused(&many).contains("at most"));
    }

    #[test]
    fn several_servers_are_compared_with_the_first_by_the_metrics_that_were_named() {
        let urls = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:2"];
        let given = ComparedServers {
            urls: &urls,
            names: None,
            judge: &[Metric::P99Us, Metric::RatePerS],
            bodies: None,
            abort: AbortKeys::default(),
            has_own_slices: false,
            search: SearchKeys::default(),
        };
        let plan = plan(given, &LoadSettings::default()).unwrap();
        assert_eq!(plan.metrics, [Metric::P99Us, Metric::RatePerS]);
        let variants = plan.variants.iter();
        let names: Vec<_> = variants.map(|v| v.levels.get("server").unwrap()).collect();
        assert_eq!(names, ["127.0.0.1:1", "127.0.0.1:2 (B)", "127.0.0.1:2 (C)"]);
        assert_eq!(plan.baseline.get("server"), Some("127.0.0.1:1"));
        assert!(plan.question.starts_with("How do 127.0.0.1:2 (B) and"));
        assert_eq!(plan.baseline_of(2), 0);
    }

    #[test]
    fn each_url_keeps_its_own_credentials_and_no_name_shows_them() {
        let urls = ["http://me:a%40b@127.0.0.1:1/", "http://127.0.0.1:2/"];
        let plan = plain(&urls, None).unwrap();
        assert_eq!(plan.baseline.get("server"), Some("http://127.0.0.1:1/"));
        let loads = [0, 1].map(|variant| plan.resolve(variant, &BTreeMap::new()).unwrap().load);
        let user = loads[0].settings.user.as_ref().unwrap();
        assert_eq!(user.as_str(), "me:a@b");
        assert_eq!(loads[1].settings.user, None);
    }
}
