//! The page that the live view of `prony compare` draws.

use prony_report::number;
use prony_stats::{Change, Effect, Metric, Verdict};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use super::experiment_state::{ComparisonRow, CpuUse, ExperimentState, TrialPhase};
use super::follower::LoadFigures;
use super::{Theme, ViewContext, load_page, panels, rounds};
use crate::progress::rounded;

/// Minimum terminal size (columns, rows) for panels side by side.
const FULL_SIZE_MIN: (u16, u16) = (60, 18);
/// Minimum width of the table, in cells, for drawing intervals to scale.
const SCALE_WIDTH_MIN: u16 = 110;
/// Minimum length of a bar, in cells.
const BAR_MIN: u16 = 10;
/// Width of an interval drawn to scale, in cells.
const SCALE_CELLS: usize = 31;

pub(super) fn draw(frame: &mut Frame<'_>, state: &ExperimentState, context: &ViewContext<'_>) {
    let area = frame.area();
    if area.width < FULL_SIZE_MIN.0 || area.height < FULL_SIZE_MIN.1 {
        small(frame, area, state, context);
        return;
    }
    let theme = context.theme;
    let figures = state.load.clone().unwrap_or_default();
    let notes = panels::notes(&figures, context.messages, theme);
    let spare = area.height.saturating_sub(24);
    let notes_height = load_page::note_rows(&notes, area.width, 2 + spare / 6);
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
    frame.render_widget(Line::styled(state.title.clone(), theme.strong()), head);
    let (words, share) = progress(state);
    panels::gauge(frame, gauge, &words, Some(share), theme);
    frame.render_widget(Line::from(trial(state)), now);
    let [left, right] = panels::halves(load);
    match &state.rounds {
        Some(of_block) => rounds::draw(frame, left, of_block, theme),
        None => running(frame, left, &figures, theme),
    }
    cpu(frame, right, &state.cpu, theme);
    comparisons_table(frame, table, state, theme);
    last_trials(frame, ended, state, theme);
    panels::wrapped(frame, notes_area, notes);
    frame.render_widget(Line::styled(context.keys, theme.dim()), foot);
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
    let text = vec![
        panels::rate(figures, theme),
        Line::from(format!("p50 {}, p90 {}", time(0), time(1))),
        Line::from(format!("p99 {}, p99.9 {}", time(2), time(3))),
        Line::styled(format!("{mark}{}", failures.join(", ")), style),
        panels::load_sources(figures, area.width, theme),
    ];
    frame.render_widget(Paragraph::new(text), lines);
}

/// Draws the CPU usage of the services and the machine.
fn cpu(frame: &mut Frame<'_>, area: Rect, cpu: &[CpuUse], theme: Theme) {
    let block = panels::titled("CPU, percent of one core", theme);
    let room = usize::from(block.inner(area).height).saturating_sub(1);
    let most = cpu.iter().map(|it| it.user_percent + it.system_percent);
    let full = most.fold(100.0, f64::max);
    let right = |text: String| Cell::new(Line::from(text).right_aligned());
    let name = (area.width / 3).clamp(9, 24);
    let bar = area.width.saturating_sub(name + 3 * 7 + 1);
    let bar = if bar < BAR_MIN { 0 } else { bar };
    let rows = cpu.iter().take(room).map(|it| {
        let all = it.user_percent + it.system_percent;
        let filled = (all / full * f64::from(bar)).round() as usize;
        Row::new([
            Cell::new(it.name.clone()),
            right(format!("{all:.0}")),
            right(format!("{:.0}", it.user_percent)),
            right(format!("{:.0}", it.system_percent)),
            Cell::new(Span::styled("█".repeat(filled), theme.good())),
        ])
    });
    let head = ["all", "user", "system"].map(|text| right(text.to_owned()));
    let head = [Cell::new("")].into_iter().chain(head);
    let widths = [
        Constraint::Length(name),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Fill(1),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(head).style(theme.dim()))
        .block(block);
    frame.render_widget(table, area);
}

/// Draws the comparisons so far.
fn comparisons_table(frame: &mut Frame<'_>, area: Rect, state: &ExperimentState, theme: Theme) {
    let block = panels::titled(&title_of(state), theme);
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
    let scale = Scale::of(all);
    let draws = area.width >= SCALE_WIDTH_MIN;
    let mut rows: Vec<Row<'_>> = all[..shown]
        .iter()
        .map(|compared| {
            let (ratio, interval) = effect(compared);
            let (mark, word, style) = verdict(compared.verdict, theme);
            let drawn = if draws {
                scale.draw(compared)
            } else {
                String::new()
            };
            Row::new([
                Cell::new(name(compared)),
                Cell::new(compared.metric.name()).style(theme.dim()),
                Cell::new(Line::from(ratio).right_aligned()).style(theme.strong()),
                Cell::new(interval),
                Cell::new(drawn),
                Cell::new(format!("{mark} {word}")).style(style),
            ])
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
        Cell::new("95% interval"),
        Cell::new(if draws { scale.head() } else { String::new() }),
        Cell::new("verdict"),
    ];
    let names = all.iter().map(|it| name(it).chars().count());
    let metrics = all.iter().map(|it| it.metric.name().len());
    let longest = |lengths: &mut dyn Iterator<Item = usize>| {
        u16::try_from(lengths.max().unwrap_or(0)).unwrap_or(u16::MAX)
    };
    let metric = match area.width {
        0..90 => 11,
        _ => longest(&mut { metrics }).max(11),
    };
    let widths = [
        Constraint::Max(longest(&mut { names })),
        Constraint::Length(metric),
        Constraint::Length(9),
        Constraint::Length(20),
        Constraint::Length(if draws { SCALE_CELLS as u16 } else { 0 }),
        Constraint::Length(12),
    ];
    let table = Table::new(rows, widths)
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
    let effect = Effect {
        ratio: Some(ratio),
        difference: None,
        low: None,
        high: None,
    };
    Change::of(Metric::RatePerS, &effect).map_or(String::new(), |change| change.signed())
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
struct Scale {
    most: f64,
}

impl Scale {
    /// Creates a scale that includes every interval and at least ±5%.
    fn of(all: &[ComparisonRow]) -> Scale {
        let ratios = all.iter().filter(|it| it.effect.difference.is_none());
        let ends = ratios.flat_map(|it| [it.effect.low, it.effect.high, it.effect.ratio]);
        let far = ends
            .flatten()
            .filter(|ratio| *ratio > 0.0)
            .map(|it| it.ln().abs());
        Scale {
            most: far.fold(1.05f64.ln(), f64::max),
        }
    }

    fn cell(&self, ratio: f64) -> usize {
        let share = (ratio.max(f64::MIN_POSITIVE).ln() / self.most + 1.0) / 2.0;
        (share.clamp(0.0, 1.0) * (SCALE_CELLS - 1) as f64).round() as usize
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
        let Some(ratio) = effect.ratio else {
            return cells.iter().collect();
        };
        if let (Some(low), Some(high)) = (effect.low, effect.high) {
            let (low, high) = (self.cell(low), self.cell(high));
            cells[low..=high.max(low)].fill('─');
            cells[low] = '├';
            cells[high] = '┤';
        }
        cells[self.cell(ratio)] = '●';
        cells.iter().collect()
    }
}

/// Draws the most recent trials.
fn last_trials(frame: &mut Frame<'_>, area: Rect, state: &ExperimentState, theme: Theme) {
    let block = panels::titled("trials", theme);
    let room = usize::from(block.inner(area).height);
    let first = state.ended.len().saturating_sub(room);
    let lines = state
        .ended
        .iter()
        .skip(first)
        .map(|line| Line::from(line.clone()));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

/// Draws only the most important lines, for a small terminal.
fn small(frame: &mut Frame<'_>, area: Rect, state: &ExperimentState, context: &ViewContext<'_>) {
    let theme = context.theme;
    let figures = state.load.clone().unwrap_or_default();
    let mut lines = vec![
        Line::styled(progress(state).0, theme.strong()),
        Line::from(trial(state)),
    ];
    match &state.rounds {
        Some(rounds) => lines.extend(rounds::summaries(rounds, theme)),
        None => lines.push(panels::rate(&figures, theme)),
    }
    for compared in &state.comparisons {
        let (ratio, _) = effect(compared);
        let (mark, word, style) = verdict(compared.verdict, theme);
        lines.push(Line::styled(
            format!(
                "{mark} {} {} {ratio} {word}",
                compared.names.0,
                compared.metric.name()
            ),
            style,
        ));
    }
    lines.extend(panels::notes(&figures, context.messages, theme));
    let [body, foot] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    panels::wrapped(frame, body, lines);
    frame.render_widget(Line::styled(context.keys, theme.dim()), foot);
}
