//! The page that the live view of `prony compare` draws.

use prony_report::number;
use prony_stats::Verdict;
use prony_wording::Change;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use super::experiment_state::{ComparisonRow, CpuUse, ExperimentState, TrialPhase};
use super::follower::LoadFigures;
use super::log_scale::LogScale;
use super::{Theme, ViewContext, panels, rounds};
use crate::progress::rounded;

/// Minimum terminal size (columns, rows) for panels side by side.
const FULL_SIZE_MIN: (u16, u16) = (60, 18);
/// Minimum width of the table, in cells, for drawing intervals to scale.
const SCALE_WIDTH_MIN: u16 = 110;
/// Minimum length of a bar, in cells.
const BAR_MIN: u16 = 10;
/// Maximum width of a service's name in the table of CPU usage, in cells.
const NAME_MAX: u16 = 24;
/// Minimum terminal width at which the table shows intervals.
const INTERVAL_WIDTH_MIN: u16 = 72;
/// Number of rows for findings and messages on a terminal of 24 rows.
pub(super) const NOTE_ROWS: u16 = 3;
/// Width of an interval drawn to scale, in cells.
const SCALE_CELLS: usize = 31;

pub(super) fn draw(frame: &mut Frame<'_>, state: &ExperimentState, context: &ViewContext<'_>) {
    let area = frame.area();
    if area.width < FULL_SIZE_MIN.0 || area.height < FULL_SIZE_MIN.1 {
        draw_small(frame, area, state, context);
        return;
    }
    let theme = context.theme;
    let figures = state.load.clone().unwrap_or_default();
    let spare = area.height.saturating_sub(24);
    let notes = panels::notes(&figures, context.messages, theme);
    let notes = panels::note_lines(&notes, area.width, NOTE_ROWS + spare / 6);
    let notes_height = notes.len() as u16;
    let load_height = 8 + (spare / 3).min(10);
    // The table gets the remaining rows, except for a few that the list of trials needs.
    let comparisons = u16::try_from(state.comparisons.len().max(1)).unwrap_or(u16::MAX);
    let rest = area.height.saturating_sub(4 + load_height + notes_height);
    let table_height = comparisons.saturating_add(3).min(rest.saturating_sub(3));
    let [head, gauge, now, load, table, ended, notes_area, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(load_height),
        Constraint::Length(table_height),
        Constraint::Fill(1),
        Constraint::Length(notes_height),
        Constraint::Length(1),
    ])
    .areas(area);
    let line = |text: &str| panels::shortened(text, area.width);
    frame.render_widget(Line::styled(line(&state.title), theme.strong()), head);
    let (words, share) = progress(state);
    panels::gauge(frame, gauge, &words, Some(share), theme);
    frame.render_widget(Line::from(line(&trial(state))), now);
    let [left, right] = panels::halves(load);
    match &state.rounds {
        Some(of_block) => rounds::draw(frame, left, of_block, theme),
        None => running(frame, left, &figures, theme),
    }
    cpu(frame, right, &state.cpu, theme);
    comparisons_table(frame, table, state, theme);
    panels::list(frame, ended, "trials", state.ended.iter(), theme);
    frame.render_widget(Paragraph::new(notes), notes_area);
    panels::foot(frame, foot, context);
}

/// Describes the progress of the experiment, and returns the finished fraction.
fn progress(state: &ExperimentState) -> (String, f64) {
    let (least, most) = state.blocks;
    let of = match least == most {
        true => format!("of {most}"),
        false if state.block <= least => format!("of {least} to {most}"),
        false => format!("of {most} at most"),
    };
    let left = state
        .left()
        .map(|(least, most)| (rounded(least), rounded(most)));
    let left = match left {
        _ if state.is_stopped => "stopping".to_owned(),
        None => "time left unknown".to_owned(),
        Some((least, most)) if least == most => format!("{least} left"),
        Some((least, most)) => format!("{least} to {most} left"),
    };
    let done = state.resumed * state.variants + state.trials_ended;
    let block = state.block.max(1);
    let words = match &state.rounds {
        Some(_) => format!("block {block} {of}: {left}"),
        None => format!(
            "block {block} {of}, trial {} of {}: {left}",
            done + 1,
            most * state.variants
        ),
    };
    (
        words,
        f64::from(done) / f64::from((most * state.variants).max(1)),
    )
}

/// Describes the current trial.
fn trial(state: &ExperimentState) -> String {
    let Some((variant, position)) = &state.trial else {
        return String::new();
    };
    let of = match &state.rounds {
        Some(_) => variant.clone(),
        None => format!("{variant} ({position} of {})", state.variants),
    };
    let phase = match &state.phase {
        TrialPhase::Between => "".to_owned(),
        TrialPhase::Starting(service) => format!(": starting {service}"),
        TrialPhase::Stopping => ": stopping services".to_owned(),
        TrialPhase::Loading => match (&state.rounds, &state.load) {
            (Some(rounds), _) => format!(": {}", rounds.progress()),
            (None, Some(figures)) => format!(": {}", panels::progress(figures).0),
            (None, None) => ": loading".to_owned(),
        },
    };
    of + &phase
}

/// Draws a summary of the current load.
pub(super) fn running(frame: &mut Frame<'_>, area: Rect, figures: &LoadFigures, theme: Theme) {
    let block = panels::titled("load", theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [line, lines] = Layout::vertical([Constraint::Fill(1), Constraint::Length(5)]).areas(inner);
    // Use two columns for each half second if they fit, so that a short load is visible.
    let points: Vec<_> = figures
        .history
        .iter()
        .map(|it| (it.t_s, it.ok_per_s))
        .collect();
    let points = panels::thinned(&points, usize::from(line.width));
    let each = (usize::from(line.width) / points.len().max(1)).clamp(1, 4);
    let rates: Vec<u64> = points
        .iter()
        .flat_map(|&(_, rate)| std::iter::repeat_n(rate as u64, each))
        .collect();
    frame.render_widget(Sparkline::default().data(rates).style(theme.good()), line);
    let time = |n: usize| match figures.all.count {
        0 => "–".to_owned(),
        _ => number::time(figures.all.percentiles[n].0),
    };
    let failed = figures.failed();
    let mut failures: Vec<String> = figures
        .outcomes
        .iter()
        .filter(|(outcome, _)| outcome.is_failure())
        .map(|(outcome, n)| format!("{} {}", number::count(*n), outcome.name()))
        .collect();
    if failures.is_empty() {
        failures.push("0 failed".to_owned());
    }
    let style = if failed > 0 {
        theme.bad()
    } else {
        Style::new()
    };
    let mark = if failed > 0 { "x " } else { "" };
    let failures = panels::shortened(&format!("{mark}{}", failures.join(", ")), area.width);
    let text = vec![
        panels::rate(figures, area.width, theme),
        Line::from(format!("p50 {}, p90 {}", time(0), time(1))),
        Line::from(format!("p99 {}, p99.9 {}", time(2), time(3))),
        Line::styled(failures, style),
        panels::load_sources(figures, area.width, theme),
    ];
    frame.render_widget(Paragraph::new(text), lines);
}

/// A figure of the table of CPU usage.
type CpuPercent = fn(&CpuUse) -> f64;

/// Draws the CPU usage of the services and the machine.
fn cpu(frame: &mut Frame<'_>, area: Rect, cpu: &[CpuUse], theme: Theme) {
    let block = panels::titled("CPU, percent of one core", theme);
    let room = usize::from(block.inner(area).height).saturating_sub(1);
    let most = cpu.iter().map(|it| it.user_percent + it.system_percent);
    let full = most.fold(100.0, f64::max);
    let right = |text: String| Cell::new(Line::from(text).right_aligned());
    const FIGURE_WIDTH: u16 = 6;
    let names = cpu.iter().map(|it| it.name.chars().count()).max();
    let name = u16::try_from(names.unwrap_or(0))
        .unwrap_or(u16::MAX)
        .min(NAME_MAX);
    let all_figures: [(&str, CpuPercent); 3] = [
        ("all", |it| it.user_percent + it.system_percent),
        ("user", |it| it.user_percent),
        ("system", |it| it.system_percent),
    ];
    let left = area.width.saturating_sub(name);
    // If there is no room for every column, the sum matters most.
    let figures = match left / (FIGURE_WIDTH + 1) {
        0..3 => &all_figures[..1],
        _ => &all_figures[..],
    };
    let bar = left.saturating_sub(figures.len() as u16 * (FIGURE_WIDTH + 1) + 1);
    let bar = if bar < BAR_MIN { 0 } else { bar };
    let rows = cpu.iter().take(room).map(|it| {
        let all = it.user_percent + it.system_percent;
        let filled = (all / full * f64::from(bar)).round() as usize;
        let percents = figures
            .iter()
            .map(|(_, percent)| right(format!("{:.0}", percent(it))));
        let name_width = area.width.saturating_sub(FIGURE_WIDTH + 1).min(NAME_MAX);
        let name = Cell::new(panels::shortened(&it.name, name_width));
        let bar = Cell::new(Span::styled("█".repeat(filled), theme.good()));
        Row::new([name].into_iter().chain(percents).chain([bar]))
    });
    let head = figures
        .iter()
        .map(|(heading, _)| right((*heading).to_owned()));
    let head = [Cell::new("")].into_iter().chain(head);
    let widths = [Constraint::Max(name)]
        .into_iter()
        .chain(figures.iter().map(|_| Constraint::Length(FIGURE_WIDTH)))
        .chain((bar > 0).then_some(Constraint::Fill(1)));
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(theme.dim()))
        .block(block);
    frame.render_widget(table, area);
}

/// Draws the comparisons so far.
fn comparisons_table(frame: &mut Frame<'_>, area: Rect, state: &ExperimentState, theme: Theme) {
    let title = panels::shortened(&title_of(state), area.width.saturating_sub(2));
    let block = panels::titled(&title, theme);
    let baseline = only_baseline(&state.comparisons);
    let name = |compared: &ComparisonRow| match baseline {
        Some(_) => compared.names.0.clone(),
        None => format!("{} against {}", compared.names.0, compared.names.1),
    };
    let room = usize::from(block.inner(area).height).saturating_sub(1);
    let all = &state.comparisons;
    let shown = if all.len() > room {
        room.saturating_sub(1)
    } else {
        all.len()
    };
    let scale = EffectScale::of(all);
    let draws = area.width >= SCALE_WIDTH_MIN;
    let shows_interval = area.width >= INTERVAL_WIDTH_MIN;
    // The columns are separated by one cell.
    let figures = 10 + 13 + if shows_interval { 21 } else { 0 } + if draws { 32 } else { 0 };
    let left = area.width.saturating_sub(figures);
    let longest = |lengths: &mut dyn Iterator<Item = usize>| {
        u16::try_from(lengths.max().unwrap_or(0)).unwrap_or(u16::MAX)
    };
    let names = longest(&mut all.iter().map(|it| name(it).chars().count()));
    let metrics = longest(&mut all.iter().map(|it| it.metric.noun().chars().count()));
    // If there is no room for both, each gets half.
    let metric_width = metrics.min((left / 2).max(left.saturating_sub(names)));
    let name_width = names.min(left.saturating_sub(metric_width));
    let mut rows: Vec<Row<'_>> = all[..shown]
        .iter()
        .map(|compared| {
            let (ratio, interval) = effect(compared);
            let (mark, word, style) = verdict(compared.verdict, theme);
            let metric = panels::shortened(compared.metric.noun(), metric_width);
            let cells = [
                Cell::new(panels::shortened(&name(compared), name_width)),
                Cell::new(metric).style(theme.dim()),
                Cell::new(Line::from(ratio).right_aligned()).style(theme.strong()),
            ];
            let interval = shows_interval.then(|| Cell::new(interval));
            let drawn = draws.then(|| Cell::new(scale.draw(compared)));
            let verdict = Cell::new(format!("{mark} {word}")).style(style);
            Row::new(
                cells
                    .into_iter()
                    .chain(interval)
                    .chain(drawn)
                    .chain([verdict]),
            )
        })
        .collect();
    if shown < all.len() {
        let text = format!("and {} more", all.len() - shown);
        rows.push(Row::new([Cell::new(text)]).style(theme.dim()));
    }
    let head = [
        Cell::new(""),
        Cell::new("metric"),
        Cell::new(Line::from("change").right_aligned()),
    ];
    let head = head
        .into_iter()
        .chain(shows_interval.then(|| Cell::new("95% interval")))
        .chain(draws.then(|| Cell::new(scale.head())))
        .chain([Cell::new("verdict")]);
    let widths = [name_width, metric_width.max(6), 9]
        .into_iter()
        .chain(shows_interval.then_some(20))
        .chain(draws.then_some(SCALE_CELLS as u16))
        .chain([12]);
    let table = Table::new(rows, widths.map(Constraint::Length))
        .header(Row::new(head).style(theme.dim()))
        .block(block);
    frame.render_widget(table, area);
}

/// Returns the baseline if all comparisons have the same one.
fn only_baseline(all: &[ComparisonRow]) -> Option<&str> {
    let first = &all.first()?.names.1;
    all.iter().all(|it| it.names.1 == *first).then_some(first)
}

/// Formats the title: the number of blocks so far, and the block of the next look.
fn title_of(state: &ExperimentState) -> String {
    let first = state.blocks.0.max(1);
    let next = match state.next_look {
        Some(next) => format!("; verdicts come after block {next}"),
        None if state.compared_blocks < first => format!("; verdicts come after block {first}"),
        None => String::new(),
    };
    let against = match only_baseline(&state.comparisons) {
        Some(baseline) => format!("against {baseline}, "),
        None => String::new(),
    };
    let blocks = number::plural(u64::from(state.compared_blocks), "block", "blocks");
    format!("{against}after {blocks}{next}")
}

/// Formats the change and its interval as in the report.
fn effect(compared: &ComparisonRow) -> (String, String) {
    let change = Change::of(compared.metric, &compared.effect);
    let interval = change.as_ref().and_then(Change::signed_range);
    (
        change.map_or("–".to_owned(), |change| change.signed()),
        interval.unwrap_or_else(|| "–".to_owned()),
    )
}

/// Formats a ratio at the end of the scale, such as `−5.0%` or `3.8 ×`.
fn end_text(ratio: f64) -> String {
    Change::of_ratio(ratio, None).signed()
}

fn verdict(verdict: Option<Verdict>, theme: Theme) -> (&'static str, &'static str, Style) {
    match verdict {
        None => ("·", "not yet", theme.dim()),
        Some(Verdict::Faster) => ("▲", "faster", theme.good()),
        Some(Verdict::Slower) => ("▼", "slower", theme.odd()),
        Some(Verdict::Equivalent) => ("=", "equivalent", theme.good()),
        Some(Verdict::Undecided) => ("?", "undecided", theme.dim()),
        Some(Verdict::Withheld) => ("×", "withheld", theme.bad()),
    }
}

/// Maps ratios to cells on a symmetric logarithmic scale.
struct EffectScale {
    most: f64,
}

impl EffectScale {
    /// Creates a scale that includes every interval and at least ±5%.
    fn of(all: &[ComparisonRow]) -> EffectScale {
        let ratios = all.iter().filter(|it| it.effect.difference.is_none());
        let ends = ratios.flat_map(|it| [it.effect.low, it.effect.high, it.effect.ratio]);
        let far = ends
            .flatten()
            .filter(|ratio| *ratio > 0.0)
            .map(|it| it.ln().abs());
        EffectScale {
            most: far.fold(1.05f64.ln(), f64::max),
        }
    }

    fn head(&self) -> String {
        let [low, high] = [-self.most, self.most].map(|it| end_text(it.exp()));
        let room = SCALE_CELLS.saturating_sub(low.chars().count() + high.chars().count());
        let left = (SCALE_CELLS / 2).saturating_sub(low.chars().count() + 1);
        let middle: String = match room.checked_sub(left + 2) {
            Some(right) => format!("{}0%{}", " ".repeat(left), " ".repeat(right)),
            None => " ".repeat(room),
        };
        format!("{low}{middle}{high}")
    }

    fn draw(&self, compared: &ComparisonRow) -> String {
        let effect = &compared.effect;
        let mut cells = [' '; SCALE_CELLS];
        cells[SCALE_CELLS / 2] = '┊';
        if let Some(ratio) = effect.ratio {
            let ends = effect.low.zip(effect.high).unzip();
            let scale = LogScale::new((-self.most).exp(), self.most.exp(), SCALE_CELLS);
            scale.draw(&mut cells, ends, Some(ratio));
        }
        cells.iter().collect()
    }
}

/// Draws only the most important lines, for a small terminal.
fn draw_small(
    frame: &mut Frame<'_>,
    area: Rect,
    state: &ExperimentState,
    context: &ViewContext<'_>,
) {
    let theme = context.theme;
    let figures = state.load.clone().unwrap_or_default();
    let mut lines = vec![
        Line::styled(progress(state).0, theme.strong()),
        Line::from(trial(state)),
    ];
    match &state.rounds {
        Some(rounds) => lines.extend(rounds::summaries(rounds, area.width, theme)),
        None => lines.push(panels::rate(&figures, area.width, theme)),
    }
    for compared in &state.comparisons {
        let (ratio, _) = effect(compared);
        let (mark, word, style) = verdict(compared.verdict, theme);
        lines.push(Line::styled(
            format!(
                "{mark} {} {} {ratio} {word}",
                compared.names.0,
                compared.metric.noun()
            ),
            style,
        ));
    }
    let notes = panels::notes(&figures, context.messages, theme);
    let room = area.height.saturating_sub(lines.len() as u16 + 1);
    lines.extend(panels::note_lines(&notes, area.width, room));
    let [body, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    panels::wrapped(frame, body, lines);
    panels::foot(frame, foot, context);
}
