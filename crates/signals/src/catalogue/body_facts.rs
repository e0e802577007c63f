//! What a provider's file says about bodies: where codes, sentences, waits and buckets are.

use serde::Deserialize;

use super::facts::BucketFact;
use super::matching::BodyPath;
use super::provenance::{Provenance, fact};
use crate::value::time::TimeForm;

/// What to look for in a body.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BodyFacts {
    /// Where sentences for people are.
    pub(crate) texts: Vec<BodyPath>,
    /// Where codes for programs are.
    pub(crate) codes: Vec<BodyPath>,
    /// Where waits are, first usable one counts.
    pub(crate) waits: Vec<BodyWaitFact>,
    /// Buckets that a body describes, be it of a refusal or of a success.
    pub(crate) buckets: Vec<BodyBucketFact>,
    /// Quotas that a refusal names because they are used up.
    pub(crate) quotas: Vec<QuotaFact>,
    /// Header fields that a body repeats.
    pub(crate) headers: Vec<RepeatedHeadersFact>,
    /// Lists of buckets.
    pub(crate) lists: Vec<BucketListFact>,
}

fact!(
    /// A wait in a body: in fields, or in sentences.
    BodyWaitFact {
        /// Fields; the largest usable value counts.
        #[serde(default)]
        fields: Vec<BodyPath>,
        /// How the fields are written.
        #[serde(default)]
        forms: Vec<TimeForm>,
        /// Phrases after which a sentence states the wait.
        #[serde(default)]
        after: Vec<String>,
    }
);

fact!(
    /// A bucket that a body describes. What is missing for the request, at the rate of refill, is the wait.
    BodyBucketFact {
        /// Which bucket.
        bucket: BucketFact,
        /// Where its limit is.
        limit: BodyPath,
        /// Where it says what is left.
        remaining: BodyPath,
        /// Where it says how many units come back per second.
        #[serde(default)]
        per_second: Option<BodyPath>,
        /// Where it says what the request costs.
        #[serde(default)]
        cost: Option<BodyPath>,
    }
);

fact!(
    /// Quotas that a refusal names because they are used up. What each counts, and per how long, is in the words of its name.
    QuotaFact {
        /// Where the objects are.
        at: BodyPath,
        /// The member with its name; the words are told apart by capitals, blanks and marks.
        name: String,
        /// The member to look into for what it counts when the name does not say.
        #[serde(default)]
        metric: Option<String>,
        /// The member with its limit; zero means that there is no quota at all.
        #[serde(default)]
        limit: Option<String>,
        /// Where its day ends (IANA name), for quotas per day.
        #[serde(default)]
        zone: Option<String>,
    }
);

fact!(
    /// Header fields that a body repeats, because a gateway got them from somewhere else. They are read like headers and count
    /// like a body.
    RepeatedHeadersFact {
        /// The object whose members are header fields.
        at: BodyPath,
    }
);

fact!(
    /// A list of buckets in a body.
    BucketListFact {
        /// Where the objects are.
        at: BodyPath,
        /// Bodies without this text are not looked into.
        marker: String,
        /// The member with the words that name the bucket.
        name: String,
        /// The member with its limit.
        limit: String,
        /// The member that says what is left.
        remaining: String,
        /// The member with its reset.
        reset: String,
        /// How the reset is written.
        forms: Vec<TimeForm>,
    }
);

impl BodyFacts {
    /// These in front of those of the file that is extended.
    pub(crate) fn over(mut self, base: &Self) -> Self {
        fn front<T: Clone>(own: &mut Vec<T>, base: &[T]) {
            own.extend(base.iter().cloned());
        }
        front(&mut self.texts, &base.texts);
        front(&mut self.codes, &base.codes);
        front(&mut self.waits, &base.waits);
        front(&mut self.buckets, &base.buckets);
        front(&mut self.quotas, &base.quotas);
        front(&mut self.headers, &base.headers);
        front(&mut self.lists, &base.lists);
        self
    }

    /// Gives the entries the file's `checked` and `sure` where they have none of their own.
    pub(crate) fn stamp(&mut self, file: &Provenance) {
        self.waits.iter_mut().for_each(|fact| fact.stamp(file));
        self.buckets.iter_mut().for_each(|fact| fact.stamp(file));
        self.quotas.iter_mut().for_each(|fact| fact.stamp(file));
        self.headers.iter_mut().for_each(|fact| fact.stamp(file));
        self.lists.iter_mut().for_each(|fact| fact.stamp(file));
    }

    /// Every fact that must have a source, with what it is about.
    pub(crate) fn provenances(&self) -> Vec<(String, Provenance)> {
        let mut all = Vec::new();
        let wait_places = |fact: &BodyWaitFact| {
            fact.fields.iter().map(ToString::to_string).chain(fact.after.iter().cloned()).collect::<Vec<_>>().join(", ")
        };
        all.extend(self.waits.iter().map(|fact| (format!("body {}", wait_places(fact)), fact.provenance())));
        all.extend(self.buckets.iter().map(|fact| (format!("body {}", fact.remaining), fact.provenance())));
        all.extend(self.quotas.iter().map(|fact| (format!("body {}", fact.at), fact.provenance())));
        all.extend(self.headers.iter().map(|fact| (format!("body {}", fact.at), fact.provenance())));
        all.extend(self.lists.iter().map(|fact| (format!("body {}", fact.at), fact.provenance())));
        all
    }
}
