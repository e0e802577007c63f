//! `retries:`, at the top of the file and at every level below.

use paceline_core::plan::Class;

use super::scalars::{rate, share, tries};
use crate::fields::Fields;
use crate::model::{ClassSettings, RetrySettings, Written};
use crate::problem::Problems;
use crate::tree::Node;

/// Reads one level's `retries`. Its `paid_attempts` holds for each class that does not say its own at this level.
pub(super) fn retries(node: &Node, path: &str, classes: &mut ClassSettings, problems: &mut Problems) -> RetrySettings {
    let mut out = RetrySettings::default();
    let shape = "retries: {share: 20%, at_least: 3/10s, paid_attempts: 2}";
    let Some(mut fields) = Fields::open(node, path, shape, problems) else { return out };
    if let Some(entry) = fields.take("share") {
        let value = share(&entry.node, &fields.join("share"), problems);
        out.share = value.map(|value| Written { value, pos: entry.node.pos });
    }
    if let Some(entry) = fields.take("at_least") {
        let value = rate(&entry.node, &fields.join("at_least"), problems);
        out.at_least = value.map(|value| Written { value, pos: entry.node.pos });
    }
    if let Some(entry) = fields.take("paid_attempts")
        && let Some(value) = tries(&entry.node, &fields.join("paid_attempts"), problems)
    {
        for class in Class::ALL.into_iter().filter(|class| classes.paid_attempts.get(*class).is_none()).collect::<Vec<_>>() {
            classes.paid_attempts.set(class, Written { value, pos: entry.node.pos });
        }
    }
    fields.close(problems);
    out
}
