//! What a worker wants to send, in its own terms.

use std::collections::BTreeMap;
use std::time::Duration;

use paceline_proto::v1::{AcquireRequest, Priority, Repeat, RetryAsk, Target};
use tokio::time::Instant;

use crate::rendezvous::Route;
use crate::report::Retry;
use crate::timing;

/// One logical call: where it goes and what it will cost there. What is not set comes from the limiter, else from the service.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    request: AcquireRequest,
    account: Option<String>,
    tenant: Option<String>,
    priority: Option<Priority>,
    deadline: Option<Duration>,
}

impl Ask {
    /// A call to this provider: a name of the catalogue or of the service's configuration.
    pub fn new(provider: impl Into<String>) -> Self {
        let target = Target { provider: provider.into(), ..Target::default() };
        Self { request: AcquireRequest { target: Some(target), ..AcquireRequest::default() }, ..Self::default() }
    }

    /// Whose quota is used: an alias, never the key itself.
    pub fn account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }

    /// The model, deployment or resource that the provider meters apart.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.request.target.get_or_insert_default().model = model.into();
        self
    }

    /// Another place the call may be sent to, after those named before; [`Slot::target`](crate::Slot::target) says which.
    pub fn fallback(mut self, target: Target) -> Self {
        self.request.fallbacks.push(target);
        self
    }

    /// Units of one meter: `tokens`, `input_tokens`, `output_tokens`, `images`, ... (`requests` is 1 by itself).
    pub fn cost(mut self, meter: impl Into<String>, units: u64) -> Self {
        self.request.cost.insert(meter.into(), units);
        self
    }

    /// The cost is a guess: too large a one is clamped to what fits instead of refused.
    pub fn cost_is_estimated(mut self) -> Self {
        self.request.cost_estimated = true;
        self
    }

    /// The longest time spent waiting for slots, over all attempts; time at the provider does not count.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.request.max_wait = Some(timing::to_proto(max_wait));
        self
    }

    /// From the call of `acquire` or `call` until the caller stops caring, time at the provider included.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// How long the call may run; only of use when it is much longer than usual, since the slot is renewed while it lives.
    pub fn run_time(mut self, run_time: Duration) -> Self {
        self.request.run_time = Some(timing::to_proto(run_time));
        self
    }

    /// How urgent it is.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Among whom capacity is shared fairly.
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// A label for attribution.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.labels.insert(name.into(), value.into());
        self
    }

    /// The `request_id` of the call that this one is made for.
    pub fn parent(mut self, request_id: impl Into<String>) -> Self {
        self.request.parent = request_id.into();
        self
    }

    /// Whether sending it twice does harm.
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.request.repeat = repeat.into();
        self
    }

    /// An identifier of one's own, unique in the tenant, 1 to 128 characters; a random one otherwise.
    pub fn request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request.request_id = request_id.into();
        self
    }

    /// From now on: the defaults filled in, the deadline an instant.
    pub(crate) fn start(self, defaults: &Defaults) -> Asked {
        let mut request = self.request;
        let target = request.target.get_or_insert_default();
        target.account = self.account.unwrap_or_else(|| defaults.account.clone());
        request.tenant = self.tenant.unwrap_or_else(|| defaults.tenant.clone());
        request.priority = self.priority.unwrap_or(defaults.priority).into();
        request.hold = defaults.hold.map(timing::to_proto);
        request.attempt = 1;
        if request.request_id.is_empty() {
            request.request_id = random_id();
        }
        let now = Instant::now();
        Asked { request, deadline: self.deadline.map(|length| Deadline { length, at: timing::after(now, length) }) }
    }
}

/// What a limiter fills into an ask.
#[derive(Clone, Debug, Default)]
pub(crate) struct Defaults {
    pub(crate) account: String,
    pub(crate) tenant: String,
    pub(crate) priority: Priority,
    pub(crate) hold: Option<Duration>,
}

/// When the caller stops caring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// As it was asked for.
    pub(crate) length: Duration,
    pub(crate) at: Instant,
}

/// One attempt of a call that has been begun.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    request: AcquireRequest,
    pub(crate) deadline: Option<Deadline>,
}

impl Asked {
    /// The request as it is to be sent at `now`: the time left counts from then.
    pub(crate) fn request_at(&self, now: Instant) -> AcquireRequest {
        let mut request = self.request.clone();
        request.deadline = self.deadline.map(|deadline| timing::to_proto(deadline.at.saturating_duration_since(now)));
        request
    }

    /// Keeps the place that a Queued answer gave.
    pub(crate) fn keep_place(&mut self, ticket: Vec<u8>) {
        self.request.ticket = ticket;
    }

    /// The attempt after this one, which was sent under `lease_id`.
    pub(crate) fn next_attempt(mut self, lease_id: String, retry: Retry) -> Self {
        let request = &mut self.request;
        request.attempt = request.attempt.saturating_add(1);
        request.ticket = Vec::new();
        request.previous_lease_id = lease_id;
        let RetryAsk { max_wait, cost, fallbacks, .. } = retry.0;
        request.max_wait = max_wait.or(request.max_wait);
        if !cost.is_empty() {
            request.cost = cost;
        }
        if !fallbacks.is_empty() {
            request.fallbacks = fallbacks;
        }
        self
    }

    /// Whether it has a place in line.
    pub(crate) fn has_place(&self) -> bool {
        !self.request.ticket.is_empty()
    }

    /// Its place in line, as the service names it.
    pub(crate) fn place(&self) -> &[u8] {
        &self.request.ticket
    }

    /// The replica that its scope belongs to.
    pub(crate) fn route(&self) -> Route {
        self.request.target.as_ref().map_or(Route::new("", ""), Route::of)
    }

    pub(crate) fn cost(&self) -> &BTreeMap<String, u64> {
        &self.request.cost
    }

    pub(crate) fn max_wait(&self) -> Option<Duration> {
        self.request.max_wait.as_ref().map(timing::length)
    }

    pub(crate) fn priority(&self) -> Priority {
        self.request.priority()
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.request.attempt
    }

    pub(crate) fn request_id(&self) -> &str {
        &self.request.request_id
    }

    pub(crate) fn target(&self) -> Target {
        self.request.target.clone().unwrap_or_default()
    }
}

/// A random identifier in the form of a UUID, version 4 (RFC 9562, section 5.4).
fn random_id() -> String {
    let bits: u128 = rand::random();
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn defaults() -> Defaults {
        Defaults {
            account: "prod".into(),
            tenant: "ads".into(),
            priority: Priority::Batch,
            hold: Some(Duration::from_secs(20)),
        }
    }

    #[test]
    fn identifiers_are_uuids_and_differ() {
        let ids: BTreeSet<String> = (0..1_000).map(|_| random_id()).collect();
        assert_eq!(ids.len(), 1_000);
        for id in ids {
            assert_eq!(id.len(), 36);
            let parts: Vec<&str> = id.split('-').collect();
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
            assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
        }
    }

    #[test]
    fn an_ask_wins_over_the_limiters_defaults() {
        let request = Ask::new("openai").start(&defaults()).request;
        let target = request.target.clone().unwrap();
        assert_eq!((target.account.as_str(), request.tenant.as_str(), request.priority()), ("prod", "ads", Priority::Batch));
        let ask = Ask::new("openai").account("").tenant("web").priority(Priority::Interactive).request_id("mine");
        let request = ask.start(&defaults()).request;
        assert_eq!(request.target.clone().unwrap().account, "", "an empty account can be asked for");
        assert_eq!((request.tenant.as_str(), request.priority()), ("web", Priority::Interactive));
        assert_eq!((request.request_id.as_str(), request.attempt), ("mine", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_handed_down_as_what_is_left_of_it() {
        let asked = Ask::new("openai").deadline(Duration::from_secs(10)).start(&defaults());
        let left = |asked: &Asked| asked.request_at(Instant::now()).deadline.unwrap().seconds;
        assert_eq!(left(&asked), 10);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(left(&asked), 6);
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(left(&asked), 0, "over is zero, which is not absent");
    }

    #[test]
    fn the_next_attempt_is_the_same_call_without_its_place() {
        let mut asked = Ask::new("openai").cost("tokens", 9).max_wait(Duration::from_secs(5)).start(&defaults());
        asked.keep_place(b"place".to_vec());
        let first = asked.request.clone();
        let next = asked.clone().next_attempt("lease".into(), Retry::default()).request;
        let expected = AcquireRequest { attempt: 2, ticket: Vec::new(), previous_lease_id: "lease".into(), ..first.clone() };
        assert_eq!(next, expected);
        let smaller = Retry::default().cost("tokens", 4).max_wait(Duration::from_secs(1));
        let next = asked.next_attempt("lease".into(), smaller).request;
        assert_eq!((next.cost["tokens"], next.max_wait.unwrap().seconds), (4, 1));
    }
}
