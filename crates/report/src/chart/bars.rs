//! CPU of the services by variant: user and system, end to end.

use super::canvas::{Axis, Canvas, Side, Text};
use super::palette::{self, Color};
use super::{Chart, Room, chart};

/// One variant's CPU, in percent of one core.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    /// The variant's name.
    pub(crate) name: String,
    /// The variant's colour.
    pub(crate) color: Color,
    /// In user mode.
    pub(crate) user_percent: f64,
    /// In the kernel.
    pub(crate) system_percent: f64,
    /// What stands beside the bar.
    pub(crate) note: String,
}

/// Draws a bar for each variant: user mode in its full colour, the kernel in a paler one.
pub(crate) fn cpu_bars(label: String, bars: &[Bar]) -> Chart {
    chart(label, |canvas, room| draw(canvas, room, bars))
}

fn draw(canvas: &mut Canvas<'_>, room: Room, bars: &[Bar]) -> f64 {
    let name = Text::LABEL.bold();
    let longest = bars.iter().map(|bar| name.width_of(&bar.name));
    let (left, right, row) = if room.is_narrow() {
        (0.0, room.width() - 16.0, 50.0)
    } else {
        let left = longest.fold(80.0_f64, f64::max).min(180.0) + 14.0;
        (left, room.width() - 190.0, 34.0)
    };
    let highest = bars
        .iter()
        .map(|bar| bar.user_percent + bar.system_percent)
        .filter(|percent| percent.is_finite())
        .fold(0.0_f64, f64::max);
    let axis = Axis::new(0.0..(highest * 1.02).max(1.0), left..right);
    let bottom = row * bars.len() as f64 + 4.0;
    for value in axis.marks(if room.is_narrow() { 5 } else { 6 }) {
        let x = axis.at(value);
        canvas.line((x, 2.0), (x, bottom), palette::GRID, 1.0);
        let side = if value == 0.0 && room.is_narrow() {
            Side::Start
        } else {
            Side::Middle
        };
        let text = format!("{value}%");
        canvas.text((x, bottom + 13.0), &text, Text::AXIS.side(side));
    }
    for (i, bar) in bars.iter().enumerate() {
        let top = row * i as f64 + 4.0;
        let style = name.color(bar.color);
        let (y, height) = if room.is_narrow() {
            let note_width = Text::AXIS.width_of(&bar.note);
            let fitted = name.fit(&bar.name, right - note_width - 10.0);
            canvas.text((left, top + 12.0), &fitted, style);
            canvas.text((right, top + 12.0), &bar.note, Text::AXIS.side(Side::End));
            (top + 24.0, 18.0)
        } else {
            let y = top + row / 2.0;
            let fitted = name.fit(&bar.name, left - 14.0);
            canvas.text((0.0, y), &fitted, style);
            canvas.text((right + 14.0, y), &bar.note, Text::AXIS);
            (top + 6.0, 22.0)
        };
        draw_bar(canvas, bar, &axis, y, height);
    }
    canvas.text(
        ((left + right) / 2.0, bottom + 31.0),
        "percent of one core, median over the blocks",
        Text::AXIS.side(Side::Middle),
    );
    bottom + 42.0
}

fn draw_bar(canvas: &mut Canvas<'_>, bar: &Bar, axis: &Axis, top: f64, height: f64) {
    let parts = [
        ("user", 0.0, bar.user_percent, 1.0),
        ("system", bar.user_percent, bar.system_percent, 0.5),
    ];
    for (word, start, length, opacity) in parts {
        if !length.is_finite() || length <= 0.0 {
            continue;
        }
        let (from, to) = (axis.at(start), axis.at(start + length));
        // A gap of the page's colour parts the two.
        canvas.rect((from, top), (to, top + height), bar.color, opacity);
        canvas.line((to, top), (to, top + height), palette::PAPER, 1.5);
        let style = Text::AXIS
            .color(if opacity < 1.0 {
                palette::INK
            } else {
                palette::PAPER
            })
            .side(Side::Middle);
        if style.width_of(word) + 10.0 < to - from {
            canvas.text(((from + to) / 2.0, top + height / 2.0), word, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_names_its_parts_where_they_fit() {
        let bar = |user_percent, system_percent| Bar {
            name: "tcp".to_owned(),
            color: palette::variant(0),
            user_percent,
            system_percent,
            note: "90% of a core".to_owned(),
        };
        let made = cpu_bars(String::new(), &[bar(60.0, 30.0), bar(60.0, 0.4)]);
        assert_eq!(made.wide.matches(">user<").count(), 2);
        assert_eq!(made.wide.matches(">system<").count(), 1);
        let nothing = cpu_bars(String::new(), &[bar(f64::NAN, 0.0)]);
        assert!(!nothing.wide.contains("NaN"));
    }
}
