//! Findings: observations that qualify a result.
//!
//! A finding is an ID, a severity, a subject and figures. Its sentence is composed from them: each
//! kind of finding has a type that implements [`Figures`], next to its row.
//!
//! [`FindingId`] is the registry. Its rows ([`FindingInfo`]) give a finding's possible severities,
//! the verdicts that it withholds, its meaning and the recommended action; docs/findings.md is
//! generated from them. Code that reacts to a finding matches on [`FindingId`] or reads its row,
//! and never compares text.

mod experiment;
mod figures;
mod fleet;
mod info;
mod load;
mod registry;
mod severity;
mod trial;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use experiment::*;
pub use figures::{FigureMap, Figures, FiguresInfo, Subject};
pub use fleet::*;
pub use info::{FindingInfo, FindingScope, TrialFolding, WithheldVerdicts};
pub use load::*;
pub use registry::{FindingId, FindingKind, FindingName};
pub use severity::Severity;
pub use trial::*;

/// An observation that qualifies a result: what was seen, what it means, what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// ID of the finding.
    pub id: FindingName,
    /// Severity of the finding.
    pub severity: Severity,
    /// Subject, if it isn't the load as a whole.
    #[serde(default, skip_serializing_if = "Subject::is_load")]
    pub subject: Subject,
    /// Text of one to three sentences for the user.
    pub text: String,
    /// Observed figures, from which the text was composed. Findings of earlier versions have none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub figures: Map<String, Value>,
}

impl Finding {
    /// Creates a finding about the load. Its severity must be one that the registry lists.
    pub fn of<F: FindingKind>(severity: Severity, figures: &F) -> Finding {
        Finding::about(Subject::Load, severity, figures)
    }

    /// Creates a finding about a part of the load or a service.
    pub fn about<F: FindingKind>(subject: Subject, severity: Severity, figures: &F) -> Finding {
        debug_assert!(
            F::ID.info().can_have(severity),
            "{} is listed without the severity {severity:?}",
            F::ID
        );
        Finding {
            id: F::ID.into(),
            severity,
            text: figures.sentence(&subject),
            subject,
            figures: figures::map_of(figures),
        }
    }

    /// The figures, if the finding is of this kind and has them.
    pub fn figures<F: FindingKind>(&self) -> Option<F> {
        (self.id.known() == Some(F::ID)).then(|| figures::read_figures(&self.figures))?
    }

    /// The same finding about another subject. Findings without figures keep their text.
    pub fn with_subject(&self, subject: Subject) -> Finding {
        let mut finding = Finding {
            subject,
            ..self.clone()
        };
        finding.text = finding.composed().unwrap_or(finding.text);
        finding
    }

    /// The figures in JSON after a change to each of their texts.
    #[must_use]
    pub fn with_texts(self, change: impl Fn(&str) -> String) -> Finding {
        fn walk(value: &mut Value, change: &dyn Fn(&str) -> String) {
            match value {
                Value::String(text) => *text = change(text),
                Value::Array(items) => items.iter_mut().for_each(|item| walk(item, change)),
                Value::Object(map) => map.values_mut().for_each(|item| walk(item, change)),
                _ => {}
            }
        }
        let mut figures = Value::Object(self.figures);
        walk(&mut figures, &change);
        let figures = match figures {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        Finding { figures, ..self }
    }

    /// Combines this finding with another one of the same kind and subject by the rules of their
    /// figures, with the higher severity. Returns `None` if their figures can't be combined.
    /// Findings without known figures are combined only if they say the same.
    pub fn merged(&self, other: &Finding) -> Option<Finding> {
        if (&self.id, &self.subject) != (&other.id, &other.subject) {
            return None;
        }
        let severity = self.severity.max(other.severity);
        if (&self.text, &self.figures) == (&other.text, &other.figures) && self.composed().is_none()
        {
            return Some(Finding {
                severity,
                ..self.clone()
            });
        }
        let merged = Finding {
            severity,
            figures: (self.kind_figures()?.merge)(&self.figures, &other.figures)?,
            ..self.clone()
        };
        Some(merged.with_subject(merged.subject.clone()))
    }

    /// A finding as earlier versions stored it: a text without figures. Only tests use it; new
    /// findings are composed from their figures.
    #[doc(hidden)]
    pub fn stored(id: FindingId, severity: Severity, text: impl Into<String>) -> Finding {
        Finding {
            id: id.into(),
            severity,
            subject: Subject::Load,
            text: text.into(),
            figures: Map::new(),
        }
    }

    /// Composes the sentence from the figures, if the kind is known and has them.
    fn composed(&self) -> Option<String> {
        (self.kind_figures()?.compose)(&self.subject, &self.figures)
    }

    fn kind_figures(&self) -> Option<FiguresInfo> {
        self.id.known().map(FindingId::figures)
    }

    /// Returns the finding's registry row, or `None` if the ID is from another version of prony.
    pub fn info(&self) -> Option<&'static FindingInfo> {
        self.id.known().map(FindingId::info)
    }
}
