//! The life of a call: every replica tells what it knows of it, and the newest of that counts.

use std::collections::HashMap;

use futures_util::future::join_all;
use paceline_coordinator::api::DEFAULT_TENANT;
use paceline_coordinator::{EndedLife, Life, Stands};
use paceline_core::delays::{self, Cause};
use paceline_core::report::Outcome;
use paceline_core::retry::Verdict;
use paceline_core::units::{FleetTime, Span};
use paceline_proto::{convert, v1};
use paceline_store::Store;

use super::{Overview, Whose};
use crate::grpc::told;

/// The most attempts of an answer.
const MOST_TOLD: usize = 100;

impl<S: Store> Overview<S> {
    /// What is known of a call.
    pub(crate) async fn why(&self, asked: v1::WhyRequest, whose: Whose) -> v1::WhyResponse {
        let others = if whose == Whose::Own { super::Others::new() } else { self.others(std::iter::empty()) };
        let ask = |(replica, address)| {
            let (link, asked) = (self.peers.link(replica, address), asked.clone());
            async move { link.why(asked).await }
        };
        let (own, told) = tokio::join!(self.coordinator.lives(&asked.call), join_all(others.into_iter().map(ask)));
        let now = self.coordinator.now();
        let own = own.into_iter().map(|life| life_as_told(life, self.me(), now));
        let silent_replicas = u32::try_from(told.iter().filter(|told| told.is_none()).count()).unwrap_or(u32::MAX);
        let all = own.chain(told.into_iter().flatten().flat_map(|told| told.lives));
        let asked_for = |life: &v1::CallLife| {
            let tenant = if life.tenant.is_empty() { DEFAULT_TENANT } else { &life.tenant };
            let is_meant =
                (asked.attempt == 0 || life.attempt == asked.attempt) && (asked.tenant.is_empty() || tenant == asked.tenant);
            // A ticket does not hold what is asked for.
            is_meant || life.attempt == 0
        };
        let mut lives = newest(all.filter(asked_for));
        lives.truncate(MOST_TOLD);
        v1::WhyResponse { lives, silent_replicas }
    }
}

/// Of each attempt what was known last; of two who know it of the same instant, the one who knows more. The last attempt first.
fn newest(all: impl Iterator<Item = v1::CallLife>) -> Vec<v1::CallLife> {
    let rank = |life: &v1::CallLife| (life.known_us, !life.from_token, life.state);
    let mut known: HashMap<Vec<u8>, v1::CallLife> = HashMap::new();
    for life in all {
        match known.get_mut(&life.key) {
            Some(known) if rank(known) >= rank(&life) => {}
            Some(known) => {
                // Who saw the end of a call has not always seen what it waited for.
                let delays = std::mem::take(&mut known.delays);
                let is_of_same_wait = life.delays.is_empty() && known.waited == life.waited;
                *known = life;
                if is_of_same_wait {
                    known.delays = delays;
                }
            }
            None => drop(known.insert(life.key.clone(), life)),
        }
    }
    let mut lives: Vec<_> = known.into_values().collect();
    lives.sort_by(|a, b| (b.attempt, b.known_us, &b.key).cmp(&(a.attempt, a.known_us, &a.key)));
    lives
}

fn life_as_told(life: Life, replica: u32, now: FleetTime) -> v1::CallLife {
    let binding = match &life.stands {
        Stands::Away { cause, .. } | Stands::Waiting { cause, .. } => Some(cause.clone()),
        _ => delays::governing(&life.delays).map(|part| part.cause.clone()),
    };
    let told = v1::CallLife {
        key: life.key.0.to_vec(),
        request_id: life.request_id,
        attempt: life.attempt,
        tenant: life.tenant,
        identity: life.identity,
        target: Some(told::target(&life.target)),
        priority: life.class.map_or(v1::Priority::Unspecified, v1::Priority::from).into(),
        mode: v1::Mode::from(life.mode).into(),
        known_us: life.known_at.as_micros(),
        known_age: Some(convert::duration(now.since(life.known_at).at_least_zero())),
        asked_age: Some(convert::duration(now.since(life.asked_at).at_least_zero())),
        waited: Some(convert::duration(life.waited)),
        delays: told::delays_of(&life.delays, binding.as_ref().filter(|cause| is_one(cause)), life.runner_up.as_ref()),
        from_token: life.is_from_token,
        replica,
        ..v1::CallLife::default()
    };
    stand(told, life.stands, now)
}

fn is_one(cause: &Cause) -> bool {
    cause.source != paceline_core::signal::Source::None
}

/// Adds where it stands.
fn stand(told: v1::CallLife, stands: Stands, now: FleetTime) -> v1::CallLife {
    let until = |at: FleetTime| Some(convert::duration(at.since(now)));
    match stands {
        Stands::Away { back_by, ahead, expected, .. } => v1::CallLife {
            state: v1::CallState::Away.into(),
            ahead,
            expected: expected.map(convert::duration),
            back_in: back_by.and_then(until),
            ..told
        },
        Stands::Waiting { ahead, expected, until: denied_at, .. } => v1::CallLife {
            state: v1::CallState::Waiting.into(),
            ahead,
            expected: Some(convert::duration(expected)),
            denied_in: until(denied_at),
            ..told
        },
        Stands::Granted { send_at, ends_at, is_sent } => v1::CallLife {
            state: v1::CallState::Granted.into(),
            send_in: until(send_at),
            lease_ends_in: until(ends_at),
            sent: is_sent,
            ..told
        },
        Stands::Expired { at } => v1::CallLife { state: v1::CallState::Expired.into(), lease_ends_in: until(at), ..told },
        Stands::Settled { ended, verdict } => settle(told, ended, verdict),
        Stands::GivenBack => v1::CallLife { state: v1::CallState::GivenBack.into(), ..told },
        Stands::Denied(denial) => v1::CallLife {
            state: v1::CallState::Denied.into(),
            reason: told::reason(denial.reason).into(),
            retry_after: denial.retry_after.map(convert::duration),
            detail: denial.detail,
            ..told
        },
    }
}

fn settle(told: v1::CallLife, ended: Option<EndedLife>, verdict: Verdict) -> v1::CallLife {
    let reason = match verdict {
        Verdict::GiveUp(reason) => told::reason(reason),
        _ => v1::Reason::Unspecified,
    };
    let told = v1::CallLife {
        state: v1::CallState::Settled.into(),
        verdict: told::verdict(verdict).into(),
        reason: reason.into(),
        ..told
    };
    let Some(ended) = ended else { return told };
    v1::CallLife {
        outcome: outcome(ended.outcome).into(),
        status: ended.status,
        signal_source: v1::Source::from(ended.source).into(),
        honored: Some(ended.honored).filter(|honored| *honored > Span::ZERO).map(convert::duration),
        ..told
    }
}

const fn outcome(outcome: Outcome) -> v1::Outcome {
    match outcome {
        Outcome::Response => v1::Outcome::Response,
        Outcome::Running => v1::Outcome::Running,
        Outcome::Timeout => v1::Outcome::Timeout,
        Outcome::ConnectionFailed => v1::Outcome::ConnectionFailed,
        Outcome::Abandoned => v1::Outcome::Abandoned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(known_us: i64, from_token: bool, state: v1::CallState) -> v1::CallLife {
        v1::CallLife { key: vec![1], known_us, from_token, state: state.into(), ..v1::CallLife::default() }
    }

    #[test]
    fn of_an_attempt_the_newest_counts_and_then_who_knows_more() {
        use v1::CallState::{Away, Expired, Granted, Settled};
        let cases = [
            (vec![life(5, false, Granted), life(9, false, Settled), life(3, false, Away)], 9, Settled),
            // A replica that did not hear of the end takes the lease for one that nobody reported.
            (vec![life(9, false, Settled), life(5, false, Expired)], 9, Settled),
            (vec![life(5, true, Expired), life(5, false, Granted)], 5, Granted),
            (vec![life(5, false, Granted), life(5, false, Expired)], 5, Expired),
        ];
        for (all, at, state) in cases {
            let found = newest(all.clone().into_iter());
            assert_eq!(found.iter().map(|life| (life.known_us, life.state())).collect::<Vec<_>>(), [(at, state)], "{all:?}");
        }
    }

    #[test]
    fn what_it_waited_for_is_kept_from_who_knows_it() {
        let waited = Some(prost_types::Duration { seconds: 2, nanos: 0 });
        let delays = vec![v1::Delay { source: v1::Source::Pacing.into(), duration: waited, ..v1::Delay::default() }];
        let granted = v1::CallLife { waited, delays: delays.clone(), ..life(5, false, v1::CallState::Granted) };
        let settled = v1::CallLife { waited, ..life(9, false, v1::CallState::Settled) };
        let found = newest([granted, settled].into_iter());
        assert_eq!(
            found.iter().map(|life| (life.state(), &life.delays)).collect::<Vec<_>>(),
            [(v1::CallState::Settled, &delays)]
        );
    }

    #[test]
    fn the_last_attempt_comes_first() {
        let attempt = |attempt: u32| v1::CallLife { attempt, key: attempt.to_be_bytes().to_vec(), ..v1::CallLife::default() };
        let found = newest([attempt(1), attempt(3), attempt(2)].into_iter());
        assert_eq!(found.iter().map(|life| life.attempt).collect::<Vec<_>>(), [3, 2, 1]);
    }
}
