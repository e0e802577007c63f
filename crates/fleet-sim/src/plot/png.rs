//! A drawing painted in pixels, and those written as PNG (W3C, "Portable Network Graphics", third edition).

use miniz_oxide::deflate::compress_to_vec_zlib;
use tiny_skia::{Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};
use ttf_parser::OutlineBuilder;

use super::PlotError;
use super::colours::{Colour, PAPER};
use super::drawing::{Anchor, Drawing, Point, Shape, Text};
use super::font::Font;

/// Pixels for each unit of the drawing, so that it is sharp on any screen.
pub(super) const PIXELS: u16 = 2;

/// How hard to compress, of 10: more takes longer and saves little.
const COMPRESSION: u8 = 6;

/// The drawing in pixels.
pub(super) fn paint(drawing: &Drawing) -> Result<Vec<u8>, PlotError> {
    let failed = |what: &str| PlotError::Painting(what.to_owned());
    let font = Font::load().ok_or_else(|| failed("the font cannot be read"))?;
    let pixels = |length: f64| (length * f64::from(PIXELS)).ceil() as u32;
    let (width, height) = (pixels(drawing.width), pixels(drawing.height));
    let mut canvas = Pixmap::new(width, height).ok_or_else(|| failed("it is too large"))?;
    canvas.fill(color(PAPER));
    for shape in &drawing.shapes {
        match shape {
            Shape::Area { outline, fill } => fill_path(&mut canvas, through(outline, true), *fill),
            Shape::Line { points, colour, width, dashed } => {
                let dash = dashed.then(|| StrokeDash::new(vec![4.0, 3.0], 0.0)).flatten();
                let stroke = Stroke { width: *width as f32, dash, line_join: LineJoin::Round, ..Stroke::default() };
                if let Some(path) = through(points, false) {
                    canvas.stroke_path(&path, &paint_of(*colour), &stroke, scaled(), None);
                }
            }
            Shape::Text(text) => fill_path(&mut canvas, lettered(&font, text), text.colour),
        }
    }
    Ok(file(&canvas))
}

/// The file: 8 bits for each of red, green and blue; the paper leaves nothing transparent.
fn file(canvas: &Pixmap) -> Vec<u8> {
    let (width, height) = (canvas.width(), canvas.height());
    let mut header = Vec::from(width.to_be_bytes());
    header.extend(height.to_be_bytes());
    // Bit depth 8, colour type 2 (RGB), compression 0, filter method 0, no interlace.
    header.extend([8, 2, 0, 0, 0]);
    let mut out = vec![0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A];
    chunk(&mut out, b"IHDR", &header);
    chunk(&mut out, b"IDAT", &compress_to_vec_zlib(&rows(canvas, width as usize), COMPRESSION));
    chunk(&mut out, b"IEND", &[]);
    out
}

/// Each row as its difference to the one above (filter type 2), which is mostly zero.
fn rows(canvas: &Pixmap, width: usize) -> Vec<u8> {
    let mut above = vec![0_u8; width * 3];
    let mut out = Vec::new();
    for row in canvas.data().chunks_exact(width * 4) {
        let rgb: Vec<u8> = row.chunks_exact(4).flat_map(|rgba| rgba.iter().take(3).copied()).collect();
        out.push(2);
        out.extend(rgb.iter().zip(&above).map(|(here, above)| here.wrapping_sub(*above)));
        above = rgb;
    }
    out
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    out.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend(name);
    out.extend(data);
    out.extend(crc(name.iter().chain(data)).to_be_bytes());
}

/// The CRC of a chunk's name and data (annex D).
fn crc<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 })
    };
    !bytes.fold(u32::MAX, step)
}

fn fill_path(canvas: &mut Pixmap, path: Option<Path>, fill: Colour) {
    if let Some(path) = path {
        canvas.fill_path(&path, &paint_of(fill), FillRule::Winding, scaled(), None);
    }
}

fn through(points: &[Point], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (nth, (x, y)) in points.iter().enumerate() {
        let (x, y) = (*x as f32, *y as f32);
        if nth == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    if closed {
        path.close();
    }
    path.finish()
}

/// A text as outlines, where it stands.
fn lettered(font: &Font, text: &Text) -> Option<Path> {
    let width = font.width(&text.words, text.size);
    let shift = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -width / 2.0,
        Anchor::End => -width,
    };
    let scale = font.scale(text.size);
    let mut whole = PathBuilder::new();
    font.outline(
        &text.words,
        |x| Letter { path: PathBuilder::new(), begin: shift + x * scale, scale, text },
        |letter| {
            if let Some(path) = letter.path.finish() {
                whole.push_path(&path);
            }
        },
    );
    whole.finish()
}

/// One character on its way from the font's units, in which up is positive, to the drawing's.
struct Letter<'a> {
    path: PathBuilder,
    begin: f64,
    scale: f64,
    text: &'a Text,
}

impl Letter<'_> {
    fn point(&self, x: f32, y: f32) -> (f32, f32) {
        let (along, up) = (self.begin + f64::from(x) * self.scale, f64::from(y) * self.scale);
        let (at_x, at_y) = self.text.at;
        let (x, y) = if self.text.upright { (at_x - up, at_y - along) } else { (at_x + along, at_y - up) };
        (x as f32, y as f32)
    }
}

impl OutlineBuilder for Letter<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.point(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.point(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.point(x1, y1), self.point(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.point(x1, y1), self.point(x2, y2), self.point(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

fn paint_of(colour: Colour) -> Paint<'static> {
    let mut paint = Paint::default();
    paint.set_color(color(colour));
    paint
}

fn color(colour: Colour) -> Color {
    let Colour(red, green, blue) = colour;
    Color::from_rgba8(red, green, blue, 255)
}

fn scaled() -> Transform {
    Transform::from_scale(f32::from(PIXELS), f32::from(PIXELS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_as_the_standard_has_them() {
        let mut end = Vec::new();
        chunk(&mut end, b"IEND", &[]);
        assert_eq!(end, [0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xAE, 0x42, 0x60, 0x82]);
    }

    #[test]
    fn every_character_we_write_is_in_the_font() {
        let font = Font::load().map(|font| font.width("abc 0,.%·×()/:-…", 10.0));
        assert!(font.is_some_and(|width| width > 50.0));
    }
}
