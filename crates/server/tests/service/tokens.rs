//! Tokens that are forged, foreign, stale or used up: a typed answer each, and nothing changes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use paceline_core::units::Span;
use paceline_proto::v1::release_request::What;
use paceline_proto::v1::{AcquireRequest, GetScopeResponse, NotApplied, ReleaseRequest, Verdict};

use crate::support::{Service, ask, fields, granted, queued, report};

/// The same token with one bit changed.
fn forged(token: &[u8], at: usize) -> Vec<u8> {
    let mut token = token.to_vec();
    let at = at % token.len();
    token[at] ^= 1;
    token
}

#[tokio::test]
async fn forged_tokens_are_refused_and_change_nothing() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let lease_id = granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner()).lease_id.clone();
    let ticket = queued(&limiter.acquire(ask("b", "slow")).await.unwrap().into_inner()).ticket.clone();
    let before = service.scope().await;

    let lease = URL_SAFE_NO_PAD.decode(&lease_id).unwrap();
    // The version, the kind, the body, the authentication code; the key's id is another test's.
    for at in [0, 1, 6, lease.len() / 2, lease.len() - 1] {
        let lease_id = URL_SAFE_NO_PAD.encode(forged(&lease, at));
        let refused = limiter.report(report(&lease_id, 200)).await.unwrap_err();
        assert!(fields(&refused)["lease_id"].contains("exactly as received"), "{refused:?}");
        let what = Some(What::LeaseId(lease_id.clone()));
        assert!(fields(&limiter.release(ReleaseRequest { what }).await.unwrap_err()).contains_key("lease_id"));
        let next = AcquireRequest { attempt: 2, previous_lease_id: lease_id, ..ask("a", "slow") };
        assert!(fields(&limiter.acquire(next).await.unwrap_err()).contains_key("previous_lease_id"));
    }
    for nonsense in ["", "?", "not a token", &lease_id[1..], &"A".repeat(1 << 20)] {
        assert!(fields(&limiter.report(report(nonsense, 200)).await.unwrap_err()).contains_key("lease_id"), "{nonsense:.20}");
    }
    for at in [0, 1, 6, ticket.len() / 2, ticket.len() - 1] {
        let ticket = forged(&ticket, at);
        let again = AcquireRequest { ticket: ticket.clone(), ..ask("b", "slow") };
        assert!(fields(&limiter.acquire(again).await.unwrap_err()).contains_key("ticket"));
        let what = Some(What::Ticket(ticket));
        assert!(fields(&limiter.release(ReleaseRequest { what }).await.unwrap_err()).contains_key("ticket"));
    }
    // A lease is no ticket, and a ticket no lease.
    let swapped = AcquireRequest { ticket: lease, ..ask("b", "slow") };
    assert!(fields(&limiter.acquire(swapped).await.unwrap_err()).contains_key("ticket"));
    let swapped = report(&URL_SAFE_NO_PAD.encode(&ticket), 200);
    assert!(fields(&limiter.report(swapped).await.unwrap_err()).contains_key("lease_id"));
    assert_eq!(service.scope().await, before);
}

#[tokio::test]
async fn tokens_of_another_call_are_refused() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let lease_id = granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner()).lease_id.clone();
    let ticket = queued(&limiter.acquire(ask("b", "slow")).await.unwrap().into_inner()).ticket.clone();
    let before = service.scope().await;
    let stolen = AcquireRequest { ticket: ticket.clone(), ..ask("c", "slow") };
    assert!(fields(&limiter.acquire(stolen).await.unwrap_err())["ticket"].contains("another call"));
    let tenant = AcquireRequest { ticket, tenant: "other".into(), ..ask("b", "slow") };
    assert!(fields(&limiter.acquire(tenant).await.unwrap_err()).contains_key("ticket"));
    let stolen = AcquireRequest { attempt: 2, previous_lease_id: lease_id.clone(), ..ask("c", "slow") };
    assert!(fields(&limiter.acquire(stolen).await.unwrap_err())["previous_lease_id"].contains("another call"));
    let backwards = AcquireRequest { attempt: 1, previous_lease_id: lease_id, ..ask("a", "slow") };
    assert!(fields(&limiter.acquire(backwards).await.unwrap_err()).contains_key("attempt"));
    assert_eq!(service.scope().await, before);
}

#[tokio::test]
async fn tokens_from_before_a_restart_are_no_error() {
    let before = Service::start().await;
    let mut limiter = before.limiter().await;
    let lease_id = granted(&limiter.acquire(ask("a", "slow")).await.unwrap().into_inner()).lease_id.clone();
    let ticket = queued(&limiter.acquire(ask("b", "slow")).await.unwrap().into_inner()).ticket.clone();

    let after = Service::start().await;
    let mut limiter = after.limiter().await;
    granted(&limiter.acquire(ask("first", "m")).await.unwrap().into_inner());
    let scope = after.scope().await;
    let told = limiter.report(report(&lease_id, 200)).await.unwrap().into_inner();
    assert_eq!((told.applied, told.not_applied()), (false, NotApplied::LeaseUnknown));
    assert!(told.detail.contains("restarted"), "{}", told.detail);
    let what = Some(What::LeaseId(lease_id.clone()));
    assert!(!limiter.release(ReleaseRequest { what }).await.unwrap().into_inner().released);
    assert_eq!(after.scope().await, scope);
    // The call goes on: a place is lost, not the call.
    let again = limiter.acquire(AcquireRequest { ticket, ..ask("b", "slow") }).await.unwrap().into_inner();
    assert!(granted(&again).place_lost);
    let next = AcquireRequest { attempt: 2, previous_lease_id: lease_id, ..ask("a", "m") };
    granted(&limiter.acquire(next).await.unwrap().into_inner());
}

#[tokio::test]
async fn reports_of_settled_repeated_and_expired_leases_settle_nothing() {
    let service = Service::start().await;
    let mut limiter = service.limiter().await;
    let lease_id = granted(&limiter.acquire(ask("a", "m")).await.unwrap().into_inner()).lease_id.clone();
    assert!(limiter.report(report(&lease_id, 200)).await.unwrap().into_inner().applied);
    let before = service.scope().await;
    for (seq, why) in [(1, NotApplied::Repeated), (2, NotApplied::LeaseSettled)] {
        let mut late = report(&lease_id, 200);
        (late.seq, late.usage) = (seq, [("tokens".to_owned(), 900)].into());
        let told = limiter.report(late).await.unwrap().into_inner();
        assert!(!told.applied);
        assert_eq!(told.not_applied(), why, "seq {seq}");
        assert_eq!(told.verdict(), Verdict::Done);
    }
    assert_eq!(service.scope().await, before);

    let lease_id = granted(&limiter.acquire(ask("b", "m")).await.unwrap().into_inner()).lease_id.clone();
    let mut running = report(&lease_id, 200);
    running.r#final = false;
    assert!(limiter.report(running.clone()).await.unwrap().into_inner().ttl.is_some());
    let told = limiter.report(running).await.unwrap().into_inner();
    assert_eq!(told.not_applied(), NotApplied::Repeated);

    service.advance(Span::from_secs(3_600));
    let mut late = report(&lease_id, 200);
    late.seq = 2;
    let told = limiter.report(late.clone()).await.unwrap().into_inner();
    assert_eq!((told.applied, told.not_applied()), (false, NotApplied::LeaseExpired), "{told:?}");
    let before = service.scope().await;
    assert_eq!(before.in_flight, 0);
    late.usage = [("tokens".to_owned(), 900)].into();
    assert!(!limiter.report(late).await.unwrap().into_inner().applied);
    // How long calls run is learned from late reports too, or those longer than their leases would never be heard of.
    let after = GetScopeResponse { usage: before.usage.clone(), ..service.scope().await };
    assert_eq!(after, before);
}
