//! Shows the bracket of a capacity search after each probe.

use std::collections::VecDeque;

use prony_record::number::RateUnit;
use prony_report::number;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::log_scale::LogScale;
use super::{Theme, panels};

/// Maximum number of finished probes that are kept.
const STEPS_MAX: usize = 40;
/// Width of the rate column, in cells, for requests and for journeys.
const RATE_CELLS: [u16; 2] = [14, 18];

/// Bracket, current rate and finished probes of a search.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bracket {
    /// Subject of the rates.
    pub(crate) unit: RateUnit,
    /// The highest rate that met the goals so far, and the lowest rate that did not.
    pub(crate) ends: (Option<f64>, Option<f64>),
    /// Rate of the current probe. `None` between probes and during a closed-loop probe.
    pub(crate) probe_per_s: Option<f64>,
    /// Finished probes, the newest last.
    pub(crate) steps: VecDeque<BracketStep>,
}

/// The bracket as it was after a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BracketStep {
    /// Rate of the probe.
    pub(crate) probe_per_s: f64,
    /// True if the probe met the goals.
    pub(crate) is_met: bool,
    /// Both ends of the bracket after the probe.
    pub(crate) ends: (Option<f64>, Option<f64>),
}

impl Bracket {
    /// Adds the result of a probe.
    pub(crate) fn probe_ended(&mut self, step: BracketStep) {
        self.ends = step.ends;
        self.probe_per_s = None;
        self.steps.push_back(step);
        if self.steps.len() > STEPS_MAX {
            self.steps.pop_front();
        }
    }

    /// Formats both ends of the bracket, one line each.
    pub(super) fn words(&self) -> [Line<'static>; 2] {
        let line = |name: &str, rate| Line::from(format!("{name} {}", self.rate_of(rate)));
        [line("met:", self.ends.0), line("not met:", self.ends.1)]
    }

    fn rate_of(&self, rate: Option<f64>) -> String {
        rate.map_or("–".to_owned(), |rate| self.unit.rate(rate))
    }
}

/// Draws the rates, and one line for each recent probe, as many as fit.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, bracket: &Bracket, theme: Theme) {
    let (title, names) = match area.width {
        ..37 => (
            "├ met, ┤ not met, ● probe",
            ["met up to", "not met from", "probe"],
        ),
        _ => (
            "bracket: ├ met, ┤ not met, ● probe",
            ["highest rate met", "lowest rate not met", "current probe"],
        ),
    };
    let block = panels::titled(title, theme);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [rates, steps] =
        Layout::vertical([Constraint::Length(3), Constraint::Fill(1)]).areas(inner);
    let row = |name: &'static str, rate: Option<f64>, style| {
        let rate = Line::from(bracket.rate_of(rate)).right_aligned();
        Row::new([
            Cell::new(name).style(theme.dim()),
            Cell::new(rate).style(style),
        ])
    };
    let rows = [
        row(names[0], bracket.ends.0, theme.good()),
        row(names[1], bracket.ends.1, theme.odd()),
        row(names[2], bracket.probe_per_s, theme.strong()),
    ];
    let cells = RATE_CELLS[usize::from(!bracket.unit.is_requests())];
    let widths = [Constraint::Fill(1), Constraint::Length(cells)];
    frame.render_widget(Table::new(rows, widths), rates);
    let width = usize::from(steps.width);
    // Two lines are reserved for the current probe and the scale.
    let room = usize::from(steps.height).saturating_sub(2);
    let Some(scale) = RateScale::of(bracket, room, width) else {
        return;
    };
    let mut lines = vec![Line::styled(scale.head(), theme.dim())];
    let first = bracket.steps.len().saturating_sub(room);
    lines.extend(bracket.steps.iter().skip(first).map(|step| {
        let style = if step.is_met {
            theme.good()
        } else {
            theme.odd()
        };
        Line::styled(scale.draw(step.ends, Some(step.probe_per_s)), style)
    }));
    let now = scale.draw(bracket.ends, bracket.probe_per_s);
    lines.push(Line::styled(now, theme.strong()));
    frame.render_widget(Paragraph::new(lines), steps);
}

/// Maps rates to cells on a logarithmic scale.
struct RateScale {
    low: f64,
    high: f64,
    width: usize,
}

impl RateScale {
    /// Creates a scale that includes the rates of the last `steps` probes and of the current probe.
    /// Returns `None` if there are no rates or `width` is too small.
    fn of(bracket: &Bracket, steps: usize, width: usize) -> Option<RateScale> {
        let shown = bracket.steps.iter().rev().take(steps);
        let of_steps = shown.flat_map(|it| [Some(it.probe_per_s), it.ends.0, it.ends.1]);
        let now = [bracket.probe_per_s, bracket.ends.0, bracket.ends.1];
        let rates = of_steps.chain(now).flatten().filter(|rate| *rate > 0.0);
        let (low, high) = rates.fold((f64::INFINITY, 0.0), |(low, high), rate| {
            (rate.min(low), rate.max(high))
        });
        (low <= high && width > 0).then_some(RateScale { low, high, width })
    }

    /// Formats the lowest and the highest rate as the header of the scale.
    fn head(&self) -> String {
        let (low, high) = (
            number::rate_figure(self.low),
            number::rate_figure(self.high),
        );
        let used = low.chars().count() + high.chars().count();
        match self.width.checked_sub(used) {
            Some(room) if room > 0 && low != high => format!("{low}{}{high}", " ".repeat(room)),
            _ => low,
        }
    }

    /// Draws a bracket and, if a probe is in progress, its rate. If an end of the bracket is
    /// unknown, the bracket extends to the edge.
    fn draw(&self, ends: (Option<f64>, Option<f64>), probe: Option<f64>) -> String {
        let mut cells = vec![' '; self.width];
        LogScale::new(self.low, self.high, self.width).draw(&mut cells, ends, probe);
        let text: String = cells.into_iter().collect();
        text.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(probe_per_s: f64, ends: (Option<f64>, Option<f64>)) -> BracketStep {
        BracketStep {
            probe_per_s,
            is_met: ends.0 == Some(probe_per_s),
            ends,
        }
    }

    #[test]
    fn brackets_close_on_one_scale() {
        let mut bracket = Bracket::default();
        bracket.probe_ended(step(100.0, (Some(100.0), None)));
        bracket.probe_ended(step(10_000.0, (Some(100.0), Some(10_000.0))));
        bracket.probe_ended(step(1_000.0, (Some(1_000.0), Some(10_000.0))));
        bracket.probe_per_s = Some(3_162.0);
        let scale = RateScale::of(&bracket, 9, 21).unwrap();
        let draw = |it: &BracketStep| scale.draw(it.ends, Some(it.probe_per_s));
        let drawn: Vec<String> = bracket.steps.iter().map(draw).collect();
        assert_eq!(
            drawn,
            [
                "●────────────────────",
                "├───────────────────●",
                "          ●─────────┤"
            ]
        );
        let now = scale.draw(bracket.ends, bracket.probe_per_s);
        assert_eq!(now, "          ├────●────┤");
        assert_eq!(scale.head().chars().count(), 21);
        // Only the most recent probes determine the scale.
        bracket.ends = (Some(900.0), Some(1_100.0));
        let scale = RateScale::of(&bracket, 0, 21).unwrap();
        assert_eq!(scale.low, 900.0);
    }

    #[test]
    fn odd_brackets_are_drawn() {
        let mut bracket = Bracket::default();
        assert!(RateScale::of(&bracket, 9, 21).is_none());
        bracket.probe_ended(step(500.0, (None, Some(500.0))));
        let scale = RateScale::of(&bracket, 9, 1).unwrap();
        assert_eq!(scale.draw(bracket.ends, Some(500.0)), "●");
        assert!(RateScale::of(&bracket, 9, 0).is_none());
        bracket.probe_ended(step(600.0, (Some(600.0), Some(500.0))));
        let scale = RateScale::of(&bracket, 9, 5).unwrap();
        assert_eq!(scale.draw(bracket.ends, None), "┤───├");
        assert_eq!(scale.draw((None, None), None), "");
        for _ in 0..2 * STEPS_MAX {
            bracket.probe_ended(step(500.0, (None, None)));
        }
        assert_eq!(bracket.steps.len(), STEPS_MAX);
    }
}
