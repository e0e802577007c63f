//! What people are told of controls.

use paceline_proto::v1::{Control, ControlResponse, Limit, Touched, TouchedScope};
use prost_types::Duration;

use super::{people, read};

fn secs(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

#[test]
fn lengths_are_read_as_people_write_them() {
    for (text, expected) in [("90s", 90), ("30m", 1_800), ("4h", 14_400), ("7d", 604_800)] {
        assert_eq!(read::length(text).map(|length| length.seconds), Ok(expected), "{text}");
    }
    for (text, hint) in [
        ("30", "a number and a unit"),
        ("", "a number and a unit"),
        ("-5m", "a number and a unit"),
        ("1y", "a number and a unit"),
        ("0s", "a second at least"),
        ("8d", "longer than 7 days"),
        ("99999999999999999999h", "a number and a unit"),
    ] {
        let said = read::length(text).unwrap_err();
        assert!(said.contains(hint), "{text}: {said}");
    }
}

#[test]
fn limits_are_read_as_people_write_them() {
    let limit = |bucket: &str, units, per| Ok(Limit { bucket: bucket.to_owned(), units, per });
    assert_eq!(read::limit("requests=300/min"), limit("requests", 300, secs(60)));
    assert_eq!(read::limit("account/tokens=40_000/10s"), limit("account/tokens", 40_000, secs(10)));
    assert_eq!(read::limit("concurrency=8"), limit("concurrency", 8, None));
    for (text, hint) in [
        ("requests", "no `=`"),
        ("=3/min", "no name"),
        ("requests=many/min", "no whole number"),
        ("requests=0/min", "paceline pause"),
        ("requests=3/fortnight", "its time is none"),
    ] {
        let said = read::limit(text).unwrap_err();
        assert!(said.contains(hint), "{text}: {said}");
    }
}

#[test]
fn a_response_tells_whom_it_touches_and_how_to_undo_it() {
    let control = Control {
        id: 3,
        says: "pause".into(),
        touches: "openai/*, batch".into(),
        ends_in: secs(1_800),
        reason: "chats first".into(),
        who: "ada@desk".into(),
        ..Control::default()
    };
    let scope = TouchedScope {
        provider: "openai".into(),
        account: "prod".into(),
        groups: vec!["gpt-4o".into(), "o1".into()],
        waiting: 14,
    };
    let touched = Touched { scopes: vec![scope], groups: 2, waiting: 14, ..Touched::default() };
    let response = ControlResponse {
        control: Some(control),
        touched: Some(touched),
        undo: "paceline resume --provider openai --priority batch".into(),
        ..ControlResponse::default()
    };
    let text = people::response(&response, false, false);
    let expected = "\
pause 3 for openai/*, batch: in force at every replica within 2 s, for 1800 s
  touches  1 scope, 2 groups of models, 14 waiting calls
           openai/prod: gpt-4o, o1 (14 waiting)
  why      chats first (ada@desk)
  undo     paceline resume --provider openai --priority batch
";
    assert_eq!(text.replace("30 min", "1800 s"), expected);
    assert!(people::response(&response, true, false).ends_with("Nothing was changed (--dry-run).\n"));
}
