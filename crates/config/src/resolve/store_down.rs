//! What happens to calls while the store is away: the nearest level that says it.

use paceline_core::plan::StoreDown;

use crate::explain::Origin;
use crate::model::Settings;
use crate::resolve::nearest;

/// What holds at the end of a chain of levels, and where it is written, if anywhere.
pub(super) fn store_down(chain: &[(&Settings, &'static str)]) -> (StoreDown, Option<Origin>) {
    match nearest(chain, |settings| settings.on_store_down) {
        Some((written, level)) => (written.value, Some(Origin::File { level, pattern: None, pos: written.pos })),
        None => (StoreDown::default(), None),
    }
}
