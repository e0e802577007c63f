//! What of an answer may be told: no credentials, no cookies, nothing that looks like a key. Some providers quote the key they refuse.

use http::HeaderMap;

/// What stands in place of a secret.
const HIDDEN: &str = "[hidden]";
/// Request headers that carry credentials.
const CREDENTIALS: [&str; 5] = ["authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization"];
/// What the names of headers with secrets have in them.
const SECRET_NAMES: [&str; 8] = ["authoriz", "authentic", "cookie", "secret", "password", "credential", "api-key", "session"];
/// How keys of providers begin.
const KEYS: [&str; 14] =
    ["sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "hf_", "r8_", "nvapi-", "pplx-", "AIza", "ya29.", "AKIA", "eyJ"];
/// Shorter words are none.
const SHORTEST_KEY: usize = 9;

/// The credentials of a request.
pub(super) fn of(headers: &HeaderMap) -> Vec<String> {
    let values = CREDENTIALS.iter().flat_map(|name| headers.get_all(*name));
    let words = values.filter_map(|value| value.to_str().ok()).flat_map(str::split_whitespace);
    words.filter(|word| word.len() >= SHORTEST_KEY).map(str::to_owned).collect()
}

/// The headers that may be told.
pub(super) fn open(headers: &HeaderMap) -> impl Iterator<Item = (&str, &[u8])> {
    let is_open = |name: &str| !SECRET_NAMES.iter().any(|secret| name.contains(secret));
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).filter(move |(name, _)| is_open(name))
}

/// The start of an error's body as it may be told.
pub(super) fn clean(body: &[u8], secrets: &[String]) -> String {
    let mut text = String::from_utf8_lossy(body).into_owned();
    for secret in secrets {
        text = text.replace(secret.as_str(), HIDDEN);
    }
    let is_of_a_key = |sign: char| sign.is_ascii_alphanumeric() || "-_.*".contains(sign);
    let mut cleaned = String::with_capacity(text.len());
    for piece in text.split_inclusive(|sign| !is_of_a_key(sign)) {
        let word = piece.trim_end_matches(|sign| !is_of_a_key(sign));
        if word.len() >= SHORTEST_KEY && KEYS.iter().any(|key| word.starts_with(key)) {
            cleaned.push_str(HIDDEN);
            cleaned.push_str(piece.get(word.len()..).unwrap_or_default());
        } else {
            cleaned.push_str(piece);
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hidden_however_a_body_quotes_them() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer tok.en-of-mine".parse().unwrap());
        let secrets = of(&headers);
        for (body, told) in [
            ("Incorrect API key provided: sk-abcde***wxyz. See", "Incorrect API key provided: [hidden] See"),
            (r#"{"key": "tok.en-of-mine"}"#, r#"{"key": "[hidden]"}"#),
            ("use AIzaSyAbcdefgh, or not", "use [hidden], or not"),
            ("a task-list, risk-averse, sk-1", "a task-list, risk-averse, sk-1"),
        ] {
            assert_eq!(clean(body.as_bytes(), &secrets), told);
        }
    }

    #[test]
    fn headers_with_secrets_are_not_told() {
        let mut headers = HeaderMap::new();
        for name in ["set-cookie", "x-api-key", "www-authenticate", "retry-after", "x-ratelimit-remaining-tokens"] {
            headers.insert(http::HeaderName::from_static(name), "1".parse().unwrap());
        }
        let mut told: Vec<&str> = open(&headers).map(|(name, _)| name).collect();
        told.sort_unstable();
        assert_eq!(told, ["retry-after", "x-ratelimit-remaining-tokens"]);
    }
}
