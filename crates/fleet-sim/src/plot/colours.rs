//! Colours that people with any kind of colour vision can tell apart: the palette of Okabe and Ito (2008), and of Paul Tol's
//! "muted" where that has too few.

use paceline_core::signal::Source;

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Colour(pub(super) u8, pub(super) u8, pub(super) u8);

pub(super) const PAPER: Colour = Colour(255, 255, 255);
pub(super) const INK: Colour = Colour(34, 34, 34);
pub(super) const FAINT_INK: Colour = Colour(100, 100, 100);
pub(super) const GRID: Colour = Colour(226, 226, 226);
pub(super) const SENT: Colour = Colour(122, 140, 163);
pub(super) const REJECTED: Colour = Colour(213, 94, 0);
pub(super) const LEVEL: Colour = Colour(0, 158, 115);
pub(super) const LEVEL_AREA: Colour = Colour(204, 236, 227);

/// The colour of a source of delay; none is that of what was sent, rejected or left.
pub(super) const fn of_source(source: Source) -> Colour {
    match source {
        Source::None => Colour(187, 187, 187),
        Source::Pacing => Colour(86, 180, 233),
        Source::Bucket => Colour(0, 114, 178),
        Source::RetryAfterSeconds => Colour(230, 159, 0),
        Source::RetryAfterDate => Colour(240, 228, 66),
        Source::RetryAfterMs => Colour(153, 102, 0),
        Source::ResetHeader => Colour(204, 121, 167),
        Source::ErrorBody => Colour(136, 34, 85),
        Source::Backoff => Colour(204, 102, 119),
        Source::Ramp => Colour(221, 204, 119),
        Source::Concurrency => Colour(136, 204, 238),
        Source::FairShare => Colour(51, 34, 136),
        Source::Jitter => Colour(153, 153, 51),
        Source::Store => Colour(68, 68, 68),
        Source::Paused => Colour(221, 221, 221),
    }
}
