//! What an answer was about: the catalogue's rules, in order, and the headers that forbid or ask for another attempt.

use paceline_core::signal::AnswerKind;

use super::body::{Body, bare_code};
use super::hits::Hits;
use crate::catalogue::{AnswerFact, Provider, Target};

/// What rules may look at.
pub(super) struct View<'a> {
    pub(super) status: u32,
    pub(super) grpc: Option<u32>,
    pub(super) headers: &'a [(&'a str, &'a [u8])],
    pub(super) body: &'a Body<'a>,
    pub(super) has_wait: bool,
    pub(super) has_empty: bool,
    pub(super) has_zero: bool,
}

/// What the answer was about and whether the same request is worth sending again later.
pub(super) struct Verdict {
    pub(super) kind: AnswerKind,
    pub(super) retryable: bool,
}

/// Applies the first rule that fits; without one a success is a success and anything else is final.
pub(super) fn classify(provider: &Provider, view: &View<'_>, hits: &Hits<'_, '_>, forbidden: bool) -> Verdict {
    let rule = provider.rule_for(view.status, view.grpc, |rule| view.fits(rule));
    let default = if (200..400).contains(&view.status) { AnswerKind::Ok } else { AnswerKind::Rejected };
    let kind = rule.map_or(default, |rule| rule.kind);
    let retryable = rule
        .and_then(|rule| rule.retryable)
        .unwrap_or(matches!(kind, AnswerKind::Throttled | AnswerKind::Overloaded | AnswerKind::Failed));
    let is_hopeless = matches!(kind, AnswerKind::Ok | AnswerKind::QuotaExhausted | AnswerKind::Impossible);
    let retryable = match flag(hits) {
        Some(false) => false,
        // The provider's wish does not fill an empty purse.
        Some(true) => !is_hopeless,
        None => retryable,
    };
    Verdict { kind, retryable: retryable && !forbidden }
}

impl View<'_> {
    fn fits(&self, rule: &AnswerFact) -> bool {
        let grpc_fits = rule.grpc.is_empty() || self.grpc.is_some_and(|status| rule.grpc.contains(status));
        (rule.status.is_empty() || rule.status.contains(self.status))
            && grpc_fits
            && rule.wait.is_none_or(|wait| wait == self.has_wait)
            && rule.empty.is_none_or(|empty| empty == self.has_empty)
            && rule.zero.is_none_or(|zero| zero == self.has_zero)
            && (rule.code.is_empty() || self.body.has_code(&rule.code))
            && (rule.text.is_empty() || self.body.has_text(&rule.text))
            && rule.header.as_ref().is_none_or(|header| self.has_header(&header.name, &header.is))
    }

    fn has_header(&self, name: &str, values: &[String]) -> bool {
        let of_that_name = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        of_that_name
            .filter_map(|(_, value)| std::str::from_utf8(value).ok())
            .any(|value| values.iter().any(|wanted| bare_code(value).eq_ignore_ascii_case(wanted)))
    }
}

/// `x-should-retry`; when it is repeated, `false` wins.
fn flag(hits: &Hits<'_, '_>) -> Option<bool> {
    let flags = hits.of(&Target::Flag).filter_map(|hit| hit.value);
    flags.filter_map(|value| value.to_ascii_lowercase().parse::<bool>().ok()).min()
}
