//! What is kept for how long.

use bytes::Bytes;
use paceline_core::units::{FleetTime, Span};

use super::{Harness, body_of, commit, fresh_scope, load, must_commit, read_records, record, record_key};
use crate::register::{Commit, Committed, Expect, Loaded, RecordWrite, Store, Version};

pub(super) async fn values_and_records_live_as_long_as_told<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let now = store.now();
    let records = vec![
        kept(record(&*store, "short", "s", Expect::Absent), now, 2),
        kept(record(&*store, "long", "l", Expect::Absent), now, 8),
    ];
    let write = commit(&*store, Version::NONE, b"value", records);
    let version = must_commit(&*store, &scope, Commit { keep_until: now + Span::from_secs(5), ..write }).await;
    let (value, short, long) = (Some(version), Some(Bytes::from_static(b"s")), Some(Bytes::from_static(b"l")));
    for (seconds, value, records) in
        [(0, value, [short, long.clone()]), (3, value, [None, long.clone()]), (3, None, [None, long]), (3, None, [None, None])]
    {
        harness.pass(Span::from_secs(seconds)).await;
        let loaded = load(&*store, &scope).await;
        assert_eq!(loaded.value.as_ref().map(|_| loaded.version), value, "{seconds} s later");
        assert_eq!(read_records(&*store, &scope, &["short", "long"]).await, records, "{seconds} s later");
    }
}

pub(super) async fn lives_are_bounded<H: Harness>(harness: &H) {
    let store = harness.store();
    let (ended, endless) = (fresh_scope(), fresh_scope());
    for (scope, keep_until) in [(ended, FleetTime::ZERO), (endless, FleetTime::MAX)] {
        let records = vec![RecordWrite { keep_until, ..record(&*store, "a", "1", Expect::Absent) }];
        let write = Commit { keep_until, ..commit(&*store, Version::NONE, b"value", records) };
        must_commit(&*store, &scope, write).await;
        assert_eq!(body_of(&load(&*store, &scope).await), Some(Bytes::from_static(b"value")), "a life of a second at least");
    }
    harness.pass(Span::from_secs(3)).await;
    assert_eq!(load(&*store, &ended).await, Loaded::default());
    assert_eq!(read_records(&*store, &ended, &["a"]).await, [None]);
    assert!(load(&*store, &endless).await.value.is_some());
}

pub(super) async fn renewing_prolongs<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let mut version = Version::NONE;
    for must_be in [Expect::Absent, Expect::Anything, Expect::Anything] {
        let now = store.now();
        let records = vec![kept(record(&*store, "a", "1", must_be), now, 4)];
        let write = commit(&*store, version, b"value", records);
        version = must_commit(&*store, &scope, Commit { keep_until: now + Span::from_secs(4), ..write }).await;
        harness.pass(Span::from_secs(2)).await;
    }
    assert_eq!(load(&*store, &scope).await.version, version, "six seconds after the first commit");
    assert_eq!(read_records(&*store, &scope, &["a"]).await, [Some(Bytes::from_static(b"1"))]);
    harness.pass(Span::from_secs(3)).await;
    assert_eq!(read_records(&*store, &scope, &["a"]).await, [None]);
    // What is over is absent.
    let again = commit(&*store, Version::NONE, b"again", vec![record(&*store, "a", "2", Expect::Absent)]);
    must_commit(&*store, &scope, again).await;
    assert_eq!(read_records(&*store, &scope, &["a"]).await, [Some(Bytes::from_static(b"2"))]);
}

pub(super) async fn a_lost_value_is_no_old_version<H: Harness>(harness: &H) {
    let (store, scope) = (harness.store(), fresh_scope());
    let short = Commit { keep_until: store.now(), ..commit(&*store, Version::NONE, b"old", Vec::new()) };
    let old = must_commit(&*store, &scope, short).await;
    harness.pass(Span::from_secs(3)).await;
    let stale = commit(&*store, old, b"of a writer that missed it", vec![record(&*store, "a", "1", Expect::Anything)]);
    assert_eq!(store.commit(&scope, stale.clone()).await, Ok(Committed::Stale(Loaded::default())));
    let new = must_commit(&*store, &scope, commit(&*store, Version::NONE, b"new", Vec::new())).await;
    assert!(new > old, "versions rise over a loss: {old:?}, {new:?}");
    let answer = store.commit(&scope, stale).await;
    assert!(matches!(&answer, Ok(Committed::Stale(current)) if current.version == new), "{answer:?}");
    let keys = [record_key("a")];
    assert_eq!(store.records(&scope, &keys).await, Ok(vec![None]), "and none of the refused commits wrote its record");
}

fn kept(write: RecordWrite, now: FleetTime, seconds: i64) -> RecordWrite {
    RecordWrite { keep_until: now + Span::from_secs(seconds), ..write }
}
