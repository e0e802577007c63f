//! Whether a refusal names the model that its call was for.

use crate::settings::AnswerParts;

/// Whether the body, or a header that tells of a limit, names the model.
pub(crate) fn names_model(model: &str, answer: &AnswerParts<'_>) -> bool {
    // `openai/gpt-4o` at a gateway is `gpt-4o` to who refuses.
    let model = model.rsplit('/').next().unwrap_or(model);
    let in_headers = || {
        answer.headers.iter().filter(|(name, _)| tells_of_a_limit(name)).any(|(name, value)| {
            // The words of a header's name are divided by dashes.
            contains(value.as_bytes(), model, b"-_.") || contains(name.as_bytes(), model, b"")
        })
    };
    contains(answer.body, model, b"-_.") || in_headers()
}

fn tells_of_a_limit(header: &str) -> bool {
    ["limit", "quota", "retry"].iter().any(|word| header.to_ascii_lowercase().contains(word))
}

/// Whether a name stands in a text, and is not a part of another word, which `joins` go on. What follows a dash may be its version.
fn contains(text: &[u8], name: &str, joins: &[u8]) -> bool {
    let is_part_of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || joins.contains(&byte);
    let name = name.as_bytes();
    !name.is_empty()
        && text.windows(name.len()).enumerate().any(|(at, window)| {
            let before = at.checked_sub(1).and_then(|before| text.get(before));
            window.eq_ignore_ascii_case(name)
                && before.is_none_or(|byte| !is_part_of_a_name(*byte))
                && text.get(at + name.len()).is_none_or(|byte| !byte.is_ascii_alphanumeric())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(model: &str, headers: &[(&str, &str)], body: &str) -> bool {
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let answer = AnswerParts {
            status: 429,
            grpc_status: None,
            headers: &headers,
            body: body.as_bytes(),
            received_at_micros: 0,
            age_micros: 0,
        };
        names_model(model, &answer)
    }

    #[test]
    fn a_name_is_a_word() {
        let said =
            r#"{"error": {"message": "Rate limit reached for GPT-4o-2024-08-06 in organization org-x on tokens per min"}}"#;
        assert!(named("gpt-4o", &[], said));
        assert!(named("openai/gpt-4o", &[], said));
        for other in ["gpt-4", "4o", "o", "m", "", "gpt-5"] {
            assert!(!named(other, &[], said), "{other:?}");
        }
        assert!(named("m", &[], "m: slow down") && named("m", &[], "not m") && !named("m", &[], "message"));
    }

    #[test]
    fn headers_count_that_tell_of_a_limit() {
        assert!(named("gpt-4o", &[("X-RateLimit-Remaining-gpt-4o", "0")], ""));
        assert!(named("gpt-4o", &[("x-ratelimit-bucket", "gpt-4o")], ""));
        assert!(
            !named("gpt-4o", &[("openai-model", "gpt-4o"), ("x-request-id", "gpt-4o")], ""),
            "who answered, and not whose limit"
        );
    }
}
