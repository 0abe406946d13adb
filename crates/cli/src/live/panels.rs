//! Panels that several live views use.

use std::cmp::Reverse;
use std::time::Duration;

use prony_record::number::RateUnit;
use prony_record::{HALF_SECOND, Outcome, RateProfile, Severity};
use prony_report::number;
use prony_report::table::lines_of as wrapped_lines;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Axis, Block, Borders, Cell, Chart, Dataset, GraphType, LineGauge, Paragraph, Row, Table, Wrap,
};

use super::agents::LoadStage;
use super::follower::{LoadFigures, TimePercentiles, TimesPoint};
use super::{Theme, ViewContext};
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
        frame.render_widget(Paragraph::new(shortened(words, area.width)), area);
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

/// Describes the kind of load in one line. Parts that don't fit are left out.
pub(super) fn load_kind(figures: &LoadFigures, width: u16) -> String {
    let info = &figures.info;
    let mut parts = vec![match (info.rate_per_s, info.stages.as_slice()) {
        (Some(rate), _) => format!("open loop, {}", info.rate_unit().rate(rate)),
        (None, []) if info.replay.is_some() => format!("{} loop", info.model),
        (None, []) => "closed loop".to_owned(),
        (None, stages) => format!(
            "open loop, {}",
            number::rate_stages(stages, info.rate_unit())
        ),
    }];
    parts.extend(
        info.arrivals
            .as_ref()
            .map(|kind| format!("{kind} arrivals")),
    );
    parts.extend(info.replay.as_ref().map(prony_wording::load::replay));
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
    let parts = parts.into_iter().map(Span::raw);
    fitted(parts.collect(), width).to_string()
}

/// Joins parts of a line with commas, as many as fit. The first part is always included.
pub(super) fn fitted(parts: Vec<Span<'static>>, width: u16) -> Line<'static> {
    const COMMA: &str = ", ";
    let mut line = Line::default();
    for part in parts {
        match line.spans.is_empty() {
            true => line.push_span(Span::styled(shortened(&part.content, width), part.style)),
            false if line.width() + COMMA.len() + part.width() > width.into() => break,
            false => line.extend([Span::raw(COMMA), part]),
        }
    }
    line
}

/// Cuts text that is too long between words, and marks the cut.
pub(super) fn shortened(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(2)).collect();
    let goes_on = text.chars().nth(kept.chars().count()) != Some(' ');
    match kept.rsplit_once(' ').filter(|_| goes_on) {
        Some((words, _)) => format!("{} …", words.trim_end_matches([',', ';', ':', ' '])),
        // A single word, such as a name.
        None if goes_on => text
            .chars()
            .take(width.saturating_sub(1))
            .chain(['…'])
            .collect(),
        None => format!("{kept} …"),
    }
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
        let (unit, journeys) = (figures.info.rate_unit(), figures.journeys);
        let done = match unit {
            RateUnit::Requests | RateUnit::Connections | RateUnit::Messages => done,
            RateUnit::Journeys => journeys.map_or(0, |it| it.counts.completed + it.counts.failed),
        };
        let words = format!(
            "{phase}: {} of {} {}, {elapsed}",
            number::count(done),
            number::count(limit),
            unit.noun()
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

/// Formats the current rate and the offered rate over the same span.
pub(super) fn rate(figures: &LoadFigures, width: u16, theme: Theme) -> Line<'static> {
    if let Some(agents) = figures.agents.as_ref().filter(|_| lacks_figures(figures)) {
        let when = match (agents.stage(), figures.is_warming_up()) {
            (LoadStage::Preparing, _) => "",
            (_, true) => ": they appear when the measured part starts",
            (_, false) => ": they arrive every second",
        };
        let text = shortened(&format!("no figures yet{when}"), width);
        return Line::styled(text, theme.dim());
    }
    let counted = if figures.is_ok_known {
        "ok"
    } else {
        "finished"
    };
    let rate = format!("{} {counted}", number::rate(figures.ok_per_s));
    let mut parts = vec![Span::styled(rate, theme.strong())];
    let (mut ok_per_s, mut offered_noun) = (figures.ok_per_s, "");
    if let Some(journeys) = &figures.journeys {
        (ok_per_s, offered_noun) = (journeys.per_s, " journeys");
        parts.push(Span::raw(RateUnit::Journeys.rate(journeys.per_s)));
    }
    if let Some(offered) = figures.offered_per_s {
        let share = ok_per_s / offered.max(f64::MIN_POSITIVE);
        parts.push(Span::raw(format!(
            "{} of {}{offered_noun} offered",
            number::share(share),
            number::rate_figure(offered),
        )));
    }
    let p99 = |times: &TimePercentiles| match (times.count, times.percentiles[2]) {
        (0, _) => "–".to_owned(),
        (_, (us, true)) => format!("≥ {}", number::time(us)),
        (_, (us, false)) => number::time(us),
    };
    if let Some(journeys) = &figures.journeys {
        parts.push(Span::raw(format!("p99 {} each", p99(&journeys.times))));
    }
    if let Some(events) = &figures.events {
        let per_s = number::rate_figure(events.per_s);
        parts.push(Span::raw(format!("{per_s} events/s")));
        parts.push(Span::raw(format!(
            "p99 first event {}, gap {}",
            p99(&events.first_event),
            p99(&events.event_gap)
        )));
    }
    if figures.bytes_in_per_s > 0.0 {
        let bytes = number::bytes(figures.bytes_in_per_s);
        parts.push(Span::raw(format!("{bytes}/s")));
    }
    fitted(parts, width)
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
    // The schedule of journeys says nothing about the rate of requests.
    if let Some(rate) = figures.rate.as_ref().filter(|_| figures.journeys.is_none()) {
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
        let points = points.filter_map(|it| {
            Some((
                figures.offered_until(it.t_s, HALF_SECOND.as_secs_f64())?,
                pick(it),
            ))
        });
        points.collect()
    };
    let (p50, p99) = (by_rate(|it| it.p50_us), by_rate(|it| it.p99_us));
    let lines = [
        (&p50[..], Marker::Braille, GraphType::Scatter, theme.good()),
        (&p99[..], SLOW, GraphType::Scatter, theme.odd()),
        (&[], Marker::Dot, GraphType::Scatter, theme.dim()),
    ];
    let offered = figures.info.rate_unit().noun();
    let title = format!("response time by offered {offered} per second: ⠒ p50, ^ p99");
    let highest = figures.rate.as_ref().map_or(1.0, RateProfile::highest);
    let x_axis: HorizontalAxis = (highest, number::rate_figure);
    chart(frame, area, (&title, x_axis), lines, number::time, theme);
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
    let time = |times: &TimePercentiles, (us, at_least): (f64, bool)| {
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
    let each = (0..TimePercentiles::NAMES.len()).map(|n| {
        let percentiles = (figures.recent.percentiles[n], figures.all.percentiles[n]);
        row(TimePercentiles::NAMES[n], percentiles.0, percentiles.1)
    });
    let rows = each.chain([row("max", figures.recent.max, figures.all.max)]);
    let head = ["last 5 s", "so far"].map(|text| Cell::new(Line::from(text).right_aligned()));
    let head = Row::new([Cell::new("")].into_iter().chain(head)).style(theme.dim());
    let figure = if area.width < 32 { 10 } else { 12 };
    let widths = [
        Constraint::Length(5),
        Constraint::Length(figure),
        Constraint::Length(figure),
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
        let style = if outcome.is_failure() {
            ("x", theme.bad())
        } else {
            (" ", theme.good())
        };
        (style, outcome.name().to_owned(), n)
    });
    let statuses = statuses
        .into_iter()
        .map(|(status, n)| ((" ", theme.dim()), format!("status {status}"), n));
    let of_requests = outcomes.chain(statuses);
    let of_requests = of_requests.map(|(style, name, n)| (style, name, n, all));
    let lines: Vec<_> = of_requests.chain(journey_rows(figures, theme)).collect();
    let room = usize::from(area.height).saturating_sub(1);
    let shown = if lines.len() > room {
        room.saturating_sub(1)
    } else {
        lines.len()
    };
    let share = |n: u64, all: u64| number::share(n as f64 / all.max(1) as f64);
    let width_of = |widths: &mut dyn Iterator<Item = usize>| {
        u16::try_from(widths.max().unwrap_or(0)).unwrap_or(20)
    };
    let counts = width_of(&mut lines.iter().map(|(.., n, _)| number::count(*n).len()));
    let shares = width_of(&mut lines.iter().map(|(.., n, all)| share(*n, *all).len()));
    let names = lines.iter().map(|(_, name, ..)| name.len()).max();
    // The mark and the spaces between the columns take four cells.
    let with_shares = names.unwrap_or(0) + usize::from(counts + shares) + 4;
    let shares = if with_shares > usize::from(area.width) {
        0
    } else {
        shares
    };
    let mut rows: Vec<Row<'_>> = lines[..shown]
        .iter()
        .map(|((mark, style), name, n, all)| {
            Row::new([
                Cell::new(*mark).style(*style),
                Cell::new(name.clone()).style(*style),
                Cell::new(Line::from(number::count(*n)).right_aligned()),
                Cell::new(Line::from(share(*n, *all)).right_aligned()),
            ])
        })
        .collect();
    if shown < lines.len() {
        let text = format!("and {} more", lines.len() - shown);
        rows.push(Row::new([Cell::new(""), Cell::new(text)]).style(theme.dim()));
    }
    let widths = [
        Constraint::Length(1),
        Constraint::Max(19),
        Constraint::Length(counts),
        Constraint::Length(shares),
    ];
    let table = Table::new(rows, widths).block(titled("outcomes", theme));
    frame.render_widget(table, area);
}

/// A row of the table of outcomes: a mark with its style, a name, a count, and the count of which it
/// is a share.
type OutcomeRow = ((&'static str, Style), String, u64, u64);

/// The rows about journeys; none for other loads.
fn journey_rows(figures: &LoadFigures, theme: Theme) -> Vec<OutcomeRow> {
    let Some(journeys) = &figures.journeys else {
        return Vec::new();
    };
    let counts = journeys.counts;
    let begun = counts.begun.saturating_sub(counts.unmeasured);
    let failed = match counts.failed {
        0 => (" ", theme.good()),
        _ => ("x", theme.bad()),
    };
    let rows = [
        ((" ", Style::new()), "journeys begun", begun),
        ((" ", theme.good()), "journeys completed", counts.completed),
        (failed, "journeys failed", counts.failed),
    ];
    rows.map(|(style, name, n)| (style, name.to_owned(), n, begun))
        .into()
}

/// Formats the numbers of requests in flight, of waiting requests and of opened connections.
pub(super) fn in_flight(figures: &LoadFigures, width: u16, theme: Theme) -> Line<'static> {
    if lacks_figures(figures) {
        return Line::default();
    }
    let in_flight = format!("{} in flight", number::count(figures.in_flight));
    let mut parts = vec![Span::raw(in_flight)];
    if let Some(waiting) = figures.waiting {
        let style = if waiting > figures.in_flight {
            theme.odd()
        } else {
            Style::new()
        };
        let text = format!("{} waiting", number::count(waiting));
        parts.push(Span::styled(text, style));
    }
    let opened = figures.connections_opened;
    let opened = number::plural(opened, "connection opened", "connections opened");
    parts.push(Span::raw(opened));
    fitted(parts, width)
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
    let style = if busy.busiest > 0.95 {
        theme.odd()
    } else {
        Style::new()
    };
    let mut parts = vec![Span::styled(
        format!("generator {:.0}% busy", busy.busiest * 100.0),
        style,
    )];
    if busy.starved > 0.02 {
        let text = format!("no core {:.0}%", busy.starved * 100.0);
        parts.push(Span::styled(text, theme.odd()));
    }
    if width >= WIDTH_WITH_CPU {
        parts.push(Span::raw(format!("{:.0}% CPU", busy.cpu_percent)));
    }
    fitted(parts, width)
}

/// A finding or a message below the panels.
#[derive(Debug, Clone)]
pub(super) struct PanelNote {
    /// The severity of a finding, with its style; empty for a message.
    label: (&'static str, Style),
    text: String,
}

/// Returns findings, the most severe first, then messages, the newest first.
pub(super) fn notes(figures: &LoadFigures, messages: &[String], theme: Theme) -> Vec<PanelNote> {
    let mut findings: Vec<_> = figures.findings.iter().collect();
    findings.sort_by_key(|finding| Reverse(finding.severity));
    let found = findings.into_iter().map(|finding| PanelNote {
        label: match finding.severity {
            Severity::Error => ("error: ", theme.bad()),
            Severity::Warning => ("warning: ", theme.odd()),
            Severity::Note => ("note: ", theme.dim()),
        },
        text: finding.text.clone(),
    });
    let messages = messages.iter().rev().map(|text| PanelNote {
        label: ("", Style::new()),
        text: text.clone(),
    });
    found.chain(messages).collect()
}

impl PanelNote {
    /// Breaks the note into at most `rows_max` lines. If it is too long, whole sentences are left
    /// out; only a first sentence that is itself too long is cut.
    fn lines(&self, width: u16, rows_max: usize) -> Vec<Line<'static>> {
        let (label, style) = self.label;
        let wrapped = |text: &str| wrapped_lines(&format!("{label}{text}"), width.into());
        let ends = self.text.rmatch_indices(". ").map(|(end, _)| end + 1);
        let sentences = [self.text.len()].into_iter().chain(ends);
        let mut fitting = sentences.map(|end| wrapped(&self.text[..end]));
        let mut rows = fitting
            .find(|rows| rows.len() <= rows_max)
            .unwrap_or_else(|| {
                let mut rows = wrapped(&self.text);
                let rest = rows.split_off(rows_max.min(rows.len()));
                if let (Some(last), Some(next)) = (rows.last_mut(), rest.first()) {
                    *last = shortened(&format!("{last} {next}"), width);
                }
                rows
            })
            .into_iter();
        let first = rows.next().unwrap_or_default();
        let text = first.strip_prefix(label).unwrap_or_default().to_owned();
        let first = Line::from(vec![Span::styled(label, style), Span::raw(text)]);
        [first].into_iter().chain(rows.map(Line::from)).collect()
    }
}

/// Formats as many notes as fit in `rows_max` lines, but at least the beginning of the first one.
pub(super) fn note_lines(notes: &[PanelNote], width: u16, rows_max: u16) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for note in notes {
        let room = usize::from(rows_max).saturating_sub(lines.len());
        let rows = note.lines(width, room);
        if room == 0 || rows.len() > room {
            break;
        }
        lines.extend(rows);
    }
    lines
}

/// Draws the help text for the keys.
pub(super) fn foot(frame: &mut Frame<'_>, area: Rect, context: &ViewContext<'_>) {
    let keys = shortened(context.keys, area.width);
    frame.render_widget(Line::styled(keys, context.theme.dim()), area);
}

/// Draws lines, wrapping those that are too long.
pub(super) fn wrapped(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>) {
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), area);
}

/// Draws as many of the newest lines as fit, each on one row.
pub(super) fn list<'a>(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: impl ExactSizeIterator<Item = &'a String>,
    theme: Theme,
) {
    let block = titled(title, theme);
    let room = usize::from(block.inner(area).height);
    let first = lines.len().saturating_sub(room);
    let lines = lines.skip(first);
    let lines = lines.map(|line| Line::from(shortened(line, area.width)));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

/// Splits an area into two columns.
pub(super) fn halves(area: Rect) -> [Rect; 2] {
    Layout::horizontal([Constraint::Fill(1); 2])
        .spacing(2)
        .areas(area)
}
