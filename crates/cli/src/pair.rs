//! Two servers that run already, made into a plan: what is stored is then an experiment like any
//! other, which can be resumed and rendered again.

use std::path::Path;

use prony_experiment::plan::{Machine, Plan};
use prony_load::LoadOptions;
use toml::{Table, Value};

use crate::arguments::TypedOption;
use crate::ending::Failure;
use crate::load;

/// Options whose values `[trials]` has.
const LENGTHS: [&str; 2] = ["duration", "warmup"];

/// The longest URL that results call a server by.
const LONGEST_NAME: usize = 60;

/// One of the two servers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    name: String,
    /// `host:port` or `unix:/path`.
    remote: String,
    scheme: String,
    path: String,
}

/// The plan that compares `urls[0]` with `urls[1]`, the baseline. `names` are what results call
/// them, with a comma between.
pub(crate) fn plan(
    urls: [&str; 2],
    names: Option<&str>,
    options: &LoadOptions,
    typed: &[TypedOption],
) -> Result<Plan, Failure> {
    if typed.iter().any(|option| option.name == "unix") {
        return Err(Failure::wrong(
            "--unix would mean both servers; name each by its own address, such as \
             unix:/run/app.sock:/path",
        ));
    }
    let mut servers = [server(urls[0], options)?, server(urls[1], options)?];
    match names {
        Some(names) => rename(&mut servers, names)?,
        None => tell_apart(&mut servers),
    }
    let text = text(&servers, typed);
    let origin = Path::new("two-servers.toml");
    let plan = Plan::from_str(&text, origin, Machine::this());
    let checked = plan.and_then(|plan| plan.check_machine().map(|()| plan));
    // The text is prony's own, so its lines say nothing to whoever typed two URLs.
    checked.map_err(|errors| {
        let said: Vec<String> = errors
            .iter()
            .map(|error| match &error.mend {
                Some(mend) => format!("{} ({mend})", error.what),
                None => error.what.clone(),
            })
            .collect();
        Failure::wrong(said.join("\nprony: "))
    })
}

/// Takes an address apart; the engine's own resolver says whether it can be loaded at all.
fn server(typed: &str, options: &LoadOptions) -> Result<Server, Failure> {
    let mut options = options.clone();
    let (remote, url) = match typed.strip_prefix("unix:") {
        Some(rest) => {
            let (socket, path) = rest.split_once(":/").unwrap_or((rest, ""));
            if !socket.starts_with('/') {
                return Err(Failure::wrong(format!(
                    "\"{typed}\": write a UNIX socket's whole path, such as unix:/run/app.sock:/page"
                )));
            }
            options.unix = Some(socket.into());
            (
                Some(format!("unix:{socket}")),
                format!("http://localhost/{path}"),
            )
        }
        None => (None, typed.to_owned()),
    };
    let name = name(typed);
    let alone = LoadOptions {
        urls: None,
        ..options.clone()
    };
    let spec = load::resolve(Some(&url), &alone)?;
    if options.urls.is_some() {
        load::resolve(Some(&url), &options)?;
    }
    // A request's name is its method and its whole URL, of which a default port is left out.
    let request = spec.request_name(0);
    let url = request.split_once(' ').map_or(request, |(_, url)| url);
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let slash = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(slash);
    let has_port = authority
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let address = match (has_port, scheme) {
        (true, _) => authority.to_owned(),
        (false, "https") => format!("{authority}:443"),
        (false, _) => format!("{authority}:80"),
    };
    Ok(Server {
        name,
        remote: remote.unwrap_or(address),
        scheme: scheme.to_owned(),
        path: path.to_owned(),
    })
}

/// What results call a server: its URL, unless that is long. Braces would make it a template.
fn name(url: &str) -> String {
    let plain = url.replace('{', "(").replace('}', ")");
    match plain.chars().count() <= LONGEST_NAME {
        true => plain,
        false => plain.chars().take(LONGEST_NAME - 1).chain(['…']).collect(),
    }
}

/// Gives two servers of the same name different ones: an A/A experiment is a fair question.
fn tell_apart(servers: &mut [Server; 2]) {
    if servers[0].name == servers[1].name {
        servers[0].name += " (A)";
        servers[1].name += " (B)";
    }
}

/// Gives them the names that were typed.
fn rename(servers: &mut [Server; 2], typed: &str) -> Result<(), Failure> {
    let names: Vec<&str> = typed.split(',').map(str::trim).collect();
    let is_plain = |name: &&str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| !c.is_control() && !"{}\"<>".contains(c))
    };
    let [a, b] = names.as_slice() else {
        return Err(Failure::wrong(format!(
            "--names {typed}: two names with a comma between are needed, such as new,old"
        )));
    };
    if a == b || !names.iter().all(is_plain) {
        return Err(Failure::wrong(format!(
            "--names {typed}: two different names are needed, without braces and quotes"
        )));
    }
    (servers[0].name, servers[1].name) = ((*a).to_owned(), (*b).to_owned());
    Ok(())
}

fn text(servers: &[Server; 2], typed: &[TypedOption]) -> String {
    let [a, b] = servers;
    let level = |server: &Server| {
        Value::Table(table([
            ("name", Value::from(server.name.clone())),
            ("remote", Value::from(verbatim(&server.remote))),
            ("scheme", Value::from(server.scheme.clone())),
            ("path", Value::from(verbatim(&server.path))),
        ]))
    };
    let mut load = table([
        ("target", Value::from("target")),
        ("scheme", Value::from("{{ server.scheme }}")),
    ]);
    let mut trials = Table::new();
    for option in typed {
        let (key, value) = (option.name.replace('-', "_"), value_of(option));
        match LENGTHS.contains(&option.name.as_str()) {
            true => trials.insert(key, value),
            false => load.insert(key, value),
        };
    }
    if !load.contains_key("urls") {
        load.insert("path".to_owned(), Value::from("{{ server.path }}"));
    }
    let question = format!("How does {} do against {}?", a.name, b.name);
    let service = table([("remote", Value::from("{{ server.remote }}"))]);
    let plan = table([
        ("name", Value::from("two-servers")),
        ("question", Value::from(question)),
        (
            "baseline",
            Value::Table(table([("server", Value::from(b.name.clone()))])),
        ),
        ("trials", Value::Table(trials)),
        (
            "factors",
            Value::Table(table([("server", Value::Array(vec![level(a), level(b)]))])),
        ),
        (
            "service",
            Value::Table(table([("target", Value::Table(service))])),
        ),
        ("load", Value::Table(load)),
    ]);
    plan.to_string()
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn value_of(option: &TypedOption) -> Value {
    let mut values = option
        .values
        .iter()
        .map(|value| Value::String(verbatim(value)));
    match (option.repeatable, values.len()) {
        (_, 0) => Value::Boolean(true),
        (false, 1) => values.next().unwrap_or(Value::Boolean(true)),
        _ => Value::Array(values.collect()),
    }
}

/// What was typed, so that a plan's templates leave it as it is.
fn verbatim(text: &str) -> String {
    if ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) {
        format!("{{{{ {} }}}}", serde_json::Value::from(text))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::TypedOption;
    use clap::FromArgMatches;
    use std::collections::BTreeMap;

    fn options() -> LoadOptions {
        let command = <LoadOptions as clap::Args>::augment_args(clap::Command::new("load"));
        let matches = command.try_get_matches_from(["load"]).unwrap();
        LoadOptions::from_arg_matches(&matches).unwrap()
    }

    fn typed(name: &str, values: &[&str], repeatable: bool) -> TypedOption {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        TypedOption {
            name: name.to_owned(),
            values,
            repeatable,
        }
    }

    #[test]
    fn two_urls_become_a_plan_with_the_second_as_baseline() {
        let typed = [
            typed("connections", &["7"], false),
            typed("duration", &["1s"], false),
            typed("header", &["A: {{ b }}"], true),
            typed("no-keepalive", &[], false),
        ];
        let urls = ["http://127.0.0.1:8001/a", "127.0.0.1"];
        let plan = plan(urls, None, &options(), &typed).unwrap();
        assert_eq!(plan.baseline.get("server"), Some("127.0.0.1"));
        assert_eq!(plan.trials.duration.as_secs(), 1);
        let resolved = plan.resolve(0, &BTreeMap::new()).unwrap();
        assert_eq!(resolved.load.url, "http://127.0.0.1:8001/a");
        assert_eq!(resolved.load.flags.connections, 7);
        assert_eq!(resolved.load.flags.header, ["A: {{ b }}"]);
        assert!(resolved.load.flags.no_keepalive);
        assert_eq!(
            plan.resolve(1, &BTreeMap::new()).unwrap().load.url,
            "http://127.0.0.1:80/"
        );
    }

    #[test]
    fn equal_urls_and_sockets_are_allowed() {
        let same = plan(
            ["http://127.0.0.1/", "http://127.0.0.1/"],
            None,
            &options(),
            &[],
        )
        .unwrap();
        assert_eq!(same.variants.len(), 2);
        let socket = plan(
            ["unix:/tmp/a.sock:/x", "unix:/tmp/b.sock"],
            None,
            &options(),
            &[],
        )
        .unwrap();
        let resolved = socket.resolve(0, &BTreeMap::new()).unwrap();
        assert_eq!(resolved.load.url, "http://localhost/x");
        assert_eq!(
            resolved.load.flags.unix.as_deref(),
            Some(Path::new("/tmp/a.sock"))
        );
    }

    #[test]
    fn names_that_are_typed_take_the_place_of_urls() {
        let urls = ["http://127.0.0.1:1/", "http://127.0.0.1:2/"];
        let named = |names| plan(urls, Some(names), &options(), &[]);
        let variants = named("new, old").unwrap().variants;
        let names: Vec<_> = variants.iter().map(|v| v.levels.get("server")).collect();
        assert_eq!(names, [Some("new"), Some("old")]);
        for wrong in ["new", "a,b,c", "a,a", ",b", "{{x}},b"] {
            let error = named(wrong).unwrap_err().to_string();
            assert!(error.contains("--names"), "{error}");
        }
    }

    #[test]
    fn braces_in_an_url_stay_what_they_are() {
        let urls = ["http://127.0.0.1/a?{{b}}", "http://127.0.0.1/a?{{c}}"];
        let plan = plan(urls, None, &options(), &[]).unwrap();
        let url = plan.resolve(0, &BTreeMap::new()).unwrap().load.url;
        assert_eq!(url, "http://127.0.0.1:80/a?{{b}}");
    }

    #[test]
    fn strangers_and_relative_sockets_are_refused() {
        let refused = |urls| plan(urls, None, &options(), &[]).unwrap_err().to_string();
        assert!(refused(["http://8.8.8.8/", "http://127.0.0.1/"]).contains("--public"));
        assert!(refused(["unix:app.sock", "http://127.0.0.1/"]).contains("whole path"));
    }
}
