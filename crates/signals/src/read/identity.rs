//! Whose quota an answer was about: the organisation it names, if any.

use crate::answer::Answer;
use crate::catalogue::Provider;

/// Names of organisations are shorter.
const LONGEST: usize = 64;

/// The organisation that an answer names, as sent; `None` when it names none, or nothing that could be such a name.
pub fn identity<'a>(provider: &Provider, answer: &Answer<'a>) -> Option<&'a str> {
    let is_name = |text: &&str| !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|byte| byte.is_ascii_graphic());
    provider.identity_headers().find_map(|wanted| {
        let mut values = answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value);
        values.find_map(|value| std::str::from_utf8(value).ok().map(str::trim).filter(is_name))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::catalogue::catalogue;

    fn of<'a>(provider: &str, headers: &'a [(&'a str, &'a [u8])]) -> Option<&'a str> {
        let answer = Answer { headers, ..Answer::default() };
        identity(catalogue().get(provider).unwrap(), &answer)
    }

    #[test]
    fn an_answer_may_name_its_organisation() {
        assert_eq!(of("openai", &[("OpenAI-Organization", b"acme-research")]), Some("acme-research"));
        assert_eq!(of("anthropic", &[("anthropic-organization-id", b" 0b1c ")]), Some("0b1c"));
        assert_eq!(of("anthropic", &[("openai-organization", b"acme")]), None, "another provider's header");
        for odd in [&b""[..], b"  ", b"two words", b"caf\xe9", &[b'x'; 65]] {
            assert_eq!(of("openai", &[("openai-organization", odd)]), None);
        }
    }
}
