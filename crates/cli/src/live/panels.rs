//! Panels that several live views use.

use std::cmp::Reverse;
use std::time::Duration;

use prony_record::{Outcome, RateProfile, Severity};
use prony_report::number;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Axis, Block, Borders, Cell, Chart, Dataset, GraphType, LineGauge, Paragraph, Row, Table, Wrap,
};

use super::Theme;
use super::agents::LoadStage;
use super::follower::{LoadFigures, Times, TimesPoint};
use crate::progress::rounded;

/// Markers that distinguish the lines of a chart without colors.
const FAILED: Marker = Marker::Custom('x');
const OFFERED: Marker = Marker::Custom('-');
const SLOW: Marker = Marker::Custom('^');

/// Creates a panel with a title above a horizontal line.
pub(super) fn titled(title: &str, theme: Theme) -> Block<'static> {
    Block::new()
        .borders(Borders::TOP)
        .border_style(theme.dim())
        .title(Span::styled(format!(" {title} "), theme.strong()))
}

/// Draws a gauge with text next to it.
pub(super) fn gauge(
    frame: &mut Frame<'_>,
    area: Rect,
    words: &str,
    share: Option<f64>,
    theme: Theme,
) {
    let Some(share) = share.filter(|_| usize::from(area.width) > words.chars().count() + 6) else {
        frame.render_widget(Paragraph::new(words), area);
        return;
    };
    let gauge = LineGauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label(words.to_owned())
        .filled_symbol("█")
        .unfilled_symbol("░")
        .filled_style(theme.good())
        .unfilled_style(theme.dim());
    frame.render_widget(gauge, area);
}

/// Describes the kind of load in one line.
pub(super) fn kind(figures: &LoadFigures) -> String {
    let info = &figures.info;
    let arrivals = info.arrivals.as_deref().unwrap_or_default();
    let mut parts = vec![match (info.rate_per_s, info.stages.as_slice()) {
        (Some(rate), _) => format!("open loop, {} {arrivals}", number::rate(rate)),
        (None, []) => "closed loop".to_owned(),
        (None, stages) => format!("open loop, {} {arrivals}", number::rate_stages(stages)),
    }];
    parts.extend(info.think.as_ref().map(|think| {
        let mean = number::span(think.mean_s);
        match think.distribution.as_str() {
            "exponential" => format!("think times of {mean} on average"),
            _ => format!("think times of {mean}"),
        }
    }));
    let many = |n: u32, what: &str| number::plural(u64::from(n), what, &format!("{what}s"));
    parts.push(many(info.connections, "connection"));
    if info.streams > 1 {
        parts.push(format!("{} each", many(info.streams, "stream")));
    }
    // For a load on agents, the HTTP version is empty until the agents are ready and report it.
    if !info.http.is_empty() {
        parts.push(many(info.threads, "thread"));
        parts.push(format!("HTTP/{}", info.http));
    }
    parts.extend(info.tls.as_ref().map(|_| "TLS".to_owned()));
    let agents = figures.agents.as_ref().filter(|agents| agents.all > 0);
    parts.extend(agents.map(|it| number::plural(it.all as u64, "agent", "agents")));
    parts.join(", ")
}

/// Describes the progress of a load, and returns the finished fraction if it is known.
pub(super) fn progress(figures: &LoadFigures) -> (String, Option<f64>) {
    let elapsed = rounded(figures.elapsed);
    let stage = figures.agents.as_ref().map(|agents| agents.stage());
    let phase = match (stage, figures.is_stopped, figures.is_warming_up()) {
        (Some(LoadStage::Preparing), ..) => {
            return (format!("preparing the agents: {elapsed}"), None);
        }
        (Some(LoadStage::Over), ..) => return (format!("merging results: {elapsed}"), None),
        (_, true, _) => "stopping",
        (_, false, true) => "warming up",
        (_, false, false) => "measuring",
    };
    if let Some(limit) = figures.info.requests {
        // The warm-up's requests don't count towards the limit.
        let ended = figures.outcomes.iter();
        let ended = ended.filter(|(it, _)| *it == Outcome::Ok || it.is_failure());
        let done = ended.map(|(_, count)| count).sum::<u64>().min(limit);
        let words = format!(
            "{phase}: {} of {} requests, {elapsed}",
            number::count(done),
            number::count(limit)
        );
        return (words, Some(done as f64 / limit.max(1) as f64));
    }
    match (figures.planned, figures.left()) {
        (Some(planned), Some(left)) => (
            format!(
                "{phase}: {elapsed} of {}, {} left",
                rounded(planned),
                rounded(left)
            ),
            Some(ratio(figures.elapsed, planned)),
        ),
        _ => (format!("{phase}: {elapsed}"), None),
    }
}

/// Returns the ratio of two durations, or zero if `whole` is zero.
pub(super) fn ratio(part: Duration, whole: Duration) -> f64 {
    match whole.as_secs_f64() {
        whole if whole > 0.0 => part.as_secs_f64() / whole,
        _ => 0.0,
    }
}

/// Returns true if the agents have sent no results yet.
fn lacks_figures(figures: &LoadFigures) -> bool {
    figures.agents.is_some() && figures.history.is_empty()
}

/// Formats the current rate and the scheduled rate.
pub(super) fn rate(figures: &LoadFigures, theme: Theme) -> Line<'static> {
    if let Some(agents) = figures.agents.as_ref().filter(|_| lacks_figures(figures)) {
        let when = match (agents.stage(), figures.is_warming_up()) {
            (LoadStage::Preparing, _) => "",
            (_, true) => ": they appear when the measured part starts",
            (_, false) => ": they arrive every second",
        };
        return Line::styled(format!("no figures yet{when}"), theme.dim());
    }
    let mut spans = vec![Span::styled(number::rate(figures.ok_per_s), theme.strong())];
    let now_s = figures.history.last().map_or(0.0, |point| point.t_s);
    if let Some(offered) = figures.offered_until(now_s) {
        let share = figures.ok_per_s / offered.max(f64::MIN_POSITIVE);
        spans.push(Span::raw(format!(
            " of {} offered ({})",
            number::rate_figure(offered),
            number::share(share)
        )));
    }
    if figures.bytes_in_per_s > 0.0 {
        spans.push(Span::raw(format!(
            ", {}/s",
            number::bytes(figures.bytes_in_per_s)
        )));
    }
    Line::from(spans)
}

/// Draws the rate over time.
pub(super) fn rates(frame: &mut Frame<'_>, area: Rect, figures: &LoadFigures, theme: Theme) {
    let history = figures.history.iter();
    let ok: Vec<_> = history.clone().map(|it| (it.t_s, it.ok_per_s)).collect();
    let failed: Vec<_> = history.map(|it| (it.t_s, it.failed_per_s)).collect();
    let columns = usize::from(area.width);
    let ok = thinned(&ok, columns * 2);
    let mut failed = thinned(&failed, columns);
    failed.retain(|(_, rate)| *rate > 0.0);
    let end = shown_until(figures);
    let mut offered = Vec::new();
    let mut title = "responses per second: ⠒ ok, x failed".to_owned();
    if let Some(rate) = &figures.rate {
        title += ", - offered";
        let at = |column: usize| end * column as f64 / columns.max(1) as f64;
        offered.extend((0..columns).map(|column| (at(column), rate.rate_at(at(column)))));
    }
    let lines = [
        (&offered[..], OFFERED, GraphType::Scatter, theme.dim()),
        (&ok[..], Marker::Braille, GraphType::Line, theme.good()),
        (&failed[..], FAILED, GraphType::Scatter, theme.bad()),
    ];
    chart(
        frame,
        area,
        (&title, (end, elapsed)),
        lines,
        number::rate_figure,
        theme,
    );
}

/// Draws response times over time.
pub(super) fn times_chart(frame: &mut Frame<'_>, area: Rect, figures: &LoadFigures, theme: Theme) {
    let p50: Vec<_> = figures.times.iter().map(|it| (it.t_s, it.p50_us)).collect();
    let p99: Vec<_> = figures.times.iter().map(|it| (it.t_s, it.p99_us)).collect();
    let columns = usize::from(area.width);
    let (p50, p99) = (thinned(&p50, columns * 2), thinned(&p99, columns));
    let lines = [
        (&p50[..], Marker::Braille, GraphType::Line, theme.good()),
        (&p99[..], SLOW, GraphType::Scatter, theme.odd()),
        (&[], Marker::Dot, GraphType::Scatter, theme.dim()),
    ];
    let title = "response time: ⠒ p50, ^ p99";
    let end = shown_until(figures);
    chart(
        frame,
        area,
        (title, (end, elapsed)),
        lines,
        number::time,
        theme,
    );
}

/// Returns the time span of the charts' horizontal axis. It grows with the load, because the first
/// minutes of a one-hour load would otherwise be a dot.
fn shown_until(figures: &LoadFigures) -> f64 {
    let elapsed = figures.elapsed.as_secs_f64();
    let planned = figures.planned.map_or(elapsed, |it| it.as_secs_f64());
    planned.min((elapsed * 2.0).max(20.0)).max(elapsed).max(1.0)
}

/// A line of a chart: its points, their marker, how they are connected, and their color.
type ChartLine<'a> = (&'a [(f64, f64)], Marker, GraphType, Style);

/// Draws the response times of each half second against its offered rate, for a load whose rate
/// changes.
pub(super) fn times_against_rate(
    frame: &mut Frame<'_>,
    area: Rect,
    figures: &LoadFigures,
    theme: Theme,
) {
    let by_rate = |pick: fn(&TimesPoint) -> f64| -> Vec<(f64, f64)> {
        let points = figures.times.iter();
        let points = points.filter_map(|it| Some((figures.offered_until(it.t_s)?, pick(it))));
        points.collect()
    };
    let (p50, p99) = (by_rate(|it| it.p50_us), by_rate(|it| it.p99_us));
    let lines = [
        (&p50[..], Marker::Braille, GraphType::Scatter, theme.good()),
        (&p99[..], SLOW, GraphType::Scatter, theme.odd()),
        (&[], Marker::Dot, GraphType::Scatter, theme.dim()),
    ];
    let title = "response time by offered requests per second: ⠒ p50, ^ p99";
    let highest = figures.rate.as_ref().map_or(1.0, RateProfile::highest);
    let x_axis: HorizontalAxis = (highest, number::rate_figure);
    chart(frame, area, (title, x_axis), lines, number::time, theme);
}

/// Formats a time in seconds for the horizontal axis.
fn elapsed(t_s: f64) -> String {
    rounded(Duration::from_secs_f64(t_s))
}

/// Upper end of a horizontal axis, and the format of its labels.
type HorizontalAxis = (f64, fn(f64) -> String);

/// Draws lines in a chart. Both axes start at zero.
fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    (title, (end, mark)): (&str, HorizontalAxis),
    lines: [ChartLine<'_>; 3],
    figure: fn(f64) -> String,
    theme: Theme,
) {
    let points = lines.iter().flat_map(|(points, ..)| *points);
    let top = round_up(points.map(|(_, value)| *value).fold(0.0, f64::max));
    let datasets = lines.map(|(points, marker, kind, style)| {
        let dataset = Dataset::default().data(points).style(style);
        dataset.marker(marker).graph_type(kind)
    });
    let label = |text: String| Span::styled(text, theme.dim());
    let marks = [0.0, end / 2.0, end].map(|value| label(mark(value)));
    let values = match area.height {
        0..7 => vec![0.0, top],
        _ => vec![0.0, top / 2.0, top],
    };
    let values: Vec<Span<'_>> = values.into_iter().map(|it| label(figure(it))).collect();
    let axis = |bound: f64| Axis::default().bounds([0.0, bound]).style(theme.dim());
    let chart = Chart::new(datasets.into())
        .block(titled(title, theme))
        .legend_position(None)
        .x_axis(axis(end).labels(marks))
        .y_axis(axis(top).labels(values));
    frame.render_widget(chart, area);
}

/// Reduces the points to at most `room` points, each of which is the mean of several original ones.
pub(super) fn thinned(points: &[(f64, f64)], room: usize) -> Vec<(f64, f64)> {
    let each = points.len().div_ceil(room.max(1)).max(1);
    let mean = |points: &[(f64, f64)]| {
        let sum: f64 = points.iter().map(|(_, value)| value).sum();
        let last = points.last().map_or(0.0, |(t_s, _)| *t_s);
        (last, sum / points.len().max(1) as f64)
    };
    points.chunks(each).map(mean).collect()
}

/// Rounds up to 1, 2, 2.5, 4, 5 or 8 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 4.0, 5.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= value);
    step.unwrap_or(10.0) * power
}

/// Draws the response times of the last few seconds and of the whole load.
pub(super) fn times(frame: &mut Frame<'_>, area: Rect, figures: &LoadFigures, theme: Theme) {
    let time = |times: &Times, (us, at_least): (f64, bool)| {
        let text = match (times.count, at_least) {
            (0, _) => "–".to_owned(),
            (_, true) => format!("≥ {}", number::time(us)),
            (_, false) => number::time(us),
        };
        Cell::new(Line::from(text).right_aligned())
    };
    let row = |name: &'static str, recent: (f64, bool), all: (f64, bool)| {
        Row::new([
            Cell::new(name).style(theme.dim()),
            time(&figures.recent, recent),
            time(&figures.all, all),
        ])
    };
    let each = (0..Times::NAMES.len()).map(|n| {
        let percentiles = (figures.recent.percentiles[n], figures.all.percentiles[n]);
        row(Times::NAMES[n], percentiles.0, percentiles.1)
    });
    let rows = each.chain([row("max", figures.recent.max, figures.all.max)]);
    let head = ["last 5 s", "so far"].map(|text| Cell::new(Line::from(text).right_aligned()));
    let head = Row::new([Cell::new("")].into_iter().chain(head)).style(theme.dim());
    let widths = [
        Constraint::Length(6),
        Constraint::Length(12),
        Constraint::Length(12),
    ];
    let table = Table::new(rows, widths)
        .header(head)
        .block(titled("response time", theme));
    frame.render_widget(table, area);
}

/// Draws the number of requests by outcome (`ok`, then failures, then other outcomes; within each
/// group, the most frequent first), and below it the number of responses by status code.
pub(super) fn outcomes(frame: &mut Frame<'_>, area: Rect, figures: &LoadFigures, theme: Theme) {
    let all: u64 = figures.outcomes.iter().map(|(_, n)| n).sum();
    let mut outcomes = figures.outcomes.clone();
    let rank = |outcome: Outcome| match outcome {
        Outcome::Ok => 0,
        failure if failure.is_failure() => 1,
        _ => 2,
    };
    outcomes.sort_by_key(|&(outcome, n)| (rank(outcome), std::cmp::Reverse(n)));
    let mut statuses = figures.statuses.clone();
    statuses.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let outcomes = outcomes.into_iter().map(|(outcome, n)| {
        let style = match outcome.is_failure() {
            true => ("x", theme.bad()),
            false => (" ", theme.good()),
        };
        (style, outcome.name().to_owned(), n)
    });
    let statuses = statuses
        .into_iter()
        .map(|(status, n)| ((" ", theme.dim()), format!("status {status}"), n));
    let lines: Vec<_> = outcomes.chain(statuses).collect();
    let room = usize::from(area.height).saturating_sub(1);
    let shown = match lines.len() > room {
        true => room.saturating_sub(1),
        false => lines.len(),
    };
    let widest = lines.iter().map(|(.., n)| number::count(*n).len()).max();
    let mut rows: Vec<Row<'_>> = lines[..shown]
        .iter()
        .map(|((mark, style), name, n)| {
            let share = number::share(*n as f64 / all.max(1) as f64);
            Row::new([
                Cell::new(*mark).style(*style),
                Cell::new(name.clone()).style(*style),
                Cell::new(Line::from(number::count(*n)).right_aligned()),
                Cell::new(Line::from(share).right_aligned()),
            ])
        })
        .collect();
    if shown < lines.len() {
        let text = format!("and {} more", lines.len() - shown);
        rows.push(Row::new([Cell::new(""), Cell::new(text)]).style(theme.dim()));
    }
    let widths = [
        Constraint::Length(1),
        Constraint::Length(19),
        Constraint::Length(u16::try_from(widest.unwrap_or(0)).unwrap_or(20)),
        Constraint::Length(7),
    ];
    let table = Table::new(rows, widths).block(titled("outcomes", theme));
    frame.render_widget(table, area);
}

/// Formats the numbers of requests in flight, of waiting requests and of opened connections.
pub(super) fn in_flight(figures: &LoadFigures, theme: Theme) -> Line<'static> {
    if lacks_figures(figures) {
        return Line::default();
    }
    let mut spans = vec![Span::raw(format!(
        "{} in flight",
        number::count(figures.in_flight)
    ))];
    if let Some(waiting) = figures.waiting {
        let style = match waiting > figures.in_flight {
            true => theme.odd(),
            false => Style::new(),
        };
        let text = format!(", {} waiting", number::count(waiting));
        spans.push(Span::styled(text, style));
    }
    let opened = figures.connections_opened;
    let opened = number::plural(opened, "connect", "connects");
    spans.push(Span::raw(format!(", {opened}")));
    Line::from(spans)
}

/// Minimum width, in cells, at which the generator's line includes its CPU time.
const WIDTH_WITH_CPU: u16 = 44;

/// Formats a line about the load generator, or about the agents that send the load.
pub(super) fn load_sources(figures: &LoadFigures, width: u16, theme: Theme) -> Line<'static> {
    match &figures.agents {
        Some(agents) => agents.line(width, theme),
        None => generator(figures, width, theme),
    }
}

/// Formats the CPU usage of the load generator.
fn generator(figures: &LoadFigures, width: u16, theme: Theme) -> Line<'static> {
    let Some(busy) = figures.busy else {
        return Line::default();
    };
    let style = match busy.busiest > 0.95 {
        true => theme.odd(),
        false => Style::new(),
    };
    let mut spans = vec![
        Span::styled("generator ", theme.dim()),
        Span::styled(format!("{:.0}% busy", busy.busiest * 100.0), style),
    ];
    if busy.starved > 0.02 {
        let text = format!(", no core {:.0}%", busy.starved * 100.0);
        spans.push(Span::styled(text, theme.odd()));
    }
    if width >= WIDTH_WITH_CPU {
        spans.push(Span::raw(format!(", {:.0}% CPU", busy.cpu_percent)));
    }
    Line::from(spans)
}

/// Formats findings, the most severe first, then messages, the newest first.
pub(super) fn notes(
    figures: &LoadFigures,
    messages: &[String],
    theme: Theme,
) -> Vec<Line<'static>> {
    let mut findings: Vec<_> = figures.findings.iter().collect();
    findings.sort_by_key(|finding| Reverse(finding.severity));
    let found = findings.into_iter().map(|finding| {
        let (word, style) = match finding.severity {
            Severity::Error => ("error: ", theme.bad()),
            Severity::Warning => ("warning: ", theme.odd()),
            Severity::Note => ("note: ", theme.dim()),
        };
        Line::from(vec![
            Span::styled(word, style),
            Span::raw(finding.text.clone()),
        ])
    });
    let messages = messages.iter().rev().map(|text| Line::from(text.clone()));
    found.chain(messages).collect()
}

/// Draws lines, wrapping those that are too long.
pub(super) fn wrapped(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>) {
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), area);
}

/// Splits an area into two columns.
pub(super) fn halves(area: Rect) -> [Rect; 2] {
    Layout::horizontal([Constraint::Fill(1); 2])
        .spacing(2)
        .areas(area)
}
