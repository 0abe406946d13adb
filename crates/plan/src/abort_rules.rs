//! Conditions that end a load while it runs (`abort_if` and `--abort-if`).

use std::fmt;
use std::time::Duration;

use prony_record::{Nanos, number, quantity};
use prony_stats::gate::{GateError, LoadCondition};

/// Default length of the window over which conditions are evaluated.
const DEFAULT_WINDOW: Duration = Duration::from_secs(5);
/// Minimum length of the window: the interval at which a load publishes results.
const WINDOW_MIN: Duration = Duration::from_millis(500);

/// The conditions that end a load.
#[derive(Debug, Clone, PartialEq)]
pub struct AbortRules {
    conditions: Vec<LoadCondition>,
    /// Length of the window over which the conditions are evaluated.
    window: Nanos,
}

/// Reason why a set of `--abort-if` conditions is rejected.
#[derive(Debug, Clone, PartialEq)]
pub enum AbortRulesError {
    /// A condition is malformed, or can't be evaluated while a load runs.
    Condition(GateError),
    /// The window is shorter than the interval at which a load publishes results.
    ShortWindow,
}

impl fmt::Display for AbortRulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbortRulesError::Condition(error) => error.fmt(f),
            AbortRulesError::ShortWindow => write!(
                f,
                "at least {} (a load is checked every half second)",
                number::span(WINDOW_MIN.as_secs_f64())
            ),
        }
    }
}

impl std::error::Error for AbortRulesError {}

impl AbortRules {
    /// Parses the conditions and the length of their window (5 s by default). Returns `None` if the
    /// list of conditions is empty.
    ///
    /// # Errors
    ///
    /// A condition is malformed or can't be evaluated while a load runs, or the window is too
    /// short.
    pub fn read(
        conditions: &[String],
        window: Option<Duration>,
    ) -> Result<Option<AbortRules>, AbortRulesError> {
        let window = window.unwrap_or(DEFAULT_WINDOW);
        if window < WINDOW_MIN {
            return Err(AbortRulesError::ShortWindow);
        }
        let conditions = conditions.iter().map(|text| LoadCondition::abort(text));
        let conditions = conditions.collect::<Result<Vec<_>, _>>();
        let conditions = conditions.map_err(AbortRulesError::Condition)?;
        let window = Nanos::from(window);
        Ok((!conditions.is_empty()).then_some(AbortRules { conditions, window }))
    }

    /// Returns the conditions, in the order in which they are checked.
    pub fn conditions(&self) -> &[LoadCondition] {
        &self.conditions
    }

    /// Returns the length of the window over which the conditions are evaluated.
    pub fn window(&self) -> Nanos {
        self.window
    }
}

/// Formats the conditions and the window as flags of `prony load`.
impl fmt::Display for AbortRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.conditions {
            write!(f, "--abort-if '{condition}' ")?;
        }
        let window = quantity::time_text(self.window.into());
        write!(f, "--abort-window {window}")
    }
}
