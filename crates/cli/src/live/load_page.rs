//! The page that the live view of `prony load` draws.

use std::time::Instant;

use prony_report::number;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::follower::{LoadFigures, LoadFollower, TimePercentiles};
use super::{LiveView, Theme, ViewContext, entries, panels};

/// Minimum terminal size (columns, rows) for tables side by side.
const FULL_SIZE_MIN: (u16, u16) = (60, 18);
/// Minimum terminal height for a chart above the tables.
const CHART_HEIGHT_MIN: u16 = 20;

impl LiveView for LoadFollower {
    fn refresh(&mut self, now: Instant) {
        LoadFollower::refresh(self, now);
    }

    fn draw(&self, frame: &mut Frame<'_>, context: &ViewContext<'_>) {
        draw(frame, self.figures(), context);
    }
}

/// Width of the generator's line, in cells, that a narrow terminal has room for.
const GENERATOR_WIDTH: u16 = 32;
/// Minimum width of the table of times, in cells.
const TIMES_WIDTH_MIN: u16 = 27;
/// Number of rows for findings and messages on a terminal of 24 rows.
const NOTE_ROWS: u16 = 4;

pub(super) fn draw(frame: &mut Frame<'_>, figures: &LoadFigures, context: &ViewContext<'_>) {
    let area = frame.area();
    if area.width < FULL_SIZE_MIN.0 || area.height < FULL_SIZE_MIN.1 {
        draw_small(frame, area, figures, context);
        return;
    }
    let theme = context.theme;
    let spare = area.height.saturating_sub(24);
    let notes = panels::notes(figures, context.messages, theme);
    let notes = panels::note_lines(&notes, area.width, NOTE_ROWS + spare / 4);
    let chart = if area.height >= CHART_HEIGHT_MIN {
        Constraint::Fill(1)
    } else {
        Constraint::Length(0)
    };
    let [
        head,
        gauge,
        rate,
        chart,
        tables,
        entries_area,
        generator,
        notes_area,
        foot,
    ] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Length(1),
        chart,
        Constraint::Length(7 + (spare / 6).min(6)),
        Constraint::Length(entries::rows(&figures.worst_entries, area.height)),
        Constraint::Length(1),
        Constraint::Length(notes.len() as u16),
        Constraint::Length(1),
    ])
    .areas(area);
    const COMMAND: &str = "prony load ";
    let url_width = area.width.saturating_sub(COMMAND.len() as u16);
    let title = Line::from(vec![
        Span::styled(COMMAND, theme.strong()),
        Span::raw(panels::shortened(&figures.info.url, url_width)),
    ]);
    let kind = Line::styled(panels::load_kind(figures, area.width), theme.dim());
    frame.render_widget(Paragraph::new(vec![title, kind]), head);
    let (words, share) = panels::progress(figures);
    panels::gauge(frame, gauge, &words, share, theme);
    frame.render_widget(panels::rate(figures, area.width, theme), rate);
    charts(frame, chart, figures, theme);
    let times_width = match area.width {
        ..80 => Constraint::Length(TIMES_WIDTH_MIN),
        _ => Constraint::Fill(1),
    };
    let [times, outcomes] = Layout::horizontal([times_width, Constraint::Fill(1)])
        .spacing(2)
        .areas(tables);
    panels::times(frame, times, figures, theme);
    panels::outcomes(frame, outcomes, figures, theme);
    entries::draw(frame, entries_area, figures, theme);
    let sources = panels::load_sources(figures, (area.width / 2).max(GENERATOR_WIDTH), theme);
    let right = match area.width {
        ..100 => Constraint::Length(sources.width() as u16),
        _ => Constraint::Fill(1),
    };
    let [left, right] = Layout::horizontal([Constraint::Fill(1), right])
        .spacing(2)
        .areas(generator);
    frame.render_widget(panels::in_flight(figures, left.width, theme), left);
    frame.render_widget(sources, right);
    frame.render_widget(Paragraph::new(notes), notes_area);
    panels::foot(frame, foot, context);
}

/// Draws one chart, or several if they fit side by side or one above the other.
fn charts(frame: &mut Frame<'_>, area: Rect, figures: &LoadFigures, theme: Theme) {
    let is_profile = !figures.info.stages.is_empty();
    if is_profile && area.width >= 120 && area.height >= 18 {
        let [above, below] = Layout::vertical([Constraint::Fill(1); 2]).areas(area);
        let [left, right] = panels::halves(below);
        panels::rates(frame, above, figures, theme);
        panels::times_chart(frame, left, figures, theme);
        panels::times_against_rate(frame, right, figures, theme);
        return;
    }
    let [rates, times] = match area {
        Rect { height: 0..5, .. } => return,
        Rect { height: 24.., .. } => Layout::vertical([Constraint::Fill(1); 2]).areas(area),
        Rect { width: 120.., .. } => panels::halves(area),
        _ => [area, Rect::default()],
    };
    panels::rates(frame, rates, figures, theme);
    if !times.is_empty() {
        panels::times_chart(frame, times, figures, theme);
    }
}

/// Draws only the most important lines, for a small terminal.
fn draw_small(frame: &mut Frame<'_>, area: Rect, figures: &LoadFigures, context: &ViewContext<'_>) {
    let theme = context.theme;
    let times = |name: &str, times: &TimePercentiles| {
        let text = match times.count {
            0 => "–".to_owned(),
            _ => format!(
                "p50 {} p99 {}",
                number::time(times.percentiles[0].0),
                number::time(times.percentiles[2].0)
            ),
        };
        Line::from(format!("{name} {text}"))
    };
    let failed = figures.failed();
    let mut lines = vec![
        Line::styled(panels::progress(figures).0, theme.strong()),
        panels::rate(figures, area.width, theme),
        times("last 5 s:", &figures.recent),
        times("so far:", &figures.all),
        Line::styled(
            format!(
                "{} ok, {} failed",
                number::count(figures.ok()),
                number::count(failed)
            ),
            if failed > 0 {
                theme.bad()
            } else {
                theme.good()
            },
        ),
    ];
    let failures = figures.outcomes.iter().filter(|(it, _)| it.is_failure());
    lines.extend(
        failures
            .map(|(outcome, n)| Line::from(format!("x {} {}", outcome.name(), number::count(*n)))),
    );
    if let Some(busy) = figures.busy {
        lines.push(Line::from(format!(
            "generator {:.0}% busy",
            busy.busiest * 100.0
        )));
    }
    if let Some(agents) = &figures.agents {
        lines.push(agents.line(area.width, theme));
    }
    let notes = panels::notes(figures, context.messages, theme);
    let room = area.height.saturating_sub(lines.len() as u16 + 1);
    lines.extend(panels::note_lines(&notes, area.width, room));
    let [body, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    panels::wrapped(frame, body, lines);
    panels::foot(frame, foot, context);
}
