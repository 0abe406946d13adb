//! Parts of plans that prony composes from the command line.

use std::path::Path;

use prony_load::LoadSettings;
use prony_machine::profile::MachineProfile;
use prony_plan::{BodyComparison, Plan};
use prony_stats::Metric;
use toml::{Table, Value};

use crate::arguments::RevisionArgs;
use crate::ending::Failure;

/// Load settings that a plan contains in `[trials]` instead of `[load]`.
const LENGTHS: [&str; 2] = ["duration", "warmup"];

/// Names that `--start` may use without the service's name.
const ADDRESS_PARTS: [&str; 3] = ["port", "host", "address"];

/// Returns `[trials]` and `[load]` with the given settings, which are taken literally.
pub(crate) fn settings_tables(settings: &LoadSettings) -> Result<(Table, Table), Failure> {
    let (mut trials, mut load) = (Table::new(), Table::new());
    let settings = Table::try_from(settings).map_err(Failure::wrong)?;
    for (key, value) in settings {
        let value = without_templates(value);
        if LENGTHS.contains(&key.as_str()) {
            trials.insert(key, value)
        } else {
            load.insert(key, value)
        };
    }
    Ok((trials, load))
}

/// Creates a table of the entries.
pub(crate) fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Escapes all strings in a value, so that a plan takes them literally and not as templates.
fn without_templates(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(verbatim(&text)),
        Value::Array(values) => Value::Array(values.into_iter().map(without_templates).collect()),
        other => other,
    }
}

/// Escapes a string so that a plan takes it literally.
pub(crate) fn verbatim(text: &str) -> String {
    if ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) {
        format!("{{{{ {} }}}}", serde_json::Value::from(text))
    } else {
        text.to_owned()
    }
}

/// Reads and checks a composed plan.
pub(crate) fn read(text: &str, origin: &str) -> Result<Plan, Failure> {
    let plan = Plan::from_str(text, Path::new(origin), MachineProfile::this());
    let checked = plan.and_then(|plan| plan.check_machine().map(|()| plan));
    // prony wrote this plan, so its line numbers would mean nothing to the user.
    checked.map_err(|errors| {
        let lines: Vec<String> = errors
            .iter()
            .map(|error| match &error.hint {
                Some(hint) => format!("{} ({hint})", error.message),
                None => error.message.clone(),
            })
            .collect();
        Failure::wrong(lines.join("\nprony: "))
    })
}

/// A comparison of revisions of the repository in the current folder.
pub(crate) struct ComparedRevisions<'a> {
    /// The revisions, the baseline first.
    pub(crate) revisions: &'a [&'a str],
    /// Commands that build and start a revision.
    pub(crate) commands: &'a RevisionArgs,
    /// Further keys of `[load]`.
    pub(crate) load: Table,
    /// The metrics that decide; empty for the default.
    pub(crate) judge: &'a [Metric],
    /// Rule for comparing response bodies.
    pub(crate) bodies: Option<BodyComparison>,
    /// Largest number of blocks; `None` for the default.
    pub(crate) blocks_max: Option<u32>,
    /// Margin as a fraction; `None` for the default.
    pub(crate) margin: Option<f64>,
}

impl ComparedRevisions<'_> {
    /// Composes the plan that compares the revisions with the first one.
    pub(crate) fn plan(self, settings: &LoadSettings) -> Result<Plan, Failure> {
        if settings.unix.is_some() {
            let what = "--unix can't be combined with revisions, which listen on a port";
            return Err(Failure::wrong(what));
        }
        let Some(start) = &self.commands.start else {
            let what = "--start is needed, such as --start './server --port {{ port }}'";
            return Err(Failure::wrong(what));
        };
        let [baseline, others @ ..] = self.revisions else {
            return Err(Failure::wrong("no revisions were given"));
        };
        let build = self.commands.build.as_deref().unwrap_or("true");
        let (mut trials, mut load) = settings_tables(settings)?;
        if let Some(max) = self.blocks_max {
            let blocks = table([("max", Value::from(max))]);
            trials.insert("blocks".to_owned(), Value::Table(blocks));
        }
        load.insert("target".to_owned(), Value::from("app"));
        if let Some(path) = &self.commands.path {
            load.insert("path".to_owned(), Value::from(verbatim(path)));
        }
        if let Some(rule) = self.bodies {
            load.insert("bodies".to_owned(), Value::from(rule.name()));
        }
        load.extend(self.load);
        let words = ["sh", "-c", &named_parts(start)].map(Value::from);
        let build = table([
            ("git", Value::from(".")),
            ("revision", Value::from("{{ revision }}")),
            ("run", Value::from(verbatim(build))),
        ]);
        let env = table([("PORT", Value::from("{{ app.port }}"))]);
        let service = table([
            ("build", Value::Table(build)),
            ("command", Value::Array(words.to_vec())),
            ("cwd", Value::from("{{ app.build.dir }}")),
            ("env", Value::Table(env)),
        ]);
        let levels = self.revisions.iter().map(|name| Value::from(*name));
        let baseline_table = table([("revision", Value::from(*baseline))]);
        let question = format!("How does {} compare with {baseline}?", others.join(", "));
        let mut plan = table([
            ("name", Value::from("revisions")),
            ("question", Value::from(question)),
            ("baseline", Value::Table(baseline_table)),
            ("trials", Value::Table(trials)),
            (
                "factors",
                Value::Table(table([("revision", Value::Array(levels.collect()))])),
            ),
            (
                "service",
                Value::Table(table([("app", Value::Table(service))])),
            ),
            ("load", Value::Table(load)),
        ]);
        if let Some(margin) = self.margin {
            let margin = format!("{:.4}%", margin * 100.0);
            plan.insert("margin".to_owned(), Value::from(margin));
        }
        if !self.judge.is_empty() {
            let names = self.judge.iter().map(|metric| Value::from(metric.name()));
            plan.insert("metrics".to_owned(), Value::Array(names.collect()));
        }
        read(&plan.to_string(), "revisions.toml")
    }
}

/// Adds the service's name to parts of its address, such as `{{ port }}`.
fn named_parts(command: &str) -> String {
    let mut out = String::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once("{{") {
        out += before;
        out += "{{";
        let Some((name, after)) = after.split_once("}}") else {
            return out + after;
        };
        out += &if ADDRESS_PARTS.contains(&name.trim()) {
            format!(" app.{} }}}}", name.trim())
        } else {
            format!("{name}}}}}")
        };
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_address_need_no_name_of_the_service() {
        for (command, expected) in [
            ("./a --port {{ port }}", "./a --port {{ app.port }}"),
            ("{{port}}{{ address }}", "{{ app.port }}{{ app.address }}"),
            ("{{ app.build.dir }}/a {{ x", "{{ app.build.dir }}/a {{ x"),
            ("./a $PORT", "./a $PORT"),
        ] {
            assert_eq!(named_parts(command), expected);
        }
    }
}
