//! One user after the other: what is read, what is refused, and that a refusal writes nothing.

use bytes::Bytes;
use paceline_core::units::Span;

use super::{Harness, body_of, commit, fresh_scope, load, must_commit, read_records, record, record_key, sealed};
use crate::error::StoreError;
use crate::register::{Committed, Expect, Loaded, RecordWrite, Store, Version};

pub(super) async fn nothing_is_stored_at_first<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    assert_eq!(load(&*store, &scope).await, Loaded::default());
    assert_eq!(read_records(&*store, &scope, &["a", "b"]).await, [None, None]);
    assert_eq!(read_records(&*store, &scope, &[]).await, [None; 0]);
}

pub(super) async fn a_commit_is_read_back_by_all<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let records = vec![record(&*store, "a", "1", Expect::Absent), record(&*store, "b", "2", Expect::Anything)];
    let first = must_commit(&*store, &scope, commit(&*store, Version::NONE, b"one", records)).await;
    assert!(first > Version::NONE);
    let other = harness.store();
    let loaded = load(&*other, &scope).await;
    assert_eq!((loaded.version, body_of(&loaded)), (first, Some(Bytes::from_static(b"one"))));
    let read = read_records(&*other, &scope, &["b", "nobody's", "a"]).await;
    assert_eq!(read, [Some(Bytes::from_static(b"2")), None, Some(Bytes::from_static(b"1"))], "in the order asked for");
    let second = must_commit(&*other, &scope, commit(&*other, first, b"two", Vec::new())).await;
    assert!(second > first, "{second:?} after {first:?}");
    assert_eq!(body_of(&load(&*store, &scope).await), Some(Bytes::from_static(b"two")));
    assert_eq!(read_records(&*store, &scope, &["a"]).await, [Some(Bytes::from_static(b"1"))], "records outlive commits");
}

/// Who trusts it skips the look for each of its own keys: it must never say so while a record is there, wherever that lies.
pub(super) async fn a_scope_without_records_says_so<H: Harness>(harness: &H) {
    let (store, other, scope) = (harness.store(), harness.store(), fresh_scope());
    let has_none = async |store: &H::Store| store.load(&scope).await.expect("load").has_no_records;
    assert!(has_none(&store).await);
    let first = must_commit(&*store, &scope, commit(&*store, Version::NONE, b"one", Vec::new())).await;
    assert!(has_none(&other).await, "a value alone");
    let mut version = first;
    for secs in [60, 400, 1_800, 86_400 * 30] {
        let scope = fresh_scope();
        let keep_until = store.now() + Span::from_secs(secs);
        let records = vec![RecordWrite { keep_until, ..record(&*store, "a", "1", Expect::Anything) }];
        must_commit(&*store, &scope, commit(&*store, Version::NONE, b"one", records)).await;
        assert!(!other.load(&scope).await.expect("load").has_no_records, "a record of {secs} s");
    }
    version =
        must_commit(&*store, &scope, commit(&*store, version, b"two", vec![record(&*store, "b", "2", Expect::Absent)])).await;
    assert!(version > first && !has_none(&other).await);
}

pub(super) async fn a_stale_commit_writes_nothing<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let first = must_commit(&*store, &scope, commit(&*store, Version::NONE, b"one", Vec::new())).await;
    for expected in [Version::NONE, Version(first.0 - 1), Version(first.0 + 1), Version(u64::MAX - 1)] {
        let attempt = commit(&*store, expected, b"stale", vec![record(&*store, "a", "stale", Expect::Anything)]);
        let Ok(Committed::Stale(current)) = store.commit(&scope, attempt).await else {
            assert_eq!(expected, first, "a commit over another version than the stored one is stale");
            return;
        };
        assert_eq!((current.version, body_of(&current)), (first, Some(Bytes::from_static(b"one"))), "it answers what is there");
    }
    assert_eq!(read_records(&*store, &scope, &["a"]).await, [None]);
    // A value that was never there, or is no more.
    let (gone, attempt) = (fresh_scope(), commit(&*store, first, b"stale", Vec::new()));
    assert_eq!(store.commit(&gone, attempt).await, Ok(Committed::Stale(Loaded::default())));
    assert_eq!(load(&*store, &gone).await, Loaded::default());
}

pub(super) async fn a_present_record_stops_the_whole_commit<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let present = vec![record(&*store, "a", "first", Expect::Absent), record(&*store, "b", "another", Expect::Absent)];
    let first = must_commit(&*store, &scope, commit(&*store, Version::NONE, b"one", present)).await;
    let records = vec![
        record(&*store, "new", "n", Expect::Absent),
        record(&*store, "other", "o", Expect::Anything),
        record(&*store, "b", "o", Expect::Absent),
        record(&*store, "a", "second", Expect::Absent),
    ];
    let found = vec![(record_key("b"), Bytes::from_static(b"another")), (record_key("a"), Bytes::from_static(b"first"))];
    let exists = Committed::RecordExists { found };
    assert_eq!(store.commit(&scope, commit(&*store, first, b"two", records.clone())).await, Ok(exists));
    assert_eq!(body_of(&load(&*store, &scope).await), Some(Bytes::from_static(b"one")), "the value is as it was");
    let read = read_records(&*store, &scope, &["new", "other", "a"]).await;
    assert_eq!(read, [None, None, Some(Bytes::from_static(b"first"))], "and so are the records");
    let stale = store.commit(&scope, commit(&*store, Version::NONE, b"two", records)).await;
    assert!(matches!(stale, Ok(Committed::Stale(_))), "the version is checked first: {stale:?}");
}

pub(super) async fn records_are_overwritten_when_asked<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let mut version = Version::NONE;
    for value in ["one", "two", ""] {
        let records = vec![record(&*store, "a", value, Expect::Anything)];
        version = must_commit(&*store, &scope, commit(&*store, version, b"value", records)).await;
        assert_eq!(read_records(&*store, &scope, &["a", "a"]).await, vec![Some(Bytes::copy_from_slice(value.as_bytes())); 2]);
    }
    let again = commit(&*store, version, b"value", vec![record(&*store, "a", "three", Expect::Absent)]);
    let found = store.commit(&scope, again).await;
    assert_eq!(
        found,
        Ok(Committed::RecordExists { found: vec![(record_key("a"), Bytes::new())] }),
        "an empty record is a record"
    );
}

pub(super) async fn invalid_commits_write_nothing<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let first = must_commit(&*store, &scope, commit(&*store, Version::NONE, b"one", Vec::new())).await;
    let good = commit(&*store, first, b"two", Vec::new());
    let twice = vec![record(&*store, "a", "1", Expect::Absent), record(&*store, "a", "2", Expect::Absent)];
    for (what, bad) in [
        ("no header", crate::Commit { value: Bytes::from_static(b"short"), ..good.clone() }),
        ("the same version", crate::Commit { value: sealed(first, b"two"), ..good.clone() }),
        ("no version", crate::Commit { value: sealed(Version::NONE, b"two"), ..good.clone() }),
        ("a record twice", crate::Commit { records: twice, ..good }),
    ] {
        let answer = store.commit(&scope, bad).await;
        assert!(matches!(answer, Err(StoreError::Invalid { .. })), "{what}: {answer:?}");
    }
    assert_eq!(load(&*store, &scope).await.version, first);
    assert_eq!(read_records(&*store, &scope, &["a"]).await, [None]);
}

pub(super) async fn scopes_do_not_see_each_other<H: Harness>(harness: &H) {
    let store = harness.store();
    let (one, two) = (fresh_scope(), fresh_scope());
    let records = vec![record(&*store, "a", "one's", Expect::Absent)];
    let version = must_commit(&*store, &one, commit(&*store, Version::NONE, b"one", records)).await;
    assert_eq!(load(&*store, &two).await, Loaded::default());
    assert_eq!(read_records(&*store, &two, &["a"]).await, [None]);
    let records = vec![record(&*store, "a", "two's", Expect::Absent)];
    must_commit(&*store, &two, commit(&*store, Version::NONE, b"two", records)).await;
    assert_eq!(load(&*store, &one).await.version, version);
    assert_eq!(read_records(&*store, &one, &["a"]).await, [Some(Bytes::from_static(b"one's"))]);
}

pub(super) async fn any_bytes_and_sizes_come_back<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let mut version = Version::NONE;
    for body in [Vec::new(), all.clone(), all.repeat(1_024)] {
        let mut writes = vec![record(&*store, "a", "", Expect::Anything)];
        writes.iter_mut().for_each(|write| write.value = body.clone().into());
        version = must_commit(&*store, &scope, commit(&*store, version, &body, writes)).await;
        assert!(body_of(&load(&*store, &scope).await).is_some_and(|read| read == body), "{} bytes", body.len());
        assert!(read_records(&*store, &scope, &["a"]).await == [Some(Bytes::from(body))]);
    }
    // A batch of a thousand, the most that one message brings.
    let names: Vec<String> = (0..1_000).map(|number| format!("record {number}")).collect();
    let writes = names.iter().map(|name| record(&*store, name, name, Expect::Absent)).collect();
    must_commit(&*store, &scope, commit(&*store, version, b"many", writes)).await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let read = read_records(&*store, &scope, &names).await;
    assert!(names.iter().zip(&read).all(|(name, value)| value.as_deref() == Some(name.as_bytes())));
}
