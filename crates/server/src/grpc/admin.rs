//! What operators ask: scopes, the configuration in force, how an answer would be read.

use std::sync::Arc;

use arc_swap::ArcSwap;
use paceline_coordinator::Coordinator;
use paceline_coordinator::api::MOST_BODY_BYTES;
use paceline_coordinator::scope::{BackingView, FloorView, ScopeView, Tally, UnreadView, UsageView};
use paceline_coordinator::settings::AnswerParts;
use paceline_core::plan::{Class, Portion};
use paceline_core::units::Span;
use paceline_proto::v1::admin_server::Admin;
use paceline_proto::{convert, v1};
use paceline_store::Store;
use tonic::{Request, Response, Status};

use super::{read, status};
use crate::reload::InForce;

/// `paceline.v1.Admin` over a coordinator.
pub(crate) struct AdminService<S> {
    coordinator: Coordinator<S>,
    in_force: Arc<ArcSwap<InForce>>,
    is_open: bool,
}

impl<S: Store> AdminService<S> {
    /// `is_open`: only this machine reaches the listener, so whoever asks may.
    pub(crate) fn new(coordinator: Coordinator<S>, in_force: Arc<ArcSwap<InForce>>, is_open: bool) -> Self {
        Self { coordinator, in_force, is_open }
    }

    fn allow(&self) -> Result<(), Status> {
        if self.is_open {
            return Ok(());
        }
        Err(Status::permission_denied(
            "Admin is answered on a loopback listener only, and this one is open to others; run the service with \
             listen.grpc on 127.0.0.1, or look at the status page and /metrics on its HTTP listener",
        ))
    }
}

#[tonic::async_trait]
impl<S: Store> Admin for AdminService<S> {
    async fn list_scopes(&self, request: Request<v1::ListScopesRequest>) -> Result<Response<v1::ListScopesResponse>, Status> {
        self.allow()?;
        let selector = request.into_inner().selector.unwrap_or_default();
        read::names(&[("selector.provider", &selector.provider), ("selector.account", &selector.account)])?;
        let provider = selector.provider.to_lowercase();
        let mut scopes: Vec<v1::ScopeSummary> = self
            .coordinator
            .scopes()
            .await
            .iter()
            .filter(|scope| selects(&provider, &scope.provider) && selects(&selector.account, &scope.account))
            .map(summary)
            .collect();
        // They come sorted by name, and equals stay in their order.
        scopes.sort_by_key(|scope| std::cmp::Reverse(scope.waiting));
        Ok(Response::new(v1::ListScopesResponse { scopes }))
    }

    async fn get_scope(&self, request: Request<v1::GetScopeRequest>) -> Result<Response<v1::GetScopeResponse>, Status> {
        self.allow()?;
        let asked = request.into_inner();
        read::names(&[("provider", &asked.provider), ("account", &asked.account)])?;
        let found = self.coordinator.scope(&asked.provider, &asked.account).await.map_err(status::of_call)?;
        let Some(view) = found else {
            return Err(Status::not_found(format!(
                "nothing has asked for {}/{} lately; ListScopes tells what is live",
                asked.provider, asked.account
            )));
        };
        Ok(Response::new(scope(&view)))
    }

    async fn get_config(&self, _: Request<v1::GetConfigRequest>) -> Result<Response<v1::GetConfigResponse>, Status> {
        self.allow()?;
        let in_force = self.in_force.load();
        Ok(Response::new(v1::GetConfigResponse {
            yaml: in_force.config().effective_yaml(),
            hash: in_force.hash().to_owned(),
            age: Some(convert::duration(Span::from(in_force.age()))),
        }))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        self.allow()?;
        let asked = request.into_inner();
        let age = read::explain(&asked)?;
        let headers: Vec<(String, String)> = asked.headers.into_iter().map(|header| (header.name, header.value)).collect();
        let answer = AnswerParts {
            status: asked.status,
            grpc_status: asked.grpc_status,
            headers: &headers,
            body: asked.body.get(..MOST_BODY_BYTES).unwrap_or(&asked.body),
            received_at_micros: self.coordinator.now().as_micros(),
            age_micros: age.as_micros(),
        };
        let signal = self.coordinator.explain(&asked.provider, &answer);
        Ok(Response::new(v1::ExplainResponse { signal: Some(convert::signal(&signal, None)) }))
    }
}

/// Whether a glob (`*` any characters, `?` one) matches a whole name; an empty one matches everything.
fn selects(glob: &str, name: &str) -> bool {
    if glob.is_empty() {
        return true;
    }
    let (glob, name): (Vec<char>, Vec<char>) = (glob.chars().collect(), name.chars().collect());
    let (mut at_glob, mut at_name) = (0, 0);
    // Where the last star stands, and up to where it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = name.get(at_name) {
        match glob.get(at_glob) {
            Some('*') => {
                star = Some((at_glob, at_name));
                at_glob += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == letter => {
                at_glob += 1;
                at_name += 1;
            }
            _ => {
                let Some((star_at, eaten)) = star else { return false };
                star = Some((star_at, eaten + 1));
                at_glob = star_at + 1;
                at_name = eaten + 1;
            }
        }
    }
    glob.iter().skip(at_glob).all(|rest| *rest == '*')
}

fn summary(view: &ScopeView) -> v1::ScopeSummary {
    v1::ScopeSummary {
        provider: view.provider.clone(),
        account: view.account.clone(),
        mode: convert::main_mode(view.modes).into(),
        modes: convert::mode_shares(view.modes),
        waiting: view.lanes.iter().map(|lane| lane.depth).sum(),
        in_flight: view.in_flight,
        oldest_wait: view.lanes.iter().map(|lane| lane.oldest_wait).max().map(convert::duration),
        floor: last_floor(view).map(floor),
    }
}

/// The floor that ends last, of all there are in a scope.
pub(crate) fn last_floor(view: &ScopeView) -> Option<FloorView> {
    let of_buckets = view.buckets.iter().filter_map(|bucket| bucket.floor);
    let of_groups = view.groups.iter().filter_map(|group| group.floor);
    of_buckets.chain(of_groups).chain(view.floor).max_by_key(|floor| floor.ends_in)
}

fn scope(view: &ScopeView) -> v1::GetScopeResponse {
    let buckets = view.buckets.iter().map(|bucket| v1::Bucket {
        label: bucket.label.clone(),
        group: bucket.group.clone(),
        meter: bucket.meter.clone(),
        limit_configured: bucket.limit_configured,
        limit_learned: bucket.limit_learned,
        limit_effective: bucket.limit_effective,
        window: Some(bucket.per).filter(|per| *per > Span::ZERO).map(convert::duration),
        refill: v1::Refill::from(bucket.refill).into(),
        level: bucket.level,
        observed_remaining: bucket.observed.map(|(remaining, _)| remaining),
        observed_age: bucket.observed.map(|(_, age)| convert::duration(age)),
        floor: bucket.floor.map(floor),
        foreign_drain: bucket.foreign_drain,
        limit_measured: bucket.limit_measured,
        level_evidence: bucket.level_backing.map(evidence),
        limit_evidence: bucket.limit_backing.map(evidence),
        foreign_drain_evidence: bucket.drain_backing.map(evidence),
        limit_measured_evidence: bucket.measured_backing.map(evidence),
        at_once: bucket.at_once,
        at_once_evidence: bucket.proof_backing.map(evidence),
        r#use: part(bucket.ours.most),
        share: part(bucket.ours.least),
    });
    let groups = view.groups.iter().map(|group| v1::Group {
        key: group.key.clone(),
        floor: group.floor.map(floor),
        in_flight: group.in_flight,
        waiting: group.waiting,
        modes: group.modes.map(convert::mode_shares).unwrap_or_default(),
    });
    let lanes = view.lanes.iter().map(|lane| v1::Lane {
        group: lane.group.clone(),
        priority: priority(lane.class).into(),
        tenant: lane.tenant.clone(),
        depth: lane.depth,
        oldest_wait: Some(convert::duration(lane.oldest_wait)),
        waits_for: v1::Source::from(lane.waits_for).into(),
    });
    v1::GetScopeResponse {
        provider: view.provider.clone(),
        account: view.account.clone(),
        mode: convert::main_mode(view.modes).into(),
        modes: convert::mode_shares(view.modes),
        watched: watched(view.watched),
        organisations: view.organisations.clone(),
        buckets: buckets.collect(),
        groups: groups.collect(),
        lanes: lanes.collect(),
        in_flight: view.in_flight,
        floor: view.floor.map(floor),
        unread: view.unread.iter().map(unread).collect(),
        usage: view.usage.iter().map(usage).collect(),
    }
}

fn evidence(backing: BackingView) -> v1::Evidence {
    v1::Evidence { age: Some(convert::duration(backing.age)), reports: backing.reports, confidence: backing.confidence }
}

fn part(portion: Portion) -> f64 {
    f64::from(portion.as_millionths()) / f64::from(Portion::WHOLE.as_millionths())
}

fn usage(seen: &UsageView) -> v1::LearnedUsage {
    v1::LearnedUsage {
        model: seen.model.clone(),
        label: seen.label.clone(),
        media: seen.is_media,
        meter: seen.meter.clone(),
        median: seen.median,
        likely: seen.likely,
        calls: seen.calls,
        age: Some(convert::duration(seen.age)),
    }
}

fn watched(tally: Tally) -> Option<v1::WatchedCalls> {
    (tally.asks > 0).then_some(v1::WatchedCalls {
        asks: tally.asks,
        would_wait: tally.would_wait,
        would_deny: tally.would_deny,
        prevented: tally.prevented,
    })
}

fn unread(header: &UnreadView) -> v1::UnreadHeader {
    v1::UnreadHeader {
        name: header.name.clone(),
        count: header.count,
        sample: header.sample.clone(),
        malformed: header.is_malformed,
        age: Some(convert::duration(header.age)),
    }
}

fn priority(class: Class) -> v1::Priority {
    v1::Priority::from(class)
}

fn floor(floor: FloorView) -> v1::Floor {
    v1::Floor {
        ends_in: Some(convert::duration(floor.ends_in)),
        source: v1::Source::from(floor.source).into(),
        age: Some(convert::duration(floor.age)),
    }
}

#[cfg(test)]
mod tests {
    use super::selects;

    #[test]
    fn globs_select_whole_names() {
        for (glob, name, expected) in [
            ("", "openai", true),
            ("*", "", true),
            ("openai", "openai", true),
            ("open", "openai", false),
            ("*ai", "openai", true),
            ("o*n*i", "openai", true),
            ("o?enai", "openai", true),
            ("?", "", false),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("team-*", "team-ä", true),
        ] {
            assert_eq!(selects(glob, name), expected, "{glob} {name}");
        }
    }
}
