//! The one font of our plots, which comes with us so that they look the same everywhere.

use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Its name, for programs that have it installed.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";
const BYTES: &[u8] = include_bytes!("font/dejavu-sans-subset.ttf");

/// The font, read.
pub(super) struct Font(Face<'static>);

impl Font {
    /// `None` cannot happen with the file that comes with us; a test sees to that.
    pub(super) fn load() -> Option<Self> {
        Face::parse(BYTES, 0).ok().map(Self)
    }

    /// How wide a text is at this size.
    pub(super) fn width(&self, words: &str, size: f64) -> f64 {
        words.chars().map(|c| f64::from(self.0.glyph_hor_advance(self.glyph(c)).unwrap_or(0))).sum::<f64>() * self.scale(size)
    }

    /// Draws each character's outline, with where it begins on the base line; in units of the font, upwards.
    pub(super) fn outline<B: OutlineBuilder>(&self, words: &str, mut builder: impl FnMut(f64) -> B, mut done: impl FnMut(B)) {
        let mut x = 0.0;
        for c in words.chars() {
            let glyph = self.glyph(c);
            let mut outline = builder(x);
            self.0.outline_glyph(glyph, &mut outline);
            done(outline);
            x += f64::from(self.0.glyph_hor_advance(glyph).unwrap_or(0));
        }
    }

    /// From units of the font to this size.
    pub(super) fn scale(&self, size: f64) -> f64 {
        size / f64::from(self.0.units_per_em().max(1))
    }

    /// Characters that it has not got look like a question mark.
    fn glyph(&self, c: char) -> GlyphId {
        self.0.glyph_index(c).or_else(|| self.0.glyph_index('?')).unwrap_or_default()
    }
}
