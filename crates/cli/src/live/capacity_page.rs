//! The page that the live view of `prony capacity` draws.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::capacity_state::CapacityState;
use super::{ViewContext, bracket, experiment_page, panels};
use crate::progress::rounded;

/// Minimum terminal size (columns, rows) for panels side by side.
const FULL_SIZE_MIN: (u16, u16) = (60, 18);
/// Maximum number of finished searches that are listed.
const SEARCHES_MAX: usize = 5;

/// Draws the page for capacity searches.
pub(super) fn draw(frame: &mut Frame<'_>, state: &CapacityState, context: &ViewContext<'_>) {
    let area = frame.area();
    if area.width < FULL_SIZE_MIN.0 || area.height < FULL_SIZE_MIN.1 {
        draw_small(frame, area, state, context);
        return;
    }
    let theme = context.theme;
    let figures = state.load.clone().unwrap_or_default();
    let spare = area.height.saturating_sub(24);
    let notes = panels::notes(&figures, context.messages, theme);
    let notes = panels::note_lines(&notes, area.width, experiment_page::NOTE_ROWS + spare / 6);
    let notes_height = notes.len() as u16;
    let panels_height = 10 + (spare / 2).min(14);
    let first = state.searches.len().saturating_sub(SEARCHES_MAX);
    let searches = &state.searches[first..];
    let searches_height = match searches.len() {
        0 => 0,
        listed => u16::try_from(listed + 1).unwrap_or(u16::MAX),
    };
    let [
        head,
        gauge,
        now,
        load,
        searches_area,
        probes,
        notes_area,
        foot,
    ] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(panels_height),
        Constraint::Length(searches_height),
        Constraint::Fill(1),
        Constraint::Length(notes_height),
        Constraint::Length(1),
    ])
    .areas(area);
    let line = |text: &str| panels::shortened(text, area.width);
    frame.render_widget(Line::styled(line(&state.title), theme.strong()), head);
    let (words, share) = progress(state);
    panels::gauge(frame, gauge, &words, Some(share), theme);
    frame.render_widget(Line::from(line(&probe(state))), now);
    let [left, right] = panels::halves(load);
    experiment_page::running(frame, left, &figures, theme);
    bracket::draw(frame, right, &state.bracket, theme);
    if !searches.is_empty() {
        panels::list(frame, searches_area, "searches", searches.iter(), theme);
    }
    panels::list(frame, probes, "probes", state.probes.iter(), theme);
    frame.render_widget(Paragraph::new(notes), notes_area);
    panels::foot(frame, foot, context);
}

/// Describes the progress of the searches, and returns the finished fraction.
fn progress(state: &CapacityState) -> (String, f64) {
    let (search, searches) = state.search;
    let time = rounded(state.elapsed);
    let time = if state.is_stopped {
        "stopping".to_owned()
    } else {
        format!("{time} so far")
    };
    let words = format!("search {} of {searches}: {time}", search.max(1));
    let done = state.searches.len() as f64;
    (words, done / f64::from(searches.max(1)))
}

/// Describes the current probe.
fn probe(state: &CapacityState) -> String {
    if !state.is_probing {
        return "waiting until the server is idle".to_owned();
    }
    let rate = match state.bracket.probe_per_s {
        Some(rate) => state.bracket.unit.rate(rate),
        None => "a closed loop".to_owned(),
    };
    let figures = state.load.as_ref();
    let progress = figures.map_or(String::new(), |it| format!(": {}", panels::progress(it).0));
    format!("probe {}, {rate}{progress}", state.probes_begun)
}

/// Draws only the most important lines, for a small terminal.
fn draw_small(frame: &mut Frame<'_>, area: Rect, state: &CapacityState, context: &ViewContext<'_>) {
    let theme = context.theme;
    let figures = state.load.clone().unwrap_or_default();
    let mut lines = vec![
        Line::styled(progress(state).0, theme.strong()),
        Line::from(probe(state)),
    ];
    lines.extend(state.bracket.words());
    lines.push(panels::rate(&figures, area.width, theme));
    lines.extend(state.searches.last().cloned().map(Line::from));
    let notes = panels::notes(&figures, context.messages, theme);
    let room = area.height.saturating_sub(lines.len() as u16 + 1);
    lines.extend(panels::note_lines(&notes, area.width, room));
    let [body, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    panels::wrapped(frame, body, lines);
    panels::foot(frame, foot, context);
}
