//! Templates (`{{ … }}`) in a plan and its files. They refer to factors, levels and services by
//! name.
//!
//! A string that consists of one `{{ … }}` keeps the type of its value; any other string becomes
//! text. Names are checked before values, so a misspelled name is reported even if this variant
//! doesn't use its value.

mod expression;
mod failure;
mod names;
mod plain;
mod unreachable;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use prony_load::{placeholder, request_filters, with_filter};

use crate::diagnostic::DiagnosticKind;
use crate::machine::PlanMachine;
use crate::syntax::{PlanReader, TomlEntry, TomlNode, TomlTable, TomlValue, is_name};
use expression::{is_template, whole_expression};
use failure::{TemplateFailure, error_words};
use names::KnownNames;
use plain::is_plain;
use unreachable::noting_use;
use values::{from_jinja, to_jinja};

pub(crate) use names::KnownName;
pub(crate) use unreachable::unreachable_value;

/// Maximum number of instructions that a template may execute, which stops endless loops.
const TEMPLATE_FUEL: u64 = 1_000_000;

/// Maximum length of the text that a template renders, in bytes.
const TEXT_MAX: usize = 4 << 20;

/// Reports a text that is too long. Returns true if it isn't.
fn is_short(text: &str, line: usize, reader: &mut PlanReader<'_>) -> bool {
    if text.len() > TEXT_MAX {
        let message = format!("the template renders {} bytes of text", text.len());
        let hint = format!("at most {TEXT_MAX}");
        reader.report_with_hint(DiagnosticKind::BadValue, line, message, hint);
    }
    text.len() <= TEXT_MAX
}

fn report_unreachable(reason: &str, line: usize, reader: &mut PlanReader<'_>) {
    let hint = "a place reaches only places to which it has a link";
    reader.report_with_hint(DiagnosticKind::Structure, line, reason, hint);
}

/// All names and values that the templates of one variant can use.
#[derive(Clone)]
pub(crate) struct TemplateContext {
    environment: Environment<'static>,
    /// The machine that renders templates which could exhaust memory or stack.
    machine: Arc<dyn PlanMachine>,
    known: KnownNames,
    values: BTreeMap<String, minijinja::Value>,
    /// Levels as trees, which preserves the lines of their values.
    levels: BTreeMap<String, TomlNode>,
    /// True if a use of an unreachable value is reported. It is false while levels are rendered,
    /// because a level may contain such a value as long as no template uses it.
    reports_unreachable: bool,
}

impl TemplateContext {
    pub(crate) fn new(machine: Arc<dyn PlanMachine>) -> Self {
        let mut environment = Environment::new();
        // Semi-strict: a template can test whether a value is missing (`{% if tls.cert %}`), but
        // not print a missing value.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_keep_trailing_newline(true);
        environment.set_fuel(Some(TEMPLATE_FUEL));
        environment.set_formatter(|out, state, value| match value.kind() {
            ValueKind::None | ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
                let message = format!(
                    "a {} can't be rendered as text; name one of its values",
                    value.kind()
                );
                Err(Error::new(ErrorKind::InvalidOperation, message))
            }
            _ => minijinja::escape_formatter(out, state, value),
        });
        Self {
            environment,
            machine,
            known: KnownNames::default(),
            values: BTreeMap::new(),
            levels: BTreeMap::new(),
            reports_unreachable: true,
        }
    }

    pub(crate) fn set_level(
        &mut self,
        factor: &str,
        keys: Option<BTreeSet<String>>,
        level: TomlNode,
    ) {
        let known = keys.map_or(KnownName::Plain, KnownName::Level);
        self.known.set(factor, known);
        self.values
            .insert(factor.to_owned(), to_jinja(&level.value));
        self.levels.insert(factor.to_owned(), level);
    }

    pub(crate) fn set_service(&mut self, name: &str, known: KnownName, value: minijinja::Value) {
        self.known.set(name, known);
        self.values.insert(name.to_owned(), value);
    }

    /// Defines a name whose value differs for each request. Templates render the name as a
    /// placeholder for the load. Has no effect if a factor or service has the same name.
    pub(crate) fn set_request_value(&mut self, name: &str) {
        if is_name(name) && !self.known.has(name) {
            self.known.set(name, KnownName::Plain);
            let value = placeholder(name);
            self.values.insert(name.to_owned(), value.into());
        }
    }

    /// Defines the per-request function `random` and the filters. Templates render them as
    /// placeholders for the load.
    pub(crate) fn add_request_functions(&mut self) {
        let random = |first: i64, last: i64| placeholder(&format!("random({first}, {last})"));
        self.environment.add_function("random", random);
        for filter in request_filters() {
            let add = move |value: String| with_filter(&value, filter).unwrap_or(value);
            self.environment.add_filter(filter, add);
        }
    }

    /// Renders the strings in the levels (`args = ["--unix", "{{ web.path }}"]`).
    pub(crate) fn render_levels(&mut self, reader: &mut PlanReader<'_>) {
        let written = self.levels.clone();
        self.reports_unreachable = false;
        for (factor, level) in written {
            if let Some(rendered) = self.node(&level, reader) {
                self.values
                    .insert(factor.clone(), to_jinja(&rendered.value));
                self.levels.insert(factor, rendered);
            }
        }
        self.reports_unreachable = true;
    }

    /// Returns the keys of a table. A plan can also give the table as a single template,
    /// `{{ factor.key }}`.
    pub(crate) fn keys_of(&self, node: &TomlNode) -> Vec<String> {
        let table = match &node.value {
            TomlValue::Text(text) => whole_expression(text)
                .and_then(|expression| self.level_at(expression).flatten())
                .and_then(TomlNode::as_table),
            _ => node.as_table(),
        };
        table
            .map(|table| table.keys().map(str::to_owned).collect())
            .unwrap_or_default()
    }

    /// Renders every string of a tree. Returns `None` if the value is undefined or has a problem.
    pub(crate) fn node(&self, node: &TomlNode, reader: &mut PlanReader<'_>) -> Option<TomlNode> {
        match &node.value {
            TomlValue::Text(text) if is_template(text) => self.string(text, node.line, reader),
            TomlValue::Array(items) => {
                let mut rendered = Vec::with_capacity(items.len());
                for item in items {
                    match (self.node(item, reader), &item.value) {
                        // An array that results from one `{{ … }}` is merged into the outer array.
                        (
                            Some(TomlNode {
                                value: TomlValue::Array(inner),
                                ..
                            }),
                            TomlValue::Text(_),
                        ) => rendered.extend(inner),
                        (one, _) => rendered.extend(one),
                    }
                }
                Some(TomlNode::array(node.line, rendered))
            }
            TomlValue::Table(table) => Some(TomlNode {
                line: node.line,
                value: TomlValue::Table(self.table(table, reader)),
            }),
            _ => Some(node.clone()),
        }
    }

    /// Renders every string of a table. Keys with an undefined value are omitted.
    pub(crate) fn table(&self, table: &TomlTable, reader: &mut PlanReader<'_>) -> TomlTable {
        let entries = table.entries.iter().filter_map(|entry| {
            Some(TomlEntry {
                key: entry.key.clone(),
                line: entry.line,
                node: self.node(&entry.node, reader)?,
            })
        });
        TomlTable {
            line: table.line,
            entries: entries.collect(),
        }
    }

    /// Renders the text of a file. Diagnostics refer to lines of that file.
    pub(crate) fn file(&self, text: &str, reader: &mut PlanReader<'_>) -> Option<String> {
        let rendered = self.rehearsed(text, 1, reader, |reader| self.text(text, 1, reader))?;
        match rendered.value {
            TomlValue::Text(text) => is_short(&text, 0, reader).then_some(text),
            TomlValue::Unreachable(reason) => {
                report_unreachable(&reason, 0, reader);
                None
            }
            _ => None,
        }
    }

    fn string(&self, text: &str, line: usize, reader: &mut PlanReader<'_>) -> Option<TomlNode> {
        self.rehearsed(text, line, reader, |reader| {
            self.rendered_string(text, line, reader)
        })
    }

    /// Calls `render`, first in a child process if the template could exhaust memory or stack.
    fn rehearsed<T>(
        &self,
        text: &str,
        first_line: usize,
        reader: &mut PlanReader<'_>,
        render: impl Fn(&mut PlanReader<'_>) -> Option<T>,
    ) -> Option<T> {
        if !is_plain(text)
            && let Err(reason) = self.machine.rehearse(&mut || drop(render(reader)))
        {
            let line = text.lines().position(|line| !is_plain(line));
            let line = first_line + line.unwrap_or(0);
            let hint = "shorten the template, or write its result into the plan";
            reader.report_with_hint(DiagnosticKind::Syntax, line, reason, hint);
            return None;
        }
        render(reader)
    }

    fn rendered_string(
        &self,
        text: &str,
        line: usize,
        reader: &mut PlanReader<'_>,
    ) -> Option<TomlNode> {
        let node = match whole_expression(text) {
            Some(expression) => self.expression(expression, text, line, reader)?,
            None => self.text(text, line, reader)?,
        };
        if let TomlValue::Text(text) = &node.value
            && !is_short(text, line, reader)
        {
            return None;
        }
        self.is_reachable(&node, reader).then_some(node)
    }

    /// Reports the first unreachable value in a tree. Returns true if all values are reachable.
    fn is_reachable(&self, node: &TomlNode, reader: &mut PlanReader<'_>) -> bool {
        match &node.value {
            TomlValue::Unreachable(reason) if self.reports_unreachable => {
                report_unreachable(reason, node.line, reader);
                false
            }
            TomlValue::Array(items) => items.iter().all(|item| self.is_reachable(item, reader)),
            TomlValue::Table(table) => {
                let mut entries = table.entries.iter();
                entries.all(|entry| self.is_reachable(&entry.node, reader))
            }
            _ => true,
        }
    }

    /// Evaluates the expression of a string that consists of one `{{ … }}`.
    fn expression(
        &self,
        source: &str,
        text: &str,
        line: usize,
        reader: &mut PlanReader<'_>,
    ) -> Option<TomlNode> {
        let expression = match self.environment.compile_expression(source) {
            Ok(expression) => expression,
            Err(error) => {
                reader.report(DiagnosticKind::Syntax, line, error_words(&error));
                return None;
            }
        };
        let names = expression.undeclared_variables(true);
        if !self.check_names(&names, |_| line, reader) {
            return None;
        }
        if let Some(found) = self.level_at(source) {
            return found.cloned();
        }
        let (value, unreachable) = noting_use(|| expression.eval(&self.values));
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                self.failure(&names, line).report(&error, reader);
                return None;
            }
        };
        if value.is_undefined() && !names.iter().all(|name| self.is_level(name)) {
            self.failure(&names, line).report_unset(reader);
            return None;
        }
        if let Some(reason) = unreachable {
            let value = TomlValue::Unreachable(reason);
            return Some(TomlNode { line, value });
        }
        match from_jinja(&value, line) {
            Ok(node) => node,
            Err(kind) => {
                let message = format!("\"{text}\" is a value of kind {kind}, which no key accepts");
                reader.report(DiagnosticKind::WrongType, line, message);
                None
            }
        }
    }

    /// Renders a text with templates: as text, or as unreachable if a template uses an unreachable
    /// value.
    fn text(
        &self,
        source: &str,
        first_line: usize,
        reader: &mut PlanReader<'_>,
    ) -> Option<TomlNode> {
        let line_of_error =
            |error: &Error| first_line + error.line().map_or(0, |line| line.saturating_sub(1));
        let template = match self.environment.template_from_str(source) {
            Ok(template) => template,
            Err(error) => {
                let line = line_of_error(&error);
                reader.report(DiagnosticKind::Syntax, line, error_words(&error));
                return None;
            }
        };
        let names = template.undeclared_variables(true);
        let line_of_name = |name: &str| {
            let index = source.lines().position(|line| line.contains(name));
            first_line + index.unwrap_or(0)
        };
        if !self.check_names(&names, line_of_name, reader) {
            return None;
        }
        let (rendered, unreachable) = noting_use(|| template.render(&self.values));
        match rendered {
            Ok(text) => Some(TomlNode {
                line: first_line,
                value: unreachable.map_or(TomlValue::Text(text), TomlValue::Unreachable),
            }),
            Err(error) => {
                let failure = self.failure(&names, line_of_error(&error));
                failure.report(&error, reader);
                None
            }
        }
    }

    fn check_names<'n>(
        &self,
        names: impl IntoIterator<Item = &'n String>,
        line_of: impl Fn(&str) -> usize,
        reader: &mut PlanReader<'_>,
    ) -> bool {
        let is_global = |name: &str| (self.environment.globals()).any(|(global, _)| global == name);
        self.known.check(names, is_global, line_of, reader)
    }

    fn failure<'a>(
        &'a self,
        names: impl IntoIterator<Item = &'a String>,
        line: usize,
    ) -> TemplateFailure<'a> {
        TemplateFailure {
            known: &self.known,
            values: &self.values,
            names: names.into_iter().collect(),
            line,
        }
    }

    /// Looks up a path such as `factor.key.key` in the levels. Returns `None` if `path` doesn't
    /// have this form, and `Some(None)` if the selected level lacks the key.
    fn level_at(&self, path: &str) -> Option<Option<&TomlNode>> {
        let mut parts = path.trim().split('.').map(str::trim);
        let mut node = self.levels.get(parts.next()?)?;
        for part in parts {
            if !is_name(part) {
                return None;
            }
            match node.as_table()?.get(part) {
                Some(inner) => node = inner,
                None => return Some(None),
            }
        }
        Some(Some(node))
    }

    fn is_level(&self, name: &str) -> bool {
        self.levels
            .contains_key(name.split('.').next().unwrap_or_default())
    }
}
