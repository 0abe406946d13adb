//! Requirements for prony in a row.

use super::figures::Measure;
use super::tool::Tool;

/// A requirement for a value, or a value that is only shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    pub(super) tool: Tool,
    pub(super) measure: Measure,
    pub(super) reference: Option<Reference>,
    pub(super) limit: Option<Limit>,
    /// True if the target also holds if it was not measured.
    pub(super) optional: bool,
}

/// Tools whose value the measured value is divided by, within each rotation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reference {
    Tool(Tool),
    /// Each peer; the worst ratio is judged.
    EveryPeer,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// Requires a median of at most `limit`.
pub(super) const fn at_most(measure: Measure, limit: f64) -> Target {
    Target {
        limit: Some(Limit::AtMost(limit)),
        ..without_limit(measure)
    }
}

/// Requires a median of at least `limit`.
pub(super) const fn at_least(measure: Measure, limit: f64) -> Target {
    Target {
        limit: Some(Limit::AtLeast(limit)),
        ..without_limit(measure)
    }
}

/// Requires nothing.
pub(super) const fn without_limit(measure: Measure) -> Target {
    Target {
        tool: Tool::Prony,
        measure,
        reference: None,
        limit: None,
        optional: false,
    }
}

impl Target {
    /// Applies the limit to the ratio to another tool's value.
    pub(super) const fn times(mut self, tool: Tool) -> Target {
        self.reference = Some(Reference::Tool(tool));
        self
    }

    /// Applies the limit to the ratio to each peer's value.
    pub(super) const fn times_every_peer(mut self) -> Target {
        self.reference = Some(Reference::EveryPeer);
        self
    }

    /// Applies the limit to a tool's value instead of prony's.
    pub(super) const fn of(mut self, tool: Tool) -> Target {
        self.tool = tool;
        self
    }

    /// Lets the target hold if it was not measured.
    pub(super) const fn if_measured(mut self) -> Target {
        self.optional = true;
        self
    }

    /// The target as text, such as `cost ≤ 1.08 × floor`; `None` if it requires nothing.
    pub(super) fn text(&self) -> Option<String> {
        let (sign, limit) = match self.limit? {
            Limit::AtMost(limit) => ("≤", limit),
            Limit::AtLeast(limit) => ("≥", limit),
        };
        let value = match self.tool {
            Tool::Prony => self.measure.name().to_owned(),
            tool => format!("{} with {}", self.measure.name(), tool.name()),
        };
        Some(match self.reference {
            None if limit == 0.0 => format!("no {value}"),
            None => format!("{value} {sign} {}", self.measure.text(limit)),
            Some(Reference::Tool(tool)) => format!("{value} {sign} {limit:.2} × {}", tool.name()),
            Some(Reference::EveryPeer) => format!("{value} {sign} {limit:.2} × every peer's"),
        })
    }

    /// Returns true if a median meets the limit.
    pub(super) fn holds(&self, median: f64) -> bool {
        match self.limit {
            Some(Limit::AtMost(limit)) => median <= limit,
            Some(Limit::AtLeast(limit)) => median >= limit,
            None => true,
        }
    }
}
