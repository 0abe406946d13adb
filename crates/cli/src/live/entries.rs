//! The panel that shows the list entries with the worst results.

use prony_record::EntryResult;
use prony_report::number;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use super::Theme;
use super::follower::LoadFigures;
use super::panels::titled;

/// Minimum terminal height at which the panel is shown.
const HEIGHT_MIN: u16 = 32;

/// Returns the number of rows in the panel on a terminal of the given height.
pub(super) fn rows(entries: &[EntryResult], terminal_height: u16) -> u16 {
    match entries.len() {
        0 => 0,
        _ if terminal_height < HEIGHT_MIN => 0,
        // Two additional rows hold the title and the column headings.
        count => 2 + count as u16,
    }
}

/// Draws one row for each entry.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, figures: &LoadFigures, theme: Theme) {
    let entries = &figures.worst_entries;
    if area.is_empty() {
        return;
    }
    let right = |text: String| Cell::new(Line::from(text).right_aligned());
    let row = |entry: &EntryResult| {
        let times = &entry.response_time_us;
        let time = |name: &str, us: f64| match times.at_least.iter().any(|it| it == name) {
            _ if times.max == 0.0 => "–".to_owned(),
            true => format!("≥ {}", number::time(us)),
            false => number::time(us),
        };
        let failed = right(number::count(entry.failed));
        Row::new([
            Cell::new(entry.name.clone()),
            right(number::count(entry.started)),
            right(number::rate_figure(entry.ok_per_s)),
            match entry.failed {
                0 => failed,
                _ => failed.style(theme.bad()),
            },
            right(time("p50", times.p50)),
            right(time("p99", times.p99)),
        ])
    };
    let headings = ["requests", "ok/s", "failed", "p50", "p99"];
    let headings = headings.map(|text| right(text.to_owned()));
    let headings = [Cell::new("")].into_iter().chain(headings);
    let longest = entries.iter().map(|it| it.name.chars().count()).max();
    let names = longest.map_or(0, |longest| u16::try_from(longest).unwrap_or(u16::MAX));
    let widths = [
        Constraint::Max(names),
        Constraint::Length(12),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(10),
    ];
    let title = match figures.info.steps {
        0 => "worst entries",
        _ => "steps of the journey",
    };
    let table = Table::new(entries.iter().map(row), widths)
        .header(Row::new(headings).style(theme.dim()))
        .block(titled(title, theme));
    frame.render_widget(table, area);
}
