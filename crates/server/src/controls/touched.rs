//! Whom a control touches now, from what the fleet shows. Pure.

use paceline_core::controls::{OverLimit, Whom, selects};
use paceline_core::plan::Class;
use paceline_core::units::Span;
use paceline_proto::{convert, v1};

/// What a selector touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    scopes: Vec<v1::TouchedScope>,
    limits: Vec<v1::TouchedLimit>,
    /// Buckets of touched groups, and whether the selector touches all models of theirs.
    buckets: Vec<(String, String, v1::Bucket)>,
    silent_replicas: u32,
}

impl Touched {
    /// What a selector touches of these scopes. Of a scope that is only summed up, its groups are not known.
    pub(crate) fn of(whom: &Whom, scopes: &[v1::GetScopeResponse], silent_replicas: u32) -> Self {
        let mut touched = Self { silent_replicas, ..Self::default() };
        for scope in scopes.iter().filter(|scope| whom.touches_scope(&scope.provider, &scope.account)) {
            touched.look_at(whom, scope);
        }
        touched
    }

    fn look_at(&mut self, whom: &Whom, scope: &v1::GetScopeResponse) {
        let groups: Vec<String> =
            scope.groups.iter().map(|group| group.key.clone()).filter(|key| whom.touches_group(key)).collect();
        if groups.is_empty() && !whom.is_of_all_models() {
            return;
        }
        let is_meant = |lane: &&v1::Lane| {
            let is_of_class = whom.class.is_none_or(|class| class_of(lane.priority) == Some(class));
            groups.contains(&lane.group) && is_of_class && selects(&whom.tenant, &lane.tenant)
        };
        let waiting = scope.lanes.iter().filter(is_meant).map(|lane| lane.depth).sum();
        let is_touched = |bucket: &&v1::Bucket| match bucket.group.is_empty() {
            true => whom.is_of_all_models(),
            false => groups.contains(&bucket.group),
        };
        let of_scope = |bucket: &v1::Bucket| (scope.provider.clone(), scope.account.clone(), bucket.clone());
        self.buckets.extend(scope.buckets.iter().filter(is_touched).map(of_scope));
        let (provider, account) = (scope.provider.clone(), scope.account.clone());
        self.scopes.push(v1::TouchedScope { provider, account, groups, waiting });
    }

    /// Of a limit: only the scopes in which it holds.
    pub(super) fn keep_limits(&mut self, limit: &OverLimit) {
        for (provider, account, bucket) in &self.buckets {
            let is_held = bucket.refill == i32::from(v1::Refill::Held);
            if bucket.label != *limit.bucket || is_held != limit.per.is_none() {
                continue;
            }
            let window = bucket.window.as_ref().filter(|_| !is_held);
            let per = window.and_then(|window| convert::span("window", window).ok()).unwrap_or(Span::from_secs(60));
            self.limits.push(v1::TouchedLimit {
                provider: provider.clone(),
                account: account.clone(),
                group: bucket.group.clone(),
                bucket: bucket.label.clone(),
                before: bucket.limit_effective,
                after: limit.within(per),
                window: window.copied(),
            });
        }
        let holds = |scope: &v1::TouchedScope, limit: &v1::TouchedLimit| {
            limit.provider == scope.provider && limit.account == scope.account
        };
        self.scopes.retain(|scope| self.limits.iter().any(|limit| holds(scope, limit)));
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Adds what another selector touches.
    pub(super) fn add(&mut self, other: Self) {
        for scope in other.scopes {
            let same = self.scopes.iter_mut().find(|one| one.provider == scope.provider && one.account == scope.account);
            match same {
                // Two that touch the same calls count them once.
                Some(same) => {
                    same.waiting = same.waiting.max(scope.waiting);
                    same.groups.extend(scope.groups);
                    same.groups.sort();
                    same.groups.dedup();
                }
                None => self.scopes.push(scope),
            }
        }
        self.silent_replicas = self.silent_replicas.max(other.silent_replicas);
    }

    /// Provider and account of each scope.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.scopes.iter().map(|scope| (scope.provider.as_str(), scope.account.as_str()))
    }

    pub(super) fn into_message(self) -> v1::Touched {
        v1::Touched {
            groups: self.scopes.iter().map(|scope| u64::try_from(scope.groups.len()).unwrap_or(u64::MAX)).sum(),
            waiting: self.scopes.iter().map(|scope| scope.waiting).sum(),
            scopes: self.scopes,
            limits: self.limits,
            silent_replicas: self.silent_replicas,
        }
    }
}

fn class_of(priority: i32) -> Option<Class> {
    match v1::Priority::try_from(priority) {
        Ok(v1::Priority::Interactive) => Some(Class::Interactive),
        Ok(v1::Priority::Normal) => Some(Class::Normal),
        Ok(v1::Priority::Batch) => Some(Class::Batch),
        Ok(v1::Priority::Unspecified) | Err(_) => None,
    }
}

/// That a selector touches nothing, and what it could touch.
pub(super) fn nothing(whom: &Whom, live: &[v1::ScopeSummary]) -> String {
    format!("nothing live is touched by {whom}; {}", listed(live))
}

/// That nothing a selector touches has such a bucket, and which buckets there are.
pub(super) fn no_such_bucket(whom: &Whom, limit: &OverLimit, touched: Touched, live: &[v1::ScopeSummary]) -> String {
    if touched.is_nothing() {
        return nothing(whom, live);
    }
    let is_same = |bucket: &v1::Bucket| bucket.label == *limit.bucket;
    if touched.buckets.iter().any(|(_, _, bucket)| is_same(bucket)) {
        return match limit.per {
            Some(_) => format!("{} counts what is in use at a time: say {0}={}", limit.bucket, limit.units),
            None => format!("{} refills with time: say in which, as in {0}={}/min", limit.bucket, limit.units),
        };
    }
    let mut labels: Vec<&str> = touched.buckets.iter().map(|(_, _, bucket)| bucket.label.as_str()).collect();
    labels.sort_unstable();
    labels.dedup();
    let of_one_model = if whom.is_of_all_models() { "" } else { " of one model" };
    format!("{whom} has no bucket `{}`{of_one_model}; there are: {}", limit.bucket, labels.join(", "))
}

fn listed(live: &[v1::ScopeSummary]) -> String {
    if live.is_empty() {
        return "no scope is live: nobody has asked for a slot in the last two minutes".to_owned();
    }
    let names: Vec<String> = live.iter().take(8).map(|scope| format!("{}/{}", scope.provider, scope.account)).collect();
    let more = live.len().saturating_sub(names.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("live are {}{more}", names.join(", "))
}
