//! `tenants:` at the top of the file: weights among those who share a limit, how urgent they may be, and what is done with their
//! calls.

use std::collections::BTreeMap;

use paceline_core::plan::{Class, Weight};

use super::check_name;
use super::modes::modes;
use super::scalars::word;
use crate::fields::{Fields, named};
use crate::glob::Glob;
use crate::model::{Tenant, Written};
use crate::problem::{Problem, Problems, join};
use crate::tree::{Node, Value};

const SHAPE: &str = "tenants: {ads: {weight: 3, max_priority: interactive}}";

/// Reads them, each a name or a pattern.
pub(super) fn tenants(node: &Node, problems: &mut Problems) -> BTreeMap<String, Tenant> {
    let mut out: BTreeMap<String, Tenant> = BTreeMap::new();
    for entry in named(node, "tenants", SHAPE, problems) {
        if !check_name(&entry.key, "a tenant", entry.key_pos, "tenants", problems) {
            continue;
        }
        let path = join("tenants", &entry.key);
        let glob = match Glob::parse(&entry.key) {
            Ok(glob) => glob,
            Err(message) => {
                problems.add(Problem::at(entry.key_pos, &path, message));
                continue;
            }
        };
        for (other, theirs) in &out {
            if let Some(name) = glob.tie(&theirs.glob) {
                let message =
                    format!("`{other}` and `{}` are equally specific: both match `{}`", entry.key, name.escape_debug());
                let help = format!("the other one is in line {}; add literal text to one of them", theirs.pos.line);
                problems.add(Problem::at(entry.key_pos, &path, message).help(help));
            }
        }
        let mut tenant = Tenant { pos: entry.key_pos, glob, weight: None, max_priority: None, mode: None };
        one(&entry.node, &path, &mut tenant, problems);
        out.insert(entry.key.clone(), tenant);
    }
    out
}

fn one(node: &Node, path: &str, tenant: &mut Tenant, problems: &mut Problems) {
    let Some(mut fields) = Fields::open(node, path, "{weight: 3, max_priority: normal}", problems) else { return };
    tenant.weight = fields.take("weight").and_then(|entry| weight(&entry.node, &fields.join("weight"), problems));
    tenant.max_priority = fields.take("max_priority").and_then(|entry| {
        let words = Class::ALL.map(|class| (class.name(), class));
        let value = word(&entry.node, &fields.join("max_priority"), &words, problems)?;
        Some(Written { value, pos: entry.node.pos })
    });
    if let Some(entry) = fields.take("mode") {
        tenant.mode = modes(&entry.node, &fields.join("mode"), problems);
    }
    fields.close(problems);
}

fn weight(node: &Node, path: &str, problems: &mut Problems) -> Option<Written<Weight>> {
    let most = i128::from(Weight::MOST.get());
    match node.value {
        Value::Int(number) if (1..=most).contains(&number) => {
            u32::try_from(number).ok().map(|number| Written { value: Weight::new(number), pos: node.pos })
        }
        _ => {
            let shown = node.scalar().map_or_else(|| node.kind().to_owned(), |text| format!("`{text}`"));
            let help =
                format!("write a whole number from 1 to {most}: a tenant of weight 3 gets three times as much as one of 1");
            problems.add(Problem::at(node.pos, path, format!("{shown} is not a weight")).help(help));
            None
        }
    }
}
