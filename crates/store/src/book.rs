//! The book of controls in a store: one register of its own, changed by load and compare-and-swap.

use std::sync::Arc;

use bytes::Bytes;
use paceline_core::controls::{Book, Control, Kind, MOST_CONTROLS, OverLimit, Pending, What, Whom};
use paceline_core::mode::Mode;
use paceline_core::plan::Class;
use paceline_core::units::{FleetTime, Span};
use prost::Message;

use crate::codec::{HEADER_BYTES, Header};
use crate::error::{CodecError, StoreError};
use crate::key::ScopeKey;
use crate::life::bounded;
use crate::register::{Commit, Committed, Loaded, Store, Version};

/// The schema of books that this release writes, and the newest that it reads. A later release raises it for what an older one must
/// not pass over, such as a control that selects by something else: a replica that does not know it leaves the book alone.
const SCHEMA: u32 = 1;
/// So many people at once are too many.
const TRIES: usize = 20;

/// Reads the book; none is an empty one.
///
/// # Errors
/// The store is away; what it holds was written by a newer release, or is damaged.
pub async fn load_book<S: Store>(store: &S) -> Result<(Version, Book), StoreError> {
    let loaded = store.load(&ScopeKey::of_controls()).await?;
    let book = read(&loaded)?;
    Ok((loaded.version, book))
}

/// Changes the book, so that of two people who change it at once neither is lost. `writer`: the number of this replica.
/// `change` may be called several times. Returns the version and what was changed.
///
/// # Errors
/// As [`load_book`]; the error of `change`.
pub async fn change_book<S: Store, E>(
    store: &S,
    writer: u32,
    mut change: impl FnMut(&Book, FleetTime) -> Result<Pending, E> + Send,
) -> Result<(Version, Pending), ChangeError<E>> {
    let key = ScopeKey::of_controls();
    let mut loaded = store.load(&key).await.map_err(ChangeError::Store)?;
    for _ in 0..TRIES {
        let book = read(&loaded).map_err(ChangeError::Store)?;
        let now = store.now();
        let pending = change(&book, now).map_err(ChangeError::Refused)?;
        if pending.added.is_none() && pending.ended.is_empty() {
            return Ok((loaded.version, pending));
        }
        let version = loaded.version.next(now);
        let value = write(&pending.book, version, writer);
        let keep_until = bounded(pending.book.matters_until(), now);
        let commit = Commit { expected: loaded.version, value, keep_until, records: Vec::new() };
        match store.commit(&key, commit).await.map_err(ChangeError::Store)? {
            Committed::Done(version) => return Ok((version, pending)),
            Committed::Stale(newer) => loaded = newer,
            // It writes no records.
            Committed::RecordExists { .. } => loaded = store.load(&key).await.map_err(ChangeError::Store)?,
        }
    }
    Err(ChangeError::Store(StoreError::Unavailable { detail: "too many change the controls at once; try again".to_owned() }))
}

/// Why the book was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError<E> {
    /// The store.
    #[error(transparent)]
    Store(StoreError),
    /// What was to be changed cannot be.
    #[error("{0}")]
    Refused(E),
}

/// What a book's register holds as bytes.
pub(crate) fn write(book: &Book, version: Version, writer: u32) -> Bytes {
    let header = Header::new(1, version, u64::from(writer)).in_schema(SCHEMA);
    let stored = StoredBook {
        controls: book.controls().iter().map(stored).collect(),
        last_id: book.last_id(),
        limits_at: book.limits_at().as_micros(),
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + stored.encoded_len());
    bytes.extend(header.to_bytes());
    stored.encode_raw(&mut bytes);
    bytes.into()
}

/// A control that cannot be read is left out: the others hold.
pub(crate) fn read(loaded: &Loaded) -> Result<Book, StoreError> {
    let Some(bytes) = &loaded.value else { return Ok(Book::default()) };
    let header = Header::read(bytes)?;
    if header.min_reader > SCHEMA {
        return Err(CodecError::TooNew { needed: header.min_reader, known: SCHEMA }.into());
    }
    let body = StoredBook::decode(bytes.slice(HEADER_BYTES..)).map_err(CodecError::from)?;
    let controls = body.controls.into_iter().take(MOST_CONTROLS).filter_map(control).collect();
    Ok(Book::from_parts(controls, body.last_id, FleetTime::from_micros(body.limits_at)))
}

// Instants are microseconds since the Unix epoch, spans are microseconds. Tags never change their meaning.

#[derive(Clone, PartialEq, Message)]
struct StoredBook {
    #[prost(message, repeated, tag = "1")]
    controls: Vec<StoredControl>,
    #[prost(uint64, tag = "2")]
    last_id: u64,
    #[prost(int64, tag = "3")]
    limits_at: i64,
}

#[derive(Clone, PartialEq, Message)]
struct StoredControl {
    #[prost(uint64, tag = "1")]
    id: u64,
    /// Position in [`Kind::ALL`], from 1.
    #[prost(uint32, tag = "2")]
    kind: u32,
    #[prost(string, tag = "3")]
    provider: String,
    #[prost(string, tag = "4")]
    account: String,
    #[prost(string, tag = "5")]
    model: String,
    #[prost(string, tag = "6")]
    tenant: String,
    /// Position in [`Class::ALL`].
    #[prost(uint32, optional, tag = "7")]
    class: Option<u32>,
    #[prost(int64, tag = "8")]
    since: i64,
    #[prost(int64, tag = "9")]
    ends: i64,
    #[prost(string, tag = "10")]
    reason: String,
    #[prost(string, tag = "11")]
    who: String,
    /// [`Mode::index`].
    #[prost(uint32, tag = "12")]
    mode: u32,
    #[prost(string, tag = "13")]
    bucket: String,
    #[prost(uint64, tag = "14")]
    units: u64,
    #[prost(int64, optional, tag = "15")]
    per: Option<i64>,
}

fn stored(control: &Control) -> StoredControl {
    let Control { id, what, whom, since, ends, reason, who } = control;
    let Whom { provider, account, model, tenant, class } = whom;
    let mut stored = StoredControl {
        id: *id,
        provider: provider.to_string(),
        account: account.to_string(),
        model: model.to_string(),
        tenant: tenant.to_string(),
        class: class.map(|class| small(class.index())),
        since: since.as_micros(),
        ends: ends.as_micros(),
        reason: reason.to_string(),
        who: who.to_string(),
        ..StoredControl::default()
    };
    stored.kind = match what {
        What::Mode(mode) => {
            stored.mode = small(mode.index());
            1
        }
        What::Pause => 2,
        What::Limit(OverLimit { bucket, units, per }) => {
            (stored.bucket, stored.units, stored.per) = (bucket.to_string(), *units, per.map(Span::as_micros));
            3
        }
    };
    stored
}

fn control(stored: StoredControl) -> Option<Control> {
    let kind = stored.kind.checked_sub(1).and_then(|index| Kind::ALL.get(usize::try_from(index).ok()?).copied())?;
    let what = match kind {
        Kind::Mode => What::Mode(Mode::from_index(usize::try_from(stored.mode).ok()?)?),
        Kind::Pause => What::Pause,
        Kind::Limit => {
            let per = stored.per.map(Span::from_micros);
            let is_sound = stored.units > 0 && per.is_none_or(|per| per > Span::ZERO);
            is_sound.then(|| What::Limit(OverLimit { bucket: Arc::from(stored.bucket), units: stored.units, per }))?
        }
    };
    let class = match stored.class {
        Some(index) => Some(*Class::ALL.get(usize::try_from(index).ok()?)?),
        None => None,
    };
    Some(Control {
        id: stored.id,
        what,
        whom: Whom {
            provider: Arc::from(stored.provider),
            account: Arc::from(stored.account),
            model: Arc::from(stored.model),
            tenant: Arc::from(stored.tenant),
            class,
        },
        since: FleetTime::from_micros(stored.since),
        ends: FleetTime::from_micros(stored.ends),
        reason: Arc::from(stored.reason),
        who: Arc::from(stored.who),
    })
}

fn small(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use paceline_core::controls::{New, USUAL_LENGTH};
    use proptest::prelude::*;

    use super::*;

    const NOW: FleetTime = FleetTime::from_secs(1_800_000_000);

    fn what() -> impl Strategy<Value = What> {
        let limit = ("[a-z/]{1,12}", 1_u64.., proptest::option::of(1_i64..86_400)).prop_map(|(bucket, units, per)| {
            What::Limit(OverLimit { bucket: Arc::from(bucket), units, per: per.map(Span::from_secs) })
        });
        prop_oneof![(0_usize..3).prop_map(|mode| What::Mode(Mode::ALL[mode])), Just(What::Pause), limit]
    }

    fn whom() -> impl Strategy<Value = Whom> {
        let names = ["[a-z*?]{0,4}", "[a-z*?]{0,4}", "[a-z*?]{0,4}", "\\PC{0,4}"];
        (names, proptest::option::of(0_usize..3)).prop_map(|([provider, account, model, tenant], class)| Whom {
            provider: Arc::from(provider),
            account: Arc::from(account),
            model: Arc::from(model),
            tenant: Arc::from(tenant),
            class: class.map(|class| Class::ALL[class]),
        })
    }

    proptest! {
        /// Every book comes back as it was written.
        #[test]
        fn books_come_back(said in proptest::collection::vec((what(), whom(), "\\PC{1,20}"), 0..12)) {
            let mut book = Book::default();
            for (what, whom, text) in said {
                let new = New { what, whom, lasts: USUAL_LENGTH, reason: Arc::from(text.as_str()), who: Arc::from(text) };
                if let Ok(pending) = book.say(new, NOW) {
                    book = pending.book;
                }
            }
            let version = Version(7);
            let value = Some(write(&book, version, 3));
            prop_assert_eq!(read(&Loaded { version, value, has_no_records: false }), Ok(book));
        }

        /// Whatever bytes there are, nothing panics.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&Loaded { version: Version(1), value: Some(bytes.into()), has_no_records: false });
        }
    }

    #[test]
    fn a_newer_book_is_left_alone() {
        let newer = Header::new(1, Version(1), 1).in_schema(SCHEMA + 1).to_bytes();
        let loaded = Loaded { version: Version(1), value: Some(Bytes::copy_from_slice(&newer)), has_no_records: false };
        let refused = read(&loaded).unwrap_err();
        assert!(refused.to_string().contains("upgrade this replica"), "{refused}");
    }
}
