//! Names that templates can use, and messages about unknown ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::diagnostic::{DiagnosticKind, PlanError, did_you_mean, did_you_mean_or_list};
use crate::syntax::PlanReader;

/// Kind of a name, and the attributes that it has in templates.
#[derive(Debug, Clone)]
pub(crate) enum KnownName {
    /// A factor whose levels are plain values, which have no attributes.
    Plain,
    /// A factor, with the keys that at least one of its levels has.
    Level(BTreeSet<String>),
    /// A service, with the names of its attributes.
    Service(BTreeSet<String>),
    /// A service whose endpoints have not been chosen yet.
    NotYet,
}

/// Factors and services by name.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownNames(BTreeMap<String, KnownName>);

impl KnownNames {
    pub(super) fn set(&mut self, name: &str, known: KnownName) {
        self.0.insert(name.to_owned(), known);
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn is_service(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(KnownName::Service(_)))
    }

    /// Reports each unknown name, and each unknown attribute directly after a name. Returns true if
    /// there are none.
    pub(super) fn check<'n>(
        &self,
        names: impl IntoIterator<Item = &'n String>,
        is_global: impl Fn(&str) -> bool,
        line_of: impl Fn(&str) -> usize,
        reader: &mut PlanReader<'_>,
    ) -> bool {
        let mut all_known = true;
        // Sort the names, because the iteration order of the engine's set differs between runs.
        for name in names.into_iter().collect::<BTreeSet<_>>() {
            if let Some(error) = self.problem(name, &is_global, line_of(name), reader.file) {
                reader.diagnostics.push(error);
                all_known = false;
            }
        }
        all_known
    }

    fn problem(
        &self,
        name: &str,
        is_global: impl Fn(&str) -> bool,
        line: usize,
        file: &Path,
    ) -> Option<PlanError> {
        let mut parts = name.split('.');
        let root = parts.next().unwrap_or_default();
        let error =
            |message: String| PlanError::new(DiagnosticKind::Undefined, file, line, message);
        let Some(known) = self.0.get(root) else {
            if is_global(root) {
                return None;
            }
            let message = format!("no factor or service has the name \"{root}\"");
            let names = self.0.keys().map(String::as_str);
            let hint = did_you_mean_or_list(root, names, "known names");
            return Some(error(message).with_hint(hint));
        };
        match (known, parts.next()) {
            (KnownName::NotYet, _) => {
                let message = format!(
                    "\"{name}\" is not known yet, because this key determines where services run"
                );
                Some(error(message).with_hint("use factors here, not services"))
            }
            (KnownName::Service(attributes), Some(attribute))
                if !attributes.contains(attribute) =>
            {
                let message = format!("service \"{root}\" has no attribute \"{attribute}\"");
                let known = attributes.iter().map(String::as_str);
                let hint = did_you_mean_or_list(attribute, known, "it has");
                Some(error(message).with_hint(hint))
            }
            (KnownName::Level(keys), Some(attribute)) if !keys.contains(attribute) => {
                let message = format!("no level of factor \"{root}\" has a key \"{attribute}\"");
                let hint = did_you_mean(attribute, keys.iter().map(String::as_str));
                Some(match hint {
                    Some(hint) => error(message).with_hint(hint),
                    None => error(message),
                })
            }
            (KnownName::Plain, Some(attribute)) => {
                let message = format!(
                    "the levels of factor \"{root}\" are plain values without \"{attribute}\""
                );
                let hint = format!(
                    "write {{{{ {root} }}}}, or turn the levels into tables with \
                    a name"
                );
                Some(error(message).with_hint(hint))
            }
            _ => None,
        }
    }
}
