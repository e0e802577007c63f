//! A drawing written as SVG 1.1: plain shapes and texts, no style sheet, no script.

use std::fmt::Write as _;

use super::colours::{Colour, PAPER};
use super::drawing::{Anchor, Drawing, Point, Shape, Text};
use super::font::FAMILY;

/// The drawing as one document.
pub(super) fn write(drawing: &Drawing) -> String {
    let (width, height) = (tenths(drawing.width), tenths(drawing.height));
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" font-family=\"{FAMILY}\">\n<title>{}</title>\n<rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>",
        escaped(&drawing.title),
        hex(PAPER)
    );
    for shape in &drawing.shapes {
        let _ = match shape {
            Shape::Area { outline, fill } => writeln!(out, "<path d=\"{}Z\" fill=\"{}\"/>", path(outline), hex(*fill)),
            Shape::Line { points, colour, width, dashed } => {
                let dashes = if *dashed { " stroke-dasharray=\"4 3\"" } else { "" };
                let (path, colour, width) = (path(points), hex(*colour), tenths(*width));
                writeln!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>")
            }
            Shape::Text(text) => writeln!(out, "{}", written(text)),
        };
    }
    out.push_str("</svg>\n");
    out
}

fn written(text: &Text) -> String {
    let (x, y) = (tenths(text.at.0), tenths(text.at.1));
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let turn = if text.upright { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    let (size, colour, words) = (tenths(text.size), hex(text.colour), escaped(&text.words));
    format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{colour}\"{anchor}{turn}>{words}</text>")
}

/// Straight lines from point to point; a step sideways or up is written as what it is.
fn path(points: &[Point]) -> String {
    let mut out = String::new();
    let mut last: Option<(String, String)> = None;
    for (x, y) in points {
        let (x, y) = (tenths(*x), tenths(*y));
        let _ = match &last {
            None => write!(out, "M{x} {y}"),
            Some((last_x, last_y)) if *last_x == x && *last_y == y => Ok(()),
            Some((_, last_y)) if *last_y == y => write!(out, "H{x}"),
            Some((last_x, _)) if *last_x == x => write!(out, "V{y}"),
            Some(_) => write!(out, "L{x} {y}"),
        };
        last = Some((x, y));
    }
    out
}

/// To a tenth, which no eye tells from more.
fn tenths(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn hex(colour: Colour) -> String {
    let Colour(red, green, blue) = colour;
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Names come from files: neither markup nor characters that XML forbids get through.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || ('\u{FFFE}'..='\u{FFFF}').contains(&c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
