//! What calls turn out to use, and how long they run: learned per model and label, for those that do not say.

use std::sync::Arc;

use crate::amounts::Amounts;
use crate::charge::used_in;
use crate::sketch::Sketch;
use crate::units::{FleetTime, Span};

/// The most kinds of calls that are remembered in a scope; the one that was not seen for longest makes room.
pub const MOST_KINDS: usize = 64;
/// The most meters that are remembered of a kind.
pub const MOST_METERS: usize = 6;
/// Longer labels are not told apart.
pub const LONGEST_LABEL_BYTES: usize = 64;
/// A label that nobody used for so long is forgotten when another one comes.
const LABEL_FORGOTTEN_AFTER: Span = Span::from_secs(86_400);
/// The meter under which run times are remembered, in milliseconds.
const RUN_TIME: &str = "run_time_ms";
/// A label needs so many calls before it counts more than its model.
const ENOUGH: u32 = 5;
/// The 99th of a hundred run times means little before.
const ENOUGH_RUNS: u32 = 20;
/// What a lease gets at least, whatever was learned: a call may be slow for once.
const SHORTEST_TTL: Span = Span::from_secs(10);

/// What a call carries besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Nothing.
    #[default]
    Text,
    /// Images, sound, video: their tokens are no text, and are remembered apart.
    Media,
}

impl Form {
    /// The form of a call by what it costs.
    pub fn of(cost: &Amounts) -> Self {
        if cost.iter().any(|(meter, units)| units > 0 && is_media(meter)) { Self::Media } else { Self::Text }
    }
}

/// Whether a meter counts something that is no text.
pub fn is_media(meter: &str) -> bool {
    let media = ["image", "audio", "video", "media"];
    meter.split('_').any(|word| media.contains(&word.strip_suffix('s').unwrap_or(word)))
}

/// The label whose values tell uses of a model apart: the one that attribution is by.
pub const LABEL: &str = "feature";

/// What kind of call it is: those of one kind use about as much.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallKind {
    /// The model as asked for.
    pub model: Arc<str>,
    /// The value of the label that tells uses of a model apart; empty: none.
    pub label: Arc<str>,
}

impl Default for CallKind {
    fn default() -> Self {
        Self::new("", "")
    }
}

impl CallKind {
    /// Calls of a model under a label; labels that are too long are left out.
    pub fn new(model: &str, label: &str) -> Self {
        let label = if label.len() <= LONGEST_LABEL_BYTES { label } else { "" };
        Self { model: Arc::from(model), label: Arc::from(label) }
    }
}

/// What is remembered of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The model; empty: what calls of any model of a group use, whose key is the label.
    pub model: Arc<str>,
    /// The label; empty: any.
    pub label: Arc<str>,
    /// Text or media.
    pub form: Form,
    /// When it was last seen.
    pub seen_at: FleetTime,
    /// Units used, by meter.
    pub meters: Vec<(Arc<str>, Sketch)>,
}

/// What is remembered in a scope: at most [`MOST_KINDS`] kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageBook {
    kinds: Vec<Remembered>,
}

impl UsageBook {
    /// Remembers what a call used, as far as it is stated or follows; `meters` are those that anybody will ask for. Media that a
    /// call does not name it has none of.
    pub fn note_usage<'m>(
        &mut self,
        kind: &CallKind,
        group: &Arc<str>,
        form: Form,
        usage: &Amounts,
        meters: impl Iterator<Item = &'m str>,
        now: FleetTime,
    ) {
        let mut used: Vec<(&str, u64)> = Vec::new();
        for meter in meters.filter(|meter| *meter != "requests") {
            match used_in(usage, meter) {
                Some(units) if !used.iter().any(|(known, _)| *known == meter) => used.push((meter, units)),
                _ => {}
            }
        }
        for (model, label) in levels(kind, group).into_iter().flatten() {
            let at = self.place(&model, &label, form, now);
            for (meter, units) in &used {
                self.note(at, meter, *units);
            }
        }
    }

    /// Remembers how long a call of this model ran.
    pub fn note_run(&mut self, model: &Arc<str>, ran: Span, now: FleetTime) {
        let at = self.place(model, &Arc::from(""), Form::Text, now);
        self.note(at, RUN_TIME, u64::try_from(ran.as_millis_ceil()).unwrap_or(0));
    }

    /// What nine of ten such calls do not exceed; `None`: nobody knows. The label's calls, else the model's, else the group's; for
    /// media their own, else text, but never the other way round.
    pub fn likely(&self, kind: &CallKind, group: &Arc<str>, form: Form, meter: &str) -> Option<u64> {
        let of_form = |form| {
            levels(kind, group).into_iter().flatten().find_map(|(model, label)| {
                let sketch = self.sketch(&model, &label, form, meter)?;
                let is_enough = model.is_empty() || label.is_empty() || sketch.samples() >= ENOUGH;
                sketch.quantile(900).filter(|_| is_enough)
            })
        };
        of_form(form).or_else(|| (form == Form::Media).then(|| of_form(Form::Text)).flatten())
    }

    /// How long half of the calls of this model run at most; `None` before five have ended.
    pub fn typical_run(&self, model: &str) -> Option<Span> {
        let runs = self.runs(model).filter(|runs| runs.samples() >= ENOUGH)?;
        runs.quantile(500).map(millis)
    }

    /// How long a lease of this model lives without a report: twice what 99 of 100 calls take, at least ten seconds; `None` before
    /// twenty have ended.
    pub fn lease_ttl(&self, model: &str) -> Option<Span> {
        let runs = self.runs(model).filter(|runs| runs.samples() >= ENOUGH_RUNS)?;
        let most = runs.quantile(990).map(millis)?;
        Some(most.saturating_add(most).max(SHORTEST_TTL))
    }

    /// Everything that is remembered.
    pub fn kinds(&self) -> &[Remembered] {
        &self.kinds
    }

    /// A book from stored kinds; those beyond the bounds are left out.
    pub fn from_kinds(mut kinds: Vec<Remembered>) -> Self {
        kinds.truncate(MOST_KINDS);
        kinds.iter_mut().for_each(|kind| kind.meters.truncate(MOST_METERS));
        Self { kinds }
    }

    fn runs(&self, model: &str) -> Option<&Sketch> {
        self.sketch(model, "", Form::Text, RUN_TIME)
    }

    fn sketch(&self, model: &str, label: &str, form: Form, meter: &str) -> Option<&Sketch> {
        let kind = self.kinds.iter().find(|kind| *kind.model == *model && *kind.label == *label && kind.form == form)?;
        kind.meters.iter().find(|(known, _)| **known == *meter).map(|(_, sketch)| sketch)
    }

    /// Where this kind is remembered from now on.
    fn place(&mut self, model: &Arc<str>, label: &Arc<str>, form: Form, now: FleetTime) -> usize {
        let known = self.kinds.iter().position(|kind| kind.model == *model && kind.label == *label && kind.form == form);
        let at = known.unwrap_or_else(|| {
            // Labels come and go: what was not seen for a day is not carried along.
            self.kinds.retain(|kind| kind.label.is_empty() || now.since(kind.seen_at) < LABEL_FORGOTTEN_AFTER);
            if self.kinds.len() >= MOST_KINDS
                && let Some((oldest, _)) = self.kinds.iter().enumerate().min_by_key(|(_, kind)| kind.seen_at)
            {
                self.kinds.remove(oldest);
            }
            let (model, label) = (model.clone(), label.clone());
            self.kinds.push(Remembered { model, label, form, seen_at: now, meters: Vec::new() });
            self.kinds.len() - 1
        });
        if let Some(kind) = self.kinds.get_mut(at) {
            kind.seen_at = now.max(kind.seen_at);
        }
        at
    }

    fn note(&mut self, at: usize, meter: &str, size: u64) {
        let Some(kind) = self.kinds.get_mut(at) else { return };
        if let Some((_, sketch)) = kind.meters.iter_mut().find(|(known, _)| **known == *meter) {
            sketch.note(size);
        } else if kind.meters.len() < MOST_METERS {
            let mut sketch = Sketch::default();
            sketch.note(size);
            kind.meters.push((Arc::from(meter), sketch));
        }
    }
}

/// From the nearest to the farthest: the label of the model, the model, its group (where that is another thing).
fn levels(kind: &CallKind, group: &Arc<str>) -> [Option<(Arc<str>, Arc<str>)>; 3] {
    let none: Arc<str> = Arc::from("");
    let own = (!kind.label.is_empty()).then(|| (kind.model.clone(), kind.label.clone()));
    let of_group = (*group != kind.model).then(|| (none.clone(), group.clone()));
    [own, Some((kind.model.clone(), none)), of_group]
}

fn millis(millis: u64) -> Span {
    Span::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    fn book(calls: &[(&str, &str, u64)]) -> UsageBook {
        let mut book = UsageBook::default();
        for (model, label, tokens) in calls {
            let usage = Amounts::from_pairs([("tokens", *tokens)]);
            book.note_usage(&CallKind::new(model, label), &Arc::from("g"), Form::Text, &usage, ["tokens"].into_iter(), NOW);
        }
        book
    }

    fn likely(book: &UsageBook, model: &str, label: &str) -> Option<u64> {
        book.likely(&CallKind::new(model, label), &Arc::from("g"), Form::Text, "tokens")
    }

    #[test]
    fn a_label_counts_more_than_its_model_once_it_is_known() {
        let mut calls = vec![("m", "chat", 100); 50];
        calls.extend([("m", "summary", 9_000); 4]);
        assert_eq!(likely(&book(&calls), "m", "summary"), Some(100), "four calls are few");
        calls.push(("m", "summary", 9_000));
        let book = book(&calls);
        assert_eq!(likely(&book, "m", "summary"), Some(9_000));
        assert_eq!(likely(&book, "m", "chat"), Some(100));
        assert_eq!(likely(&book, "m", "new"), Some(100), "the model's");
        assert_eq!(likely(&book, "another", ""), Some(100), "its group's");
        assert_eq!(UsageBook::default().likely(&CallKind::default(), &Arc::from(""), Form::Text, "tokens"), None);
    }

    #[test]
    fn media_are_never_text() {
        let mut book = book(&[("m", "", 100); 5]);
        let (kind, group) = (CallKind::new("m", ""), Arc::from("g"));
        let usage = Amounts::from_pairs([("tokens", 20_000), ("images", 1)]);
        for _ in 0..50 {
            book.note_usage(&kind, &group, Form::of(&usage), &usage, ["tokens", "images"].into_iter(), NOW);
        }
        assert_eq!(book.likely(&kind, &group, Form::Text, "tokens"), Some(100));
        assert_eq!(book.likely(&kind, &group, Form::Media, "tokens"), Some(20_000));
        assert_eq!(book.likely(&kind, &group, Form::Media, "images"), Some(1));
        assert_eq!(Form::of(&Amounts::from_pairs([("images", 0), ("input_tokens", 5)])), Form::Text);
        for (meter, media) in [("audio_seconds", true), ("input_images", true), ("imagery", false), ("tokens", false)] {
            assert_eq!(is_media(meter), media, "{meter}");
        }
    }

    #[test]
    fn labels_of_yesterday_make_room_before_models_do() {
        let mut book = book(&[("m", "old", 100), ("m", "", 100)]);
        let usage = Amounts::from_pairs([("tokens", 5)]);
        let tomorrow = NOW + LABEL_FORGOTTEN_AFTER;
        book.note_usage(&CallKind::new("m", "new"), &Arc::from("m"), Form::Text, &usage, ["tokens"].into_iter(), tomorrow);
        let labels: Vec<&str> = book.kinds().iter().map(|kind| &*kind.label).collect();
        assert_eq!(labels, ["", "new"]);
    }

    #[test]
    fn run_times_make_leases() {
        let mut book = UsageBook::default();
        let model: Arc<str> = Arc::from("m");
        for call in 0..100 {
            assert_eq!(book.lease_ttl("m").is_some(), call >= 20);
            book.note_run(&model, Span::from_secs(if call % 20 == 19 { 45 } else { 2 }), NOW);
        }
        assert_eq!(book.typical_run("m"), Some(Span::from_secs(2)));
        assert_eq!(book.lease_ttl("m"), Some(Span::from_secs(90)));
        (0..2_000).for_each(|_| book.note_run(&model, Span::from_millis(80), NOW));
        assert_eq!(book.lease_ttl("m"), Some(Span::from_secs(10)), "never shorter");
        assert_eq!(book.lease_ttl("another"), None);
    }

    proptest! {
        /// Whatever models, labels and meters workers invent: the book stays small, and a kind in use stays in it.
        #[test]
        fn the_book_is_bounded(calls in vec(("[a-z]{1,4}", "[a-z]{0,4}", any::<u64>()), 1..400)) {
            let mut book = UsageBook::default();
            for (second, (model, label, units)) in calls.iter().enumerate() {
                let now = NOW + Span::from_secs(i64::try_from(second).unwrap());
                let usage = Amounts::from_pairs([("tokens", *units), (label.as_str(), 1)]);
                let kind = CallKind::new(model, label);
                book.note_usage(&kind, &Arc::from("g"), Form::Text, &usage, ["tokens", label.as_str()].into_iter(), now);
                prop_assert!(book.kinds().len() <= MOST_KINDS);
                prop_assert!(book.kinds().iter().all(|kind| kind.meters.len() <= MOST_METERS));
                prop_assert!(book.likely(&kind, &Arc::from("g"), Form::Text, "tokens").is_some());
            }
        }
    }
}
