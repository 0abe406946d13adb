//! Conditions on a result, and whether it fails them: `--fail-if` takes what must not be, `--require`
//! the same grammar for what must be.
//!
//! ```text
//! gate      = metric [ "of" subject ] sign limit
//!           | "verdict" [ "on" metric ] [ "of" subject ] "is" [ "not" ] word { "or" word }
//! sign      = ">" | ">=" | "<" | "<="
//! limit     = value | [ factor ] reference [ ( "+" | "-" ) value ]
//! subject   = "any" | "new" | "baseline" | name | '"' name '"' | level { "," level }
//! level     = factor's name "=" one of its levels
//! reference = "baseline" | "stored" | subject of one variant
//! ```
//!
//! `p99 of new > baseline + 5%`, `rate of socket=tcp < 0.95 baseline`, `p99 > 50ms`,
//! `failed > 0.1%`, `verdict of new is slower`. A measure is a metric of `verdict.json` by its name,
//! one of the short names, or what a load's `--fail-if` measures
//! ([`prony_record::condition`]); without a subject every variant is meant, each by itself.
//!
//! A gate judges the interval, not the estimate: it fails where the whole interval fulfils it,
//! passes where none of the interval does, and else can't tell. So a value near its limit doesn't
//! flap with the noise. Counts of requests against a fixed value are facts and judged as such.

mod evidence;
mod grammar;
mod judge;
mod quantity;
mod said;

use prony_record::condition::Sign;
use serde::{Deserialize, Serialize};

use crate::comparison::Verdict;
use crate::metric::Metric;

pub use evidence::{Evidence, Source};
pub use grammar::{GateError, Known};
use quantity::Quantity;

/// What becomes of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It surely holds: what must not be is.
    Failed,
    /// The measurement can't tell.
    Unclear,
    /// It surely doesn't hold.
    Passed,
}

impl Ruling {
    /// The word in JSON and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Ruling::Failed => "failed",
            Ruling::Unclear => "unclear",
            Ruling::Passed => "passed",
        }
    }
}

/// A condition, read and checked against the variants that there are.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    typed: String,
    /// Places of the variants that it is about.
    subjects: Vec<usize>,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Figure {
        quantity: Quantity,
        sign: Sign,
        limit: Limit,
    },
    Verdict {
        metric: Option<Metric>,
        wanted: Vec<Verdict>,
        is: bool,
    },
}

/// What a figure is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit {
    /// A value, in the quantity's own unit; a share of the whole for `share`.
    Fixed { value: f64, is_share: bool },
    /// `factor` times the reference's figure, and `shift` more.
    Relative {
        to: Reference,
        factor: f64,
        shift: f64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reference {
    /// Each variant's own baseline.
    Baseline,
    /// The same variant in the stored run.
    Stored,
    /// A variant of the same run, by its place.
    Variant(usize),
}

/// What became of a gate for one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// As it was typed.
    pub gate: String,
    /// The variant; empty for a load.
    pub name: String,
    /// What was measured, by its name; `verdict` for a gate on verdicts.
    pub measure: String,
    /// What became of it.
    pub ruling: Ruling,
    /// Why, in a sentence.
    pub text: String,
    /// What `value`, `low`, `high` and `limit` are: a figure in the measure's unit, its ratio to
    /// the reference's, or its difference from that. None where there are none.
    pub scale: Option<GateScale>,
    /// The estimate.
    pub value: Option<f64>,
    /// Lower end of the 95% interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// What it is held against.
    pub limit: Option<f64>,
}

/// What a gate's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateScale {
    /// A figure in the measure's unit: microseconds, a second, 0 to 1, bytes, or a count.
    Value,
    /// Over the reference's figure.
    Ratio,
    /// Less the reference's figure (times the factor that was typed), in the measure's unit.
    Difference,
}

impl Gate {
    /// Reads a gate.
    ///
    /// # Errors
    ///
    /// What can't be read, where, and what is known there.
    pub fn parse(typed: &str, known: &Known) -> Result<Gate, GateError> {
        grammar::parse(typed, known)
    }

    /// Reads a requirement, which fails where [`Gate::parse`]'s gate would pass. Results call it
    /// `require …`.
    ///
    /// # Errors
    ///
    /// As [`Gate::parse`].
    pub fn require(typed: &str, known: &Known) -> Result<Gate, GateError> {
        let gate = Gate::parse(typed, known)?;
        let rule = match gate.rule {
            Rule::Figure {
                quantity,
                sign,
                limit,
            } => Rule::Figure {
                quantity,
                sign: sign.inverse(),
                limit,
            },
            Rule::Verdict { metric, wanted, is } => Rule::Verdict {
                metric,
                wanted,
                is: !is,
            },
        };
        Ok(Gate {
            typed: format!("require {}", gate.typed),
            rule,
            ..gate
        })
    }

    /// As it was typed.
    pub fn typed(&self) -> &str {
        &self.typed
    }

    /// What becomes of it, for each variant that it is about.
    pub fn judge(&self, evidence: &Evidence<'_>) -> Vec<GateResult> {
        let each = self.subjects.iter();
        each.filter_map(|&variant| judge::judge(self, variant, evidence))
            .collect()
    }
}
