//! Text about metrics against numeric factors.

use prony_stats::{Metric, Scaling, is_named_with_factor, level_name};

/// A heading such as `request rate by cores`.
pub fn title(factor: &str, metric: Metric) -> String {
    format!("{} by {factor}", metric.noun())
}

/// The levels of the other factors.
pub fn other_levels(line: &Scaling) -> String {
    let levels = line.levels.iter().map(|(factor, level)| {
        let with_factor = is_named_with_factor([level.as_str()]);
        level_name(factor, level, with_factor)
    });
    levels.collect::<Vec<_>>().join(", ")
}

/// Describes a line's first and last point.
pub fn ends(line: &Scaling) -> String {
    let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else {
        return other_levels(line);
    };
    let name = match other_levels(line) {
        name if name.is_empty() => String::new(),
        name => format!("{name}: "),
    };
    let value = |value| line.metric.unit().shown(value);
    format!(
        "{name}from {} at {} to {} at {}",
        value(first.level()),
        first.at,
        value(last.level()),
        last.at
    )
}
