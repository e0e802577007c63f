//! A picture as a list of shapes, the first one at the bottom; in units of a pixel, from the upper left corner.

use super::colours::Colour;

/// A point: to the right, and down.
pub(super) type Point = (f64, f64);

/// Where a text stands to its point, which is on its base line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text in one line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text {
    pub(super) at: Point,
    pub(super) size: f64,
    pub(super) anchor: Anchor,
    pub(super) colour: Colour,
    /// Read from bottom to top.
    pub(super) upright: bool,
    pub(super) words: String,
}

/// One thing to draw.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// A closed outline, filled.
    Area {
        outline: Vec<Point>,
        fill: Colour,
    },
    /// A line through all points.
    Line {
        points: Vec<Point>,
        colour: Colour,
        width: f64,
        dashed: bool,
    },
    Text(Text),
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Drawing {
    pub(super) width: f64,
    pub(super) height: f64,
    /// What it shows, for those who cannot see it.
    pub(super) title: String,
    pub(super) shapes: Vec<Shape>,
}

impl Drawing {
    pub(super) fn rectangle(&mut self, at: Point, width: f64, height: f64, fill: Colour) {
        let (x, y) = at;
        self.area(vec![(x, y), (x + width, y), (x + width, y + height), (x, y + height)], fill);
    }

    pub(super) fn area(&mut self, outline: Vec<Point>, fill: Colour) {
        self.shapes.push(Shape::Area { outline, fill });
    }

    pub(super) fn line(&mut self, points: Vec<Point>, colour: Colour, width: f64) {
        self.shapes.push(Shape::Line { points, colour, width, dashed: false });
    }

    pub(super) fn dashes(&mut self, points: Vec<Point>, colour: Colour, width: f64) {
        self.shapes.push(Shape::Line { points, colour, width, dashed: true });
    }

    pub(super) fn text(&mut self, at: Point, size: f64, anchor: Anchor, colour: Colour, words: impl Into<String>) {
        self.shapes.push(Shape::Text(Text { at, size, anchor, colour, upright: false, words: words.into() }));
    }

    pub(super) fn upright_text(&mut self, at: Point, size: f64, colour: Colour, words: impl Into<String>) {
        let anchor = Anchor::Middle;
        self.shapes.push(Shape::Text(Text { at, size, anchor, colour, upright: true, words: words.into() }));
    }
}
