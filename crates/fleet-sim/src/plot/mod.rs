//! Plots of runs, side by side with the same axes: what was sent and refused, what the provider had left, and who waited for
//! what. As SVG, or as PNG drawn from the same shapes; the same recordings give the same bytes.
//!
//! From the data to the picture: `series` brings all runs to one step of time, `axis` finds round numbers, `layout` says where
//! everything goes and makes a `drawing`, which `svg` writes and `png` paints.

mod axis;
mod colours;
mod drawing;
mod font;
mod layout;
mod png;
mod series;
mod svg;

use std::path::Path;
use std::str::FromStr;

use crate::recording::Recording;

/// The most runs in one plot; more would be too small to read.
pub const MOST_RUNS: usize = 16;

/// What a plot is made as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Scalable, small, text that can be searched.
    Svg,
    /// Pixels, twice as many each way as the SVG's units.
    Png,
}

impl Format {
    /// By the end of a file's name.
    pub fn of(path: &Path) -> Result<Self, PlotError> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        extension.parse().map_err(|_| PlotError::UnknownFormat { path: path.display().to_string() })
    }
}

impl FromStr for Format {
    type Err = PlotError;
    fn from_str(text: &str) -> Result<Self, PlotError> {
        match text.to_ascii_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            _ => Err(PlotError::UnknownFormat { path: text.to_owned() }),
        }
    }
}

/// Why there is no plot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlotError {
    /// Neither SVG nor PNG.
    #[error("`{path}`: a plot is an SVG or a PNG; end its name with .svg or .png")]
    UnknownFormat {
        /// What was asked for.
        path: String,
    },
    /// More than can be read.
    #[error("{runs} runs do not fit into one plot, only {MOST_RUNS} do; choose fewer scenarios or strategies")]
    TooManyRuns {
        /// How many there are.
        runs: usize,
    },
    /// The picture cannot be painted; a defect of ours.
    #[error("the plot could not be painted: {0}; an SVG can be had instead, and please report this")]
    Painting(String),
}

/// Draws these runs side by side, in the order given.
pub fn plot(format: Format, runs: &[Recording]) -> Result<Vec<u8>, PlotError> {
    if runs.len() > MOST_RUNS {
        return Err(PlotError::TooManyRuns { runs: runs.len() });
    }
    let drawing = layout::lay_out(runs);
    match format {
        Format::Svg => Ok(svg::write(&drawing).into_bytes()),
        Format::Png => png::paint(&drawing),
    }
}

#[cfg(test)]
mod tests;
