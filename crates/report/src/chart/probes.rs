//! A goal's metric against the offered rate, with a point for every probe of a capacity search.

use prony_record::number::RateUnit;

use super::canvas::{Axis, Canvas, Side, TextStyle};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::{self, Color};
use super::panels::short;
use crate::number;

/// The probes of one variant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProbePoints {
    /// The variant's name.
    pub(crate) name: String,
    pub(crate) color: Color,
    /// Offered rate and value of each probe.
    pub(crate) points: Vec<(f64, f64)>,
    /// Capacity; `None` if it is unknown.
    pub(crate) capacity: Option<f64>,
}

/// The vertical axis, which shows a goal's metric.
#[derive(Debug, Clone)]
pub(crate) struct GoalAxis {
    /// Name of the metric, such as `p99`.
    pub(crate) metric: String,
    /// The goal in words, such as `p99 < 50 ms`.
    pub(crate) goal: String,
    pub(crate) limit: f64,
    /// Subject of the rates.
    pub(crate) unit: RateUnit,
    /// Formats a value.
    pub(crate) mark: fn(f64) -> String,
}

/// Draws the probes over shared axes: a linear one for rates, and a logarithmic one for values.
/// Values beyond the vertical axis are drawn at its edge. Probes with rates beyond the horizontal
/// axis are omitted.
pub(crate) fn probes(label: String, axis: &GoalAxis, variants: &[ProbePoints]) -> Chart {
    chart(label, |canvas, size| draw(canvas, size, axis, variants))
}

const LEFT: f64 = 62.0;
const HEIGHT: f64 = 230.0;
const ROW: f64 = 20.0;
/// The highest value that is drawn, relative to the limit.
const VALUE_MAX: f64 = 10.0;
/// The lowest value that is drawn, relative to the limit.
const VALUE_MIN: f64 = 1e-3;
/// The highest rate that is drawn, relative to the highest capacity.
const RATE_MAX: f64 = 1.5;

fn draw(canvas: &mut Canvas, size: DrawingSize, axis: &GoalAxis, variants: &[ProbePoints]) -> f64 {
    let right = size.width() - 10.0;
    let legend_end = legend(canvas, right, axis.unit, variants);
    let top = legend_end + 26.0;
    let bottom = top + HEIGHT;
    canvas.text((0.0, top - 14.0), &axis.metric, TextStyle::AXIS);
    let x = Axis::new(0.0..rate_max(variants), LEFT..right);
    let (lowest, highest) = value_range(axis, variants);
    let y = Axis::new(lowest.ln()..highest.ln(), bottom..top);
    for value in log_marks(lowest, highest) {
        let at = y.at(value.ln());
        canvas.line((LEFT, at), (right, at), palette::GRID, 1.0);
        let style = TextStyle::AXIS.side(Side::End);
        let text = number::trimmed(&(axis.mark)(value));
        canvas.text((LEFT - 8.0, at), &text, style);
    }
    canvas.line((LEFT, bottom), (right, bottom), palette::REFERENCE, 1.0);
    canvas.marks_below(&x, bottom, if size.is_narrow() { 4 } else { 8 }, short);
    let goal_at = y.at(axis.limit.ln());
    canvas.line((LEFT, goal_at), (right, goal_at), palette::INK, 1.4);
    canvas.text(
        (LEFT + 6.0, goal_at - 9.0),
        &axis.goal,
        TextStyle::AXIS.bold().color(palette::INK),
    );
    for variant in variants {
        if let Some(capacity) = variant.capacity {
            let at = x.at(capacity);
            canvas.line((at, top), (at, bottom), variant.color, 1.4);
        }
        let drawn = variant.points.iter().filter(|(rate, value)| {
            *rate <= rate_max(variants) && rate.is_finite() && value.is_finite()
        });
        for &(rate, value) in drawn {
            let value = value.clamp(lowest, highest);
            canvas.dot((x.at(rate), y.at(value.ln())), 3.2, variant.color, 0.75);
        }
    }
    let caption = format!("offered rate, {} per second", axis.unit.noun());
    canvas.caption(size.width() / 2.0, bottom, &caption)
}

/// Draws each variant's name and capacity in its color. Returns the vertical position of the
/// legend's lower edge.
fn legend(canvas: &mut Canvas, right: f64, unit: RateUnit, variants: &[ProbePoints]) -> f64 {
    let mut y = 0.0;
    for variant in variants {
        let style = TextStyle::LABEL.bold().color(variant.color);
        let middle = y + ROW / 2.0;
        canvas.line((0.0, middle), (16.0, middle), variant.color, 3.0);
        let text = match variant.capacity {
            Some(capacity) => format!("{}: {}", variant.name, unit.rate(capacity)),
            None => format!("{}: unknown", variant.name),
        };
        canvas.text((24.0, middle), &style.fit(&text, right - 24.0), style);
        y += ROW;
    }
    y
}

/// Returns the upper end of the horizontal axis.
fn rate_max(variants: &[ProbePoints]) -> f64 {
    let capacities = variants.iter().filter_map(|variant| variant.capacity);
    let highest = capacities.fold(0.0_f64, f64::max);
    if highest > 0.0 {
        return RATE_MAX * highest;
    }
    let points = variants.iter().flat_map(|variant| &variant.points);
    let rates = points.map(|(rate, _)| *rate).filter(|it| it.is_finite());
    1.06 * rates.fold(1.0_f64, f64::max)
}

/// Returns the lower and the upper end of the vertical axis.
fn value_range(axis: &GoalAxis, variants: &[ProbePoints]) -> (f64, f64) {
    let limit = if axis.limit.is_finite() && axis.limit > 0.0 {
        axis.limit
    } else {
        1.0
    };
    let points = variants.iter().flat_map(|variant| &variant.points);
    let values = points.map(|(_, value)| *value).filter(|it| it.is_finite());
    let (least, most) = values.fold((limit, limit), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    let lowest = (least / 1.3).max(VALUE_MIN * limit).min(limit / 2.0);
    let highest = (most * 1.3).clamp(2.0 * limit, VALUE_MAX * limit);
    (lowest, highest)
}

/// Returns the values within the range that are 1, 2 or 5 times a power of ten, or only some of
/// them if there are too many.
fn log_marks(lowest: f64, highest: f64) -> Vec<f64> {
    const MARKS_MAX: usize = 7;
    let marks = |steps: &[f64]| -> Vec<f64> {
        let (first, last) = (lowest.log10().floor() as i32, highest.log10().ceil() as i32);
        let decades = (first..=last).map(|power| 10f64.powi(power));
        let all = decades.flat_map(|decade| steps.iter().map(move |step| step * decade));
        all.filter(|value| (lowest..=highest).contains(value))
            .collect()
    };
    let fine = marks(&[1.0, 2.0, 5.0]);
    if fine.len() <= MARKS_MAX {
        fine
    } else {
        marks(&[1.0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis() -> GoalAxis {
        GoalAxis {
            metric: "p99".to_owned(),
            goal: "p99 < 50 ms".to_owned(),
            limit: 50_000.0,
            unit: RateUnit::Requests,
            mark: number::time,
        }
    }

    fn variant(name: &str, points: &[(f64, f64)], capacity: Option<f64>) -> ProbePoints {
        ProbePoints {
            name: name.to_owned(),
            color: palette::variant(0),
            points: points.to_vec(),
            capacity,
        }
    }

    #[test]
    fn every_probe_is_a_point_and_the_goal_a_line() {
        let variants = [
            variant(
                "old",
                &[(500.0, 8e3), (900.0, 45e3), (1e3, 9e9)],
                Some(920.0),
            ),
            variant("new", &[(700.0, 6e3), (20e3, 1e6)], Some(1_100.0)),
        ];
        let made = probes(String::new(), &axis(), &variants);
        for drawing in [&made.wide, &made.narrow] {
            // The probe at 20,000 requests per second is beyond the axis.
            assert_eq!(drawing.matches("<circle").count(), 4);
            assert!(drawing.contains(">p99 &lt; 50 ms<"), "{drawing}");
            assert!(drawing.contains(">new: 1,100 req/s<"), "{drawing}");
            assert!(drawing.contains(">20 ms<"), "{drawing}");
        }
    }

    #[test]
    fn odd_values_are_drawn() {
        let odd = [(f64::NAN, 1.0), (1.0, f64::NAN), (2.0, 0.0), (0.0, -1.0)];
        for variants in [vec![], vec![variant("odd", &odd, None)]] {
            let made = probes(String::new(), &axis(), &variants);
            assert!(!made.wide.contains("NaN") && !made.wide.contains("inf"));
        }
    }
}
