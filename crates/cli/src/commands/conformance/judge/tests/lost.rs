//! A service that is away, leases that are lost, reports that come twice, accounts that are another's.

use paceline_proto::v1::NotApplied;

use super::*;

/// Asks at these instants, each answered UNAVAILABLE; then a grant.
fn away(at: &[u64]) -> Story {
    let mut story = Story::of("away-long");
    for at in at {
        story.asks(*at, |_| {}).at(*at, What::Answered(Answer::Failed));
    }
    story.asks(1_300, |_| {}).granted(1_300, "kit.away-long.1", 0).calls(1_301, 1, 200);
    story.reports(1_302, "kit.away-long.1", 200, done(), |_| {}).ends(1_303, "answered", 200);
    story
}

#[test]
fn who_is_told_that_nobody_is_there_waits_longer_each_time() {
    away(&[0, 50, 150, 350, 750]).is_good();
    let ten: Vec<u64> = (0..10).map(|n| n * 20).collect();
    away(&ten).is_good();
    let hammered: Vec<u64> = (0..24).map(|n| n * 50).collect();
    away(&hammered).breaks(Rule::Number(8), "asked 20 times within a second");

    let reports = |pause: u64| {
        let mut story = Story::of("report-away");
        story.asks(0, |_| {}).granted(0, "kit.report-away.1", 0).calls(5, 1, 200);
        let aged = |age: u64| move |report: &mut ReportRequest| report.age = prost_types::Duration::try_from(ms(age)).ok();
        let tries = 1_100 / pause;
        for at in (0..tries).map(|n| 5 + n * pause) {
            story.reports(at, "kit.report-away.1", 200, Told::Failed, aged(at - 5));
        }
        story.reports(1_300, "kit.report-away.1", 200, done(), aged(1_295)).ends(1_301, "answered", 200);
        story
    };
    reports(250).is_good();
    reports(30).breaks(Rule::Number(8), "reported 34 times within a second");
}

#[test]
fn an_account_is_the_jobs_own() {
    let story = |id: &str, account: &'static str| {
        let lease = format!("kit.{id}.1");
        let mut story = Story::of(id);
        story.asks(0, |ask| ask.target.as_mut().unwrap().account = account.to_owned()).granted(0, &lease, 0).calls(5, 1, 200);
        story.reports(6, &lease, 200, done(), |_| {}).ends(7, "answered", 200);
        story
    };
    story("plain", "kit").is_good();
    story("account", "kit-2").is_good();
    story("account", "kit").breaks(Rule::Step(Step::Ask), "the account `kit`; the job says `kit-2`");
    story("plain", "").breaks(Rule::Step(Step::Ask), "the account ``; the job says `kit`");
}

/// One call and its report, whose answer is that it changed nothing.
fn unapplied(id: &str, status: u16, why: NotApplied, verdict: Said) -> Story {
    let lease = format!("kit.{id}.1");
    let mut story = Story::of(id);
    story.asks(0, |_| {}).granted(0, &lease, 0).calls(5, 1, status);
    story.reports(6, &lease, u32::from(status), Told::NotApplied(why, verdict), |_| {});
    story
}

/// Sends once more, as attempt 2 of the same call.
fn again(story: &mut Story, at: u64) -> &mut Story {
    let (first, second) = (format!("kit.{}.1", story.situation.id), format!("kit.{}.2", story.situation.id));
    story.asks(at, |ask| (ask.attempt, ask.previous_lease_id) = (2, first)).granted(at, &second, 100).calls(at + 101, 2, 200);
    story.reports(at + 102, &second, 200, done(), |_| {}).ends(at + 103, "answered", 200)
}

#[test]
fn a_report_that_changes_nothing_leaves_a_good_answer_good() {
    for (id, why, verdict) in [
        ("report-late", NotApplied::LeaseUnknown, Said::Unspecified),
        ("report-expired", NotApplied::LeaseExpired, Said::Done),
        ("report-settled", NotApplied::LeaseSettled, Said::Done),
    ] {
        unapplied(id, 200, why, verdict).ends(7, "answered", 200).is_good();
        let mut asked = unapplied(id, 200, why, verdict);
        asked.asks(8, |ask| ask.attempt = 2).ends(9, "answered", 200).breaks(Rule::Step(Step::Verdict), "asked again");
        let mut sent = unapplied(id, 200, why, verdict);
        sent.calls(8, 2, 200).ends(9, "answered", 200).breaks(Rule::Number(1), "sent again");
        let mut released = unapplied(id, 200, why, verdict);
        released.at(7, What::Released { lease: format!("kit.{id}.1") }).ends(8, "answered", 200);
        released.breaks(Rule::Number(6), "sent and reported");
    }
}

#[test]
fn what_nobody_judged_is_sent_again_only_if_the_provider_refused_it() {
    let lost = |id, status| unapplied(id, status, NotApplied::LeaseUnknown, Said::Unspecified);
    lost("refused-lost", 429).ends(7, "answered", 429).is_good();
    again(&mut lost("refused-lost", 429), 8).is_good();
    again(&mut lost("refused-lost", 429), 6_100).breaks(Rule::Number(5), "had said 6.00 s");
    lost("refused-lost", 429).calls(8, 2, 200).ends(9, "answered", 200).breaks(Rule::Step(Step::Verdict), "without a slot");
    lost("refused-lost", 429).ends(7, "failed", 0).breaks(Rule::Step(Step::Job), "the provider answered 429");

    lost("failed-lost", 500).ends(7, "answered", 500).is_good();
    let mut twice = lost("failed-lost", 500);
    again(&mut twice, 8);
    assert!(twice.judged().1.contains(&(
        Rule::Step(Step::Verdict),
        "asked again although the call may have run, and nobody said that it may be sent again".to_owned()
    )));
}

#[test]
fn a_report_that_had_arrived_is_answered_as_it_was() {
    let story = |seq: u32| {
        let lease = "kit.refused-repeated.1";
        let mut story = Story::of("refused-repeated");
        story.asks(0, |_| {}).granted(0, lease, 0).calls(5, 1, 429).reports(6, lease, 429, Told::Failed, |_| {});
        let aged = |report: &mut ReportRequest| (report.seq, report.age) = (seq, prost_types::Duration::try_from(ms(350)).ok());
        story.reports(356, lease, 429, Told::NotApplied(NotApplied::Repeated, Said::Retry), aged);
        story
    };
    again(&mut story(1), 360).is_good();
    let given_up = story(1).ends(360, "answered", 429).judged().1;
    assert!(given_up.iter().any(|(_, seen)| seen.contains("the next attempt was not asked for")), "{given_up:?}");
    let mut renumbered = story(2);
    again(&mut renumbered, 360).breaks(Rule::Number(8), "came again as 2");
}

#[test]
fn the_slot_of_a_fail_over_is_used_as_any_other() {
    let mut story = Story::of("fail-over");
    story.asks(0, |_| {}).granted(0, "kit.fail-over.1", 0).calls(5, 1, 429);
    let next = Told::Verdict(Said::FailOver, Some(grant("kit.fail-over.2", 300, 60_000)));
    story.reports(6, "kit.fail-over.1", 429, next, |_| {});
    let mut early = Story { events: story.events.clone(), situation: story.situation.clone(), reports: 1 };
    story.calls(310, 2, 200).reports(311, "kit.fail-over.2", 200, done(), |_| {}).ends(312, "answered", 200).is_good();
    early.calls(50, 2, 200).reports(51, "kit.fail-over.2", 200, done(), |_| {}).ends(52, "answered", 200);
    early.breaks(Rule::Number(2), "wait 300 ms");
}
