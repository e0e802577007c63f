//! Whose quota the answers of this account were about. Two organisations under one name are two quotas that are counted as one:
//! levels and limits jump with every answer, and nothing here can be right. So it is told, with what tells them apart.

use paceline_core::units::{FleetTime, Span};

/// The most that are kept; later ones are not.
const MOST: usize = 8;
/// One that no answer has named for so long is forgotten.
const REMEMBERED: Span = Span::from_secs(24 * 3_600);
/// What is shown of a name: its beginning and its end.
const SHOWN: (usize, usize) = (8, 4);

/// The organisations of one scope, in this replica's memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Organisations(Vec<(String, FleetTime)>);

impl Organisations {
    /// Takes the name in an answer; whether it is another one than those before it.
    pub(super) fn note(&mut self, name: &str, now: FleetTime) -> bool {
        self.0.retain(|(_, last)| now.since(*last) < REMEMBERED);
        if let Some((_, last)) = self.0.iter_mut().find(|(known, _)| known == name) {
            *last = now;
            return false;
        }
        let is_another = !self.0.is_empty();
        if self.0.len() < MOST {
            self.0.push((name.to_owned(), now));
        }
        is_another
    }

    /// How many were named lately.
    pub(super) fn count(&self, now: FleetTime) -> usize {
        self.0.iter().filter(|(_, last)| now.since(*last) < REMEMBERED).count()
    }

    /// What tells them apart, where there are several: never a whole name that is long.
    pub(super) fn hints(&self, now: FleetTime) -> Vec<String> {
        if self.count(now) < 2 {
            return Vec::new();
        }
        self.0.iter().filter(|(_, last)| now.since(*last) < REMEMBERED).map(|(name, _)| hint(name)).collect()
    }
}

fn hint(name: &str) -> String {
    let (first, last) = SHOWN;
    match (name.get(..first), name.len().checked_sub(last).and_then(|from| name.get(from..))) {
        (Some(start), Some(end)) if name.len() > first + last => format!("{start}...{end}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_organisation_is_news_once_and_forgotten_after_a_day() {
        let mut seen = Organisations::default();
        let start = FleetTime::from_secs(1_800_000_000);
        assert!(!seen.note("acme-research", start));
        assert!(!seen.note("acme-research", start) && seen.hints(start).is_empty());
        assert!(seen.note("org-0123456789abcdef", start + Span::from_secs(1)));
        assert!(!seen.note("org-0123456789abcdef", start + Span::from_secs(2)), "once");
        assert_eq!(seen.hints(start + Span::from_secs(3)), ["acme-res...arch", "org-0123...cdef"]);
        assert_eq!(seen.count(start + Span::from_secs(24 * 3_600)), 1);
        for n in 0..100 {
            seen.note(&format!("org-{n}"), start + Span::from_secs(10));
        }
        assert_eq!(seen.count(start + Span::from_secs(10)), MOST);
    }
}
