//! Keeps secrets that ended up in a configuration out of messages (law I-12): a key pasted as an account's name, a password in
//! a store's address, a value under a key that sounds secret.

/// How the vendors' keys begin; with a length of [`KEY_LENGTH`] or more it is one.
const KEY_PREFIXES: [&str; 10] = ["sk-", "sk_", "gsk_", "xai-", "AIza", "ghp_", "github_pat_", "hf_", "pplx-", "AKIA"];
const KEY_LENGTH: usize = 20;
/// Keys whose values are not shown.
const SECRET_WORDS: [&str; 6] = ["secret", "password", "token:", "api_key", "apikey", "authorization"];

/// Whether this looks like a vendor's key rather than a name: such a text must not be shown, stored or used as a label (I-12).
pub fn looks_like_a_key(text: &str) -> bool {
    text.len() >= KEY_LENGTH && KEY_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// A name that may be shown: a vendor's key becomes its first four characters and stars.
pub(crate) fn name(text: &str) -> String {
    if looks_like_a_key(text) { format!("{}****", text.chars().take(4).collect::<String>()) } else { text.to_owned() }
}

/// A line that may be shown, of the same length: what looks secret is stars.
pub(crate) fn line(text: &str) -> String {
    let mut out = passwords(text);
    let lower = out.to_ascii_lowercase();
    if let Some(word) = SECRET_WORDS.iter().find(|word| lower.contains(*word)) {
        let colon = lower.find(word).and_then(|at| lower.get(at..)?.find(':').map(|more| at + more + 1));
        out = mask_from(&out, colon.unwrap_or(0));
    }
    let mut masked = String::with_capacity(out.len());
    for word in out.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))) {
        if looks_like_a_key(word) { masked.push_str(&mask_from(word, 4)) } else { masked.push_str(word) }
    }
    masked
}

/// `scheme://user:password@host`: what stands between `//` and `@` is masked.
fn passwords(text: &str) -> String {
    let Some((before, after)) = text.split_once("://") else { return text.to_owned() };
    let authority_end = after.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(after.len());
    let Some(at) = after.get(..authority_end).and_then(|authority| authority.rfind('@')) else { return text.to_owned() };
    let (user, rest) = after.split_at(at);
    format!("{before}://{}{rest}", "*".repeat(user.chars().count()))
}

/// Stars for every letter and digit from byte `from` on.
fn mask_from(text: &str, from: usize) -> String {
    text.char_indices().map(|(at, c)| if at >= from && c.is_alphanumeric() { '*' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_lines_keep_their_length() {
        for (given, shown) in [
            ("store: redis://app:hunter2@redis:6379/0", "store: redis://***********@redis:6379/0"),
            ("store: redis://redis:6379", "store: redis://redis:6379"),
            ("    api_key: abc123", "    api_key: ******"),
            ("  sk-proj-0123456789abcdefghij: {}", "  sk-p***-********************: {}"),
            ("tokens: 500/min", "tokens: 500/min"),
        ] {
            assert_eq!(line(given), shown);
            assert_eq!(line(given).chars().count(), given.chars().count());
        }
    }

    #[test]
    fn ordinary_names_are_not_keys() {
        for fine in ["prod", "sk-team", "skyline-production-account", "text-embedding-3-large-v2"] {
            assert!(!looks_like_a_key(fine), "{fine}");
        }
        assert_eq!(name("gsk_0123456789abcdefghij"), "gsk_****");
    }
}
