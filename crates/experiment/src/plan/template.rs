//! `{{ … }}` in a plan and in its files: names, endpoints and levels put in their places.
//!
//! A string that is one whole `{{ … }}` keeps the type of its value; anything else becomes text.
//! Names are checked before values, so that a misspelt one is a mistake even where its value would
//! not have mattered in this variant.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

use super::error::{Fault, PlanError, did_you_mean};
use super::node::{Entry, Node, Table, Value};
use super::reader::Reader;

/// The instructions that one template may take; a loop that needs more never ends.
const FUEL: u64 = 1_000_000;

/// The most items that a computed list may have; one that runs on never ends.
const LONGEST_LIST: usize = 10_000;

/// Stands before and after the reason why a value is out of reach. No text of a plan can hold it.
const UNREACHABLE: char = '\0';

/// A value that nobody may use, and why.
pub(crate) fn out_of_reach(reason: &str) -> minijinja::Value {
    format!("{UNREACHABLE}{reason}{UNREACHABLE}").into()
}

/// What may follow a name's first point.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// Nothing: a plain level.
    Plain,
    /// The keys that any level of this factor has.
    Level(BTreeSet<String>),
    /// What this service offers, in words for the mend.
    Service(BTreeSet<String>),
    /// A service whose endpoints are not picked yet.
    NotYet,
}

/// Everything that the templates of one variant can name.
pub(crate) struct Context {
    environment: Environment<'static>,
    known: BTreeMap<String, Known>,
    values: BTreeMap<String, minijinja::Value>,
    /// The levels as trees, so that their values keep their lines.
    levels: BTreeMap<String, Node>,
    /// Whether a value that is out of reach is a mistake. Levels may hold such values, as long as
    /// nobody uses them.
    strict: bool,
}

impl Context {
    pub(crate) fn new() -> Self {
        let mut environment = Environment::new();
        // Semi-strict: a missing value can be asked for (`{% if tls.cert %}`) and not printed.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_keep_trailing_newline(true);
        environment.set_fuel(Some(FUEL));
        environment.set_formatter(|out, state, value| match value.kind() {
            ValueKind::None | ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
                Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!(
                        "{} can't be put into text; name one of its values",
                        value.kind()
                    ),
                ))
            }
            _ => minijinja::escape_formatter(out, state, value),
        });
        Self {
            environment,
            known: BTreeMap::new(),
            values: BTreeMap::new(),
            levels: BTreeMap::new(),
            strict: true,
        }
    }

    pub(crate) fn set_level(&mut self, factor: &str, keys: Option<BTreeSet<String>>, level: Node) {
        let known = keys.map_or(Known::Plain, Known::Level);
        self.known.insert(factor.to_owned(), known);
        self.values
            .insert(factor.to_owned(), to_jinja(&level.value));
        self.levels.insert(factor.to_owned(), level);
    }

    pub(crate) fn set_service(&mut self, name: &str, known: Known, value: minijinja::Value) {
        self.known.insert(name.to_owned(), known);
        self.values.insert(name.to_owned(), value);
    }

    /// Renders the strings inside the levels themselves (`args = ["--unix", "{{ web.path }}"]`).
    pub(crate) fn render_levels(&mut self, reader: &mut Reader<'_>) {
        let written = self.levels.clone();
        self.strict = false;
        for (factor, level) in written {
            if let Some(rendered) = self.node(&level, reader) {
                self.values
                    .insert(factor.clone(), to_jinja(&rendered.value));
                self.levels.insert(factor, rendered);
            }
        }
        self.strict = true;
    }

    /// The keys of a table that may itself be one whole `{{ factor.key }}`.
    pub(crate) fn keys_of(&self, node: &Node) -> Vec<String> {
        let table = match &node.value {
            Value::Table(table) => Some(table),
            Value::Text(text) => match whole(text).and_then(|inner| self.level_at(inner)) {
                Some(Some(Node {
                    value: Value::Table(table),
                    ..
                })) => Some(table),
                _ => None,
            },
            _ => None,
        };
        table
            .map(|table| table.keys().map(str::to_owned).collect())
            .unwrap_or_default()
    }

    /// A tree with every string rendered; `None` where the value is left out, or after a refusal.
    pub(crate) fn node(&self, node: &Node, reader: &mut Reader<'_>) -> Option<Node> {
        match &node.value {
            Value::Text(text) if is_template(text) => self.string(text, node.line, reader),
            Value::Array(items) => {
                let mut rendered = Vec::with_capacity(items.len());
                for item in items {
                    let one = self.node(item, reader);
                    match (one, &item.value) {
                        // A whole `{{ … }}` that is an array gives its items to the one around it.
                        (
                            Some(Node {
                                value: Value::Array(inner),
                                ..
                            }),
                            Value::Text(_),
                        ) => {
                            rendered.extend(inner);
                        }
                        (one, _) => rendered.extend(one),
                    }
                }
                Some(Node {
                    line: node.line,
                    value: Value::Array(rendered),
                })
            }
            Value::Table(table) => {
                let table = self.table(table, reader);
                Some(Node {
                    line: node.line,
                    value: Value::Table(table),
                })
            }
            _ => Some(node.clone()),
        }
    }

    /// A table with every string rendered and without the keys whose value is left out.
    pub(crate) fn table(&self, table: &Table, reader: &mut Reader<'_>) -> Table {
        let entries = table
            .entries
            .iter()
            .filter_map(|entry| {
                let node = self.node(&entry.node, reader)?;
                Some(Entry {
                    key: entry.key.clone(),
                    line: entry.line,
                    node,
                })
            })
            .collect();
        Table {
            line: table.line,
            entries,
        }
    }

    /// A file's text rendered; mistakes name the file's own lines.
    pub(crate) fn file(&self, text: &str, reader: &mut Reader<'_>) -> Option<String> {
        let rendered = self.text(text, 1, reader)?;
        let node = Node {
            line: 0,
            value: Value::Text(rendered),
        };
        match node.value {
            Value::Text(_) if !self.in_reach(&node, reader) => None,
            Value::Text(rendered) => Some(rendered),
            _ => None,
        }
    }

    fn string(&self, text: &str, line: usize, reader: &mut Reader<'_>) -> Option<Node> {
        let node = self.string_as_it_is(text, line, reader)?;
        self.in_reach(&node, reader).then_some(node)
    }

    /// Whether nothing in there is out of reach; says so where something is.
    fn in_reach(&self, node: &Node, reader: &mut Reader<'_>) -> bool {
        match &node.value {
            _ if !self.strict => true,
            Value::Text(text) => match text.split(UNREACHABLE).nth(1) {
                Some(reason) => {
                    let mend = "places reach those that a link joins to them";
                    reader.refuse_with(Fault::Structure, node.line, reason, mend);
                    false
                }
                _ => true,
            },
            Value::Array(items) => items.iter().all(|item| self.in_reach(item, reader)),
            Value::Table(table) => {
                let mut entries = table.entries.iter();
                entries.all(|entry| self.in_reach(&entry.node, reader))
            }
            _ => true,
        }
    }

    fn string_as_it_is(&self, text: &str, line: usize, reader: &mut Reader<'_>) -> Option<Node> {
        let Some(inner) = whole(text) else {
            let text = self.text(text, line, reader)?;
            return Some(Node {
                line,
                value: Value::Text(text),
            });
        };
        let expression = match self.environment.compile_expression(inner) {
            Ok(expression) => expression,
            Err(error) => {
                reader.refuse(Fault::Syntax, line, describe(&error));
                return None;
            }
        };
        let names = expression.undeclared_variables(true);
        if !self.check_names(&names, |_| line, reader) {
            return None;
        }
        if let Some(found) = self.level_at(inner) {
            return found.cloned();
        }
        let value = match expression.eval(&self.values) {
            Ok(value) => value,
            Err(error) => {
                self.explain(&error, &names, line, reader);
                return None;
            }
        };
        if value.is_undefined() && !names.iter().all(|name| self.is_level(name)) {
            self.not_set(&names, line, reader);
            return None;
        }
        match from_jinja(&value, line) {
            Ok(node) => node,
            Err(kind) => {
                let what = format!("\"{text}\" is a value of kind {kind}, which no key takes");
                reader.refuse(Fault::WrongType, line, what);
                None
            }
        }
    }

    fn text(&self, source: &str, first_line: usize, reader: &mut Reader<'_>) -> Option<String> {
        let at = |line: Option<usize>| first_line + line.map_or(0, |line| line.saturating_sub(1));
        let template = match self.environment.template_from_str(source) {
            Ok(template) => template,
            Err(error) => {
                reader.refuse(Fault::Syntax, at(error.line()), describe(&error));
                return None;
            }
        };
        let names = template.undeclared_variables(true);
        let line_of = |name: &str| {
            first_line
                + source
                    .lines()
                    .position(|line| line.contains(name))
                    .unwrap_or(0)
        };
        if !self.check_names(&names, line_of, reader) {
            return None;
        }
        match template.render(&self.values) {
            Ok(text) => Some(text),
            Err(error) => {
                self.explain(&error, &names, at(error.line()), reader);
                None
            }
        }
    }

    /// Whether every name, and what follows its first point, can be meant.
    fn check_names<'n>(
        &self,
        names: impl IntoIterator<Item = &'n String>,
        line_of: impl Fn(&str) -> usize,
        reader: &mut Reader<'_>,
    ) -> bool {
        let mut fine = true;
        // In the order of the alphabet: a set's own order changes from run to run.
        for name in names.into_iter().collect::<BTreeSet<_>>() {
            if let Some(error) = self.name_mistake(name, line_of(name), reader.file) {
                reader.mistakes.push(error);
                fine = false;
            }
        }
        fine
    }

    fn name_mistake(&self, name: &str, line: usize, file: &Path) -> Option<PlanError> {
        let mut parts = name.split('.');
        let root = parts.next().unwrap_or_default();
        let refuse = |what: String, mend: Option<String>| {
            let error = PlanError::new(Fault::Undefined, file, line, what);
            Some(match mend {
                Some(mend) => error.mend(mend),
                None => error,
            })
        };
        let Some(known) = self.known.get(root) else {
            if self.environment.globals().any(|(global, _)| global == root) {
                return None;
            }
            let all = self.known.keys().map(String::as_str);
            let mend = did_you_mean(root, all.clone())
                .unwrap_or_else(|| format!("known are: {}", all.collect::<Vec<_>>().join(", ")));
            return refuse(
                format!("no factor or service is called \"{root}\""),
                Some(mend),
            );
        };
        let attribute = parts.next();
        match (known, attribute) {
            (Known::NotYet, _) => refuse(
                format!("\"{name}\" is not known yet: this key decides where services live"),
                Some("name factors here, not services".to_owned()),
            ),
            (Known::Service(offers), Some(attribute)) if !offers.contains(attribute) => refuse(
                format!("service \"{root}\" offers no \"{attribute}\""),
                did_you_mean(attribute, offers.iter().map(String::as_str)).or_else(|| {
                    Some(format!(
                        "it has: {}",
                        Vec::from_iter(offers.iter().cloned()).join(", ")
                    ))
                }),
            ),
            (Known::Level(keys), Some(attribute)) if !keys.contains(attribute) => refuse(
                format!("no level of factor \"{root}\" has a key \"{attribute}\""),
                did_you_mean(attribute, keys.iter().map(String::as_str)),
            ),
            (Known::Plain, Some(attribute)) => refuse(
                format!("the levels of factor \"{root}\" are plain values without \"{attribute}\""),
                Some(format!(
                    "write {{{{ {root} }}}}, or make its levels tables with a name"
                )),
            ),
            _ => None,
        }
    }

    /// `factor.key.key` looked up in the levels: `None` where it is no such path, `Some(None)`
    /// where this level lacks the key.
    fn level_at(&self, path: &str) -> Option<Option<&Node>> {
        let mut parts = path.trim().split('.').map(str::trim);
        let mut node = self.levels.get(parts.next()?)?;
        for part in parts {
            if !is_name(part) {
                return None;
            }
            match &node.value {
                Value::Table(table) => match table.get(part) {
                    Some(inner) => node = inner,
                    None => return Some(None),
                },
                _ => return None,
            }
        }
        Some(Some(node))
    }

    fn is_level(&self, name: &str) -> bool {
        self.levels
            .contains_key(name.split('.').next().unwrap_or_default())
    }

    fn explain<'n>(
        &self,
        error: &Error,
        names: impl IntoIterator<Item = &'n String>,
        line: usize,
        reader: &mut Reader<'_>,
    ) {
        match error.kind() {
            ErrorKind::UndefinedError => self.not_set(names, line, reader),
            ErrorKind::OutOfFuel => {
                reader.refuse(Fault::Syntax, line, "this template runs without end");
            }
            _ => reader.refuse(Fault::Syntax, line, describe(error)),
        }
    }

    fn not_set<'n>(
        &self,
        names: impl IntoIterator<Item = &'n String>,
        line: usize,
        reader: &mut Reader<'_>,
    ) {
        let all: BTreeSet<_> = names.into_iter().collect();
        let unset: Vec<_> = all
            .iter()
            .filter(|name| self.value_at(name).is_undefined())
            .collect();
        if unset.is_empty()
            && let Some((service, files)) = self.files_among(&all)
        {
            let what = format!("service \"{service}\" has no such file");
            let mend = match files.as_str() {
                "" => "name it under files".to_owned(),
                files => format!("it has: {files}"),
            };
            reader.refuse_with(Fault::Undefined, line, what, mend);
            return;
        }
        let listed: Vec<_> = unset.iter().map(|name| format!("\"{name}\"")).collect();
        let what = match listed.as_slice() {
            [] => "a value in this template is not set".to_owned(),
            [one] => format!("{one} is not set"),
            several => format!("{} are not set", several.join(", ")),
        };
        let ends = |tail: &str| unset.iter().any(|name| name.ends_with(tail));
        let mend = if ends(".port") || ends(".host") {
            "a UNIX socket has path and address, no host and port"
        } else if ends(".path") {
            "a TCP listener has host, port and address, no path"
        } else {
            "set it in every level, or ask first: {% if … %}, | default('…')"
        };
        reader.refuse_with(Fault::Undefined, line, what, mend);
    }

    /// The first service whose files are among the names, and what they are called.
    fn files_among(&self, names: &BTreeSet<&String>) -> Option<(String, String)> {
        let service = names.iter().find_map(|name| {
            let service = name.strip_suffix(".files")?;
            matches!(self.known.get(service), Some(Known::Service(_))).then_some(service)
        })?;
        let files = self.value_at(&format!("{service}.files"));
        let files: Vec<String> = files
            .try_iter()
            .into_iter()
            .flatten()
            .map(|name| name.to_string())
            .collect();
        Some((service.to_owned(), files.join(", ")))
    }

    fn value_at(&self, name: &str) -> minijinja::Value {
        let mut parts = name.split('.');
        let mut value = parts
            .next()
            .and_then(|root| self.values.get(root))
            .cloned()
            .unwrap_or(minijinja::Value::UNDEFINED);
        for part in parts {
            value = value.get_attr(part).unwrap_or(minijinja::Value::UNDEFINED);
        }
        value
    }
}

/// Whether a name can stand in a template: a letter or `_`, then letters, digits and `_`.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a string holds anything to render.
pub(crate) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// The inside of a string that is one whole `{{ … }}`.
fn whole(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("{{")?.strip_suffix("}}")?;
    (!inner.starts_with(['-', '+']) && is_closed(inner)).then_some(inner)
}

/// Whether every bracket outside quotes closes one that was opened before, as `a }}-{{ b` does not.
///
/// The template engine panics over an expression that goes on behind its end.
fn is_closed(expression: &str) -> bool {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for c in expression.chars() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            _ => {}
        }
    }
    depth == 0
}

fn describe(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("template: {}: {detail}", error.kind()),
        None => format!("template: {}", error.kind()),
    }
}

fn to_jinja(value: &Value) -> minijinja::Value {
    match value {
        Value::Text(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Bool(truth) => (*truth).into(),
        Value::Array(items) => items.iter().map(|item| to_jinja(&item.value)).collect(),
        Value::Table(table) => table
            .entries
            .iter()
            .map(|e| (e.key.as_str(), to_jinja(&e.node.value)))
            .collect(),
    }
}

/// A rendered value as a tree; nothing and none leave the key out.
fn from_jinja(value: &minijinja::Value, line: usize) -> Result<Option<Node>, ValueKind> {
    let kind = value.kind();
    let value = match kind {
        ValueKind::Undefined | ValueKind::None => return Ok(None),
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number => match value.as_i64().filter(|_| value.is_integer()) {
            Some(number) => Value::Integer(number),
            None => match f64::try_from(value.clone()) {
                Ok(number) if number.is_finite() => Value::Float(number),
                _ => return Err(kind),
            },
        },
        ValueKind::String => Value::Text(value.to_string()),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter().map_err(|_| kind)?.take(LONGEST_LIST + 1) {
                items.extend(from_jinja(&item, line)?);
            }
            if items.len() > LONGEST_LIST {
                return Err(kind);
            }
            Value::Array(items)
        }
        ValueKind::Map => {
            let mut table = Table {
                line,
                entries: Vec::new(),
            };
            for key in value.try_iter().map_err(|_| kind)? {
                let inner = value.get_item(&key).map_err(|_| kind)?;
                if let Some(node) = from_jinja(&inner, line)? {
                    table.entries.push(Entry {
                        key: key.to_string(),
                        line,
                        node,
                    });
                }
            }
            Value::Table(table)
        }
        _ => return Err(kind),
    };
    Ok(Some(Node { line, value }))
}
