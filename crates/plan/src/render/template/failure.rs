//! Messages for templates that fail even though all their names are known.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::{Error, ErrorKind};

use super::names::KnownNames;
use crate::diagnostic::DiagnosticKind;
use crate::syntax::PlanReader;

/// Names and values of a template that failed, for error messages.
pub(super) struct TemplateFailure<'a> {
    pub(super) known: &'a KnownNames,
    pub(super) values: &'a BTreeMap<String, minijinja::Value>,
    /// Names that the template uses.
    pub(super) names: BTreeSet<&'a String>,
    pub(super) line: usize,
}

impl TemplateFailure<'_> {
    /// Reports an error from the template engine.
    pub(super) fn report(&self, error: &Error, reader: &mut PlanReader<'_>) {
        match error.kind() {
            ErrorKind::UndefinedError => self.report_unset(reader),
            ErrorKind::OutOfFuel => {
                let message = "the template did not finish rendering; it may contain an endless \
                    loop";
                reader.report(DiagnosticKind::Syntax, self.line, message);
            }
            _ => reader.report(DiagnosticKind::Syntax, self.line, error_words(error)),
        }
    }

    /// Reports the names that the template uses but that have no value in this variant.
    pub(super) fn report_unset(&self, reader: &mut PlanReader<'_>) {
        let unset: Vec<&&String> = self
            .names
            .iter()
            .filter(|name| self.value_at(name).is_undefined())
            .collect();
        if unset.is_empty()
            && let Some((service, files)) = self.files()
        {
            let message = format!("service \"{service}\" has no such file");
            let hint = if files.is_empty() {
                "add it to files".to_owned()
            } else {
                format!("it has: {}", files.join(", "))
            };
            reader.report_with_hint(DiagnosticKind::Undefined, self.line, message, hint);
            return;
        }
        let listed: Vec<_> = unset.iter().map(|name| format!("\"{name}\"")).collect();
        let message = match listed.as_slice() {
            [] => "a value in this template is not set".to_owned(),
            [one] => format!("{one} is not set"),
            several => format!("{} are not set", several.join(", ")),
        };
        let any_ends_with = |tail: &str| unset.iter().any(|name| name.ends_with(tail));
        let hint = if any_ends_with(".port") || any_ends_with(".host") {
            "a UNIX socket has path and address, but no host and port"
        } else if any_ends_with(".path") {
            "a TCP listener has host, port and address, but no path"
        } else {
            "set it in every level, or test it first with {% if … %} or | default('…')"
        };
        reader.report_with_hint(DiagnosticKind::Undefined, self.line, message, hint);
    }

    /// Returns the first service whose files the template uses, with the names of its files.
    fn files(&self) -> Option<(&str, Vec<String>)> {
        let service = self.names.iter().find_map(|name| {
            let service = name.strip_suffix(".files")?;
            self.known.is_service(service).then_some(service)
        })?;
        let files = self.value_at(&format!("{service}.files"));
        let names = files.try_iter().into_iter().flatten();
        Some((service, names.map(|name| name.to_string()).collect()))
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

/// Describes an error from the template engine.
pub(super) fn error_words(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("template: {}: {detail}", error.kind()),
        None => format!("template: {}", error.kind()),
    }
}
