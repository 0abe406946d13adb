//! Gates: conditions on a result, and their evaluation. `--fail-if` describes results that fail,
//! and `--require` describes results that pass. Both use the same grammar.
//!
//! ```text
//! gate      = metric [ "of" subject ] operator limit
//!           | "verdict" [ "on" metric ] [ "of" subject ] "is" [ "not" ] word { "or" word }
//! operator  = ">" | ">=" | "<" | "<="
//! limit     = value | [ factor ] reference [ ( "+" | "-" ) value ]
//! subject   = "any" | "new" | "baseline" | name | '"' name '"' | level { "," level }
//! level     = factor's name "=" one of its levels
//! reference = "baseline" | "stored" | subject of one variant
//! ```
//!
//! Examples: `p99 of new > baseline + 5%`, `rate of socket=tcp < 0.95 baseline`, `p99 > 50ms`,
//! `failed > 0.1%`, `verdict of new is slower`. A metric is a metric of `verdict.json` by its name,
//! one of the short names, or a [measure](prony_record::measure) of a record. If the subject is
//! omitted, the gate applies to each variant separately. A [`LoadCondition`] is a gate on a single
//! load.
//!
//! A gate judges the interval, not the estimate. It fails if the condition holds for the whole
//! interval, passes if it holds for no part of the interval, and is unclear otherwise. Noise
//! therefore doesn't flip the result if a value is near the limit. A count of requests is a fact,
//! so it is compared with a fixed limit directly.

mod error;
mod evidence;
mod judge;
mod load_condition;
mod parser;
mod rule;
mod scope;

pub use crate::gate_result::{
    GateBasis, GateJudgement, GateNumbers, GateOutcome, GateResult, GateScale, TrialUnit,
};
pub use crate::observable::{Observable, ObservableNameError};
pub use error::GateError;
pub use evidence::{Evidence, RunEvidence};
pub use load_condition::{LoadCondition, LoadReading, MeasuredValue};
pub use rule::Gate;
use rule::GateRule;
pub use scope::GateScope;

impl Gate {
    /// Parses a gate.
    ///
    /// # Errors
    ///
    /// Returns the position of the first error and the accepted alternatives.
    pub fn parse(input: &str, known: &GateScope) -> Result<Gate, GateError> {
        parser::parse_gate(input, known)
    }

    /// Parses a requirement, which fails if a gate with the same text would pass. Results show it
    /// as `require …`.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Gate::parse`].
    pub fn require(input: &str, known: &GateScope) -> Result<Gate, GateError> {
        let gate = Gate::parse(input, known)?;
        let rule = match gate.rule {
            GateRule::Figure {
                observable,
                relation,
                limit,
            } => GateRule::Figure {
                observable,
                relation: relation.inverse(),
                limit,
            },
            GateRule::Verdict { metric, wanted, is } => GateRule::Verdict {
                metric,
                wanted,
                is: !is,
            },
        };
        Ok(Gate {
            input: format!("require {}", gate.input),
            rule,
            ..gate
        })
    }

    /// Returns the text as the user wrote it.
    pub fn input(&self) -> &str {
        &self.input
    }

    /// Judges the gate for each variant that it applies to.
    pub fn judge(&self, evidence: &Evidence<'_>) -> Vec<GateJudgement> {
        let each = self.subjects.iter();
        each.filter_map(|&variant| judge::judge(self, variant, evidence))
            .collect()
    }
}
