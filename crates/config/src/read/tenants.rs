//! `tenants:`: what holds for the calls of one tenant, wherever they go.

use std::collections::BTreeMap;

use super::check_name;
use super::modes::modes;
use crate::fields::{Fields, named};
use crate::model::Tenant;
use crate::problem::{Problems, join};
use crate::tree::{Node, Value};

/// `tenants:` at the top of the file.
pub(super) fn tenants(node: &Node, problems: &mut Problems) -> BTreeMap<String, Tenant> {
    let mut out = BTreeMap::new();
    for entry in named(node, "tenants", "tenants: {ads: {mode: shadow}}", problems) {
        if check_name(&entry.key, "a tenant", entry.key_pos, "tenants", problems)
            && let Some(tenant) = tenant(&entry.node, &join("tenants", &entry.key), problems)
        {
            out.insert(entry.key.clone(), tenant);
        }
    }
    out
}

fn tenant(node: &Node, path: &str, problems: &mut Problems) -> Option<Tenant> {
    let mut fields = Fields::open(node, path, "{mode: shadow}", problems)?;
    let mut out = Tenant::default();
    if let Some(entry) = fields.take("mode") {
        out.mode = modes(&entry.node, &fields.join("mode"), problems);
    }
    let never = |_: &Value| false;
    fields.not_yet("weight", "remove it; tenants share evenly", never, problems);
    fields.not_yet("max_priority", "remove it", never, problems);
    fields.close(problems);
    Some(out)
}
