//! `docs/adding-a-provider.md`, tried: the provider it writes down is read as it says.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod support;

use paceline_core::plan::Refill;
use paceline_core::signal::{AnswerKind, ObservedOwner, ResetMeans};
use paceline_core::units::Span;
use paceline_signals::{Answer, CatalogueError, Provider, catalogue, read, read_in_full};
use support::{Case, expected, figures};

/// The guide's blocks of one language.
fn blocks(language: &str) -> Vec<String> {
    let guide = std::fs::read_to_string(support::folder("../../docs/adding-a-provider.md")).unwrap();
    let opening = format!("```{language}\n");
    guide.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn brightwell() -> Provider {
    Provider::parse(&blocks("yaml")[0], "brightwell", catalogue()).unwrap()
}

#[test]
fn the_guides_provider_is_read_as_the_guide_says() {
    let provider = brightwell();
    let cases: Vec<Case> = blocks("jsonl")[0].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= 4);
    for case in cases {
        let reading = case.read_as(&provider);
        assert_eq!(figures(&reading), expected(&case.expect), "{}", case.id);
        assert!(reading.signal.unread_headers.is_empty() && reading.signal.malformed_headers.is_empty(), "{}", case.id);
    }
}

#[test]
fn its_facts_are_the_guides() {
    let provider = brightwell();
    let meters: Vec<_> = provider.meters().collect();
    assert_eq!(meters.len(), 1, "a file that names meters names all of them");
    assert_eq!(
        (meters[0].name, meters[0].refill, meters[0].window),
        ("credits", Some(Refill::Continuous), Some(Span::from_secs(60)))
    );
    assert_eq!((meters[0].reset_means, meters[0].owner), (ResetMeans::Full, ObservedOwner::Account));
    let headers: [(&str, &[u8]); 2] = [("brightwell-mood", b"bad"), ("retry-after", b"3")];
    let signal = read(&provider, &Answer { status: 420, headers: &headers, ..Answer::default() });
    assert_eq!(
        (signal.kind, signal.retry_after),
        (AnswerKind::Throttled, Some(Span::from_secs(3))),
        "the standards are inherited"
    );
    assert_eq!(signal.unread_headers, ["brightwell-mood"]);
}

#[test]
fn the_pasted_answer_is_the_first_case() {
    let text = &blocks("text")[0];
    let (head, body) = text.split_once("\n\n").unwrap();
    let headers: Vec<(&str, &[u8])> =
        head.lines().skip(1).filter_map(|line| line.split_once(": ")).map(|(name, value)| (name, value.as_bytes())).collect();
    let answer = Answer { status: 420, headers: &headers, body: body.as_bytes(), ..Answer::default() };
    let first: Case = serde_json::from_str(blocks("jsonl")[0].lines().next().unwrap()).unwrap();
    assert_eq!(figures(&read_in_full(&brightwell(), &answer)), expected(&first.expect));
}

fn file(name: &str, yaml: &str) -> (String, String) {
    (name.to_owned(), yaml.to_owned())
}

#[test]
fn files_of_ones_own_join_the_catalogue() {
    let files = [
        file("team", "extends: brightwell\ntitle: Team\nalso_called: [github]"),
        file("brightwell", &blocks("yaml")[0]),
        file("openai", &blocks("yaml")[1]),
    ];
    let extended = catalogue().with_files(&files).unwrap();
    assert_eq!(extended.get("brightwell").map(Provider::title), Some("Brightwell"));
    assert_eq!(extended.get("TEAM").and_then(Provider::extends), Some("brightwell"), "whatever the order of the files");
    assert_eq!(extended.get("github").map(Provider::title), Some("GitHub"), "a name goes before another one's other name");

    let openai = extended.get("openai").unwrap();
    assert_eq!(openai.title(), "OpenAI");
    assert_eq!(extended.providers().filter(|provider| provider.name() == "openai").count(), 1);
    let headers: [(&str, &[u8]); 2] = [("x-gateway-wait-ms", b"250"), ("x-ratelimit-remaining-tokens", b"7")];
    let signal = read(openai, &Answer { status: 429, headers: &headers, ..Answer::default() });
    assert_eq!((signal.retry_after, signal.buckets.len()), (Some(Span::from_millis(250)), 1));
}

#[test]
fn files_that_cannot_join_say_why() {
    let wrong = |files: &[(String, String)]| catalogue().with_files(files).unwrap_err();
    let missing = wrong(&[file("house", "extends: nowhere")]);
    assert!(matches!(missing, CatalogueError::UnknownBase { ref base, .. } if base == "nowhere"), "{missing}");
    let circle = wrong(&[file("a", "extends: b"), file("b", "extends: a")]);
    assert!(circle.to_string().contains("in turn"), "{circle}");
    let typo = wrong(&[file("house", "titel: House")]);
    assert!(typo.to_string().contains("house") && typo.to_string().contains("titel"), "{typo}");
}
