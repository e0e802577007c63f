//! One pass over the headers: which rule reads which value.

use crate::catalogue::{Lookup, Provider, Target};

/// At most this many unread and malformed names are told: a hostile answer must not grow ours.
const MOST_NAMES: usize = 32;

/// At most this many headers are read by rules; no honest answer has more.
const MOST_HITS: usize = 256;

/// A header that a rule reads.
pub(super) struct Hit<'p, 'a> {
    pub(super) name: &'a str,
    /// Trimmed; `None` when the bytes are no text.
    pub(super) value: Option<&'a str>,
    /// As sent.
    pub(super) bytes: &'a [u8],
    pub(super) target: Target<'p>,
    /// Whether a gateway passed it on from the provider behind it.
    pub(super) is_passed_on: bool,
}

/// Everything that rules read, and the names that are to be told.
pub(super) struct Hits<'p, 'a> {
    pub(super) all: Vec<Hit<'p, 'a>>,
    pub(super) unread: Vec<String>,
    pub(super) malformed: Vec<String>,
}

impl<'p, 'a> Hits<'p, 'a> {
    pub(super) fn collect(provider: &'p Provider, headers: &'a [(&'a str, &'a [u8])]) -> Self {
        let mut hits =
            Self { all: Vec::with_capacity(headers.len().min(MOST_HITS)), unread: Vec::new(), malformed: Vec::new() };
        for (name, value) in headers {
            let passed_on = provider.without_prefix(name);
            match provider.find_header(passed_on.unwrap_or(name)) {
                Lookup::Rule(target) if hits.all.len() < MOST_HITS => {
                    let text = std::str::from_utf8(value.trim_ascii()).ok();
                    hits.all.push(Hit { name, value: text, bytes: value, target, is_passed_on: passed_on.is_some() });
                }
                Lookup::LooksLikeLimit => tell(&mut hits.unread, name),
                Lookup::Rule(_) | Lookup::Unrelated => {}
            }
        }
        hits
    }

    /// The lines that say a thing: those addressed to us, or the ones that a gateway passed on when there are none.
    pub(super) fn of(&self, target: &Target<'_>) -> impl Iterator<Item = &Hit<'p, 'a>> {
        let all = self.all.iter().filter(move |hit| hit.target == *target);
        let is_passed_on = all.clone().all(|hit| hit.is_passed_on);
        all.filter(move |hit| hit.is_passed_on == is_passed_on)
    }

    /// The first of them.
    pub(super) fn first(&self, target: &Target<'_>) -> Option<&Hit<'p, 'a>> {
        self.of(target).next()
    }

    pub(super) fn grpc_status(&self) -> Option<u32> {
        let hit = self.all.iter().find(|hit| hit.target == Target::GrpcStatus)?;
        hit.value?.parse().ok()
    }
}

/// Adds a name once, lower case, if there is room.
pub(super) fn tell(names: &mut Vec<String>, name: &str) {
    if names.len() < MOST_NAMES && !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        names.push(name.to_ascii_lowercase());
    }
}
