//! The pictures of metrics along factors whose levels are numbers.

use prony_stats::{Metric, Scaling, is_named_with_factor, level_name};

use crate::chart::{self, Chart, Line, LinePanel, palette};
use crate::verdict_view::scaling;

/// One metric along one factor.
pub(crate) fn scaling(factor: &str, metric: Metric, lines: &[&Scaling]) -> Chart {
    let panels = panels(lines);
    let spoken: Vec<String> = lines.iter().map(|line| scaling::words(line)).collect();
    let label = format!("{} along {factor}: {}.", metric.noun(), spoken.join("; "));
    chart::along(label, metric.noun(), factor, &panels)
}

/// A panel for each combination of the other factors but the last of two or more, whose levels are
/// lines; where there is but one other factor, a panel for each of its levels.
fn panels(lines: &[&Scaling]) -> Vec<LinePanel> {
    let mut panels: Vec<(Vec<String>, LinePanel)> = Vec::new();
    for line in lines {
        let levels = line.levels.iter().map(|(factor, level)| {
            level_name(factor, level, is_named_with_factor([level.as_str()]))
        });
        let mut levels: Vec<String> = levels.collect();
        let name = if levels.len() > 1 { levels.pop() } else { None };
        let place = match panels.iter().position(|(known, _)| *known == levels) {
            Some(place) => place,
            None => {
                let panel = LinePanel {
                    title: levels.join(", "),
                    lines: Vec::new(),
                };
                panels.push((levels, panel));
                panels.len() - 1
            }
        };
        let lines = &mut panels[place].1.lines;
        lines.push(Line {
            name: name.unwrap_or_default(),
            color: palette::variant(lines.len()),
            points: line.points.clone(),
        });
    }
    panels.into_iter().map(|(_, panel)| panel).collect()
}
