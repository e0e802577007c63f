//! Events with times in, findings out: what a good worker does is found good, and each mistake is found as what it is.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Duration;

use paceline_proto::v1::{AcquireRequest, Header, Mode, Outcome, ReportRequest, RetryAsk, Target, Verdict as Said};

use super::super::event::{Answer, Event, Granted, Said as Told, Way, What};
use super::super::script::Situation;
use super::super::situations::situations;
use super::{Rule, Step, Verdict, judge};

mod lost;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What happens in one situation, written down as it comes.
struct Story {
    situation: Situation,
    events: Vec<Event>,
    reports: u64,
}

impl Story {
    fn of(id: &str) -> Self {
        let situation = situations().into_iter().find(|situation| situation.id == id).unwrap();
        let mut story = Self { situation, events: Vec::new(), reports: 0 };
        story.at(0, What::Handed);
        story
    }

    fn at(&mut self, at: u64, what: What) -> &mut Self {
        self.events.push(Event { at: ms(at), job: self.situation.id.to_owned(), what });
        self
    }

    fn asks(&mut self, at: u64, change: impl FnOnce(&mut AcquireRequest)) -> &mut Self {
        let (account, model) = (self.situation.account.to_owned(), self.situation.id.to_owned());
        let target = Target { provider: "openai".to_owned(), account, model };
        let mut request =
            AcquireRequest { request_id: "call-1".to_owned(), attempt: 1, target: Some(target), ..AcquireRequest::default() };
        change(&mut request);
        self.at(at, What::Asked { way: Way::Unary, request: Box::new(request) })
    }

    fn granted(&mut self, at: u64, lease: &str, wait: u64) -> &mut Self {
        self.at(at, What::Answered(Answer::Granted(grant(lease, wait, 60_000))))
    }

    fn calls(&mut self, at: u64, call: u32, status: u16) -> &mut Self {
        let retry_after = (status == 429).then_some(ms(6_000));
        self.at(at, What::Arrived { call });
        self.at(at, What::Replied { call, status, retry_after });
        self.at(at, What::Ended { call, is_cut: false })
    }

    /// A report as it should be, changed, and what it is told at once.
    fn reports(&mut self, at: u64, lease: &str, status: u32, told: Told, change: impl FnOnce(&mut ReportRequest)) -> &mut Self {
        let mark = Header { name: "X-RateLimit-Remaining-Requests".to_owned(), value: "41".to_owned() };
        let mut request = ReportRequest {
            lease_id: lease.to_owned(),
            seq: 1,
            outcome: Outcome::Response.into(),
            status,
            headers: vec![mark],
            body: if status >= 400 { b"{}".to_vec() } else { Vec::new() },
            r#final: true,
            retry: Some(RetryAsk { wanted: true, ..RetryAsk::default() }),
            ..ReportRequest::default()
        };
        change(&mut request);
        self.reports += 1;
        let number = self.reports;
        self.at(at, What::Reported { number, way: Way::Unary, request: Box::new(request) });
        self.at(at, What::Told { number, said: told })
    }

    fn ends(&mut self, at: u64, outcome: &str, status: u16) -> &mut Self {
        self.at(at, What::Done { outcome: outcome.to_owned(), status })
    }

    /// Everything that was found, with the verdict.
    fn judged(&self) -> (Verdict, Vec<(Rule, String)>) {
        let (judgements, stray) = judge(std::slice::from_ref(&self.situation), &self.events);
        assert_eq!(stray, []);
        let findings = judgements[0].findings.iter().map(|finding| (finding.rule, finding.seen.clone()));
        (judgements[0].verdict, findings.collect())
    }

    fn is_good(&self) {
        assert_eq!(self.judged(), (Verdict::Ok, Vec::new()), "{:#?}", self.events);
    }

    /// Exactly one rule is broken, and what was seen has these words.
    fn breaks(&self, rule: Rule, words: &str) {
        let (verdict, findings) = self.judged();
        assert_eq!(verdict, Verdict::Wrong);
        assert!(findings.iter().all(|(found, _)| *found == rule), "{rule:?}: {findings:?}");
        assert!(findings.iter().any(|(_, seen)| seen.contains(words)), "{words}: {findings:?}");
    }
}

fn grant(lease: &str, wait: u64, use_within: u64) -> Granted {
    Granted { lease: lease.to_owned(), wait: ms(wait), use_within: ms(use_within), mode: Mode::Enforce }
}

fn done() -> Told {
    Told::Verdict(Said::Done, None)
}

#[test]
fn early_is_judged_from_the_answer_and_late_with_a_margin() {
    for (sent, rule) in [
        (1_010, None),
        (996, None),
        (990, Some(Rule::Number(2))),
        (0, Some(Rule::Number(2))),
        (40_000, None),
        (63_100, Some(Rule::Number(3))),
    ] {
        let mut story = Story::of("wait");
        story.asks(0, |_| {}).granted(0, "kit.wait.1", 1_000).calls(sent, 1, 200);
        story.reports(sent, "kit.wait.1", 200, done(), |_| {}).ends(sent, "answered", 200);
        match rule {
            None => story.is_good(),
            Some(rule) => story.breaks(rule, "wait 1.00 s"),
        }
    }
}

#[test]
fn a_grant_that_is_over_is_asked_for_again() {
    let late = |story: &mut Story| {
        story.asks(0, |_| {}).at(0, What::Answered(Answer::Granted(grant("kit.late.1", 200, 0))));
    };
    let mut good = Story::of("late");
    late(&mut good);
    good.asks(201, |_| {}).granted(201, "kit.late.2", 100).calls(301, 1, 200);
    good.reports(302, "kit.late.2", 200, done(), |_| {}).ends(303, "answered", 200).is_good();

    let mut bad = Story::of("late");
    late(&mut bad);
    bad.calls(202, 1, 200).reports(203, "kit.late.1", 200, done(), |_| {}).ends(204, "answered", 200);
    bad.breaks(Rule::Number(3), "did not ask again");

    let mut renamed = Story::of("late");
    late(&mut renamed);
    renamed.asks(201, |ask| ask.request_id = "other".to_owned()).granted(201, "kit.late.2", 100).calls(301, 1, 200);
    renamed.reports(302, "kit.late.2", 200, done(), |_| {}).ends(303, "answered", 200);
    renamed.breaks(Rule::Number(7), "another request_id");
}

#[test]
fn the_line_is_kept_by_its_ticket() {
    let told = |ticket: &str| What::Answered(Answer::Queued { ticket: ticket.into(), come_back_in: ms(700) });
    let story = |back: u64, change: fn(&mut AcquireRequest)| {
        let mut story = Story::of("queued");
        story.asks(0, |_| {}).at(0, told("a")).asks(back, change).granted(back, "kit.queued.1", 0).calls(back, 1, 200);
        story.reports(back, "kit.queued.1", 200, done(), |_| {}).ends(back, "answered", 200);
        story
    };
    let ask = Rule::Step(Step::Ask);
    story(700, |ask| ask.ticket = "a".into()).is_good();
    story(900, |ask| ask.ticket = "a".into()).is_good();
    story(200, |ask| ask.ticket = "a".into()).breaks(ask, "came back after 200 ms; come_back_in was 700 ms");
    story(700, |_| {}).breaks(ask, "without its ticket");
    story(700, |ask| ask.ticket = "b".into()).breaks(ask, "another ticket");
    story(700, |ask| (ask.ticket, ask.attempt) = ("a".into(), 2)).breaks(Rule::Number(7), "attempt");

    let mut gone = Story::of("queued");
    gone.asks(0, |_| {}).at(0, told("a")).ends(900, "failed", 0);
    assert!(gone.judged().1.iter().any(|(_, seen)| seen.contains("did not come back")));
    let mut sent = Story::of("queued");
    sent.asks(0, |_| {}).at(0, told("a")).calls(10, 1, 200);
    sent.breaks(ask, "told to wait in line");
}

#[test]
fn own_retries_and_own_waits_are_told_apart() {
    let refused = || {
        let mut story = Story::of("retry");
        story.asks(0, |_| {}).granted(0, "kit.retry.1", 0).calls(5, 1, 429);
        story
    };
    let next = || Told::Verdict(Said::Retry, Some(grant("kit.retry.2", 300, 60_000)));
    let finish = |story: &mut Story, at: u64| {
        story.calls(at, 2, 200).reports(at, "kit.retry.2", 200, done(), |_| {}).ends(at, "answered", 200);
    };
    let mut good = refused();
    good.reports(10, "kit.retry.1", 429, next(), |_| {});
    finish(&mut good, 320);
    good.is_good();

    let mut itself = refused();
    itself.calls(30, 2, 200).reports(35, "kit.retry.1", 429, next(), |_| {});
    assert!(
        itself
            .judged()
            .1
            .iter()
            .any(|(rule, seen)| *rule == Rule::Number(1) && seen.contains("25 ms after the provider's 429"))
    );

    let mut sleeps = refused();
    sleeps.reports(10, "kit.retry.1", 429, next(), |_| {});
    finish(&mut sleeps, 6_100);
    sleeps.breaks(Rule::Number(5), "had said 6.00 s");

    let mut reports_late = refused();
    reports_late.reports(6_010, "kit.retry.1", 429, next(), |_| {});
    finish(&mut reports_late, 6_320);
    reports_late.breaks(Rule::Number(5), "after it came");

    let mut early = refused();
    early.reports(10, "kit.retry.1", 429, next(), |_| {});
    finish(&mut early, 100);
    early.breaks(Rule::Number(2), "wait 300 ms");
}

#[test]
fn the_next_attempt_is_one_more_and_names_the_lease_before() {
    let story = |change: fn(&mut AcquireRequest)| {
        let mut story = Story::of("retry-ask");
        story.asks(0, |_| {}).granted(0, "kit.retry-ask.1", 0).calls(5, 1, 429);
        story.reports(10, "kit.retry-ask.1", 429, Told::Verdict(Said::Retry, None), |_| {}).asks(12, change);
        story.granted(12, "kit.retry-ask.2", 0).calls(15, 2, 200);
        story.reports(16, "kit.retry-ask.2", 200, done(), |_| {}).ends(17, "answered", 200);
        story
    };
    story(|ask| (ask.attempt, ask.previous_lease_id) = (2, "kit.retry-ask.1".to_owned())).is_good();
    story(|ask| ask.attempt = 2).breaks(Rule::Step(Step::Verdict), "previous_lease_id");
    story(|ask| ask.previous_lease_id = "kit.retry-ask.1".to_owned()).breaks(Rule::Number(7), "number of the last, 1");
}

#[test]
fn what_is_over_is_not_sent_again() {
    let mut given_up = Story::of("give-up");
    given_up.asks(0, |_| {}).granted(0, "kit.give-up.1", 0).calls(5, 1, 429);
    given_up.reports(6, "kit.give-up.1", 429, Told::Verdict(Said::GiveUp, None), |_| {});
    let mut again = Story { events: given_up.events.clone(), situation: given_up.situation.clone(), reports: 1 };
    given_up.ends(7, "answered", 429).is_good();
    again.calls(50, 2, 429).ends(60, "answered", 429);
    again.breaks(Rule::Number(1), "sent again after GIVE_UP");
    let mut hidden = Story {
        events: given_up.events[..given_up.events.len() - 1].to_vec(),
        situation: given_up.situation.clone(),
        reports: 1,
    };
    hidden.ends(7, "failed", 0).breaks(Rule::Step(Step::Verdict), "the provider's last answer, 429");

    let mut denied = Story::of("denied");
    denied.asks(0, |_| {}).at(0, What::Answered(Answer::Denied { reason: 1, is_for_ever: false }));
    let before = denied.events.clone();
    denied.ends(1, "denied", 0).is_good();
    let mut sent = Story { events: before, situation: denied.situation.clone(), reports: 0 };
    sent.calls(1, 1, 200).ends(2, "denied", 0);
    sent.breaks(Rule::Number(9), "sent although");
}

#[test]
fn reports_hold_what_they_must_and_nothing_else() {
    let story = |status: u32, change: fn(&mut ReportRequest)| {
        let mut story = Story::of("plain");
        story.asks(0, |_| {}).granted(0, "kit.plain.1", 0).calls(5, 1, 200);
        story.reports(6, "kit.plain.1", status, done(), change).ends(7, "answered", 200);
        story
    };
    story(200, |_| {}).is_good();
    for (change, words) in [
        (
            (|report| report.headers.push(Header { name: "Set-Cookie".to_owned(), value: "a".to_owned() }))
                as fn(&mut ReportRequest),
            "set-cookie",
        ),
        (|report| report.headers.push(Header { name: "x-echo".to_owned(), value: "kit-secret-7f3a".to_owned() }), "x-echo"),
        (|report| report.headers.clear(), "lacks the answer's headers"),
        (|report| report.status = 500, "the report says 500"),
        (|report| report.r#final = false, "final"),
        (|report| report.outcome = Outcome::Abandoned.into(), "OUTCOME_ABANDONED"),
    ] {
        story(200, change).breaks(Rule::Number(4), words);
    }
    let mut twice = story(200, |_| {});
    twice.reports(8, "kit.plain.1", 200, done(), |report| (report.seq, report.outcome) = (2, Outcome::Abandoned.into()));
    twice.breaks(Rule::Step(Step::Report), "came after the last one");
    story(200, |report| report.seq = 0).breaks(Rule::Step(Step::Report), "seq 0");
    story(200, |report| report.age = prost_types::Duration::try_from(ms(90_000)).ok()).breaks(Rule::Step(Step::Report), "age");

    let mut silent = Story::of("plain");
    silent.asks(0, |_| {}).granted(0, "kit.plain.1", 0).calls(5, 1, 200).ends(7, "answered", 200);
    silent.breaks(Rule::Number(4), "nothing was reported");
}

#[test]
fn a_report_without_an_answer_comes_again_under_its_number_and_older() {
    let story = |seq: u32, age: u64| {
        let mut story = Story::of("report-again");
        story.asks(0, |_| {}).granted(0, "kit.report-again.1", 0).calls(5, 1, 200);
        story.reports(6, "kit.report-again.1", 200, Told::Failed, |_| {});
        story.events.last_mut().unwrap().at = ms(806);
        let aged = |report: &mut ReportRequest| (report.seq, report.age) = (seq, prost_types::Duration::try_from(ms(age)).ok());
        story.reports(856, "kit.report-again.1", 200, done(), aged).ends(860, "answered", 200);
        story
    };
    story(1, 850).is_good();
    // Half of it is enough, with what rounding and the way take.
    story(1, 410).is_good();
    story(2, 850).breaks(Rule::Number(8), "came again as 2");
    story(1, 1).breaks(Rule::Step(Step::Report), "said an age of 1 ms");
}

#[test]
fn a_stream_is_reported_at_its_first_byte_and_at_its_end() {
    let story = |first: u64, last: u64, change: fn(&mut ReportRequest)| {
        let mut story = Story::of("stream");
        story.asks(0, |_| {}).granted(0, "kit.stream.1", 0).at(5, What::Arrived { call: 1 });
        story.at(5, What::Replied { call: 1, status: 200, retry_after: None });
        let unspecified = Told::Verdict(Said::Unspecified, None);
        story.reports(first, "kit.stream.1", 200, unspecified, |report| report.r#final = false);
        story.events.last_mut().unwrap().at = ms(1_500);
        story.at(805, What::Ended { call: 1, is_cut: false });
        let end = |report: &mut ReportRequest| {
            (report.seq, report.headers, report.usage) = (2, Vec::new(), [("tokens".to_owned(), 12)].into());
            change(report);
        };
        story.reports(last, "kit.stream.1", 200, done(), end).ends(1_600, "answered", 200);
        story.events.sort_by_key(|event| event.at);
        story
    };
    let report = Rule::Step(Step::Report);
    story(6, 1_501, |_| {}).is_good();
    story(6, 900, |_| {}).breaks(report, "before report 1 was answered");
    // One stream keeps their order, answered or not.
    let mut session = story(6, 900, |_| {});
    for event in &mut session.events {
        if let What::Reported { way, .. } = &mut event.what {
            *way = Way::Session;
        }
    }
    session.is_good();
    story(810, 1_501, |_| {}).breaks(report, "too late");
    story(6, 1_501, |end| end.usage.clear()).breaks(report, "usage");
}

#[test]
fn who_leaves_gives_back_what_it_held() {
    let line = || {
        let mut story = Story::of("leave-line");
        let queued = Answer::Queued { ticket: b"a".to_vec(), come_back_in: ms(2_000) };
        story.asks(0, |_| {}).at(0, What::Answered(queued)).ends(400, "cancelled", 0);
        story
    };
    let mut good = line();
    good.at(410, What::Released { lease: String::new() }).is_good();
    line().breaks(Rule::Number(6), "its place was not given back");

    let slot = || {
        let mut story = Story::of("leave-slot");
        story.asks(0, |_| {}).granted(0, "kit.leave-slot.1", 2_000).ends(400, "cancelled", 0);
        story
    };
    let mut good = slot();
    good.at(410, What::Released { lease: "kit.leave-slot.1".to_owned() }).is_good();
    slot().breaks(Rule::Number(6), "neither used nor released");

    // An adapter that cannot leave makes the call: nothing is said of it.
    let mut stays = Story::of("leave-slot");
    stays.asks(0, |_| {}).granted(0, "kit.leave-slot.1", 2_000).calls(2_001, 1, 200);
    stays.reports(2_002, "kit.leave-slot.1", 200, done(), |_| {}).ends(2_003, "answered", 200);
    assert_eq!(stays.judged(), (Verdict::NotSeen, Vec::new()));
    assert!(stays.situation.is_optional());
}

#[test]
fn what_was_not_seen_is_not_called_good() {
    let mut story = Story::of("retry");
    assert_eq!(Story { events: Vec::new(), ..Story::of("plain") }.judged().0, Verdict::NotSeen);
    story.asks(0, |_| {}).granted(0, "kit.retry.1", 0);
    assert_eq!(story.judged(), (Verdict::NotSeen, Vec::new()));
    let mut held = Story::of("held");
    held.asks(0, |_| {}).asks(500, |_| {});
    held.breaks(Rule::Step(Step::Ask), "while the answer was held");
}

#[test]
fn a_report_may_be_repeated_and_changes_nothing() {
    let mut story = Story::of("retry-ask");
    let retry = || Told::Verdict(Said::Retry, None);
    story.asks(0, |_| {}).granted(0, "kit.retry-ask.1", 0).calls(5, 1, 429);
    story.reports(10, "kit.retry-ask.1", 429, retry(), |_| {}).reports(11, "kit.retry-ask.1", 429, retry(), |_| {});
    story.asks(12, |ask| (ask.attempt, ask.previous_lease_id) = (2, "kit.retry-ask.1".to_owned()));
    story.granted(12, "kit.retry-ask.2", 0).calls(15, 2, 200);
    story.reports(16, "kit.retry-ask.2", 200, done(), |_| {}).reports(17, "kit.retry-ask.2", 200, done(), |_| {});
    story.ends(18, "answered", 200).is_good();
}

#[test]
fn what_comes_before_sending_is_called_what_it_is() {
    let mut reported = Story::of("plain");
    reported.asks(0, |_| {}).granted(0, "kit.plain.1", 0).reports(1, "kit.plain.1", 200, done(), |_| {});
    reported.calls(5, 1, 200).ends(7, "answered", 200);
    reported.breaks(Rule::Step(Step::Report), "a call that was not sent yet");

    let mut released = Story::of("plain");
    released.asks(0, |_| {}).granted(0, "kit.plain.1", 0).at(1, What::Released { lease: "kit.plain.1".to_owned() });
    released.calls(5, 1, 200).reports(6, "kit.plain.1", 200, done(), |_| {}).ends(7, "answered", 200);
    released.breaks(Rule::Number(6), "under a lease that it had given back");

    let mut late = Story::of("plain");
    late.asks(0, |_| {}).granted(0, "kit.plain.1", 0).calls(5, 1, 200).reports(6, "kit.plain.1", 200, done(), |_| {});
    late.at(7, What::Released { lease: "kit.plain.1".to_owned() }).ends(8, "answered", 200);
    late.breaks(Rule::Number(6), "sent and reported");
}

#[test]
fn the_ask_names_the_provider_and_no_key() {
    use super::super::web::SECRET;
    let story = |change: fn(&mut AcquireRequest)| {
        let mut story = Story::of("plain");
        story.asks(0, change).granted(0, "kit.plain.1", 0).calls(5, 1, 200);
        story.reports(6, "kit.plain.1", 200, done(), |_| {}).ends(7, "answered", 200);
        story
    };
    story(|ask| ask.target.as_mut().unwrap().provider = "anthropic".into()).breaks(Rule::Step(Step::Ask), "`anthropic`");
    story(|ask| ask.target.as_mut().unwrap().account = SECRET.into()).breaks(Rule::Number(4), "account");
    story(|ask| ask.tenant = SECRET.into()).breaks(Rule::Number(4), "tenant");
    story(|ask| drop(ask.labels.insert("key".into(), format!("Bearer {SECRET}")))).breaks(Rule::Number(4), "labels");
}

#[test]
fn reports_say_what_was_used_under_numbers_of_their_own() {
    use super::super::web::SECRET;
    let story = |change: fn(&mut ReportRequest)| {
        let mut story = Story::of("plain");
        story.asks(0, |_| {}).granted(0, "kit.plain.1", 0).calls(5, 1, 200);
        let running = |report: &mut ReportRequest| {
            (report.outcome, report.r#final, report.seq) = (Outcome::Running.into(), false, 1);
        };
        story.reports(4, "kit.plain.1", 0, Told::Verdict(Said::Unspecified, None), running);
        story.reports(6, "kit.plain.1", 200, done(), |report| {
            report.seq = 2;
            change(report);
        });
        story.ends(7, "answered", 200);
        story
    };
    let report = Rule::Step(Step::Report);
    story(|report| report.usage = [("tokens".into(), 12)].into()).is_good();
    story(|report| report.usage = [("tokens".into(), 19)].into()).breaks(report, "12 tokens");
    story(|report| report.seq = 1).breaks(report, "RUNNING had the number 1");
    story(|report| report.body = SECRET.into()).breaks(Rule::Number(4), "a body that holds");
}

#[test]
fn who_comes_back_from_the_line_late_misses_its_turn() {
    let mut story = Story::of("queued");
    story.asks(0, |_| {}).at(0, What::Answered(Answer::Queued { ticket: b"a".to_vec(), come_back_in: ms(700) }));
    story.asks(3_700, |ask| ask.ticket = b"a".to_vec()).granted(3_700, "kit.queued.1", 0).calls(3_705, 1, 200);
    story.reports(3_706, "kit.queued.1", 200, done(), |_| {}).ends(3_707, "answered", 200);
    story.breaks(Rule::Step(Step::Ask), "misses its turn");
}
