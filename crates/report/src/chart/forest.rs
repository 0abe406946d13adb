//! Forest plot: changes relative to the reference with their intervals, and the margin as a band.

use super::canvas::{Axis, Canvas, Side, TextStyle};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::{self, Color};
use crate::number;

/// A row of the forest plot: one variant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ForestRow {
    /// The variant's name.
    pub(crate) name: String,
    /// The variant's color.
    pub(crate) color: Color,
    /// The ratio to the reference; `None` for the reference itself or without an estimate.
    pub(crate) ratio: Option<f64>,
    /// The interval of the ratio.
    pub(crate) interval: Option<(f64, f64)>,
    /// The change as text; empty for the reference.
    pub(crate) change: String,
    pub(crate) interval_text: String,
    /// The verdict as a word, or `reference`.
    pub(crate) verdict: String,
}

/// Minimum distance between "no change" and the ends of the axis.
const REACH_MIN: f64 = 0.03;
/// Minimum ratio between the ends of the axis for which marks are at 1, 2 and 5 times powers of
/// ten.
const DECADES_FROM_RATIO: f64 = 3.0;

/// Draws the rows in order on a common logarithmic axis. `margin` is half the band's width, as a
/// fraction.
pub(crate) fn forest(label: String, rows: &[ForestRow], margin: f64) -> Chart {
    chart(label, |canvas, size| draw(canvas, size, rows, margin))
}

fn draw(canvas: &mut Canvas, size: DrawingSize, rows: &[ForestRow], margin: f64) -> f64 {
    let (left, right, row_height) = if size.is_narrow() {
        (0.0, size.width(), 58.0)
    } else {
        (names_width(rows), size.width() - 214.0, 38.0)
    };
    let top = if size.is_narrow() { 0.0 } else { 24.0 };
    let bottom = top + row_height * rows.len() as f64;
    let (from, to) = ends(rows, margin);
    let axis = Axis::new(from.ln()..to.ln(), left..right);
    let x = |ratio: f64| axis.at(ratio.ln());

    // On a phone, names and changes are drawn between the rows, and lines must not cross them.
    let strips: Vec<(f64, f64)> = if size.is_narrow() {
        let row = |i| top + row_height * i as f64;
        (0..rows.len())
            .map(|i| (row(i) + 28.0, row(i + 1)))
            .collect()
    } else {
        vec![(top, bottom)]
    };
    let band = ((1.0 - margin).max(from), (1.0 + margin).min(to));
    let marks = marks(from, to, if size.is_narrow() { 5 } else { 6 });
    // Percentages above 100 are printed as factors.
    let as_factors = marks.iter().any(|&ratio| ratio >= 2.0);
    for &(upper, lower) in &strips {
        canvas.rect((x(band.0), upper), (x(band.1), lower), palette::BAND, 1.0);
        for &ratio in &marks {
            canvas.line((x(ratio), upper), (x(ratio), lower), palette::GRID, 1.0);
        }
        canvas.line((x(1.0), upper), (x(1.0), lower), palette::REFERENCE, 1.4);
    }
    let centered = TextStyle::AXIS.side(Side::Middle);
    for ratio in marks {
        let text = mark_text(ratio, as_factors);
        canvas.text((x(ratio), bottom + 13.0), &text, centered);
    }
    for (i, row) in rows.iter().enumerate() {
        let y = top + row_height * i as f64;
        draw_row(canvas, size, row, (left, right), y, &x);
    }
    let middle = (left + right) / 2.0;
    let caption = "change from the reference, with 95% intervals";
    canvas.text((middle, bottom + 31.0), caption, centered);
    let note = format!("margin: no difference ({})", number::margin(margin));
    if size.is_narrow() {
        canvas.text((middle, bottom + 48.0), &note, centered);
        return bottom + 58.0;
    }
    let half = TextStyle::AXIS.width_of(&note) / 2.0;
    let note_x = x(1.0).max(left + half).min(right - half);
    canvas.text((note_x, top - 11.0), &note, centered);
    bottom + 42.0
}

/// Width of the names on the left of a wide drawing.
fn names_width(rows: &[ForestRow]) -> f64 {
    let longest = rows
        .iter()
        .map(|row| TextStyle::LABEL.bold().width_of(&row.name));
    longest.fold(90.0_f64, f64::max).min(210.0) + 16.0
}

fn draw_row(
    canvas: &mut Canvas,
    size: DrawingSize,
    row: &ForestRow,
    (left, right): (f64, f64),
    top: f64,
    x: &impl Fn(f64) -> f64,
) {
    let name = TextStyle::LABEL.bold().color(row.color);
    let y = if size.is_narrow() {
        // Name and change share a line above the mark.
        let figure = change_text(row, true);
        let figure_width = TextStyle::LABEL.width_of(&figure);
        let fitted = name.fit(&row.name, right - left - figure_width - 10.0);
        canvas.text((left, top + 16.0), &fitted, name);
        canvas.text(
            (right, top + 16.0),
            &figure,
            TextStyle::LABEL.side(Side::End),
        );
        top + 42.0
    } else {
        let y = top + 19.0;
        canvas.name((0.0, y), &row.name, left - 16.0, name);
        let figure = change_text(row, false);
        if figure.is_empty() {
            canvas.text((right + 14.0, y), &row.verdict, TextStyle::AXIS);
        } else {
            canvas.text((right + 14.0, y - 7.5), &figure, TextStyle::LABEL);
            canvas.text((right + 14.0, y + 8.0), &row.verdict, TextStyle::AXIS);
        }
        y
    };
    let inside = |ratio: f64| x(ratio).clamp(left, right);
    if let Some((low, high)) = row.interval {
        let (low, high) = (inside(low), inside(high));
        canvas.line((low, y), (high, y), row.color, 2.4);
        for end in [low, high] {
            canvas.line((end, y - 5.0), (end, y + 5.0), row.color, 2.0);
        }
    }
    canvas.dot(
        (inside(row.ratio.unwrap_or(1.0)), y),
        5.5,
        palette::PAPER,
        1.0,
    );
    let is_reference = row.ratio.is_none() && row.interval.is_none();
    let radius = if is_reference { 3.5 } else { 4.5 };
    canvas.dot(
        (inside(row.ratio.unwrap_or(1.0)), y),
        radius,
        row.color,
        1.0,
    );
}

/// Formats the change with its interval. On a phone, the verdict replaces the interval, which the
/// table already shows.
fn change_text(row: &ForestRow, with_verdict: bool) -> String {
    match (row.change.as_str(), row.interval_text.as_str()) {
        ("", _) if with_verdict => row.verdict.clone(),
        ("", _) => String::new(),
        (change, _) if with_verdict => format!("{change} · {}", row.verdict),
        (change, "") => change.to_owned(),
        (change, interval) => format!("{change} ({interval})"),
    }
}

/// Returns the ends of the axis. The axis includes all intervals and the band, but its range is
/// limited so that one undecided variant doesn't compress all others.
fn ends(rows: &[ForestRow], margin: f64) -> (f64, f64) {
    let reach = (margin * 1.5).clamp(REACH_MIN, 0.6);
    let mut low: f64 = 1.0 - reach;
    let mut high: f64 = 1.0 + reach;
    for row in rows {
        let ratios = row.ratio.into_iter();
        let intervals = row.interval.iter().flat_map(|&(low, high)| [low, high]);
        for value in ratios
            .chain(intervals)
            .filter(|v| v.is_finite() && *v > 0.0)
        {
            low = low.min(value.max(0.01));
            high = high.max(value.min(100.0));
        }
    }
    let air = (high / low).powf(0.05);
    (low / air, high * air)
}

/// Returns round ratios between the ends.
fn marks(from: f64, to: f64, most: usize) -> Vec<f64> {
    if to / from < DECADES_FROM_RATIO {
        return Axis::new(from * 100.0..to * 100.0, 0.0..1.0)
            .marks(most)
            .into_iter()
            .map(|percent| percent / 100.0)
            .filter(|ratio| (from..=to).contains(ratio))
            .collect();
    }
    let decades = (-2..=2).flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(power)));
    decades.filter(|r| (from..=to).contains(r)).collect()
}

fn mark_text(ratio: f64, as_factors: bool) -> String {
    if as_factors {
        return format!("{} ×", number::trimmed(&number::significant(ratio, 2)));
    }
    let percent = ((ratio - 1.0) * 1000.0).round() / 10.0;
    match percent {
        0.0 => "0%".to_owned(),
        percent if percent < 0.0 => format!("−{}%", -percent),
        percent => format!("+{percent}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, low: f64, high: f64) -> ForestRow {
        ForestRow {
            name: "tcp".to_owned(),
            color: palette::variant(0),
            ratio: Some(ratio),
            interval: Some((low, high)),
            change: "−10.0%".to_owned(),
            interval_text: "−15.0% to −5.0%".to_owned(),
            verdict: "slower".to_owned(),
        }
    }

    #[test]
    fn the_axis_contains_every_interval_and_the_band() {
        let (from, to) = ends(&[row(0.9, 0.85, 0.95), row(1.3, 1.2, 1.4)], 0.02);
        assert!(from < 0.85 && to > 1.4);
        let (from, to) = ends(&[row(1.0, 0.999, 1.001)], 0.02);
        assert!(from < 0.98 && to > 1.02);
    }

    #[test]
    fn infinite_intervals_do_not_extend_the_axis() {
        let (from, to) = ends(&[row(1.0, 0.0, f64::INFINITY)], 0.02);
        assert!(from > 0.5 && to < 2.0);
        let made = forest(String::new(), &[row(1.0, 0.0, f64::INFINITY)], 0.02);
        assert!(!made.wide.contains("NaN") && !made.wide.contains("2147483647"));
    }

    #[test]
    fn marks_above_twice_the_reference_are_factors() {
        assert_eq!(mark_text(0.9, false), "−10%");
        assert_eq!(mark_text(1.0, false), "0%");
        assert_eq!(mark_text(1.05, false), "+5%");
        assert_eq!(
            (mark_text(5.0, true), mark_text(0.2, true)),
            ("5 ×".into(), "0.2 ×".into())
        );
        let made = forest(String::new(), &[row(3.8, 3.6, 4.0)], 0.02);
        assert!(
            !made.wide.contains("380%") && made.wide.contains(">2 ×<"),
            "{}",
            made.wide
        );
    }

    #[test]
    fn marks_are_few_and_inside_for_any_range() {
        for (from, to) in [(0.97, 1.03), (0.6, 1.1), (0.05, 12.0), (0.9, 2.5)] {
            let marks = marks(from, to, 6);
            assert!((2..=9).contains(&marks.len()), "{from} {to}: {marks:?}");
            assert!(marks.iter().all(|m| *m >= from && *m <= to));
        }
    }
}
