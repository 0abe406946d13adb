//! Charts of metrics against numeric factors.

use prony_stats::{Metric, Scaling, is_named_with_factor, level_name};
use prony_wording::scaling;
use prony_wording::verdict::capitalized;

use super::titled;
use crate::chart::{self, ScalingLine, ScalingPanel, palette};
use crate::document::Figure;

/// Chart of one metric against one factor.
pub(crate) fn scaling(factor: &str, metric: Metric, lines: &[&Scaling]) -> Figure {
    let panels = panels(lines);
    let spoken: Vec<String> = lines.iter().map(|line| scaling::ends(line)).collect();
    let label = format!("{} by {factor}: {}.", metric.noun(), spoken.join("; "));
    let chart = chart::along(label, metric.noun(), factor, &panels);
    titled(&capitalized(&scaling::title(factor, metric)), chart)
}

/// Returns a panel for each combination of the other factors' levels. If there are two or more
/// other factors, the levels of the last one are lines within a panel.
fn panels(lines: &[&Scaling]) -> Vec<ScalingPanel> {
    let mut panels: Vec<(Vec<String>, ScalingPanel)> = Vec::new();
    for line in lines {
        let levels = line.levels.iter().map(|(factor, level)| {
            level_name(factor, level, is_named_with_factor([level.as_str()]))
        });
        let mut levels: Vec<String> = levels.collect();
        let name = if levels.len() > 1 { levels.pop() } else { None };
        let place = match panels.iter().position(|(known, _)| *known == levels) {
            Some(place) => place,
            None => {
                let panel = ScalingPanel {
                    title: levels.join(", "),
                    lines: Vec::new(),
                };
                panels.push((levels, panel));
                panels.len() - 1
            }
        };
        let lines = &mut panels[place].1.lines;
        lines.push(ScalingLine {
            name: name.unwrap_or_default(),
            color: palette::variant(lines.len()),
            points: line.points.clone(),
        });
    }
    panels.into_iter().map(|(_, panel)| panel).collect()
}
