//! Shapes as SVG: elements within a page, or a standalone file.

use std::fmt::Write as _;

use super::canvas::{Drawing, Shape, Side, TextStyle};
use super::palette::{self, Color};
use crate::table::{xml, xml_plain};

/// Number of units per pixel. Coordinates are whole numbers of units.
const UNITS_PER_PIXEL: f64 = 10.0;

fn units(value: f64) -> i64 {
    (value * UNITS_PER_PIXEL).round() as i64
}

/// Color in the light scheme. The page maps it to the color in the dark scheme.
fn hex(color: Color) -> String {
    format!("#{:06X}", color.light)
}

/// Opacity attribute; empty for opaque shapes.
fn opacity_attribute(opacity: f64) -> String {
    if opacity < 1.0 {
        format!(" opacity=\"{opacity}\"")
    } else {
        String::new()
    }
}

fn element(shape: &Shape) -> String {
    match shape {
        Shape::Text { at, text, style } => {
            let anchor = match style.side {
                Side::Start => "",
                Side::Middle => " text-anchor=\"middle\"",
                Side::End => " text-anchor=\"end\"",
            };
            let weight = if style.bold {
                " font-weight=\"bold\""
            } else {
                ""
            };
            format!(
                "<text x=\"{}\" y=\"{}\" dy=\"0.5ex\"{anchor} font-size=\"{}\"{weight} \
                 fill=\"{}\">{}</text>",
                units(at.0),
                units(at.1),
                units(style.size),
                hex(style.color),
                escaped(text)
            )
        }
        Shape::Path {
            points,
            color,
            width,
            opacity,
        } => {
            let stroke = format!(
                "stroke=\"{}\" stroke-width=\"{}\"{}",
                hex(*color),
                units(*width),
                opacity_attribute(*opacity)
            );
            let points: Vec<(i64, i64)> =
                points.iter().map(|&(x, y)| (units(x), units(y))).collect();
            if let [(x1, y1), (x2, y2)] = points[..] {
                return format!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {stroke}/>");
            }
            let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
            format!(
                "<polyline points=\"{}\" fill=\"none\" {stroke}/>",
                points.join(" ")
            )
        }
        Shape::Rect {
            from,
            to,
            color,
            opacity,
        } => {
            let (left, top) = (units(from.0.min(to.0)), units(from.1.min(to.1)));
            format!(
                "<rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"{}\"{}/>",
                units(from.0.max(to.0)) - left,
                units(from.1.max(to.1)) - top,
                hex(*color),
                opacity_attribute(*opacity)
            )
        }
        Shape::Frame {
            from,
            to,
            color,
            opacity,
            text,
            title,
            style,
        } => {
            let (width, height) = (units(to.0 - from.0).max(1), units(to.1 - from.1));
            // The page's style would make the element as wide as the drawing, and show all text.
            // Some browsers use only the attributes of the size.
            format!(
                "<svg x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\" \
                 style=\"width:{width}px;height:{height}px;overflow:hidden\">\
                 <title>{}</title><rect width=\"{width}\" height=\"{height}\" fill=\"{}\" \
                 opacity=\"{opacity:.2}\"/><text x=\"30\" y=\"{}\" dy=\"0.5ex\" font-size=\"{}\" \
                 fill=\"{}\">{}</text></svg>",
                units(from.0),
                units(from.1),
                escaped(title),
                hex(*color),
                height / 2,
                units(style.size),
                hex(style.color),
                escaped(text)
            )
        }
        Shape::Dot {
            center,
            radius,
            color,
            opacity,
        } => format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"{}/>",
            units(center.0),
            units(center.1),
            units(*radius),
            hex(*color),
            opacity_attribute(*opacity)
        ),
    }
}

/// The elements of a drawing.
fn elements(shapes: &[Shape]) -> String {
    let elements: Vec<String> = shapes.iter().map(element).collect();
    elements.concat()
}

fn escaped(text: &str) -> String {
    xml(&xml_plain(text))
}

/// Renders a drawing as part of a page. The drawing shrinks to fit narrow windows, but is never
/// enlarged. Fonts and the colors of the dark scheme come from the page.
pub(super) fn in_page(drawing: &Drawing, label: &str, class: &str) -> String {
    let (width, height) = (drawing.width, drawing.height);
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "<svg class=\"{class}\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" \
         style=\"max-width:{width}px\">",
        escaped(label),
        units(width),
        units(height)
    );
    out + &elements(&drawing.shapes) + "</svg>"
}

/// Fonts of a standalone file: Inter if it is installed, then common system fonts.
const FONT_FAMILY: &str =
    "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";
/// The margin around the drawing in a standalone file, in pixels.
const FILE_MARGIN: f64 = 24.0;
/// The height of the title in a standalone file, in pixels.
const TITLE_HEIGHT: f64 = 34.0;

/// Renders a drawing as a standalone file with its own fonts, colors, light background and title,
/// and with a description for screen readers.
pub(super) fn standalone(drawing: &Drawing, title: &str, label: &str) -> String {
    let width = drawing.width + 2.0 * FILE_MARGIN;
    let height = drawing.height + 2.0 * FILE_MARGIN + TITLE_HEIGHT;
    let heading = TextStyle {
        size: 16.0,
        ..TextStyle::LABEL.bold()
    };
    let heading = Shape::Text {
        at: (0.0, 8.0 - TITLE_HEIGHT),
        text: heading.fit(&xml_plain(title), drawing.width),
        style: heading,
    };
    let body = elements(&[&[heading], drawing.shapes.as_slice()].concat());
    let (title, label) = (escaped(title), escaped(label));
    let (left, top) = (units(FILE_MARGIN), units(FILE_MARGIN + TITLE_HEIGHT));
    let ground = palette::PAPER.light;
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title desc\" \
         font-family=\"{FONT_FAMILY}\" style=\"font-variant-numeric:tabular-nums\">\n\
         <title id=\"title\">{title}</title>\n<desc id=\"desc\">{label}</desc>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#{ground:06X}\"/>\n\
         <g transform=\"translate({left} {top})\">\n{body}\n</g>\n</svg>\n",
        units(width),
        units(height),
    )
}
