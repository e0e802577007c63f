//! The settings that may stand at every level, and what is promised to classes.

use paceline_core::plan::{Class, ClassPolicy, StartLevel};

use super::fleet::store_down;
use super::modes::modes;
use super::retries::retries;
use super::scalars::{flag, share, span, text, tries, word};
use crate::fields::{Fields, named};
use crate::model::{ByClass, ClassSettings, Settings, Written};
use crate::problem::{Problem, Problems, suggest};
use crate::quantity::Share;
use crate::tree::{Node, Value};

type Read<T> = fn(&Node, &str, &mut Problems) -> Option<T>;

/// Reads the settings of a level out of its fields.
pub(super) fn settings(fields: &mut Fields<'_>, problems: &mut Problems) -> Settings {
    let mut out = bucket_settings(fields, problems);
    if let Some(entry) = fields.take("tier") {
        out.tier = text(&entry.node, &fields.join("tier"), "a tier's name", problems);
    }
    if let Some(entry) = fields.take("mode") {
        out.mode = modes(&entry.node, &fields.join("mode"), problems);
    }
    for_classes(fields, "max_wait", span, &mut out.classes.max_wait, problems);
    for_classes(fields, "honor_cap", span, &mut out.classes.honor_cap, problems);
    for_classes(fields, "attempts", tries, &mut out.classes.attempts, problems);
    for_classes(fields, "paid_attempts", tries, &mut out.classes.paid_attempts, problems);
    if let Some(entry) = fields.take("retries") {
        out.retries = retries(&entry.node, &fields.join("retries"), &mut out.classes, problems);
    }
    if let Some(entry) = fields.take("on_store_down") {
        out.on_store_down = store_down(&entry.node, &fields.join("on_store_down"), problems);
    }
    out
}

/// Those settings that are about buckets: all that a shared bucket may have of its own.
pub(super) fn bucket_settings(fields: &mut Fields<'_>, problems: &mut Problems) -> Settings {
    let mut out = Settings::default();
    if let Some(entry) = fields.take("use") {
        out.use_share = use_share(&entry.node, &fields.join("use"), problems);
    }
    if let Some(entry) = fields.take("share") {
        let value = share(&entry.node, &fields.join("share"), problems);
        out.own_share = value.map(|value| Written { value, pos: entry.node.pos });
    }
    check_parts(&out, fields, problems);
    if let Some(entry) = fields.take("learn_above") {
        out.learn_above = flag(&entry.node, &fields.join("learn_above"), problems);
    }
    if let Some(entry) = fields.take("start_level") {
        let levels = [("cautious", StartLevel::Cautious), ("full", StartLevel::Full)];
        let level = word(&entry.node, &fields.join("start_level"), &levels, problems);
        out.start_level = level.map(|value| Written { value, pos: entry.node.pos });
    }
    out
}

fn use_share(node: &Node, path: &str, problems: &mut Problems) -> Option<Written<Share>> {
    let value = share(node, path, problems)?;
    if value == Share::NONE {
        problems.add(Problem::at(node.pos, path, "0% lets nothing through").help("write at least 1%, or remove the line"));
        return None;
    }
    Some(Written { value, pos: node.pos })
}

/// What is ours in any case is part of what we may take.
fn check_parts(settings: &Settings, fields: &Fields<'_>, problems: &mut Problems) {
    let (Some(own), Some(most)) = (settings.own_share, settings.use_share) else { return };
    if own.value > most.value {
        let message = format!("a share of {} is more than `use: {}` lets us take", own.value, most.value);
        problems.add(Problem::at(own.pos, &fields.join("share"), message).help("lower the one or raise the other"));
    }
}

/// A setting that is one value for all classes or a map from classes to values.
fn for_classes<T: Copy>(
    fields: &mut Fields<'_>,
    key: &'static str,
    read: Read<T>,
    out: &mut ByClass<T>,
    problems: &mut Problems,
) {
    let Some(entry) = fields.take(key) else { return };
    let path = fields.join(key);
    if !matches!(entry.node.value, Value::Map(_)) {
        let Some(value) = read(&entry.node, &path, problems) else { return };
        for class in Class::ALL {
            out.set(class, Written { value, pos: entry.node.pos });
        }
        return;
    }
    let Some(mut by_class) = Fields::open(&entry.node, &path, "one value or a map of classes", problems) else { return };
    for class in Class::ALL {
        if let Some(entry) = by_class.take(class.name())
            && let Some(value) = read(&entry.node, &by_class.join(class.name()), problems)
        {
            out.set(class, Written { value, pos: entry.node.pos });
        }
    }
    by_class.close(problems);
}

/// `classes:` at the top of the file.
pub(super) fn classes(node: &Node, problems: &mut Problems) -> ClassSettings {
    let mut out = ClassSettings::default();
    for entry in named(node, "classes", "classes: {batch: {max_wait: 1h}}", problems) {
        let Some(class) = Class::ALL.into_iter().find(|class| class.name() == entry.key) else {
            let problem = Problem::at(entry.key_pos, "classes", format!("unknown class `{}`", entry.key));
            let help = match suggest(&entry.key, Class::ALL.map(Class::name)) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "classes are interactive, normal and batch".to_owned(),
            };
            problems.add(problem.help(help));
            continue;
        };
        one_class(class, &entry.node, &mut out, problems);
    }
    check_shares(&out, problems);
    out
}

fn one_class(class: Class, node: &Node, out: &mut ClassSettings, problems: &mut Problems) {
    let path = format!("classes.{}", class.name());
    let Some(mut fields) = Fields::open(node, &path, "{max_wait: 1h, honor_cap: 15m, attempts: 8}", problems) else { return };
    one_value(&mut fields, "max_wait", class, span, &mut out.max_wait, problems);
    one_value(&mut fields, "honor_cap", class, span, &mut out.honor_cap, problems);
    one_value(&mut fields, "attempts", class, tries, &mut out.attempts, problems);
    one_value(&mut fields, "paid_attempts", class, tries, &mut out.paid_attempts, problems);
    one_value(&mut fields, "guarantee", class, share, &mut out.guarantee, problems);
    one_value(&mut fields, "max_share", class, max_share, &mut out.max_share, problems);
    fields.close(problems);
}

fn max_share(node: &Node, path: &str, problems: &mut Problems) -> Option<Share> {
    let value = share(node, path, problems)?;
    if value == Share::NONE {
        let problem = Problem::at(node.pos, path, "0% would let nothing through while others wait");
        problems.add(problem.help("write at least 1%, or 100% for no bound"));
        return None;
    }
    Some(value)
}

/// Guarantees are kept together: they come to the whole at most, and none is more than its class may have.
fn check_shares(classes: &ClassSettings, problems: &mut Problems) {
    let of = |class: Class| {
        let default = ClassPolicy::default_of(class);
        let (guarantee, most) = (classes.guarantee.get(class), classes.max_share.get(class));
        let value = |written: Option<Written<Share>>, default| written.map_or(Share::of_portion(default), |found| found.value);
        (value(guarantee, default.guarantee), value(most, default.max_share), guarantee.or(most).map(|written| written.pos))
    };
    for class in Class::ALL {
        let (guarantee, most, pos) = of(class);
        if let Some(pos) = pos.filter(|_| guarantee > most) {
            let path = format!("classes.{}", class.name());
            let message = format!("a guarantee of {guarantee} is more than the max_share of {most}");
            problems.add(Problem::at(pos, &path, message).help("lower the one or raise the other"));
        }
    }
    let parts = Class::ALL.map(of);
    let sum: u32 = parts.iter().map(|(guarantee, ..)| guarantee.as_millionths()).sum();
    let written = Class::ALL.into_iter().filter_map(|class| classes.guarantee.get(class)).next_back();
    if let Some(written) = written.filter(|_| sum > Share::WHOLE.as_millionths()) {
        let list: Vec<String> =
            Class::ALL.iter().zip(parts).map(|(class, (guarantee, ..))| format!("{} {guarantee}", class.name())).collect();
        let message = format!("the guarantees come to more than 100%: {}", list.join(", "));
        problems.add(
            Problem::at(written.pos, "classes", message).help("lower one of them; a class that names none has its default"),
        );
    }
}

fn one_value<T: Copy>(
    fields: &mut Fields<'_>,
    key: &'static str,
    class: Class,
    read: Read<T>,
    out: &mut ByClass<T>,
    problems: &mut Problems,
) {
    let Some(entry) = fields.take(key) else { return };
    if let Some(value) = read(&entry.node, &fields.join(key), problems) {
        out.set(class, Written { value, pos: entry.node.pos });
    }
}
