//! Which replica a scope goes to: rendezvous hashing (highest random weight; Thaler and Ravishankar, 1998).
//!
//! Every client that knows the same replicas sends a scope to the same one, so that its leader is where its calls arrive. When a
//! replica goes, only its scopes move; when one comes, only those it takes. The weight is the same in every language: FNV-1a
//! (64 bits) over provider, a zero byte, account, a zero byte and the replica's name, then the finaliser of MurmurHash3.

use std::cmp::Reverse;

use paceline_proto::v1::Target;

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Where the calls of one scope go: to the replica that weighs most for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    scope: u64,
}

impl Route {
    /// The route of a target's scope: its model plays no part.
    pub(crate) fn of(target: &Target) -> Self {
        Self::new(&target.provider, &target.account)
    }

    pub(crate) fn new(provider: &str, account: &str) -> Self {
        let named = |hash, name: &str| fnv(fnv(hash, name.as_bytes()), &[0]);
        Self { scope: named(named(FNV_OFFSET, provider), account) }
    }

    /// The route of one call, where the calls of a scope are spread over all replicas.
    pub(crate) fn of_call(self, request_id: &str) -> Self {
        Self { scope: fnv(self.scope, request_id.as_bytes()) }
    }

    /// How much a replica weighs for this scope.
    pub(crate) fn weight(self, replica: &str) -> u64 {
        mixed(fnv(self.scope, replica.as_bytes()))
    }
}

/// The replica that a scope's calls go to first, as [`Limiter`](crate::Limiter) chooses it; `None` when there is none. Names are
/// `ip:port` where a client found replicas by a name.
pub fn replica_for<'a>(provider: &str, account: &str, replicas: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let route = Route::new(provider, account);
    replicas.into_iter().max_by_key(|name| (route.weight(name), Reverse(*name)))
}

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

/// Spreads what FNV leaves similar: each bit depends on all.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    fn to<'a>(account: &str, replicas: &'a [String]) -> Option<&'a str> {
        replica_for("openai", account, replicas.iter().map(String::as_str))
    }

    /// What a client in another language must come to as well.
    #[test]
    fn the_weight_is_the_same_everywhere() {
        assert_eq!(fnv(FNV_OFFSET, b"foobar"), 0x8594_4171_f739_67e8, "a published vector of FNV-1a");
        assert_eq!(mixed(1), 0xb456_bcfc_34c2_cb2c, "a published vector of fmix64");
        assert_eq!(Route::new("openai", "prod").weight("10.0.0.1:7070"), 0x1302_8db1_955e_a6b4);
        let replicas = ["10.0.0.1:7070", "10.0.0.2:7070", "10.0.0.3:7070"];
        let chosen: Vec<_> = ["", "prod", "batch", "eval"].map(|account| replica_for("openai", account, replicas)).into();
        let expected = [replicas[2], replicas[2], replicas[1], replicas[0]].map(Some);
        assert_eq!(chosen, expected);
    }

    #[test]
    fn names_cannot_run_into_each_other() {
        assert_ne!(Route::new("a", "bc"), Route::new("ab", "c"));
        assert_ne!(Route::new("a", ""), Route::new("", "a"));
        assert_eq!(replica_for("openai", "prod", []), None);
    }

    /// 10,000 scopes over n replicas: the count of each is binomial; five deviations are passed once in a million.
    #[test]
    fn scopes_spread_evenly() {
        for count in [2_usize, 3, 5, 10] {
            for form in [|n: usize| format!("10.1.2.{n}:7070"), |n: usize| format!("paceline-{n}.paceline:7070")] {
                let replicas: Vec<String> = (1..=count).map(form).collect();
                let scopes: Vec<String> = (0..10_000).map(|n| format!("account-{n}")).collect();
                let share = 1.0 / count as f64;
                let deviation = (scopes.len() as f64 * share * (1.0 - share)).sqrt();
                for replica in &replicas {
                    let here = scopes.iter().filter(|scope| to(scope, &replicas) == Some(replica)).count() as f64;
                    assert!((here - scopes.len() as f64 * share).abs() < 5.0 * deviation, "{replica} of {count}: {here}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_order_of_names_does_not_matter(names in btree_set("[a-z0-9.]{1,12}:70[0-9]{2}", 1..9), account in ".{0,12}") {
            let names: Vec<String> = names.into_iter().collect();
            let turned: Vec<String> = names.iter().rev().cloned().collect();
            prop_assert_eq!(to(&account, &names), to(&account, &turned));
        }

        #[test]
        fn only_the_scopes_of_a_replica_that_goes_move(
            names in btree_set("[a-z0-9.]{1,12}:70[0-9]{2}", 2..9), account in ".{0,12}", gone in any::<prop::sample::Index>(),
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let mut left = names.clone();
            let gone = left.remove(gone.index(names.len()));
            let (before, after) = (to(&account, &names), to(&account, &left));
            prop_assert!(before == Some(gone.as_str()) || before == after);
        }

        #[test]
        fn a_replica_that_comes_takes_scopes_only_for_itself(
            names in btree_set("[a-z0-9.]{1,12}:70[0-9]{2}", 1..9), account in ".{0,12}", new in "[A-Z]{1,9}:7070",
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let mut more = names.clone();
            more.push(new.clone());
            let (before, after) = (to(&account, &names), to(&account, &more));
            prop_assert!(after == Some(new.as_str()) || before == after);
        }
    }
}
