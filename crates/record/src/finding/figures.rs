//! Figures of findings: what was observed, how it is written, and how the figures of several agents
//! are combined.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::memory_events::MemoryEvents;
use crate::stalls::Stalls;
use crate::throttling::Throttling;

/// Subject of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The load, the trial or the experiment as a whole.
    #[default]
    Load,
    /// An agent of a fleet.
    Agent(String),
    /// A service of an experiment.
    Service(String),
}

impl Subject {
    /// Returns true for the load as a whole.
    pub fn is_load(&self) -> bool {
        *self == Subject::Load
    }

    /// Name of the agent or the service; empty for the load as a whole.
    pub fn name(&self) -> &str {
        match self {
            Subject::Load => "",
            Subject::Agent(name) | Subject::Service(name) => name,
        }
    }

    /// The load generator that the finding is about, as the subject of a sentence.
    pub(super) fn generator(&self) -> String {
        match self {
            Subject::Agent(name) => format!("Agent {name}"),
            _ => "The generator".to_owned(),
        }
    }

    /// The service that the finding is about, with its name in quotes after `noun`.
    pub(super) fn service(&self, noun: &str) -> String {
        match self {
            Subject::Service(name) => format!("{noun} \"{name}\""),
            _ => noun.to_owned(),
        }
    }
}

/// The figures of one kind of finding.
pub trait Figures: Serialize + DeserializeOwned {
    /// One to three sentences: what was seen, what it means, and what to do.
    fn sentence(&self, subject: &Subject) -> String;

    /// Combines the figures with those of another agent. Returns `None` if they differ in a figure
    /// that both would have to share.
    fn merged(&self, other: &Self) -> Option<Self>;
}

/// Figures by name, as in JSON.
pub type FigureMap = Map<String, Value>;

/// The functions of a kind's figures, for findings whose kind is known only from their ID.
#[derive(Debug, Clone, Copy)]
pub struct FiguresInfo {
    /// Composes the sentence; `None` if figures are missing.
    pub compose: fn(&Subject, &Map<String, Value>) -> Option<String>,
    /// Combines the figures of two findings; `None` if figures are missing, or if they can't be
    /// combined.
    pub merge: fn(&FigureMap, &FigureMap) -> Option<FigureMap>,
}

impl FiguresInfo {
    pub(super) const fn of<F: Figures>() -> FiguresInfo {
        FiguresInfo {
            compose: |subject, map| read_figures::<F>(map).map(|figures| figures.sentence(subject)),
            merge: |one, other| {
                let sum = read_figures::<F>(one)?.merged(&read_figures(other)?)?;
                Some(map_of(&sum))
            },
        }
    }
}

pub(super) fn read_figures<F: Figures>(map: &Map<String, Value>) -> Option<F> {
    serde_json::from_value(Value::Object(map.clone())).ok()
}

pub(super) fn map_of<F: Figures>(figures: &F) -> Map<String, Value> {
    match serde_json::to_value(figures) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Declares the figures of a kind, each with the rule that combines those of several agents.
macro_rules! figures {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty = $rule:ident,)* }
     |$this:ident, $subject:ident| $sentence:expr) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $crate::finding::Figures for $name {
            fn sentence(&self, $subject: &$crate::finding::Subject) -> String {
                let $this = self;
                $sentence
            }

            fn merged(&self, other: &Self) -> Option<Self> {
                Some($name {
                    $($field: $crate::finding::figures::$rule(&self.$field, &other.$field)?,)*
                })
            }
        }
    };
}

pub(super) use figures;

/// Rule: the sum. It saturates, because agents may claim any number.
pub(super) fn sum(own: &u64, other: &u64) -> Option<u64> {
    Some(own.saturating_add(*other))
}

/// Rule: the sum of rates.
pub(super) fn sum_of_rates(own: &f64, other: &f64) -> Option<f64> {
    Some(own + other)
}

/// Rule: the sum of each entry.
pub(super) fn sums(
    own: &BTreeMap<String, u64>,
    other: &BTreeMap<String, u64>,
) -> Option<BTreeMap<String, u64>> {
    let mut sums = own.clone();
    for (key, more) in other {
        let count = sums.entry(key.clone()).or_default();
        *count = count.saturating_add(*more);
    }
    Some(sums)
}

/// Rule: the larger value; any value is larger than none.
pub(super) fn most<T: PartialOrd + Clone>(own: &T, other: &T) -> Option<T> {
    Some(if *other > *own { other } else { own }.clone())
}

/// Rule: the smaller value.
pub(super) fn least<T: PartialOrd + Clone>(own: &T, other: &T) -> Option<T> {
    Some(if *other < *own { other } else { own }.clone())
}

/// Rule: findings that differ in this figure are not combined.
pub(super) fn same<T: PartialEq + Clone>(own: &T, other: &T) -> Option<T> {
    (own == other).then(|| own.clone())
}

/// Rule: the stalls of the agent whose stalls took longest in total.
pub(super) fn longest_stalls(own: &Stalls, other: &Stalls) -> Option<Stalls> {
    Some(own.longer(*other))
}

/// Rule: the quota that stopped its group most often.
pub(super) fn worst_quota(own: &Throttling, other: &Throttling) -> Option<Throttling> {
    Some(own.worse(*other))
}

/// Rule: the limit at which more processes were killed or, if there is none, that was reached more
/// often.
pub(super) fn worst_memory(own: &MemoryEvents, other: &MemoryEvents) -> Option<MemoryEvents> {
    let rank = |events: &MemoryEvents| (events.oom_kills, events.limit_hits);
    Some(if rank(other) > rank(own) {
        *other
    } else {
        *own
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Errors, Finding, PortExhaustion, Severity, StreamsLimited};
    use super::*;

    fn errors(failed: u64, reason: &str) -> Finding {
        let figures = Errors {
            failed,
            ended: 10,
            outcomes: BTreeMap::from([("timeout".to_owned(), failed)]),
            reasons: BTreeMap::from([(reason.to_owned(), failed)]),
        };
        Finding::of(Severity::Warning, &figures)
    }

    #[test]
    fn figures_are_stored_and_read_back() {
        let finding = errors(3, "timeout: x");
        let json = serde_json::to_string(&finding).unwrap();
        let again: Finding = serde_json::from_str(&json).unwrap();
        assert_eq!(again, finding);
        assert_eq!(again.figures::<Errors>().unwrap().failed, 3);
        assert_eq!(again.figures::<StreamsLimited>(), None);
        let old = r#"{"id": "errors", "severity": "error", "text": "All failed."}"#;
        let old: Finding = serde_json::from_str(old).unwrap();
        assert_eq!(
            old.with_subject(Subject::Agent("a".to_owned())).text,
            "All failed."
        );
        assert_eq!(old.merged(&again), None);
        assert_eq!(old.merged(&old), Some(old.clone()));
    }

    #[test]
    fn each_figure_is_merged_by_its_rule() {
        let (one, two) = (errors(1, "timeout: x"), errors(4, "timeout: y"));
        let worst = Finding {
            severity: Severity::Error,
            ..two
        };
        let merged = one.merged(&worst).unwrap();
        assert_eq!(merged.severity, Severity::Error);
        assert_eq!(
            merged.text,
            "5 of 20 requests failed (25%): 5 timeout. timeout: y (4×). timeout: x (1×)."
        );
    }
    #[test]
    fn findings_that_differ_in_a_shared_figure_or_in_the_subject_are_not_combined() {
        let exhausted = |ports: &str| {
            let ports = ports.to_owned();
            Finding::of(Severity::Error, &PortExhaustion { failed: 2, ports })
        };
        let merged = exhausted("few").merged(&exhausted("few")).unwrap();
        assert_eq!(merged.figures::<PortExhaustion>().unwrap().failed, 4);
        assert_eq!(exhausted("few").merged(&exhausted("none")), None);
        let of_agent = exhausted("few").with_subject(Subject::Agent("a".to_owned()));
        assert_eq!(of_agent.merged(&exhausted("few")), None);
        let most = errors(u64::MAX, "timeout: x");
        assert_eq!(most.merged(&exhausted("few")), None);
        let merged = most.merged(&most).unwrap().figures::<Errors>().unwrap();
        assert_eq!(merged.failed, u64::MAX, "agents may claim any number");
    }
}
