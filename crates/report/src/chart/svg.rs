//! Shapes as SVG, through the back end of `plotters`: elements for a page, or a file of its own.

use std::fmt::Write as _;

use plotters::prelude::{DrawingBackend, RGBAColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color as _, FontFamily, FontStyle, IntoTextStyle, RGBColor, ShapeStyle, TextStyle,
};

use super::Drawing;
use super::canvas::{Shape, Side, Text, harmless};
use super::palette::{self, Color};

/// The back end draws at whole positions; ten of them make a pixel.
const FINE: f64 = 10.0;

fn rgba(color: Color, opacity: f64) -> RGBAColor {
    let [_, r, g, b] = color.light.to_be_bytes();
    RGBColor(r, g, b).mix(opacity)
}

fn fine(value: f64) -> i32 {
    (value * FINE).round() as i32
}

fn at((x, y): (f64, f64)) -> (i32, i32) {
    (fine(x), fine(y))
}

/// Drawing to a string in memory has no way to fail.
fn drawn<E>(_: Result<(), E>) {}

fn draw(svg: &mut SVGBackend<'_>, shape: &Shape) {
    match shape {
        Shape::Text {
            at: position,
            text,
            style,
        } => {
            let h_pos = match style.side {
                Side::Start => HPos::Left,
                Side::Middle => HPos::Center,
                Side::End => HPos::Right,
            };
            let weight = if style.bold {
                FontStyle::Bold
            } else {
                FontStyle::Normal
            };
            let color = rgba(style.color, 1.0);
            // The back end divides sizes by 1.24.
            let size = style.size * FINE * 1.24;
            let font: TextStyle<'_> = (FontFamily::SansSerif, size, weight, &color)
                .into_text_style(&(1, 1))
                .pos(Pos::new(h_pos, VPos::Center));
            drawn(svg.draw_text(text, &font, at(*position)));
        }
        Shape::Path {
            points,
            color,
            width,
            opacity,
        } => {
            let style = ShapeStyle {
                color: rgba(*color, *opacity),
                filled: false,
                stroke_width: fine(*width).unsigned_abs(),
            };
            match points.as_slice() {
                [from, to] => drawn(svg.draw_line(at(*from), at(*to), &style)),
                points => drawn(svg.draw_path(points.iter().map(|&p| at(p)), &style)),
            }
        }
        Shape::Rect {
            from,
            to,
            color,
            opacity,
        } => drawn(svg.draw_rect(at(*from), at(*to), &rgba(*color, *opacity), true)),
        Shape::Dot {
            center,
            radius,
            color,
            opacity,
        } => {
            let radius = fine(*radius).unsigned_abs();
            drawn(svg.draw_circle(at(*center), radius, &rgba(*color, *opacity), true));
        }
    }
}

/// The elements of a drawing, one a line.
fn elements(shapes: &[Shape]) -> String {
    let mut body = String::new();
    {
        let mut svg = SVGBackend::with_string(&mut body, (1, 1));
        shapes.iter().for_each(|shape| draw(&mut svg, shape));
    }
    // The back end opens and closes a frame of its own, of fixed size and without a label.
    let inner = body
        .split_once('>')
        .map_or(body.as_str(), |(_, rest)| rest)
        .trim_end()
        .trim_end_matches("</svg>");
    // One line for each element, without the breaks that the back end puts into texts.
    inner
        .replace(">\n", ">")
        .replace("\n</text>", "</text>")
        .trim()
        .to_owned()
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in harmless(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A drawing as part of a page, in a frame of `width` by `height` pixels that scales down, not up.
/// Fonts and the dark scheme's colours come from the page.
pub(super) fn in_page(shapes: &[Shape], label: &str, class: &str, size: (f64, f64)) -> String {
    let (width, height) = size;
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "<svg class=\"{class}\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" \
         style=\"max-width:{width}px\">",
        escaped(label),
        fine(width),
        fine(height)
    );
    out + &elements(shapes) + "</svg>"
}

/// Fonts for a file that is shown where no page names any: the PDF's own, then what systems have.
const FONTS: &str = "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";
/// What stays free around a drawing in a file of its own, in pixels.
const AROUND: f64 = 24.0;
/// Room for its title.
const HEAD: f64 = 34.0;

/// A drawing as a file of its own, which looks the same wherever it is shown: fonts, colours, a
/// light ground and a title within it, and what it shows in words for who can't see it.
pub(super) fn standalone(drawing: &Drawing, title: &str, label: &str) -> String {
    let width = drawing.width + 2.0 * AROUND;
    let height = drawing.height + 2.0 * AROUND + HEAD;
    let heading = Text {
        size: 16.0,
        ..Text::LABEL.bold()
    };
    let heading = Shape::Text {
        at: (0.0, 8.0 - HEAD),
        text: heading.fit(&harmless(title), drawing.width),
        style: heading,
    };
    let body = elements(&[&[heading], drawing.shapes.as_slice()].concat());
    // Named once, for all.
    let body = body.replace(" font-family=\"sans-serif\"", "");
    let (title, label) = (escaped(title), escaped(label));
    let (left, top) = (fine(AROUND), fine(AROUND + HEAD));
    let ground = palette::PAPER.light;
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title desc\" \
         font-family=\"{FONTS}\" style=\"font-variant-numeric:tabular-nums\">\n\
         <title id=\"title\">{title}</title>\n<desc id=\"desc\">{label}</desc>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#{ground:06X}\"/>\n\
         <g transform=\"translate({left} {top})\">\n{body}\n</g>\n</svg>\n",
        fine(width),
        fine(height),
    )
}
