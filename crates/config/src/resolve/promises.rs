//! What is promised to each class: the nearest level that says it, else the default.

use paceline_core::plan::{Class, ClassPolicy, Portion};

use super::group::Layers;
use crate::explain::{Origin, SettingOrigin};
use crate::identify::Identity;
use crate::model::{ByClass, ClassSettings, Config};
use crate::quantity::Share;

/// The policies by [`Class::index`], and where each value that is not the default comes from.
pub(super) fn promises(
    config: &Config,
    identity: &Identity<'_>,
    layers: &Layers<'_>,
) -> ([ClassPolicy; 3], Vec<SettingOrigin>) {
    let chain = layers.chain(identity);
    let mut levels: Vec<(&ClassSettings, &'static str)> =
        chain.iter().map(|(settings, level)| (&settings.classes, *level)).collect();
    levels.push((&config.classes, "classes"));
    let mut origins = Vec::new();
    let policies = Class::ALL.map(|class| {
        let mut policy = ClassPolicy::default_of(class);
        let mut reader = Reader { class, levels: &levels, origins: &mut origins };
        reader.read("max_wait", |level| &level.max_wait, &mut policy.max_wait);
        reader.read("honor_cap", |level| &level.honor_cap, &mut policy.honor_cap);
        reader.read("attempts", |level| &level.attempts, &mut policy.attempts);
        reader.read("paid_attempts", |level| &level.paid_attempts, &mut policy.paid_attempts);
        let mut portion = |name, of: fn(&ClassSettings) -> &ByClass<Share>, slot: &mut Portion| {
            let mut share = Share::of_portion(*slot);
            reader.read(name, of, &mut share);
            *slot = share.portion();
        };
        portion("guarantee", |level| &level.guarantee, &mut policy.guarantee);
        portion("max_share", |level| &level.max_share, &mut policy.max_share);
        policy
    });
    (policies, origins)
}

struct Reader<'r> {
    class: Class,
    levels: &'r [(&'r ClassSettings, &'static str)],
    origins: &'r mut Vec<SettingOrigin>,
}

impl Reader<'_> {
    fn read<T: Copy>(&mut self, name: &'static str, of: impl Fn(&ClassSettings) -> &ByClass<T>, slot: &mut T) {
        let found = self.levels.iter().find_map(|(level, what)| of(level).get(self.class).map(|written| (written, *what)));
        if let Some((written, level)) = found {
            *slot = written.value;
            let origin = Origin::File { level, pattern: None, pos: written.pos };
            self.origins.push(SettingOrigin { class: self.class, setting: name, origin });
        }
    }
}
